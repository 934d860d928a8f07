// Messages in memory: each is held once, whatever the number of windows that refer to it, and is
// released with its last reference.
//
// It owns the messages, their blocks, and how far each of them is settled. It knows sessions and
// batches only as numbers in the message. `Broker` tells senders what became of their messages.
//
// Invariants: a message lives as long as it has references; it is in at most one batch, and
// resident only after the commit of that; the bytes of sessions in memory count each message once;
// every receiver that a message waited for has taken it, was refused, or needs it no more.

import Primitives

/// The messages in memory, and the blocks that hold their bytes.
struct MessageMemory: ~Copyable {
    private(set) var messages = Slab<Message>(minimumCapacity: 64)
    /// Memory of released messages, for the next ones.
    private var blocks = BlockPool(byteCountMaximum: CoreLimits.spareBytesMaximum)
    /// Bytes of the messages that the queues of sessions in memory hold, each message once.
    private(set) var memoryQueueByteCount = 0
    /// Messages in memory that are in the store, by their stored id: a body that a thousand
    /// sessions load is in memory once.
    private(set) var residentMessages: [UInt64: Index<Message>] = [:]

    /// Bytes of blocks that no message uses.
    var spareByteCount: Int { blocks.byteCount }

    // MARK: - References

    /// Adds a message that its sender, if it has one, is told about. The caller holds it.
    @inline(__always)
    mutating func insert(
        _ parts: MessageParts, messageIdentifier: UnsafeRawBufferPointer, stamp: UInt64,
        deadline: Instant, sender: Handle<Session>, senderNumber: UInt64
    ) -> Index<Message> {
        let message = messages.insert(
            Message(
                parts: parts, messageIdentifier: messageIdentifier, stamp: stamp,
                deadline: deadline, sender: sender, senderNumber: senderNumber, in: &blocks)
        ).index
        messages[message].references = 1
        return message
    }

    /// Adds a copy of a message that no sender is told about. The caller holds it.
    mutating func insert(
        copying block: UnsafeRawBufferPointer, stamp: UInt64, deadline: Instant
    ) -> Index<Message> {
        let message = messages.insert(
            Message(copying: block, stamp: stamp, deadline: deadline, in: &blocks)
        ).index
        messages[message].references = 1
        return message
    }

    /// The message of a loaded entry, which all sessions share that hold it in memory. The caller
    /// holds it next.
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

    /// Counts a message once among what sessions in memory hold, until it is released.
    mutating func countInMemoryQueue(_ message: Index<Message>) {
        guard !messages[message].isInMemoryQueue else { return }
        messages[message].isInMemoryQueue = true
        memoryQueueByteCount += messages[message].blockByteCount
    }

    // MARK: - Batches

    /// The message is stored with a batch, which holds it. Returns false where it is already.
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

    /// An entry of the pending batch points at the message and waits for a receiver.
    @inline(__always)
    mutating func addEntry(of message: Index<Message>) {
        messages[message].pendingEntries += 1
        messages[message].unsettled += 1
    }

    /// An entry of the pending batch is struck out.
    @inline(__always)
    mutating func removeEntry(of message: Index<Message>) {
        messages[message].pendingEntries -= 1
    }

    /// The row of an outbox is part of the batch and waited for like a receiver.
    mutating func awaitSendRow(of message: Index<Message>) {
        messages[message].unsettled += 1
    }

    /// Another row is part of the batch and waited for like a receiver: that it was retained.
    mutating func awaitRow(of message: Index<Message>) {
        messages[message].unsettled += 1
        messages[message].awaitsRow = true
    }

    /// The message gets its place in the store.
    mutating func store(_ message: Index<Message>, as identifier: UInt64) {
        messages[message].identifier = identifier
    }

    /// The batch of the message is committed, with it or, where the store has no room, without.
    /// Returns whether receivers wait that have it in the store now.
    mutating func leaveBatch(_ message: Index<Message>, isStored: Bool) -> Bool {
        messages[message].batch = 0
        messages[message].pendingEntries = 0
        messages[message].awaitsRow = false
        guard isStored else {
            messages[message].identifier = 0
            return true
        }
        guard messages[message].unsettled > 0 else { return false }
        messages[message].unsettled = 0
        return true
    }

    /// A message that is in the store and that others than the batch hold is shared with loads.
    mutating func makeResident(_ message: Index<Message>) {
        guard messages[message].identifier != 0 && messages[message].references > 1 else { return }
        residentMessages[messages[message].identifier] = message
    }

    // MARK: - Receivers

    /// A receiver that was waited for has the message.
    @inline(__always)
    mutating func take(_ message: Index<Message>) {
        messages[message].takenCount += 1
        messages[message].unsettled -= 1
    }

    /// A receiver that was waited for will not get the message.
    mutating func refuse(_ message: Index<Message>) {
        messages[message].unsettled -= 1
        messages[message].refusedCount += 1
    }

    /// A receiver that was waited for has ended, and nobody receives the message in its place.
    mutating func dropReceiver(of message: Index<Message>) {
        messages[message].unsettled -= 1
    }

    /// A receiver whose copy was lost may have got it all the same.
    mutating func noteDoubt(about message: Index<Message>) {
        messages[message].mayHaveArrived = true
    }

    /// The message is taken back as a whole. No receiver is left, nor the row of the sender.
    mutating func withdraw(_ message: Index<Message>) {
        messages[message].isWithdrawn = true
        messages[message].takenCount = 0
        messages[message].refusedCount = max(messages[message].refusedCount, 1)
        messages[message].unsettled = 0
    }

    // MARK: - The sender

    /// Counts the receivers that are not waited for.
    mutating func noteTaken(_ count: UInt32, of message: Index<Message>) {
        messages[message].takenCount += count - messages[message].unsettled
    }

    /// Routing is over.
    mutating func noteRouted(_ message: Index<Message>) {
        messages[message].isRouted = true
    }

    /// Whether the sender is to be told now: routing is over and nobody is waited for. True once.
    @inline(__always)
    mutating func takesResult(of message: Index<Message>) -> Bool {
        guard messages[message].unsettled == 0 && messages[message].isRouted,
            !messages[message].isTold
        else { return false }
        messages[message].isTold = true
        return true
    }
}
