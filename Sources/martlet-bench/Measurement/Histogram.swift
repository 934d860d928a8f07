// A histogram of times with a constant relative error, like HDR histograms: the buckets of each
// power of two are equally wide. Recording is a shift and an addition.

/// Counts nanoseconds from 0 to about 18 minutes, each to within one part in 128.
struct Histogram {
    /// Buckets of one power of two, as bits.
    private static let precisionBits = 7
    private static let exponentMaximum = 40
    private static let bucketCount = (exponentMaximum - precisionBits + 2) << precisionBits

    private var counts = ContiguousArray<UInt64>(repeating: 0, count: bucketCount)
    private(set) var count: UInt64 = 0
    private(set) var maximum: UInt64 = 0

    mutating func record(_ nanoseconds: UInt64) {
        counts[Histogram.bucket(of: nanoseconds)] &+= 1
        count &+= 1
        maximum = max(maximum, nanoseconds)
    }

    mutating func removeAll() {
        guard count > 0 else { return }
        self = Histogram()
    }

    mutating func merge(_ other: Histogram) {
        guard other.count > 0 else { return }
        for bucket in counts.indices { counts[bucket] += other.counts[bucket] }
        count += other.count
        maximum = max(maximum, other.maximum)
    }

    /// The smallest time that at least `fraction` of all recorded ones do not exceed, within the
    /// histogram's precision; 0 if nothing was recorded.
    func quantile(_ fraction: Double) -> UInt64 {
        let wanted = max(UInt64((Double(count) * fraction).rounded(.up)), 1)
        var seen: UInt64 = 0
        for bucket in 0..<counts.count {
            seen += counts[bucket]
            if seen >= wanted { return min(Histogram.upperBound(of: bucket), maximum) }
        }
        return maximum
    }

    /// Values below 2^precisionBits have a bucket each; above, the leading bits select it.
    static func bucket(of value: UInt64) -> Int {
        let capped = min(value, 1 << UInt64(exponentMaximum) - 1)
        let exponent = 63 - (capped | 1).leadingZeroBitCount
        guard exponent >= precisionBits else { return Int(capped) }
        let shift = exponent - precisionBits
        // The leading bit of the shifted value is at precisionBits: it increments the power of two.
        return shift << precisionBits + Int(capped >> UInt64(shift))
    }

    /// The largest value of a bucket.
    static func upperBound(of bucket: Int) -> UInt64 {
        let perPower = 1 << precisionBits
        guard bucket >= 2 * perPower else { return UInt64(bucket) }
        let shift = bucket >> precisionBits - 1
        let leading = UInt64(bucket - shift << precisionBits)
        return (leading + 1) << UInt64(shift) - 1
    }
}
