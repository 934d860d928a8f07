// The contents of one batch. Only the verbs of `CommitPipeline` change them; all other code has a
// batch to read.

import BrokerTerms
import Primitives

/// One stored delivery in the making.
struct PendingEntry {
    var queue: QueueID
    var number: UInt64
    /// Index of the message in memory.
    let message: Index<Message>
    let byteCount: UInt32
    var state: EntryState
    /// Its receiver is done with it: before the batch is handed over it is not even written.
    var isSettled = false
}

/// How much of a queue has to go.
struct TrimAmount {
    var count: UInt64 = 0
    var byteCount: UInt64 = 0

    static func += (left: inout TrimAmount, right: TrimAmount) {
        left.count += right.count
        left.byteCount += right.byteCount
    }
}

/// What transfers may bring into a queue.
struct Arrivals {
    var amount = TrimAmount()
    /// The first of the numbers that are kept for them.
    let firstNumber: UInt64

    init(firstNumber: UInt64) { self.firstNumber = firstNumber }
}

/// How much of a queue the store has been asked to remove, without an answer so far.
struct PendingTrim {
    var amount = TrimAmount()
    /// Where the batch that was asked last has it.
    var place = BatchPlace()
}

/// An answer that a client gets as soon as the batch is committed, and never earlier.
enum Confirmation {
    case accept(ConnectionID)
    case respond(ConnectionID, requestIdentifier: UInt64, ReasonCode, body: [UInt8])
    case answerFilters(
        ConnectionID, FilterAnswer.Request, requestIdentifier: UInt64, codes: [UInt8])
    case answerPacket(PacketAnswer)
    /// The connection's session has let go of it already.
    case disconnect(ConnectionID)
}

/// The owner of a load.
enum LoadOwner {
    case connected(Handle<ConnectedSession>)
    case leftover(Handle<Leftover>)
}

/// How much of a batch somebody has used.
struct BatchShare {
    var changeCount = 0
    var movedCount: UInt64 = 0
    var memoryByteCount = 0
}

/// One batch, from its first change to its commit.
struct PendingBatch: ~Copyable {
    var sequence: UInt64 = 0
    /// Messages whose fate is decided with this batch; each is referenced once.
    var messages: ContiguousArray<Index<Message>> = []
    /// Bytes of their blocks.
    var messageByteCount = 0
    var entries: ContiguousArray<PendingEntry> = []
    /// How many of them are settled.
    var settledCount = 0
    var moves: [EntryMove] = []
    /// The size of what each of them moves.
    var moveByteCounts: [UInt32] = []
    var acknowledgements: [QueueAcknowledgement] = []
    var removals: [EntryRemoval] = []
    /// Queues that must lose their oldest entries; where they begin is known at the hand-over.
    var trims: [(queue: QueueID, amount: TrimAmount)] = []
    var states: [EntryStateChange] = []
    var transfers: [QueueTransfer] = []
    /// Entries that transfers move, and that acknowledgements remove which a client made at its
    /// login, at most.
    var movedCount: UInt64 = 0
    /// Offline queues that are moved into a session's inbox.
    var inheritedQueues: [QueueID] = []
    /// Transfers of entries of shared subscriptions from the queues of ended sessions.
    var leftovers: [(transfer: Int, leftover: Handle<Leftover>)] = []
    /// Transfers into the queue of another session of the user, and that session.
    var bequests: [(transfer: Int, heir: Handle<Session>)] = []
    /// What transfers bring at most, by the queue they bring it into, as far as that queue has not
    /// counted it. Numbers are kept for as many.
    var arrivals: [UInt64: Arrivals] = [:]
    /// Sessions that began to receive the messages of their users, and how many messages of this
    /// batch came before.
    var listeners: [(session: Handle<Session>, messageCount: Int)] = []
    var deletedQueues: [QueueID] = []
    var records: [RecordChange] = []
    var loads: [LoadRequest] = []
    /// Entries and bytes that the loads bring, at most and as far as that is known.
    var loadCount = 0
    var loadByteCount = 0
    /// Deliveries without a number that wait for this batch.
    var lateDeliveries: [(message: Index<Message>, to: Subscriber, isRetained: Bool)] = []
    /// Repeats of sends whose rows are in this batch, by their numbers.
    var repeats: [(session: Handle<Session>, number: UInt64)] = []
    /// Entries of sessions that left, which go to others once they are in the store; each holds its
    /// message.
    var handovers: [(session: Handle<Session>, entry: WindowEntry)] = []
    /// Wills whose message is stored, and whose row goes, with this batch.
    var firedWills: [Index<Will>] = []
    /// The owner of each load.
    var loadOwners: [LoadOwner] = []
    var confirmations: [Confirmation] = []
    /// Sessions with rows to write. Rows that no client waits for are written with the next batch,
    /// and are no reason for one.
    var dirtySessions: [Handle<Session>] = []
    /// Rows of other tables that no client waits for.
    var lazyRecords: [RecordChange] = []
    var isUrgent = false
    /// Whether something waits for the next batch.
    var isAwaited = false
    /// Inbox numbers that may be used once this batch is committed.
    var reservations: [(session: Handle<Session>, through: UInt64)] = []
    /// Connected sessions with deliveries that wait for this batch.
    var waiting: [Handle<ConnectedSession>] = []
    var sweepMaximum = 0
    /// What deadlines have added.
    var deadlineShare = BatchShare()

    /// All that the batch contains.
    var share: BatchShare {
        BatchShare(
            changeCount: changeCount, movedCount: movedCount, memoryByteCount: memoryByteCount)
    }

    /// Whether there is a reason to commit.
    var isDue: Bool {
        isUrgent || !messages.isEmpty || !moves.isEmpty || !acknowledgements.isEmpty
            || !removals.isEmpty || !trims.isEmpty || !states.isEmpty || !transfers.isEmpty
            || !deletedQueues.isEmpty || !records.isEmpty || !loads.isEmpty
            || !confirmations.isEmpty || sweepMaximum > 0
    }

    /// Memory of what has to be committed and was sent by clients.
    var memoryByteCount: Int {
        messageByteCount + entries.count * CoreLimits.uncommittedEntryBytes
    }

    /// Changes that the store carries out one by one.
    var changeCount: Int {
        entries.count - settledCount + records.count + removals.count + acknowledgements.count
            + moves.count + states.count
    }

    /// Whether there are rows to ride along.
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
        bequests.removeAllKeepingCapacity()
        if !arrivals.isEmpty { arrivals.removeAll() }
        listeners.removeAllKeepingCapacity()
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
        waiting.removeAllKeepingCapacity()
        sweepMaximum = 0
        deadlineShare = BatchShare()
    }
}
