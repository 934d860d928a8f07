// Loads and sweeps read the state after the last commit, copy what they need and end. An open
// reader would pin old pages, and the file would grow. Reading changes nothing: expired and damaged
// entries are recorded for the write transaction that follows.

import BrokerCore
import CLMDB
import Primitives

/// An entry that a reader found and that must be removed.
struct Leaving {
    enum Cause {
        case expired
        case damaged(DamageCause)
    }

    var key: EntryKey
    var cause: Cause
}

/// The one read transaction of a store and its cursors, renewed for each use and reset after it.
struct Reader: ~Copyable {
    private let handle: OpaquePointer
    private var entries: Cursor
    private var messages: Cursor

    init(
        environment: borrowing Environment, tables: Tables, scratch: UnsafeMutableRawPointer
    ) throws(StoreError) {
        var begun: OpaquePointer?
        try check(
            mdb_txn_begin(environment.handle, nil, UInt32(MDB_RDONLY), &begun), "mdb_txn_begin")
        let handle = begun!
        let cursors: (entries: Cursor, messages: Cursor)
        do throws(StoreError) {
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
        mdb_txn_reset(handle)
    }

    /// Ends the transaction finally; before the environment is closed.
    func close() {
        mdb_cursor_close(entries.handle)
        mdb_cursor_close(messages.handle)
        mdb_txn_abort(handle)
    }

    /// Bytes of the pages of each table after the last commit; nothing if it cannot be read.
    func byteCounts(of tables: Tables) -> [(name: String, byteCount: UInt64)] {
        guard mdb_txn_renew(handle) == MDB_SUCCESS else { return [] }
        defer { mdb_txn_reset(handle) }
        return tables.byteCounts(transaction: handle)
    }

    /// Takes the state after the last commit.
    func begin() throws(StoreError) {
        try check(mdb_txn_renew(handle), "mdb_txn_renew")
        try check(mdb_cursor_renew(handle, entries.handle), "mdb_cursor_renew")
        try check(mdb_cursor_renew(handle, messages.handle), "mdb_cursor_renew")
    }

    /// Releases the state.
    func end() {
        mdb_txn_reset(handle)
    }

    /// Answers one request: the blocks are appended to those in the result.
    mutating func load(
        _ request: LoadRequest, now: Instant, into result: inout StoreResult,
        leaving: inout [Leaving]
    ) throws(StoreError) {
        var loaded = LoadedQueue(
            queue: request.queue, entries: [], reachedEnd: false,
            examinedThrough: request.afterNumber)
        let blocksBefore = result.blocks.count
        var skippedCount = 0
        var isThere = false
        let isDescending = request.beforeNumber != nil
        if let end = request.beforeNumber {
            isThere = try entries.seek(
                before: EntryKey(queue: request.queue.raw, number: end))
            loaded.examinedThrough = end
        } else if request.afterNumber < .max {
            isThere = try entries.seek(
                notBefore: EntryKey(queue: request.queue.raw, number: request.afterNumber + 1))
        }
        while true {
            guard isThere, let key = EntryKey(entries.key), key.queue == request.queue.raw,
                key.number > request.afterNumber
            else {
                loaded.reachedEnd = true
                break
            }
            if loaded.entries.count + skippedCount >= request.countMaximum { break }
            switch try examine(key, sentThrough: request.sentThrough, now: now) {
            case .leaves where request.isInspection:
                skippedCount += 1
            case .leaves(let cause):
                leaving.append(Leaving(key: key, cause: cause))
            case .stays(let entry, let block):
                let total = result.blocks.count + block.count
                let isWithinBound = total - blocksBefore <= request.byteMaximum
                // 32 bits address the blocks of one result.
                if total > UInt32.max || !(isWithinBound || loaded.entries.isEmpty) {
                    result.loads.append(loaded)
                    return
                }
                loaded.entries.append(LoadedEntry(entry, at: key, block: block, in: &result.blocks))
            }
            loaded.examinedThrough = key.number
            isThere = isDescending ? try entries.previous() : try entries.next()
        }
        result.loads.append(loaded)
    }

    /// Examines up to `countMaximum` entries from `start` on, and appends those that have expired.
    /// Returns where the next sweep starts, or nil if this one reached the end. Unreadable entries
    /// are left for the load that finds them.
    mutating func sweep(
        from start: EntryKey, countMaximum: Int, now: Instant, into expired: inout [ExpiredEntry]
    ) throws(StoreError) -> EntryKey? {
        var isThere = try entries.seek(notBefore: start)
        var examinedCount = 0
        while isThere {
            // An invalid key has no queue to be reported under; --verify-store names it.
            guard let key = EntryKey(entries.key) else {
                isThere = try entries.next()
                continue
            }
            if examinedCount == countMaximum { return key }
            examinedCount += 1
            if let entry = StoredEntry(entries.value, key: key),
                entry.isExpired(at: now)
            {
                expired.append(
                    ExpiredEntry(
                        queue: QueueID(raw: key.queue), number: key.number,
                        byteCount: entry.byteCount, state: entry.state))
            }
            isThere = try entries.next()
        }
        return nil
    }

    private enum Examination {
        case stays(StoredEntry, UnsafeRawBufferPointer)
        case leaves(Leaving.Cause)
    }

    /// Checks the cursor's current entry, and finds its body.
    @inline(__always)
    private mutating func examine(
        _ key: EntryKey, sentThrough: UInt64, now: Instant
    ) throws(StoreError) -> Examination {
        guard let entry = StoredEntry(entries.value, key: key) else {
            return .leaves(.damaged(.unreadableEntry))
        }
        if entry.isExpired(at: now) && !entry.state.lasts(key.number, sentThrough: sentThrough) {
            return .leaves(.expired)
        }
        guard try messages.seek(entry.message),
            let block = StoredMessage.block(messages.value, id: entry.message)
        else { return .leaves(.damaged(.unreadableBody)) }
        return .stays(entry, block)
    }
}

extension LoadedEntry {
    /// An entry that was read; its block is appended to `blocks`.
    @inline(__always)
    fileprivate init(
        _ entry: StoredEntry, at key: EntryKey, block: UnsafeRawBufferPointer,
        in blocks: inout [UInt8]
    ) {
        let offset = blocks.count
        blocks.append(contentsOf: block)
        self.init(
            number: key.number, message: StoredMessageID(raw: entry.message),
            deadline: Instant(milliseconds: entry.deadline), byteCount: entry.byteCount,
            state: entry.state, block: ByteRange(offset: offset, count: block.count))
    }
}
