// A bridge that gets other rules while it runs, and one that retains.

import Administration
import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct BridgeReloadTests {
        @Test func `rules are read again, and nothing under way is lost`() async throws {
            let broker = try await TestBroker()
            let mosquitto = try await Mosquitto()
            let bob = try await broker.client("bob")
            let kept = #"{ from: "kept/+", to: { user: "bob" } },"#
            let bridge = try await TestBridge(
                broker, port: mosquitto.port,
                rules: "toMartlet: [\(kept) { from: \"old\", to: { user: \"bob\" } }],")
            try await bridge.waitForSubscriptions("mqtt")
            let texts = (0..<400).map { "number \($0)" }
            let publisher = try mosquitto.client(
                "pub", "-q", "2", "-t", "kept/x", "-l", input: texts.joined(separator: "\n") + "\n")
            let other = #"{ from: "new", to: { user: "bob" } }"#
            for round in 0..<5 {
                let rules = round % 2 == 0 ? other : #"{ from: "old", to: { user: "bob" } }"#
                try bridge.write(rules: "toMartlet: [\(kept) \(rules)],")
                let line = try await bridge.reload()
                #expect(line.contains("event=reloaded to_martlet=2 to_mqtt=0"), "\(line)")
            }
            #expect(try await publisher.exit() == .code(0), "\(publisher.text)")
            #expect(try await bob.nextTexts(texts.count) == texts)
            // A file with a fault changes nothing, and other keys wait for a restart.
            try bridge.write(rules: "toMartlet: [{ from: \"new\" }],")
            let fault = try await bridge.reload()
            #expect(fault.contains("event=reload_failed") && fault.contains("toMartlet[0].to"))
            try bridge.write(rules: "toMartlet: [\(other)], packetMaximumBytes: 70000,")
            let line = try await bridge.reload()
            #expect(line.contains("to_martlet=1"), "\(line)")
            #expect(line.contains("restart_for=packetMaximumBytes"), "\(line)")
            _ = try await bridge.process!.line(with: "event=subscribed", "filters=1 missing=0")
            try await mosquitto.publish("kept/x", "gone", qos: 1)
            try await mosquitto.publish("new", "there", qos: 1)
            #expect(try await bob.nextTexts(1) == ["there"])

            let count = bridge.process!.lines.count
            bridge.process!.signal(SIGUSR1)
            let totals = try await bridge.process!.line(with: "event=totals", from: count)
            // The result of the last message may be under way.
            #expect(totals.contains("to_martlet=40"), "\(totals)")
            #expect(try await bridge.stop()("to_martlet") == 401)
        }

        @Test(arguments: [0, 1, 2] as [UInt64])
        func `filters that overlap those that end lose nothing, and double at most one message`(
            speed: UInt64
        ) async throws {
            let broker = try await TestBroker()
            let mosquitto = try await Mosquitto()
            let bob = try await broker.client("bob")
            func rules(_ filters: String...) -> String {
                let list = filters.map { "{ from: \"\($0)\", to: { user: \"bob\" } }" }
                return "toMartlet: [\(list.joined(separator: ","))],"
            }
            let variants = [rules("a/#"), rules("a/+"), rules("a/#"), rules("a/0", "a/1", "a/2")]
            let bridge = try await TestBridge(broker, port: mosquitto.port, rules: variants[0])
            try await bridge.waitForSubscriptions("mqtt")
            let publishers = try (0..<3).map { level in
                let texts = (0..<400 * (speed + 1)).map { "\(level) \($0)" }
                return (
                    texts,
                    try mosquitto.client(
                        "pub", "-q", "2", "-t", "a/\(level)", "-l",
                        input: texts.joined(separator: "\n") + "\n")
                )
            }
            let rounds = 20
            for round in 1...rounds {
                try bridge.write(rules: variants[round % variants.count])
                let line = try await bridge.reload()
                #expect(line.contains("event=reloaded"), "\(line)")
            }
            for (_, publisher) in publishers {
                #expect(try await publisher.exit() == .code(0), "\(publisher.text)")
            }
            let sent = publishers.flatMap(\.0)
            var texts = try await bob.nextTexts(sent.count)
            try await mosquitto.publish("a/0", "the end", qos: 2)
            while texts.last != "the end" { texts += try await bob.nextTexts(1) }
            texts.removeLast()
            #expect(Set(texts) == Set(sent))
            // Where Mosquitto's window is full, its answer may overtake a copy.
            #expect(texts.count <= sent.count + rounds)
            #expect(try await bridge.stop()("to_martlet") == texts.count + 1)
        }

        @Test func `a rule to a topic of Martlet retains`() async throws {
            let broker = try await TestBroker()
            let mosquitto = try await Mosquitto()
            let bridge = try await TestBridge(
                broker, port: mosquitto.port,
                rules: """
                    toMartlet: [
                      { from: "state/#", to: { topic: "plant/{1..}" }, retain: true },
                      { from: "event/#", to: { topic: "plant/event" } },
                    ],
                    """)
            try await bridge.waitForSubscriptions("mqtt")
            for (topic, text) in [("state/a", "1"), ("state/a", "2"), ("state/b", "3")] {
                try await mosquitto.publish(topic, text, qos: 1)
            }
            try await mosquitto.publish("state/b", "", qos: 1)
            try await mosquitto.publish("event/x", "4", qos: 1)
            var totals = ""
            for _ in 0..<1_000 where !totals.contains("to_martlet=5 ") {
                let count = bridge.process!.lines.count
                bridge.process!.signal(SIGUSR1)
                totals = try await bridge.process!.line(with: "event=totals", from: count)
            }
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            let kept = try administration.send(ShowRetained(app: "demo", topic: "plant/a"))
            #expect(kept.content.text == "2")
            for topic in ["plant/b", "plant/event"] {
                #expect(throws: AdministrationError.self, "\(topic)") {
                    try administration.send(ShowRetained(app: "demo", topic: topic))
                }
            }
            let total = try await bridge.stop()
            #expect(total("to_martlet") == 5)
            #expect(total("refused_to_martlet") == 0)
        }
    }
}
