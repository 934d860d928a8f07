// The term of a primary.

/// The position of a primary's takeover in the log. Of two terms, the later one is higher.
public struct Term: Hashable, Comparable, Sendable {
    public var raw: UInt64

    @inlinable
    public init(raw: UInt64) { self.raw = raw }

    /// Before the first takeover.
    @inlinable
    public static var none: Term { Term(raw: 0) }

    @inlinable
    public static func < (left: Term, right: Term) -> Bool { left.raw < right.raw }
}
