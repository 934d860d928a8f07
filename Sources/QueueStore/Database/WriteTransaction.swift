// One write transaction and its changes. It implements each kind of change and knows no batches,
// refusals or files. Nobody sees its changes before commit().

import BrokerCore
import CLMDB
import Primitives

/// A write transaction: committed by ``commit()``, or aborted when it goes out of scope.
struct WriteTransaction: ~Copyable {
    let handle: OpaquePointer
    let tables: Tables
    let scratch: UnsafeMutableRawPointer
    /// One cursor per table that is written per message: an entry beside the last change is found
    /// without a search from the root.
    var entries: Cursor
    var messages: Cursor
    /// Entries that withdrawals have examined one by one.
    var scanCount = 0

    /// Begins a transaction on open tables.
    init(
        environment: borrowing Environment, tables: Tables, scratch: UnsafeMutableRawPointer
    ) throws(StoreError) {
        try self.init(environment: environment, scratch: scratch) { _ in tables }
    }

    /// Begins the first transaction after an opening, which opens the tables and creates missing
    /// ones.
    init(
        environment: borrowing Environment, making missing: Set<String>,
        scratch: UnsafeMutableRawPointer
    ) throws(StoreError) {
        try self.init(environment: environment, scratch: scratch) {
            (transaction) throws(StoreError) in
            try Tables(transaction: transaction, making: missing)
        }
    }

    private init(
        environment: borrowing Environment, scratch: UnsafeMutableRawPointer,
        tables open: (OpaquePointer) throws(StoreError) -> Tables
    ) throws(StoreError) {
        var begun: OpaquePointer?
        try check(mdb_txn_begin(environment.handle, nil, 0, &begun), "mdb_txn_begin")
        let handle = begun!
        let tables: Tables
        let cursors: (entries: Cursor, messages: Cursor)
        do throws(StoreError) {
            tables = try open(handle)
            cursors.entries = try Cursor(
                transaction: handle, table: tables.entries, scratch: scratch)
            cursors.messages = try Cursor(
                transaction: handle, table: tables.messages, scratch: scratch)
        } catch {
            mdb_txn_abort(handle)
            throw error
        }
        self.handle = handle
        (entries, messages) = cursors
        self.tables = tables
        self.scratch = scratch
    }

    deinit {
        mdb_txn_abort(handle)
    }

    /// Commits the transaction: returns after the data is on disk.
    ///
    /// A lack of space is detected before the meta page is written, so nothing has changed and the
    /// caller may try again with less. Any other error may come from the sync itself and is fatal.
    consuming func commit() throws(StoreError) {
        let handle = handle
        discard self
        let code = mdb_txn_commit(handle)
        guard code != MDB_SUCCESS else { return }
        let failure = StoreError.lmdb(call: "mdb_txn_commit", code: code)
        throw failure.isFull ? failure : .syncFailed(code: code)
    }

    var usedByteCount: UInt64 { tables.usedByteCount(transaction: handle) }

    func keyCount(_ table: MDB_dbi) -> Int {
        var statistics = MDB_stat()
        mdb_stat(handle, table, &statistics)
        return statistics.ms_entries
    }

    // MARK: Messages and entries

    /// Appends a body. Its id must be above all stored ones.
    @inline(__always)
    mutating func put(_ message: MessagePut, block: UnsafeRawBufferPointer) throws(StoreError) {
        precondition(message.receiverCount > 0, "message \(message.id.raw) has no receivers")
        let place = try messages.reserve(
            message.id.raw, byteCount: StoredMessage.headByteCount + block.count, flags: MDB_APPEND)
        guard let place else {
            preconditionFailure("message id \(message.id.raw) is not above all stored ids")
        }
        StoredMessage.write(
            to: place, id: message.id.raw, receiverCount: message.receiverCount, block: block)
    }

    /// Inserts an entry under a number that its queue has not used.
    @inline(__always)
    mutating func put(_ entry: StoredEntry, at key: EntryKey) throws(StoreError) {
        let place = try entries.reserve(
            key, byteCount: StoredEntry.byteCount, flags: MDB_NOOVERWRITE)
        guard let place else { preconditionFailure("entry \(key) exists already") }
        entry.write(to: place, key: key)
    }

    /// Replaces the state of an entry, if it exists.
    mutating func setState(
        _ state: EntryState, at key: EntryKey, removalTally: inout RemovalTally
    ) throws(StoreError) {
        guard try entries.seek(key) else { return }
        guard var entry = StoredEntry(entries.value, key: key) else {
            return try setAside(key, .unreadableEntry, removalTally: &removalTally)
        }
        entry.state = state
        guard let place = try entries.reserve(key, byteCount: StoredEntry.byteCount, flags: 0)
        else { preconditionFailure("cannot replace entry \(key)") }
        entry.write(to: place, key: key)
    }

    /// Removes one entry, if it exists.
    mutating func remove(_ key: EntryKey, removalTally: inout RemovalTally) throws(StoreError) {
        guard try entries.seek(key) else { return }
        _ = try take(key, removalTally: &removalTally)
    }

    /// Removes the entries of a queue in order up to a number, at most `countMaximum` of them.
    mutating func remove(
        queue: QueueID, throughNumber: UInt64, countMaximum: Int = .max,
        removalTally: inout RemovalTally
    ) throws(StoreError) -> Removal {
        var removal = Removal(tally: QueueTally(queue: queue, count: 0, byteCount: 0))
        var isThere = try entries.seek(notBefore: EntryKey(queue: queue.raw, number: 0))
        while isThere, let key = EntryKey(entries.key), key.queue == queue.raw,
            key.number <= throughNumber
        {
            if removal.examinedCount == countMaximum {
                removal.isComplete = false
                break
            }
            removal.examinedCount += 1
            if let entry = try take(key, removalTally: &removalTally) {
                removal.tally.count += 1
                removal.tally.byteCount += UInt64(entry.byteCount)
            }
            isThere = try entries.next()
        }
        return removal
    }

    /// Removes the oldest entries of a queue after a number.
    mutating func trim(
        _ trim: QueueTrim, removalTally: inout RemovalTally
    ) throws(StoreError) -> QueueTally {
        var tally = QueueTally(queue: trim.queue, count: 0, byteCount: 0)
        guard trim.afterNumber < .max else { return tally }
        var isThere = try entries.seek(
            notBefore: EntryKey(queue: trim.queue.raw, number: trim.afterNumber + 1))
        while isThere, let key = EntryKey(entries.key), key.queue == trim.queue.raw,
            tally.count < trim.count || tally.byteCount < trim.byteCount
        {
            if let entry = try take(key, removalTally: &removalTally) {
                tally.count += 1
                tally.byteCount += UInt64(entry.byteCount)
            }
            isThere = try entries.next()
        }
        return tally
    }

    /// Moves entries of a queue after those of another; returns the moved ones.
    ///
    /// The entries are held in memory meanwhile: queues are bounded, and the destination's numbers
    /// may lie on either side of the source's in the table.
    mutating func transfer(
        _ transfer: QueueTransfer, removalTally: inout RemovalTally
    ) throws(StoreError) -> QueueTally {
        precondition(
            transfer.source != transfer.destination,
            "queue \(transfer.source) is transferred to itself")
        var moved: [StoredEntry] = []
        var tally = QueueTally(queue: transfer.destination, count: 0, byteCount: 0)
        var isThere = try entries.seek(notBefore: EntryKey(queue: transfer.source.raw, number: 0))
        while isThere, let key = EntryKey(entries.key), key.queue == transfer.source.raw {
            if var entry = StoredEntry(entries.value, key: key) {
                if transfer.scope.contains(StoredMessageID(raw: entry.message), entry.state) {
                    guard transfer.hasRoom(behind: tally, for: entry.byteCount) else { break }
                    tally.count += 1
                    tally.byteCount += UInt64(entry.byteCount)
                    if key.number <= transfer.sentThrough {
                        entry.state.options.insert(.sentBefore)
                    }
                    moved.append(entry)
                    try entries.delete()
                }
            } else {
                try setAside(key, .unreadableEntry, removalTally: &removalTally)
            }
            isThere = try entries.next()
        }
        for (index, entry) in moved.enumerated() {
            try put(
                entry,
                at: EntryKey(
                    queue: transfer.destination.raw, number: transfer.firstNumber + UInt64(index)))
        }
        return tally
    }

    /// Moves one entry into another queue; false if it does not exist, or cannot be read.
    mutating func move(
        _ move: EntryMove, removalTally: inout RemovalTally
    ) throws(StoreError) -> Bool {
        let key = EntryKey(queue: move.queue.raw, number: move.number)
        guard try entries.seek(key) else { return false }
        guard var entry = StoredEntry(entries.value, key: key) else {
            try setAside(key, .unreadableEntry, removalTally: &removalTally)
            return false
        }
        try entries.delete()
        entry.state = move.state
        try put(
            entry, at: EntryKey(queue: move.destination.raw, number: move.destinationNumber))
        return true
    }

    /// Removes the cursor's current entry and releases its body; nil if it cannot be read, in which
    /// case it is set aside.
    @inline(__always)
    mutating func take(
        _ key: EntryKey, removalTally: inout RemovalTally
    ) throws(StoreError) -> StoredEntry? {
        guard let entry = StoredEntry(entries.value, key: key) else {
            try setAside(key, .unreadableEntry, removalTally: &removalTally)
            return nil
        }
        removalTally.released.append(entry.message)
        try entries.delete()
        return entry
    }

    // MARK: Damage

    /// Moves the cursor's current entry to the table of damaged entries, which only people read.
    /// The entry keeps its body, which may help to find the cause.
    mutating func setAside(
        _ key: EntryKey, _ cause: DamageCause, removalTally: inout RemovalTally
    ) throws(StoreError) {
        let byteCount = StoredEntry(entries.value, key: key)?.byteCount ?? 0
        let evidence = [cause.rawValue] + entries.value
        try entries.delete()
        var keyBytes = (key.queue.bigEndian, key.number.bigEndian)
        try withUnsafeBytes(of: &keyBytes) { (keyBytes) throws(StoreError) in
            try evidence.withBytes { (evidence) throws(StoreError) in
                try putSealed(evidence, key: keyBytes, table: tables.damaged, seed: .damagedEntry)
            }
        }
        removalTally.addDamaged(key, byteCount: UInt64(byteCount))
    }

    // MARK: Bodies

    /// Removes the bodies whose last entry was removed, and counts the releases of the others.
    ///
    /// Releases are collected over the whole transaction first: a body that 10,000 receivers
    /// acknowledge together is changed once.
    mutating func settleReleases(_ removalTally: inout RemovalTally) throws(StoreError) {
        removalTally.released.sort()
        var index = 0
        while index < removalTally.released.count {
            let id = removalTally.released[index]
            var end = index + 1
            while end < removalTally.released.count, removalTally.released[end] == id { end += 1 }
            try release(id, count: UInt32(end - index))
            index = end
        }
        removalTally.released.removeAllKeepingCapacity()
    }

    private mutating func release(_ id: UInt64, count: UInt32) throws(StoreError) {
        // A body that is missing, or whose count cannot be read, stays unchanged: --verify-store
        // reports it.
        guard try messages.seek(id),
            let receiverCount = StoredMessage.receiverCount(messages.value, id: id)
        else { return }
        if receiverCount == count { return try messages.delete() }

        var releases = try Cursor(transaction: handle, table: tables.releases, scratch: scratch)
        defer { mdb_cursor_close(releases.handle) }
        var released = count
        let isPartlyReleased = try releases.seek(id)
        if isPartlyReleased {
            guard let before = StoredRelease.count(releases.value, id: id) else { return }
            released += before
        }
        if released >= receiverCount {
            if isPartlyReleased { try releases.delete() }
            try messages.delete()
        } else if let place = try releases.reserve(
            id, byteCount: StoredRelease.byteCount, flags: 0)
        {
            StoredRelease.write(to: place, id: id, count: released)
        }
    }

    // MARK: Deleted queues

    /// Removes entries of a deleted queue, at most `countMaximum`. The store records that the rest
    /// must be removed, so that a crash does not lose it.
    mutating func delete(
        queue: QueueID, countMaximum: Int, removalTally: inout RemovalTally
    ) throws(StoreError) -> Removal {
        let removal = try remove(
            queue: queue, throughNumber: .max, countMaximum: countMaximum,
            removalTally: &removalTally)
        try setDoomed(queue, !removal.isComplete)
        return removal
    }

    /// Records whether entries of a deleted queue are left.
    func setDoomed(_ queue: QueueID, _ isDoomed: Bool) throws(StoreError) {
        var key = queue.raw.bigEndian
        try withUnsafeBytes(of: &key) { (key) throws(StoreError) in
            if isDoomed {
                try putSealed(.empty, key: key, table: tables.doomed, seed: .doomedQueue)
            } else {
                try deleteSealed(key: key, table: tables.doomed)
            }
        }
    }

    // MARK: Records

    /// Writes or deletes one record of the core.
    func change(_ change: RecordChange) throws(StoreError) {
        precondition(
            change.key.count <= RecordChange.keyByteCountMaximum,
            "a record's key has \(change.key.count) bytes")
        let key = UnsafeMutableRawBufferPointer(start: scratch, count: 1 + change.key.count)
        key[0] = change.table.rawValue
        UnsafeMutableRawBufferPointer(rebasing: key[1...]).copyBytes(from: change.key)
        guard let value = change.value else {
            return try deleteSealed(key: UnsafeRawBufferPointer(key), table: tables.records)
        }
        try value.withBytes { (value) throws(StoreError) in
            try putSealed(
                value, key: UnsafeRawBufferPointer(key), table: tables.records, seed: .record)
        }
    }

    /// Writes a value after its checksum.
    func putSealed(
        _ value: UnsafeRawBufferPointer, key: UnsafeRawBufferPointer, table: MDB_dbi,
        seed: ChecksumSeed
    ) throws(StoreError) {
        var keyValue = MDB_val(key)
        var place = MDB_val(mv_size: SealedValue.headByteCount + value.count, mv_data: nil)
        try check(mdb_put(handle, table, &keyValue, &place, UInt32(MDB_RESERVE)), "mdb_put")
        SealedValue.write(to: place.mv_data, seed: seed, key: key, value: value)
    }

    /// Deletes a key, if it exists.
    func deleteSealed(key: UnsafeRawBufferPointer, table: MDB_dbi) throws(StoreError) {
        var keyValue = MDB_val(key)
        _ = try found(mdb_del(handle, table, &keyValue, nil), "mdb_del")
    }
}

/// The result of removing entries from a queue.
struct Removal {
    var tally: QueueTally
    /// Entries that were examined, including damaged ones.
    var examinedCount = 0
    /// Whether no entry is left in the requested range.
    var isComplete = true
}

extension UnsafeRawBufferPointer {
    /// No bytes.
    static var empty: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }
}

extension MDB_val {
    init(_ bytes: UnsafeRawBufferPointer) {
        self.init(
            mv_size: bytes.count, mv_data: UnsafeMutableRawPointer(mutating: bytes.baseAddress))
    }
}
