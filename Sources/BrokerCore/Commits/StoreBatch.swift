// The requests of the core to the store, and the results: plain values, without LMDB and files. The
// core collects changes in one batch while the previous one is being committed; at most one batch
// is in flight. QueueStore executes batches on disk, the simulation in memory.

import Primitives

/// A queue of stored messages: a session's inbox, a user's offline queue, or a leftover. An id is
/// never used again.
public struct QueueID: Hashable, Comparable, Sendable {
    public var raw: UInt64

    @inlinable
    public init(raw: UInt64) { self.raw = raw }

    @inlinable
    public static func < (left: QueueID, right: QueueID) -> Bool { left.raw < right.raw }
}

/// A stored message body. Ids rise in the order of acceptance and are never used again, so that
/// bodies are appended to the store. A body is stored once, and entries refer to it.
public struct StoredMessageID: Hashable, Comparable, Sendable {
    public var raw: UInt64

    @inlinable
    public init(raw: UInt64) { self.raw = raw }

    @inlinable
    public static func < (left: StoredMessageID, right: StoredMessageID) -> Bool {
        left.raw < right.raw
    }
}

/// Changes that become durable together: after the commit, either all of them are in the store or
/// none.
///
/// The store applies the parts in the order of the properties below: an acknowledgement removes
/// entries that the same batch adds, and a transfer moves them too. An acknowledgement that follows
/// transfers is applied after these, and so is a withdrawal. Loads read the state after the commit.
public struct StoreBatch: Sendable {
    /// Increases by one from batch to batch while the broker runs.
    public var sequence: UInt64 = 0
    /// Time at which the batch was handed over. It is stored, so that a restart knows how much time
    /// has passed.
    public var moment = Moment(instant: Instant(milliseconds: 0), unixMilliseconds: 0)
    /// The bytes to which `MessagePut.block` refers.
    public var blocks: [UInt8] = []
    public var messages: [MessagePut] = []
    public var entries: [EntryPut] = []
    /// Applied before everything that refers to entries by their new numbers.
    public var moves: [EntryMove] = []
    /// Applied before the acknowledgements, so that no tally contains the removed entries.
    public var removals: [EntryRemoval] = []
    public var acknowledgements: [QueueAcknowledgement] = []
    public var trims: [QueueTrim] = []
    public var states: [EntryStateChange] = []
    public var transfers: [QueueTransfer] = []
    /// New blocks of stored bodies.
    public var replacements: [BodyReplacement] = []
    public var withdrawals: [EntryWithdrawal] = []
    public var deletedQueues: [QueueID] = []
    /// In the order in which they were made: the last change of a key is valid. Records that are a
    /// part of sends are left out, like `messages` and `entries`, if the store has no room for
    /// sends.
    public var records: [RecordChange] = []
    public var loads: [LoadRequest] = []
    /// The number of entries to examine for expiry, beginning where the last sweep stopped, and
    /// from the start after the end. Expired entries are reported and not removed, because the core
    /// knows which are being delivered.
    public var sweepMaximum = 0

    public init() {}

    /// Whether the batch contains nothing.
    public var isEmpty: Bool {
        !changesStore && loads.isEmpty && sweepMaximum == 0
    }

    /// Whether the batch needs a write transaction; loads alone do not.
    public var changesStore: Bool {
        !(messages.isEmpty && entries.isEmpty && moves.isEmpty && acknowledgements.isEmpty
            && removals.isEmpty
            && trims.isEmpty && states.isEmpty && transfers.isEmpty && deletedQueues.isEmpty
            && records.isEmpty && replacements.isEmpty && withdrawals.isEmpty)
    }

    /// The records that are a part of sends.
    public var sendRecords: [RecordChange] {
        get { records.filter { $0.part == .send } }
        set {
            records.removeAll { $0.part == .send }
            records += newValue.map { $0.asPart(.send) }
        }
    }

    /// Whether the batch contains sends: the parts that are left out if there is no room.
    public var hasSends: Bool {
        !(messages.isEmpty && entries.isEmpty) || records.contains { $0.part == .send }
    }

    /// Empties the batch for reuse and keeps its memory.
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
        replacements.removeAllKeepingCapacity()
        withdrawals.removeAllKeepingCapacity()
        deletedQueues.removeAllKeepingCapacity()
        records.removeAllKeepingCapacity()
        loads.removeAllKeepingCapacity()
        sweepMaximum = 0
    }
}

/// Stores a body. `receiverCount` entries of this batch refer to it; it is removed with the last of
/// them.
public struct MessagePut: Hashable, Sendable {
    public var id: StoredMessageID
    public var receiverCount: UInt32
    /// The message in the layout of ``MessageBlock``, within `StoreBatch.blocks`.
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
    /// The inbox number. Numbers rise within a queue; gaps have no meaning.
    public var number: UInt64
    public var message: StoredMessageID
    /// Expiry: from then on the entry counts as expired and is not delivered.
    public var deadline: Instant
    /// Bytes that count towards the limit of the queue: the whole block.
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

/// The state of one receiver's delivery, besides the message.
public struct EntryState: Hashable, Sendable, BitwiseCopyable {
    /// The grade of the delivery: the lower of the send's and the subscription's.
    public var grade: Grade
    public var options: EntryOptions
    /// The number of the share in its app if a shared subscription brought the entry. 0 if none
    /// did, or if it is not known.
    public var share: UInt16
    /// The MQTT identifier of the subscription that brought the entry; 0 for none, and
    /// ``severalIdentifiers`` for more than one.
    public var subscriptionIdentifier: UInt32

    /// Several subscriptions with identifiers brought the entry. The identifiers are looked up at
    /// the delivery. Real identifiers have 28 bits.
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
    /// Whether an entry with this state and deadline has expired.
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

/// Options of one stored delivery.
public struct EntryOptions: OptionSet, Hashable, Sendable, BitwiseCopyable {
    public var rawValue: UInt8

    @inlinable
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The receiver has confirmed a QoS 2 PUBLISH with PUBREC; only PUBREL and PUBCOMP remain. The
    /// entry does not expire, because its packet identifier is in use until then.
    @inlinable
    public static var received: EntryOptions { EntryOptions(rawValue: 1 << 0) }
    /// The entry is delivered with the RETAIN flag.
    @inlinable
    public static var retain: EntryOptions { EntryOptions(rawValue: 1 << 1) }
    /// An earlier attempt may have been received. The option is set at the delivery and not stored.
    @inlinable
    public static var repeated: EntryOptions { EntryOptions(rawValue: 1 << 2) }
    /// A shared subscription brought the entry: another session may get it instead.
    @inlinable
    public static var shared: EntryOptions { EntryOptions(rawValue: 1 << 3) }
    /// A subscription of this session brought the entry, or the message went to all sessions of the
    /// time: it is not one of its user's messages.
    @inlinable
    public static var ownOnly: EntryOptions { EntryOptions(rawValue: 1 << 4) }
    /// The entry is a kept message of a conversation.
    @inlinable
    public static var kept: EntryOptions { EntryOptions(rawValue: 1 << 5) }
    /// A device may have been sent it from another queue, which has ended: it cannot be withdrawn.
    @inlinable
    public static var sentBefore: EntryOptions { EntryOptions(rawValue: 1 << 6) }
}

/// Removes every entry of the queue whose number is at most `throughNumber`.
public struct QueueAcknowledgement: Hashable, Sendable {
    public var queue: QueueID
    public var throughNumber: UInt64
    /// Requests the number of entries and bytes removed, as a ``QueueTally``. The core needs it
    /// when the entries are not in memory: after a restart or a reconnect.
    public var wantsTally: Bool
    /// The number of the batch's transfers that are applied before, so that the entries they bring
    /// are removed too. It never decreases among acknowledgements that request tallies, and is 0
    /// for all others.
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

/// Removes one entry at any position of the queue. An absent entry is not an error, because it may
/// have expired.
public struct EntryRemoval: Hashable, Sendable {
    public var queue: QueueID
    public var number: UInt64

    public init(queue: QueueID, number: UInt64) {
        self.queue = queue
        self.number = number
    }
}

/// Removes the oldest entries of a queue after `afterNumber`, until at least `count` entries and at
/// least `byteCount` bytes are removed or the queue ends. `afterNumber` is the last number in
/// memory, so that no entry is removed that is being delivered.
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

/// Replaces the state of one entry. An absent entry is not an error.
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

/// Moves one entry into another queue, under a new number there. An absent entry is reported. Its
/// body is not copied, so that no room is needed.
public struct EntryMove: Hashable, Sendable {
    public var queue: QueueID
    public var number: UInt64
    public var destination: QueueID
    public var destinationNumber: UInt64
    /// Its state in the other queue.
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

/// The entries of a queue that a transfer moves.
public enum TransferScope: Hashable, Sendable {
    case all
    /// Entries that shared subscriptions brought and that may go to another of their sessions.
    case shared
    /// Messages to the session's user with a lower id than `before`.
    case userMessages(before: StoredMessageID)

    /// Whether the scope contains an entry.
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

/// Moves entries of one queue to the end of another: the first gets `firstNumber`, the others
/// follow in order. Entries outside the scope stay. The first entry that exceeds a limit and all
/// later ones stay too.
public struct QueueTransfer: Hashable, Sendable {
    public var source: QueueID
    public var destination: QueueID
    public var firstNumber: UInt64
    /// Maximum number of entries. That many numbers are reserved, and later ones may be in use.
    public var countMaximum: UInt64
    /// Maximum number of bytes.
    public var byteMaximum: UInt64
    public var scope: TransferScope
    /// Entries of the source up to this number may have been sent; they get
    /// ``EntryOptions/sentBefore``.
    public var sentThrough: UInt64

    public init(
        source: QueueID, destination: QueueID, firstNumber: UInt64, countMaximum: UInt64,
        byteMaximum: UInt64 = .max, scope: TransferScope = .all, sentThrough: UInt64 = 0
    ) {
        self.sentThrough = sentThrough
        self.source = source
        self.destination = destination
        self.firstNumber = firstNumber
        self.countMaximum = countMaximum
        self.byteMaximum = byteMaximum
        self.scope = scope
    }

    /// Whether the limits allow one more entry after those that were moved.
    @inlinable
    public func hasRoom(behind moved: QueueTally, for byteCount: UInt32) -> Bool {
        moved.count < countMaximum
            && UInt64(byteCount) <= byteMaximum - min(moved.byteCount, byteMaximum)
    }
}

/// Gives a stored body another block, which all its entries have from then on. An absent body is
/// not an error. The room for it is certain, as that of rows.
public struct BodyReplacement: Hashable, Sendable {
    public var message: StoredMessageID
    /// Within `StoreBatch.blocks`.
    public var block: ByteRange

    public init(message: StoredMessageID, block: ByteRange) {
        self.message = message
        self.block = block
    }
}

/// Removes the entry of a message from a queue, unless it may have been sent.
///
/// The entries of a queue are nearly always in the order of their messages, so the entry is found
/// by a binary search. If that finds nothing, at most ``CoreLimits/withdrawalScanMaximum`` entries
/// are examined from the first one on.
public struct EntryWithdrawal: Hashable, Sendable {
    public var queue: QueueID
    public var message: StoredMessageID
    /// Entries up to this number may have been sent, and stay.
    public var afterNumber: UInt64
    /// The entry stays in any case, and is only reported.
    public var isProbe: Bool
    /// The number of the batch's transfers that are applied before. It never decreases.
    public var followsTransfers: Int

    public init(
        queue: QueueID, message: StoredMessageID, afterNumber: UInt64, isProbe: Bool = false,
        followsTransfers: Int = 0
    ) {
        self.queue = queue
        self.message = message
        self.afterNumber = afterNumber
        self.isProbe = isProbe
        self.followsTransfers = followsTransfers
    }

    /// What the withdrawal does with an entry of its message.
    public func outcome(number: UInt64, state: EntryState, byteCount: UInt32) -> WithdrawalOutcome {
        let isSent =
            number <= afterNumber || !state.options.isDisjoint(with: [.sentBefore, .received])
        return WithdrawalOutcome(isSent ? .sent : .found, byteCount: byteCount)
    }
}

/// What a withdrawal found.
public struct WithdrawalOutcome: Hashable, Sendable {
    public enum State: Hashable, Sendable {
        /// The queue has no entry of the message, or none that the search found.
        case absent
        /// The entry may have been sent, and is still there.
        case sent
        /// The entry was removed, or would have been.
        case found
    }

    public var state: State
    /// Bytes of the entry.
    public var byteCount: UInt32

    public init(_ state: State, byteCount: UInt32 = 0) {
        self.state = state
        self.byteCount = byteCount
    }
}

/// Requests the entries of a queue after `afterNumber`, in order, until a limit is reached; at
/// least one entry is read, whatever its size. Expired entries are skipped, removed, and reported
/// with the same result. An inspection changes nothing: it skips expired and damaged entries, which
/// count towards `countMaximum` and stay.
public struct LoadRequest: Hashable, Sendable {
    public var queue: QueueID
    public var afterNumber: UInt64
    /// Reads entries with lower numbers than this, in descending order; nil for ascending order.
    public var beforeNumber: UInt64?
    /// QoS 2 entries up to this number may have been sent to an MQTT client, and do not expire
    /// [MQTT-4.3.3-7]. 0 if there are none.
    public var sentThrough: UInt64
    public var countMaximum: Int
    public var byteMaximum: Int
    /// Whether an operator looks at the queue. The entries may be in a window, so that only the
    /// core knows who counts them.
    public var isInspection: Bool

    public init(
        queue: QueueID, afterNumber: UInt64, beforeNumber: UInt64? = nil,
        sentThrough: UInt64 = 0, countMaximum: Int, byteMaximum: Int, isInspection: Bool = false
    ) {
        self.queue = queue
        self.afterNumber = afterNumber
        self.beforeNumber = beforeNumber
        self.sentThrough = sentThrough
        self.countMaximum = countMaximum
        self.byteMaximum = byteMaximum
        self.isInspection = isInspection
    }
}

/// The reason for which the sends of a batch were not stored. The rest of the batch was.
public enum SendRefusal: Hashable, Sendable {
    /// The limit of the store or the file system has no room for them.
    case full
}

/// The result of a batch.
public struct StoreResult: Sendable {
    public var sequence: UInt64 = 0
    /// Set if `messages`, `entries` and `sendRecords` were left out; the rest is committed. A sync
    /// that fails has no result: the process ends, and the next start reads the last commit.
    public var refusal: SendRefusal?
    /// One for each load request, in the order of the requests.
    public var loads: [LoadedQueue] = []
    /// The bytes to which loaded entries refer.
    public var blocks: [UInt8] = []
    /// One for each acknowledgement that requested a tally.
    public var tallies: [QueueTally] = []
    /// Entries that each trim removed, in the order of the trims.
    public var trimmed: [QueueTally] = []
    /// Entries that each transfer moved, in the order of the transfers, under the destination
    /// queue.
    public var transferred: [QueueTally] = []
    /// One for each withdrawal, in the order of the withdrawals.
    public var withdrawn: [WithdrawalOutcome] = []
    /// Moves whose entry was absent, by their positions in the batch.
    public var missedMoves: [Int] = []
    /// Expired entries that the loads removed.
    public var expired: [QueueTally] = []
    /// Expired entries that the sweep found after the loads had removed theirs. They are still in
    /// the store.
    public var swept: [ExpiredEntry] = []
    /// Entries whose checksum, or whose body's checksum, is wrong. The store has set them aside;
    /// they are never delivered, and each is reported once. The size of an unreadable entry is not
    /// known and counted as 0. These entries were found by loads, trims and acknowledgements that
    /// requested a tally, and are not in those tallies.
    public var damaged: [QueueTally] = []
    /// Number of damaged entries that were to be removed or changed in any case. The core does not
    /// expect them in a tally.
    public var damagedUncounted: UInt64 = 0
    /// Whether the store had no room to remove entries that the loads found expired or damaged.
    /// They are in no tally, and the next load finds them again.
    public var keepsLeaving = false
    /// Whether a deleted queue was too long for one transaction. The store continues with the next
    /// batch, which may be empty.
    public var isUnfinished = false
    /// Whether the store would refuse sends now: it is above its soft limit, or the disk has no
    /// free space. Requests that make state grow (new sessions, retained messages) should be
    /// refused too; the reserve is for requests that make room.
    public var isFull = false
    /// Whether the disk has no free space, which is then the cause.
    public var lacksDiskSpace = false
    /// Bytes of pages that are available for new and longer rows, in all batches until the next
    /// result.
    public var rowRoomByteCount = Int.max
    /// Bytes of the store in use after the commit, and the limit above which sends are refused.
    public var usedBytes: UInt64 = 0
    public var softLimitBytes: UInt64 = .max

    public init() {}

    /// Empties the result for reuse and keeps its memory.
    public mutating func removeAll() {
        sequence = 0
        refusal = nil
        loads.removeAllKeepingCapacity()
        blocks.removeAllKeepingCapacity()
        tallies.removeAllKeepingCapacity()
        trimmed.removeAllKeepingCapacity()
        transferred.removeAllKeepingCapacity()
        withdrawn.removeAllKeepingCapacity()
        missedMoves.removeAllKeepingCapacity()
        expired.removeAllKeepingCapacity()
        swept.removeAllKeepingCapacity()
        damaged.removeAllKeepingCapacity()
        damagedUncounted = 0
        keepsLeaving = false
        isUnfinished = false
        isFull = false
        lacksDiskSpace = false
        rowRoomByteCount = .max
        usedBytes = 0
        softLimitBytes = .max
    }
}

/// The answer to a ``LoadRequest``.
public struct LoadedQueue: Sendable {
    public var queue: QueueID
    public var entries: [LoadedEntry]
    /// Whether the end of the queue was reached.
    public var reachedEnd: Bool
    /// The number of the last entry that was read or skipped; that of the request if there is none.
    public var examinedThrough: UInt64

    public init(
        queue: QueueID, entries: [LoadedEntry], reachedEnd: Bool, examinedThrough: UInt64
    ) {
        self.queue = queue
        self.entries = entries
        self.reachedEnd = reachedEnd
        self.examinedThrough = examinedThrough
    }
}

/// One stored entry with its body.
public struct LoadedEntry: Hashable, Sendable {
    public var number: UInt64
    public var message: StoredMessageID
    public var deadline: Instant
    public var byteCount: UInt32
    public var state: EntryState
    /// The block of the message, within `StoreResult.blocks`.
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

/// A number of entries and bytes of a queue.
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
