// The clock by which validity ends. Its end is a time of the broker, and the relay's own clock may
// be wrong: it starts in 1970 without a battery, and it is set.

import Primitives

/// The broker's clock, as far as the relay knows it: the time that the last login told, and what
/// the monotonic clock has counted since.
package struct BrokerTime: Sendable {
    private var reference: Moment
    private var isKnown = false

    /// - Parameter unixMilliseconds: a time that the broker has certainly reached; 0 for none.
    package init(_ now: Instant, atLeast unixMilliseconds: UInt64) {
        reference = Moment(instant: now, unixMilliseconds: unixMilliseconds)
    }

    /// The relay has logged in.
    ///
    /// - Parameter serverTime: the broker's clock, in Unix milliseconds.
    /// - Returns: what it would be if it had not been set since the last login; nil at the first.
    @discardableResult
    package mutating func loggedIn(serverTime: UInt64, now: Instant) -> UInt64? {
        let expected = isKnown ? unixMilliseconds(now) : nil
        isKnown = true
        defer { setReference(serverTime, now) }
        return expected
    }

    private mutating func setReference(_ serverTime: UInt64, _ now: Instant) {
        reference = Moment(instant: now, unixMilliseconds: serverTime)
    }

    /// The broker's clock now, in Unix milliseconds; before the first login a time that it has
    /// reached.
    package func unixMilliseconds(_ now: Instant) -> UInt64 {
        Self.sum(reference.unixMilliseconds, now.milliseconds(since: reference.instant))
    }

    /// The time, in Unix milliseconds, that the broker's clock and the relay's own have both
    /// reached. A validity has ended when this time is its end.
    package func agreed(_ now: Moment) -> UInt64 {
        min(now.unixMilliseconds, unixMilliseconds(now.instant))
    }

    /// The end of a validity that begins now, whatever the clocks say.
    package func end(afterMilliseconds milliseconds: UInt64, now: Moment) -> UInt64 {
        Self.sum(max(now.unixMilliseconds, unixMilliseconds(now.instant)), milliseconds)
    }

    /// The sum of a time of somebody else and a duration; it sticks at the largest number.
    package static func sum(_ time: UInt64, _ milliseconds: UInt64) -> UInt64 {
        let (sum, isOverflow) = time.addingReportingOverflow(milliseconds)
        return isOverflow ? .max : sum
    }
}
