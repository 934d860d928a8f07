// The guarantee of webhooks: relay and broker are killed in turn while events flow to a receiver
// that fails at random. Every accepted event arrives, and those of a sender arrive in order.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(5 * Sanitizer.patience))) struct WebhookKillTests {
        private static let senders = ["u0", "u1", "u2", "u3", "u4"]

        @Test(arguments: [1, 2])
        func `killed relays and brokers lose no event and keep the order of each sender`(
            seed: Int
        ) async throws {
            let broker = try await TestBroker()
            let receiver = try await WebhookReceiver(chaos: seed)
            let relay = try await TestRelay(
                broker,
                hooks: """
                    {
                      name: "a", url: "http://127.0.0.1:\(receiver.port)/a", secretFiles: [SECRET],
                      kinds: ["message.user"], timeoutSeconds: 30, batch: \(seed),
                      refusalsMaximum: 100,
                    }
                    """)
            var clients: [Client] = []
            for sender in Self.senders { clients.append(try await broker.client(sender)) }
            var random = SeededRandom(seed: UInt64(seed))
            var sent: [[String]] = Self.senders.map { _ in [] }
            for round in 0..<8 {
                for number in 0..<10 {
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        for (index, client) in clients.enumerated() {
                            let text = "\(index)-\(round * 10 + number)"
                            sent[index].append(text)
                            group.addTask {
                                try await client.send(
                                    OutgoingMessage(to: .user("relay"), text: text))
                            }
                        }
                        try await group.waitForAll()
                    }
                    // Somewhere in the round, and at a time of its own.
                    guard random.next(in: 0..<10) == number % 10 || number == 9 else { continue }
                    if round % 2 == 0 {
                        try await relay.kill()
                        try await relay.start()
                    } else if number == 9 {
                        try await broker.killNow()
                        try await broker.start()
                    }
                }
            }
            // Those of the last round one by one: each of them may take its time.
            for text in sent.flatMap({ $0.suffix(10) }) {
                _ = try await receiver.process.line(with: "event hook=a", "text=\(text).")
            }
            let arrived = receiver.texts("a")
            for (index, texts) in sent.enumerated() {
                let own = arrived.filter { $0.hasPrefix("\(index)-") }.withoutRepetitions
                #expect(own == texts, "sender \(index)")
            }
            #expect(!receiver.process.text.contains("fault"))
            let totals = try await relay.stop()
            #expect(totals("waiting") == 0 && totals("dead_letters") == 0)
            #expect(!relay.hasToldSecret)
        }
    }
}
