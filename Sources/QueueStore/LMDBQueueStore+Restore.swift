// Reads the state for the core at start. Every record and every entry is read and checked here
// once; bodies are checked when they are loaded.

import BrokerCore
import CLMDB
import Primitives

extension LMDBQueueStore {
    /// Passes everything that the core keeps in memory to `visitor`: records table by table in the
    /// order of their keys, then the outline of every queue.
    ///
    /// Damaged entries are left out, set aside and counted. A damaged record is an error: otherwise
    /// the broker would start without a session, a token or a subscription, and nobody would
    /// notice.
    public mutating func restore(
        into visitor: inout some StoreVisitor & ~Copyable
    ) throws(StoreError) -> RestoredState {
        try readAll(into: &visitor)
        removalTally.removeAll()
        if position != nil { return keepDamage() }
        let beginning = Moment(instant: Instant(milliseconds: 0), unixMilliseconds: 0)
        try removeLeaving(moment: openingStamp?.moment ?? beginning)
        return RestoredState(
            identity: identity, nextMessage: StoredMessageID(raw: nextMessage), stamp: openingStamp,
            damaged: removalTally.damaged.tallies)
    }

    /// In a cluster nothing changes without a record: the first one sets aside what is damaged.
    private mutating func keepDamage() -> RestoredState {
        restoredDamage = leaving.map(\.key)
        leaving.removeAll()
        var damaged = TallyList()
        for key in restoredDamage { damaged.add(key.queue, byteCount: 0) }
        return RestoredState(
            identity: identity, nextMessage: StoredMessageID(raw: nextMessage), stamp: openingStamp,
            damaged: damaged.tallies)
    }

    private mutating func readAll(
        into visitor: inout some StoreVisitor & ~Copyable
    ) throws(StoreError) {
        var begun: OpaquePointer?
        try check(
            mdb_txn_begin(environment.handle, nil, UInt32(MDB_RDONLY), &begun), "mdb_txn_begin")
        defer { mdb_txn_abort(begun) }
        let reading = StoreReading(
            transaction: begun!, tables: tables, scratch: scratch.bytes,
            doomedQueues: Set(doomedQueues))
        leaving += try reading.readAll(into: &visitor)
    }
}

/// One walk over the state that the core reads at a start. The start and the verification of a
/// store share it, so that the verification finds what a start would refuse.
struct StoreReading {
    let transaction: OpaquePointer
    let tables: Tables
    let scratch: UnsafeMutableRawPointer
    let doomedQueues: Set<QueueID>
    /// Whether a record that fails its checksum is left out. A start never does that.
    var skipsDamagedRecords = false

    /// - Returns: entries that cannot be read.
    func readAll(
        into visitor: inout some StoreVisitor & ~Copyable
    ) throws(StoreError) -> [Leaving] {
        try readRecords(into: &visitor)
        return try readQueues(into: &visitor)
    }

    private func readRecords(
        into visitor: inout some StoreVisitor & ~Copyable
    ) throws(StoreError) {
        var records = try Cursor(
            transaction: transaction, table: tables.records, scratch: scratch)
        defer { mdb_cursor_close(records.handle) }
        while try records.next() {
            let key = records.key
            let table = key.first.flatMap(RecordTable.init)
            let name = UnsafeRawBufferPointer(rebasing: key.dropFirst())
            guard let table,
                let value = SealedValue.open(records.value, seed: .record, key: key)
            else {
                if skipsDamagedRecords { continue }
                throw .damagedRecord(table: table, key: [UInt8](name))
            }
            visitor.visitRecord(table: table, key: name, value: value)
        }
    }

    private func readQueues(
        into visitor: inout some StoreVisitor & ~Copyable
    ) throws(StoreError) -> [Leaving] {
        var leaving: [Leaving] = []
        var entries = try Cursor(
            transaction: transaction, table: tables.entries, scratch: scratch)
        defer { mdb_cursor_close(entries.handle) }
        var outline: QueueOutline?
        while try entries.next() {
            guard let key = EntryKey(entries.key) else { continue }
            let queue = QueueID(raw: key.queue)
            guard let entry = StoredEntry(entries.value, key: key) else {
                leaving.append(Leaving(key: key, cause: .damaged(.unreadableEntry)))
                continue
            }
            if doomedQueues.contains(queue) { continue }
            if let finished = outline, finished.tally.queue != queue {
                visitor.visitQueue(finished)
                outline = nil
            }
            if outline == nil {
                outline = QueueOutline(
                    tally: QueueTally(queue: queue, count: 0, byteCount: 0),
                    firstNumber: key.number, lastNumber: key.number)
            }
            outline!.tally.count += 1
            outline!.tally.byteCount += UInt64(entry.byteCount)
            outline!.lastNumber = key.number
        }
        if let outline { visitor.visitQueue(outline) }
        return leaving
    }
}
