// The move from a real Mosquitto: the same clients with the same passwords, before and after.

import Administration
import Foundation
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct MosquittoImportTests {
        private let files: TemporaryDirectory

        init() throws { files = try TemporaryDirectory("import") }

        private func write(_ name: String, _ lines: [String]) throws {
            try Data(lines.joined(separator: "\n").appending("\n").utf8)
                .write(to: URL(filePath: files.file(name)))
        }

        private func passwords(_ users: [(name: String, password: String, kind: String)])
            async throws
        {
            try write("passwd", [])
            for user in users {
                let child = try ChildProcess(
                    "/usr/bin/mosquitto_passwd",
                    ["-H", user.kind, "-b", files.file("passwd"), user.name, user.password])
                #expect(try await child.exit() == .code(0), "\(child.text)")
            }
        }

        private static let accessList = [
            "# what nobody without a name may", "topic read $SYS/#", "user alice",
            "topic readwrite site/#", "topic deny other/#", "user bob/1", "topic write in/50%/x",
            "", "pattern read dev/%c/%u/#",
        ]

        /// The exit of one of Mosquitto's clients, and what it printed.
        private func run(
            _ program: String, port: UInt16, _ user: String, _ password: String, _ words: String...
        ) async throws -> (exit: ChildExit, lines: [String]) {
            let child = try ChildProcess(
                "/usr/bin/mosquitto_\(program)",
                [
                    "-h", "127.0.0.1", "-p", "\(port)", "-V", "5", "-u", user, "-P", password,
                ] + words)
            return (try await child.exit(), child.lines)
        }

        /// What clients meet on either broker.
        private func expectService(port: UInt16) async throws {
            for (user, password) in [("alice", "apw"), ("bob/1", "bpw"), ("carl", "cpw")] {
                let good = try await run("pub", port: port, user, password, "-t", "x", "-m", "y")
                #expect(good.exit == .code(0), "\(user): \(good.lines)")
                let bad = try await run("pub", port: port, user, "wrong", "-t", "x", "-m", "y")
                #expect(bad.exit != .code(0), "\(user)")
            }
            let kept = try await run(
                "sub", port: port, "alice", "apw", "-t", "site/#", "-C", "2", "-W", "50", "-F",
                "%t %r %p %C")
            #expect(Set(kept.lines) == ["site/a 1 one ", "site/b 1 two text/plain"])
            // Who may publish where: it arrives, or does not.
            let sub = try ChildProcess(
                "/usr/bin/stdbuf",
                [
                    "-oL", "/usr/bin/mosquitto_sub", "-h", "127.0.0.1", "-p", "\(port)", "-u",
                    "bob/1", "-P", "bpw", "-i", "c7", "-t", "dev/c7/bob/1/#", "-d",
                ])
            _ = try await sub.line(with: "Subscribed (mid: 1): 0")
            sub.signal(SIGKILL)
        }

        @Test func `the same clients are served before and after`() async throws {
            try await passwords([
                ("alice", "apw", "sha512-pbkdf2"), ("bob/1", "bpw", "sha512"),
                ("carl", "cpw", "sha512-pbkdf2"),
            ])
            try write("acl", Self.accessList)
            let port = try ReservedPort()
            let settings = [
                "listener \(port) 127.0.0.1", "allow_anonymous false",
                "password_file \(files.file("passwd"))", "acl_file \(files.file("acl"))",
                "max_inflight_messages 30",
            ]
            let mosquitto = try await Mosquitto(port: port, settings: settings)
            for (topic, text, type) in [("site/a", "one", ""), ("site/b", "two", "text/plain")] {
                let words = type.isEmpty ? [] : ["-D", "publish", "content-type", type]
                let child = try ChildProcess(
                    "/usr/bin/mosquitto_pub",
                    [
                        "-h", "127.0.0.1", "-p", "\(port)", "-V", "5",
                        "-u", "alice", "-P", "apw", "-r", "-q", "1", "-t", topic, "-m", text,
                    ] + words)
                #expect(try await child.exit() == .code(0), "\(child.text)")
            }
            try await expectService(port: port.number)
            let sleeper = try await run(
                "sub", port: port.number, "alice", "apw", "-i", "sleeper", "-c", "-x", "3600",
                "-q", "1", "-t", "site/#", "-E")
            #expect(sleeper.exit == .code(0))
            for (text, qos) in [("first", "1"), ("second", "2"), ("third", "1")] {
                let sent = try await run(
                    "pub", port: port.number, "alice", "apw", "-t", "site/q", "-q", qos, "-m", text,
                    "-D", "publish", "content-type", "text/q")
                #expect(sent.exit == .code(0))
            }
            mosquitto.process.signal(SIGTERM)
            _ = try await mosquitto.process.exit()

            let broker = try await TestBroker(settings: [], plainOptions: "?passwords=demo")
            func importAll(_ words: [String] = []) async throws -> [String] {
                let child = try ChildProcess(
                    "martlet",
                    ["import", "mosquitto", "--config", "\(mosquitto.directory)/mosquitto.conf"]
                        + words, environment: try broker.environment("operator"))
                // A line is NOT TAKEN.
                #expect(try await child.exit() == .code(6), "\(child.text)")
                return child.lines
            }
            let dry = try await importAll(["--dry-run"])
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            #expect(try administration.send(ListPasswords(app: "demo")).passwords.isEmpty)
            let output = ["--output", files.file("martlet.json5")]
            _ = try await importAll(output + ["--dry-run"])
            #expect(access(files.file("martlet.json5"), F_OK) != 0)
            let lines = try await importAll(output)
            #expect(lines.filter { $0.contains("\t") } == dry.filter { $0.contains("\t") })
            for words in [
                "\(files.file("passwd")):2\tuser bob/1, 2 rights; messages know it as bob_1",
                "NOT TAKEN\t\(files.file("acl")):2\ttopic read $SYS/# before the first user",
                "changed\t\(mosquitto.directory)/mosquitto.db\tretained site/a"
                    .replacing("changed", with: "taken"),
                "taken\t\(mosquitto.directory)/mosquitto.db\tthe session of client sleeper with 1 "
                    + "subscriptions and 5 queued messages",
                "max_inflight_messages 30: limits.inboxWindow",
            ] {
                #expect(lines.contains { $0.contains(words) }, "\(words)\n\(lines)")
            }
            try await expectService(port: broker.plainPort)
            let written = try String(contentsOfFile: files.file("martlet.json5"), encoding: .utf8)
            #expect(written.contains("tcp://127.0.0.1:\(port)?passwords=demo"))
            let check = try ChildProcess(
                "martletd", ["--check-config", "--config", files.file("martlet.json5")])
            #expect(try await check.exit() == .code(0), "\(check.text)")
            // Nothing twice.
            // Never over another file, and nothing is taken then.
            let refused = try ChildProcess(
                "martlet",
                ["import", "mosquitto", "--config", "\(mosquitto.directory)/mosquitto.conf"]
                    + output, environment: try broker.environment("operator"))
            #expect(try await refused.exit() == .code(2), "\(refused.text)")
            #expect(refused.text.contains("martlet.json5 exists already"), "\(refused.text)")
            #expect(
                try String(contentsOfFile: files.file("martlet.json5"), encoding: .utf8) == written)
            let again = try await importAll()
            #expect(again.contains { $0.contains("client sleeper") && $0.contains("completed") })
            let woken = try await run(
                "sub", port: broker.plainPort, "alice", "apw", "-i", "sleeper", "-c", "-x", "3600",
                "-q", "2", "-t", "site/none", "-C", "5", "-W", "50", "-F", "%t %p %C")
            #expect(
                woken.lines.suffix(3)
                    == ["first", "second", "third"].map { "site/q \($0) text/q" },
                "\(woken.lines)")
            // Nothing that has happened since is undone.
            _ = try administration.send(
                SendMessage(
                    app: "demo", from: "carl", topic: "site/a", payload: "newer", isRetained: true))
            _ = try administration.send(
                ExpirePassword(app: "demo", name: "carl", expirySeconds: 9_999))
            let connected = try ChildProcess(
                "/usr/bin/stdbuf",
                [
                    "-oL", "/usr/bin/mosquitto_sub", "-h", "127.0.0.1", "-p",
                    "\(broker.plainPort)", "-u", "alice", "-P", "apw", "-t", "site/#", "-d",
                ])
            _ = try await connected.line(with: "Subscribed")
            let retained = try administration.retainedTime("site/b")
            let third = try await importAll()
            #expect(third.contains { $0.contains("site/a: carl has published another one") })
            connected.signal(SIGKILL)
            #expect(!connected.text.contains("Refused") && !connected.text.contains("DISCONNECT"))
            // What was retained as it is now is not published again.
            #expect(try administration.retainedTime("site/b") == retained)
            let taken = try administration.send(ListPasswords(app: "demo")).passwords
            #expect(taken.count == 3 && taken.last?.expiresUnixSeconds != nil)
            let kept = try administration.send(ShowRetained(app: "demo", topic: "site/a"))
            #expect(kept.content.text == "newer")
        }

        @Test func `the database of the plugin persist-sqlite is taken like the store`()
            async throws
        {
            try await passwords([("alice", "apw", "sha512-pbkdf2")])
            try write(
                "mosquitto.conf",
                [
                    "listener 1883", "allow_anonymous false",
                    "password_file \(files.file("passwd"))",
                    "plugin /usr/lib/x86_64-linux-gnu/mosquitto_persist_sqlite.so",
                    "persistence_location \(files.path)",
                ])
            var database = PluginDatabase()
            let type = #"[{"identifier":"content-type","value":"text/q"}]"#
            database.addMessage(1, topic: "site/a", payload: "kept", properties: type)
            database.retain(1, on: "site/a")
            database.addClient("sleeper", user: "alice", interval: 3_600)
            database.addSubscription("site/#", client: "sleeper")
            for number in [4, 3, 2] {
                database.addMessage(
                    number, topic: "site/q", payload: "m\(number)", properties: type)
                database.addWaiting(number, client: "sleeper")
            }
            try database.write(to: files.file("mosquitto.sqlite3"))
            let broker = try await TestBroker(settings: [], plainOptions: "?passwords=demo")
            func importAll() async throws -> (exit: ChildExit, lines: [String]) {
                let child = try ChildProcess(
                    "martlet", ["import", "mosquitto", "--config", files.file("mosquitto.conf")],
                    environment: try broker.environment("operator"))
                return (try await child.exit(), child.lines)
            }
            let first = try await importAll()
            #expect(first.exit == .code(0), "\(first.lines)")
            #expect(
                first.lines.contains { $0.hasPrefix("taken") && $0.contains("client sleeper") })
            let woken = try await run(
                "sub", port: broker.plainPort, "alice", "apw", "-i", "sleeper", "-c", "-x", "3600",
                "-q", "2", "-t", "site/none", "-C", "3", "-W", "50", "-F", "%t %p %C")
            #expect(
                woken.lines == ["m4", "m3", "m2"].map { "site/q \($0) text/q" }, "\(woken.lines)")
            let kept = try await run(
                "sub", port: broker.plainPort, "alice", "apw", "-t", "site/#", "-C", "1", "-W",
                "50", "-F", "%t %r %p %C")
            #expect(kept.lines == ["site/a 1 kept text/q"], "\(kept.lines)")
            let again = try await importAll()
            #expect(again.exit == .code(6))
            #expect(
                again.lines.contains { $0.contains("client sleeper") && $0.contains("completed") })
        }

        @Test func `a bad message or filter does not refuse the session`() async throws {
            let broker = try await TestBroker()
            try broker.addUsers("alice", "import")
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            let long = String(repeating: "c", count: 256)
            func send(
                _ messages: [String], at position: UInt64, filters: [String]?
            ) throws -> ImportSession.Reply {
                try administration.send(
                    ImportSession(
                        app: "demo", user: "alice", device: "sleeper", expirySeconds: nil,
                        from: "import", position: position, messages: messages, filters: filters))
            }
            let first = try send(["1\n\n\neA==\nq/1"], at: 0, filters: nil)
            #expect(first.state == "taken" && first.position == 1)
            let last = try send(
                [
                    "1\n\n\neA==\nbad/#", "1\n\n\neA==\nq/2", "1\n\n\(long)\neA==\nq/3",
                    "1\n\n\neA==\n",
                ],
                at: 1,
                filters: [
                    "1\n0\nq/#", "1\n0\nq/#/z", "63\n0\nq/1", "1\n4294967295\nq/2",
                    "1\n0\n$share/+/q", "1\n0\n$u/bob",
                ])
            #expect(last.state == "taken" && last.position == 5 && last.messageCount == 2)
            #expect(last.refusedCount == 3)
            #expect(
                last.refusedFilters == ["q/#/z", "q/1", "q/2", "$share/+/q", "$u/bob"])
            let sessions = try administration.send(
                ListSessions(SessionSelection(app: "demo", user: "alice"))
            ).sessions
            #expect(sessions.map(\.filters) == [["q/#"]])
        }

        @Test func `messages that are sent together have their answers in order`() async throws {
            let broker = try await TestBroker()
            try broker.addUsers("alice", "bob")
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            let before = try broker.counter("store/batches")
            let results = try administration.send(
                all: (0..<AdministrationLine.requestsTogetherMaximum).map { number in
                    SendMessage(
                        app: "demo", from: "alice", users: [number % 7 == 3 ? "nobody" : "bob"],
                        b: "number \(number)")
                })
            #expect(results.count == AdministrationLine.requestsTogetherMaximum)
            for (number, result) in results.enumerated() {
                let isTaken = if case .success = result { true } else { false }
                #expect(isTaken == (number % 7 != 3), "\(number): \(result)")
            }
            let texts = (0..<results.count).filter { $0 % 7 != 3 }.map { "number \($0)" }
            // How many share a commit depends on how fast the disk is.
            #expect(try broker.counter("store/batches") - before < UInt64(texts.count))
            let bob = try await broker.client("bob")
            #expect(try await bob.nextTexts(texts.count) == texts)
        }

        @Test func `half-broken files are told line by line, and the rest is taken`() async throws {
            try await passwords([("alice", "apw", "sha512-pbkdf2")])
            var lines = try String(contentsOfFile: files.file("passwd"), encoding: .utf8)
                .split(separator: "\n").map(String.init)
            lines += [
                "zoe:plain", "broken", lines[0], ":$7$", "ann:$2y$05$abcdefghijklmnopqrstuu",
                "costly:" + lines[0].dropFirst(6).replacing("$7$101$", with: "$7$999999$"),
            ]
            try write("passwd", lines)
            try write(
                "acl",
                [
                    "topic", "user", "nonsense", "user alice", "topic read a/#/b",
                    "topic write read x", "topic fly x", "topic read a/#", "topic deny a/secret",
                    "topic deny a/b", "topic write a/b", "pattern deny a/%u", "user dora",
                    "topic read d",
                ])
            try Data(
                [0x00, 0xB5, 0x00] + Array("mosquitto db".utf8) + [0, 0, 0, 0, 0, 0, 0, 6, 0]
            )
            .write(to: URL(filePath: files.file("mosquitto.db")))
            try write(
                "mosquitto.conf",
                [
                    "listener 1x", "password_file \(files.file("passwd"))",
                    "acl_file \(files.file("acl"))", "persistence true",
                    "persistence_location \(files.path)", "psk_file \(files.file("psk"))",
                    "max_keepalive many",
                ])
            let broker = try await TestBroker()
            let child = try ChildProcess(
                "martlet",
                ["import", "mosquitto", "--config", files.file("mosquitto.conf")],
                environment: try broker.environment("operator"))
            #expect(try await child.exit() == .code(6), "\(child.text)")
            for words in [
                "user zoe: the hash is of no known kind", "the line is not NAME:HASH",
                "user alice is there twice", "user ann: the hash is of no known kind",
                "user costly: the number of iterations of the hash is 999999",
                "the line has no topic", "user without a name", "nonsense is no user",
                "a/#/b is no filter", "fly is no access", "would receive a/secret",
                "a/b is allowed and denied", "the pattern denies a/%u", "user dora has topics",
                "the store ends within a chunk", "no listener with psk_hint is there",
                "only TCP ports are taken", "many is no number",
            ] {
                #expect(child.text.contains(words), "\(words)\n\(child.text)")
            }
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            let taken = try administration.send(ListPasswords(app: "demo")).passwords
            #expect(taken.map(\.name) == ["alice"])
            #expect(
                taken.first?.rights == [
                    "!subscribe:a/secret", "!publish:a/secret", "!subscribe:a/b", "!publish:a/b",
                    "!subscribe:a/%u", "!publish:a/%u", "publish:read x", "subscribe:a/#",
                    "publish:a/b",
                ])
        }
    }
}

extension AdministrationClient {
    /// When a retained message was published.
    fileprivate func retainedTime(_ topic: String) throws -> UInt64 {
        try send(ShowRetained(app: "demo", topic: topic)).message.unixMilliseconds
    }
}
