// Wake-ups from end to end: sleeping users, a real martletd, `martlet-gateway push`, and a
// destination that fails. Relay and broker are killed.

import Administration
import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(4 * Sanitizer.patience))) struct PushRelayTests {
        private func broker() async throws -> TestBroker {
            try await TestBroker(
                #"apps=[{app: "demo", wake: {relay: "relay", intervalSeconds: 1}}]"#)
        }

        private func relay(_ broker: TestBroker) async throws -> TestRelay {
            try await TestRelay(
                broker, command: "push",
                settings:
                    "webhook: { secretFiles: [SECRET], allowHttp: true, timeoutSeconds: 30 },",
                rights: ["wake:*"])
        }

        /// A user with a target at the receiver, who is away.
        private func sleeper(
            _ name: String, _ broker: TestBroker, _ receiver: WebhookReceiver
        ) async throws {
            let client = try await broker.client(name)
            _ = try await client.setWakeTarget(
                WakeTarget(
                    kind: .webhook, address: "http://127.0.0.1:\(receiver.port)/\(name)"))
            await client.close()
        }

        @Test func `a user who sleeps is woken, and a target that is gone is removed`()
            async throws
        {
            let broker = try await broker()
            // Far more failures than there are until carol comes.
            let down = String(repeating: "503,", count: 1_000)
            let receiver = try await WebhookReceiver(
                plans: ["bob=503,200", "carol=\(down)503", "eve=410"])
            let relay = try await relay(broker)
            let names = ["bob", "carol", "eve"]
            for name in names { try await sleeper(name, broker, receiver) }
            let alice = try await broker.client("alice")
            for name in names {
                _ = try await alice.send(OutgoingMessage(to: .user(name), text: "open"))
            }
            let event = try await receiver.event("hook=bob type=wake")
            #expect(event.hasSuffix("source=alice text=."), "no text leaves the house: \(event)")
            _ = try await relay.process!.line(with: "event=target_removed")
            let eve = try await broker.client("eve")
            #expect(try await eve.wakeTargets().isEmpty)
            let bob = try await broker.client("bob")
            #expect(try await bob.wakeTargets().count == 1)
            #expect(try await bob.nextMessage().from == "alice")
            let carol = try await broker.client("carol")
            try await waitForStep("withdrawn", of: "carol", relay)
            let steps = try await relay.ask(["log", "--user=bob"])
            for step in ["asked", "failed", "sent"] {
                #expect(steps.contains { $0.contains("step=\(step)") }, "\(steps)")
            }
            let entries = try await brokerLog(of: "bob", broker) { $0.contains("sent") }
            #expect(entries.map(\.step).prefix(3) == ["asked", "failed", "sent"], "\(entries)")
            #expect(entries[1].detail == "status 503" && entries[1].kind == .webhook)
            let gone = try await brokerLog(of: "eve", broker) { $0.contains("gone") }
            #expect(gone.map(\.detail) == [nil, "status 410"], "\(gone)")
            let command = try ChildProcess(
                "martlet",
                ["wake", "log", "--user", "bob", "--app", "demo", "-n", "1"]
                    + ["--data", broker.directory])
            #expect(try await command.exit() == .code(0))
            #expect(command.text.contains("webhook  "), "\(command.text)")
            let totals = try await relay.stop()
            #expect(totals("unreported") == 0)
            #expect(totals("asked") == 3 && totals("delivered") == 1 && totals("removed") == 1)
            #expect(totals("withdrawn") == 1 && totals("waiting") == 0)
            await carol.close()
            #expect(!receiver.process.text.contains("fault"))
            #expect(!relay.hasToldSecret && !relay.text.contains("127.0.0.1:\(receiver.port)"))
        }

        @Test func `a relay that stops tells the broker what became of its wake-ups`()
            async throws
        {
            let broker = try await broker()
            let receiver = try await WebhookReceiver(plans: [])
            let relay = try await relay(broker)
            try await sleeper("bob", broker, receiver)
            let alice = try await broker.client("alice")
            _ = try await alice.send(OutgoingMessage(to: .user("bob"), text: "open"))
            _ = try await receiver.event("hook=bob type=wake")
            _ = try await relay.stop()
            let entries = try await brokerLog(of: "bob", broker) { $0.contains("sent") }
            #expect(entries.map(\.step) == ["asked", "sent"], "\(entries)")
        }

        @Test(arguments: ["push", "webhook"])
        func `SIGUSR1 writes the counters`(command: String) async throws {
            let broker = try await broker()
            let relay =
                command == "push"
                ? try await relay(broker)
                : try await TestRelay(
                    broker,
                    hooks: """
                        {
                          name: "a", url: "http://127.0.0.1:9/a", secretFiles: [SECRET],
                          kinds: ["message.user"],
                        }
                        """, settings: "totalsSeconds: 0,")
            for number in 1...2 {
                let count = relay.process!.lines.count
                relay.process!.signal(SIGUSR1)
                let line = try await relay.process!.line(with: "event=totals", from: count)
                #expect(line.contains(" waiting=0 dead_letters=0 open_circuits=0"), "\(number)")
            }
            _ = try await relay.stop()
            #expect(relay.text.components(separatedBy: "event=totals").count - 1 == 3)
        }

        @Test func `a template of the broker reaches the relay without a restart`() async throws {
            let broker = try await broker()
            let receiver = try await WebhookReceiver(plans: [])
            let relay = try await relay(broker)
            let alice = try await broker.client("alice")
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            func template(_ command: String, _ text: String) async throws -> (Int32, String) {
                let child = try ChildProcess(
                    "martlet",
                    ["wake", "template", command, "--kind", "webhook"]
                        + ["--template", text, "--app", "demo", "--data", broker.directory])
                let exit = try await child.exit()
                return (exit == .code(0) ? 0 : 1, child.text)
            }
            let wrong = try await template("set", "{ a: '${cuont}' }")
            #expect(wrong.0 == 1 && wrong.1.contains("line 1, column 6"), "\(wrong.1)")
            let secret = try await template("set", "{ a: '${message}' }")
            #expect(secret.0 == 1 && secret.1.contains("contents"), "\(secret.1)")
            let tried = try await template("try", "{ mark: '${count} of ${user}' }")
            #expect(tried.0 == 0 && tried.1.contains(#"{"mark":"3 of bob"}"#), "\(tried.1)")
            #expect(try administration.send(ListWakeTemplates(app: "demo")).templates.isEmpty)
            #expect(try await template("set", "{ text: 'template-7' }").0 == 0)
            try await sleeper("bob", broker, receiver)
            _ = try await alice.send(OutgoingMessage(to: .user("bob"), text: "open"))
            let event = try await receiver.event("hook=bob type=wake")
            #expect(event.hasSuffix("text=template-7."), "\(event)")
            // The other one counts from the next wake-up on, also by way of a test.
            _ = try administration.send(
                SetWakeTemplate(app: "demo", kind: .webhook, template: "{ text: 'template-8' }"))
            _ = try administration.send(TestWake(app: "demo", user: "bob", id: nil))
            _ = try await receiver.event("text=template-8.")
            _ = try administration.send(
                SetWakeTemplate(app: "demo", kind: .webhook, template: "{ text: 'template-7' }"))
            try await broker.killNow()
            try await broker.start()
            #expect(
                try AdministrationClient(dataDirectory: broker.directory).send(
                    ListWakeTemplates(app: "demo")
                ).templates.map(\.template) == [#"{"text":"template-7"}"#])
            _ = try await relay.stop()
        }

        @Test(arguments: [1, 2])
        func `killed relays and brokers lose no wake-up of an acknowledged message`(
            seed: Int
        ) async throws {
            let broker = try await broker()
            let receiver = try await WebhookReceiver(chaos: seed)
            let relay = try await relay(broker)
            let alice = try await broker.client("alice")
            var random = SeededRandom(seed: UInt64(seed))
            var names: [String] = []
            for round in 0..<8 {
                let killed = random.next(in: 0..<6)
                for number in 0..<6 {
                    let name = "u\(round)-\(number)"
                    names.append(name)
                    try await sleeper(name, broker, receiver)
                    _ = try await alice.send(OutgoingMessage(to: .user(name), text: "open"))
                    guard number == killed else { continue }
                    if round % 2 == 0 {
                        try await relay.kill()
                        try await relay.start()
                    } else {
                        try await broker.killNow()
                        try await broker.start()
                    }
                }
            }
            for name in names { _ = try await receiver.event("event hook=\(name) type=wake ") }
            #expect(!receiver.process.text.contains("fault"))
            let totals = try await relay.stop()
            #expect(totals("dead_letters") == 0 && totals("gone") == 0)
        }

        /// Waits until the broker has steps of a user.
        private func brokerLog(
            of user: String, _ broker: TestBroker, until isEnough: ([String]) -> Bool
        ) async throws -> [ListWakeLog.Entry] {
            var entries: [ListWakeLog.Entry] = []
            for _ in 0..<(1_000 * Sanitizer.patience) {
                let command = try ChildProcess(
                    "martlet",
                    ["wake", "log", "--json", "--user", user, "--app", "demo"]
                        + ["--data", broker.directory])
                guard try await command.exit() == .code(0) else {
                    throw TestFailure(command.text)
                }
                entries = try command.lines.filter { !$0.isEmpty }.map {
                    try JSONDecoder().decode(ListWakeLog.Entry.self, from: Data($0.utf8))
                }
                if isEnough(entries.map(\.step)) { return entries }
            }
            throw TestFailure("the broker has \(entries)")
        }

        /// Waits until the log of a user has a step.
        private func waitForStep(
            _ step: String, of user: String, _ relay: TestRelay
        ) async throws {
            for _ in 0..<(1_000 * Sanitizer.patience) {
                let lines = try await relay.ask(["log", "--user=\(user)"])
                if lines.contains(where: { $0.contains("step=\(step)") }) { return }
            }
            throw TestFailure("no \(step): \(relay.text)")
        }
    }
}
