// The keys of records, without their values: a start has to know which apps a store has before it
// makes another one.

import BrokerCore
import CLMDB

extension LMDBQueueStore {
    /// The keys of a table's records, in the order of their bytes.
    public func recordKeys(of table: RecordTable) throws(StoreError) -> [[UInt8]] {
        try Self.recordKeys(
            of: table, in: environment.handle, records: tables.records, scratch)
    }

    /// The same for the store of a directory, which another process may have open, but not this
    /// one. All pages are checked first: LMDB would follow a damaged one out of the file.
    ///
    /// Throws errors of the file system, of the pages, and of LMDB.
    public static func recordKeys(
        of table: RecordTable, directory: String, options: StoreOptions = StoreOptions()
    ) throws(StoreError) -> [[UInt8]] {
        try PageCheck.run(path: directory + "/" + Environment.dataFile)
        let environment = try Environment(
            directory: directory, lock: nil, mapByteCount: options.mapByteCount, isReadOnly: true)
        return try recordKeys(
            of: table, in: environment.handle, records: nil, KeyScratch())
    }

    /// - Parameter records: the table of the records; nil if it is not open.
    static func recordKeys(
        of table: RecordTable, in environment: OpaquePointer, records: MDB_dbi?,
        _ scratch: borrowing KeyScratch
    ) throws(StoreError) -> [[UInt8]] {
        var begun: OpaquePointer?
        try check(mdb_txn_begin(environment, nil, UInt32(MDB_RDONLY), &begun), "mdb_txn_begin")
        defer { mdb_txn_abort(begun) }
        let opened = if let records { records } else { try Tables.records(transaction: begun!) }
        var cursor = try Cursor(transaction: begun!, table: opened, scratch: scratch.bytes)
        defer { mdb_cursor_close(cursor.handle) }
        var keys: [[UInt8]] = []
        var isFound = try cursor.seek(notBefore: table)
        while isFound, cursor.key.first == table.rawValue {
            keys.append([UInt8](cursor.key.dropFirst()))
            isFound = try cursor.next()
        }
        return keys
    }
}
