// The repairs of a damaged store (martletd --verify-store --repair): each is a change of few rows,
// with the finding that it ends and with what is lost by it. The verification proposes them, this
// file carries them out. It decides nothing.

import BrokerCore
import CLMDB

/// A change that ends a finding of a verification, in words for the operator.
public struct StoreRepair: Hashable, Sendable {
    /// A change of one row, or of the rows that belong together.
    enum Change: Hashable, Sendable {
        case remove(StoreTable, key: [UInt8])
        /// How many receivers of a message have released it; 0 removes the row.
        case setReleased(message: UInt64, count: UInt32)
        /// How many receivers a message has; none has released it.
        case setReceivers(message: UInt64, count: UInt32)
        /// The next start deletes the queue.
        case markDeleted(QueueID)
        /// The store has another identity, as a restored backup.
        case renewIdentity
    }

    let changes: [Change]
    /// What is wrong.
    public let finding: String
    /// What the repair does, and what is lost by it.
    public let action: String
    /// The queue of the entry that is lost, if one is.
    public let queue: QueueID?

    init(_ finding: String, _ action: String, changes: [Change], queue: QueueID? = nil) {
        (self.finding, self.action) = (finding, action)
        (self.changes, self.queue) = (changes, queue)
    }

    /// The removal of a record of the core that belongs to nothing.
    public static func removing(dangling table: RecordTable, key: [UInt8]) -> StoreRepair {
        StoreRepair(
            "record \(readable(key)) of table \(table) belongs to nothing",
            "remove it: the app, user, session or group that it names does not exist",
            changes: [.remove(.records, key: [table.rawValue] + key)])
    }

    /// The deletion of a queue that no record of the core names.
    public static func deleting(ownerless queue: QueueTally) -> StoreRepair {
        StoreRepair(
            "queue \(queue.queue.raw) has \(queue.count) entries and no owner",
            "mark it as deleted: its receiver, whom no row names, does not get them; the next "
                + "start removes them with or without this repair",
            changes: [.markDeleted(queue.queue)])
    }
}

/// A finding that no repair ends.
public struct UnrepairableFinding: Hashable, Sendable {
    public let finding: String
    /// Why, and what to do.
    public let reason: String
    /// Whether a broker does not start with it.
    public let preventsStart: Bool
}

/// The tables that a repair changes.
enum StoreTable: Hashable, Sendable {
    case messages
    case releases
    case entries
    case records
    case doomed
    case damaged
}

extension LMDBQueueStore {
    /// Carries out repairs of a verification in one transaction: after a crash there are all of
    /// them or none.
    ///
    /// - Parameter commit: ``VerificationReport/commitNumber`` of the report that proposed them.
    /// - Throws: ``StoreError/changedMeanwhile(directory:)`` if the store has another commit since;
    ///   and errors of the file system. Nothing is changed then.
    public static func repair(
        directory: String, options: StoreOptions = StoreOptions(), _ repairs: [StoreRepair],
        of commit: Int
    ) throws(StoreError) {
        let lock = try DirectoryLock(directory: directory, createsDirectory: false)
        // LMDB trusts its pages.
        try PageCheck.run(path: directory + "/" + Environment.dataFile)
        let environment = try Environment(
            directory: directory, lock: lock, mapByteCount: options.mapByteCount)
        guard environment.commitNumber == commit else {
            throw .changedMeanwhile(directory: directory)
        }
        let scratch = KeyScratch()
        var transaction = try WriteTransaction(
            environment: environment, making: [], scratch: scratch.bytes)
        for repair in repairs {
            for change in repair.changes { try transaction.carryOut(change) }
        }
        try transaction.commit()
    }
}

extension WriteTransaction {
    fileprivate mutating func carryOut(_ change: StoreRepair.Change) throws(StoreError) {
        switch change {
        case .remove(let table, let key):
            let table = tables[table]
            try key.withBytes { (key) throws(StoreError) in
                try deleteSealed(key: key, table: table)
            }
        case .setReleased(let message, let count):
            try setReleased(message, count)
        case .setReceivers(let message, let count):
            try setReleased(message, 0)
            try setReceivers(message, count)
        case .markDeleted(let queue):
            try setDoomed(queue, true)
        case .renewIdentity:
            let identity = StoreIdentity.random()
            try putMeta(.identity, littleEndianBytes([identity.high, identity.low]))
            try putMeta(.backup, [])
        }
    }

    private func setReleased(_ message: UInt64, _ count: UInt32) throws(StoreError) {
        var releases = try Cursor(transaction: handle, table: tables.releases, scratch: scratch)
        defer { mdb_cursor_close(releases.handle) }
        guard count > 0 else {
            if try releases.seek(message) { try releases.delete() }
            return
        }
        if let place = try releases.reserve(message, byteCount: StoredRelease.byteCount, flags: 0) {
            StoredRelease.write(to: place, id: message, count: count)
        }
    }

    private mutating func setReceivers(_ message: UInt64, _ count: UInt32) throws(StoreError) {
        guard try messages.seek(message),
            let block = StoredMessage.block(messages.value, id: message)
        else { preconditionFailure("message \(message) cannot be read, and has \(count) entries") }
        // The new value is written in the place of the old one.
        let copy = [UInt8](block)
        guard
            let place = try messages.reserve(
                message, byteCount: StoredMessage.headByteCount + copy.count, flags: 0)
        else { preconditionFailure("cannot replace message \(message)") }
        copy.withUnsafeBytes {
            StoredMessage.write(to: place, id: message, receiverCount: count, block: $0)
        }
    }
}

extension Tables {
    fileprivate subscript(table: StoreTable) -> MDB_dbi {
        switch table {
        case .messages: messages
        case .releases: releases
        case .entries: entries
        case .records: records
        case .doomed: doomed
        case .damaged: damaged
        }
    }
}

extension RecordTable {
    /// What is lost with one damaged row; nil if other rows or messages need it, so that no repair
    /// removes it.
    var lossOfRow: String? {
        switch self {
        case .tokens: "the token does not work any more: mint another"
        case .passwords: "the password does not work any more: set it again"
        case .appKeys: "the key of the app does not work any more: add another"
        case .retained: "the retained message is lost"
        case .wills: "the will is not sent"
        case .sendKeys: "a send that is repeated with this key is delivered again"
        case .wakeTemplates: "the relay uses its own template for this kind: set it again"
        case .wakeTargets: "the device has to register this wake target again"
        case .readers: "the user's reading mark in this conversation is lost"
        case .counters, .apps, .users, .sessions, .subscriptions, .groups, .members, .outboxes,
            .leftovers, .conversations, .trackedSends:
            nil
        }
    }
}
