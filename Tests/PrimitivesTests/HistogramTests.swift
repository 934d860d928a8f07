// The buckets of a histogram, at their bounds and beyond the last one.

import Primitives
import Testing

@Suite struct `A histogram` {
    @Test(
        arguments: [
            (0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (1 << 20, 20),
            ((1 << 20) + 1, 21), (1 << 38, 38), ((1 << 38) + 1, 39), (UInt64.max, 39),
        ] as [(UInt64, Int)])
    func `counts a value up to a power of two in its bucket`(value: UInt64, bucket: Int) {
        var histogram = Histogram()
        histogram.record(value)
        #expect(Histogram.bucket(of: value) == bucket)
        #expect(histogram.counts[bucket] == 1)
        #expect(histogram.count == 1)
        #expect(histogram.sum == value)
        #expect(histogram.count(through: bucket) == 1)
        if bucket > 0 { #expect(histogram.count(through: bucket - 1) == 0) }
    }

    @Test func `adds the values of another one`() {
        var (one, other) = (Histogram(), Histogram())
        for value in 1...100 as ClosedRange<UInt64> { one.record(value) }
        other.record(64)
        other.record(1_000)
        one += other
        #expect(one.count == 102)
        #expect(one.sum == 5_050 + 1_064)
        #expect(one.count(through: 6) == 65)
    }
}
