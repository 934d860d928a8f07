// The rows of a node's store, to compare stores of one log.

import CLMDB
import Foundation

/// What the tables of a store contain. The store must not be in use.
struct StoreRows: Equatable {
    /// Rows and a hash over them, by table.
    private var tables: [String: [UInt64]] = [:]

    /// Those of the broker (docs/ARCHITECTURE.md). The store's own values, such as its position,
    /// and lists of what is still to be removed differ.
    private static let names = ["messages", "releases", "entries", "records"]

    init(directory: String) throws {
        var environment: OpaquePointer?
        mdb_env_create(&environment)
        defer { mdb_env_close(environment) }
        mdb_env_set_maxdbs(environment, 16)
        try Self.check(
            mdb_env_open(environment, directory, UInt32(MDB_RDONLY | MDB_NOLOCK), 0o600), directory)
        var transaction: OpaquePointer?
        try Self.check(
            mdb_txn_begin(environment, nil, UInt32(MDB_RDONLY), &transaction), directory)
        defer { mdb_txn_abort(transaction) }
        for name in Self.names {
            var table: MDB_dbi = 0
            try Self.check(mdb_dbi_open(transaction, name, 0, &table), "\(directory): \(name)")
            tables[name] = try Self.digest(table, transaction)
        }
    }

    private static func digest(
        _ table: MDB_dbi, _ transaction: OpaquePointer?
    ) throws -> [UInt64] {
        var cursor: OpaquePointer?
        try check(mdb_cursor_open(transaction, table, &cursor), "cursor")
        defer { mdb_cursor_close(cursor) }
        var (key, value) = (MDB_val(), MDB_val())
        var count: UInt64 = 0
        // FNV-1a of 64 bits.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        while mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == MDB_SUCCESS {
            count += 1
            for part in [key, value] {
                for byte in UnsafeRawBufferPointer(start: part.mv_data, count: part.mv_size) {
                    hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3
                }
            }
        }
        return [count, hash]
    }

    private static func check(_ code: Int32, _ what: String) throws {
        guard code == MDB_SUCCESS else {
            throw ClusterFailure(description: "\(what): \(String(cString: mdb_strerror(code)))")
        }
    }

    /// The number of rows of each table.
    var counts: [String: UInt64] { tables.mapValues { $0[0] } }
}
