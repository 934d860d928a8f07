// How fast each client of a lane may send. What is beyond a client's rate is not read, so that TCP
// slows it down and nothing is lost; only who pushes on and on is sent away. A value that is told
// the time.

import Primitives

/// Token buckets, one for each connection of a lane, each as large as one second's worth.
///
/// For every burst that a connection shows: ``allowance(of:rates:at:)`` tells how much of it to
/// take, ``charge(_:_:rates:at:)`` what to do then.
struct RateLimiter: ~Copyable {
    /// What was taken of a burst.
    struct Amount {
        var messages: Int
        var bytes: Int
        /// Whether some of it was left because the allowance was used up.
        var leavesRest: Bool
    }

    /// What to do with a connection that has sent something.
    enum Verdict: Equatable {
        case withinRate
        /// Do not read from it until then.
        case pause(until: Instant)
        /// It has been ahead of its rate without a break for longer than is tolerated.
        case flood
    }

    /// A pause ends when there is so much to take again, so that a fast client costs ten turns a
    /// second and not one for each of its messages.
    static let sliceMilliseconds: Int64 = 100

    /// Amounts are in thousandths, so that a millisecond refills whole numbers. Below 0: in debt.
    private struct Meter {
        var generation: UInt32
        var filled: Instant
        var messages: Int64
        var bytes: Int64
        /// Since when it has been ahead of its rate without a break; `never` where it is not.
        var aheadSince = Instant.never
    }

    private var meters: ContiguousArray<Meter?> = []

    /// How many messages may be taken from a connection now: at least one, or nothing would ever
    /// go on.
    mutating func allowance(
        of connection: ConnectionID, rates: ClientRates.Values, at now: Instant
    ) -> Int {
        while meters.count <= connection.slot { meters.append(nil) }
        let full = Self.full(connection.generation, rates, now)
        var meter = meters[connection.slot] ?? full
        if meter.generation != connection.generation { meter = full }
        // More than a second refills no more than a second does.
        let elapsed = min(Int64(now.milliseconds(since: meter.filled)), 1000)
        meter.filled = now
        meter.messages = min(
            meter.messages + Int64(rates.messagesPerSecond) * elapsed, full.messages)
        meter.bytes = min(meter.bytes + Int64(rates.bytesPerSecond) * elapsed, full.bytes)
        meters[connection.slot] = meter
        return rates.messagesPerSecond == 0 ? .max : max(1, Int(meter.messages / 1000))
    }

    /// Charges a connection for what was taken; its allowance has just been asked for.
    mutating func charge(
        _ connection: ConnectionID, _ amount: Amount, rates: ClientRates.Values, at now: Instant
    ) -> Verdict {
        guard var meter = meters[connection.slot], meter.generation == connection.generation else {
            preconditionFailure("a charge without an allowance")
        }
        defer { meters[connection.slot] = meter }
        var wait: Int64 = 0
        if rates.messagesPerSecond > 0 {
            meter.messages -= Int64(amount.messages) * 1000
            if meter.messages < 0 || amount.leavesRest {
                wait = Self.wait(meter.messages, Int64(rates.messagesPerSecond), least: 1000)
            }
        }
        if rates.bytesPerSecond > 0 {
            meter.bytes -= Int64(amount.bytes) * 1000
            if meter.bytes < 0 {
                wait = max(wait, Self.wait(meter.bytes, Int64(rates.bytesPerSecond), least: 0))
            }
        }
        guard wait > 0 || amount.leavesRest else {
            meter.aheadSince = .never
            return .withinRate
        }
        if meter.aheadSince == .never { meter.aheadSince = now }
        let end = now.advanced(byMilliseconds: UInt64(max(1, wait)))
        let tolerated = UInt64(rates.toleranceSeconds) * 1000
        return end.milliseconds(since: meter.aheadSince) > tolerated ? .flood : .pause(until: end)
    }

    private static func full(
        _ generation: UInt32, _ rates: ClientRates.Values, _ now: Instant
    ) -> Meter {
        Meter(
            generation: generation, filled: now, messages: Int64(rates.messagesPerSecond) * 1000,
            bytes: Int64(rates.bytesPerSecond) * 1000)
    }

    /// Milliseconds until a bucket has a slice again, or at least so many thousandths.
    private static func wait(_ bucket: Int64, _ perSecond: Int64, least: Int64) -> Int64 {
        let target = max(least, perSecond * sliceMilliseconds)
        return bucket >= target ? 0 : (target - bucket + perSecond - 1) / perSecond
    }
}
