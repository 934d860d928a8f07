// What a node does with its store: the batches of its own core, which the log gets first, and the
// records of other nodes.

import BrokerCore
import CLinuxShims
import NetTransport
import Primitives
import QueueStore
import Replication

extension ClusterNode {
    // MARK: The primary

    /// Takes batches of the core until one has to wait for the log.
    func decideWaiting() throws(StoreError) {
        while let serving, replica.role == .primary, !replica.isDeciding {
            let (broker, clock) = (serving.shared, serving.clock)
            var taken = StoreBatch()
            swap(&taken, &batch)
            let hasBatch = broker.enter { state in
                state.broker.takeBatch(into: &taken, at: clock.moment())
            }
            swap(&taken, &batch)
            guard hasBatch else { return }
            beganNanoseconds = EventLoop.readNanoseconds()
            try decide(refusesSends: batch.hasSends && refusesForRoom())
        }
    }

    /// Whether the log keeps the rest of its room for other records than sends. Counts the refusal.
    private func refusesForRoom() -> Bool {
        view.withLock { view in
            guard view.isLogNearlyFull else { return false }
            view.logFullCount += 1
            return true
        }
    }

    /// The log has no room for the sends of the batch.
    func decideAgain() throws(StoreError) {
        view.withLock { $0.logFullCount += 1 }
        owned.value.abortDecided()
        try decide(refusesSends: true)
    }

    private func decide(refusesSends: Bool) throws(StoreError) {
        let decided = try owned.value.decide(
            batch, refusesSends: refusesSends, into: &result)
        guard let decided else { return finish() }
        try propose(decided, hasSends: batch.hasSends && !refusesSends)
    }

    /// Appends what the store has decided.
    private func propose(_ decided: DecidedBatch, hasSends: Bool) throws(StoreError) {
        if let bytes = decided.encoded {
            return try handle(.decided(bytes, hasSends: hasSends))
        }
        owned.value.abortDecided()
        guard hasSends else {
            // The core bounds the changes of a batch to a part of a record.
            log.write(
                .error, .clusterFenced,
                fields: [
                    "node": .text(logName),
                    "detail": "a batch without sends does not fit into a record of the log",
                ])
            fail(.other)
        }
        view.withLock { $0.oversizedCount += 1 }
        try decide(refusesSends: true)
    }

    /// The log has the record of the open transaction.
    func commit(at position: ReplicaPosition) throws(StoreError) {
        // Heartbeats before it.
        try applyWaiting()
        // Most results need nothing of this disk: after a failed commit, the next start replays the
        // record.
        let isCompleted = owned.value.completeDecided(&result)
        if isCompleted { finish() }
        let next = try owned.value.commitDecided(at: position, into: &result)
        tellPosition()
        if let next { return try propose(next, hasSends: false) }
        measure()
        if !isCompleted { finish() }
        try maintain()
    }

    private func finish() {
        guard let serving else {
            preconditionFailure("a result of batch \(result.sequence) without a core")
        }
        serving.shared.finish(result, at: serving.clock.moment())
    }

    private func measure() {
        guard let commits = serving?.shared.commits else { return }
        commits.times.record((EventLoop.readNanoseconds() - beganNanoseconds) / 1_000)
        commits.messageCounts.record(UInt64(batch.messages.count))
        commits.byteCounts.record(UInt64(batch.blocks.count))
    }

    /// Between two batches: snapshots for backups and copies, and memory that the store needs no
    /// more.
    func maintain() throws(StoreError) {
        guard let store else { return }
        copies.serve(store.value)
        guard let serving else {
            serveBackup(store)
            return
        }
        serving.backups.serve(store.value, of: serving.place)
        let now = serving.clock.moment().instant
        guard store.value.keepsPages(at: now), !serving.backups.isRunning,
            !copies.isMaking
        else { return }
        try store.value.releasePages(at: now)
        malloc_trim(0)
        let sizes = store.value.tableByteCounts()
        serving.shared.commits.tables.withLock { $0 = sizes }
    }

    private var owned: Box<LMDBQueueStore> {
        guard let store else {
            preconditionFailure("record \(replica.received.sequence.raw) without a store")
        }
        return store
    }

    // MARK: The standby

    /// Takes a record of the log, which the store gets with those that are there already.
    func apply(
        _ decided: DecidedBatch?, _ moment: Moment, at position: ReplicaPosition
    ) throws(StoreError) {
        let record = ReplayedRecord(decided, moment, at: position)
        if unapplied.isEmpty, replica.role == .standby {
            applyDue = now.advanced(byMilliseconds: ClusterLimits.applyMilliseconds)
        }
        unapplied.append(record)
        unappliedByteCount += record.byteCount
        if unapplied.count >= ClusterLimits.appliedRecordMaximum
            || unappliedByteCount >= ClusterLimits.appliedByteCountMaximum || record.isLong
        {
            try applyWaiting()
        }
    }

    /// Applies the records that wait, in one commit. The store of a primary whose core is being
    /// restored gets its heartbeats later.
    func applyWaiting() throws(StoreError) {
        guard let store, let last = unapplied.last else { return }
        try store.value.apply(unapplied)
        unapplied.removeAll(keepingCapacity: true)
        unappliedByteCount = 0
        applyDue = .never
        // Broker time goes on from the record, as after a restart.
        clock = BrokerClock(
            after: StoreStamp(
                moment: last.moment, boot: StoreIdentity(high: 0, low: 0), bootMilliseconds: 0),
            downtimeMaximumSeconds: settings.store.downtimeMaximumSeconds)
        tellPosition()
        try handle(.applied(last.position.sequence))
    }

    /// Writes the position behind heartbeats at times.
    func writePosition(isDue: Bool = false) throws(StoreError) {
        guard let store, !replica.isDeciding, isDue || now >= positionDue else { return }
        positionDue = now.advanced(byMilliseconds: ClusterLimits.positionMilliseconds)
        try store.value.writePosition()
        tellPosition()
    }

    /// What is on the disk is what other nodes may rely on.
    private func tellPosition() {
        guard let written = store?.value.writtenPosition?.sequence else { return }
        view.withLock { $0.applied = written }
    }
}

extension ReplayedRecord {
    /// Bytes that its transaction holds, about.
    fileprivate var byteCount: Int {
        guard let batch = decided?.batch else { return 0 }
        let rows = batch.records.reduce(0) { $0 + $1.key.count + ($1.value?.count ?? 0) }
        return batch.blocks.count + rows + batch.entries.count * MemoryLayout<EntryPut>.stride
    }

    /// Whether it may change thousands of rows.
    fileprivate var isLong: Bool {
        guard let decided else { return false }
        return !(decided.outcome.deletions.isEmpty && decided.batch.transfers.isEmpty)
    }
}
