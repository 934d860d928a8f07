// What a loop measures of its turns and of the messages that they send.

import Primitives
import Testing

@testable import NetTransport

@Suite struct `Times of acceptance` {
    private let histogram = PublishedHistogram()

    @Test func `of a turn count until its end, each message once`() {
        var times = AcceptanceTimes()
        // The second one was accepted with the first one, as far as the buckets show.
        for time in [1_000_000, 1_000_001, 3_000_000] as [UInt64] {
            let isTaken = times.take(time)
            #expect(isTaken)
        }
        times.record(until: 5_000_000, in: histogram)
        let values = histogram.read()
        #expect(values.count == 3)
        #expect(values.counts[12] == 2, "4,000 µs are above 2,048 and below 4,096")
        #expect(values.counts[11] == 1, "2,000 µs")
        #expect(values.sum == 10_000)
        times.record(until: 9_000_000, in: histogram)
        #expect(histogram.read().count == 3, "they are forgotten")
    }

    @Test func `of a clock that another thread read later count as none`() {
        var times = AcceptanceTimes()
        let isTaken = times.take(2_000_000)
        #expect(isTaken)
        times.record(until: 1_000_000, in: histogram)
        #expect(histogram.read().counts[0] == 1)
    }

    @Test func `are bounded`() {
        var times = AcceptanceTimes()
        for index in 0..<AcceptanceTimes.entriesMaximum {
            let isTaken = times.take(UInt64(index + 1) * AcceptanceTimes.differenceMaximum)
            #expect(isTaken)
        }
        let isTaken = times.take(1 << 40)
        #expect(!isTaken)
        times.record(until: 1 << 40, in: histogram)
        #expect(histogram.read().count == UInt64(AcceptanceTimes.entriesMaximum))
        let isTakenNow = times.take(1 << 40)
        #expect(isTakenNow)
    }
}
