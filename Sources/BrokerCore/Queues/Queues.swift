// The queues that the store mirrors: their owners, the offline queues of users without a session,
// the leftovers of ended sessions, and the sum of their entries. The entries of a connected session
// that are in memory belong to its window (ConnectedSession); the store contains the rest. The
// inbox of a session is a field of the session.
//
// It knows sessions by their index and the queue of their inbox, users and apps by their index, and
// no message. It requests nothing from the store: `CommitPipeline` does.
//
// Invariants: a queue has at most one owner; `queuedCount` and `queuedByteCount` are the sums of
// those of all queues; a leftover is in the list of its user; a trim is pending until the store has
// answered it.

import Primitives

/// The stored queues and their owners.
struct Queues: ~Copyable {
    /// Sessions by their queues.
    private(set) var sessionQueues = IndexTable<Session>()
    /// The owners of queues that belong to no session.
    private(set) var queueOwners: [UInt64: QueueOwner] = [:]
    /// The offline queues of users without a persistent session.
    private(set) var offlineQueues = Slab<Inbox>()
    /// The last number of an offline queue that devices may have been sent while it was the inbox
    /// of a session, where there is one.
    private(set) var sentThrough: [UInt64: UInt64] = [:]
    /// Entries of shared subscriptions whose sessions have ended.
    private(set) var leftovers = Slab<Leftover>()
    /// The same by the user of the session.
    private(set) var leftoversOfUsers: [Index<User>?: [Index<Leftover>]] = [:]
    /// Entries in all queues.
    private(set) var queuedCount: UInt64 = 0
    /// Bytes of these entries.
    private(set) var queuedByteCount: UInt64 = 0
    /// Trims that the policy `oldest` has requested and the store has not confirmed, by queue.
    private(set) var pendingTrims: [UInt64: PendingTrim] = [:]
    /// Connected sessions and leftovers that wait for more entries of their queues, in order.
    private var waitingLoads = Ring<LoadOwner>()
    /// Whether the queues of some app exceed its limit.
    private(set) var hasAppsOverQuota = false
    /// Limits the log lines about refused receivers.
    private var receiverNotes = LogAllowance()

    // MARK: - Owners

    /// The owner of a queue; nil if its deletion is under way.
    func owner(of queue: QueueID, among sessions: borrowing Slab<Session>) -> QueueOwner? {
        let session = sessionQueues.find(sessionQueues.hash(queue.raw)) {
            sessions[$0].inbox.queue == queue
        }
        return session.map { .session($0) } ?? queueOwners[queue.raw]
    }

    /// Gives a queue to a session.
    mutating func give(_ queue: QueueID, to session: Index<Session>) {
        sessionQueues.insert(session, hash: sessionQueues.hash(queue.raw))
    }

    /// Takes a queue from the session that has it.
    mutating func take(_ queue: QueueID, from session: Index<Session>) {
        sessionQueues.remove(session, hash: sessionQueues.hash(queue.raw))
    }

    /// Gives a queue to a conversation.
    mutating func give(_ queue: QueueID, to conversation: Index<KeptConversation>) {
        queueOwners[queue.raw] = .conversation(conversation)
    }

    /// Takes a queue from the conversation that has it.
    mutating func takeFromConversation(_ queue: QueueID) {
        queueOwners[queue.raw] = nil
    }

    /// Notes that a queue is moved into another.
    mutating func pass(_ queue: QueueID, into destination: QueueID) {
        queueOwners[queue.raw] = .inherited(into: destination)
    }

    /// Notes that the queue has been moved.
    mutating func endPassing(_ queue: QueueID) {
        queueOwners[queue.raw] = nil
    }

    // MARK: - Counts

    /// Adds to the sum entries that the queues themselves have counted.
    @inline(__always)
    mutating func countIn(_ count: UInt64, byteCount: UInt64) {
        queuedCount += count
        queuedByteCount += byteCount
    }

    /// Subtracts from the sum entries that the queues themselves have subtracted.
    @inline(__always)
    mutating func countOut(_ count: UInt64, byteCount: UInt64) {
        queuedCount -= count
        queuedByteCount -= byteCount
    }

    /// Notes whether the queues of some app exceed its limit.
    mutating func note(hasAppsOverQuota isAbove: Bool) {
        hasAppsOverQuota = isAbove
    }

    /// Whether one more refused receiver is logged.
    mutating func takesReceiverNote(at moment: Moment) -> Bool { receiverNotes.takes(at: moment) }

    // MARK: - Offline queues

    /// Makes an inbox the offline queue of a user that has none. Its entries are counted already.
    mutating func insert(offlineQueue inbox: Inbox, of user: Index<User>) -> Index<Inbox> {
        queueOwners[inbox.queue.raw] = .offlineQueue(user: user)
        return offlineQueues.insert(inbox).index
    }

    /// Notes the last number of the former inbox of a session that its devices may have been sent.
    mutating func note(sentThrough number: UInt64, in inbox: Inbox) {
        guard number > inbox.acknowledgedThrough else { return }
        sentThrough[inbox.queue.raw] = number
    }

    /// Removes an offline queue. Its entries stay counted.
    mutating func remove(offlineQueue: Index<Inbox>) -> Inbox {
        queueOwners[offlineQueues[offlineQueue].queue.raw] = nil
        sentThrough[offlineQueues[offlineQueue].queue.raw] = nil
        return offlineQueues.remove(offlineQueue)
    }

    /// Counts a new message and returns its number.
    mutating func add(toOfflineQueue index: Index<Inbox>, byteCount: UInt32) -> UInt64 {
        countIn(1, byteCount: UInt64(byteCount))
        return offlineQueues[index].add(byteCount: byteCount)
    }

    /// Adds entries that a transfer has brought into an offline queue, with their numbers.
    mutating func countIn(_ tally: QueueTally, toOfflineQueue index: Index<Inbox>) {
        offlineQueues[index].countIn(tally)
        countIn(tally.count, byteCount: tally.byteCount)
    }

    /// Subtracts entries that have left an offline queue.
    mutating func countOut(offlineQueue: Index<Inbox>, count: UInt64, byteCount: UInt64) {
        let subtracted = offlineQueues[offlineQueue].subtract(count: count, byteCount: byteCount)
        countOut(count, byteCount: subtracted)
    }

    /// Counts messages that a full offline queue has refused or dropped.
    mutating func noteOverflow(_ count: UInt32, ofOfflineQueue index: Index<Inbox>) {
        offlineQueues[index].overflowCount += count
    }

    /// Acknowledges all messages of an offline queue.
    mutating func acknowledgeAll(ofOfflineQueue index: Index<Inbox>) {
        offlineQueues[index].acknowledgedThrough = offlineQueues[index].nextNumber - 1
    }

    /// Sets the counts of an offline queue to those of the store.
    mutating func restore(_ outline: QueueOutline, ofOfflineQueue index: Index<Inbox>) {
        offlineQueues[index].restore(outline.tally, lastNumber: outline.lastNumber)
        countIn(outline.tally.count, byteCount: outline.tally.byteCount)
    }

    // MARK: - Leftovers

    /// Adds a leftover, which is empty until the store has answered.
    mutating func insert(_ new: Leftover) -> Index<Leftover> {
        let index = leftovers.insert(new).index
        queueOwners[new.queue.raw] = .leftover(index)
        leftoversOfUsers[new.user, default: []].append(index)
        return index
    }

    /// Removes a leftover that is empty, and returns its queue.
    mutating func remove(_ index: Index<Leftover>) -> QueueID {
        let leftover = leftovers.remove(index)
        leftoversOfUsers[leftover.user]!.removeAll { $0 == index }
        if leftoversOfUsers[leftover.user]!.isEmpty { leftoversOfUsers[leftover.user] = nil }
        queueOwners[leftover.queue.raw] = nil
        return leftover.queue
    }

    /// The entries in a user's leftovers, and those that are being moved into them.
    func amount(inLeftoversOf user: Index<User>) -> TrimAmount {
        var sum = TrimAmount()
        for index in leftoversOfUsers[user] ?? [] {
            sum += leftovers[index].expected
            sum += TrimAmount(
                count: leftovers[index].count, byteCount: leftovers[index].byteCount)
        }
        return sum
    }

    /// Sets the counts of a leftover to those of the store.
    mutating func restore(_ tally: QueueTally, of index: Index<Leftover>) {
        leftovers[index].restore(tally)
        countIn(tally.count, byteCount: tally.byteCount)
    }

    /// Subtracts entries that have left a leftover.
    mutating func countOut(leftover: Index<Leftover>, count: UInt64, byteCount: UInt64) {
        let before = leftovers[leftover].byteCount
        leftovers[leftover].subtract(count: count, byteCount: byteCount)
        countOut(count, byteCount: before - leftovers[leftover].byteCount)
    }

    /// Continues the round over a leftover after an entry.
    mutating func noteLooked(through number: UInt64, at index: Index<Leftover>) {
        leftovers[index].lookedThrough = number
    }

    /// Ends the round over a leftover.
    mutating func endWalk(over index: Index<Leftover>) {
        leftovers[index].endWalk()
    }

    /// Whether this round of housekeeping examines a leftover.
    mutating func isDue(_ index: Index<Leftover>) -> Bool { leftovers[index].isDue() }

    // MARK: - Loads

    var hasWaitingLoads: Bool { !waitingLoads.isEmpty }

    /// Adds a waiting load for the window of a connected session.
    mutating func awaitLoad(into connected: Handle<ConnectedSession>) {
        waitingLoads.append(.connected(connected))
    }

    /// Adds a waiting load for the next entries of a leftover.
    mutating func awaitLoad(of leftover: Index<Leftover>) {
        leftovers[leftover].isUnderWay = true
        waitingLoads.append(.leftover(leftovers.handle(leftover)))
    }

    /// Adds a session that ends to those that wait.
    mutating func awaitLoad(ofEnding session: Handle<Session>) {
        waitingLoads.append(.ending(session))
    }

    /// Removes and returns the next waiting load.
    mutating func nextLoad() -> LoadOwner { waitingLoads.removeFirst() }

    // MARK: - Trims

    /// The entries of a queue that the store has been asked to remove.
    func pendingTrim(of queue: QueueID) -> PendingTrim {
        pendingTrims[queue.raw] ?? PendingTrim()
    }

    mutating func note(_ trim: PendingTrim, of queue: QueueID) {
        pendingTrims[queue.raw] = trim
    }

    /// Subtracts a trim that the store has answered.
    mutating func endTrim(of queue: QueueID, _ amount: TrimAmount) {
        guard var pending = pendingTrims[queue.raw] else {
            preconditionFailure("queue \(queue.raw) has no trim to answer")
        }
        pending.amount.count -= amount.count
        pending.amount.byteCount -= amount.byteCount
        let isOver = pending.amount.count == 0 && pending.amount.byteCount == 0
        pendingTrims[queue.raw] = isOver ? nil : pending
    }
}
