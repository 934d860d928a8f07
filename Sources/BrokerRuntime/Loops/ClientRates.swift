// The rates that all lanes hold their clients to, and how often they had to: read and counted
// without a lock, changed by a reload.

import Configuration
import Synchronization

/// Shared by the lanes and whoever reloads or counts.
package final class ClientRates: Sendable {
    package struct Values: Equatable {
        /// 0 for any.
        var messagesPerSecond: Int
        /// 0 for any.
        var bytesPerSecond: Int
        /// How long a client may be ahead of them without a break.
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

    /// Times that a client was not read from, and clients that were closed.
    var counts: (pauses: UInt64, floods: UInt64) {
        (pauses.load(ordering: .relaxed), floods.load(ordering: .relaxed))
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
