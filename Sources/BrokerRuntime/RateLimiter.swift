// How fast each client of a lane may send. A client that is too fast is not read from until it is
// within its rate again, so that TCP slows it down; only a flood that no pause makes up for is an
// end. A value that is told the time.

import Primitives

/// Token buckets, one for each connection of a lane, each as large as one second's worth.
struct RateLimiter: ~Copyable {
    /// What became of bytes that were charged.
    enum Verdict: Equatable {
        case withinRate
        /// Do not read from it until then.
        case pause(until: Instant)
        /// It is further ahead of its rate than ``debtMillisecondsMaximum``.
        case flood
    }

    /// A pause makes up for what one burst brought. A client that needs a longer one has sent more
    /// in 64 KiB than its rate allows in so many seconds: small packets without end.
    static let debtMillisecondsMaximum: Int64 = 30_000

    private struct Meter {
        var generation: UInt32
        var filled: Instant
        /// In thousandths, so that a millisecond refills whole numbers. Below 0 when in debt.
        var messages: Int64
        var bytes: Int64
    }

    private var meters: ContiguousArray<Meter> = []

    /// Charges a connection for what it sent.
    ///
    /// - Parameter rates: messages and bytes per second; 0 for any.
    mutating func charge(
        _ connection: ConnectionID, messages: Int, bytes: Int, rates: ClientRates.Values,
        at now: Instant
    ) -> Verdict {
        while meters.count <= connection.slot {
            meters.append(Meter(generation: 0, filled: now, messages: 0, bytes: 0))
        }
        var meter = meters[connection.slot]
        if meter.generation != connection.generation {
            meter = Meter(
                generation: connection.generation, filled: now,
                messages: Int64(rates.messagesPerSecond) * 1000,
                bytes: Int64(rates.bytesPerSecond) * 1000)
        }
        // More than a second refills no more than a second does.
        let elapsed = min(Int64(now.milliseconds(since: meter.filled)), 1000)
        meter.filled = now
        let debt = max(
            Self.debt(&meter.messages, Int64(messages), Int64(rates.messagesPerSecond), elapsed),
            Self.debt(&meter.bytes, Int64(bytes), Int64(rates.bytesPerSecond), elapsed))
        meters[connection.slot] = meter
        if debt == 0 { return .withinRate }
        if debt > Self.debtMillisecondsMaximum { return .flood }
        return .pause(until: now.advanced(byMilliseconds: UInt64(debt)))
    }

    /// Refills and empties a bucket; the milliseconds until it is not in debt any more.
    private static func debt(
        _ bucket: inout Int64, _ amount: Int64, _ perSecond: Int64, _ elapsed: Int64
    ) -> Int64 {
        guard perSecond > 0 else { return 0 }
        bucket = min(bucket + perSecond * elapsed, perSecond * 1000) - amount * 1000
        return bucket >= 0 ? 0 : (-bucket + perSecond - 1) / perSecond
    }
}
