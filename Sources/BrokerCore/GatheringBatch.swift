// What has to become durable, while it can still change: entries that are acknowledged before the
// batch is handed to the store are struck out and never written.

import Primitives

/// One stored delivery in the making.
struct PendingEntry {
    let queue: QueueID
    let number: UInt64
    /// Index of the message in memory.
    let message: UInt32
    let byteCount: UInt32
    let state: EntryState
    /// Acknowledged before it was written.
    var isElided = false
}

/// Something a client is told as soon as the batch is committed; state is never confirmed earlier.
enum Confirmation {
    case accept(ConnectionID)
    /// The client's good-bye, when its will is gone.
    case disconnect(ConnectionID)
    case respond(ConnectionID, requestIdentifier: UInt64, ReasonCode, body: [UInt8])
}

/// One batch, from its first change to its commit.
struct GatheringBatch: ~Copyable {
    var sequence: UInt64 = 0
    /// Messages whose fate is decided with this batch; each is referenced once.
    var messages: ContiguousArray<UInt32> = []
    var entries: ContiguousArray<PendingEntry> = []
    var acknowledgements: [QueueAcknowledgement] = []
    var removals: [EntryRemoval] = []
    var states: [EntryStateChange] = []
    var transfers: [QueueTransfer] = []
    var deletedQueues: [QueueID] = []
    var records: [RecordChange] = []
    /// Rows that say a send was accepted; left out together with the message.
    var sendRecords: [RecordChange] = []
    var loads: [LoadRequest] = []
    /// For whom each load is, and for which attachment of that session.
    var loadOwners: [(session: Handle, attachment: UInt32)] = []
    var confirmations: [Confirmation] = []
    /// Sessions with rows to write. Rows that nobody waits for ride along with a batch, and are no
    /// reason for one.
    var dirtySessions: [Handle] = []
    var isUrgent = false
    /// Inbox numbers that may be used once this batch is committed.
    var reservations: [(session: Handle, through: UInt64)] = []
    /// Sessions with deliveries that wait for this batch.
    var waitingSessions: [Handle] = []
    /// Rows that are worth no commit of their own: they ride along with the next one.
    var lazyRecords: [RecordChange] = []
    var sweepMaximum = 0

    /// Whether there is a reason to commit.
    var isDue: Bool {
        isUrgent || !messages.isEmpty || !acknowledgements.isEmpty || !removals.isEmpty
            || !states.isEmpty || !transfers.isEmpty || !deletedQueues.isEmpty || !records.isEmpty
            || !loads.isEmpty || !confirmations.isEmpty || sweepMaximum > 0
    }

    /// Empties the batch and keeps its memory.
    mutating func reset(sequence: UInt64) {
        self.sequence = sequence
        messages.removeAll(keepingCapacity: true)
        entries.removeAll(keepingCapacity: true)
        acknowledgements.removeAll(keepingCapacity: true)
        removals.removeAll(keepingCapacity: true)
        states.removeAll(keepingCapacity: true)
        transfers.removeAll(keepingCapacity: true)
        deletedQueues.removeAll(keepingCapacity: true)
        records.removeAll(keepingCapacity: true)
        sendRecords.removeAll(keepingCapacity: true)
        loads.removeAll(keepingCapacity: true)
        loadOwners.removeAll(keepingCapacity: true)
        confirmations.removeAll(keepingCapacity: true)
        dirtySessions.removeAll(keepingCapacity: true)
        lazyRecords.removeAll(keepingCapacity: true)
        isUrgent = false
        reservations.removeAll(keepingCapacity: true)
        waitingSessions.removeAll(keepingCapacity: true)
        sweepMaximum = 0
    }
}
