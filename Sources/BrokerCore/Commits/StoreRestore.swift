// What a store tells the core when the broker starts: the records and the outline of every queue.
// Messages are not part of it; they are loaded queue by queue when somebody asks for them.

import Primitives

/// Receives what a store holds, once, before the first batch.
public protocol StoreVisitor: ~Copyable {
    /// One record. Tables come in the order of their raw values, keys within a table in the order
    /// of their bytes. The bytes are valid until the call returns.
    mutating func visitRecord(
        table: RecordTable, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer)

    /// One queue that is not empty, in the order of the ids, after all records.
    mutating func visitQueue(_ outline: QueueOutline)
}

/// What the core must know of a queue whose entries stay in the store.
public struct QueueOutline: Hashable, Sendable {
    /// Entries and their bytes, expired ones included: they leave, and are reported, by loads and
    /// sweeps.
    public var tally: QueueTally
    public var firstNumber: UInt64
    public var lastNumber: UInt64

    public init(tally: QueueTally, firstNumber: UInt64, lastNumber: UInt64) {
        self.tally = tally
        self.firstNumber = firstNumber
        self.lastNumber = lastNumber
    }
}

/// A name that no other store and no other boot has: 128 bits, random.
public struct StoreIdentity: Hashable, Sendable {
    public var high: UInt64
    public var low: UInt64

    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }
}

/// When the store last committed, by every clock there is. A restart on the same boot of the
/// machine knows exactly how long ago that was; after another boot only the wall clock can tell,
/// and the runtime bounds what it believes.
public struct StoreStamp: Hashable, Sendable {
    public var moment: Moment
    /// The boot of the machine it was written in, and the milliseconds since that boot, suspended
    /// time included (CLOCK_BOOTTIME).
    public var boot: StoreIdentity
    public var bootMilliseconds: UInt64

    public init(moment: Moment, boot: StoreIdentity, bootMilliseconds: UInt64) {
        self.moment = moment
        self.boot = boot
        self.bootMilliseconds = bootMilliseconds
    }
}

/// What a restore says beside records and queues.
public struct RestoredState: Hashable, Sendable {
    /// Changes when a backup is restored. The core keeps the identity it last saw as a record;
    /// where the two differ, numbers may have gone back, and every epoch must be renewed.
    public var identity: StoreIdentity
    /// Lower than every message id that may be used from now on is this one; it may be used itself.
    public var nextMessage: StoredMessageID
    /// The last commit's; nil in a new store.
    public var stamp: StoreStamp?
    /// Entries that failed their checksum and were set aside; they are in no outline.
    public var damaged: [QueueTally]
    /// As in ``StoreResult``.
    public var isFull = false
    public var rowRoomByteCount = Int.max

    public init(
        identity: StoreIdentity, nextMessage: StoredMessageID, stamp: StoreStamp?,
        damaged: [QueueTally]
    ) {
        self.identity = identity
        self.nextMessage = nextMessage
        self.stamp = stamp
        self.damaged = damaged
    }
}
