// The keys of records, without their values: a start has to know which apps a store has before it
// makes another one.

import BrokerCore
import CLMDB

extension LMDBQueueStore {
    /// The keys of a table's records, in the order of their bytes.
    public func recordKeys(of table: RecordTable) throws(StoreError) -> [[UInt8]] {
        try Self.recordKeys(of: table, environment, scratch)
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
        return try recordKeys(of: table, environment, KeyScratch())
    }

    private static func recordKeys(
        of table: RecordTable, _ environment: borrowing Environment,
        _ scratch: borrowing KeyScratch
    ) throws(StoreError) -> [[UInt8]] {
        var begun: OpaquePointer?
        try check(
            mdb_txn_begin(environment.handle, nil, UInt32(MDB_RDONLY), &begun), "mdb_txn_begin")
        defer { mdb_txn_abort(begun) }
        var records = try Cursor(
            transaction: begun!, table: try Tables.records(transaction: begun!),
            scratch: scratch.bytes)
        defer { mdb_cursor_close(records.handle) }
        var keys: [[UInt8]] = []
        var isFound = try records.seek(notBefore: table)
        while isFound, records.key.first == table.rawValue {
            keys.append([UInt8](records.key.dropFirst()))
            isFound = try records.next()
        }
        return keys
    }
}
