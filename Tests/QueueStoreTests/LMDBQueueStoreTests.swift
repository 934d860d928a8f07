// The guarantees of the store, for each part of a batch, and over a close and an opening.

import BrokerCore
import Primitives
import Testing

@testable import QueueStore

@Suite struct `A queue store` {
    let directory = TemporaryDirectory()

    func open(_ options: StoreOptions = .small) throws -> LMDBQueueStore {
        try LMDBQueueStore(directory: directory.path, options: options)
    }

    @Test func `returns stored entries in order after a reopening`() throws {
        do {
            var store = try open()
            var batch = StoreBatch(at: 5)
            for number in 1...3 as ClosedRange<UInt64> {
                batch.send(number, "text \(number)", to: [7], number: number * 10)
            }
            #expect(try store.carryOut(batch).refusal == nil)
        }
        var store = try open()
        #expect(try store.texts(of: 7) == ["text 1", "text 2", "text 3"])
        #expect(try store.texts(of: 7, after: 10) == ["text 2", "text 3"])
        #expect(try store.texts(of: 7, after: .max) == [])
        #expect(try store.texts(of: 8) == [])
    }

    @Test func `restores records in the order of their keys, and outlines`() throws {
        do {
            var store = try open()
            var batch = StoreBatch(at: 99)
            batch.put(.users, "b", "second")
            batch.put(.users, "a", "first")
            batch.put(.apps, "z", "")
            batch.put(.wills, "gone", "never")
            batch.put(.wills, "gone", nil)
            batch.put(.wills, "absent", nil)
            batch.send(4, "one", to: [2, 3], number: 11)
            batch.send(9, "two", to: [3], number: 12)
            _ = try store.carryOut(batch)
        }
        var store = try open()
        var restored = Restored()
        let state = try store.restore(into: &restored)
        #expect(restored.records.map(\.table) == [.apps, .users, .users])
        #expect(
            restored.records.map { String(decoding: $0.key, as: UTF8.self) } == ["z", "a", "b"])
        #expect(restored.records.map(\.value.count) == [0, 5, 6])
        #expect(restored.queues.map(\.tally.queue.raw) == [2, 3])
        #expect(restored.queues.map(\.tally.count) == [1, 2])
        #expect(restored.queues.map(\.firstNumber) == [11, 11])
        #expect(restored.queues.map(\.lastNumber) == [11, 12])
        #expect(restored.queues[1].tally.byteCount == 2 * UInt64(messageBlock("one").count))
        #expect(state.nextMessage == StoredMessageID(raw: 10))
        #expect(state.stamp?.moment.instant == Instant(milliseconds: 99))
        #expect(state.damaged.isEmpty)
    }

    @Test func `does not reuse the id of a removed message`() throws {
        do {
            var store = try open()
            var batch = StoreBatch(at: 0)
            batch.send(41, "short life", to: [1], number: 1)
            batch.acknowledge(1, through: 1)
            _ = try store.carryOut(batch)
        }
        var store = try open()
        var restored = Restored()
        #expect(try store.restore(into: &restored).nextMessage == StoredMessageID(raw: 42))
        #expect(restored == Restored())
    }

    @Test func `acknowledges up to a number, and tallies what it removed`() throws {
        var store = try open()
        var batch = StoreBatch(at: 0)
        for number in 1...5 as ClosedRange<UInt64> {
            batch.send(number, "\(number)", to: [1], number: number)
        }
        batch.send(6, "other", to: [2], number: 1)
        _ = try store.carryOut(batch)

        var acknowledgement = StoreBatch(at: 0)
        acknowledgement.acknowledge(1, through: 3, wantsTally: true)
        acknowledgement.acknowledge(2, through: 0)
        acknowledgement.acknowledge(3, through: 9, wantsTally: true)
        let result = try store.carryOut(acknowledgement)
        #expect(result.tallies.map(\.count) == [3, 0])
        #expect(result.tallies[0].byteCount == 3 * UInt64(messageBlock("1").count))
        #expect(try store.texts(of: 1) == ["4", "5"])
        #expect(try store.texts(of: 2) == ["other"])
    }

    @Test func `keeps a body until its last receiver releases it`() throws {
        var store = try open()
        var batch = StoreBatch(at: 0)
        batch.send(1, "for three", to: [1, 2, 3], number: 1)
        _ = try store.carryOut(batch)
        for queue in 1...3 as ClosedRange<UInt64> {
            #expect(try store.texts(of: queue) == ["for three"])
            var acknowledgement = StoreBatch(at: 0)
            acknowledgement.acknowledge(queue, through: 1)
            _ = try store.carryOut(acknowledgement)
            let counts = try store.entryCounts()
            #expect(counts.messages == (queue < 3 ? 1 : 0))
            #expect(counts.releases == (queue < 3 ? 1 : 0))
        }
    }

    @Test func `writes no release record if all receivers release a body in one batch`() throws {
        var store = try open()
        var batch = StoreBatch(at: 0)
        batch.send(1, "wide", to: Array(1...500), number: 1)
        _ = try store.carryOut(batch)
        var acknowledgements = StoreBatch(at: 0)
        for queue in 1...499 as ClosedRange<UInt64> {
            acknowledgements.acknowledge(queue, through: 1)
        }
        _ = try store.carryOut(acknowledgements)
        #expect(try store.entryCounts() == (messages: 1, releases: 1, entries: 1))
        var last = StoreBatch(at: 0)
        last.acknowledge(500, through: 1)
        _ = try store.carryOut(last)
        #expect(try store.entryCounts() == (messages: 0, releases: 0, entries: 0))
    }

    @Test func `removes single entries and replaces states; missing ones are no error`() throws {
        var store = try open()
        var batch = StoreBatch(at: 0)
        for number in 1...3 as ClosedRange<UInt64> {
            batch.send(number, "\(number)", to: [1], number: number)
        }
        _ = try store.carryOut(batch)
        let state = EntryState(
            grade: .once, options: [.received, .retain], share: 65_535,
            subscriptionIdentifier: 268_435_455)
        var change = StoreBatch(at: 0)
        change.removals = [2, 9].map { EntryRemoval(queue: QueueID(raw: 1), number: $0) }
        change.states = [3, 9].map {
            EntryStateChange(queue: QueueID(raw: 1), number: $0, state: state)
        }
        change.load(1)
        let result = try store.carryOut(change)
        #expect(result.texts == ["1", "3"])
        #expect(result.loads[0].entries.map(\.state) == [EntryState(grade: .durable), state])
        #expect(try store.entryCounts() == (messages: 2, releases: 0, entries: 2))
    }

    @Test func `moves a queue after another, including entries of the same batch`() throws {
        var store = try open()
        var batch = StoreBatch(at: 0)
        batch.send(1, "first", to: [9], number: 1)
        batch.send(2, "here already", to: [4], number: 5)
        _ = try store.carryOut(batch)
        var moving = StoreBatch(at: 0)
        moving.send(3, "second", to: [9], number: 2)
        moving.transfers = [
            QueueTransfer(
                source: QueueID(raw: 9), destination: QueueID(raw: 4), firstNumber: 100,
                countMaximum: 2)
        ]
        moving.load(4)
        moving.load(9)
        let result = try store.carryOut(moving)
        #expect(result.texts == ["here already", "first", "second"])
        #expect(result.loads[0].entries.map(\.number) == [5, 100, 101])
        #expect(result.loads[1].entries.isEmpty && result.loads[1].reachedEnd)
    }

    @Test func `moves no more entries of a queue than there are numbers for`() throws {
        var store = try open()
        var batch = StoreBatch(at: 0)
        for number: UInt64 in 1...5 { batch.send(number, "\(number)", to: [9], number: number) }
        _ = try store.carryOut(batch)
        var moving = StoreBatch(at: 0)
        moving.transfers = [
            QueueTransfer(
                source: QueueID(raw: 9), destination: QueueID(raw: 4), firstNumber: 100,
                countMaximum: 3),
            QueueTransfer(
                source: QueueID(raw: 9), destination: QueueID(raw: 5), firstNumber: 1,
                countMaximum: 10, byteMaximum: 0),
        ]
        for queue: UInt64 in [4, 5, 9] { moving.load(queue) }
        let result = try store.carryOut(moving)
        #expect(result.transferred.map(\.count) == [3, 0])
        #expect(result.loads.map { $0.entries.map(\.number) } == [[100, 101, 102], [], [4, 5]])
    }

    @Test func `limits a load by count and by bytes, and always returns one entry`() throws {
        var store = try open()
        var batch = StoreBatch(at: 0)
        for number in 1...4 as ClosedRange<UInt64> {
            batch.send(number, "\(number)", to: [1], number: number)
        }
        let size = messageBlock("1").count
        batch.load(1, countMaximum: 2)
        batch.load(1, byteMaximum: 3 * size)
        batch.load(1, byteMaximum: 0)
        batch.load(1, after: 2, countMaximum: 2)
        let loads = try store.carryOut(batch).loads
        #expect(loads.map(\.entries.count) == [2, 3, 1, 2])
        #expect(loads.map(\.reachedEnd) == [false, false, false, true])
    }

    @Test func `reads entries before a number from the last one to the first`() throws {
        var store = try open()
        var batch = StoreBatch(at: 0)
        for number in 1...4 as ClosedRange<UInt64> {
            batch.send(number, "\(number)", to: [1, 3], number: number)
        }
        func load(_ queue: UInt64, before number: UInt64, after first: UInt64 = 0, count: Int = 9) {
            batch.load(queue, after: first, countMaximum: count)
            batch.loads[batch.loads.count - 1].beforeNumber = number
        }
        load(1, before: .max)
        load(1, before: 4, count: 2)
        load(1, before: 2, after: 1)
        load(1, before: 1)
        load(2, before: .max)
        load(3, before: 4, after: 2)
        let loads = try store.carryOut(batch).loads
        #expect(
            loads.map { $0.entries.map(\.number) } == [[4, 3, 2, 1], [3, 2], [], [], [], [3]])
        #expect(loads.map(\.reachedEnd) == [true, false, true, true, true, true])
        #expect(loads[1].examinedThrough == 2)
    }

    @Test func `skips, removes and reports expired entries once`() throws {
        var store = try open()
        var batch = StoreBatch(at: 0)
        batch.send(1, "old", to: [1], number: 1, deadline: Instant(milliseconds: 100))
        batch.send(2, "new", to: [1], number: 2, deadline: Instant(milliseconds: 101))
        _ = try store.carryOut(batch)
        var load = StoreBatch(at: 100)
        load.load(1)
        load.load(1)
        load.sweepMaximum = 10
        let result = try store.carryOut(load)
        #expect(result.texts == ["new", "new"])
        #expect(result.expired.map(\.count) == [1])
        #expect(result.swept.isEmpty, "the sweep comes after the loads")
        #expect(try store.entryCounts() == (messages: 1, releases: 0, entries: 1))
        #expect(try store.carryOut(load).expired.isEmpty)
    }

    @Test func `keeps an expired entry whose QoS 2 delivery may have begun`() throws {
        var store = try open()
        var batch = StoreBatch(at: 0)
        for number in 1...4 as ClosedRange<UInt64> {
            let deadline = Instant(milliseconds: 100)
            batch.send(number, "\(number)", to: [1], number: number, deadline: deadline)
            batch.entries[batch.entries.count - 1].state.grade = number == 2 ? .durable : .once
        }
        _ = try store.carryOut(batch)
        var load = StoreBatch(at: 100)
        load.load(1, sentThrough: 3)
        load.sweepMaximum = 10
        let result = try store.carryOut(load)
        #expect(result.texts == ["1", "3"])
        #expect(result.expired.map(\.count) == [2])
        // What was sent the sweep cannot know: it tells the grade.
        #expect(result.swept.map(\.number) == [1, 3])
        #expect(result.swept.map(\.state.grade) == [.once, .once])
    }

    @Test func `continues a sweep where it stopped, and restarts after the end`() throws {
        var store = try open()
        var batch = StoreBatch(at: 0)
        for number in 1...5 as ClosedRange<UInt64> {
            let deadline = Instant(milliseconds: number == 4 ? 10 : 1000)
            batch.send(number, "\(number)", to: [1], number: number, deadline: deadline)
        }
        _ = try store.carryOut(batch)
        var sweep = StoreBatch(at: 10)
        sweep.sweepMaximum = 3
        #expect(try store.carryOut(sweep).swept.isEmpty)
        #expect(try store.carryOut(sweep).swept.map(\.number) == [4])
        sweep.moment.instant = Instant(milliseconds: 1000)
        #expect(try store.carryOut(sweep).swept.map(\.number) == [1, 2, 3])
        #expect(try store.carryOut(sweep).swept.map(\.number) == [4, 5])
        // It only looks: the core knows what is under way.
        #expect(try store.entryCounts() == (messages: 5, releases: 0, entries: 5))
    }

    @Test func `removes single entries before it tallies acknowledgements`() throws {
        var store = try open()
        var batch = StoreBatch(at: 0)
        for number in 1...3 as ClosedRange<UInt64> {
            batch.send(number, "\(number)", to: [1], number: number)
        }
        _ = try store.carryOut(batch)
        var both = StoreBatch(at: 0)
        both.acknowledge(1, through: 3, wantsTally: true)
        both.removals = [EntryRemoval(queue: QueueID(raw: 1), number: 2)]
        #expect(try store.carryOut(both).tallies.map(\.count) == [2])
    }

    @Test func `trims the oldest entries after a number, by count and by bytes`() throws {
        var store = try open()
        let size = UInt64(messageBlock("1").count)
        func trim(after number: UInt64, count: UInt64, byteCount: UInt64 = 0) throws -> [String] {
            var batch = StoreBatch(at: 0)
            batch.trims = [
                QueueTrim(
                    queue: QueueID(raw: 1), afterNumber: number, count: count,
                    byteCount: byteCount)
            ]
            batch.load(1)
            let result = try store.carryOut(batch)
            let left = 9 - UInt64(result.texts.count)
            removed += result.trimmed[0].count
            #expect(removed == left)
            #expect(result.trimmed[0].byteCount == result.trimmed[0].count * size)
            return result.texts
        }
        var removed: UInt64 = 0
        var batch = StoreBatch(at: 0)
        for number in 1...9 as ClosedRange<UInt64> {
            batch.send(number, "\(number)", to: [1], number: number)
        }
        batch.send(10, "other", to: [2], number: 1)
        _ = try store.carryOut(batch)
        #expect(try trim(after: 2, count: 2) == ["1", "2", "5", "6", "7", "8", "9"])
        #expect(try trim(after: 2, count: 0, byteCount: size + 1) == ["1", "2", "7", "8", "9"])
        #expect(try trim(after: 2, count: 1, byteCount: 1) == ["1", "2", "8", "9"])
        #expect(try trim(after: 9, count: 5) == ["1", "2", "8", "9"])
        #expect(try trim(after: 2, count: 99) == ["1", "2"])
        #expect(try store.texts(of: 2) == ["other"])
        #expect(try store.entryCounts() == (messages: 3, releases: 0, entries: 3))
    }

    @Test func `deletes a long queue in slices, across a crash in between`() throws {
        let count = UInt64(2 * StoreLimits.deletedEntryMaximum + 10)
        do {
            var store = try open()
            var batch = StoreBatch(at: 0)
            for number in 1...count { batch.send(number, "x", to: [5], number: number) }
            batch.send(count + 1, "kept", to: [6], number: 1)
            _ = try store.carryOut(batch)
            var deletion = StoreBatch(at: 0)
            deletion.deletedQueues = [QueueID(raw: 5), QueueID(raw: 77)]
            #expect(try store.carryOut(deletion).isUnfinished)
        }
        var store = try open()
        var restored = Restored()
        _ = try store.restore(into: &restored)
        #expect(restored.queues.map(\.tally.queue.raw) == [6])
        #expect(try store.carryOut(StoreBatch(at: 0)).isUnfinished)
        #expect(try !store.carryOut(StoreBatch(at: 0)).isUnfinished)
        #expect(try store.entryCounts() == (messages: 1, releases: 0, entries: 1))
        #expect(try store.texts(of: 6) == ["kept"])
    }
}

extension LMDBQueueStore {
    /// How many keys the tables of messages have.
    func entryCounts() throws -> (messages: Int, releases: Int, entries: Int) {
        let transaction = try WriteTransaction(
            environment: environment, tables: tables, scratch: scratch.bytes)
        return (
            transaction.keyCount(tables.messages), transaction.keyCount(tables.releases),
            transaction.keyCount(tables.entries)
        )
    }
}
