// A store of another format. There has been one format so far, so these tests define the next one:
// the older store is a real one, and the upgrade belongs to the tests.

import BrokerCore
import CLMDB
import Glibc
import Primitives
import Testing

@testable import QueueStore

@Suite struct `A store's format` {
    let directory = TemporaryDirectory()

    /// A format that gives each value of a record one byte more.
    private static let next = formats { (transaction) throws(StoreError) in
        try addByte(to: &transaction)
    }

    private static func formats(
        _ change: @escaping @Sendable (inout WriteTransaction) throws(StoreError) -> Void
    ) -> StoreFormats {
        StoreFormats(oldest: 1, steps: [FormatStep(change: change)])
    }

    private static func addByte(
        to transaction: inout WriteTransaction, countMaximum: Int = .max
    ) throws(StoreError) {
        var rows: [(key: [UInt8], value: [UInt8])] = []
        var records = try Cursor(
            transaction: transaction.handle, table: transaction.tables.records,
            scratch: transaction.scratch)
        while try records.next(), rows.count < countMaximum {
            let value = SealedValue.open(records.value, seed: .record, key: records.key)!
            rows.append(([UInt8](records.key), [UInt8](value) + [0x2E]))
        }
        mdb_cursor_close(records.handle)
        for row in rows {
            try row.key.withBytes { (key) throws(StoreError) in
                try row.value.withBytes { (value) throws(StoreError) in
                    try transaction.putSealed(
                        value, key: key, table: transaction.tables.records, seed: .record)
                }
            }
        }
    }

    /// Everything a store of some format tells; opening it upgrades it.
    private func contents(
        _ path: String, formats: StoreFormats
    ) throws -> (records: [String], texts: [String], upgraded: UInt32?) {
        var store = try LMDBQueueStore(directory: path, options: .small, formats: formats)
        var restored = Restored()
        _ = try store.restore(into: &restored)
        return (
            restored.records.map { String(decoding: $0.value, as: UTF8.self) },
            try store.texts(of: 1), store.upgradedFormat
        )
    }

    /// Makes a store of the present format with 300 records and a message.
    private func makeStore() throws {
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        var batch = StoreBatch(at: 0)
        for number in 100..<400 { batch.put(.users, "u\(number)", "value \(number)") }
        batch.send(1, "kept", to: [1], number: 1)
        _ = try store.carryOut(batch)
    }

    private let old = (100..<400).map { "value \($0)" }
    private let new = (100..<400).map { "value \($0)." }

    @Test func `that is older is upgraded once`() throws {
        try makeStore()
        let upgraded = try contents(directory.path, formats: Self.next)
        #expect(upgraded == (new, ["kept"], 1))
        let again = try contents(directory.path, formats: Self.next)
        #expect(again == (new, ["kept"], nil))
        let expected = StoreError.newerFormat(found: 2, known: 1)
        #expect(throws: expected) { _ = try contents(directory.path, formats: .known) }
        #expect(expected.description.contains("format 2") && expected.description.contains("1 at"))
        #expect(try LMDBQueueStore.verify(directory: directory.path).findings.count == 1)
        let copy = TemporaryDirectory()
        #expect(throws: expected) {
            try LMDBQueueStore.copy(directory: directory.path, to: copy.path, options: .small)
        }
    }

    @Test func `that is too old is refused, and named`() throws {
        try makeStore()
        let later = StoreFormats(oldest: 2, steps: [])
        let expected = StoreError.olderFormat(found: 1, oldest: 2)
        #expect(throws: expected) { _ = try contents(directory.path, formats: later) }
        #expect(expected.description.contains("format 1"))
        #expect(expected.description.contains("from 2"))
        #expect(try contents(directory.path, formats: .known) == (old, ["kept"], nil))
    }

    @Test func `is unchanged if the upgrade fails`() throws {
        try makeStore()
        let failing = Self.formats { (transaction) throws(StoreError) in
            try Self.addByte(to: &transaction, countMaximum: 200)
            throw .lmdb(call: "mdb_put", code: MDB_MAP_FULL)
        }
        #expect(throws: StoreError.lmdb(call: "mdb_put", code: MDB_MAP_FULL)) {
            _ = try contents(directory.path, formats: failing)
        }
        #expect(try contents(directory.path, formats: .known) == (old, ["kept"], nil))
        #expect(try contents(directory.path, formats: Self.next) == (new, ["kept"], 1))
    }

    @Test func `is the older or the newer one after a crash within the upgrade`() throws {
        try makeStore()
        // What the disk has when the upgrade is half done, and when all but the commit is.
        let copies = [TemporaryDirectory(), TemporaryDirectory(), TemporaryDirectory()]
        let path = directory.path
        let dataFiles = copies.map(\.dataFile)
        let watched = Self.formats { (transaction) throws(StoreError) in
            try Self.addByte(to: &transaction, countMaximum: 150)
            overwrite(dataFiles[0], at: 0, readFile(path + "/data.mdb"), flags: O_CREAT)
            try Self.addByte(to: &transaction)
            overwrite(dataFiles[1], at: 0, readFile(path + "/data.mdb"), flags: O_CREAT)
        }
        _ = try contents(path, formats: watched)
        overwrite(dataFiles[2], at: 0, readFile(path + "/data.mdb"), flags: O_CREAT)
        for copy in copies[..<2] {
            #expect(try contents(copy.path, formats: .known) == (old, ["kept"], nil))
            #expect(try contents(copy.path, formats: Self.next) == (new, ["kept"], 1))
        }
        #expect(throws: StoreError.newerFormat(found: 2, known: 1)) {
            _ = try contents(copies[2].path, formats: .known)
        }
    }

    @Test func `may add a table, whose later absence is damage`() throws {
        try makeStore()
        do {
            let store = try LMDBQueueStore(directory: directory.path, options: .small)
            let transaction = try WriteTransaction(
                environment: store.environment, tables: store.tables, scratch: store.scratch.bytes)
            try check(
                mdb_drop(transaction.handle, store.tables.damaged, 1), "mdb_drop")
            try transaction.commit()
        }
        #expect(throws: StoreError.damagedMeta(name: "table of damaged")) {
            _ = try contents(directory.path, formats: .known)
        }
        let gaining = StoreFormats(
            oldest: 1,
            steps: [FormatStep(newTables: ["damaged"]) { (_) throws(StoreError) in }])
        #expect(try contents(directory.path, formats: gaining) == (old, ["kept"], 1))
        #expect(try contents(directory.path, formats: gaining) == (old, ["kept"], nil))
    }

    @Test func `of a backup is upgraded when it is opened`() throws {
        try makeStore()
        let copy = TemporaryDirectory()
        try LMDBQueueStore.copy(directory: directory.path, to: copy.path, options: .small)
        #expect(try contents(copy.path, formats: Self.next) == (new, ["kept"], 1))
    }
}
