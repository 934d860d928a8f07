// The command line as people and scripts use it.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct CommandLineTests {
        /// Runs `martlet` to its end.
        private func martlet(
            _ arguments: String..., as user: String = "alice", of broker: TestBroker,
            input: String = ""
        ) async throws -> (exit: ChildExit, text: String) {
            let child = try ChildProcess(
                "martlet", arguments, environment: broker.environment(user), input: input)
            return (try await child.exit(), child.text)
        }

        @Test func `the three commands that a development broker prints deliver a message`()
            async throws
        {
            let broker = try await TestBroker()
            let lines = broker.process.lines
            let title = try #require(
                lines.firstIndex { $0.contains("Paste into another terminal") })
            let commands = lines[(title + 2)...].prefix(3).map {
                $0.replacing("martlet listen &", with: "martlet listen --count 1 &")
            }
            #expect(commands.count == 3 && commands[1].contains("--count 1"))
            let script = (commands + ["wait"]).joined(separator: "\n")
            let shell = try ChildProcess("/bin/bash", ["-c", script])
            #expect(try await shell.exit() == .code(0))
            #expect(shell.lines.contains("alice (unicast): hello from alice"))
        }

        @Test func `listen prints the receiver's JSON`() async throws {
            let broker = try await TestBroker()
            _ = try await martlet("user", "add", "bob", of: broker)
            let sent = try await martlet(
                "send", "--to", "bob", "--type", "4", "--grade", "once", "a \"b\"\n", of: broker)
            #expect(sent.exit == .code(0))
            let heard = try await martlet(
                "listen", "--json", "--count=1", as: "bob", of: broker)
            #expect(heard.exit == .code(0))
            let line = try #require(heard.text.split(separator: "\n").first { $0.hasPrefix("{") })
            #expect(line.hasPrefix(#"{"msg":{"t":"4","b":"a \"b\"\n"},"from":"alice","time":""#))
            #expect(line.contains(#""kind":"unicast","grade":"once""#))
            let value = try JSONSerialization.jsonObject(with: Data(line.utf8))
            #expect((value as? [String: Any])?["number"] as? Int != nil)
        }

        @Test func `every line of standard input is a message`() async throws {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            let lines = (0..<3_000).map { "line \($0)" }
            let sent = try await martlet(
                "send", "--to=bob", of: broker, input: lines.joined(separator: "\n"))
            #expect(sent.exit == .code(0))
            let heard = try await martlet(
                "listen", "--count=3000", as: "bob", of: broker)
            #expect(heard.exit == .code(0))
            let texts = heard.text.split(separator: "\n").filter { $0.hasPrefix("alice") }
            #expect(texts.map(String.init) == lines.map { "alice (unicast): \($0)" })
        }

        @Test func `a refused line ends the command before the remaining lines`() async throws {
            let broker = try await TestBroker("queues.messages=10")
            try broker.addUsers("bob")
            let lines = (0..<3_000).map { "line \($0)" }
            let sent = try await martlet(
                "send", "--to=bob", of: broker, input: lines.joined(separator: "\n"))
            #expect(sent.exit == .code(0x97), "\(sent.text)")
            #expect(try broker.counter("messages/received") == 10)
        }

        @Test func `listen continues at the position in its state file`() async throws {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            let state = "\(broker.directory)/bob.state"
            var printed: [String] = []
            for round in 0..<3 {
                for number in 0..<4 {
                    _ = try await martlet("send", "--to=bob", "\(round).\(number)", of: broker)
                }
                // Three of four are taken each time, so that messages are left over.
                let heard = try await martlet(
                    "listen", "--count=3", "--state", state, as: "bob", of: broker)
                #expect(heard.exit == .code(0))
                printed += heard.text.split(separator: "\n").filter { $0.hasPrefix("alice") }
                    .map { String($0.suffix(3)) }
                if round == 1 {
                    try await broker.killNow()
                    try await broker.start()
                }
            }
            #expect(
                printed == ["0.0", "0.1", "0.2", "0.3", "1.0", "1.1", "1.2", "1.3", "2.0"])
        }

        @Test func `failures have their exit code and give advice`() async throws {
            let broker = try await TestBroker()
            let unknown = try await martlet("send", "--to=nobody", "x", of: broker)
            #expect(unknown.exit == .code(0x90))
            #expect(unknown.text.contains("martlet user add"))
            let some = try await martlet("send", "--to=alice,nobody", "x", of: broker)
            #expect(some.exit == .code(6) && some.text.contains("not sent to nobody"))
            let long = String(repeating: "x", count: 1_009)
            let large = try await martlet("send", "--to=alice", long, of: broker)
            #expect(large.exit == .code(0x95))
            let token = try await martlet("send", "--to=alice", "--token=x", "x", of: broker)
            #expect(token.exit == .code(0x86) && token.text.contains("martlet token mint"))
            let nobody = try await martlet(
                "send", "--server=tcp://127.0.0.1:1", "--to=alice", "x", of: broker)
            #expect(nobody.exit == .code(5) && nobody.text.contains("--server"))
            let authority = try await martlet(
                "send", "--ca=/etc/hostname", "--to=alice", "x", of: broker)
            #expect(authority.exit == .code(2))
            let over = try await martlet("listen", "-W", "1s", as: "quiet", of: broker)
            #expect(over.exit == .code(27))
            for wrong in [["send", "x"], ["sned"], ["send", "--to", "a", "--broadcast", "x"]] {
                let child = try ChildProcess(
                    "martlet", wrong, environment: broker.environment("alice"))
                #expect(try await child.exit() == .code(1), "\(wrong)")
            }
        }

        @Test func `every verb has a help page, and a wrong verb is corrected`() async throws {
            let broker = try await TestBroker()
            let page = try await martlet("help", "token", "mint", of: broker)
            #expect(page.exit == .code(0) && page.text.hasPrefix("martlet token mint --user"))
            for words in [["token", "--help"], ["token", "list", "--help"]] {
                let child = try ChildProcess("martlet", words)
                #expect(try await child.exit() == .code(0))
                #expect(child.text == page.text, "\(words)")
            }
            let wrong = try await martlet("help", "tokn", of: broker)
            #expect(wrong.exit == .code(1) && wrong.text.contains("did you mean \"token\"?"))
            let option = try await martlet("token", "mint", "--usr=x", of: broker)
            #expect(option.exit == .code(1) && option.text.contains("See martlet help token"))
        }

        @Test func `names of other programs lead to those of this one`() async throws {
            for (program, words, advice) in [
                ("martlet", ["pub", "-t", "a"], "did you mean: martlet send --topic TOPIC TEXT?"),
                ("martlet", ["clients", "list"], "did you mean: martlet session list?"),
                ("martlet", ["send", "-q", "1", "x"], "unknown option -q; did you mean --grade?"),
                ("martletd", ["--test-config"], "did you mean --check-config?"),
                ("martletd", ["-p", "1883"], "unknown option -p; did you mean --listen?"),
            ] {
                let child = try ChildProcess(program, words)
                #expect(try await child.exit() == .code(1), "\(words)")
                #expect(child.text.contains(advice), "\(words): \(child.text)")
            }
            for program in ["martletd", "martlet-gateway"] {
                let (word, option) = (
                    try ChildProcess(program, ["help"]), try ChildProcess(program, ["--help"])
                )
                #expect(try await word.exit() == .code(0))
                #expect(try await option.exit() == .code(0))
                #expect(word.text == option.text, "\(program)")
            }
        }

        @Test func `a port of the other kind is named as the probable cause`() async throws {
            let broker = try await TestBroker()
            let closed = try ReservedPort()
            let attempts = [
                ("tls://localhost:\(broker.plainPort)", "needs tcp:// instead of tls://"),
                ("tcp://127.0.0.1:\(broker.tlsPort)", "needs tls:// instead of tcp://"),
                ("tcp://127.0.0.1:\(closed)", "is martletd running there?"),
            ]
            for (server, text) in attempts {
                let child = try ChildProcess(
                    "martlet",
                    [
                        "send", "--server=\(server)", "--ca=\(broker.authority)",
                        "--token=\(try broker.token("alice"))", "--to=alice", "hello",
                    ])
                #expect(try await child.exit() == .code(5))
                #expect(child.text.contains(text), "\(server): \(child.text)")
            }
        }

        @Test func `a command for an app or user that does not exist says so`() async throws {
            let broker = try await TestBroker()
            for words in [
                ["session", "list"], ["session", "kick", "ann"], ["session", "delete", "ann"],
                ["token", "list"], ["queue", "purge", "ann"],
            ] {
                let child = try ChildProcess(
                    "martlet", words + ["--app=nope"], environment: broker.environment("operator"))
                #expect(try await child.exit() == .code(144))
                #expect(child.text.contains("there is no app \"nope\""), "\(words)")
            }
            let kicked = try await martlet("session", "kick", "nobody", of: broker)
            #expect(kicked.exit == .code(144))
            #expect(kicked.text.contains("nobody knows nobody"))
        }

        @Test func `tokens, users and apps can be created while the broker runs`() async throws {
            let broker = try await TestBroker()
            let minted = try await martlet("token", "mint", "--user=carol", of: broker)
            #expect(minted.exit == .code(0))
            var settings = try broker.settings("carol")
            settings.credential = .token(minted.text)
            let carol = try await connected(Client(settings))
            let presence = try await martlet("presence", "carol", of: broker)
            #expect(presence.text.hasPrefix("carol is online"))
            await carol.close()
            let two = try await martlet("token", "mint", "--user=a", "--user=b", of: broker)
            #expect(two.text.split(separator: "\n").map { $0.prefix(2) } == ["a\t", "b\t"])
            #expect(try await martlet("app", "create", "plant", of: broker).exit == .code(0))
            let apps = try await martlet("app", "list", of: broker)
            #expect(apps.text.contains("plant  0      0"), "\(apps.text)")
            #expect(try await martlet("app", "create", "plant", of: broker).exit == .code(0x97))
            let stats = try await martlet("stats", "--json", of: broker)
            let value = try JSONSerialization.jsonObject(with: Data(stats.text.utf8))
            let counters = (value as? [String: Any])?["counters"] as? [String: Int]
            #expect(counters?["clients/connected"] == 0)
            try await broker.stop()
            let stopped = try ChildProcess("martlet", ["stats", "--data", broker.directory])
            #expect(try await stopped.exit() == .code(5))
            #expect(stopped.text.contains("is martletd running"))
        }
    }
}
