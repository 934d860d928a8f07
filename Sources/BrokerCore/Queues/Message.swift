// A message in memory: from its acceptance until its last receiver has acknowledged it or holds it
// only on disk.

import Primitives

/// One accepted message that is still needed in memory.
struct Message: ~Copyable, @unchecked Sendable {
    /// Where it is stored; 0 while it has no place in the store.
    var identifier: UInt64
    /// The message block, and behind it the application's id for the result. Owned.
    let memory: UnsafeMutableRawBufferPointer
    let blockByteCount: Int
    /// Tells messages apart when they are copied into an event loop's effects; never 0.
    let stamp: UInt64
    let deadline: Instant
    let grade: Grade
    /// Whether it is for the sessions that there are, and not for their users.
    let isOwnOnly: Bool

    /// Inbox windows that point here, plus one while a batch does.
    var references: UInt32 = 0
    /// Persistent receivers who neither acknowledged it nor have it in a committed batch, plus one
    /// while an outbox number of grade *once* must be committed with it. At 0 the sender is told.
    var unsettled: UInt32 = 0
    /// Receivers who have taken it: acknowledged it, or were given it without the store.
    var takenCount: UInt32 = 0
    /// Receivers that were refused because the store had no room.
    var refusedCount: UInt32 = 0
    /// A row beside its entries is part of its batch, and waited for like a receiver: that it was
    /// retained.
    var awaitsRow = false
    /// Whether routing is over, so that `unsettled == 0` means what it says.
    var isRouted = false
    /// Whether its sender has been answered, which happens once.
    var isTold = false
    /// A receiver whose copy was lost may have got it all the same.
    var mayHaveArrived = false
    /// Whether it counts among the bytes that sessions in memory hold.
    var isInMemoryQueue = false
    /// The send was taken back as a whole: no receiver gets it from now on.
    var isWithdrawn = false
    /// The batch that stores it; 0 when it is committed or is never stored.
    var batch: UInt64 = 0
    /// Entries of the pending batch that point here and have not been elided.
    var pendingEntries: UInt32 = 0

    /// The session to answer, and the outbox number of the send; generation 0 for none.
    let sender: Handle<Session>
    let senderNumber: UInt64

    init(
        parts: MessageParts, messageIdentifier: UnsafeRawBufferPointer, stamp: UInt64,
        deadline: Instant, sender: Handle<Session>, senderNumber: UInt64, in blocks: inout BlockPool
    ) {
        blockByteCount = parts.blockByteCount
        memory = blocks.take(blockByteCount + messageIdentifier.count)
        parts.write(to: UnsafeMutableRawBufferPointer(rebasing: memory[..<blockByteCount]))
        UnsafeMutableRawBufferPointer(rebasing: memory[blockByteCount...])
            .copyMemory(from: messageIdentifier)
        identifier = 0
        self.stamp = stamp
        self.deadline = deadline
        grade = parts.grade
        isOwnOnly = parts.kind.isOwnOnly
        self.sender = sender
        self.senderNumber = senderNumber
    }

    /// A message that came back from the store.
    init(
        identifier: StoredMessageID, block: UnsafeRawBufferPointer, stamp: UInt64,
        deadline: Instant,
        in blocks: inout BlockPool
    ) {
        self.init(copying: block, stamp: stamp, deadline: deadline, in: &blocks)
        self.identifier = identifier.raw
        isRouted = true
    }

    /// A message without a client to answer.
    init(
        copying block: UnsafeRawBufferPointer, stamp: UInt64, deadline: Instant,
        in blocks: inout BlockPool
    ) {
        blockByteCount = block.count
        memory = blocks.take(block.count)
        memory.copyMemory(from: block)
        identifier = 0
        self.stamp = stamp
        self.deadline = deadline
        grade = MessageBlock(block).grade
        isOwnOnly = MessageBlock(block).kind.isOwnOnly
        sender = .none
        senderNumber = 0
    }

    deinit { memory.deallocate() }

    /// Ends the message and passes its memory to the caller.
    consuming func memoryLeft() -> UnsafeMutableRawBufferPointer {
        let memory = memory
        discard self
        return memory
    }

    var block: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: memory[..<blockByteCount])
    }

    /// The application's id for the sender's result; empty where none was given.
    var messageIdentifier: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: memory[blockByteCount...])
    }
}
