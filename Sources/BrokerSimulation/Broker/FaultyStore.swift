// The store of the simulated machine: `InMemoryStore` with commits that take time, with crashes
// within them, and with the planted bugs of a store. It outlives the process.

import BrokerCore
import Primitives

final class FaultyStore {
    let context: SimulationContext
    private var store = InMemoryStore()
    /// The batch in flight, as the core passed it.
    private var inFlightBatch: StoreBatch?
    /// The store after the batch in flight, if the core already has its result.
    private var reportedOutcome: InMemoryStore?
    /// The store before each of the last commits, for planted bugs that return to it.
    private var pasts: [InMemoryStore] = []
    /// The number of commits that a planted bug goes back.
    private static let pastMaximum = 30
    /// Whether the core has been told that the store is full, and by how many bytes its rows have
    /// grown since.
    private var isFullReported = false
    /// Whether it had been told so when the batch in flight began.
    private var knewFull = false
    private var addedByteCount = 0
    /// Bytes by which rows may grow in a full store: the real store reserves space for removals,
    /// which write small rows.
    private static let fullGrowthMaximum = 4_096
    private var backup: InMemoryStore?
    /// Users whose row has been written.
    private var knownUsers: Set<[UInt8]> = []
    /// Rows of sessions at their creation, with the first reserved numbers.
    private var firstSessionRows: [[UInt8]: RecordChange] = [:]
    /// New memberships that were not written.
    private var lostMembers: [RecordChange] = []
    /// Ends of memberships that were not written.
    private var keptMembers: [RecordChange] = []

    init(_ context: SimulationContext) {
        self.context = context
    }

    var isCommitting: Bool { inFlightBatch != nil }

    var isFull: Bool {
        get { store.isFull }
        set { store.isFull = newValue }
    }

    /// The committed state, from which the nodes of a cluster begin.
    var contents: InMemoryStore { store }

    /// Only conversations have messages.
    var isDrained: Bool { store.isDrained }

    // MARK: Commits

    /// Takes a batch. Returns its result if a planted bug reports it before the commit.
    func begin(_ batch: StoreBatch) -> StoreResult? {
        precondition(
            inFlightBatch == nil, "batch \(inFlightBatch?.sequence ?? 0) is in flight")
        var batch = batch
        tamper(&batch)
        noteEntries(batch)
        for entry in batch.entries where store.holds(entry.number, in: entry.queue) {
            context.oracle.fail(
                .numbersAreNotReused,
                "#\(entry.number) is in queue \(entry.queue.raw) and is put there again")
        }
        inFlightBatch = batch
        let isHasty =
            context.has(.hastyReception) && batch.sendRecords.contains(where: isPacket)
        guard context.has(.earlyResult) || isHasty else { return nil }
        var result = StoreResult()
        var outcome = store
        outcome.carryOut(batch, into: &result)
        reportedOutcome = outcome
        return result
    }

    /// Ends the commit in flight. False if the core already has its result.
    func finish(into result: inout StoreResult) -> Bool {
        guard let batch = inFlightBatch else {
            preconditionFailure("result \(result.sequence) without a batch in flight")
        }
        inFlightBatch = nil
        if let reportedOutcome {
            store = reportedOutcome
            self.reportedOutcome = nil
            return false
        }
        keepPast()
        measureGrowth(batch)
        store.carryOut(batch, into: &result)
        knewFull = isFullReported
        isFullReported = result.isFull
        if context.has(.unheededFull), result.refusal == nil { result.isFull = false }
        tamper(&result)
        if context.has(.skippedPage) { skipNewest(of: batch, &result) }
        context.history.note(
            .broker,
            "batch \(batch.sequence) committed\(result.refusal == nil ? "" : ", sends refused")")
        return true
    }

    /// Adds up the rows that the core writes although it knows that there is no space.
    private func measureGrowth(_ batch: StoreBatch) {
        // The first batch after the report contains what was admitted before.
        guard knewFull, isFullReported, store.isFull else {
            addedByteCount = 0
            return
        }
        for change in batch.records where change.part != .send {
            addedByteCount += (change.value?.count ?? 0) - store.rowByteCount(change)
        }
        guard addedByteCount > FaultyStore.fullGrowthMaximum else { return }
        context.oracle.fail(
            .fullIsHeeded, "\(addedByteCount) bytes of rows were added to a store that is full")
    }

    private func keepPast() {
        switch context.options.mutation {
        case .lostCommit: pasts = [store]
        case .oldBackup:
            if pasts.count == Self.pastMaximum { pasts.removeFirst() }
            pasts.append(store)
        default: break
        }
    }

    /// The process is killed. At the next start the whole batch in flight is present, or none of
    /// it.
    ///
    /// - Parameter committing: whether the batch in flight is committed.
    func crash(committing: Bool) {
        if var batch = inFlightBatch, committing {
            if context.has(.tornCommit) { batch.sendRecords = [] }
            var lost = StoreResult()
            store.carryOut(batch, into: &lost)
        }
        inFlightBatch = nil
        reportedOutcome = nil
        isFullReported = false
        if let past = pasts.first { store = past }
        pasts = []
        store.crash(committing: false)
        if context.has(.reusedInboxNumber) { loseReservations() }
    }

    func restore(into broker: inout Broker) -> RestoredState { store.restore(into: &broker) }

    private func noteEntries(_ batch: StoreBatch) {
        guard context.history.isRecording else { return }
        for entry in batch.entries {
            guard let message = batch.messages.first(where: { $0.id == entry.message }) else {
                continue
            }
            let name = batch.blocks.withUnsafeBytes { blocks in
                let block = MessageBlock(message.block.bytes(in: blocks))
                return MessageText.message(
                    in: block.payload, isRaw: block.marks.contains(.raw))
            }
            context.history.note(
                .message(name ?? -1),
                "in batch \(batch.sequence), queue \(entry.queue.raw), #\(entry.number)")
        }
    }

    // MARK: Backups

    /// Copies the committed state.
    func makeBackup() { backup = store }

    /// The backup replaces the store. False if there is none.
    func putBackupBack() -> Bool {
        guard var restored = backup else { return false }
        restored.isFull = store.isFull
        restored.identity = StoreIdentity(high: 1, low: store.identity.low + 1)
        store = restored
        backup = nil
        pasts = []
        return true
    }

    // MARK: Planted bugs

    private func tamper(_ batch: inout StoreBatch) {
        switch context.options.mutation {
        case .greedyAcknowledgement:
            for index in batch.acknowledgements.indices {
                batch.acknowledgements[index].throughNumber += 1
            }
        case .forgottenAcknowledgement:
            batch.acknowledgements.removeAll { _ in
                context.misbehaves(.forgottenAcknowledgement, perTenThousand: 1_000)
            }
        case .forgottenOutbox: batch.sendRecords = []
        case .forgottenIdentifier: batch.sendRecords.removeAll(where: isPacket)
        case .forgottenReception: batch.states = []
        case .keptIdentifier:
            batch.sendRecords.removeAll { isPacket($0) && $0.value == nil }
            batch.records.removeAll { isPacket($0) && $0.value == nil }
        case .unaskedRow: addUnasked(to: &batch)
        case .keptRefusal:
            guard store.isFull else { break }
            for index in batch.records.indices where isPacket(batch.records[index]) {
                batch.records[index] = batch.records[index].asPart(.state)
            }
        case .lostMove: removeMoved(&batch)
        case .refusedMove: if store.isFull { removeMoved(&batch) }
        case .discardedMessages:
            for index in batch.transfers.indices {
                if case .userMessages = batch.transfers[index].scope {
                    batch.transfers[index].scope = .userMessages(before: StoredMessageID(raw: 0))
                }
            }
        case .forgottenBackup: changeRows(.sessions, of: &batch, FaultyStore.forgetBackup)
        case .forgottenDelay: changeRows(.wills, of: &batch, FaultyStore.forgetDelay)
        case .lostTransfer:
            batch.deletedQueues += batch.transfers.map(\.source)
            batch.transfers = []
        case .forgottenRetained:
            batch.records.removeAll { $0.table == .retained && $0.value != nil }
        case .keptRetained: batch.records.removeAll { $0.table == .retained && $0.value == nil }
        case .forgottenSubscription: batch.records.removeAll { $0.table == .subscriptions }
        case .repeatedWill:
            batch.sendRecords.removeAll { $0.table == .wills }
            batch.records.removeAll { $0.table == .wills && $0.value == nil }
        case .lostWill: batch.records.removeAll { $0.table == .wills && $0.value != nil }
        case .keptMember: keepMembers(&batch)
        case .lostMember: loseMembers(&batch)
        case .reusedInboxNumber:
            for change in batch.records where change.table == .sessions {
                if firstSessionRows[change.key] == nil { firstSessionRows[change.key] = change }
                if change.value == nil { firstSessionRows[change.key] = nil }
            }
        case .steppedClock:
            // The wall clock instead of the elapsed time.
            batch.moment.instant = Instant(
                milliseconds: batch.moment.unixMilliseconds - SimulationContext.unixStart)
        case .forgottenQueue:
            // Every change of a user's row except its first.
            batch.records.removeAll {
                $0.table == .users && $0.value != nil && !knownUsers.insert($0.key).inserted
            }
        case .lostHistory, .lostTopicHistory, .swappedHistory, .forgottenMark, .ownIsUnread,
            .forgottenPull,
            .forgottenNotices:
            tamperHistory(&batch)
        case .fastClock:
            batch.moment.instant = batch.moment.instant.advanced(bySeconds: 8 * 86_400)
        default: tamperReceipts(&batch)
        }
    }

    /// Writes the group data that the core has refused, after the contents of the rows.
    private func addUnasked(to batch: inout StoreBatch) {
        let byteCount = context.unaskedByteCount
        context.unaskedByteCount = 0
        guard isFullReported, isFull, byteCount > 0, var row = store.firstRow(of: .groups) else {
            return
        }
        row.value? += [UInt8](repeating: 0, count: byteCount)
        batch.records.append(row)
    }

    /// Discards messages that are moved out of a queue.
    private func removeMoved(_ batch: inout StoreBatch) {
        batch.removals += batch.moves.map { EntryRemoval(queue: $0.queue, number: $0.number) }
        batch.moves = []
    }

    private func changeRows(
        _ table: RecordTable, of batch: inout StoreBatch, _ change: (inout [UInt8]) -> Void
    ) {
        for index in batch.records.indices where batch.records[index].table == table {
            guard var row = batch.records[index].value else { continue }
            change(&row)
            batch.records[index].value = row
        }
    }

    /// A session's row of version 2 ends with the mark and eight more bytes.
    private static func forgetBackup(_ row: inout [UInt8]) {
        if row[0] == 2 { row[row.count - 9] = 0 }
    }

    /// The delay follows the version and three texts.
    private static func forgetDelay(_ row: inout [UInt8]) {
        var offset = 1
        for _ in 0..<3 { offset += 2 + Int(row[offset]) + Int(row[offset + 1]) << 8 }
        for index in offset..<offset + 4 { row[index] = 0 }
    }

    /// Whether a row belongs to an identifier of QoS 2: a session's number and the identifier.
    private func isPacket(_ change: RecordChange) -> Bool {
        change.table == .outboxes && change.key.count == 10
    }

    /// The end of a membership is stored only when the whole group ends.
    private func keepMembers(_ batch: inout StoreBatch) {
        let isEnd = { (change: RecordChange) in change.table == .members && change.value == nil }
        keptMembers += batch.records.filter(isEnd)
        batch.records.removeAll(where: isEnd)
        for change in batch.records where change.table == .groups && change.value == nil {
            batch.records += keptMembers.filter { $0.key.starts(with: change.key) }
        }
    }

    /// A new member of an existing group is not stored, until somebody leaves it: a group always
    /// has a member.
    private func loseMembers(_ batch: inout StoreBatch) {
        let new = batch.records.filter { $0.table == .groups }.map(\.key)
        let members = batch.records.filter { $0.table == .members }
        let isLeft = { (key: [UInt8]) in
            members.contains { $0.value == nil && $0.key.starts(with: key.prefix(8)) }
        }
        for change in members
        where change.value != nil && !isLeft(change.key)
            && !new.contains(where: { change.key.starts(with: $0) })
        {
            lostMembers.append(change)
            batch.records.removeAll { $0 == change }
        }
        let written = lostMembers.filter { isLeft($0.key) }
        lostMembers.removeAll { isLeft($0.key) }
        batch.records.insert(contentsOf: written, at: 0)
    }

    /// Resets the reservations of inbox numbers to the first, unless messages show higher numbers.
    private func loseReservations() {
        var batch = StoreBatch()
        batch.records = firstSessionRows.values.filter { change in
            change.value.map { store.isEmpty(FaultyStore.queue(ofSessionRow: $0)) } ?? false
        }
        var lost = StoreResult()
        store.carryOut(batch, into: &lost)
    }

    /// A session's queue: it is preceded by version, app, user, device, dialect and epoch.
    private static func queue(ofSessionRow row: [UInt8]) -> QueueID {
        var offset = 1
        for _ in 0..<3 { offset += 2 + Int(row[offset]) + Int(row[offset + 1]) << 8 }
        offset += 9
        let bytes = row[offset..<offset + 8]
        return QueueID(raw: bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) })
    }

    private func tamper(_ result: inout StoreResult) {
        if context.has(.forgottenShare) { forgetShares(&result) }
        for index in result.loads.indices where result.loads[index].entries.count > 1 {
            switch context.options.mutation {
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

    /// Gives entries of shares the next number, which no share has.
    private func forgetShares(_ result: inout StoreResult) {
        for load in result.loads.indices {
            for index in result.loads[load].entries.indices
            where result.loads[load].entries[index].state.share > 0 {
                result.loads[load].entries[index].state.share ^= 1
            }
        }
    }
}
