// The formats of the store, and the upgrade of an older one. A format is the tables, their keys,
// and the values of this module. The core's rows have a version byte of their own; the core reads
// every version that was written in this format and writes the newest. A new row version does not
// change the format, so an older broker fails at such a row, at its start, and not at the format's
// number.
//
// To change the format, add a step to `StoreFormats.known`, and rows of the older format to
// Tests/Vectors.

import CLMDB

/// The step from one format to the next.
struct FormatStep: Sendable {
    /// Tables that the older format did not have.
    var newTables: Set<String> = []
    /// Changes the stored data. It uses only the transaction, which a failure or a crash undoes as
    /// a whole.
    let change: @Sendable (inout WriteTransaction) throws(StoreError) -> Void
}

/// The formats that a broker knows.
struct StoreFormats: Sendable {
    /// Format 1 is the only one so far.
    static let known = StoreFormats(oldest: 1, steps: [])

    /// The oldest format that can be upgraded.
    let oldest: UInt32
    /// From the oldest to the current one.
    let steps: [FormatStep]

    var current: UInt32 { oldest + UInt32(steps.count) }

    /// Throws unless this broker can read the format, or upgrade it.
    func check(_ found: UInt32) throws(StoreError) {
        guard found <= current else { throw .newerFormat(found: found, known: current) }
        guard found >= oldest else { throw .olderFormat(found: found, oldest: oldest) }
    }

    /// The remaining steps for a store of an older format.
    func steps(from found: UInt32) -> ArraySlice<FormatStep> {
        steps.dropFirst(Int(found - oldest))
    }

    /// Tables that a store of an older format does not have yet.
    func newTables(since found: UInt32) -> Set<String> {
        steps(from: found).reduce(into: []) { $0.formUnion($1.newTables) }
    }
}

/// The format of a store; nil if the environment is empty. Throws if its contents are not a store.
func storedFormat(
    _ environment: borrowing Environment, directory: String
) throws(StoreError) -> UInt32? {
    var begun: OpaquePointer?
    try check(
        mdb_txn_begin(environment.handle, nil, UInt32(MDB_RDONLY), &begun), "mdb_txn_begin")
    defer { mdb_txn_abort(begun) }
    var unnamed: MDB_dbi = 0
    try check(mdb_dbi_open(begun, nil, 0, &unnamed), "mdb_dbi_open")
    let format = try metaValue(.format, transaction: begun!, table: unnamed) { bytes in
        bytes.count == 4 ? bytes.littleEndian(at: 0) as UInt32 : nil
    }
    if let format { return format }
    var statistics = MDB_stat()
    try check(mdb_stat(begun, unnamed, &statistics), "mdb_stat")
    guard statistics.ms_entries == 0 else { throw .notAStore(directory: directory) }
    return nil
}
