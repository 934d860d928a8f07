// A histogram that one thread writes and others read. There is no lock and no locked instruction: a
// reader may see the count of a value and not yet its sum.

import Primitives
import Synchronization

/// Values by size, from one thread for all.
public final class PublishedHistogram: Sendable {
    /// The counts, and the sum.
    private let words: InlineArray<41, Atomic<UInt64>>

    public init() {
        words = InlineArray { _ in Atomic(0) }
    }

    /// Counts a value `count` times. Always the same thread must call it.
    public func record(_ value: UInt64, count: UInt64 = 1) {
        add(count, to: Histogram.bucket(of: value))
        add(value &* count, to: Histogram.bucketCount)
    }

    private func add(_ amount: UInt64, to index: Int) {
        words[index].store(words[index].load(ordering: .relaxed) &+ amount, ordering: .relaxed)
    }

    public func read() -> Histogram {
        var counts = InlineArray<40, UInt64>(repeating: 0)
        for index in 0..<Histogram.bucketCount {
            counts[index] = words[index].load(ordering: .relaxed)
        }
        return Histogram(
            counts: counts, sum: words[Histogram.bucketCount].load(ordering: .relaxed))
    }
}

/// Times of acceptance of the messages that a turn sends, until it has sent them. Messages that
/// were accepted at about the same time are one entry.
struct AcceptanceTimes {
    /// Entries of one turn.
    static let entriesMaximum = 32
    /// Times that differ by less are one: a fourth of the smallest bucket that is shown.
    static let differenceMaximum: UInt64 = 16_000

    private var times = InlineArray<32, UInt64>(repeating: 0)
    private var counts = InlineArray<32, UInt64>(repeating: 0)
    private var used = 0

    /// Takes a time in nanoseconds. Returns false if there is no room for it.
    mutating func take(_ time: UInt64) -> Bool {
        if used > 0, time &- times[used - 1] < AcceptanceTimes.differenceMaximum {
            counts[used - 1] += 1
            return true
        }
        guard used < AcceptanceTimes.entriesMaximum else { return false }
        times[used] = time
        counts[used] = 1
        used += 1
        return true
    }

    /// Counts what has passed until a time, in microseconds, and forgets the times.
    mutating func record(until now: UInt64, in histogram: PublishedHistogram) {
        for index in 0..<used {
            let passed = now > times[index] ? now - times[index] : 0
            histogram.record(passed / 1_000, count: counts[index])
        }
        used = 0
    }
}
