// The bridge's guarantee when the bridge is full: one broker stalls until the bridge holds all it
// can, and then the bridge is killed, or its connections are cut.

import Foundation
import MartletClient
import TestSurroundings
import Testing

@testable import Bridge

extension Crossing {
    /// How the bridge is interrupted.
    enum Trouble: CaseIterable {
        case killed, cutFromMosquitto, cutFromMartlet
    }

    /// Waits until the bridge's record says that a window of messages is under way, and for half a
    /// second no more than that, although more wait.
    private func waitUntilFull(
        _ what: String, _ count: (BridgeRecord) -> Int
    ) async throws {
        var (last, sameCount) = (0, 0)
        for _ in 0..<1_000 * Sanitizer.patience {
            let slots = try Data(contentsOf: URL(filePath: "\(bridge.directory)/state"))
            let half = slots.count / 2
            let records = [slots.prefix(half), slots.dropFirst(half)].compactMap {
                BridgeRecord.decode(Array($0))
            }
            if let record = records.max(by: { $0.sequence < $1.sequence })?.record {
                sameCount = count(record) == last ? sameCount + 1 : 0
                last = count(record)
                if last >= BridgeLimits.foreignInFlightDefault, sameCount >= 25 { return }
            }
            poll(nil, 0, 20)
        }
        throw TestFailure("\(what) never: \(last) messages\n\(bridge.process!.text)")
    }

    private func interrupt(_ trouble: Trouble) async throws {
        switch trouble {
        case .killed: try await bridge.kill()
        case .cutFromMosquitto: wire.cut()
        case .cutFromMartlet: ownWire.cut()
        }
    }

    /// Martlet stands still until the outbox towards it has no more room; then there is trouble.
    func fillTowardsMartlet(_ step: String, _ trouble: Trouble) async throws {
        let names = Self.longNames(step)
        let all = Set(names.flatMap { ["once \($0)", "durable \($0)"] })
        broker.process.signal(SIGSTOP)
        do {
            defer { broker.process.signal(SIGCONT) }
            // As many at a time as a pipe takes.
            for start in stride(from: 0, to: names.count, by: 60) {
                try await publish(Array(names[start..<min(start + 60, names.count)]))
            }
            // What is in the outbox has a note in the record, what has found no room has none.
            try await waitUntilFull("an outbox towards Martlet that is full") {
                $0.inward.count
            }
            try await interrupt(trouble)
        }
        if trouble == .killed { try await bridge.start() }
        try await wait("rest of \(step)", forAll: all)
    }

    /// Mosquitto stands still until it has not answered as much as it may be sent; then there is
    /// trouble.
    func fillTowardsMosquitto(_ step: String, _ trouble: Trouble) async throws {
        mosquitto.process.signal(SIGSTOP)
        let names = Self.longNames(step)
        do {
            defer { mosquitto.process.signal(SIGCONT) }
            sendOut(names)
            note(names)
            try await waitUntilFull("an inbox of Martlet's that is full") {
                $0.outward.count
            }
            try await interrupt(trouble)
        }
        if trouble == .killed { try await bridge.start() }
    }

    /// Messages of each grade in a step: 480 of 900 bytes are more than the outbox, of
    /// twice the smallest packet maximum, takes.
    private static let longCount = 240

    private static func longNames(_ step: String) -> [String] {
        let padding = String(repeating: "x", count: 860)
        return (0..<longCount).map { "\(step).\($0)-\(padding)" }
    }
}

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(4 * Sanitizer.patience))) struct BridgeOutboxTests {
        @Test func `a full bridge loses and duplicates nothing when it is killed or cut`()
            async throws
        {
            let crossing = try await Crossing(version: "5", inFlight: 1_000)
            for trouble in Crossing.Trouble.allCases {
                try await crossing.fillTowardsMartlet("in-\(trouble)", trouble)
                try await crossing.fillTowardsMosquitto("out-\(trouble)", trouble)
            }
            let received = crossing.received
            let sent = crossing.sent.filter { $0.hasPrefix("in-") }
            #expect(sent.count == 3 * 240)
            #expect(received.beginning(with: "once") == sent.map { "once \($0)" })
            #expect(
                received.beginning(with: "durable").withoutRepetitions
                    == sent.map { "durable \($0)" })
            let drained = try await crossing.drain()
            let sentOut = crossing.sent.filter { $0.hasPrefix("out-") }
            #expect(sentOut.count == 3 * 240)
            #expect(drained.beginning(with: "once") == (sentOut + ["end"]).map { "once \($0)" })
            #expect(
                drained.beginning(with: "durable").withoutRepetitions
                    == sentOut.map { "durable \($0)" })
            let total = try await crossing.bridge.stop()
            #expect(total("refused_to_martlet") == 0)
            #expect(total("refused_to_mqtt") == 0)
        }
    }
}
