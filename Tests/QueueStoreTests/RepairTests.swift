// The repairs of a damaged store: for each kind of finding a store with it, what a dry run
// proposes, and the store afterwards.

import BrokerCore
import CLMDB
import Glibc
import Primitives
import Testing

@testable import QueueStore

@Suite struct StoreRepairTests {
    let directory = TemporaryDirectory(inMemory: true)

    /// Three messages, of which one has been released by one of two queues.
    private func fill() throws {
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        var batch = StoreBatch(at: 1)
        batch.send(1, "one", to: [1, 2], number: 1)
        batch.send(2, "two", to: [1], number: 2)
        batch.send(3, "three", to: [2], number: 3)
        batch.put(.tokens, "tok", "a token")
        batch.put(.retained, "kept", "a topic")
        batch.put(.sessions, "phone", "a session")
        _ = try store.carryOut(batch)
        var acknowledgement = StoreBatch(at: 1)
        acknowledgement.acknowledge(2, through: 1)
        _ = try store.carryOut(acknowledgement)
    }

    /// Changes rows behind the store's back.
    private func alter(
        _ change: (borrowing WriteTransaction) throws(StoreError) -> Void
    ) throws {
        let lock = try DirectoryLock(directory: directory.path, createsDirectory: false)
        let environment = try Environment(
            directory: directory.path, lock: lock, mapByteCount: 1 << 30)
        let scratch = KeyScratch()
        let transaction = try WriteTransaction(
            environment: environment, making: [], scratch: scratch.bytes)
        try change(transaction)
        try transaction.commit()
    }

    /// The value of a row with another last byte.
    private func spoil(
        _ key: [UInt8], _ table: (Tables) -> MDB_dbi, in transaction: borrowing WriteTransaction
    ) throws(StoreError) {
        var value: [UInt8] = []
        let handle = transaction.handle
        let place = table(transaction.tables)
        try key.withBytes { (key) throws(StoreError) in
            var (keyValue, data) = (MDB_val(key), MDB_val())
            try check(mdb_get(handle, place, &keyValue, &data), "mdb_get")
            value = [UInt8](UnsafeRawBufferPointer(data))
        }
        value[value.count - 1] ^= 0x10
        try put(key, value, table, in: transaction)
    }

    private func put(
        _ key: [UInt8], _ value: [UInt8], _ table: (Tables) -> MDB_dbi,
        in transaction: borrowing WriteTransaction
    ) throws(StoreError) {
        let handle = transaction.handle
        let place = table(transaction.tables)
        try key.withBytes { (key) throws(StoreError) in
            try value.withBytes { (value) throws(StoreError) in
                var (keyValue, data) = (MDB_val(key), MDB_val(value))
                try check(mdb_put(handle, place, &keyValue, &data, 0), "mdb_put")
            }
        }
    }

    private func remove(
        _ key: [UInt8], _ table: (Tables) -> MDB_dbi, in transaction: borrowing WriteTransaction
    ) throws(StoreError) {
        let handle = transaction.handle
        let place = table(transaction.tables)
        try key.withBytes { (key) throws(StoreError) in
            var keyValue = MDB_val(key)
            try check(mdb_del(handle, place, &keyValue, nil), "mdb_del")
        }
    }

    private func key(_ numbers: UInt64...) -> [UInt8] {
        numbers.flatMap { number in withUnsafeBytes(of: number.bigEndian) { [UInt8]($0) } }
    }

    /// Repairs the store; then it is sound, and queues have these texts.
    ///
    /// - Parameter expected: the lines of the plan.
    private func expectRepair(_ expected: [String], _ first: [String], _ second: [String]) throws {
        let before = readFile(directory.dataFile)
        let report = try LMDBQueueStore.verify(directory: directory.path)
        #expect(!report.isSound)
        #expect(report.unrepairable.isEmpty, "\(report.unrepairable)")
        #expect(report.repairs.map { "\($0.finding): \($0.action)" } == expected)
        #expect(readFile(directory.dataFile) == before, "a verification changed the file")
        try LMDBQueueStore.repair(
            directory: directory.path, options: .small, report.repairs, of: report.commitNumber)
        let after = try LMDBQueueStore.verify(directory: directory.path)
        #expect(after.isSound, "\(after.findings)")
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        var restored = Restored()
        _ = try store.restore(into: &restored)
        #expect(try store.texts(of: 1) == first)
        #expect(try store.texts(of: 2) == second)
        // Bodies are freed when their last entry goes.
        var acknowledgement = StoreBatch(at: 1)
        for queue in 1...2 as ClosedRange<UInt64> {
            acknowledgement.acknowledge(queue, through: .max)
        }
        _ = try store.carryOut(acknowledgement)
        store.close()
        let end = try LMDBQueueStore.verify(directory: directory.path)
        #expect(end.isSound, "\(end.findings)")
        #expect(end.summary.contains("0 messages"), "\(end.summary)")
    }

    private let lostEntry = "remove it: its receiver does not get this message"

    @Test func `an unreadable message is removed with its entries`() throws {
        try fill()
        try alter { (transaction) throws(StoreError) in
            try spoil(key(2), { $0.messages }, in: transaction)
        }
        try expectRepair(
            [
                "message 2 fails its checksum: remove it: nobody can receive it",
                "entry 2 of queue 1 has message 2, which cannot be read: \(lostEntry)",
            ], ["one"], ["three"])
    }

    @Test func `a message whose count of receivers is unreadable is removed with its entries`()
        throws
    {
        try fill()
        try alter { (transaction) throws(StoreError) in
            try put(key(1), [UInt8](repeating: 7, count: 20), { $0.messages }, in: transaction)
        }
        try expectRepair(
            [
                "message 1 fails its checksum: remove it: nobody can receive it",
                "message 1 is released and missing: remove the release; nothing is lost",
                "entry 1 of queue 1 has message 1, which cannot be read: \(lostEntry)",
            ], ["two"], ["three"])
    }

    @Test func `an unreadable entry is removed, and its message is freed`() throws {
        try fill()
        try alter { (transaction) throws(StoreError) in
            try spoil(key(1, 2), { $0.entries }, in: transaction)
        }
        let name = readable(key(1, 2))
        try expectRepair(
            [
                "entry \(name) fails its checksum: \(lostEntry)",
                "message 2 accounts for 0 of 1 receivers: "
                    + "remove it: no queue has an entry with it; 1 receivers, whom no row names, "
                    + "may not have it",
            ], ["one"], ["three"])
    }

    @Test func `an entry without a message is removed`() throws {
        try fill()
        try alter { (transaction) throws(StoreError) in
            try remove(key(3), { $0.messages }, in: transaction)
        }
        try expectRepair(
            ["entry 3 of queue 2 has no message 3: \(lostEntry)"], ["one", "two"], [])
    }

    @Test func `releases are counted from the entries`() throws {
        try fill()
        let count = "message 1 accounts for 1 of 2 receivers: "
        let action =
            "count 1 releases, because 1 entries have it; 1 receivers, whom no row names, may not "
            + "have it"
        try alter { (transaction) throws(StoreError) in
            try spoil(key(1), { $0.releases }, in: transaction)
        }
        try expectRepair(
            [
                "release \(readable(key(1))) fails its checksum: "
                    + "remove it: the releases are counted from the entries", count + action,
            ], ["one", "two"], ["three"])
    }

    @Test func `a missing release is written again`() throws {
        try fill()
        try alter { (transaction) throws(StoreError) in
            try remove(key(1), { $0.releases }, in: transaction)
        }
        try expectRepair(
            [
                "message 1 accounts for 1 of 2 receivers: "
                    + "count 1 releases, because 1 entries have it; 1 receivers, whom no row "
                    + "names, may not have it"
            ], ["one", "two"], ["three"])
    }

    @Test func `a missing entry of one of two receivers is a loss`() throws {
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        var batch = StoreBatch(at: 1)
        batch.send(1, "one", to: [1, 2], number: 1)
        _ = try store.carryOut(batch)
        store.close()
        try alter { (transaction) throws(StoreError) in
            try remove(key(2, 1), { $0.entries }, in: transaction)
        }
        try expectRepair(
            [
                "message 1 accounts for 1 of 2 receivers: "
                    + "count 1 releases, because 1 entries have it; 1 receivers, whom no row "
                    + "names, may not have it"
            ], ["one"], [])
    }

    @Test func `too many releases are corrected, and nothing is lost`() throws {
        try fill()
        try alter { (transaction) throws(StoreError) in
            var value = [UInt8](repeating: 0, count: StoredRelease.byteCount)
            value.withUnsafeMutableBytes {
                StoredRelease.write(to: $0.baseAddress!, id: 1, count: 2)
            }
            try put(key(1), value, { $0.releases }, in: transaction)
        }
        try expectRepair(
            [
                "message 1 accounts for 3 of 2 receivers: "
                    + "count 1 releases, because 1 entries have it; nothing is lost"
            ], ["one", "two"], ["three"])
    }

    @Test func `a release of a missing message is removed`() throws {
        try fill()
        try alter { (transaction) throws(StoreError) in
            var value = [UInt8](repeating: 0, count: StoredRelease.byteCount)
            value.withUnsafeMutableBytes {
                StoredRelease.write(to: $0.baseAddress!, id: 9, count: 1)
            }
            try put(key(9), value, { $0.releases }, in: transaction)
        }
        try expectRepair(
            ["message 9 is released and missing: remove the release; nothing is lost"],
            ["one", "two"], ["three"])
    }

    @Test func `a message with more entries than receivers gets as many`() throws {
        try fill()
        try alter { (transaction) throws(StoreError) in
            var entry = [UInt8](repeating: 0, count: StoredEntry.byteCount)
            let place = EntryKey(queue: 2, number: 9)
            let put = EntryPut(
                queue: QueueID(raw: 2), number: 9, message: StoredMessageID(raw: 2),
                deadline: .never, byteCount: 1, state: EntryState(grade: .durable))
            entry.withUnsafeMutableBytes { StoredEntry(put).write(to: $0.baseAddress!, key: place) }
            try self.put(key(2, 9), entry, { $0.entries }, in: transaction)
        }
        try expectRepair(
            [
                "message 2 accounts for 2 of 1 receivers: "
                    + "set its receivers to 2, the entries that have it; nothing is lost"
            ], ["one", "two"], ["three", "two"])
    }

    @Test func `a message that no queue has is removed`() throws {
        try fill()
        try alter { (transaction) throws(StoreError) in
            try remove(key(2, 3), { $0.entries }, in: transaction)
        }
        try expectRepair(
            [
                "message 3 accounts for 0 of 1 receivers: "
                    + "remove it: no queue has an entry with it; 1 receivers, whom no row names, "
                    + "may not have it"
            ], ["one", "two"], [])
    }

    @Test func `a message without an id is removed`() throws {
        try fill()
        try alter { (transaction) throws(StoreError) in
            try put([1, 2, 3], [4], { $0.messages }, in: transaction)
        }
        try expectRepair(
            ["%01%02%03 is no message id: remove it: no entry can name it"], ["one", "two"],
            ["three"])
    }

    @Test func `a damaged row that was set aside is removed`() throws {
        try fill()
        try alter { (transaction) throws(StoreError) in
            try put(key(1, 7), [1, 2, 3], { $0.damaged }, in: transaction)
        }
        try expectRepair(
            [
                "set-aside entry \(readable(key(1, 7))) fails its checksum: "
                    + "remove it: it was not delivered any more"
            ], ["one", "two"], ["three"])
    }

    @Test func `a damaged mark of a deleted queue is removed`() throws {
        try fill()
        try alter { (transaction) throws(StoreError) in
            try put(key(1), [1, 2, 3], { $0.doomed }, in: transaction)
        }
        try expectRepair(
            [
                "deleted queue \(readable(key(1))) fails its checksum: "
                    + "remove the mark; a queue without an owner gets another one"
            ], ["one", "two"], ["three"])
    }

    @Test func `records that nothing else needs are removed, and the loss is named`() throws {
        try fill()
        try alter { (transaction) throws(StoreError) in
            for (table, name) in [(RecordTable.tokens, "tok"), (.retained, "kept")] {
                try spoil([table.rawValue] + Array(name.utf8), { $0.records }, in: transaction)
            }
        }
        try expectRepair(
            [
                "record tok of table tokens fails its checksum: "
                    + "remove it: the token does not work any more: mint another",
                "record kept of table retained fails its checksum: "
                    + "remove it: the retained message is lost; its bytes: a%20topis",
            ], ["one", "two"], ["three"])
    }

    @Test func `a damaged identity is made anew, as for a restored backup`() throws {
        try fill()
        let old = try LMDBQueueStore(directory: directory.path, options: .small).identity
        try alter { (transaction) throws(StoreError) in
            try spoil(Array("martlet.identity".utf8), { $0.meta }, in: transaction)
        }
        try expectRepair(
            [
                "martlet.identity fails its checksum: make a new one, as for a restored backup: "
                    + "devices resume at the beginning and may receive messages again"
            ], ["one", "two"], ["three"])
        #expect(try LMDBQueueStore(directory: directory.path, options: .small).identity != old)
    }

    @Test(arguments: [
        ("martlet.stamp", "restore a backup"), ("martlet.format", "restore a backup"),
    ])
    func `the store's other values have no repair`(name: String, advice: String) throws {
        try fill()
        try alter { (transaction) throws(StoreError) in
            try spoil(Array(name.utf8), { $0.meta }, in: transaction)
        }
        let report = try LMDBQueueStore.verify(directory: directory.path)
        #expect(report.isBeyondRepair && report.repairs.isEmpty)
        #expect(report.unrepairable.count == 1)
        #expect(report.unrepairable.first?.reason.contains(advice) == true)
    }

    /// Renames one of the store's own values, as a damaged byte of its key does.
    private func rename(_ name: String, to other: String) throws {
        try alter { (transaction) throws(StoreError) in
            let (handle, meta) = (transaction.handle, transaction.tables.meta)
            var value: [UInt8] = []
            try Array(name.utf8).withBytes { (key) throws(StoreError) in
                var (keyValue, data) = (MDB_val(key), MDB_val())
                try check(mdb_get(handle, meta, &keyValue, &data), "mdb_get")
                value = [UInt8](UnsafeRawBufferPointer(data))
            }
            try remove(Array(name.utf8), { $0.meta }, in: transaction)
            try put(Array(other.utf8), value, { $0.meta }, in: transaction)
        }
    }

    /// Expects that the store does not start, and that the verification says so with the same
    /// words.
    private func expectNoStart(_ findings: [String]) throws {
        #expect(throws: StoreError.inconsistentMeta(finding: findings[0])) {
            _ = try LMDBQueueStore(directory: directory.path, options: .small)
        }
        let report = try LMDBQueueStore.verify(directory: directory.path)
        #expect(report.findings == findings)
        #expect(report.preventsStart && report.isBeyondRepair)
    }

    @Test func `a value of the store with a damaged name prevents a start`() throws {
        try fill()
        try rename("martlet.stamp", to: "martlet.stam~")
        try expectNoStart([
            "its own value martlet.stam~ is unknown",
            "martlet.stamp is missing, and there are rows",
        ])
        try rename("martlet.stam~", to: "martlet.stamp")
        #expect(try LMDBQueueStore.verify(directory: directory.path).isSound)
        try alter { (transaction) throws(StoreError) in
            try put(Array("martlet.positio~".utf8), [1], { $0.meta }, in: transaction)
        }
        try expectNoStart(["its own value martlet.positio~ is unknown"])
    }

    @Test func `rows without a stamp prevent a start, an empty store does not`() throws {
        _ = try LMDBQueueStore(directory: directory.path, options: .small)
        #expect(try LMDBQueueStore.verify(directory: directory.path).isSound)
        try fill()
        try alter { (transaction) throws(StoreError) in
            try remove(Array("martlet.stamp".utf8), { $0.meta }, in: transaction)
        }
        try expectNoStart(["martlet.stamp is missing, and there are rows"])
    }

    @Test func `a message that the stamp does not know prevents a start`() throws {
        try fill()
        // One that is unreadable is removed.
        try alter { (transaction) throws(StoreError) in
            try put(key(9), [1], { $0.messages }, in: transaction)
        }
        #expect(
            throws: StoreError.inconsistentMeta(
                finding: "message \(readable(key(9))) is not below the next one of its stamp, 4")
        ) { _ = try LMDBQueueStore(directory: directory.path, options: .small) }
        try expectRepair(
            ["message 9 fails its checksum: remove it: nobody can receive it"], ["one", "two"],
            ["three"])
    }

    @Test func `a record that others need has no repair, nor one of an unknown table`() throws {
        try fill()
        try alter { (transaction) throws(StoreError) in
            let session = [RecordTable.sessions.rawValue] + Array("phone".utf8)
            try spoil(session, { $0.records }, in: transaction)
            try put([0xEE, 1], [UInt8](repeating: 1, count: 9), { $0.records }, in: transaction)
        }
        let report = try LMDBQueueStore.verify(directory: directory.path)
        #expect(report.isBeyondRepair && report.repairs.isEmpty)
        #expect(
            report.unrepairable.map(\.finding) == [
                "record phone of table sessions fails its checksum",
                "record %01 of table unknown fails its checksum",
            ])
    }

    @Test func `a store with another commit than the verified one is not repaired`() throws {
        try fill()
        try alter { (transaction) throws(StoreError) in
            try spoil(key(2), { $0.messages }, in: transaction)
        }
        let report = try LMDBQueueStore.verify(directory: directory.path)
        try alter { (transaction) throws(StoreError) in
            try put(key(1, 7), [1, 2, 3], { $0.damaged }, in: transaction)
        }
        let before = readFile(directory.dataFile)
        #expect(throws: StoreError.changedMeanwhile(directory: directory.path)) {
            try LMDBQueueStore.repair(
                directory: directory.path, options: .small, report.repairs,
                of: report.commitNumber)
        }
        #expect(readFile(directory.dataFile) == before)
    }

    @Test func `a damaged page has no repair`() throws {
        try fill()
        overwrite(directory.dataFile, at: 3 * 4096, [UInt8](repeating: 0xFF, count: 4096))
        overwrite(directory.dataFile, at: 2 * 4096, [UInt8](repeating: 0xFF, count: 4096))
        overwrite(directory.dataFile, at: 4 * 4096, [UInt8](repeating: 0xFF, count: 4096))
        let report = try LMDBQueueStore.verify(directory: directory.path)
        #expect(report.isBeyondRepair && report.repairs.isEmpty)
    }
}
