// What a REQUEST about conversations holds, and its result. Ranges are relative to the parameters,
// or the content, that was decoded.
//
//     25 history  | u8 0 user, 2 group | string8 name | varint before | u8 count |
//                 | or u8 4 topic | stringv topic | varint before | u8 count |
//       ->        | varint next, 0 at the end |
//                 | run of: varint number, string8 from, varint time ms, stringv t and b |
//                 |         of a topic: stringv u8 form, then for 0 t and b, for 1 raw bytes |
//     26 list     | varint after | u8 options | u8 count |
//                 | options: 1 with unread messages only, 2 with the newest message |
//       ->        | varint next, 0 at the end |
//                 | run of: u8 0 user, 2 group, string8 name, varint last number, varint read |
//                 |         varint unread; with the newest message: varint number, 0 for none, |
//                 |         string8 from, varint time ms, stringv t and b |
//     27 read     | u8 0 user, 2 group | string8 name | varint number |
//     42 hide     | the same |
//     43 search   | as of 25 |
//                 | string8 from | varint since, ms | varint until, ms, 0 for now | rest: text |
//       ->        | as of 25 |

import Primitives

extension MRT {
    /// The other party of a conversation.
    public enum ConversationParty: Hashable, Sendable {
        case user(ByteRange)
        case group(ByteRange)
        /// Only in ``HistoryQuery``: a topic has no members, and so no conversation in a list and
        /// no read mark.
        case topic(ByteRange)

        /// As in ``Target``.
        var code: UInt8 {
            switch self {
            case .user: 0
            case .group: 2
            case .topic: 4
            }
        }

        init(_ reader: inout PacketReader, allowsTopic: Bool = false) throws(WireError) {
            switch try reader.readByte() {
            case 0: self = .user(try reader.readString8())
            case 2: self = .group(try reader.readString8())
            case 4 where allowsTopic:
                self = .topic(try reader.readStringV(1...WireLimits.topicByteCountMaximum))
            default: throw .malformed
            }
        }

        var byteCount: Int {
            switch self {
            case .user(let name), .group(let name): 1 + name.string8ByteCount
            case .topic(let name): 1 + name.stringVByteCount
            }
        }
        func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(byte: code)
            switch self {
            case .user(let name), .group(let name):
                writer.write(string8: name.bytes(in: source))
            case .topic(let name): writer.write(stringV: name.bytes(in: source))
            }
        }

        /// The id of the user or the group, or the topic.
        public var name: ByteRange {
            switch self {
            case .user(let name), .group(let name), .topic(let name): name
            }
        }
    }

    /// The form of a message in a page of a topic: the first byte of its payload.
    public enum KeptForm: UInt8, Hashable, Sendable {
        /// `t` as one byte, then `b`.
        case text = 0
        /// The bytes as they were published.
        case raw = 1
    }

    /// The parameters of ``Operation/history``: a page of kept messages, the newest first.
    public struct HistoryQuery: Hashable, Sendable, RequestPart {
        public var party: ConversationParty
        /// The page begins with the newest message of a lower number; 0 for the newest of all.
        public var before: UInt64
        /// Messages of the page, 1...``WireLimits/historyCountMaximum``.
        public var count: UInt8
        /// Whether the page has the fields of the messages.
        public var wantsFields: Bool

        /// Set in the byte of the count.
        private static let fieldsBit: UInt8 = 0x80

        public init(
            party: ConversationParty, before: UInt64 = 0, count: UInt8, wantsFields: Bool = false
        ) {
            self.party = party
            self.before = before
            self.count = count
            self.wantsFields = wantsFields
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            try self.init(&reader)
            try reader.expectEnd()
        }

        init(_ reader: inout PacketReader) throws(WireError) {
            party = try ConversationParty(&reader, allowsTopic: true)
            before = try reader.readVarInt()
            let byte = try reader.readByte()
            count = byte & ~Self.fieldsBit
            wantsFields = byte & Self.fieldsBit != 0
            guard (1...WireLimits.historyCountMaximum).contains(count) else { throw .malformed }
        }

        public var byteCount: Int {
            party.byteCount + VariableInteger.byteCount(before) + 1
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            party.write(to: &writer, from: source)
            writer.write(varInt: before)
            writer.write(byte: count | (wantsFields ? Self.fieldsBit : 0))
        }
    }

    /// The parameters of ``Operation/searchHistory``: those messages of a page that match.
    public struct HistorySearchQuery: Hashable, Sendable, RequestPart {
        /// ``HistoryQuery/count`` messages are read, whatever they contain.
        public var query: HistoryQuery
        /// Only messages of this user; empty for all.
        public var from: ByteRange
        /// Only messages of this time or later, in Unix milliseconds.
        public var since: UInt64
        /// Only messages before this time; 0 for all.
        public var until: UInt64
        /// Only messages that contain this text; empty for all. The broker refuses more than
        /// ``WireLimits/searchByteCountMaximum`` bytes.
        public var text: ByteRange

        public init(
            query: HistoryQuery, from: ByteRange = .empty, since: UInt64 = 0, until: UInt64 = 0,
            text: ByteRange = .empty
        ) {
            self.query = query
            self.from = from
            self.since = since
            self.until = until
            self.text = text
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            query = try HistoryQuery(&reader)
            from = try reader.readString8()
            since = try reader.readVarInt()
            until = try reader.readVarInt()
            text = reader.readRest()
        }

        public var byteCount: Int {
            query.byteCount + from.string8ByteCount + VariableInteger.byteCount(since)
                + VariableInteger.byteCount(until) + Int(text.count)
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            query.write(to: &writer, from: source)
            writer.write(string8: from.bytes(in: source))
            writer.write(varInt: since)
            writer.write(varInt: until)
            writer.write(bytes: text.bytes(in: source))
        }
    }

    /// The result of ``Operation/history`` and ``Operation/searchHistory``.
    public struct HistoryPage: Hashable, Sendable, RequestPart {
        /// What ``HistoryQuery/before`` of the next page is; 0 at the oldest message. A page may
        /// be empty and have a next one.
        public var next: UInt64
        /// The messages; ``HistoryEntryList`` walks them.
        public var entries: ByteRange
        /// Whether they have fields, as the request wanted it.
        public var hasFields: Bool

        public init(next: UInt64, entries: ByteRange, hasFields: Bool = false) {
            self.next = next
            self.entries = entries
            self.hasFields = hasFields
        }

        public init(_ content: RawSpan, hasFields: Bool = false) throws(WireError) {
            var reader = PacketReader(content)
            next = try reader.readVarInt()
            self.hasFields = hasFields
            let start = reader.offset
            while !reader.isAtEnd { _ = try HistoryEntry(&reader, hasFields: hasFields) }
            entries = ByteRange(offset: start, count: reader.offset - start)
        }

        public var byteCount: Int { VariableInteger.byteCount(next) + Int(entries.count) }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(varInt: next)
            writer.write(bytes: entries.bytes(in: source))
        }
    }

    /// One kept message.
    public struct HistoryEntry: Hashable, Sendable, RequestPart {
        /// Its number in the conversation.
        public var number: UInt64
        /// The authenticated sender.
        public var from: ByteRange
        /// Unix milliseconds.
        public var time: UInt64
        /// A block of ``DeliverFields``, maybe empty; nil in a page without fields.
        public var fields: ByteRange?
        /// `t` as one byte, then `b`. In a page of a topic, a byte of ``KeptForm`` before the
        /// content.
        public var payload: ByteRange

        public init(
            number: UInt64, from: ByteRange, time: UInt64, fields: ByteRange? = nil,
            payload: ByteRange
        ) {
            self.number = number
            self.from = from
            self.time = time
            self.fields = fields
            self.payload = payload
        }

        init(_ reader: inout PacketReader, hasFields: Bool) throws(WireError) {
            let number = try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
            try self.init(number: number, &reader, hasFields: hasFields)
        }

        /// Reads what follows the number.
        init(
            number: UInt64, _ reader: inout PacketReader, hasFields: Bool = false
        ) throws(WireError) {
            self.number = number
            from = try reader.readString8(1...WireLimits.identifierByteCountMaximum)
            time = try reader.readVarInt()
            fields =
                hasFields ? try reader.readStringV(0...WireLimits.fieldsByteCountMaximum) : nil
            payload = try reader.readStringV(1...WireLimits.remainingLengthMaximum)
        }

        /// The most that an entry takes, given the bytes of its parts.
        public static func byteCountMaximum(from: Int, payload: Int) -> Int {
            2 * VariableInteger.byteCount(WireLimits.varIntMaximum) + 1 + from + 4 + payload
        }

        public var byteCount: Int {
            VariableInteger.byteCount(number) + from.string8ByteCount
                + VariableInteger.byteCount(time) + (fields?.stringVByteCount ?? 0)
                + payload.stringVByteCount
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(varInt: number)
            writer.write(string8: from.bytes(in: source))
            writer.write(varInt: time)
            if let fields { writer.write(stringV: fields.bytes(in: source)) }
            writer.write(stringV: payload.bytes(in: source))
        }
    }

    /// Walks the entries of a ``HistoryPage``.
    public struct HistoryEntryList: ~Escapable {
        private var reader: PacketReader
        private let hasFields: Bool

        /// `page` was decoded from `bytes`.
        @_lifetime(copy bytes)
        public init(_ page: HistoryPage, in bytes: RawSpan) {
            let range = page.entries
            hasFields = page.hasFields
            precondition(
                range.endOffset <= bytes.byteCount,
                "a range to \(range.endOffset) of \(bytes.byteCount) bytes")
            reader = PacketReader(bytes.extracting(..<range.endOffset), from: Int(range.offset))
        }

        /// The next entry, relative to the buffer.
        public mutating func next() -> HistoryEntry? {
            // They were checked when the page was decoded.
            reader.isAtEnd ? nil : try? HistoryEntry(&reader, hasFields: hasFields)
        }
    }

    // MARK: - Conversations

    /// The parameters of ``Operation/conversations``: a page of the user's conversations.
    public struct ConversationQuery: Hashable, Sendable, RequestPart {
        /// The page begins after this place; 0 for the first page.
        public var after: UInt64
        /// Whether only conversations with unread messages are listed.
        public var isUnreadOnly: Bool
        /// Whether the newest message of each is told too.
        public var wantsMessages: Bool
        /// Conversations of the page, 1...``WireLimits/historyCountMaximum``.
        public var count: UInt8

        public init(
            after: UInt64 = 0, isUnreadOnly: Bool = false, wantsMessages: Bool = false,
            count: UInt8
        ) {
            self.after = after
            self.isUnreadOnly = isUnreadOnly
            self.wantsMessages = wantsMessages
            self.count = count
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            after = try reader.readVarInt()
            let options = try reader.readByte()
            guard options <= 3 else { throw .malformed }
            isUnreadOnly = options & 1 != 0
            wantsMessages = options & 2 != 0
            count = try reader.readByte()
            guard (1...WireLimits.historyCountMaximum).contains(count) else { throw .malformed }
            try reader.expectEnd()
        }

        public var byteCount: Int { VariableInteger.byteCount(after) + 2 }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(varInt: after)
            writer.write(byte: (isUnreadOnly ? 1 : 0) | (wantsMessages ? 2 : 0))
            writer.write(byte: count)
        }
    }

    /// The result of ``Operation/conversations``.
    public struct ConversationList: Hashable, Sendable, RequestPart {
        /// What ``ConversationQuery/after`` of the next page is; 0 at the end. A page may be empty
        /// and have a next one.
        public var next: UInt64
        /// The conversations; ``ConversationEntryList`` walks them.
        public var entries: ByteRange

        public init(next: UInt64, entries: ByteRange) {
            self.next = next
            self.entries = entries
        }

        /// - Parameter hasMessages: whether the request wanted the newest messages.
        public init(_ content: RawSpan, hasMessages: Bool = false) throws(WireError) {
            var reader = PacketReader(content)
            next = try reader.readVarInt()
            let start = reader.offset
            while !reader.isAtEnd {
                _ = try ConversationEntry(&reader, hasMessage: hasMessages)
            }
            entries = ByteRange(offset: start, count: reader.offset - start)
        }

        public var byteCount: Int { VariableInteger.byteCount(next) + Int(entries.count) }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(varInt: next)
            writer.write(bytes: entries.bytes(in: source))
        }
    }

    /// One conversation of the user.
    public struct ConversationEntry: Hashable, Sendable, RequestPart {
        public var party: ConversationParty
        /// The number of the newest kept message.
        public var lastNumber: UInt64
        /// The user has read up to this number; 0 if nothing.
        public var readThrough: UInt64
        /// Unread messages of others.
        public var unreadCount: UInt64
        /// The newest kept message, if the request wanted it.
        public var newest: NewestMessage?

        public init(
            party: ConversationParty, lastNumber: UInt64, readThrough: UInt64, unreadCount: UInt64,
            newest: NewestMessage? = nil
        ) {
            self.party = party
            self.lastNumber = lastNumber
            self.readThrough = readThrough
            self.unreadCount = unreadCount
            self.newest = newest
        }

        init(_ reader: inout PacketReader, hasMessage: Bool) throws(WireError) {
            party = try ConversationParty(&reader)
            lastNumber = try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
            readThrough = try reader.readVarInt()
            unreadCount = try reader.readVarInt()
            if hasMessage { newest = try NewestMessage(&reader) }
        }

        public var byteCount: Int {
            party.byteCount + VariableInteger.byteCount(lastNumber)
                + VariableInteger.byteCount(readThrough) + VariableInteger.byteCount(unreadCount)
                + (newest?.byteCount ?? 0)
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            party.write(to: &writer, from: source)
            writer.write(varInt: lastNumber)
            writer.write(varInt: readThrough)
            writer.write(varInt: unreadCount)
            newest?.write(to: &writer, from: source)
        }
    }

    /// Walks the entries of a ``ConversationList``.
    public struct ConversationEntryList: ~Escapable {
        private var reader: PacketReader
        private let hasMessages: Bool

        /// `range` is one that ``ConversationList`` gave out for `bytes`.
        @_lifetime(copy bytes)
        public init(_ range: ByteRange, in bytes: RawSpan, hasMessages: Bool = false) {
            self.hasMessages = hasMessages
            precondition(
                range.endOffset <= bytes.byteCount,
                "a range to \(range.endOffset) of \(bytes.byteCount) bytes")
            reader = PacketReader(bytes.extracting(..<range.endOffset), from: Int(range.offset))
        }

        /// The next entry, relative to the buffer.
        public mutating func next() -> ConversationEntry? {
            // They were checked when the list was decoded.
            reader.isAtEnd ? nil : try? ConversationEntry(&reader, hasMessage: hasMessages)
        }
    }

    /// The parameters of ``Operation/markRead``: the user has read a conversation up to a number;
    /// and of ``Operation/hideHistory``: it does not want to see it up to there.
    public struct ReadMark: Hashable, Sendable, RequestPart {
        public var party: ConversationParty
        /// The number of a kept message.
        public var number: UInt64

        public init(party: ConversationParty, number: UInt64) {
            self.party = party
            self.number = number
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            party = try ConversationParty(&reader)
            number = try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
            try reader.expectEnd()
        }

        public var byteCount: Int { party.byteCount + VariableInteger.byteCount(number) }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            party.write(to: &writer, from: source)
            writer.write(varInt: number)
        }
    }
}
