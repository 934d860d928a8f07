// When the memory that LMDB keeps counts as unused.

import BrokerCore
import Primitives
import Testing

@testable import QueueStore

@Suite struct `Memory that LMDB keeps` {
    private func moment(_ milliseconds: UInt64) -> Moment {
        Moment(instant: Instant(milliseconds: milliseconds), unixMilliseconds: milliseconds)
    }

    @Test func `is unused some time after the last large transaction, and only then`() {
        var pages = KeptPages()
        #expect(!pages.areUnused(at: moment(100_000).instant))
        pages.note(countMaximum: KeptPages.countMinimum, at: moment(1_000))
        pages.note(countMaximum: KeptPages.countMinimum, at: moment(5_000))
        pages.note(countMaximum: KeptPages.countMinimum - 1, at: moment(7_000))
        let end = 5_000 + KeptPages.unusedMilliseconds
        #expect(!pages.areUnused(at: moment(end - 1).instant))
        #expect(pages.areUnused(at: moment(end).instant))
    }

    @Test func `is released once for a large transaction`() throws {
        let directory = TemporaryDirectory(inMemory: true)
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        var batch = StoreBatch(at: 0)
        for queue in 1...UInt64(KeptPages.countMinimum) {
            batch.send(queue, "x", to: [queue], number: 1)
        }
        _ = try store.carryOut(batch)
        let later = batch.moment.instant.advanced(byMilliseconds: KeptPages.unusedMilliseconds)
        let keptBefore = store.keepsPages(at: later)
        try store.releasePages(at: later)
        let keepsAfter = store.keepsPages(at: later)
        #expect(keptBefore && !keepsAfter)
        #expect(try store.texts(of: 17) == ["x"])
        var next = StoreBatch(at: 0)
        next.acknowledge(17, through: 1)
        _ = try store.carryOut(next)
        #expect(try store.texts(of: 17) == [])
    }
}
