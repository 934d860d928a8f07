// The conditions for trimming the heap.

import Primitives
import Testing

@testable import BrokerRuntime

@Suite struct `Trimming the heap` {
    private var trim = HeapTrim()
    private var now = Instant(milliseconds: 1_000)
    private var processorMilliseconds: UInt64 = 0

    /// Some seconds later, after so much work and with so many megabytes free.
    private mutating func look(megabytes: Int, busy: Bool = false) -> Bool {
        now = now.advanced(byMilliseconds: HeapTrim.lookMilliseconds)
        processorMilliseconds += busy ? HeapTrim.busyMilliseconds : 1
        return trim.isDue(
            at: now, processorMilliseconds: processorMilliseconds,
            freeBytes: { megabytes << 20 })
    }

    @Test mutating func `waits for the end of a burst, and happens once for each`() {
        var results = [look(megabytes: 2), look(megabytes: 5)]
        #expect(results == [false, false], "little has become free")
        results = (0..<3).map { _ in look(megabytes: 40, busy: true) }
        #expect(results == [false, false, false], "there is load")
        // What was given back goes on being counted as free.
        results = [look(megabytes: 40), look(megabytes: 40), look(megabytes: 43)]
        #expect(results == [true, false, false])
        // The next burst uses it, and leaves it.
        results = [look(megabytes: 10, busy: true), look(megabytes: 40), look(megabytes: 40)]
        #expect(results == [false, true, false])
    }

    @Test mutating func `happens under load if memory stays free`() {
        _ = look(megabytes: 2)
        func dueLooks(_ count: Int, megabytes: Int) -> [Int] {
            (1...count).filter { _ in look(megabytes: megabytes, busy: true) }
        }
        let period = HeapTrim.looksUnderLoad
        #expect(
            dueLooks(4 * period, megabytes: 200) == [2 * period], "once for what has become free")
        #expect(dueLooks(2 * period, megabytes: 10).isEmpty, "the load uses it")
        #expect(dueLooks(2 * period, megabytes: 200) == [2 * period], "and not any more")
    }

    @Test mutating func `is checked only every few seconds`() {
        _ = look(megabytes: 2)
        var lookCount = 0
        for _ in 0..<20 {
            now = now.advanced(byMilliseconds: 500)
            _ = trim.isDue(at: now, processorMilliseconds: processorMilliseconds) {
                lookCount += 1
                return 100 << 20
            }
        }
        #expect(lookCount == 2)
    }
}
