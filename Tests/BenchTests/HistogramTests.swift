// The histogram of latencies: its buckets, its precision, its quantiles.
import Testing

@testable import martlet_bench

@Suite struct HistogramTests {
    @Test func `a time is precise to one part in 128`() {
        for value in [UInt64(0), 1, 127, 128, 255, 256, 1000, 999_999, 123_456_789, 1 << 39] {
            let bound = Histogram.upperBound(of: Histogram.bucket(of: value))
            #expect(bound >= value)
            #expect(bound - value <= value / 128)
        }
    }

    @Test func `buckets are contiguous`() {
        for bucket in 0..<4000 {
            let bound = Histogram.upperBound(of: bucket)
            #expect(Histogram.bucket(of: bound) == bucket)
            #expect(Histogram.bucket(of: bound + 1) == bucket + 1)
        }
    }

    @Test func `quantiles count from the smallest`() {
        var histogram = Histogram()
        for value in UInt64(1)...100 { histogram.record(value) }
        #expect(histogram.quantile(0.5) == 50)
        #expect(histogram.quantile(0.99) == 99)
        #expect(histogram.quantile(1) == 100)
        #expect(histogram.maximum == 100)
    }

    @Test func `an empty histogram has no times`() {
        #expect(Histogram().quantile(0.99) == 0)
    }

    @Test func `a quantile is never above the maximum`() {
        var histogram = Histogram()
        histogram.record(1_000_003)
        #expect(histogram.quantile(0.5) == 1_000_003)
    }

    @Test func `times beyond the range count as the longest`() {
        #expect(Histogram.bucket(of: .max) == Histogram.bucket(of: 1 << 40 - 1))
    }
}
