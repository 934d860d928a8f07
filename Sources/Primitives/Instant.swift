// Time as the broker counts it. Nothing here reads a clock: instants are handed in from outside,
// which is what makes every machine above replayable.

/// A point in broker time: milliseconds that only ever move forward, across restarts too.
///
/// The runtime derives it from the monotonic clock plus a plausibly bounded downtime, so a wall
/// clock that is set does not age a message. Deadlines in the store are instants.
public struct Instant: Hashable, Comparable, BitwiseCopyable, Sendable {
    /// Milliseconds since the store was created.
    public var milliseconds: UInt64

    @inlinable
    public init(milliseconds: UInt64) {
        self.milliseconds = milliseconds
    }

    /// The deadline that never comes.
    @inlinable
    public static var never: Instant { Instant(milliseconds: .max) }

    @inlinable
    public static func < (left: Instant, right: Instant) -> Bool {
        left.milliseconds < right.milliseconds
    }

    /// This instant, that many milliseconds later; sticks at ``never``.
    @inlinable
    public func advanced(byMilliseconds milliseconds: UInt64) -> Instant {
        let (sum, overflow) = self.milliseconds.addingReportingOverflow(milliseconds)
        return overflow ? .never : Instant(milliseconds: sum)
    }

    /// This instant, that many seconds later; sticks at ``never``.
    @inlinable
    public func advanced(bySeconds seconds: UInt64) -> Instant {
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        return overflow ? .never : advanced(byMilliseconds: product)
    }

    /// Milliseconds from `earlier` to this instant; 0 where this one is not later.
    @inlinable
    public func milliseconds(since earlier: Instant) -> UInt64 {
        self > earlier ? milliseconds - earlier.milliseconds : 0
    }
}

/// The time of both clocks: deadlines use broker time; the wall clock is only shown and put into
/// messages.
public struct Moment: Hashable, Sendable {
    /// Broker time.
    public var instant: Instant
    /// Unix time in milliseconds.
    public var unixMilliseconds: UInt64

    @inlinable
    public init(instant: Instant, unixMilliseconds: UInt64) {
        self.instant = instant
        self.unixMilliseconds = unixMilliseconds
    }

    /// Unix time in whole seconds, rounded down.
    @inlinable
    public var unixSeconds: UInt64 { unixMilliseconds / 1_000 }
}
