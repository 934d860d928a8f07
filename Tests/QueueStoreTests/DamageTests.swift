// Damaged files: every byte of a store's file is flipped in turn, and no changed data is ever
// returned as sound.

import BrokerCore
import Glibc
import Primitives
import Testing

@testable import QueueStore

@Suite struct `A damaged store` {
    let directory = TemporaryDirectory(inMemory: true)

    /// Flips bits of the byte `delta` after the first occurrence of `pattern`.
    func flip(_ pattern: [UInt8], delta: Int = 0) {
        let bytes = readFile(directory.dataFile)
        // The newest copy of a page may be anywhere; stale ones do no harm.
        for start in 0...bytes.count - pattern.count
        where bytes[start] == pattern[0] && Array(bytes[start..<start + pattern.count]) == pattern {
            overwrite(directory.dataFile, at: start + delta, [bytes[start + delta] ^ 0x10])
        }
    }

    func write(_ change: (inout StoreBatch) -> Void) throws {
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        var batch = StoreBatch(at: 1)
        change(&batch)
        _ = try store.carryOut(batch)
    }

    @Test func `omits a message with a damaged body, and reports it once`() throws {
        try write { batch in
            batch.send(1, "a sound body", to: [1], number: 1)
            batch.send(2, "a rotten body", to: [1, 2], number: 2)
        }
        flip(Array("rotten".utf8))
        #expect(
            try LMDBQueueStore.verify(directory: directory.path).findings
                == ["message 2 fails its checksum"])
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        var load = StoreBatch(at: 1)
        load.load(1)
        load.load(2)
        let result = try store.carryOut(load)
        #expect(result.texts == ["a sound body"])
        #expect(result.damaged.map(\.queue.raw) == [1, 2])
        #expect(result.damaged.map(\.count) == [1, 1])
        #expect(result.damaged[0].byteCount == UInt64(messageBlock("a rotten body").count))
        #expect(try store.carryOut(load).damaged.isEmpty)
        store.close()
        let report = try LMDBQueueStore.verify(directory: directory.path)
        #expect(report.summary.contains("2 entries were set aside as damaged"))
        #expect(report.findings == ["message 2 fails its checksum"])
    }

    @Test func `omits a damaged entry, at start and at an acknowledgement`() throws {
        try write { batch in
            batch.send(0x1111_2222_3333, "one", to: [1, 2, 3], number: 0x4444_5555_6666)
        }
        for queue in [1, 2] as [UInt8] {
            let key = [0, 0, 0, 0, 0, 0, 0, queue, 0, 0, 0x44, 0x44, 0x55, 0x55, 0x66, 0x66]
            flip(key as [UInt8], delta: 16 + 12)
        }
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        var acknowledgement = StoreBatch(at: 1)
        acknowledgement.acknowledge(1, through: .max, wantsTally: true)
        let result = try store.carryOut(acknowledgement)
        #expect(result.tallies.map(\.count) == [0])
        #expect(result.damaged.map(\.count) == [1])
        var restored = Restored()
        #expect(try store.restore(into: &restored).damaged.map(\.queue.raw) == [2])
        #expect(restored.queues.map(\.tally.queue.raw) == [3])
        #expect(try store.restore(into: &restored).damaged.isEmpty)
        #expect(try store.texts(of: 3) == ["one"])
    }

    @Test func `does not tally a damaged entry that the core no longer counts`() throws {
        try write { batch in
            for number in 1...3 as ClosedRange<UInt64> {
                batch.send(number, "\(number)", to: [1], number: 0x4444_5555_6660 + number)
            }
        }
        for number in [0x61, 0x62] as [UInt8] {
            let key: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0x44, 0x44, 0x55, 0x55, 0x66, number]
            flip(key, delta: 16 + 12)
        }
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        var batch = StoreBatch(at: 1)
        batch.removals = [EntryRemoval(queue: QueueID(raw: 1), number: 0x4444_5555_6662)]
        batch.acknowledge(1, through: 0x4444_5555_6661)
        batch.sweepMaximum = 10
        let result = try store.carryOut(batch)
        #expect(result.damaged.isEmpty)
        #expect(result.damagedUncounted == 2)
        #expect(try store.texts(of: 1) == ["3"])
    }

    @Test func `does not start with a damaged record, and names it`() throws {
        try write { $0.put(.tokens, "tok/1", "a secret hash") }
        flip(Array("secret".utf8))
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        var restored = Restored()
        let expected = StoreError.damagedRecord(table: .tokens, key: Array("tok/1".utf8))
        #expect(throws: expected) { _ = try store.restore(into: &restored) }
        #expect(expected.description.contains("record tok/1 of table tokens"))
        store.close()
        #expect(
            try LMDBQueueStore.verify(directory: directory.path).findings
                == ["record tok/1 of table tokens fails its checksum"])
    }

    /// LMDB would take the other meta page for the newest, without the last commit. A change of
    /// bit 1 alone may make a number that fits: no check finds it.
    @Test func `is refused if the number of a commit does not fit its meta page`() throws {
        try write { $0.send(1, "one", to: [1], number: 1) }
        try write { $0.send(2, "two", to: [1], number: 2) }
        let before = readFile(directory.dataFile)
        // Behind the header, 24 bytes, two trees and the last page.
        let place = 16 + 24 + 2 * 48 + 8
        for page in 0..<2 {
            for bit in [0, 2, 3, 40] {
                let offset = page * 4_096 + place + bit / 8
                let byte = before[offset] ^ (1 << UInt8(bit % 8))
                overwrite(directory.dataFile, at: offset, [byte])
                let report = try LMDBQueueStore.verify(directory: directory.path)
                overwrite(directory.dataFile, at: offset, [before[offset]])
                #expect(report.preventsStart, "bit \(bit) of the number of meta page \(page)")
            }
            restore(before)
        }
        #expect(try LMDBQueueStore.verify(directory: directory.path).isSound)
    }

    /// In four parts, to use the processors.
    @Test(arguments: 0..<4)
    func `never returns changed data, whichever byte is flipped`(part: Int) throws {
        try write { batch in
            for number in 1...12 as ClosedRange<UInt64> {
                batch.send(number, "message \(number)", to: [1, 2], number: number)
                batch.put(.sessions, "session \(number)", "state \(number)")
            }
            batch.send(13, String(repeating: "large ", count: 1000), to: [1], number: 13)
        }
        try write { $0.acknowledge(2, through: 6) }
        let sound = try readAll()
        let before = readFile(directory.dataFile)
        var (reported, refused) = (0, 0)
        for offset in stride(from: part, to: before.count, by: 4) {
            overwrite(directory.dataFile, at: offset, [before[offset] ^ 0x40])
            let report = try LMDBQueueStore.verify(directory: directory.path)
            if let found = try? readAll() {
                try #require(found.isPart(of: sound), "byte \(offset) went unnoticed")
                // What lost something said so; a byte that no record uses does no harm.
                try #require(!report.isSound || found == sound, "byte \(offset) lost something")
                reported += report.isSound ? 0 : 1
            } else {
                try #require(!report.isSound, "byte \(offset) is refused and not reported")
                refused += 1
            }
            restore(before)
        }
        #expect(refused > 0 && reported > 0)
    }

    /// Everything a start and full loads hand out.
    struct Contents: Equatable {
        var restored: Restored
        var entries: [[LoadedEntry]]
        var texts: [String]

        func isPart(of whole: Contents) -> Bool {
            restored.records == whole.restored.records
                && Set(texts).isSubset(of: whole.texts)
                && zip(entries, whole.entries).allSatisfy { part, whole in
                    part.allSatisfy { entry in
                        whole.contains {
                            $0.number == entry.number && $0.message == entry.message
                                && $0.deadline == entry.deadline && $0.state == entry.state
                        }
                    }
                }
        }
    }

    func readAll() throws -> Contents {
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        var restored = Restored()
        _ = try store.restore(into: &restored)
        var batch = StoreBatch(at: 1)
        batch.load(1)
        batch.load(2)
        let result = try store.carryOut(batch)
        return Contents(
            restored: restored, entries: result.loads.map(\.entries), texts: result.texts)
    }

    /// Puts the file back as it was, in length too.
    func restore(_ bytes: [UInt8]) {
        truncate(directory.dataFile, off_t(bytes.count))
        overwrite(directory.dataFile, at: 0, bytes)
    }
}
