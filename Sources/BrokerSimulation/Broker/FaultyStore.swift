// The store of the simulated machine: the naive one, with commits that take time, with crashes in
// the middle of them, and with the planted bugs that belong to a store. It outlives the process.

import BrokerCore
import Primitives

final class FaultyStore {
    private let surroundings: Surroundings
    private var store = InMemoryStore()
    /// The batch under way, as it was handed over.
    private var underWay: StoreBatch?
    /// The store after the batch under way, where the core has been told its result already.
    private var toldOutcome: InMemoryStore?
    /// What the last commits began with, for planted bugs that go back there.
    private var pasts: [InMemoryStore] = []
    /// Commits that a planted bug goes back.
    private static let pastMaximum = 30
    /// Users whose row has been written.
    private var knownUsers: Set<[UInt8]> = []

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
        for entry in batch.entries where store.holds(entry.number, in: entry.queue) {
            surroundings.ledger.accuse(
                .numbersAreNotReused,
                "#\(entry.number) is in queue \(entry.queue.raw) and is put there again")
        }
        underWay = batch
        guard surroundings.has(.earlyResult) else { return nil }
        var result = StoreResult()
        var outcome = store
        outcome.carryOut(batch, into: &result)
        toldOutcome = outcome
        return result
    }

    /// Ends the commit that is under way. False when the core has heard its result already.
    func finish(into result: inout StoreResult) -> Bool {
        guard let batch = underWay else { preconditionFailure("no batch is under way") }
        underWay = nil
        if let toldOutcome {
            store = toldOutcome
            self.toldOutcome = nil
            return false
        }
        keepPast()
        store.carryOut(batch, into: &result)
        tamper(&result)
        surroundings.history.note(
            .broker,
            "batch \(batch.sequence) committed\(result.refusal == nil ? "" : ", sends refused")")
        return true
    }

    private func keepPast() {
        switch surroundings.options.mutation {
        case .lostCommit: pasts = [store]
        case .oldBackup:
            if pasts.count == Self.pastMaximum { pasts.removeFirst() }
            pasts.append(store)
        default: break
        }
    }

    /// The process dies. The batch under way is there at the next start, or nothing of it.
    func crash(committing: Bool) {
        if var batch = underWay, committing {
            if surroundings.has(.tornCommit) { batch.sendRecords = [] }
            var lost = StoreResult()
            store.carryOut(batch, into: &lost)
        }
        underWay = nil
        toldOutcome = nil
        if let past = pasts.first { store = past }
        pasts = []
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
        case .forgottenMailbox:
            // Every change of a user's row but its first.
            batch.records.removeAll {
                $0.table == .users && $0.value != nil && !knownUsers.insert($0.key).inserted
            }
        case .fastClock:
            batch.moment.instant = batch.moment.instant.advanced(bySeconds: 8 * 86_400)
        default: break
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
