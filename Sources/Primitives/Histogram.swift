// Counts of values by size. The buckets are fixed powers of two, so that a value costs one count of
// leading zeros, and the values of any two histograms can be added.

/// Values by size, and their sum.
public struct Histogram: Sendable {
    /// Buckets: the last one counts every larger value too.
    @inlinable public static var bucketCount: Int { 40 }

    /// Bucket n counts the values above 2ⁿ⁻¹ and up to 2ⁿ; bucket 0 those up to 1.
    public var counts = InlineArray<40, UInt64>(repeating: 0)
    public var sum: UInt64 = 0

    @inlinable public init() {}

    /// A copy of counts that are kept in another form.
    public init(counts: InlineArray<40, UInt64>, sum: UInt64) {
        self.counts = counts
        self.sum = sum
    }

    /// The bucket of a value.
    @inlinable @inline(__always)
    public static func bucket(of value: UInt64) -> Int {
        value <= 1 ? 0 : min(64 - (value - 1).leadingZeroBitCount, bucketCount - 1)
    }

    @inlinable @inline(__always)
    public mutating func record(_ value: UInt64) {
        counts[Histogram.bucket(of: value)] &+= 1
        sum &+= value
    }

    /// The number of values.
    public var count: UInt64 { count(through: Histogram.bucketCount - 1) }

    /// The number of values up to 2 to the power of `exponent`, which must be below
    /// ``bucketCount``.
    public func count(through exponent: Int) -> UInt64 {
        var total: UInt64 = 0
        for bucket in 0...exponent { total &+= counts[bucket] }
        return total
    }

    /// Adds the values of another histogram.
    public static func += (left: inout Histogram, right: Histogram) {
        for bucket in 0..<bucketCount { left.counts[bucket] &+= right.counts[bucket] }
        left.sum &+= right.sum
    }
}
