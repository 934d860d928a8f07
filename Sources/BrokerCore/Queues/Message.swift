// A message in memory: from its acceptance until its last receiver has acknowledged it, or its
// remaining entries are on disk only.

import Primitives

/// One accepted message that is still needed in memory.
struct Message: ~Copyable, @unchecked Sendable {
    /// Its id in the store; 0 if it is not stored.
    var identifier: UInt64
    /// The message block, followed by the application's id for the result. Owned.
    private(set) var memory: UnsafeMutableRawBufferPointer
    private(set) var blockByteCount: Int
    /// Distinguishes messages when they are copied into an event loop's effects; never 0.
    private(set) var stamp: UInt64
    let deadline: Instant
    /// Its grade; *once* also for a message that is delivered after its commit only.
    let grade: Grade
    /// Whether its block has a section of fields.
    let hasFields: Bool
    /// Whether it is for the existing sessions, and not for their users.
    let isOwnOnly: Bool

    /// The number of references: of windows, and of the batch that stores it.
    var references: UInt32 = 0
    /// The number of persistent receivers that have not acknowledged it and whose entry is not
    /// committed, plus one while an outbox number of grade *once* must be committed with it. At 0
    /// the result is sent.
    var unsettled: UInt32 = 0
    /// The number of receivers that have acknowledged it, or received it without the store.
    var takenCount: UInt32 = 0
    /// The number of receivers that were refused because the store had no room.
    var refusedCount: UInt32 = 0
    /// Whether a row other than its entries must be committed with it: that of the retained
    /// message.
    var awaitsRow = false
    /// Whether the row of its tracked send must be committed with it.
    var awaitsTracking = false
    /// Whether routing has finished: before, `unsettled == 0` has no meaning.
    var isRouted = false
    /// Whether the result has been sent to its sender.
    var isTold = false
    /// Whether a receiver whose entry was lost may have received it.
    var mayHaveArrived = false
    /// Whether its bytes are counted for the sessions that are not persistent.
    var isInMemoryQueue = false
    /// Whether receivers still get it.
    var fate = MessageFate.delivered
    /// The batch that stores it; 0 when it is committed or is never stored.
    var batch: UInt64 = 0
    /// The number of its entries in the pending batch that have not been elided.
    var pendingEntries: UInt32 = 0

    /// The session of the sender, and the outbox number of the send; generation 0 for none.
    let sender: Handle<Session>
    let senderNumber: UInt64

    init(
        parts: MessageParts, messageIdentifier: UnsafeRawBufferPointer, stamp: UInt64,
        deadline: Instant, sender: Handle<Session>, senderNumber: UInt64, followsCommit: Bool,
        in blocks: inout BlockPool
    ) {
        blockByteCount = parts.blockByteCount
        memory = blocks.take(blockByteCount + messageIdentifier.count)
        parts.write(to: UnsafeMutableRawBufferPointer(rebasing: memory[..<blockByteCount]))
        UnsafeMutableRawBufferPointer(rebasing: memory[blockByteCount...])
            .copyMemory(from: messageIdentifier)
        identifier = 0
        self.stamp = stamp
        self.deadline = deadline
        grade = followsCommit ? .once : parts.grade
        hasFields = parts.marks.contains(.fields)
        isOwnOnly = parts.kind.isOwnOnly
        self.sender = sender
        self.senderNumber = senderNumber
    }

    /// A message that was loaded from the store.
    init(
        identifier: StoredMessageID, block: UnsafeRawBufferPointer, stamp: UInt64,
        deadline: Instant,
        in blocks: inout BlockPool
    ) {
        self.init(copying: block, stamp: stamp, deadline: deadline, in: &blocks)
        self.identifier = identifier.raw
        isRouted = true
    }

    /// A message whose result no client gets.
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
        hasFields = MessageBlock(block).hasFields
        isOwnOnly = MessageBlock(block).kind.isOwnOnly
        sender = .none
        senderNumber = 0
    }

    deinit { memory.deallocate() }

    /// Gives it another block with fields.
    mutating func replace(
        block: [UInt8], stamp: UInt64, in blocks: inout BlockPool
    ) {
        let identifier = messageIdentifier
        let new = blocks.take(block.count + identifier.count)
        new.copyBytes(from: block)
        new[block.count...].copyBytes(from: identifier)
        blocks.giveBack(memory)
        memory = new
        blockByteCount = block.count
        self.stamp = stamp
    }

    /// Ends the message and returns its memory.
    consuming func memoryLeft() -> UnsafeMutableRawBufferPointer {
        let memory = memory
        discard self
        return memory
    }

    var block: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: memory[..<blockByteCount])
    }

    /// The application's id for the sender's result; empty if there is none.
    var messageIdentifier: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: memory[blockByteCount...])
    }
}

/// What happens to the copies of a message that were not sent.
enum MessageFate: UInt8 {
    case delivered
    /// The store refused the send, which is taken back as a whole.
    case takenBack
    /// A newer message takes its place if the store takes that one: it waits for a commit.
    case held
    /// Its sender recalled it, or a newer message took its place.
    case recalled
}
