// A store without space: sends are refused by name, and operations that free space continue.

import BrokerCore
import Glibc
import Primitives
import TestSurroundings
import Testing

@testable import QueueStore

@Suite struct `A full store` {
    /// Sends 100 messages of 1,000 bytes a batch until the store refuses; gives the last number.
    func fill(_ store: inout LMDBQueueStore) throws -> UInt64 {
        let text = String(repeating: "x", count: 1000)
        var number: UInt64 = 0
        while true {
            var batch = StoreBatch(at: 0)
            let before = number
            for _ in 0..<100 {
                number += 1
                batch.send(number, text, to: [number % 10 + 1], number: number)
            }
            batch.put(.counters, "last batch", "\(number)")
            let sent = RecordChange(table: .outboxes, key: [1], value: Array("\(number)".utf8))
            batch.sendRecords.append(sent)
            let result = try store.carryOut(batch)
            if result.refusal == .full { return before }
            #expect(number < 1_000_000, "it never fills")
        }
    }

    /// Fills, checks what is kept, drains in the manner of devices, and sends again.
    func fillAndDrain(_ store: inout LMDBQueueStore) throws {
        let last = try fill(&store)
        var restored = Restored()
        _ = try store.restore(into: &restored)
        #expect(restored.queues.reduce(0) { $0 + $1.tally.count } == last)
        // The rest of the refused batch was committed.
        let values = [last + 100, last].map { Array("\($0)".utf8) }
        #expect(restored.records.map(\.value) == values)

        for number in 1...last {
            var batch = StoreBatch(at: 0)
            batch.acknowledge(number % 10 + 1, through: number)
            batch.put(.counters, "drained", "\(number)")
            // Sends go on being tried, and are refused until there is room again.
            batch.send(last + 1000 + number, "y", to: [77], number: number)
            _ = try store.carryOut(batch)
        }
        let counts = try store.entryCounts()
        #expect(counts.messages == counts.entries)
        var batch = StoreBatch(at: 0)
        batch.send(10_000_000, "room again", to: [78], number: 1)
        let result = try store.carryOut(batch)
        #expect(result.refusal == nil && !result.isFull)
        #expect(try store.texts(of: 78) == ["room again"])
    }

    @Test func `refuses sends above its soft limit, and drains`() throws {
        let directory = TemporaryDirectory(inMemory: true)
        do {
            var store = try LMDBQueueStore(
                directory: directory.path,
                options: StoreOptions(mapByteCount: 64 << 20, softLimitByteCount: 4 << 20))
            let last = try fill(&store)
            #expect(last > 2000 && last < 5000)
        }
        var store = try LMDBQueueStore(
            directory: directory.path,
            options: StoreOptions(mapByteCount: 64 << 20, softLimitByteCount: 1 << 20))
        var batch = StoreBatch(at: 0)
        batch.send(1_000_000, "more", to: [1], number: 1_000_000)
        batch.acknowledge(1, through: .max)
        let result = try store.carryOut(batch)
        #expect(result.refusal == .full)
        #expect(result.usedBytes > result.softLimitBytes)
        #expect(result.softLimitBytes == 1 << 20)
        #expect(result.isFull)
        #expect(try store.texts(of: 1) == [])
    }

    @Test func `is filled, drained and filled again without an error`() throws {
        let directory = TemporaryDirectory(inMemory: true)
        var store = try LMDBQueueStore(
            directory: directory.path,
            options: StoreOptions(mapByteCount: 8 << 20, softLimitByteCount: 2 << 20))
        try fillAndDrain(&store)
    }

    @Test func `executes a batch that does not fit the map again without its sends`() throws {
        let directory = TemporaryDirectory(inMemory: true)
        var store = try LMDBQueueStore(
            directory: directory.path,
            options: StoreOptions(mapByteCount: 4 << 20, softLimitByteCount: 2 << 20))
        var batch = StoreBatch(at: 0)
        batch.send(1, "small", to: [1], number: 1)
        #expect(try store.carryOut(batch).refusal == nil)
        var large = StoreBatch(at: 0)
        large.send(2, String(repeating: "x", count: 8 << 20), to: [1], number: 2)
        large.acknowledge(1, through: 1, wantsTally: true)
        large.put(.users, "u", "committed")
        let result = try store.carryOut(large)
        #expect(result.refusal == .full)
        #expect(result.tallies.map(\.count) == [1])
        var restored = Restored()
        #expect(try store.restore(into: &restored).nextMessage == StoredMessageID(raw: 2))
        #expect(restored.queues.isEmpty && restored.records.count == 1)
        #expect(try store.entryCounts() == (messages: 0, releases: 0, entries: 0))
    }

    @Test(.enabled(if: SmallDisk.canBeMounted, "mounting a small disk needs a privilege"))
    func `on a full disk refuses sends and drains`() throws {
        let disk = try #require(SmallDisk(byteCount: 96 << 20))
        var store = try LMDBQueueStore(directory: disk.path + "/store", options: .small)
        try fillAndDrain(&store)
        store.close()
        #expect(try LMDBQueueStore.verify(directory: disk.path + "/store").findings == [])
    }
}

@Suite struct `A commit that fails` {
    let directory = TemporaryDirectory()

    /// Puts another file behind LMDB's descriptor, and carries a batch out.
    func commit(to path: String) throws {
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        var first = StoreBatch(at: 0)
        first.send(1, "committed", to: [1], number: 1)
        _ = try store.carryOut(first)
        let other = open(path, O_RDWR)
        try #require(dup2(other, store.environment.fileDescriptor) >= 0)
        close(other)
        var second = StoreBatch(at: 0)
        second.send(2, "lost", to: [1], number: 2)
        second.acknowledge(1, through: 1)
        _ = try store.carryOut(second)
    }

    @Test func `at its sync is fatal, and earlier commits are present`() throws {
        // /dev/null takes the pages, and cannot be synced.
        #expect(throws: StoreError.syncFailed(code: EINVAL)) { try commit(to: "/dev/null") }
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        #expect(try store.texts(of: 1) == ["committed"])
    }

    @Test func `for lack of space, even without its sends, is reported`() throws {
        #expect(throws: StoreError.lmdb(call: "mdb_txn_commit", code: ENOSPC)) {
            try commit(to: "/dev/full")
        }
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        #expect(try store.texts(of: 1) == ["committed"])
    }
}
