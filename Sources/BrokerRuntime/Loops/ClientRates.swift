// The rate limits of clients, and counters of how often they were enforced. Event loops read and
// count without a lock; a reload changes the limits.

import Configuration
import Synchronization

/// The rate limits, shared by the event loops, reloads and statistics.
package final class ClientRates: Sendable {
    package struct Values: Equatable {
        /// 0 for no limit.
        var messagesPerSecond: Int
        /// 0 for no limit.
        var bytesPerSecond: Int
        /// How long a client may exceed its limits continuously.
        var toleranceSeconds: Int

        package init(messagesPerSecond: Int, bytesPerSecond: Int, toleranceSeconds: Int) {
            self.messagesPerSecond = messagesPerSecond
            self.bytesPerSecond = bytesPerSecond
            self.toleranceSeconds = toleranceSeconds
        }

        var areLimited: Bool { messagesPerSecond > 0 || bytesPerSecond > 0 }
    }

    private let messagesPerSecond: Atomic<Int>
    private let bytesPerSecond: Atomic<Int>
    private let toleranceSeconds: Atomic<Int>
    private let pauses = Atomic<UInt64>(0)
    private let floods = Atomic<UInt64>(0)

    package init(_ values: Values) {
        messagesPerSecond = Atomic(values.messagesPerSecond)
        bytesPerSecond = Atomic(values.bytesPerSecond)
        toleranceSeconds = Atomic(values.toleranceSeconds)
    }

    var values: Values {
        Values(
            messagesPerSecond: messagesPerSecond.load(ordering: .relaxed),
            bytesPerSecond: bytesPerSecond.load(ordering: .relaxed),
            toleranceSeconds: toleranceSeconds.load(ordering: .relaxed))
    }

    package func change(_ values: Values) {
        messagesPerSecond.store(values.messagesPerSecond, ordering: .relaxed)
        bytesPerSecond.store(values.bytesPerSecond, ordering: .relaxed)
        toleranceSeconds.store(values.toleranceSeconds, ordering: .relaxed)
    }

    /// How often the limits were enforced.
    struct Counts {
        /// Pauses of reading from a client.
        let pauses: UInt64
        /// Clients that were disconnected.
        let floods: UInt64
    }

    var counts: Counts {
        Counts(pauses: pauses.load(ordering: .relaxed), floods: floods.load(ordering: .relaxed))
    }

    func countPause() { pauses.add(1, ordering: .relaxed) }
    func countFlood() { floods.add(1, ordering: .relaxed) }
}

extension ClientRates.Values {
    init(_ settings: BrokerSettings) {
        self.init(
            messagesPerSecond: settings.limits.messagesPerSecond,
            bytesPerSecond: settings.limits.bytesPerSecond,
            toleranceSeconds: settings.limits.rateToleranceSeconds)
    }
}
