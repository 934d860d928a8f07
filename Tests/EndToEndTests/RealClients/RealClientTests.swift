// Third-party MQTT clients against a real broker: Mosquitto's command line, Paho for Python and
// Paho for C. `make test` installs them; if one is missing, its tests fail and name it.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct RealClientTests {
        /// A broker with a user's token, and how its clients are called.
        private struct Site {
            let broker: TestBroker
            let token: String

            init() async throws {
                broker = try await TestBroker()
                token = try broker.token("alice")
            }

            /// Starts a client of Mosquitto's, over TLS and with the token as password.
            func mosquitto(
                _ program: String, _ version: String, _ words: String..., token: String? = nil
            ) throws -> ChildProcess {
                try start(
                    program, version, port: broker.tlsPort,
                    ["--cafile", broker.authority, "-u", "demo/alice", "-P", token ?? self.token]
                        + words)
            }

            /// Starts one without TLS or credentials.
            func plain(
                _ program: String, _ version: String, _ words: String...
            ) throws -> ChildProcess {
                try start(program, version, port: broker.plainPort, words)
            }

            func start(
                _ program: String, _ version: String, port: UInt16, _ words: [String]
            ) throws -> ChildProcess {
                let path = try client(
                    "/usr/bin/mosquitto_\(program)", package: "mosquitto-clients")
                // Its lines are to come when they are written, not when a block is full.
                return try ChildProcess(
                    "/usr/bin/stdbuf",
                    ["-oL", path, "-V", version, "-h", "localhost", "-p", "\(port)"] + words)
            }

            func martlet(_ user: String, _ words: String...) throws -> ChildProcess {
                try ChildProcess("martlet", words, environment: broker.environment(user))
            }
        }

        static let versions = ["31", "311", "5"]

        /// A program of another package, which has to be there.
        private static func client(_ path: String, package: String) throws -> String {
            guard FileManager.default.isExecutableFile(atPath: path) else {
                throw TestFailure("\(path) is missing: install \(package), as `make test` does")
            }
            return path
        }

        private static let folder = URL(filePath: #filePath).deletingLastPathComponent().path

        private func expectEnd(_ child: ChildProcess) async throws {
            #expect(try await child.exit() == .code(0), "\(child.text)")
        }

        // MARK: - Mosquitto

        @Test(arguments: versions)
        func `mosquitto_pub and mosquitto_sub speak over TLS in every QoS`(
            version: String
        ) async throws {
            let site = try await Site()
            let sub = try site.mosquitto(
                "sub", version, "-q", "2", "-t", "tls/+/x", "-C", "3", "-F", "%t %q %p", "-d")
            _ = try await sub.line(with: "Subscribed")
            for qos in ["0", "1", "2"] {
                try await expectEnd(
                    site.mosquitto(
                        "pub", version, "-q", qos, "-t", "tls/\(qos)/x", "-m", "m\(qos)"))
            }
            try await expectEnd(sub)
            for qos in ["0", "1", "2"] {
                #expect(sub.lines.contains("tls/\(qos)/x \(qos) m\(qos)"))
            }
            // A wrong token is told so.
            let stranger = try site.mosquitto(
                "pub", version, "-t", "x", "-m", "x", token: "mt1_wrong")
            #expect(try await stranger.exit() != .code(0))
        }

        @Test(arguments: versions)
        func `Mosquitto's clients use plain TCP, and set, replace and clear retained messages`(
            version: String
        ) async throws {
            let site = try await Site()
            for text in ["old", "new"] {
                try await expectEnd(
                    site.plain("pub", version, "-q", "1", "-r", "-t", "kept", "-m", text))
            }
            let late = try site.plain(
                "sub", version, "-q", "1", "-t", "#", "-C", "1", "-F", "%t %r %p")
            try await expectEnd(late)
            #expect(late.lines == ["kept 1 new"])
            try await expectEnd(site.plain("pub", version, "-q", "1", "-r", "-t", "kept", "-n"))
            try await expectEnd(
                site.plain("pub", version, "-q", "1", "-r", "-t", "left", "-m", "x"))
            let later = try site.plain("sub", version, "-t", "#", "-C", "1", "-F", "%t")
            try await expectEnd(later)
            #expect(later.lines == ["left"])
        }

        @Test(arguments: versions)
        func `messages wait for a persistent session, through kill -9 of the broker`(
            version: String
        ) async throws {
            let site = try await Site()
            let keeping = ["-c", "-i", "sleeper", "-q", "2", "-t", "sleep/#"]
            let expiry = version == "5" ? ["-x", "600"] : []
            func sleeper(_ words: [String]) throws -> ChildProcess {
                try site.start(
                    "sub", version, port: site.broker.plainPort, keeping + expiry + words)
            }
            try await expectEnd(sleeper(["-E"]))
            for (qos, text) in [("1", "one"), ("2", "two"), ("1", "three")] {
                try await expectEnd(
                    site.plain("pub", version, "-q", qos, "-t", "sleep/x", "-m", text))
            }
            try await expectEnd(
                site.plain("pub", version, "-q", "1", "-r", "-t", "kept/x", "-m", "retained"))
            try await site.broker.killNow()
            try await site.broker.start()
            let awake = try sleeper(["-C", "3"])
            try await expectEnd(awake)
            // What came with QoS 2 is told when its exchange is over.
            #expect(awake.lines.sorted() == ["one", "three", "two"])
            let kept = try site.plain("sub", version, "-t", "kept/#", "-C", "1")
            try await expectEnd(kept)
            #expect(kept.lines == ["retained"])
        }

        @Test(arguments: versions)
        func `the will of a killed client is sent`(version: String) async throws {
            let site = try await Site()
            let sub = try site.plain("sub", version, "-q", "1", "-t", "will", "-C", "1", "-d")
            _ = try await sub.line(with: "Subscribed")
            let dying = try site.plain(
                "sub", version, "-t", "other", "-d", "--will-topic", "will", "--will-payload",
                "gone", "--will-qos", "1")
            _ = try await dying.line(with: "Subscribed")
            dying.signal(SIGKILL)
            try await expectEnd(sub)
            #expect(sub.lines.contains("gone"))
        }

        @Test func `a will outlives kill -9 of the broker, and waits for its client's return`()
            async throws
        {
            let site = try await Site()
            // 1.5 times this is less than the minute that every client has.
            func willed(_ version: String, _ payload: String) throws -> ChildProcess {
                try site.plain(
                    "sub", version, "-i", payload, "-k", "30", "-t", "other", "-d",
                    "--will-topic", "wills", "--will-payload", payload, "--will-qos", "2")
            }
            let lost = try Self.versions.map { try willed($0, "lost \($0)") }
            let back = try Self.versions.map { try willed($0, "back \($0)") }
            for client in lost + back { _ = try await client.line(with: "Subscribed") }
            try await site.broker.killNow()
            for client in lost { client.signal(SIGKILL) }
            let start = ContinuousClock.now
            try await site.broker.start()
            let sub = try site.plain("sub", "5", "-q", "2", "-t", "wills", "-C", "3")
            // Mosquitto's clients come back by themselves.
            try await eventually("all who live are back") {
                try site.broker.counter("clients/connected") == 4
            }
            try await eventually(within: 75, "the wills of those who are lost") {
                try site.broker.counter("wills/count") == 3
            }
            #expect(ContinuousClock.now - start > .seconds(59))
            try await expectEnd(sub)
            #expect(Set(sub.lines) == Set(Self.versions.map { "lost \($0)" }))
            #expect(try site.broker.counter("wills/count") == 3)
            for client in back { client.signal(SIGKILL) }
        }

        @Test func `a shared subscription divides its messages`() async throws {
            let site = try await Site()
            let members = try (0..<2).map { _ in
                try site.plain(
                    "sub", "5", "-q", "1", "-t", "$share/workers/jobs/#", "-C", "3", "-d", "-F",
                    "job %p")
            }
            for member in members { _ = try await member.line(with: "Subscribed") }
            for job in 0..<6 {
                try await expectEnd(
                    site.plain("pub", "5", "-q", "1", "-t", "jobs/x", "-m", "\(job)"))
            }
            for member in members { try await expectEnd(member) }
            let jobs = members.flatMap { $0.lines.filter { $0.hasPrefix("job ") } }
            #expect(jobs.sorted() == (0..<6).map { "job \($0)" })
        }

        @Test func `mosquitto_rr gets its response`() async throws {
            let site = try await Site()
            let answering = try site.plain(
                "sub", "5", "-t", "question", "-C", "1", "-d", "-F", "to %R with %D")
            _ = try await answering.line(with: "Subscribed")
            let asking = try site.plain(
                "rr", "5", "-t", "question", "-e", "answer", "-m", "?", "-W", "50", "-d")
            try await expectEnd(answering)
            #expect(answering.lines.contains { $0.hasPrefix("to answer") })
            try await expectEnd(site.plain("pub", "5", "-q", "1", "-t", "answer", "-m", "42"))
            try await expectEnd(asking)
            #expect(asking.lines.contains("42"))
        }

        @Test(arguments: versions)
        func `MQTT and MRT clients exchange messages, by topic and by address`(version: String)
            async throws
        {
            let site = try await Site()
            try site.broker.addUsers("bob")
            let sub = try site.mosquitto(
                "sub", version, "-q", "1", "-t", "cross/x", "-t", "$u/alice", "-C", "2", "-d")
            _ = try await sub.line(with: "Subscribed")
            for target in [["--topic", "cross/x"], ["--to", "alice"]] {
                let send = try ChildProcess(
                    "martlet", ["send"] + target + ["from MRT"],
                    environment: site.broker.environment("bob"))
                try await expectEnd(send)
            }
            try await expectEnd(sub)
            #expect(sub.text.contains("from MRT"))
            #expect(sub.lines.contains { $0.contains(#"{"msg":{"t":"0","b":"from MRT"}"#) })
            let json = #"{"t":"0","b":"from MQTT"}"#
            try await expectEnd(
                site.mosquitto("pub", version, "-q", "1", "-t", "$u/bob", "-m", json))
            let listen = try site.martlet("bob", "listen", "--count=1", "--timeout=50s")
            try await expectEnd(listen)
            #expect(listen.lines.last == "alice (unicast): from MQTT")
        }

        // MARK: - Paho

        @Test func `Paho for Python receives its properties, aliases and limits`() async throws {
            let site = try await Site()
            let python = try Self.client("/usr/bin/python3", package: "python3-paho-mqtt")
            let script = try ChildProcess(
                python,
                [
                    "-B", "\(Self.folder)/properties.py", "\(site.broker.tlsPort)",
                    site.broker.authority, site.token,
                ])
            let exit = try await script.exit(within: 100)
            #expect(exit == .code(0), "is python3-paho-mqtt there? \(script.text)")
            #expect(script.lines.filter { $0.hasSuffix(" well") }.count == 4)
        }

        @Test(arguments: ["3.1.1", "5"])
        func `an actuator with Paho for Python tells that a message is not applied`(
            version: String
        ) async throws {
            let site = try await Site()
            let sender = try await site.broker.client("bob")
            let python = try Self.client("/usr/bin/python3", package: "python3-paho-mqtt")
            let script = try ChildProcess(
                python,
                [
                    "-B", "\(Self.folder)/actuator.py", "\(site.broker.tlsPort)", version,
                    site.broker.authority, site.token,
                ])
            _ = try await script.line(with: "ready")
            var message = OutgoingMessage(to: .user("alice"), text: "open")
            message.receipts = [.delivered, .applied]
            _ = try await sender.send(message)
            let exit = try await script.exit()
            #expect(exit == .code(0), "\(script.text)")
            #expect(script.lines.suffix(2) == ["asks delivered applied", "reply success"])
            var told: [String] = []
            while told.count < 2 {
                let event = try await sender.nextMessage()
                sender.acknowledge(event)
                guard case .receipt(let receipt?) = event.kind else { continue }
                switch receipt.event {
                case .delivered: told.append("delivered")
                case .applied(_, let code, let text): told.append("applied \(code) \(text)")
                case .counts, .other: told.append("\(receipt.event)")
                }
            }
            #expect(Set(told) == ["delivered", "applied 131 too hot"])
            await sender.close()
        }

        @Test(arguments: ["1", "2"])
        func `Paho for C loses nothing while the broker is killed`(qos: String) async throws {
            let site = try await Site()
            let program = try await compiledExchange(site.broker)
            let server = "tcp://localhost:\(site.broker.plainPort)"
            let collect = try ChildProcess(
                program, ["collect", server, "collector", "exchange", qos])
            _ = try await collect.line(with: "subscribed")
            let publish = try ChildProcess(
                program, ["publish", server, "publisher", "exchange", qos, "40"])
            for number in [10, 25] {
                _ = try await publish.line(with: "acknowledged \(number)")
                try await site.broker.killNow()
                try await site.broker.start()
                for client in [collect, publish] { client.signal(SIGUSR1) }
            }
            try await expectEnd(publish)
            try await expectEnd(collect)
            let numbers = collect.lines.compactMap(Int.init)
            #expect(Set(numbers) == Set(0..<40))
            if qos == "2" { #expect(numbers.count == 40, "\(numbers)") }
        }

        /// Builds the C client next to the broker's data.
        private func compiledExchange(_ broker: TestBroker) async throws -> String {
            let program = "\(broker.directory)/../exchange"
            let gcc = try Self.client("/usr/bin/gcc", package: "gcc")
            let compile = try ChildProcess(
                gcc,
                [
                    "-Wall", "-Wextra", "-Werror", "-O1", "-o", program,
                    "\(Self.folder)/exchange.c", "-lpaho-mqtt3c",
                ])
            let exit = try await compile.exit()
            #expect(exit == .code(0), "is libpaho-mqtt-dev there? \(compile.text)")
            return program
        }
    }
}
