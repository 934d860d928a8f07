// Opens a store before the first batch: checks its format, upgrades it, and reads its identity, its
// stamp and its unfinished deletions.

import BrokerCore
import CLMDB
import Replication

/// The contents that an opening found or created.
struct Opening {
    let tables: Tables
    let identity: StoreIdentity
    let stamp: MetaStamp?
    let position: ReplicaPosition?
    let doomedQueues: [QueueID]
    let usedByteCount: UInt64
    /// The format before an upgrade; nil if it was current.
    let olderFormat: UInt32?

    /// Checks the store in an environment, upgrades an older format, and creates a store if the
    /// environment is empty.
    init(
        environment: borrowing Environment, directory: String, formats: StoreFormats,
        scratch: UnsafeMutableRawPointer
    ) throws(StoreError) {
        let found = try storedFormat(environment, directory: directory)
        if let found { try formats.check(found) }
        let steps = found.map { formats.steps(from: $0) } ?? []
        olderFormat = steps.isEmpty ? nil : found
        // One transaction: after a crash there is a complete store or none, in the older format or
        // the current one.
        var transaction = try WriteTransaction(
            environment: environment,
            making: found.map { formats.newTables(since: $0) } ?? Tables.names,
            scratch: scratch)
        tables = transaction.tables
        for step in steps { try step.change(&transaction) }
        if found != formats.current {
            try transaction.putMeta(
                .format, withUnsafeBytes(of: formats.current.littleEndian) { [UInt8]($0) })
        }
        identity = try Opening.settleIdentity(transaction)
        stamp = try metaValue(
            .stamp, transaction: transaction.handle, table: tables.meta, decode: MetaStamp.init)
        position = try metaValue(.position, transaction: transaction.handle, table: tables.meta) {
            bytes in
            let count = ReplicaPosition.wordCount
            guard bytes.count == 8 * count else { return nil }
            return ReplicaPosition(words: (0..<count).map { bytes.littleEndian(at: 8 * $0) })
        }
        try Opening.check(transaction, stamp)
        doomedQueues = try Opening.readDoomedQueues(transaction)
        usedByteCount = transaction.usedByteCount
        try transaction.commit()
    }

    /// Throws unless the store's own values belong to its rows. Otherwise the broker would count
    /// messages and time from zero, and end at the first message.
    private static func check(
        _ transaction: borrowing WriteTransaction, _ stamp: MetaStamp?
    ) throws(StoreError) {
        let faults = try metaFaults(
            transaction: transaction.handle, tables: transaction.tables,
            scratch: transaction.scratch, hasStamp: stamp != nil)
        if let fault = faults.first { throw .inconsistentMeta(finding: fault) }
        guard let stamp else { return }
        var messages = try Cursor(
            transaction: transaction.handle, table: transaction.tables.messages,
            scratch: transaction.scratch)
        defer { mdb_cursor_close(messages.handle) }
        guard try messages.previous(), stamp.isReached(by: messages.key) else { return }
        throw .inconsistentMeta(
            finding: "message \(readable(messages.key)) is not below the next one of its stamp, "
                + "\(stamp.nextMessage)")
    }

    /// The store's identity: a new one for a new store, and for a backup that is opened for the
    /// first time. A backup lacks what devices were told after it was made, so its numbers must not
    /// count as a continuation.
    private static func settleIdentity(
        _ transaction: borrowing WriteTransaction
    ) throws(StoreError) -> StoreIdentity {
        let meta = transaction.tables.meta
        let isBackup = try metaValue(.backup, transaction: transaction.handle, table: meta) { _ in
            true
        }
        let known = try metaValue(.identity, transaction: transaction.handle, table: meta) {
            bytes in
            bytes.count == 16
                ? StoreIdentity(high: bytes.littleEndian(at: 0), low: bytes.littleEndian(at: 8))
                : nil
        }
        if isBackup == nil, let known { return known }
        let identity = StoreIdentity.random()
        try transaction.putMeta(.identity, littleEndianBytes([identity.high, identity.low]))
        try transaction.deleteMeta(.backup)
        return identity
    }

    private static func readDoomedQueues(
        _ transaction: borrowing WriteTransaction
    ) throws(StoreError) -> [QueueID] {
        var doomed = try Cursor(
            transaction: transaction.handle, table: transaction.tables.doomed,
            scratch: transaction.scratch)
        var queues: [QueueID] = []
        while try doomed.next() {
            // A damaged key could name an existing queue.
            guard doomed.key.count == 8,
                SealedValue.open(doomed.value, seed: .doomedQueue, key: doomed.key) != nil
            else { throw .damagedMeta(name: "list of deleted queues") }
            queues.append(QueueID(raw: doomed.key.bigEndian(at: 0)))
        }
        return queues
    }
}
