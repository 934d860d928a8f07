// A user's requests about conversations and kept messages, and their answers, as plain data.

import Primitives

/// A request for a page of a conversation that the user takes part in, the newest message first.
public struct HistoryRequest: Sendable {
    public enum Party: Sendable {
        /// The other user; the same user for messages to oneself.
        case user(ByteRange)
        case group(ByteRange)
        /// A topic, which has no read marks.
        case topic(ByteRange)

        /// The name of the user, the group or the topic.
        var name: ByteRange {
            switch self {
            case .user(let name), .group(let name), .topic(let name): name
            }
        }
    }

    public var party: Party
    /// The page begins with the newest message of a lower number.
    public var before: UInt64
    /// Messages that are read for the page; at least 1.
    public var countMaximum: Int
    /// Bytes of the answer.
    public var byteCountMaximum: Int
    /// Whether the answer has the fields of the messages.
    public var wantsFields = false
    /// Only these of the messages that are read are in the answer.
    public var search = Search()

    /// What a user looks for. The ranges are in the bytes of the event; empty ones mean everything.
    public struct Search: Sendable {
        public var text = ByteRange.empty
        public var sender = ByteRange.empty
        /// The first time, in Unix milliseconds.
        public var since: UInt64 = 0
        /// The first time that is too late.
        public var until = UInt64.max

        public init() {}
    }

    public init(party: Party, before: UInt64, countMaximum: Int, byteCountMaximum: Int) {
        self.party = party
        self.before = before
        self.countMaximum = countMaximum
        self.byteCountMaximum = byteCountMaximum
    }
}

/// One message of an answer.
public struct HistoryEntry: Hashable, Sendable {
    public var number: UInt64
    /// The block of the message, in the event loop's bytes.
    public var block: ByteRange
}

extension HistoryEntry {
    /// Bytes of an entry before its block.
    static let headByteCount = 12
    /// Bytes that an entry takes on the wire besides its sender and its payload, at most.
    static let wireOverhead = 2 * 9 + 1 + 4
    /// Bytes that tell the form of a message of a topic.
    static let formOverhead = 1
    /// Bytes of the length of its fields, at most.
    static let fieldsOverhead = 2

    /// The messages of an answer: for each its number in eight bytes, the length of its block in
    /// four, and the block.
    public static func read(_ range: ByteRange, in bytes: RawSpan) -> [HistoryEntry] {
        var entries: [HistoryEntry] = []
        var offset = Int(range.offset)
        while offset < range.endOffset {
            let entry = read(at: offset, in: bytes)
            entries.append(entry)
            offset = entry.block.endOffset
        }
        return entries
    }

    static func read(at offset: Int, in bytes: RawSpan) -> HistoryEntry {
        let count = UInt32(littleEndian: bytes.loadInteger(at: offset + 8, as: UInt32.self))
        return HistoryEntry(
            number: UInt64(littleEndian: bytes.loadInteger(at: offset, as: UInt64.self)),
            block: ByteRange(offset: offset + headByteCount, count: Int(count)))
    }
}

/// A request for a page of the conversations that the user takes part in and that have kept
/// messages.
public struct ConversationListRequest: Sendable {
    /// The page begins after this place, which an earlier page has told; 0 for the first page.
    public var after: UInt64
    /// Whether only conversations with unread messages are listed.
    public var isUnreadOnly: Bool
    /// Whether the newest message of each is told too.
    public var wantsMessages: Bool
    /// Conversations that the page has at most; at least 1.
    public var countMaximum: Int
    /// Bytes of the answer.
    public var byteCountMaximum: Int

    public init(
        after: UInt64, isUnreadOnly: Bool, wantsMessages: Bool = false, countMaximum: Int,
        byteCountMaximum: Int
    ) {
        self.after = after
        self.isUnreadOnly = isUnreadOnly
        self.wantsMessages = wantsMessages
        self.countMaximum = countMaximum
        self.byteCountMaximum = byteCountMaximum
    }
}

/// A user has read a conversation up to a number.
public struct ReadMarkRequest: Sendable {
    public var party: HistoryRequest.Party
    /// The number of a kept message; at least 1.
    public var number: UInt64
    /// The user does not want to see these messages again.
    public var hides: Bool

    public init(party: HistoryRequest.Party, number: UInt64, hides: Bool = false) {
        self.party = party
        self.number = number
        self.hides = hides
    }
}

/// One conversation of an answer. Ranges are in the event loop's bytes.
public struct ConversationEntry: Hashable, Sendable {
    public var isGroup: Bool
    /// The other user, or the id of the group.
    public var name: ByteRange
    /// The number of the newest message.
    public var lastNumber: UInt64
    /// The user has read up to this number; 0 if nothing.
    public var readThrough: UInt64
    /// Unread messages of others.
    public var unreadCount: UInt64
    /// The newest message, if the request wanted it.
    public var newest: NewestMessage?
}

/// The newest message that a reader of a conversation sees.
public struct NewestMessage: Hashable, Sendable {
    /// Nil if there is none any more.
    public var message: HistoryEntry?
}

extension ConversationEntry {
    /// What the byte of an entry tells.
    struct Marks: OptionSet {
        var rawValue: UInt8
        static let group = Marks(rawValue: 1)
        /// The request wanted the newest message.
        static let newest = Marks(rawValue: 2)
        /// There is a message.
        static let message = Marks(rawValue: 4)
    }

    /// Bytes of an entry before its name.
    static let headByteCount = 26
    /// Bytes that an entry takes on the wire besides its name, at most.
    static let wireOverhead = 2 + 3 * 9

    /// The conversations of an answer: for each the last number, the number read through and the
    /// unread messages in eight bytes each, one byte of ``Marks``, the length of the name in one
    /// byte, the name, and the newest message as ``HistoryEntry/read(_:in:)`` reads it, if there is
    /// one.
    public static func read(_ range: ByteRange, in bytes: RawSpan) -> [ConversationEntry] {
        func number(_ offset: Int) -> UInt64 {
            UInt64(littleEndian: bytes.loadInteger(at: offset, as: UInt64.self))
        }
        var entries: [ConversationEntry] = []
        var offset = Int(range.offset)
        while offset < range.endOffset {
            let name = ByteRange(
                offset: offset + headByteCount, count: Int(bytes[offset + 25]))
            let marks = Marks(rawValue: bytes[offset + 24])
            var entry = ConversationEntry(
                isGroup: marks.contains(.group), name: name, lastNumber: number(offset),
                readThrough: number(offset + 8), unreadCount: number(offset + 16))
            offset = name.endOffset
            if marks.contains(.newest) { entry.newest = NewestMessage(message: nil) }
            if marks.contains(.message) {
                let message = HistoryEntry.read(at: offset, in: bytes)
                entry.newest = NewestMessage(message: message)
                offset = message.block.endOffset
            }
            entries.append(entry)
        }
        return entries
    }
}
