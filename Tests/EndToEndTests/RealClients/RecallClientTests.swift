// Recall, replace and collapse key through each kind of client once: commands, MQTT, JSON, HTTP;
// one user through MQTT and MRT too.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct RecallClientTests {
        private func run(
            _ program: String, _ words: [String], environment: [String: String] = [:]
        ) async throws -> (exit: ChildExit, text: String) {
            let child = try ChildProcess(program, words, environment: environment)
            return (try await child.exit(), child.text)
        }

        private func martlet(
            _ words: String..., of broker: TestBroker, as user: String
        ) async throws -> (exit: ChildExit, text: String) {
            try await run("martlet", words, environment: broker.environment(user))
        }

        /// On the plain port a client id is the user.
        private func publish(
            as user: String, to receiver: String, _ properties: [(String, String)], _ text: String,
            of broker: TestBroker
        ) async throws {
            var words = [
                "-V", "5", "-h", "localhost", "-p", "\(broker.plainPort)", "-i", user, "-q", "1",
                "-t", "$u/\(receiver)", "-m", #"{"t":"0","b":"\#(text)"}"#,
            ]
            for (name, value) in properties {
                words += ["-D", "publish", "user-property", name, value]
            }
            let (exit, text) = try await run("/usr/bin/mosquitto_pub", words)
            #expect(exit == .code(0), "\(text)")
        }

        private func api(
            _ operation: String, _ members: String, as user: String, version: String,
            of broker: TestBroker
        ) async throws -> String {
            try await run(
                "/usr/bin/mosquitto_rr",
                [
                    "-V", version, "-h", "localhost", "-p", "\(broker.plainPort)", "-i", user, "-q",
                    "1", "-e", "$api/reply", "-t", "$api/\(operation)", "-m", members,
                ]
            ).text
        }

        private func subscriber(
            _ user: String, version: String, count: Int, of broker: TestBroker
        ) async throws -> ChildProcess {
            let child = try ChildProcess(
                "/usr/bin/stdbuf",
                [
                    "-oL", "/usr/bin/mosquitto_sub", "-V", version, "-h", "localhost", "-p",
                    "\(broker.plainPort)", "-i", user, "-q", "1", "-t", "$u/\(user)", "-C",
                    "\(count)", "-d",
                ])
            _ = try await child.line(with: "Subscribed")
            return child
        }

        @Test func `commands recall and replace what they sent`() async throws {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            try broker.addUsers("carol")
            let sent = try await martlet(
                "send", "--to=bob,carol", "--message-id=m-1", "--reference", "open", of: broker,
                as: "alice")
            #expect(sent.exit == .code(0) && sent.text.contains("reference "), "\(sent.text)")
            #expect(try await bob.nextTexts(1) == ["open"])
            let replaced = try await martlet(
                "replace", "m-1", "close", "--detail=sorry", of: broker, as: "alice")
            #expect(replaced.exit == .code(0) && replaced.text.contains("replaced for 1 user"))
            #expect(replaced.text.contains("too late for 1 user, who are told: bob"))
            let line = sent.text.split(separator: "\n").first { $0.hasPrefix("reference ") }
            let reference = try #require(line?.dropFirst(10))
            let recalled = try await martlet(
                "recall", "--reference=\(reference)", "--json", of: broker, as: "alice")
            #expect(recalled.text.contains(#"{"withdrawn":1,"late":1,"lateUsers":["bob"]}"#))
            let listened = try await martlet(
                "listen", "--count=2", of: broker, as: "bob")
            #expect(listened.text.contains("alice (update): \(reference) (m-1), sorry: close"))
            #expect(listened.text.contains("alice (recall): \(reference) (m-1)"))
            for text in ["40", "45", "50"] {
                let sent = try await martlet(
                    "send", "--to=carol", "--collapse=set-point", text, of: broker, as: "alice")
                #expect(sent.exit == .code(0))
            }
            let carol = try await martlet(
                "listen", "--count=1", "--json", of: broker, as: "carol")
            #expect(carol.text.contains(#""b":"50""#), "\(carol.text)")
            let foreign = try await martlet("recall", "m-1", of: broker, as: "carol")
            #expect(foreign.exit == .code(144) && foreign.text.contains("you sent no such message"))
            let mistakes = [
                ["recall"], ["recall", "a", "b"], ["replace"], ["recall", "--type=1", "a"],
            ]
            for words in mistakes {
                let usage = try await run(
                    "martlet", words, environment: broker.environment("alice"))
                #expect(usage.exit == .code(1), "\(words)")
            }
            await bob.close()
        }

        @Test func `MQTT clients recall, replace and collapse, and are told`() async throws {
            let broker = try await TestBroker(web: true)
            try broker.addUsers("bob", "carol", "frank")
            let five = try await subscriber("bob", version: "5", count: 3, of: broker)
            let properties = [("reference", "1"), ("mid", "m-1"), ("to", "bob"), ("to", "carol")]
            var words = [
                "-V", "5", "-h", "localhost", "-p", "\(broker.plainPort)", "-i", "frank", "-q", "1",
                "-t", "$u", "-m", #"{"t":"0","b":"open"}"#,
            ]
            for (name, value) in properties {
                words += ["-D", "publish", "user-property", name, value]
            }
            let sent = try await run("/usr/bin/mosquitto_pub", words)
            #expect(sent.exit == .code(0), "\(sent.text)")
            _ = try await five.line(with: #""b":"open""#)
            let replaced = try await api(
                "replace", #"{"mid":"m-1","t":0,"b":"close"}"#, as: "frank", version: "311",
                of: broker)
            #expect(
                replaced.contains(#""withdrawn":1,"late":1,"lateUsers":["bob"]"#), "\(replaced)")
            _ = try await five.line(with: #""event":"MESSAGE_UPDATE""#, #""t":0,"b":"close""#)
            let recalled = try await api(
                "recall", #"{"mid":"m-1","detail":"late"}"#, as: "frank", version: "5", of: broker)
            #expect(recalled.contains(#""withdrawn":1,"late":1"#), "\(recalled)")
            _ = try await five.line(
                with: #""event":"MESSAGE_RECALL""#, #""mid":"m-1","code":0,"detail":"late""#,
                #""from":"frank""#)
            #expect(try await five.exit() == .code(0))
            let foreign = try await api(
                "recall", #"{"mid":"m-1"}"#, as: "bob", version: "5", of: broker)
            #expect(foreign.contains(#""reason":144"#), "\(foreign)")
            // Its session stays, and gets what waits for it.
            let session = [
                "-V", "311", "-h", "localhost", "-p", "\(broker.plainPort)", "-i", "carol", "-q",
                "1", "-t", "$u/carol", "-c",
            ]
            let asleep = try await run("/usr/bin/mosquitto_sub", session + ["-E"])
            #expect(asleep.exit == .code(0), "\(asleep.text)")
            for text in ["40", "45", "50"] {
                try await publish(as: "frank", to: "carol", [("collapse", "key")], text, of: broker)
            }
            let awake = try await run("/usr/bin/mosquitto_sub", session + ["-C", "1"])
            #expect(awake.text.contains(#""b":"50""#), "\(awake.text)")
        }

        @Test func `one user with a device of MQTT that has it and one of MRT that sleeps is late`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            // The MRT device of the same user.
            await (try await broker.client("bob", device: "mrt")).close()
            let five = try await subscriber("bob", version: "5", count: 2, of: broker)
            var message = OutgoingMessage(to: .user("bob"), text: "open")
            message.messageID = "m-1"
            message.asksReference = true
            _ = try await alice.send(message)
            _ = try await five.line(with: #""b":"open""#)
            let result = try await alice.recall(.messageID("m-1"))
            #expect(result.withdrawnCount == 0 && result.lateUsers == ["bob"])
            _ = try await five.line(with: "MESSAGE_RECALL")
            #expect(try await five.exit() == .code(0))
            _ = try await alice.send(OutgoingMessage(to: .user("bob"), text: "end"))
            let bob = try await broker.client("bob", device: "mrt")
            // Its copy is gone: it never gets it. What it is told is harmless.
            var texts: [String] = []
            while texts.last != "end" {
                let message = try await bob.nextMessage()
                bob.acknowledge(message)
                texts.append(message.text)
            }
            #expect(!texts.contains("open"), "\(texts)")
            for client in [alice, bob] { await client.close() }
        }

        @Test func `HTTP recalls for operators, keys and users, and event streams are told`()
            async throws
        {
            let broker = try await TestBroker(
                web: true, listeners: ["http://localhost:0?serve=api"])
            try broker.addUsers("carol")
            let stream = try ChildProcess(
                "/usr/bin/curl",
                [
                    "-sSN", "--max-time", "300", "-H",
                    "Authorization: Bearer \(try broker.token("erin"))",
                    "http://localhost:\(broker.wsPort)/api/v1/events",
                ])
            _ = try await stream.line(with: "connected")
            let port = try await broker.port("http")
            let token = try broker.token("alice")
            func post(_ path: String, _ content: String) async throws -> String {
                try await run(
                    "/usr/bin/curl",
                    [
                        "-sS", "--max-time", "30", "-H", "Authorization: Bearer \(token)", "--json",
                        content, "http://localhost:\(port)/api/v1\(path)",
                    ]
                ).text
            }
            let sent = try await post(
                "/messages",
                #"{"users":["erin","carol"],"b":"open","mid":"h-1","asksReference":true}"#)
            #expect(sent.contains(#""reference":""#), "\(sent)")
            _ = try await stream.line(with: #""b":"open""#)
            let replaced = try await post(
                "/messages/replace", #"{"mid":"h-1","b":"close","detail":"sorry"}"#)
            #expect(
                replaced.contains(#"{"lateCount":1,"lateUsers":["erin"],"withdrawnCount":1}"#),
                "\(replaced)")
            _ = try await stream.line(
                with: #""kind":"update""#, "MESSAGE_UPDATE", #""detail":"sorry""#, #""b":"close""#)
            let recalled = try await post("/messages/recall", #"{"mid":"h-1"}"#)
            #expect(recalled.contains(#""withdrawnCount":1"#), "\(recalled)")
            _ = try await stream.line(with: #""kind":"recall""#, "MESSAGE_RECALL")
            let unknown = try await post("/messages/recall", #"{"mid":"h-2"}"#)
            #expect(unknown.contains(#""number":144"#), "\(unknown)")
            for content in [#"{}"#, #"{"mid":"a","reference":"00000000000000a1"}"#] {
                let refused = try await post("/messages/recall", content)
                #expect(refused.contains("exactly one of reference and mid"), "\(refused)")
            }
            for text in ["40", "50"] {
                _ = try await post(
                    "/messages", #"{"users":["carol"],"b":"\#(text)","collapse":"key"}"#)
            }
            let carol = try await broker.client("carol")
            #expect(try await carol.nextMessage().text == "50")
            await carol.close()
            stream.signal(SIGTERM)
        }
    }
}
