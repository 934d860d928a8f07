// What the core asks of the store, and what the store answers: plain values, no LMDB, no files. The
// core gathers changes into one batch while the previous one is being committed; at most one batch
// is under way at a time. QueueStore carries batches out on disk, the simulation in memory.

import Primitives

/// A queue of stored messages: a session's inbox, or what waits for a user without a session. Never
/// used again once its owner is gone.
public struct QueueID: Hashable, Comparable, Sendable {
    public var raw: UInt64

    @inlinable
    public init(raw: UInt64) { self.raw = raw }

    @inlinable
    public static func < (left: QueueID, right: QueueID) -> Bool { left.raw < right.raw }
}

/// A stored message body. Ids rise in the order of acceptance and are never used again, so that
/// bodies are appended to the store (design: body once, entries point at it).
public struct StoredMessageID: Hashable, Comparable, Sendable {
    public var raw: UInt64

    @inlinable
    public init(raw: UInt64) { self.raw = raw }

    @inlinable
    public static func < (left: StoredMessageID, right: StoredMessageID) -> Bool {
        left.raw < right.raw
    }
}

/// Everything that becomes durable together: either all of it is in the store after the commit, or
/// nothing is.
///
/// The store applies the parts in the order of the properties below: an acknowledgement in the same
/// batch as the entry it covers removes that entry, a transferred queue takes this batch's entries
/// along. An acknowledgement that follows transfers is applied behind those. Loads are answered
/// from the state after the commit.
public struct StoreBatch: Sendable {
    /// Rises by one from batch to batch within one run of the broker.
    public var sequence: UInt64 = 0
    /// When the batch was closed; stored, so that a restart knows how much time has passed.
    public var moment = Moment(instant: Instant(milliseconds: 0), unixMilliseconds: 0)
    /// What `MessagePut.block` ranges point into.
    public var blocks: [UInt8] = []
    public var messages: [MessagePut] = []
    public var entries: [EntryPut] = []
    /// Before all that refers to entries under the numbers they have then.
    public var moves: [EntryMove] = []
    /// Before the acknowledgements, so that what was removed is in none of their tallies.
    public var removals: [EntryRemoval] = []
    public var acknowledgements: [QueueAcknowledgement] = []
    public var trims: [QueueTrim] = []
    public var states: [EntryStateChange] = []
    public var transfers: [QueueTransfer] = []
    public var deletedQueues: [QueueID] = []
    /// In the order in which they were made: the last change of a key stands. Those that are a part
    /// of sends are left out, like `messages` and `entries`, when the store has no room for sends.
    public var records: [RecordChange] = []
    public var loads: [LoadRequest] = []
    /// Examine up to this many entries, walking on from where the last sweep stopped (and from the
    /// start after the end), and report those that are expired. They stay: whoever has them under
    /// way knows better when they go.
    public var sweepMaximum = 0

    public init() {}

    /// Whether there is nothing to do.
    public var isEmpty: Bool {
        !changesStore && loads.isEmpty && sweepMaximum == 0
    }

    /// Whether carrying it out needs a write transaction; loads alone do not.
    public var changesStore: Bool {
        !(messages.isEmpty && entries.isEmpty && moves.isEmpty && acknowledgements.isEmpty
            && removals.isEmpty
            && trims.isEmpty && states.isEmpty && transfers.isEmpty && deletedQueues.isEmpty
            && records.isEmpty)
    }

    /// The records that are a part of sends.
    public var sendRecords: [RecordChange] {
        get { records.filter { $0.part == .send } }
        set {
            records.removeAll { $0.part == .send }
            records += newValue.map { $0.asPart(.send) }
        }
    }

    /// Whether there are sends in it: the parts that are left out where there is no room.
    public var hasSends: Bool {
        !(messages.isEmpty && entries.isEmpty) || records.contains { $0.part == .send }
    }

    /// Empties the batch for the next round and keeps its memory.
    public mutating func removeAll() {
        blocks.removeAllKeepingCapacity()
        messages.removeAllKeepingCapacity()
        entries.removeAllKeepingCapacity()
        moves.removeAllKeepingCapacity()
        acknowledgements.removeAllKeepingCapacity()
        removals.removeAllKeepingCapacity()
        trims.removeAllKeepingCapacity()
        states.removeAllKeepingCapacity()
        transfers.removeAllKeepingCapacity()
        deletedQueues.removeAllKeepingCapacity()
        records.removeAllKeepingCapacity()
        loads.removeAllKeepingCapacity()
        sweepMaximum = 0
    }
}

/// Stores a body. `receiverCount` entries of this or earlier parts of the batch point at it; it is
/// removed with the last of them.
public struct MessagePut: Hashable, Sendable {
    public var id: StoredMessageID
    public var receiverCount: UInt32
    /// The message as ``MessageBlock`` lays it out, within `StoreBatch.blocks`.
    public var block: ByteRange

    public init(id: StoredMessageID, receiverCount: UInt32, block: ByteRange) {
        self.id = id
        self.receiverCount = receiverCount
        self.block = block
    }
}

/// One stored message in one queue. The key is (queue, number).
public struct EntryPut: Hashable, Sendable {
    public var queue: QueueID
    /// The inbox number. Rises within a queue; gaps mean nothing.
    public var number: UInt64
    public var message: StoredMessageID
    /// The entry is gone, and counted as expired, from this instant on.
    public var deadline: Instant
    /// Bytes this entry counts for in its queue's limit: the whole block.
    public var byteCount: UInt32
    public var state: EntryState

    public init(
        queue: QueueID, number: UInt64, message: StoredMessageID, deadline: Instant,
        byteCount: UInt32,
        state: EntryState
    ) {
        self.queue = queue
        self.number = number
        self.message = message
        self.deadline = deadline
        self.byteCount = byteCount
        self.state = state
    }
}

/// What is remembered of one receiver's delivery beside the message itself.
public struct EntryState: Hashable, Sendable, BitwiseCopyable {
    /// The grade of this delivery: the lower of the send's and the subscription's.
    public var grade: Grade
    public var options: EntryOptions
    /// Which shared subscription brought it here: the number of the share in its app, never 0. 0
    /// where none did, or where that is not known.
    public var share: UInt16
    /// MQTT subscription identifier of the subscription that brought it here; 0 where none is, and
    /// ``severalIdentifiers`` where more than one is.
    public var subscriptionIdentifier: UInt32

    /// Subscriptions with identifiers of their own brought it here: they are looked up when it is
    /// delivered. Identifiers have 28 bits.
    @inlinable
    public static var severalIdentifiers: UInt32 { 1 << 28 }

    @inlinable
    public init(
        grade: Grade, options: EntryOptions = [], share: UInt16 = 0,
        subscriptionIdentifier: UInt32 = 0
    ) {
        self.grade = grade
        self.options = options
        self.share = share
        self.subscriptionIdentifier = subscriptionIdentifier
    }
}

extension EntryState {
    /// Whether an entry with this state and deadline is over.
    @inlinable
    public func isExpired(_ deadline: Instant, at now: Instant) -> Bool {
        deadline <= now && !options.contains(.received)
    }

    /// Whether an entry with this state and number does not expire, because its delivery in QoS 2
    /// may have begun [MQTT-4.3.3-7].
    ///
    /// - Parameter sentThrough: the last number that may have been sent to an MQTT client.
    @inlinable
    public func lasts(_ number: UInt64, sentThrough: UInt64) -> Bool {
        grade == .once && number <= sentThrough
    }
}

/// Marks of one stored delivery.
public struct EntryOptions: OptionSet, Hashable, Sendable, BitwiseCopyable {
    public var rawValue: UInt8

    @inlinable
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The receiver confirmed a QoS 2 PUBLISH with PUBREC; only PUBREL and PUBCOMP remain. It does
    /// not expire any more: its packet identifier is in use until then.
    @inlinable
    public static var received: EntryOptions { EntryOptions(rawValue: 1 << 0) }
    /// Delivered with the RETAIN flag set.
    @inlinable
    public static var retain: EntryOptions { EntryOptions(rawValue: 1 << 1) }
    /// An earlier attempt may have arrived. It is found out when the entry is delivered, and not
    /// stored.
    @inlinable
    public static var repeated: EntryOptions { EntryOptions(rawValue: 1 << 2) }
    /// It came by a shared subscription: another session may get it in place of this one.
    @inlinable
    public static var shared: EntryOptions { EntryOptions(rawValue: 1 << 3) }
    /// It came by what this session subscribes to, or to all sessions there were: it is not what
    /// its user was sent.
    @inlinable
    public static var ownOnly: EntryOptions { EntryOptions(rawValue: 1 << 4) }
}

/// Removes every entry of the queue whose number is at most `throughNumber`.
public struct QueueAcknowledgement: Hashable, Sendable {
    public var queue: QueueID
    public var throughNumber: UInt64
    /// Report how many entries and bytes it removed, as a ``QueueTally``. Asked for where the core
    /// does not hold the entries in memory: a resume after a restart or a reconnect.
    public var wantsTally: Bool
    /// The transfers of the batch that come first: what they bring is removed too. It never
    /// decreases among those that want tallies, and is 0 for all others.
    public var followsTransfers: Int

    public init(
        queue: QueueID, throughNumber: UInt64, wantsTally: Bool = false, followsTransfers: Int = 0
    ) {
        self.queue = queue
        self.throughNumber = throughNumber
        self.wantsTally = wantsTally
        self.followsTransfers = followsTransfers
    }
}

/// Removes one entry, wherever in the queue it stands; absent is not an error (it may have
/// expired).
public struct EntryRemoval: Hashable, Sendable {
    public var queue: QueueID
    public var number: UInt64

    public init(queue: QueueID, number: UInt64) {
        self.queue = queue
        self.number = number
    }
}

/// Removes the oldest entries of a queue that follow `afterNumber`, until at least `count` entries
/// and at least `byteCount` bytes are gone or the queue ends. The core gives the last number it has
/// in memory, so that nothing is removed that is on its way to the receiver.
public struct QueueTrim: Hashable, Sendable {
    public var queue: QueueID
    public var afterNumber: UInt64
    public var count: UInt64
    public var byteCount: UInt64

    public init(queue: QueueID, afterNumber: UInt64, count: UInt64, byteCount: UInt64 = 0) {
        self.queue = queue
        self.afterNumber = afterNumber
        self.count = count
        self.byteCount = byteCount
    }
}

/// Replaces one entry's state; absent is not an error.
public struct EntryStateChange: Hashable, Sendable {
    public var queue: QueueID
    public var number: UInt64
    public var state: EntryState

    public init(queue: QueueID, number: UInt64, state: EntryState) {
        self.queue = queue
        self.number = number
        self.state = state
    }
}

/// Moves one entry into another queue, under a number that is new there; one that is absent is
/// reported. Its body stays, so that a store without room has room for it.
public struct EntryMove: Hashable, Sendable {
    public var queue: QueueID
    public var number: UInt64
    public var destination: QueueID
    public var destinationNumber: UInt64
    /// What is remembered of it there.
    public var state: EntryState

    public init(
        queue: QueueID, number: UInt64, destination: QueueID, destinationNumber: UInt64,
        state: EntryState
    ) {
        self.queue = queue
        self.number = number
        self.destination = destination
        self.destinationNumber = destinationNumber
        self.state = state
    }
}

/// Which entries of a queue are moved.
public enum TransferScope: Hashable, Sendable {
    case all
    /// What came by shared subscriptions and may go to another of their sessions.
    case shared
    /// What its user was sent, up to this message, and has not received.
    case userMessages(before: StoredMessageID)

    /// Whether an entry is moved.
    @inlinable
    public func contains(_ message: StoredMessageID, _ state: EntryState) -> Bool {
        switch self {
        case .all: true
        case .shared: state.options.contains(.shared) && state.grade == .durable
        case .userMessages(let bound):
            message < bound && state.options.isDisjoint(with: [.ownOnly, .received])
        }
    }
}

/// Moves entries of one queue behind those of another: the first gets `firstNumber`, the others
/// follow in order. What the scope leaves stays where it is, and all from the first entry on that
/// one of the bounds has no room for.
public struct QueueTransfer: Hashable, Sendable {
    public var source: QueueID
    public var destination: QueueID
    public var firstNumber: UInt64
    /// No more entries are moved: as many numbers are kept for them, and others follow.
    public var countMaximum: UInt64
    /// No more bytes are moved.
    public var byteMaximum: UInt64
    public var scope: TransferScope

    public init(
        source: QueueID, destination: QueueID, firstNumber: UInt64, countMaximum: UInt64,
        byteMaximum: UInt64 = .max, scope: TransferScope = .all
    ) {
        self.source = source
        self.destination = destination
        self.firstNumber = firstNumber
        self.countMaximum = countMaximum
        self.byteMaximum = byteMaximum
        self.scope = scope
    }

    /// Whether one more entry is moved behind those that have been.
    @inlinable
    public func hasRoom(behind moved: QueueTally, for byteCount: UInt32) -> Bool {
        moved.count < countMaximum
            && UInt64(byteCount) <= byteMaximum - min(moved.byteCount, byteMaximum)
    }
}

/// Asks for the entries of a queue that follow `afterNumber`, in order, until one of the bounds is
/// reached; at least one entry is read however large it is. Expired entries on the way are skipped,
/// removed and reported with the same result.
public struct LoadRequest: Hashable, Sendable {
    public var queue: QueueID
    public var afterNumber: UInt64
    /// Entries of QoS 2 up to here may have been sent to an MQTT client: they do not expire
    /// [MQTT-4.3.3-7]. 0 where there are none.
    public var sentThrough: UInt64
    public var countMaximum: Int
    public var byteMaximum: Int

    public init(
        queue: QueueID, afterNumber: UInt64, sentThrough: UInt64 = 0, countMaximum: Int,
        byteMaximum: Int
    ) {
        self.queue = queue
        self.afterNumber = afterNumber
        self.sentThrough = sentThrough
        self.countMaximum = countMaximum
        self.byteMaximum = byteMaximum
    }
}

/// Why the sends of a batch could not be stored. Everything else in the batch was.
public enum SendRefusal: Hashable, Sendable {
    /// The store's own limit or the file system has no room for them.
    case full
}

/// What became of a batch.
public struct StoreResult: Sendable {
    public var sequence: UInt64 = 0
    /// Set when `messages`, `entries` and `sendRecords` were left out; all the rest is committed. A
    /// sync that fails is not a result: the process ends, and the next start finds what was
    /// committed before.
    public var refusal: SendRefusal?
    /// One per load request, in the order of the requests.
    public var loads: [LoadedQueue] = []
    /// What the ranges of loaded entries point into.
    public var blocks: [UInt8] = []
    /// One per acknowledgement that wanted one.
    public var tallies: [QueueTally] = []
    /// What each trim removed, in the order of the trims.
    public var trimmed: [QueueTally] = []
    /// What each transfer moved, in the order of the transfers, under the queue it went to.
    public var transferred: [QueueTally] = []
    /// Moves whose entry was not there, by their place in the batch.
    public var missedMoves: [Int] = []
    /// What the loads found expired and removed.
    public var expired: [QueueTally] = []
    /// What the sweep found expired, after the loads had removed theirs. It is still there.
    public var swept: [ExpiredEntry] = []
    /// Entries that could not be read, or whose body could not: their checksum failed. They were
    /// set aside in the store and are never delivered; each is reported once. The byte count of an
    /// entry that is itself unreadable is unknown and counted as 0. These were found by loads, by
    /// trims and by acknowledgements that wanted a tally, of which they are not a part.
    public var damaged: [QueueTally] = []
    /// Damaged entries that were to be removed or changed in any case, which the core does not
    /// expect in a tally.
    public var damagedUncounted: UInt64 = 0
    /// Whether the store had no room to remove what the loads found expired or damaged. It is in no
    /// tally, and the next load finds it again.
    public var keepsLeaving = false
    /// A deleted queue was too long for one transaction. The store goes on with the next batch,
    /// which may be an empty one.
    public var isUnfinished = false
    /// Whether sends would be refused now: the store is above its soft limit, or the disk has no
    /// space to claim. What makes state grow (new sessions, retained messages) should be refused
    /// too; the space kept in reserve is for what makes room.
    public var isFull = false
    /// Bytes of pages that are certain to be there for rows that are new or get longer, in all
    /// batches until the next result.
    public var rowRoomByteCount = Int.max
    /// Bytes of the store in use after the commit, and the limit above which sends are refused.
    public var usedBytes: UInt64 = 0
    public var softLimitBytes: UInt64 = .max

    public init() {}

    /// Empties the result for the next batch and keeps its memory.
    public mutating func removeAll() {
        sequence = 0
        refusal = nil
        loads.removeAllKeepingCapacity()
        blocks.removeAllKeepingCapacity()
        tallies.removeAllKeepingCapacity()
        trimmed.removeAllKeepingCapacity()
        transferred.removeAllKeepingCapacity()
        missedMoves.removeAllKeepingCapacity()
        expired.removeAllKeepingCapacity()
        swept.removeAllKeepingCapacity()
        damaged.removeAllKeepingCapacity()
        damagedUncounted = 0
        keepsLeaving = false
        isUnfinished = false
        isFull = false
        rowRoomByteCount = .max
        usedBytes = 0
        softLimitBytes = .max
    }
}

/// The answer to a ``LoadRequest``.
public struct LoadedQueue: Sendable {
    public var queue: QueueID
    public var entries: [LoadedEntry]
    /// Whether the walk came to the end of the queue.
    public var reachedEnd: Bool

    public init(queue: QueueID, entries: [LoadedEntry], reachedEnd: Bool) {
        self.queue = queue
        self.entries = entries
        self.reachedEnd = reachedEnd
    }
}

/// One stored entry with its body.
public struct LoadedEntry: Hashable, Sendable {
    public var number: UInt64
    public var message: StoredMessageID
    public var deadline: Instant
    public var byteCount: UInt32
    public var state: EntryState
    /// The message's block, within `StoreResult.blocks`.
    public var block: ByteRange

    public init(
        number: UInt64, message: StoredMessageID, deadline: Instant, byteCount: UInt32,
        state: EntryState, block: ByteRange
    ) {
        self.number = number
        self.message = message
        self.deadline = deadline
        self.byteCount = byteCount
        self.state = state
        self.block = block
    }
}

/// How many entries and bytes left (or fill) a queue.
public struct QueueTally: Hashable, Sendable {
    public var queue: QueueID
    public var count: UInt64
    public var byteCount: UInt64

    public init(queue: QueueID, count: UInt64, byteCount: UInt64) {
        self.queue = queue
        self.count = count
        self.byteCount = byteCount
    }
}

/// A stored entry whose deadline has passed.
public struct ExpiredEntry: Hashable, Sendable {
    public var queue: QueueID
    public var number: UInt64
    public var byteCount: UInt32
    public var state: EntryState

    public init(queue: QueueID, number: UInt64, byteCount: UInt32, state: EntryState) {
        self.queue = queue
        self.number = number
        self.byteCount = byteCount
        self.state = state
    }
}
