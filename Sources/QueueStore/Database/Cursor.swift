// A cursor of LMDB with its current key and value. Each function is one call, the bytes stay in
// LMDB's memory, and a step allocates nothing.

import BrokerCore
import CLMDB

/// A position in one table, within one transaction. Key and value are valid until the next change
/// in that transaction.
struct Cursor {
    let handle: OpaquePointer
    /// The buffer for keys; it exists as long as the store.
    private let scratch: UnsafeMutableRawPointer
    private var keyValue = MDB_val()
    private var dataValue = MDB_val()

    init(
        transaction: OpaquePointer, table: MDB_dbi, scratch: UnsafeMutableRawPointer
    ) throws(StoreError) {
        var opened: OpaquePointer?
        try check(mdb_cursor_open(transaction, table, &opened), "mdb_cursor_open")
        handle = opened!
        self.scratch = scratch
    }

    var key: UnsafeRawBufferPointer { UnsafeRawBufferPointer(keyValue) }
    var value: UnsafeRawBufferPointer { UnsafeRawBufferPointer(dataValue) }

    /// Moves to the next entry, or to the first at the beginning; false if there is none.
    @inline(__always)
    mutating func next() throws(StoreError) -> Bool { try move(MDB_NEXT) }

    /// Moves to the previous entry, or to the last at the beginning; false if there is none.
    @inline(__always)
    mutating func previous() throws(StoreError) -> Bool { try move(MDB_PREV) }

    /// Moves to the last entry that is before `key`.
    mutating func seek(before key: EntryKey) throws(StoreError) -> Bool {
        try seek(notBefore: key) ? try previous() : try move(MDB_LAST)
    }

    /// Moves to the first entry that is not before `key`.
    @inline(__always)
    mutating func seek(notBefore key: EntryKey) throws(StoreError) -> Bool {
        prepare(key)
        return try move(MDB_SET_RANGE)
    }

    /// Moves to the first record of a table, or of the tables behind it.
    mutating func seek(notBefore table: RecordTable) throws(StoreError) -> Bool {
        scratch.storeBytes(of: table.rawValue, as: UInt8.self)
        keyValue = MDB_val(mv_size: 1, mv_data: scratch)
        return try move(MDB_SET_RANGE)
    }

    /// Moves to exactly `key`.
    @inline(__always)
    mutating func seek(_ key: EntryKey) throws(StoreError) -> Bool {
        prepare(key)
        return try move(MDB_SET)
    }

    /// Moves to exactly the number `key`.
    @inline(__always)
    mutating func seek(_ key: UInt64) throws(StoreError) -> Bool {
        prepare(key)
        return try move(MDB_SET)
    }

    @inline(__always)
    private mutating func move(_ operation: MDB_cursor_op) throws(StoreError) -> Bool {
        try found(mdb_cursor_get(handle, &keyValue, &dataValue, operation), "mdb_cursor_get")
    }

    /// Inserts a key and returns the space for its value, which must be filled before any other
    /// call. False if the key exists already (or, when appending, is not after all others).
    @inline(__always)
    mutating func reserve(
        _ key: EntryKey, byteCount: Int, flags: Int32
    ) throws(StoreError) -> UnsafeMutableRawPointer? {
        prepare(key)
        return try reserve(byteCount: byteCount, flags: flags)
    }

    /// The same for a key that is one number.
    @inline(__always)
    mutating func reserve(
        _ key: UInt64, byteCount: Int, flags: Int32
    ) throws(StoreError) -> UnsafeMutableRawPointer? {
        prepare(key)
        return try reserve(byteCount: byteCount, flags: flags)
    }

    @inline(__always)
    private mutating func reserve(
        byteCount: Int, flags: Int32
    ) throws(StoreError) -> UnsafeMutableRawPointer? {
        dataValue = MDB_val(mv_size: byteCount, mv_data: nil)
        let code = mdb_cursor_put(
            handle, &keyValue, &dataValue, UInt32(flags) | UInt32(MDB_RESERVE))
        if code == MDB_KEYEXIST { return nil }
        try check(code, "mdb_cursor_put")
        return dataValue.mv_data
    }

    /// Removes the current entry; ``next()`` moves to the one that followed it.
    @inline(__always)
    func delete() throws(StoreError) {
        try check(mdb_cursor_del(handle, 0), "mdb_cursor_del")
    }

    @inline(__always)
    private mutating func prepare(_ key: EntryKey) {
        key.write(to: scratch)
        keyValue = MDB_val(mv_size: EntryKey.byteCount, mv_data: scratch)
    }

    @inline(__always)
    private mutating func prepare(_ key: UInt64) {
        scratch.storeBytes(of: key.bigEndian, as: UInt64.self)
        keyValue = MDB_val(mv_size: 8, mv_data: scratch)
    }
}
