// The data that the store passes to the core at the start: the records, and an outline of every
// queue. Messages are loaded later, queue by queue.

import Primitives

/// Receives the contents of a store once, before the first batch.
public protocol StoreVisitor: ~Copyable {
    /// One record. Tables come in the order of their raw values, keys within a table in the order
    /// of their bytes. The bytes are valid until the call returns.
    mutating func visitRecord(
        table: RecordTable, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer)

    /// One queue that is not empty, in the order of the ids, after all records.
    mutating func visitQueue(_ outline: QueueOutline)
}

/// The properties of a queue that the core needs. Its entries stay in the store.
public struct QueueOutline: Hashable, Sendable {
    /// Number and bytes of the entries, including expired ones, which loads and sweeps report.
    public var tally: QueueTally
    public var firstNumber: UInt64
    public var lastNumber: UInt64

    public init(tally: QueueTally, firstNumber: UInt64, lastNumber: UInt64) {
        self.tally = tally
        self.firstNumber = firstNumber
        self.lastNumber = lastNumber
    }
}

/// An identifier that no other store and no other boot has: 128 random bits.
public struct StoreIdentity: Hashable, Sendable {
    public var high: UInt64
    public var low: UInt64

    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }
}

/// Time of the store's last commit, by all clocks. After a restart in the same boot of the machine,
/// the elapsed time is exact. After another boot only the wall clock can tell, and the runtime
/// limits how much of it counts.
public struct StoreStamp: Hashable, Sendable {
    public var moment: Moment
    /// The boot of the machine in which it was written, and the milliseconds since that boot
    /// including suspended time (CLOCK_BOOTTIME).
    public var boot: StoreIdentity
    public var bootMilliseconds: UInt64

    public init(moment: Moment, boot: StoreIdentity, bootMilliseconds: UInt64) {
        self.moment = moment
        self.boot = boot
        self.bootMilliseconds = bootMilliseconds
    }
}

/// The result of a restore besides records and queues.
public struct RestoredState: Hashable, Sendable {
    /// Changes when a backup is restored. The core stores the identity that it saw last as a
    /// record. If the two differ, numbers may have gone back, and every session needs a new epoch.
    public var identity: StoreIdentity
    /// The lowest message id that may be used from now on.
    public var nextMessage: StoredMessageID
    /// The stamp of the last commit; nil in a new store.
    public var stamp: StoreStamp?
    /// Entries whose checksum was wrong and that were set aside; no outline contains them.
    public var damaged: [QueueTally]
    /// See ``StoreResult/isFull``.
    public var isFull = false
    public var lacksDiskSpace = false
    public var rowRoomByteCount = Int.max
    /// See ``StoreResult/usedBytes``.
    public var usedBytes: UInt64 = 0
    public var softLimitBytes: UInt64 = 0

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
