// The store of a node. A primary's batch is applied in a transaction that stays open until the log
// has its record; the record says what was decided. A record of another node is applied without a
// decision. Each commit writes the record's position, so rows and position belong together; that of
// records without rows, such as heartbeats, is written with a later commit.

import BrokerCore
import Primitives
import Replication

/// A record of the log as a store applies it.
public struct ReplayedRecord: Sendable {
    public var position: ReplicaPosition
    /// The broker time of its batch; that of the record if it has none.
    public var moment: Moment
    /// Nil for a record that changes no rows.
    public var decided: DecidedBatch?

    public init(_ decided: DecidedBatch?, _ moment: Moment, at position: ReplicaPosition) {
        self.position = position
        self.moment = decided?.batch.moment ?? moment
        self.decided = decided
    }
}

/// A batch in an open transaction.
struct PreparedBatch: ~Copyable {
    var transaction: WriteTransaction
    let batch: StoreBatch
    let nextMessage: UInt64
    let doomedQueues: [QueueID]
    /// What follows the commit.
    var rest: Rest

    enum Rest {
        /// The result is complete.
        case nothing
        case sweep
        case loadsAndSweep
    }
}

extension LMDBQueueStore {
    /// Makes the store one of a cluster's node, at a position that its rows have.
    public mutating func join(at position: ReplicaPosition) throws(StoreError) {
        checkUse()
        precondition(
            position.cluster == identity, "a store of \(identity) joins \(position.cluster)")
        hasFailed = true
        let transaction = try WriteTransaction(
            environment: environment, tables: tables, scratch: scratch.bytes)
        try transaction.putMeta(.position, position.bytes)
        try transaction.commit()
        self.position = position
        writtenPosition = position
        hasFailed = false
    }

    /// Gives a store that was never written to the identity of a cluster whose records begin with
    /// an empty store. It has to be opened again.
    public consuming func adopt(_ cluster: StoreIdentity) throws(StoreError) {
        checkUse()
        precondition(
            openingStamp == nil && (position?.sequence ?? .start) == .start,
            "a store of \(identity) with rows adopts \(cluster)")
        let transaction = try WriteTransaction(
            environment: environment, tables: tables, scratch: scratch.bytes)
        try transaction.putMeta(.identity, littleEndianBytes([cluster.high, cluster.low]))
        try transaction.putMeta(.position, ReplicaPosition.founding(cluster).bytes)
        try transaction.commit()
    }

    // MARK: The primary

    /// Applies a batch of the core in a transaction that ``commitDecided(at:into:)`` commits.
    ///
    /// - Parameter refusesSends: the log has no room for the batch's sends.
    /// - Returns: what the log must have before; nil if the batch changes nothing, and its result
    ///   is
    ///   complete.
    public mutating func decide(
        _ batch: StoreBatch, refusesSends: Bool = false, into result: inout StoreResult
    ) throws(StoreError) -> DecidedBatch? {
        checkUse()
        precondition(
            position != nil && prepared == nil, "batch \(batch.sequence) at \(position as Any)")
        hasFailed = true
        result.removeAll()
        result.sequence = batch.sequence
        removalTally.removeAll()
        let decided = try attemptDecision(batch, refusesSends: refusesSends, into: &result)
        hasFailed = false
        return decided
    }

    private mutating func attemptDecision(
        _ batch: StoreBatch, refusesSends: Bool, into result: inout StoreResult
    ) throws(StoreError) -> DecidedBatch? {
        guard batch.changesStore || !doomedQueues.isEmpty || !restoredDamage.isEmpty else {
            return try decideReads(of: batch, into: &result)
        }
        try snapshots.look(at: environment)
        hasDiskSpace = claimRoom(for: batch)
        if batch.hasSends, hasRoom, !refusesSends {
            do throws(StoreError) {
                return try prepare(batch, withSends: true, into: &result)
            } catch {
                guard error.isFull else { throw error }
            }
        }
        if batch.hasSends { result.refusal = .full }
        return try prepare(batch, withSends: false, into: &result)
    }

    private mutating func prepare(
        _ batch: StoreBatch, withSends: Bool, into result: inout StoreResult
    ) throws(StoreError) -> DecidedBatch {
        var outcome = BatchOutcome()
        outcome.refusesSends = batch.hasSends && !withSends
        var transaction = try WriteTransaction(
            environment: environment, tables: tables, scratch: scratch.bytes)
        for key in restoredDamage {
            guard try transaction.entries.seek(key) else { continue }
            try transaction.setAside(key, .unreadableEntry, removalTally: &removalTally)
            outcome.setAside.append(EntryName(key))
        }
        // The restoration has told them.
        clear(&result)
        if withSends { try LMDBQueueStore.putSends(batch, in: &transaction) }
        try changeEntries(batch, in: &transaction, into: &result)
        let doomed = try deleteQueues(batch, in: &transaction) { outcome.deletions.append($0) }
        try changeRecords(batch, withSends: withSends, in: &transaction)
        outcome.setAside += removalTally.setAside.map(EntryName.init)
        outcome.digest = BatchOutcome.digest(of: result)
        prepared = PreparedBatch(
            transaction: transaction, batch: batch,
            nextMessage: nextMessage(after: batch, withSends: withSends), doomedQueues: doomed,
            rest: .loadsAndSweep)
        return DecidedBatch(batch, outcome)
    }

    /// Carries out the loads and the sweep of a batch.
    ///
    /// - Returns: the removal of the entries that were found expired or damaged, in a transaction
    ///   that is open; nil if there are none.
    private mutating func decideReads(
        of batch: StoreBatch, into result: inout StoreResult
    ) throws(StoreError) -> DecidedBatch? {
        if !batch.loads.isEmpty { try load(batch, into: &result) }
        guard !leaving.isEmpty else {
            try finishReads(of: batch, into: &result)
            return nil
        }
        var removal = StoreBatch()
        removal.sequence = batch.sequence
        removal.moment = batch.moment
        // The sweep follows the removal.
        removal.sweepMaximum = batch.sweepMaximum
        var outcome = BatchOutcome()
        let damagedCount = removalTally.setAside.count
        var transaction = try WriteTransaction(
            environment: environment, tables: tables, scratch: scratch.bytes)
        for item in leaving {
            if case .expired = item.cause { outcome.expired.append(EntryName(item.key)) }
            try transaction.remove(item, removalTally: &removalTally)
        }
        leaving.removeAllKeepingCapacity()
        try transaction.settleReleases(&removalTally)
        outcome.setAside = removalTally.setAside[damagedCount...].map(EntryName.init)
        outcome.digest = BatchOutcome.digest(of: StoreResult())
        prepared = PreparedBatch(
            transaction: transaction, batch: removal, nextMessage: nextMessage,
            doomedQueues: doomedQueues, rest: .sweep)
        return DecidedBatch(removal, outcome)
    }

    private mutating func finishReads(
        of batch: StoreBatch, into result: inout StoreResult
    ) throws(StoreError) {
        if batch.sweepMaximum > 0 { try sweep(batch, into: &result) }
        complete(&result)
    }

    /// Completes the result of the open transaction, whose record the log has, if the result needs
    /// nothing of the commit: no load, no sweep, no deletion that goes on, and enough room whatever
    /// the commit uses.
    ///
    /// The result may be told at once: if the commit fails, the next start replays the record.
    ///
    /// - Returns: whether the result is complete. ``commitDecided(at:into:)`` does not change it
    ///   then.
    public mutating func completeDecided(_ result: inout StoreResult) -> Bool {
        checkUse()
        guard var decided = prepared.take() else {
            preconditionFailure("no batch to complete after \(position as Any)")
        }
        let batch = decided.batch
        var need = RoomNeed()
        need.add(batch, page: pageByteCount)
        let rowRoom = rowRoomByteCount - need.byteCount(page: pageByteCount)
        let used = decided.transaction.usedByteCount
        let isCompleted =
            batch.loads.isEmpty && batch.sweepMaximum == 0 && restoredDamage.isEmpty
            && decided.doomedQueues.isEmpty && doomedQueues.isEmpty
            && hasRoom && used <= options.softLimitByteCount
            && rowRoom >= StoreLimits.earlyRowRoomByteCountMinimum
        if isCompleted {
            complete(&result)
            result.usedBytes = used
            result.rowRoomByteCount = rowRoom
            decided.rest = .nothing
        }
        prepared = consume decided
        return isCompleted
    }

    /// The log has the record of the open transaction: commits it, and carries out the loads and
    /// the sweep of its batch.
    ///
    /// Every thrown error is fatal: the process must end, and the next start replays the record.
    ///
    /// - Returns: what the log must have next, in another open transaction; nil if the result is
    ///   complete.
    public mutating func commitDecided(
        at position: ReplicaPosition, into result: inout StoreResult
    ) throws(StoreError) -> DecidedBatch? {
        checkUse()
        guard let decided = prepared.take() else {
            preconditionFailure("no batch for record \(position.sequence.raw)")
        }
        hasFailed = true
        let batch = decided.batch
        let rest = decided.rest
        let (message, doomed) = (decided.nextMessage, decided.doomedQueues)
        try commit(
            decided.finish(), moment: batch.moment, nextMessage: message, at: position)
        doomedQueues = doomed
        var next: DecidedBatch?
        switch rest {
        case .nothing: break
        case .sweep: try finishReads(of: batch, into: &result)
        case .loadsAndSweep:
            restoredDamage.removeAll()
            next = try decideReads(of: batch, into: &result)
        }
        hasFailed = false
        return next
    }

    /// The log has not taken the record, and never will: nothing has changed.
    public mutating func abortDecided() {
        guard let decided = prepared.take() else {
            preconditionFailure("no batch to abort after \(position as Any)")
        }
        _ = decided.finish()
    }

    // MARK: The standby

    /// Applies records in one transaction: their rows become those of their author. Records without
    /// rows alone are not written to the disk: see ``writePosition()``.
    ///
    /// Every thrown error is fatal. ``StoreError/divergedCopy(sequence:)`` says that this store is
    /// not a copy.
    ///
    /// - Parameter records: in the order of the log, from the next one on. Those of one call should
    ///   be few: LMDB keeps the pages that they change in memory.
    public mutating func apply(_ records: [ReplayedRecord]) throws(StoreError) {
        checkUse()
        guard let last = records.last else { return }
        var before = position
        var need = RoomNeed()
        for record in records {
            precondition(
                before?.sequence.next == record.position.sequence,
                "record \(record.position.sequence.raw) after \(before as Any)")
            before = record.position
            if let batch = record.decided?.batch { need.add(batch, page: pageByteCount) }
        }
        guard records.contains(where: { $0.decided != nil }) else {
            position = last.position
            passedMoment = last.moment
            return
        }
        hasFailed = true
        hasDiskSpace = claimRoom(for: need, at: last.moment)
        var transaction = try WriteTransaction(
            environment: environment, tables: tables, scratch: scratch.bytes)
        var message = nextMessage
        for record in records {
            guard let decided = record.decided else { continue }
            removalTally.removeAll()
            // The primary has examined them in a transaction for each batch.
            transaction.scanCount = 0
            message = max(
                message,
                nextMessage(after: decided.batch, withSends: !decided.outcome.refusesSends))
            guard try replay(decided, in: &transaction) else {
                throw .divergedCopy(sequence: record.position.sequence.raw)
            }
        }
        try commit(transaction, moment: last.moment, nextMessage: message, at: last.position)
        for deletion in records.flatMap({ $0.decided?.outcome.deletions ?? [] }) {
            doomedQueues.removeAll { $0 == deletion.queue }
            if !deletion.isComplete { doomedQueues.append(deletion.queue) }
        }
        hasFailed = false
    }

    /// Writes the position to the disk, if records without rows have moved it. The log may forget
    /// records only up to a position on a disk, and a restart replays those behind it. No
    /// transaction may be open. A full disk keeps the older one.
    ///
    /// Every thrown error is fatal.
    public mutating func writePosition() throws(StoreError) {
        checkUse()
        guard let moment = passedMoment, let position else { return }
        precondition(prepared == nil, "the position \(position) beside a decided batch")
        hasFailed = true
        do throws(StoreError) {
            let transaction = try WriteTransaction(
                environment: environment, tables: tables, scratch: scratch.bytes)
            try commit(transaction, moment: moment, nextMessage: nextMessage, at: position)
        } catch {
            guard error.isFull else { throw error }
        }
        hasFailed = false
    }

    /// - Returns: whether it had the same effect as on the primary's store.
    private mutating func replay(
        _ decided: DecidedBatch, in transaction: inout WriteTransaction
    ) throws(StoreError) -> Bool {
        let (batch, outcome) = (decided.batch, decided.outcome)
        // First what the primary could not read: its other changes passed over it.
        for name in outcome.setAside {
            let key = EntryKey(name)
            guard try transaction.entries.seek(key) else { continue }
            try transaction.setAside(key, .unreadableEntry, removalTally: &removalTally)
        }
        let damagedCount = removalTally.setAside.count
        if !outcome.refusesSends { try LMDBQueueStore.putSends(batch, in: &transaction) }
        var result = StoreResult()
        try changeEntries(batch, in: &transaction, into: &result)
        for deletion in outcome.deletions {
            try transaction.delete(deletion, removalTally: &removalTally)
        }
        for name in outcome.expired {
            try transaction.remove(EntryKey(name), removalTally: &removalTally)
        }
        try changeRecords(batch, withSends: !outcome.refusesSends, in: &transaction)
        return removalTally.setAside.count == damagedCount
            && BatchOutcome.digest(of: result) == outcome.digest
    }

    /// Commits a transaction with its position.
    private mutating func commit(
        _ transaction: consuming WriteTransaction, moment: Moment, nextMessage: UInt64,
        at position: ReplicaPosition
    ) throws(StoreError) {
        let stamp = MetaStamp(stamp: .replicated(moment), nextMessage: nextMessage)
        try transaction.putMeta(.stamp, stamp.bytes)
        try transaction.putMeta(.position, position.bytes)
        let used = transaction.usedByteCount
        try transaction.commit()
        self.nextMessage = nextMessage
        self.position = position
        writtenPosition = position
        passedMoment = nil
        usedByteCount = used
    }
}

extension PreparedBatch {
    /// The transaction alone.
    consuming func finish() -> WriteTransaction { transaction }
}

extension WriteTransaction {
    /// Repeats a deletion, as far as it went.
    fileprivate mutating func delete(
        _ deletion: QueueDeletion, removalTally: inout RemovalTally
    ) throws(StoreError) {
        _ = try remove(
            queue: deletion.queue, throughNumber: deletion.throughNumber,
            removalTally: &removalTally)
        try setDoomed(deletion.queue, !deletion.isComplete)
    }
}

extension EntryName {
    fileprivate init(_ key: EntryKey) {
        self.init(queue: QueueID(raw: key.queue), number: key.number)
    }
}

extension EntryKey {
    fileprivate init(_ name: EntryName) { self.init(queue: name.queue.raw, number: name.number) }
}
