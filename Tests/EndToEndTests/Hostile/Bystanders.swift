// Two correct clients that exchange messages while others misbehave, and their measurements.

import Foundation
import MartletClient
import class Threads.Locked

/// Alice and Bob. One message after the other; each has to arrive.
final class Bystanders: Sendable {
    /// What they noticed, in milliseconds from send to delivery.
    struct Report: CustomStringConvertible {
        let latencies: [Double]
        let lossCount: Int

        private func percentile(_ share: Double) -> Double {
            let sorted = latencies.sorted()
            return sorted.isEmpty ? .nan : sorted[Int(Double(sorted.count - 1) * share)]
        }

        var medianMilliseconds: Double { percentile(0.5) }
        var longestMilliseconds: Double { percentile(1) }

        var description: String {
            let figures = [0.5, 0.99, 1].map { String(format: "%.1f", percentile($0)) }
            return "\(latencies.count) messages, \(lossCount) lost, "
                + "p50 \(figures[0]) ms, p99 \(figures[1]) ms, longest \(figures[2]) ms"
        }
    }

    private let alice: Client
    private let bob: Client
    private let isOver = Locked(false)

    init(_ broker: TestBroker) async throws {
        alice = try await broker.client("bystander-alice")
        bob = try await broker.client("bystander-bob")
    }

    /// Lets them talk while `body` runs; what they noticed meanwhile.
    func watch(_ body: () async throws -> Void) async throws -> Report {
        isOver.withLock { $0 = false }
        let talk = Task { try await self.talk() }
        do {
            try await body()
        } catch {
            isOver.withLock { $0 = true }
            _ = await talk.result
            throw error
        }
        isOver.withLock { $0 = true }
        return try await talk.value
    }

    private func talk() async throws -> Report {
        var latencies: [Double] = []
        var lossCount = 0
        var number = 0
        // At least a few, however short the trouble was.
        while !isOver.withLock({ $0 }) || number < 10 {
            number += 1
            let start = ContinuousClock.now
            try await alice.send(
                OutgoingMessage(to: .user("bystander-bob"), text: "\(number)"))
            let message = try await bob.nextMessage()
            if message.text != "\(number)" { lossCount += 1 }
            // The last one too: nothing of theirs stays with the broker.
            bob.acknowledge(message)
            latencies.append((ContinuousClock.now - start) / .milliseconds(1))
        }
        return Report(latencies: latencies, lossCount: lossCount)
    }
}

extension TestBroker {
    /// Bytes of memory that the broker's process holds at the moment.
    func residentBytes() throws -> Int {
        let status = try String(
            contentsOfFile: "/proc/\(process.identifier)/status", encoding: .utf8)
        for line in status.split(separator: "\n") where line.hasPrefix("VmRSS:") {
            let digits = line.filter(\.isNumber)
            if let kilobytes = Int(digits) { return kilobytes * 1024 }
        }
        throw TestFailure("no VmRSS of process \(process.identifier)")
    }
}
