// What a node's store does: the batches of its own broker, and the records of others.

import BrokerCore
import Primitives
import Replication

extension ClusterNode {
    // MARK: The primary's batches

    /// The core has a batch, unless one is under way.
    func takeBatch() {
        guard let process, replica?.role == .primary, decision == nil else { return }
        var batch = StoreBatch()
        guard process.takeBatch(into: &batch) else { return }
        decide(batch, refusesSends: false)
    }

    private func decide(_ batch: StoreBatch, refusesSends: Bool) {
        var decision = Decision(batch: batch, store: store, result: StoreResult())
        decision.store.isFull = refusesSends
        guard var outcome = decision.store.decide(batch, into: &decision.result) else {
            // Only loads and sweeps: they change nothing.
            store = decision.store
            process?.finish(decision.result)
            return takeBatch()
        }
        decision.store.isFull = false
        if context.has(.keptExpired) { outcome.expired = [] }
        if context.has(.unsaidRefusal) { outcome.refusesSends = false }
        let record = DecidedBatch(batch, outcome)
        guard let bytes = record.encoded else {
            preconditionFailure(
                "batch \(batch.sequence) of \(batch.blocks.count) bytes is too long")
        }
        if outcome.refusesSends { checkRefusal(record) }
        if context.has(.earlyRelease), !refusesSends { process?.finish(decision.result) }
        if context.has(.earlyCommit) { store = decision.store }
        self.decision = decision
        tell(.decided(bytes, hasSends: batch.hasSends && !refusesSends))
    }

    /// The log gets nothing of sends that are refused: otherwise the record of a batch that is too
    /// long would be so without its sends too.
    private func checkRefusal(_ record: DecidedBatch) {
        var record = record
        // For a planted bug.
        if context.has(.encodedRefusal) { record.outcome.refusesSends = false }
        let decoded = record.encoded.flatMap { try? DecidedBatch(decoding: $0) }
        guard decoded?.batch.hasSends != false else { return }
        context.oracle.fail(
            .allComesToRest,
            "the refused sends of batch \(record.batch.sequence) are in its record")
    }

    func refuseSends() {
        guard let decision else { return }
        self.decision = nil
        if context.has(.keptResult) { process?.finish(decision.result) }
        decide(decision.batch, refusesSends: true)
    }

    /// The decided batch is in the log: its results leave, and the store commits it.
    func release(_ position: ReplicaPosition) {
        guard let decision else {
            preconditionFailure("record \(position.sequence.raw) of no batch")
        }
        self.decision?.position = position
        if context.has(.earlyPosition) { self.position = position }
        let hasResult = context.has(.earlyRelease) || context.has(.keptResult) && isTold(decision)
        if !hasResult { process?.finish(decision.result) }
        context.enter(
            .cluster(.nodeCommits(node: index, life: life)), after: drawCommitTime())
    }

    /// For a planted bug: the core has the result of the batch with its sends.
    private func isTold(_ decision: Decision) -> Bool { decision.result.refusal != nil }

    private func drawCommitTime() -> UInt64 {
        cluster.random.milliseconds(in: 0...(isSlow ? 800 : 10))
    }

    /// The store has committed the decided batch.
    func commit() {
        guard let decision, let position = decision.position else { return }
        self.decision = nil
        let isLost = context.misbehaves(.lostLocalCommit, perTenThousand: 500)
        if !isLost { store = decision.store }
        setPosition(position)
        lastBatch = position.sequence
        cluster.check(self)
        tell(.applied(position.sequence))
        takeBatch()
    }

    // MARK: The records of others

    func apply(_ position: ReplicaPosition, _ batch: DecidedBatch?) {
        unapplied.append((position, batch))
        if replica?.role == .primary { return applyAll() }
        if unapplied.count == 1 { enterApplication() }
        // The replica believes that the store has it.
        if context.has(.earlyApplied) { tell(.applied(position.sequence)) }
    }

    private func enterApplication() {
        context.enter(.cluster(.nodeApplies(node: index, life: life)), after: drawCommitTime())
    }

    /// A new primary's own takeover.
    private func applyAll() {
        // With a planted bug records of others may be left.
        if context.has(.earlyApplied) { return }
        while !unapplied.isEmpty { applyFirst() }
    }

    func applyNext() {
        guard !unapplied.isEmpty else { return }
        applyFirst()
        if !unapplied.isEmpty { enterApplication() }
        if let position = passed ?? position { tell(.applied(position.sequence)) }
    }

    private func applyFirst() {
        let (position, batch) = unapplied.removeFirst()
        guard let batch else { return pass(position) }
        setPosition(position)
        lastBatch = position.sequence
        guard !context.misbehaves(.skippedRecord, perTenThousand: 200) else { return }
        if !store.replay(batch) {
            context.oracle.fail(
                .storesAreEqual,
                "record \(position.sequence.raw) has another effect on node \(index)")
        }
        cluster.check(self)
    }

    /// A record without rows: the disk gets its position with a later commit.
    private func pass(_ position: ReplicaPosition) {
        if decision?.position != nil {
            // The log has the batch before it, which the store has not.
            decision?.position = position
        } else if position.sequence.raw % ClusterNode.passedPerWrite == 0 {
            setPosition(position)
        } else {
            passed = position
        }
    }

    private func setPosition(_ position: ReplicaPosition) {
        self.position = position
        passed = nil
    }

    private static let passedPerWrite: UInt64 = 8

    /// Takes over another node's store.
    func copy(of source: ClusterNode) {
        guard replica?.role == .joining, let copied = source.position else { return }
        store = source.store
        setPosition(copied)
        lastBatch = source.lastBatch
        if context.has(.copyWithoutRows), let received = source.replica?.received {
            position = received
        }
        context.history.note(
            .broker, "node \(index) copies node \(source.index) at \(copied.sequence.raw)")
        if let position { tell(.copied(position)) }
    }

    // MARK: Planted bugs

    /// What a planted bug makes of an event of the log.
    func tampered(_ event: ReplicatedLogEvent) -> ReplicatedLogEvent {
        if case .recordsMissing = event, context.has(.unseenGap) {
            return .followingEnded(.failed(code: 0))
        }
        guard case .appended(let request, let outcome) = event, let replica else { return event }
        let position = replica.received.sequence.next
        switch outcome {
        case .wrongLast where context.has(.believedWrongLast),
            .unknown where context.has(.believedTimeout), .full where context.has(.believedFull):
            return .appended(request, .committed(position))
        default: return event
        }
    }
}
