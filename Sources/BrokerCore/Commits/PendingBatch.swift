// The contents of one batch. The methods of `CommitPipeline` change them; all other code reads
// them.

import BrokerTerms
import Primitives

/// A stored delivery that is being prepared.
struct PendingEntry {
    var queue: QueueID
    var number: UInt64
    /// Index of the message in memory.
    let message: Index<Message>
    let byteCount: UInt32
    var state: EntryState
    /// Whether it is settled. An entry that is settled before the hand-over is not written.
    var isSettled = false
}

/// A number of entries and of bytes of a queue.
struct TrimAmount {
    var count: UInt64 = 0
    var byteCount: UInt64 = 0

    static func += (left: inout TrimAmount, right: TrimAmount) {
        left.count += right.count
        left.byteCount += right.byteCount
    }
}

/// The maximum that transfers may bring into a queue.
struct Arrivals {
    var amount = TrimAmount()
    /// The first of the numbers that are reserved for them.
    let firstNumber: UInt64

    init(firstNumber: UInt64) { self.firstNumber = firstNumber }
}

/// The part of a queue that the store has been asked to remove, without an answer so far.
struct PendingTrim {
    var amount = TrimAmount()
    /// The position of the request in the last batch that has one.
    var position = BatchPosition()
}

/// A withdrawal that is being prepared. The message gets its id with the hand-over.
struct PendingWithdrawal {
    var withdrawal: EntryWithdrawal
    let revision: Handle<Revision>
    /// The position of the receiver in the piece of the revision; nil for a conversation.
    let position: Int?
}

/// A new block of a stored body.
struct PendingReplacement {
    let message: StoredMessageID
    let block: [UInt8]
}

/// What recalls, replacements and collapses add to a batch. Most batches have none of it, and look
/// at one number only.
struct RevisingChanges {
    private(set) var withdrawals: [PendingWithdrawal] = []
    private(set) var replacements: [PendingReplacement] = []
    /// Recalls, replacements and collapses that continue when the batch is committed.
    private(set) var revisions: [Handle<Revision>] = []
    /// Withdrawals and replacements, which the store executes one by one.
    private(set) var changeCount = 0
    private(set) var isEmpty = true

    mutating func append(_ withdrawal: PendingWithdrawal) {
        withdrawals.append(withdrawal)
        (changeCount, isEmpty) = (changeCount + 1, false)
    }

    mutating func append(_ replacement: PendingReplacement) {
        replacements.append(replacement)
        (changeCount, isEmpty) = (changeCount + 1, false)
    }

    mutating func append(_ revision: Handle<Revision>) {
        revisions.append(revision)
        isEmpty = false
    }

    /// Sets the id of the message of a withdrawal.
    mutating func identify(withdrawal position: Int, as message: StoredMessageID) {
        withdrawals[position].withdrawal.message = message
    }

    mutating func removeAll() { self = RevisingChanges() }
}

/// An answer that a client gets as soon as the batch is committed, and never earlier.
enum Confirmation {
    case accept(ConnectionID)
    case respond(ConnectionID, requestIdentifier: UInt64, ReasonCode, body: [UInt8])
    case reportRecall(ConnectionID, requestIdentifier: UInt64, answer: [UInt8])
    case reportWakeTarget(ConnectionID, requestIdentifier: UInt64, target: UInt64)
    case answerFilters(
        ConnectionID, FilterAnswer.Request, requestIdentifier: UInt64, codes: [UInt8])
    case answerPacket(PacketAnswer)
    /// The connection has been detached from its session already.
    case disconnect(ConnectionID)
    /// The devices of a user are told what it has read.
    case announce(ReadMarkNews)
    /// The devices of a user that pull are told of new messages.
    case announceNews(ConversationTable.Reader, queue: QueueID)
}

/// The owner of a load.
enum LoadOwner {
    case connected(Handle<ConnectedSession>)
    case leftover(Handle<Leftover>)
    /// A session that ends when it is read what its client has.
    case ending(Handle<Session>)
    /// An operator's inspection, by its number.
    case inspection(UInt64)
}

/// The part of a batch that one user of it has added.
struct BatchShare {
    var changeCount = 0
    var movedCount: UInt64 = 0
    var memoryByteCount = 0
}

/// One batch, from its first change to its commit.
struct PendingBatch: ~Copyable {
    var sequence: UInt64 = 0
    /// Messages whose result depends on this batch; each is referenced once.
    var messages: ContiguousArray<Index<Message>> = []
    /// Bytes of their blocks.
    var messageByteCount = 0
    var entries: ContiguousArray<PendingEntry> = []
    /// Number of settled entries.
    var settledCount = 0
    var moves: [EntryMove] = []
    /// The size of each move in bytes.
    var moveByteCounts: [UInt32] = []
    var acknowledgements: [QueueAcknowledgement] = []
    var removals: [EntryRemoval] = []
    /// Queues from which the oldest entries must be removed. The hand-over sets the number at which
    /// they begin.
    var trims: [(queue: QueueID, amount: TrimAmount)] = []
    var states: [EntryStateChange] = []
    var transfers: [QueueTransfer] = []
    /// The maximum number of entries that transfers move and that acknowledgements of logins
    /// remove.
    var movedCount: UInt64 = 0
    /// Offline queues that are moved into a session's inbox.
    var inheritedQueues: [QueueID] = []
    /// Transfers of entries of shared subscriptions from the queues of ended sessions.
    var leftovers: [(transfer: Int, leftover: Handle<Leftover>)] = []
    /// Transfers into the queue of another session of the user, and that session.
    var successorTransfers: [(transfer: Int, successor: Handle<Session>)] = []
    /// The maximum that transfers bring, by destination, as far as the destination has not counted
    /// it. That many numbers are reserved.
    var arrivals: [UInt64: Arrivals] = [:]
    /// Sessions that began to receive the messages of their users, and how many messages of this
    /// batch came before.
    var newReceivers: [(session: Handle<Session>, messageCount: Int)] = []
    var revising = RevisingChanges()
    var deletedQueues: [QueueID] = []
    var records: [RecordChange] = []
    var loads: [LoadRequest] = []
    /// The maximum number of entries and bytes that the loads bring, as far as it is known.
    var loadCount = 0
    var loadByteCount = 0
    /// Deliveries without a number that wait for this batch.
    var lateDeliveries: [(message: Index<Message>, to: Subscriber, isRetained: Bool)] = []
    /// Repeats of sends whose rows are in this batch, by their numbers.
    var repeats: [(session: Handle<Session>, number: UInt64)] = []
    /// Entries of disconnected sessions that go to others once they are stored; each holds its
    /// message.
    var handovers: [(session: Handle<Session>, entry: WindowEntry)] = []
    /// Wills whose messages this batch stores, and whose rows it deletes.
    var firedWills: [Index<Will>] = []
    /// The owner of each load.
    var loadOwners: [LoadOwner] = []
    var confirmations: [Confirmation] = []
    /// Sessions with rows to write. Rows that no client waits for do not make a batch due.
    var dirtySessions: [Handle<Session>] = []
    /// Rows of other tables that no client waits for.
    var lazyRecords: [RecordChange] = []
    var isUrgent = false
    /// Whether an event waits for the next batch.
    var isAwaited = false
    /// Inbox numbers that may be used once this batch is committed.
    /// Pieces of sessions of another broker, with the positions before them.
    var imports: [(session: Handle<Session>, position: UInt64)] = []
    var reservations: [(session: Handle<Session>, through: UInt64)] = []
    /// Connected sessions with deliveries that wait for this batch.
    var waiting: [Handle<ConnectedSession>] = []
    var sweepMaximum = 0
    /// The part that deadlines have added.
    var deadlineShare = BatchShare()

    /// The contents of the batch as counts.
    var share: BatchShare {
        BatchShare(
            changeCount: changeCount, movedCount: movedCount, memoryByteCount: memoryByteCount)
    }

    /// Whether the batch must be committed.
    var isDue: Bool {
        isUrgent || !messages.isEmpty || !moves.isEmpty || !acknowledgements.isEmpty
            || !removals.isEmpty || !trims.isEmpty || !states.isEmpty || !transfers.isEmpty
            || !deletedQueues.isEmpty || !records.isEmpty || !loads.isEmpty
            || !confirmations.isEmpty || sweepMaximum > 0 || revising.changeCount > 0
    }

    /// Bytes of memory of clients' requests that wait for the commit.
    var memoryByteCount: Int {
        messageByteCount + entries.count * CoreLimits.uncommittedEntryBytes
    }

    /// The number of changes that the store executes one by one.
    var changeCount: Int {
        entries.count - settledCount + records.count + removals.count + acknowledgements.count
            + moves.count + states.count + revising.changeCount
    }

    /// Whether there are rows that no client waits for.
    var hasLazyRows: Bool { !dirtySessions.isEmpty || !lazyRecords.isEmpty }

    /// Empties the batch and keeps its memory.
    mutating func reset(sequence: UInt64) {
        self.sequence = sequence
        messages.removeAllKeepingCapacity()
        messageByteCount = 0
        entries.removeAllKeepingCapacity()
        settledCount = 0
        moves.removeAllKeepingCapacity()
        moveByteCounts.removeAllKeepingCapacity()
        acknowledgements.removeAllKeepingCapacity()
        removals.removeAllKeepingCapacity()
        trims.removeAllKeepingCapacity()
        states.removeAllKeepingCapacity()
        transfers.removeAllKeepingCapacity()
        movedCount = 0
        inheritedQueues.removeAllKeepingCapacity()
        leftovers.removeAllKeepingCapacity()
        successorTransfers.removeAllKeepingCapacity()
        if !arrivals.isEmpty { arrivals.removeAll() }
        newReceivers.removeAllKeepingCapacity()
        if !revising.isEmpty { revising.removeAll() }
        deletedQueues.removeAllKeepingCapacity()
        records.removeAllKeepingCapacity()
        loads.removeAllKeepingCapacity()
        loadCount = 0
        loadByteCount = 0
        lateDeliveries.removeAllKeepingCapacity()
        repeats.removeAllKeepingCapacity()
        handovers.removeAllKeepingCapacity()
        firedWills.removeAllKeepingCapacity()
        loadOwners.removeAllKeepingCapacity()
        confirmations.removeAllKeepingCapacity()
        dirtySessions.removeAllKeepingCapacity()
        lazyRecords.removeAllKeepingCapacity()
        isUrgent = false
        isAwaited = false
        reservations.removeAllKeepingCapacity()
        imports.removeAllKeepingCapacity()
        waiting.removeAllKeepingCapacity()
        sweepMaximum = 0
        deadlineShare = BatchShare()
    }
}
