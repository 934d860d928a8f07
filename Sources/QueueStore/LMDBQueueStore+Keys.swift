// The keys of records, read from a store that is not opened: what a start has to know before it
// opens or makes a store.

import BrokerCore
import CLMDB

extension LMDBQueueStore {
    /// The keys of a table's records in the store of a directory, in the order of their bytes.
    /// Values are not read. Another process may have the store open, but not this one.
    ///
    /// Throws errors of the file system, of the file's first pages, and of LMDB.
    public static func recordKeys(
        of table: RecordTable, directory: String, options: StoreOptions = StoreOptions()
    ) throws(StoreError) -> [[UInt8]] {
        // LMDB maps the file and reads both meta pages at once.
        _ = try PageFile(path: directory + "/" + Environment.dataFile).meta()
        let environment = try Environment(
            directory: directory, lock: nil, mapByteCount: options.mapByteCount, isReadOnly: true)
        defer { withExtendedLifetime(environment) {} }
        var begun: OpaquePointer?
        try check(
            mdb_txn_begin(environment.handle, nil, UInt32(MDB_RDONLY), &begun), "mdb_txn_begin")
        defer { mdb_txn_abort(begun) }
        let scratch = KeyScratch()
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
        withExtendedLifetime(scratch) {}
        return keys
    }
}
