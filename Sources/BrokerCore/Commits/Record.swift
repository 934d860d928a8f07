// Durable state besides the queues: sessions, users, tokens, subscriptions, and so on. The core
// writes each as one record under a table and a key, and reads them all at the start. The store
// keeps and checks the bytes without interpreting them, so a new kind of record needs no change
// there.

/// The tables of durable state. Raw values are on disk: never change or reuse one.
public enum RecordTable: UInt8, CaseIterable, Sendable {
    /// Single values of the whole broker, such as the next identifiers.
    case counters = 1
    case apps = 2
    case users = 3
    case tokens = 4
    case sessions = 5
    case subscriptions = 6
    case groups = 7
    case members = 8
    case wills = 9
    case retained = 10
    /// The state of a session as a sender: results of grade *once*, MQTT packet identifiers.
    case outboxes = 11
    /// Queues with the entries that ended sessions had from shared subscriptions.
    case leftovers = 12
    /// Keys that make sends safe to repeat, with the results.
    case sendKeys = 14
    /// The keys of apps.
    case appKeys = 13
    /// Conversations, whose messages are queues.
    case conversations = 15
    /// What members read of conversations.
    case readers = 16
    /// Sends with a reference.
    case trackedSends = 17
    /// The passwords of apps.
    case passwords = 18
    /// Wake targets, and whether a relay was asked to wake their users.
    case wakeTargets = 19
    /// Templates of apps for contents of wake-ups.
    case wakeTemplates = 20
}

/// The kind of a record, which decides whether a store without room writes it.
public enum RecordPart: UInt8, Hashable, BitwiseCopyable, Sendable {
    /// The record is committed in any case.
    case state
    /// The record tells that a send was accepted, or that its message is under way. It is left out
    /// together with the messages and entries of its batch.
    case send
}

/// Puts or deletes one record.
public struct RecordChange: Hashable, Sendable {
    public var table: RecordTable
    /// At most ``keyByteCountMaximum`` bytes. Records of a table are restored in the order of the
    /// bytes of their keys.
    public var key: [UInt8]
    /// The new value, or nil to delete the record. Deleting an absent record is not an error.
    public var value: [UInt8]?
    public var part: RecordPart

    public init(
        table: RecordTable, key: [UInt8], value: [UInt8]?, part: RecordPart = .state
    ) {
        self.table = table
        self.key = key
        self.value = value
        self.part = part
    }

    /// The same change as another part.
    public func asPart(_ part: RecordPart) -> RecordChange {
        RecordChange(table: table, key: key, value: value, part: part)
    }

    /// Bytes of pages that the store may need for it.
    public var pageByteCount: Int {
        RecordChange.pageByteCount(key: key.count, value: value?.count ?? 0)
    }

    /// Bytes of pages that the store may need for a record of this size. LMDB puts a record of more
    /// than half a page on pages that it shares with no other; all other pages are at least half
    /// full.
    static func pageByteCount(key: Int, value: Int) -> Int {
        let page = 4_096
        // The byte of the table, the checksum, and the headers of a page and of a record on it.
        let overhead = 48
        let byteCount = key + value + overhead
        if byteCount <= page / 2 { return 2 * byteCount }
        return (byteCount + page - 1) / page * page + 2 * (key + overhead)
    }

    /// Keys are fixed-size numbers or ids of at most 3 × 64 bytes, so this leaves room below LMDB's
    /// limit of 511.
    public static let keyByteCountMaximum = 256
}
