// Receipts, through the SDK and the commands, and over the death of the broker.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct ReceiptTests {
        private func martlet(
            _ arguments: String..., of broker: TestBroker, as user: String
        ) async throws -> (exit: ChildExit, text: String) {
            let child = try ChildProcess(
                "martlet", arguments, environment: broker.environment(user))
            return (try await child.exit(), child.text)
        }

        @Test func `are told once, whenever the broker dies`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            for round in 1...3 {
                var expected: Set<String> = []
                for index in 1...10 {
                    var message = OutgoingMessage(
                        to: .user("bob"), text: "open", grade: .once)
                    message.receipts = [.delivered, .applied]
                    message.messageID = "\(round)-\(index)"
                    let answer = try await alice.send(message)
                    let received = try await bob.nextMessage()
                    let reference = try #require(received.reference)
                    #expect(answer.reference == reference)
                    #expect(received.receipts == [.delivered, .applied])
                    bob.acknowledge(received)
                    try await bob.reportApplied(reference, code: 0x81, text: "too hot")
                    expected.insert("\(round)-\(index) delivered")
                    expected.insert("\(round)-\(index) applied 129 too hot")
                }
                try await broker.killNow()
                try await broker.start()
                var told: [String] = []
                while told.count < expected.count {
                    let message = try await alice.nextMessage()
                    alice.acknowledge(message)
                    guard case .receipt(let receipt?) = message.kind else { continue }
                    #expect(message.from == "bob")
                    let fact =
                        switch receipt.event {
                        case .delivered: "delivered"
                        case .applied(_, let code, let text): "applied \(code) \(text)"
                        case .counts, .other: "\(receipt.event)"
                        }
                    told.append("\(receipt.messageID ?? "") \(fact)")
                }
                #expect(Set(told) == expected)
            }
            await #expect(throws: MartletError.self) {
                try await alice.reportApplied(try #require(MessageReference("00000000000000a1")))
            }
            await alice.close()
            await bob.close()
            #expect(try broker.counter("messages/tracked") == 30)
        }

        @Test func `are awaited by the command that sends`() async throws {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            let listener = try ChildProcess(
                "martlet", ["listen", "--applied", "--count=1", "--device=valve"],
                environment: broker.environment("bob"))
            let sent = try await martlet(
                "send", "--to=bob", "--wait=applied", "--message-id=m-2", "open", of: broker,
                as: "alice")
            #expect(sent.exit == .code(0), "\(sent.text)")
            #expect(sent.text.contains("(m-2) applied by valve"), "\(sent.text)")
            #expect(try await listener.exit() == .code(0))
            let usage = try await martlet(
                "send", "--to=bob", "--wait=read", "open", of: broker, as: "alice")
            #expect(usage.exit == .code(1))
        }
    }
}
