// Reads single rows of an open store from any thread, while the store's own thread commits. A
// standby of a cluster answers questions about credentials with it: it has no core that knows them.

import BrokerCore
import CLMDB
import Primitives

/// Rows of a store after its last commit. The store must be open during each call, and keep its
/// pages (``LMDBQueueStore/releasePages(at:)``).
public struct RowReader: @unchecked Sendable {
    private let environment: OpaquePointer
    private let records: MDB_dbi

    fileprivate init(environment: OpaquePointer, records: MDB_dbi) {
        self.environment = environment
        self.records = records
    }

    /// The value of a record; nil if there is none, or if it is damaged.
    ///
    /// - Parameter key: longer ones than a store takes have no record.
    public func value(_ table: RecordTable, key: [UInt8]) throws(StoreError) -> [UInt8]? {
        guard key.count <= RecordChange.keyByteCountMaximum else { return nil }
        var begun: OpaquePointer?
        try check(mdb_txn_begin(environment, nil, UInt32(MDB_RDONLY), &begun), "mdb_txn_begin")
        defer { mdb_txn_abort(begun) }
        let bytes = UnsafeMutableRawBufferPointer.allocate(
            byteCount: 1 + key.count, alignment: 1)
        defer { bytes.deallocate() }
        bytes[0] = table.rawValue
        UnsafeMutableRawBufferPointer(rebasing: bytes[1...]).copyBytes(from: key)
        var keyValue = MDB_val(mv_size: bytes.count, mv_data: bytes.baseAddress)
        var value = MDB_val()
        guard try found(mdb_get(begun, records, &keyValue, &value), "mdb_get") else { return nil }
        return SealedValue.open(
            UnsafeRawBufferPointer(value), seed: .record, key: UnsafeRawBufferPointer(bytes)
        ).map { Array($0) }
    }

    /// The keys of a table of records, in their order, also those of damaged rows.
    public func keys(of table: RecordTable) throws(StoreError) -> [[UInt8]] {
        try LMDBQueueStore.recordKeys(
            of: table, in: environment, records: records, KeyScratch())
    }
}

extension LMDBQueueStore {
    /// A reader for other threads. Nobody may use it any more when the store is closed.
    public func makeRowReader() -> RowReader {
        RowReader(environment: environment.handle, records: tables.records)
    }
}
