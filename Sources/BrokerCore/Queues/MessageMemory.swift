// Messages in memory. Each exists once, whatever the number of windows that refer to it, and is
// released with its last reference.
//
// It owns the messages, their blocks, and the numbers of their unsettled receivers. It knows
// sessions and batches only as numbers in the message. `Broker` sends the results.
//
// Invariants: a message lives as long as it has references; it is in at most one batch, and shared
// with loads only after the commit of that batch; the bytes of sessions that are not persistent
// include each message once; each receiver of a message acknowledges it, is refused, or ends.

import Primitives

/// The messages in memory and their blocks.
struct MessageMemory: ~Copyable {
    private(set) var messages = Slab<Message>(minimumCapacity: 64)
    /// Memory of released messages, for reuse.
    private var blocks = BlockPool(byteCountMaximum: CoreLimits.spareBytesMaximum)
    /// Bytes of the messages of sessions that are not persistent, each message once.
    private(set) var memoryQueueByteCount = 0
    /// Messages in memory that are in the store, by their stored id: a body that a thousand
    /// sessions load exists once.
    private(set) var residentMessages: [UInt64: Index<Message>] = [:]

    /// Bytes of blocks that no message uses.
    var spareByteCount: Int { blocks.byteCount }

    // MARK: - References

    /// Adds a message whose sender, if it has one, gets a result. The caller must retain it.
    @inline(__always)
    mutating func insert(
        _ parts: MessageParts, messageIdentifier: UnsafeRawBufferPointer, stamp: UInt64,
        deadline: Instant, sender: Handle<Session>, senderNumber: UInt64,
        followsCommit: Bool = false
    ) -> Index<Message> {
        let message = messages.insert(
            Message(
                parts: parts, messageIdentifier: messageIdentifier, stamp: stamp,
                deadline: deadline, sender: sender, senderNumber: senderNumber,
                followsCommit: followsCommit, in: &blocks)
        ).index
        messages[message].references = 1
        return message
    }

    /// Adds a copy of a message whose result no client gets. The caller must retain it.
    mutating func insert(
        copying block: UnsafeRawBufferPointer, stamp: UInt64, deadline: Instant
    ) -> Index<Message> {
        let message = messages.insert(
            Message(copying: block, stamp: stamp, deadline: deadline, in: &blocks)
        ).index
        messages[message].references = 1
        return message
    }

    /// The message of a loaded entry, which all sessions with this message in memory share. The
    /// caller must retain it.
    mutating func resident(
        _ entry: LoadedEntry, in bytes: UnsafeRawBufferPointer, makeStamp: () -> UInt64
    ) -> Index<Message> {
        if let message = residentMessages[entry.message.raw] { return message }
        let message = messages.insert(
            Message(
                identifier: entry.message, block: entry.block.bytes(in: bytes),
                stamp: makeStamp(), deadline: entry.deadline, in: &blocks)
        ).index
        residentMessages[entry.message.raw] = message
        return message
    }

    /// Adds a reference.
    @inline(__always)
    mutating func retain(_ message: Index<Message>) {
        messages[message].references += 1
    }

    /// Removes a reference; the last one frees the message.
    mutating func release(_ message: Index<Message>) {
        messages[message].references -= 1
        guard messages[message].references == 0 else { return }
        if messages[message].identifier != 0 {
            residentMessages[messages[message].identifier] = nil
        }
        if messages[message].isInMemoryQueue {
            memoryQueueByteCount -= messages[message].blockByteCount
        }
        blocks.giveBack(messages.remove(message).memoryLeft())
    }

    /// Counts a message once for the sessions that are not persistent, until it is released.
    mutating func countInMemoryQueue(_ message: Index<Message>) {
        guard !messages[message].isInMemoryQueue else { return }
        messages[message].isInMemoryQueue = true
        memoryQueueByteCount += messages[message].blockByteCount
    }

    // MARK: - Batches

    /// Adds the message to a batch, which retains it. Returns false if it is in one already.
    @inline(__always)
    mutating func join(_ batch: UInt64, _ message: Index<Message>) -> Bool {
        if messages[message].batch == batch { return false }
        precondition(
            messages[message].batch == 0 && messages[message].identifier == 0,
            "message \(messages[message].identifier) of batch \(messages[message].batch) again")
        messages[message].batch = batch
        messages[message].references += 1
        return true
    }

    /// Counts an entry of the pending batch that refers to the message.
    @inline(__always)
    mutating func addEntry(of message: Index<Message>) {
        messages[message].pendingEntries += 1
        messages[message].unsettled += 1
    }

    /// Subtracts an entry that was removed from the pending batch.
    @inline(__always)
    mutating func removeEntry(of message: Index<Message>) {
        messages[message].pendingEntries -= 1
    }

    /// Counts the row of an outbox, which must be committed with the message, like a receiver.
    mutating func awaitSendRow(of message: Index<Message>) {
        messages[message].unsettled += 1
    }

    /// Counts the row of the retained message, which must be committed with it, like a receiver.
    mutating func awaitRow(of message: Index<Message>) {
        messages[message].unsettled += 1
        messages[message].awaitsRow = true
    }

    /// Counts the row of its tracked send, which must be committed with it, like a receiver.
    mutating func awaitTracking(of message: Index<Message>) {
        messages[message].unsettled += 1
        messages[message].awaitsTracking = true
    }

    /// A store without room has committed the row of its tracked send. That is no receiver.
    mutating func endTracking(of message: Index<Message>) {
        messages[message].unsettled -= 1
        messages[message].awaitsTracking = false
    }

    /// Sets the id of the message in the store.
    mutating func store(_ message: Index<Message>, as identifier: UInt64) {
        messages[message].identifier = identifier
    }

    /// Handles the commit of the message's batch; a full store has committed the batch without the
    /// message. Returns whether receivers wait whose entries are stored now.
    mutating func leaveBatch(_ message: Index<Message>, isStored: Bool) -> Bool {
        messages[message].batch = 0
        messages[message].pendingEntries = 0
        messages[message].awaitsRow = false
        messages[message].awaitsTracking = false
        guard isStored else {
            messages[message].identifier = 0
            return true
        }
        guard messages[message].unsettled > 0 else { return false }
        messages[message].unsettled = 0
        return true
    }

    /// Shares a stored message with loads if it has references besides that of the batch.
    mutating func makeResident(_ message: Index<Message>) {
        guard messages[message].identifier != 0 && messages[message].references > 1 else { return }
        residentMessages[messages[message].identifier] = message
    }

    // MARK: - Receivers

    /// Settles a receiver that has the message.
    @inline(__always)
    mutating func take(_ message: Index<Message>) {
        messages[message].takenCount += 1
        messages[message].unsettled -= 1
    }

    /// Settles a receiver that was refused.
    mutating func refuse(_ message: Index<Message>) {
        messages[message].unsettled -= 1
        messages[message].refusedCount += 1
    }

    /// Counts receivers as refused that counted as such that have the message.
    mutating func refuseTaken(_ count: UInt32, of message: Index<Message>) {
        messages[message].takenCount -= count
        messages[message].refusedCount += count
    }

    /// Settles a receiver that has ended and has no successor.
    mutating func dropReceiver(of message: Index<Message>) {
        messages[message].unsettled -= 1
    }

    /// A receiver whose copy was lost may have got it all the same.
    mutating func noteDoubt(about message: Index<Message>) {
        messages[message].mayHaveArrived = true
    }

    /// Takes the message back: it has no receivers any more, and no row of the sender.
    mutating func withdraw(_ message: Index<Message>) {
        messages[message].fate = .takenBack
        messages[message].takenCount = 0
        messages[message].refusedCount = max(messages[message].refusedCount, 1)
        messages[message].unsettled = 0
    }

    /// Decides what happens to the copies that were not sent.
    mutating func decide(_ fate: MessageFate, of message: Index<Message>) {
        guard messages[message].fate != .takenBack else { return }
        messages[message].fate = fate
    }

    /// Gives a message another block with fields. All receivers to whom it was not sent get it.
    mutating func replace(
        _ message: Index<Message>, block: [UInt8], stamp: UInt64
    ) {
        let before = messages[message].blockByteCount
        messages[message].replace(block: block, stamp: stamp, in: &blocks)
        if messages[message].isInMemoryQueue { memoryQueueByteCount += block.count - before }
    }

    // MARK: - The sender

    /// Counts the receivers that are settled already.
    mutating func noteTaken(_ count: UInt32, of message: Index<Message>) {
        messages[message].takenCount += count - messages[message].unsettled
    }

    /// Notes that routing has finished.
    mutating func noteRouted(_ message: Index<Message>) {
        messages[message].isRouted = true
    }

    /// Whether the result must be sent now: routing has finished and all receivers are settled.
    /// True once.
    @inline(__always)
    mutating func takesResult(of message: Index<Message>) -> Bool {
        guard messages[message].unsettled == 0 && messages[message].isRouted,
            !messages[message].isTold
        else { return false }
        messages[message].isTold = true
        return true
    }
}
