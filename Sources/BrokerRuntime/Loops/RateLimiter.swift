// Limits the rate at which each client of an event loop may send. Reading pauses while a client
// exceeds its rate, so that TCP slows it down and no message is lost. A client that exceeds its
// rate for too long is disconnected. The caller passes the time.

import BrokerTerms
import Primitives

/// Token buckets, one for each connection of an event loop. A bucket holds the amount of one
/// second.
///
/// For every burst of a connection, ``allowance(of:rates:at:)`` returns how much of it to process,
/// and ``charge(_:_:rates:at:)`` returns what to do afterwards.
struct RateLimiter: ~Copyable {
    /// The processed part of a burst.
    struct Amount {
        var messages: Int
        var bytes: Int
        /// Whether a rest of the burst exceeds the allowance.
        var leavesRest: Bool
    }

    /// What to do with a connection after a charge.
    enum Verdict: Equatable {
        case withinRate
        /// Pause reading until then.
        case pause(until: Instant)
        /// The client has exceeded its rate continuously for longer than is tolerated.
        case flood
    }

    /// A pause ends when the bucket holds the amount of this time, so that a fast client causes ten
    /// turns a second and not one for each message.
    static let sliceMilliseconds: Int64 = 100

    /// Amounts are in thousandths, so that a millisecond refills a whole number. They may be
    /// negative.
    private struct Meter {
        var generation: UInt32
        var filled: Instant
        var messages: Int64
        var bytes: Int64
        /// When the client began to exceed its rate; `never` if it does not.
        var aheadSince = Instant.never
    }

    private var meters: ContiguousArray<Meter?> = []

    /// How many messages of a connection may be processed now. It is at least one, because a
    /// connection without allowance would never continue.
    mutating func allowance(
        of connection: ConnectionID, rates: ClientRates.Values, at now: Instant
    ) -> Int {
        while meters.count <= connection.slot { meters.append(nil) }
        let full = Self.full(generation: connection.generation, rates: rates, at: now)
        var meter = meters[connection.slot] ?? full
        if meter.generation != connection.generation { meter = full }
        // A second fills the whole bucket.
        let elapsed = min(Int64(now.milliseconds(since: meter.filled)), 1000)
        meter.filled = now
        meter.messages = min(
            meter.messages + Int64(rates.messagesPerSecond) * elapsed, full.messages)
        meter.bytes = min(meter.bytes + Int64(rates.bytesPerSecond) * elapsed, full.bytes)
        meters[connection.slot] = meter
        return rates.messagesPerSecond == 0 ? .max : max(1, Int(meter.messages / 1000))
    }

    /// Charges a connection for a processed burst. Must follow ``allowance(of:rates:at:)``.
    mutating func charge(
        _ connection: ConnectionID, _ amount: Amount, rates: ClientRates.Values, at now: Instant
    ) -> Verdict {
        guard var meter = meters[connection.slot], meter.generation == connection.generation else {
            preconditionFailure("connection \(connection) is charged without an allowance")
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
        generation: UInt32, rates: ClientRates.Values, at now: Instant
    ) -> Meter {
        Meter(
            generation: generation, filled: now, messages: Int64(rates.messagesPerSecond) * 1000,
            bytes: Int64(rates.bytesPerSecond) * 1000)
    }

    /// Milliseconds until a bucket holds one slice, or `least` thousandths if that is more.
    private static func wait(_ bucket: Int64, _ perSecond: Int64, least: Int64) -> Int64 {
        let target = max(least, perSecond * sliceMilliseconds)
        return bucket >= target ? 0 : (target - bucket + perSecond - 1) / perSecond
    }
}
