// The batches. One batch is pending: the core adds to it and may still strike out entries. At most
// one batch is in flight: the writer commits it, and its result confirms what waits for it.
//
// The pipeline owns both batches, the requests whose answers wait for a commit, the connected
// sessions whose deliveries wait for one, the rows of ended sessions that are still to be deleted,
// and the identifiers of stored objects. The other parts read the batches, and change them by the
// methods of this file. Messages, sessions and wills are indices here.
//
// Invariants: the pending batch has the next sequence number; no other batch has the number of the
// in-flight batch; the count of settled entries is right; every load has an owner, and every move a
// size; a row that is longer than the one it replaces has a permit of `StoreRoom`.

import Primitives

/// The place of a change in the batch with a sequence number.
struct BatchPosition {
    fileprivate(set) var batch: UInt64 = 0
    @NarrowCount fileprivate(set) var index = 0
}

/// The batches, and what waits for them.
struct CommitPipeline: ~Copyable {
    private(set) var pendingBatch = PendingBatch()
    private(set) var inFlightBatch = PendingBatch()
    /// Whether a batch is in flight.
    private(set) var isCommitting = false
    /// Whether a full batch has been handed over, so that events that waited for it may continue.
    private var mayResume = false
    /// Requests whose answers wait for a commit.
    private(set) var openRequests: Set<RequestKey> = []
    /// Identifiers of QoS 2 of ended sessions, whose rows are still to be deleted.
    private var pendingDeletions: [(session: UInt64, identifiers: PacketIdentifiers)] = []
    /// Connected sessions whose deliveries waited for a commit that has ended, in order.
    private var waitingDeliveries = Ring<Handle<ConnectedSession>>()
    /// The room that the store has.
    var room = StoreRoom()
    /// The next identifiers.
    var identifiers = Identifiers()
    /// State of the restore; nil afterwards.
    private(set) var restoration: Restoration? = Restoration()

    init() {
        pendingBatch.sequence = 1
    }

    /// The sequence number of the pending batch.
    @inline(__always)
    var pendingSequence: UInt64 { pendingBatch.sequence }

    // MARK: - Restoration

    /// Stores the first reason for which the restore fails.
    mutating func fail(_ error: RestoreError) {
        if case .danglingRecord(let table, let key) = error, restoration?.isExamination == true {
            restoration?.examination.dangling.append((table, key))
            return
        }
        if restoration?.failure == nil { restoration?.failure = error }
    }

    /// The restore lists the records that a start would refuse, and does not fail at them.
    mutating func beginExamination() { restoration?.isExamination = true }

    /// Notes a queue that no row names.
    mutating func noteRestored(ownerless tally: QueueTally) {
        guard restoration?.isExamination == true else { return }
        restoration?.examination.ownerless.append(tally)
    }

    /// Stores the identity of the store when the rows were written.
    mutating func noteRestored(identity: StoreIdentity) { restoration?.identity = identity }

    /// Registers a session, to which other rows refer by its identifier.
    mutating func noteRestored(
        _ session: Index<Session>, identifier: UInt64, hasTimeToReturn: Bool
    ) {
        restoration?.sessions[identifier] = session
        if hasTimeToReturn { restoration?.returningSessions.insert(session) }
    }

    /// Registers a group, to which other rows refer by its identifier. After the restore this has
    /// no effect.
    mutating func noteRestored(_ group: Index<Group>, identifier: UInt64) {
        restoration?.groups[identifier] = group
    }

    /// Registers a user that was deleted, and that rows still name.
    mutating func noteRestored(deletedUser user: Index<User>, key: [UInt8]) {
        restoration?.deletedUsers[key] = user
    }

    /// Registers a row that belongs to nothing: that of a reader who is no party of a conversation,
    /// or of a member without its send.
    mutating func noteStray(_ table: RecordTable, key: [UInt8]) {
        restoration?.strays.append((table, key))
    }

    /// Ends the restore.
    mutating func endRestoration() { restoration = nil }

    // MARK: - Messages and entries

    /// Stores a message with the pending batch. The batch holds a reference to it.
    mutating func store(message: Index<Message>, byteCount: Int) {
        pendingBatch.messages.append(message)
        pendingBatch.messageByteCount += byteCount
    }

    /// Stores an entry of a queue. Returns its place in the pending batch.
    @inline(__always)
    mutating func store(_ entry: PendingEntry) -> UInt32 {
        pendingBatch.entries.append(entry)
        return UInt32(pendingBatch.entries.count - 1)
    }

    /// Strikes out an entry that its receiver does not need any more. Returns whether that keeps it
    /// from being written; an entry of the in-flight batch is written, and must be removed later.
    @inline(__always)
    mutating func strike(entry position: UInt32, of batch: UInt64) -> Bool {
        guard batch == pendingBatch.sequence else {
            inFlightBatch.entries[Int(position)].isSettled = true
            return false
        }
        pendingBatch.entries[Int(position)].isSettled = true
        pendingBatch.settledCount += 1
        return true
    }

    /// Gives an entry of the pending batch to another queue.
    mutating func readdress(
        entry position: UInt32, to queue: QueueID, number: UInt64, state: EntryState
    ) {
        pendingBatch.entries[Int(position)].queue = queue
        pendingBatch.entries[Int(position)].number = number
        pendingBatch.entries[Int(position)].state = state
    }

    /// Moves a stored entry to another queue.
    mutating func move(_ move: EntryMove, byteCount: UInt32) {
        pendingBatch.moves.append(move)
        pendingBatch.moveByteCounts.append(byteCount)
    }

    /// Changes the state of a stored entry.
    mutating func change(_ change: EntryStateChange) {
        pendingBatch.states.append(change)
    }

    /// Removes a stored entry.
    mutating func remove(_ number: UInt64, from queue: QueueID) {
        pendingBatch.removals.append(EntryRemoval(queue: queue, number: number))
    }

    /// Withdraws a stored entry of a message, after the transfers that were requested before.
    mutating func withdraw(_ new: PendingWithdrawal) {
        var new = new
        new.withdrawal.followsTransfers = pendingBatch.transfers.count
        pendingBatch.revising.append(new)
    }

    /// Whether the pending batch has room for the withdrawals of another piece.
    var takesWithdrawals: Bool {
        pendingBatch.revising.withdrawals.count < CoreLimits.withdrawalsPerBatchMaximum
    }

    /// Sets the id of the message of a withdrawal.
    mutating func identify(withdrawal position: Int, as message: StoredMessageID) {
        pendingBatch.revising.identify(withdrawal: position, as: message)
    }

    /// Gives a stored body another block.
    mutating func replace(
        _ message: StoredMessageID, block: [UInt8], _ permit: borrowing GrowthPermit
    ) {
        pendingBatch.revising.append(PendingReplacement(message: message, block: block))
    }

    /// Continues a recall, a replacement or a collapse when the pending batch is committed.
    mutating func continueAtCommit(_ revision: Handle<Revision>) {
        pendingBatch.revising.append(revision)
        pendingBatch.isUrgent = true
    }

    /// Removes the stored entries of a queue up to a number, with one change per batch however
    /// often the number grows.
    ///
    /// - Parameter place: where the last call for this queue put its change.
    mutating func acknowledge(
        _ queue: QueueID, through number: UInt64, at position: inout BatchPosition
    ) {
        if position.batch == pendingBatch.sequence {
            pendingBatch.acknowledgements[position.index].throughNumber = number
            return
        }
        position.batch = pendingBatch.sequence
        position.index = pendingBatch.acknowledgements.count
        pendingBatch.acknowledgements.append(
            QueueAcknowledgement(queue: queue, throughNumber: number))
    }

    /// Removes the stored entries of a queue up to a number. The result reports how many these are.
    ///
    /// - Parameter countMaximum: the number of entries that count towards the limit of moves and
    ///   removals of one batch.
    mutating func clear(_ queue: QueueID, through number: UInt64, countMaximum: UInt32 = 0) {
        pendingBatch.acknowledgements.append(
            QueueAcknowledgement(
                queue: queue, throughNumber: number, wantsTally: true,
                followsTransfers: pendingBatch.transfers.count))
        pendingBatch.movedCount += UInt64(countMaximum)
    }

    // MARK: - Queues

    /// Removes the oldest entries of a queue, with one change per batch.
    ///
    /// - Parameter place: where the last call for this queue put its change.
    mutating func trim(_ queue: QueueID, by amount: TrimAmount, at position: inout BatchPosition) {
        if position.batch == pendingBatch.sequence {
            pendingBatch.trims[position.index].amount += amount
        } else {
            position.batch = pendingBatch.sequence
            position.index = pendingBatch.trims.count
            pendingBatch.trims.append((queue, amount))
        }
    }

    /// Deletes a queue with all its entries.
    mutating func delete(_ queue: QueueID) {
        pendingBatch.deletedQueues.append(queue)
    }

    /// Moves the entries that an ended session had from shared subscriptions into a separate queue.
    mutating func transfer(_ transfer: QueueTransfer, to leftover: Handle<Leftover>) {
        pendingBatch.leftovers.append((pendingBatch.transfers.count, leftover))
        append(transfer)
    }

    /// Moves the messages of a user into the queue of another session of the user.
    mutating func transfer(
        _ transfer: QueueTransfer, to successor: Handle<Session>, arriving: TrimAmount
    ) {
        pendingBatch.successorTransfers.append((pendingBatch.transfers.count, successor))
        append(transfer)
        note(arriving, by: transfer)
    }

    /// Moves a user's offline queue into the queue of a session.
    ///
    /// - Parameter arriving: the entries that are being moved into the offline queue and are not
    ///   counted yet.
    mutating func inherit(_ transfer: QueueTransfer, arriving: TrimAmount) {
        append(transfer)
        if arriving.count > 0 { note(arriving, by: transfer) }
        pendingBatch.inheritedQueues.append(transfer.source)
    }

    private mutating func note(_ arriving: TrimAmount, by transfer: QueueTransfer) {
        // The lowest numbers belong to the first of several transfers into a queue.
        pendingBatch.arrivals[
            transfer.destination.raw, default: Arrivals(firstNumber: transfer.firstNumber)
        ].amount += arriving
    }

    private mutating func append(_ transfer: QueueTransfer) {
        pendingBatch.transfers.append(transfer)
        pendingBatch.movedCount += transfer.countMaximum
    }

    /// Limits what a session inherits in this batch to the messages before an id.
    mutating func narrowSuccessorTransfers(
        to session: Handle<Session>, before bound: StoredMessageID
    ) {
        for (index, successor) in pendingBatch.successorTransfers
        where successor == session
            && pendingBatch.transfers[index].scope
                == .userMessages(before: StoredMessageID(raw: .max))
        {
            pendingBatch.transfers[index].scope = .userMessages(before: bound)
        }
    }

    /// What transfers may bring into a queue and it has not counted. Each transfer has noted its
    /// maximum when it was requested, so that no later limit changes it.
    func expectedArrivals(in queue: QueueID) -> TrimAmount {
        var expected = pendingBatch.arrivals[queue.raw]?.amount ?? TrimAmount()
        if isCommitting { expected += inFlightBatch.arrivals[queue.raw]?.amount ?? TrimAmount() }
        return expected
    }

    /// The first number that a queue reserves for transfers; nil if there are none. No client has
    /// been sent it or a higher one.
    func firstArrival(in queue: QueueID) -> UInt64? {
        inFlightBatch.arrivals[queue.raw]?.firstNumber
            ?? pendingBatch.arrivals[queue.raw]?.firstNumber
    }

    /// Whether the store may bring entries into a queue by a transfer.
    @inline(__always)
    func awaitsArrivals(in queue: QueueID) -> Bool {
        if pendingBatch.arrivals.isEmpty && inFlightBatch.arrivals.isEmpty { return false }
        return pendingBatch.arrivals[queue.raw] != nil || inFlightBatch.arrivals[queue.raw] != nil
    }

    /// Removes expired entries, at most so many.
    mutating func sweep(countMaximum: Int) {
        pendingBatch.sweepMaximum = countMaximum
    }

    // MARK: - Loads

    /// Whether the pending batch has room for another load.
    var takesLoads: Bool {
        pendingBatch.loadCount < CoreLimits.loadsCountMaximum
            && pendingBatch.loadByteCount < CoreLimits.loadsBytesMaximum
    }

    /// Whether the pending batch has room for what a client reads of history. Queues come first:
    /// three quarters of the loads are theirs.
    var takesHistory: Bool {
        pendingBatch.loadCount < CoreLimits.loadsCountMaximum / 4
            && pendingBatch.loadByteCount < CoreLimits.loadsBytesMaximum / 4
    }

    /// Loads entries of a queue. `count` and `byteCount` are the expected maximum.
    mutating func load(
        _ request: LoadRequest, for owner: LoadOwner, expecting count: Int, byteCount: Int
    ) {
        pendingBatch.loads.append(request)
        pendingBatch.loadOwners.append(owner)
        pendingBatch.loadCount += count
        pendingBatch.loadByteCount += byteCount
    }

    // MARK: - Rows

    /// Writes a row that is new, or longer than it was.
    mutating func put(_ row: RecordChange, _ permit: borrowing GrowthPermit) {
        pendingBatch.records.append(row)
    }

    /// Writes a row again that is in the store and whose length changes by a few bytes at most; or
    /// a short one of which every session or queue has at most one.
    mutating func renew(_ row: RecordChange) {
        pendingBatch.records.append(row)
    }

    /// Writes a row again with the next batch that has another reason.
    mutating func renewLazily(_ row: RecordChange) {
        pendingBatch.lazyRecords.append(row)
    }

    /// Discards rows that wait for a batch with another reason: those that replace them are written
    /// before.
    mutating func discardLazy(_ table: RecordTable, keys: Set<[UInt8]>) {
        pendingBatch.lazyRecords.removeAll { $0.table == table && keys.contains($0.key) }
    }

    /// Deletes rows that may wait for a batch with another reason: they are not written after their
    /// deletion.
    mutating func remove(_ table: RecordTable, renewable keys: Set<[UInt8]>) {
        discardLazy(table, keys: keys)
        for key in keys { remove(table, key: key) }
    }

    /// Writes a row that the store leaves out, with the sends, if it has no room for them.
    mutating func putWithSends(_ row: RecordChange) {
        pendingBatch.records.append(row.asPart(.send))
    }

    /// The same for a row that is new.
    mutating func putWithSends(_ row: RecordChange, _ permit: borrowing GrowthPermit) {
        putWithSends(row)
    }

    /// Deletes a row.
    mutating func remove(_ table: RecordTable, key: [UInt8]) {
        pendingBatch.records.append(Records.deletion(table, key: key))
    }

    /// Notes a session whose rows the batch writes when it is handed over.
    mutating func note(dirty session: Handle<Session>) {
        pendingBatch.dirtySessions.append(session)
    }

    /// Deletes the rows of an ended session's QoS 2 publications, with this and later batches.
    mutating func deleteSends(of session: UInt64, _ identifiers: PacketIdentifiers) {
        pendingDeletions.append((session, identifiers))
        pendingBatch.isUrgent = true
    }

    /// Adds as many of these deletions to the pending batch as it has room for.
    private mutating func executePendingDeletions() {
        var room = CoreLimits.pendingDeletionsMaximum
        while room > 0, let last = pendingDeletions.indices.last {
            let session = pendingDeletions[last].session
            let identifiers = pendingDeletions[last].identifiers.removeLastPage()
            if pendingDeletions[last].identifiers.count == 0 { pendingDeletions.removeLast() }
            for identifier in identifiers {
                remove(.outboxes, key: RecordKey.packet(session, identifier))
            }
            room -= identifiers.count
        }
    }

    /// Counts what a deadline has added to the pending batch. Acknowledgements may have taken
    /// something out meanwhile.
    mutating func chargeDeadline(since before: BatchShare) {
        let now = pendingBatch.share
        pendingBatch.deadlineShare.changeCount += max(now.changeCount - before.changeCount, 0)
        pendingBatch.deadlineShare.movedCount +=
            now.movedCount - min(before.movedCount, now.movedCount)
        pendingBatch.deadlineShare.memoryByteCount += max(
            now.memoryByteCount - before.memoryByteCount, 0)
    }

    // MARK: - Confirmations

    /// Confirms something to a client when the pending batch is committed.
    mutating func confirm(_ confirmation: Confirmation) {
        pendingBatch.confirmations.append(confirmation)
    }

    /// Confirms something when a batch is committed. Returns false if it is committed already.
    mutating func confirm(_ confirmation: Confirmation, after batch: UInt64) -> Bool {
        if batch == pendingBatch.sequence {
            pendingBatch.confirmations.append(confirmation)
            pendingBatch.isUrgent = true
        } else if isCommitting && batch == inFlightBatch.sequence {
            inFlightBatch.confirmations.append(confirmation)
        } else {
            return false
        }
        return true
    }

    /// Answers a request when the pending batch is committed.
    mutating func answer(_ request: RequestKey, _ confirmation: Confirmation) {
        openRequests.insert(request)
        pendingBatch.confirmations.append(confirmation)
    }

    /// Notes a request that is answered later, and not with the commit of a change.
    mutating func open(_ request: RequestKey) { openRequests.insert(request) }

    /// Closes a request that has been answered.
    mutating func close(_ request: RequestKey) {
        openRequests.remove(request)
    }

    /// Whether a request waits for its answer.
    @inline(__always)
    func isOpen(_ request: @autoclosure () -> RequestKey) -> Bool {
        !openRequests.isEmpty && openRequests.contains(request())
    }

    /// Delivers to a connected session when a batch that is not committed is.
    mutating func deliver(to connected: Handle<ConnectedSession>, after batch: UInt64) {
        if batch == pendingBatch.sequence {
            pendingBatch.waiting.append(connected)
        } else {
            inFlightBatch.waiting.append(connected)
        }
    }

    /// Delivers to a connected session with the result of the in-flight batch.
    mutating func deliverWithResult(to connected: Handle<ConnectedSession>) {
        inFlightBatch.waiting.append(connected)
    }

    /// Delivers a message without a number when the pending batch is committed.
    mutating func deliver(_ message: Index<Message>, to subscriber: Subscriber, isRetained: Bool) {
        pendingBatch.lateDeliveries.append((message, subscriber, isRetained))
    }

    /// Allows an inbox to use its numbers up to `number` when the pending batch is committed.
    mutating func reserve(through number: UInt64, for session: Handle<Session>) {
        pendingBatch.reservations.append((session, through: number))
    }

    /// Notes that a session receives the messages of its user, beginning with the next one.
    mutating func note(receiver session: Handle<Session>) {
        pendingBatch.newReceivers.append((session, pendingBatch.messages.count))
    }

    /// Notes a repeat of a send whose row is in the pending batch.
    mutating func note(repeat number: UInt64, of session: Handle<Session>) {
        pendingBatch.repeats.append((session, number))
    }

    /// Gives an entry of a disconnected session to another when the in-flight batch is committed.
    /// The batch holds a reference to its message.
    mutating func handOver(_ entry: WindowEntry, of session: Handle<Session>) {
        inFlightBatch.handovers.append((session: session, entry: entry))
    }

    /// Deletes the row of a will in the same batch as its message is added.
    mutating func fire(_ will: Index<Will>, key: [UInt8]) {
        pendingBatch.firedWills.append(will)
        pendingBatch.isUrgent = true
        putWithSends(Records.deletion(.wills, key: key))
    }

    /// Notes a piece of a session's import, whose messages are in the pending batch.
    mutating func noteImport(into session: Handle<Session>, from position: UInt64) {
        pendingBatch.imports.append((session, position))
    }

    /// Makes the pending batch due, also if it contains only rows that no client waits for.
    mutating func commitSoon() {
        pendingBatch.isUrgent = true
    }

    // MARK: - The next batch

    /// Notes that an event waits for the batch after the pending one.
    mutating func awaitNextBatch() {
        pendingBatch.isAwaited = true
    }

    /// Whether a batch that an event waited for has been handed over since the last call.
    mutating func takeResumption() -> Bool {
        defer { mayResume = false }
        return mayResume
    }

    /// Makes the pending batch the in-flight one, together with the rows that waited for a batch.
    mutating func handOver() {
        precondition(!isCommitting, "batch \(inFlightBatch.sequence) is in flight")
        if pendingBatch.isAwaited { mayResume = true }
        if !pendingDeletions.isEmpty { executePendingDeletions() }
        if !pendingBatch.lazyRecords.isEmpty {
            pendingBatch.records.append(contentsOf: pendingBatch.lazyRecords)
        }
        swap(&pendingBatch, &inFlightBatch)
        isCommitting = true
        room.handOver()
        // `finishResult()` has emptied the batch that is pending now.
        precondition(
            pendingBatch.sequence == 0, "batch \(pendingBatch.sequence) is pending and not emptied")
        pendingBatch.sequence = inFlightBatch.sequence + 1
        if !pendingDeletions.isEmpty { pendingBatch.isUrgent = true }
    }

    /// Writes those changes of the in-flight batch that need no look at messages or sessions.
    mutating func write(to batch: inout StoreBatch) {
        // These are not read again here: the arrays are swapped together with their memory.
        if !inFlightBatch.moves.isEmpty { batch.moves = inFlightBatch.moves }
        swap(&batch.acknowledgements, &inFlightBatch.acknowledgements)
        swap(&batch.removals, &inFlightBatch.removals)
        swap(&batch.states, &inFlightBatch.states)
        if !inFlightBatch.transfers.isEmpty { batch.transfers = inFlightBatch.transfers }
        if inFlightBatch.revising.changeCount > 0 { writeRevising(to: &batch) }
        swap(&batch.deletedQueues, &inFlightBatch.deletedQueues)
        swap(&batch.records, &inFlightBatch.records)
        swap(&batch.loads, &inFlightBatch.loads)
        batch.sweepMaximum = inFlightBatch.sweepMaximum
    }

    @inline(never)
    private func writeRevising(to batch: inout StoreBatch) {
        batch.withdrawals = inFlightBatch.revising.withdrawals.map(\.withdrawal)
        for replacement in inFlightBatch.revising.replacements {
            let range = ByteRange(offset: batch.blocks.count, count: replacement.block.count)
            batch.blocks.append(contentsOf: replacement.block)
            batch.replacements.append(
                BodyReplacement(message: replacement.message, block: range))
        }
    }

    /// Takes the result of the in-flight batch. Its contents remain until ``finishResult()``.
    mutating func take(_ result: borrowing StoreResult) {
        precondition(isCommitting, "a result for batch \(result.sequence), and none is in flight")
        precondition(
            result.sequence == inFlightBatch.sequence,
            "a result for batch \(result.sequence), and \(inFlightBatch.sequence) is in flight")
        isCommitting = false
        room.take(result)
        if result.isUnfinished { pendingBatch.isUrgent = true }
    }

    /// Allows the deliveries that waited for the in-flight batch.
    mutating func releaseDeliveries() {
        for connected in inFlightBatch.waiting { waitingDeliveries.append(connected) }
    }

    /// Empties the in-flight batch after everything that waited for it has been handled.
    mutating func finishResult() {
        inFlightBatch.reset(sequence: 0)
    }

    // MARK: - Deliveries

    /// Whether deliveries that waited for a commit are still to be made.
    var hasWaitingDeliveries: Bool { !waitingDeliveries.isEmpty }

    /// Removes and returns the next connected session to deliver to.
    mutating func nextDelivery() -> Handle<ConnectedSession> { waitingDeliveries.removeFirst() }
}
