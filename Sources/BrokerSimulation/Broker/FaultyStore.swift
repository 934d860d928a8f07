// The store of the simulated machine: the naive one, with commits that take time, with crashes in
// the middle of them, and with the planted bugs that belong to a store. It outlives the process.

import BrokerCore
import Primitives

final class FaultyStore {
    private let surroundings: Surroundings
    private var store = InMemoryStore()
    /// The batch under way, as it was handed over.
    private var underWay: StoreBatch?
    /// The core has been told the result of the batch under way already.
    private var isResultTold = false
    /// What the last finished commit began with.
    private var beforeCommit: InMemoryStore?
    /// Rows that have been written at least once.
    private var knownRows: Set<[UInt8]> = []

    init(_ surroundings: Surroundings) {
        self.surroundings = surroundings
    }

    var isCommitting: Bool { underWay != nil }

    var isFull: Bool {
        get { store.isFull }
        set { store.isFull = newValue }
    }

    /// Nothing is held for anybody.
    var isDrained: Bool { store.heldMessages.isEmpty }

    // MARK: Commits

    /// Takes a batch. Gives its result where a planted bug tells it before the commit.
    func begin(_ batch: StoreBatch) -> StoreResult? {
        precondition(underWay == nil, "one batch is under way at a time")
        var batch = batch
        tamper(&batch)
        noteEntries(batch)
        underWay = batch
        isResultTold = surroundings.has(.earlyResult)
        guard isResultTold else { return nil }
        var result = StoreResult()
        var copy = store
        copy.carryOut(batch, into: &result)
        return result
    }

    /// Ends the commit that is under way. False when the core has heard its result already.
    func finish(into result: inout StoreResult) -> Bool {
        guard let batch = underWay else { preconditionFailure("no batch is under way") }
        underWay = nil
        if surroundings.has(.lostCommit) { beforeCommit = store }
        store.carryOut(batch, into: &result)
        tamper(&result)
        surroundings.history.note(
            .broker,
            "batch \(batch.sequence) committed\(result.refusal == nil ? "" : ", sends refused")")
        return !isResultTold
    }

    /// The process dies. The batch under way is there at the next start, or nothing of it.
    func crash(committing: Bool) {
        if var batch = underWay, committing {
            if surroundings.has(.tornCommit) {
                batch.records = []
                batch.sendRecords = []
                batch.acknowledgements = []
            }
            var lost = StoreResult()
            store.carryOut(batch, into: &lost)
        }
        underWay = nil
        if let beforeCommit { store = beforeCommit }
        beforeCommit = nil
        store.crash(committing: false)
    }

    func restore(into broker: inout Broker) -> RestoredState { store.restore(into: &broker) }

    private func noteEntries(_ batch: StoreBatch) {
        guard surroundings.history.isRecording else { return }
        for entry in batch.entries {
            guard let message = batch.messages.first(where: { $0.id == entry.message }) else {
                continue
            }
            let name = batch.blocks.withUnsafeBytes { blocks in
                let block = MessageBlock(message.block.bytes(in: blocks))
                return MessageText.message(
                    in: block.payload, isRaw: block.marks.contains(.raw))
            }
            surroundings.history.note(
                .message(name ?? -1),
                "in batch \(batch.sequence), queue \(entry.queue.raw), #\(entry.number)")
        }
    }

    // MARK: Planted bugs

    private func tamper(_ batch: inout StoreBatch) {
        switch surroundings.options.mutation {
        case .greedyAcknowledgement:
            for index in batch.acknowledgements.indices {
                batch.acknowledgements[index].throughNumber += 1
            }
        case .forgottenAcknowledgement:
            batch.acknowledgements.removeAll { _ in
                surroundings.misbehaves(.forgottenAcknowledgement, perTenThousand: 1_000)
            }
        case .forgottenOutbox: batch.sendRecords = []
        case .forgottenSubscription: batch.records.removeAll { $0.table == .subscriptions }
        case .staleReservation: dropLaterRows(of: .sessions, from: &batch)
        case .forgottenMailbox: dropLaterRows(of: .users, from: &batch)
        case .fastClock:
            batch.moment.instant = batch.moment.instant.advanced(bySeconds: 8 * 86_400)
        default: break
        }
    }

    /// Leaves out every change of a row but its first.
    private func dropLaterRows(of table: RecordTable, from batch: inout StoreBatch) {
        batch.records.removeAll { change in
            change.table == table && change.value != nil
                && !knownRows.insert(change.key).inserted
        }
    }

    private func tamper(_ result: inout StoreResult) {
        for index in result.loads.indices where result.loads[index].entries.count > 1 {
            switch surroundings.options.mutation {
            case .swappedLoad:
                let first = result.loads[index].entries[0]
                let second = result.loads[index].entries[1]
                result.loads[index].entries[0] = second
                result.loads[index].entries[0].number = first.number
                result.loads[index].entries[1] = first
                result.loads[index].entries[1].number = second.number
            case .skippedLoad: result.loads[index].entries.removeFirst()
            default: break
            }
        }
    }
}
