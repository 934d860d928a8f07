// Webhooks as a program, between a real martletd and a receiver that verifies every request and
// fails as it is told.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct WebhookTests {
        @Test(arguments: [false, true])
        func `events of each kind arrive, signed with both secrets`(
            usesLibrary: Bool
        ) async throws {
            // Without the package index only the receiver's own verification is there.
            guard !usesLibrary || WebhookReceiver.hasLibrary else { return }
            let broker = try await TestBroker()
            let receiver = try await WebhookReceiver(usesLibrary: usesLibrary, secretCount: 2)
            let bob = try await broker.client("bob")
            let group = try await bob.createGroup(title: "all")
            let relay = try await TestRelay(
                broker,
                hooks: """
                    {
                      name: "a", url: "http://127.0.0.1:\(receiver.port)/a", secretFiles: [SECRETS],
                      kinds: ["message.user", "message.group", "message.everybody",
                              "group.changed", "message.recalled", "receipt"],
                      topics: ["plant/+/alarm"], groups: ["\(group)"], presence: ["carol"],
                    }
                    """, rights: ["presence:*", "subscribe:#"])
            try await relay.waitForSubscriptions()
            try await bob.send(OutgoingMessage(to: .user("relay"), text: "to you"))
            try await bob.send(OutgoingMessage(to: .group(group), text: "to us"))
            try await bob.send(OutgoingMessage(to: .everybody, text: "to all"))
            try await bob.send(
                OutgoingMessage(to: .topic("plant/7/alarm"), .bytes(Array("fire".utf8))))
            try await bob.send(
                OutgoingMessage(to: .topic("plant/7/other"), .bytes(Array("calm".utf8))))
            _ = try await receiver.event("type=message.user id=msg_")
            for words in [
                "source=bob text=to you.", "source=\(group) text=to us.", "text=to all.",
                "type=message.topic", "source=plant/7/alarm text=fire.",
            ] { _ = try await receiver.event(words) }
            let carol = try await broker.client("carol")
            _ = try await receiver.event("type=presence.changed")
            #expect(!receiver.process.text.contains("calm"))
            #expect(!receiver.process.text.contains("fault"))
            let totals = try await relay.stop()
            #expect(totals("waiting") == 0 && totals("dead_letters") == 0)
            #expect(!relay.hasToldSecret)
            // Until here, so that there is one event of her presence.
            await carol.close()
        }

        @Test func `what happens in the broker is told`() async throws {
            let broker = try await TestBroker(
                #"apps=[{app: "demo", events: {relay: "relay","#
                    + #" kinds: ["session.lost", "queue.full", "login.refused"]}}]"#,
                "queues.messages=3")
            let receiver = try await WebhookReceiver()
            let relay = try await TestRelay(
                broker,
                hooks: """
                    {
                      name: "a", url: "http://127.0.0.1:\(receiver.port)/a", secretFiles: [SECRET],
                      kinds: ["session.lost", "queue.full", "login.refused"],
                    }
                    """)
            let bob = try await broker.client("bob")
            await bob.close()
            let alice = try await broker.client("alice")
            for number in 1...4 {
                _ = try? await alice.send(OutgoingMessage(to: .user("bob"), text: "\(number)"))
            }
            _ = try await receiver.event("type=queue.full")
            func listen(_ token: String) throws -> ChildProcess {
                try ChildProcess(
                    "martlet", ["listen"],
                    environment: [
                        "MARTLET_SERVER": "tls://localhost:\(broker.tlsPort)",
                        "MARTLET_CA": broker.authority, "MARTLET_TOKEN": token,
                    ])
            }
            let carol = try listen(broker.token("carol"))
            _ = try await carol.line(with: "connected as carol")
            carol.signal(SIGKILL)
            _ = try await receiver.event("type=session.lost")
            _ = try await listen("mt1_wrong").exit()
            _ = try await receiver.event("type=login.refused")
            let totals = try await relay.stop()
            #expect(totals("waiting") == 0 && totals("dead_letters") == 0)
        }

        @Test func `a destination that fails in every way gets all events in order`() async throws {
            let broker = try await TestBroker()
            let receiver = try await WebhookReceiver(plans: [
                "a=500,stall,429:1,half,close,redirect,400,503,200,long,500,404"
            ])
            let relay = try await TestRelay(
                broker,
                hooks: """
                    {
                      name: "a", url: "http://127.0.0.1:\(receiver.port)/a", secretFiles: [SECRET],
                      kinds: ["message.user"], timeoutSeconds: 10,
                    },
                    {
                      name: "b", url: "http://127.0.0.1:\(receiver.port)/b", secretFiles: [SECRET],
                      kinds: ["message.user"], batch: 10, order: "hook",
                    }
                    """)
            let bob = try await broker.client("bob")
            for number in 1...20 {
                try await bob.send(OutgoingMessage(to: .user("relay"), text: "\(number)"))
            }
            _ = try await receiver.process.line(with: "event hook=b", "text=20.")
            _ = try await receiver.process.line(with: "event hook=a", "text=20.")
            let expected = (1...20).map(String.init)
            #expect(receiver.texts("a") == expected)
            #expect(receiver.texts("b") == expected)
            #expect(!receiver.process.text.contains("fault"))
            // The same event has the same id in each attempt.
            let attempts = receiver.process.lines.filter { $0.hasPrefix("request hook=a") }
            #expect(Set(attempts.prefix(9).map { $0.split(separator: " ")[2] }).count == 1)
            let totals = try await relay.stop()
            #expect(totals("delivered") == 40 && totals("waiting") == 0)
        }

        @Test func `410 disables a hook, which keeps its events until it is enabled`() async throws
        {
            let broker = try await TestBroker()
            let receiver = try await WebhookReceiver(plans: ["a=410,200,410"])
            let relay = try await TestRelay(
                broker,
                hooks: """
                    {
                      name: "a", url: "http://127.0.0.1:\(receiver.port)/a", secretFiles: [SECRET],
                      kinds: ["message.user"],
                    }
                    """, settings: "totalsSeconds: 1,")
            let bob = try await broker.client("bob")
            func send(_ number: Int) async throws {
                try await bob.send(OutgoingMessage(to: .user("relay"), text: "\(number)"))
            }
            try await send(1)
            _ = try await relay.process!.line(with: "event=hook_disabled hook=a status=410")
            for number in 2...3 { try await send(number) }
            // Events that a hook keeps are written after a while, and the command reads the record.
            try await relay.waitForRecord(waiting: 3)
            #expect(try await relay.deadLetters().isEmpty)
            // The second event is answered with 410 again.
            #expect(try await relay.deadLetters("--resend", "all") == ["requested=0"])
            _ = try await relay.process!.line(with: "event=hook_enabled hook=a")
            _ = try await relay.process!.line(with: "event=hook_disabled hook=a", "waiting=2")
            try await relay.kill()
            try await relay.start()
            _ = try await receiver.event("text=3.")
            #expect(receiver.texts("a") == ["1", "2", "3"])
            let totals = try await relay.stop()
            #expect(totals("waiting") == 0 && totals("dead_letters") == 0)
        }

        @Test func `dead letters are listed and sent again, also after a kill`() async throws {
            let broker = try await TestBroker()
            let receiver = try await WebhookReceiver(plans: ["a=400,400,400"])
            let relay = try await TestRelay(
                broker,
                hooks: """
                    {
                      name: "a", url: "http://127.0.0.1:\(receiver.port)/a", secretFiles: [SECRET],
                      kinds: ["message.user"], refusalsMaximum: 1,
                    }
                    """)
            let bob = try await broker.client("bob")
            for number in 1...3 {
                try await bob.send(OutgoingMessage(to: .user("relay"), text: "\(number)"))
                _ = try await relay.process!.line(
                    with: "event=dead_letter hook=a", "number=\(number) ")
            }
            // Killed: what the log tells is on disk.
            try await relay.kill()
            var letters = try await relay.deadLetters()
            #expect(letters.count == 3)
            #expect(letters.allSatisfy { $0.contains("hook=a") && $0.contains("cause=refused") })
            try await relay.start()
            #expect(try await relay.deadLetters("--resend", "2") == ["requested=1"])
            _ = try await receiver.event("text=2.")
            // The request is removed, and another one possible, when the record is synced; the line
            // follows that.
            _ = try await relay.process!.line(with: "event=dead_letter_resent hook=a")
            #expect(try await relay.deadLetters("--resend", "all") == ["requested=2"])
            _ = try await receiver.event("text=3.")
            #expect(receiver.texts("a") == ["2", "1", "3"])
            _ = try await relay.stop()
            letters = try await relay.deadLetters()
            #expect(letters.isEmpty)
        }

        @Test func `wrong certificates and private addresses get nothing, others are not delayed`()
            async throws
        {
            let broker = try await TestBroker()
            let certificates = CertificateDirectory("webhook")
            certificates.makeAuthority("ca", subject: "/CN=authority")
            certificates.issue("good", subject: "/CN=localhost", names: "DNS:localhost")
            certificates.issue("other", subject: "/CN=other", names: "DNS:other.example")
            for name in ["good", "other"] {
                let parts = try ["pem", "key"].map { ending in
                    try Data(contentsOf: URL(filePath: certificates.file("\(name).\(ending)")))
                }
                try (parts[0] + parts[1]).write(
                    to: URL(filePath: certificates.file("\(name)-both.pem")))
            }
            let good = try await WebhookReceiver(certificate: certificates.file("good-both.pem"))
            let other = try await WebhookReceiver(certificate: certificates.file("other-both.pem"))
            func hook(_ name: String, _ port: UInt16, trusts: Bool = true) -> String {
                """
                {
                  name: "\(name)", url: "https://localhost:\(port)/\(name)", secretFiles: [SECRET],
                  kinds: ["message.user"],
                  \(trusts ? "caFile: \"\(certificates.file("ca.pem"))\"," : "")
                },
                """
            }
            let hooks =
                hook("unknown", good.port, trusts: false) + hook("wrong", other.port)
                + hook("right", good.port)
            let relay = try await TestRelay(broker, hooks: hooks)
            let bob = try await broker.client("bob")
            for number in 1...10 {
                try await bob.send(OutgoingMessage(to: .user("relay"), text: "\(number)"))
            }
            _ = try await good.event("text=10.")
            for name in ["unknown", "wrong"] {
                let line = try await relay.process!.line(with: "event=hook_failing hook=\(name)")
                #expect(line.contains("certificate"))
                #expect(good.texts(name).isEmpty && other.texts(name).isEmpty)
            }
            #expect(good.texts("right").count == 10)
            _ = try await relay.stop()
            let fenced = try await TestRelay(
                broker, hooks: hook("right", good.port), settings: "deadLettersMaximum: 5,",
                isPrivateAllowed: false)
            try await bob.send(OutgoingMessage(to: .user("relay"), text: "secret"))
            let line = try await fenced.process!.line(with: "event=hook_failing hook=right")
            #expect(line.contains("reason=\"address-not-allowed\""))
            #expect(!good.process.text.contains("text=secret"))
        }

        @Test func `a full disk loses nothing`() async throws {
            guard let disk = SmallDisk(byteCount: 256 << 10) else { return }
            let broker = try await TestBroker()
            let relay = try await TestRelay(
                broker,
                hooks: """
                    {
                      name: "a", url: "http://127.0.0.1:9/a", secretFiles: [SECRET],
                      kinds: ["message.user"],
                    }
                    """, stateDirectory: disk.path)
            let bob = try await broker.client("bob")
            let padding = String(repeating: "x", count: 900)
            for number in 1...400 {
                let text = "\(number) \(padding)"
                try await bob.send(OutgoingMessage(to: .user("relay"), text: text))
            }
            _ = try await relay.process!.line(with: "event=record_full")
            try await relay.kill()
            // The destination comes, and the relay delivers what it has and what the broker has.
            let receiver = try await WebhookReceiver()
            let path = "\(relay.directory)/webhook.json5"
            let text = try String(contentsOfFile: path, encoding: .utf8)
            try text.replacingOccurrences(of: "127.0.0.1:9/", with: "127.0.0.1:\(receiver.port)/")
                .write(toFile: path, atomically: true, encoding: .utf8)
            try await relay.start()
            _ = try await receiver.event("text=400 ")
            let numbers = receiver.texts("a").compactMap { $0.split(separator: " ").first }
            #expect(numbers.map(String.init).withoutRepetitions == (1...400).map(String.init))
        }

        @Test func `the limit of a file's size is a full disk`() async throws {
            let broker = try await TestBroker()
            let receiver = try await WebhookReceiver(plans: ["a=410"])
            let relay = try await TestRelay(
                broker,
                hooks: """
                    {
                      name: "a", url: "http://127.0.0.1:\(receiver.port)/a", secretFiles: [SECRET],
                      kinds: ["message.user"], batch: 10,
                    }
                    """, settings: "totalsSeconds: 1,", fileByteCountMaximum: 64 << 10)
            let bob = try await broker.client("bob")
            let padding = String(repeating: "x", count: 900)
            func send(_ number: Int) async throws {
                let text = "\(number) \(padding)"
                try await bob.send(OutgoingMessage(to: .user("relay"), text: text))
            }
            // The first one alone, so that the record has it. All that come later may be too many
            // for one write.
            try await send(1)
            try await relay.waitForRecord(waiting: 1)
            for number in 2...200 { try await send(number) }
            _ = try await relay.process!.line(with: "event=record_full")
            #expect(try await relay.deadLetters("--resend", "all") == ["requested=0"])
            _ = try await receiver.event("text=200 ")
            // All that the record has is obsolete, and there is room for events again.
            let told = relay.process!.lines.count
            _ = try await relay.process!.line(with: "event=totals", " waiting=0 ", from: told)
            let totals = try await relay.stop()
            #expect(totals("waiting") == 0)
        }

        @Test func `a wrong file is named with its place, and a right one is valid`() async throws {
            let directory = try TemporaryDirectory("relay")
            let path = "\(directory.path)/webhook.json5"
            try "{\n  hooks: 3,\n}".write(toFile: path, atomically: true, encoding: .utf8)
            let process = try ChildProcess("martlet-gateway", ["webhook", "--config", path])
            #expect(try await process.exit() == .code(1))
            #expect(process.text.contains("\(path):2:10: hooks must be a list, not a number"))
            #expect(process.text.contains("martlet is needed"))
            let help = try ChildProcess("martlet-gateway", ["webhook", "--help"])
            #expect(try await help.exit() == .code(0))
            for option in ["--config", "--check-config", "--resend"] {
                #expect(help.text.contains(option))
            }
        }
    }
}
