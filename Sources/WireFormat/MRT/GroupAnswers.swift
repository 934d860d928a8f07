// What the broker tells of groups: the results of list and describe, and the events that members
// get in a DELIVER of kind 7. Ranges are relative to the content, or the payload, that was decoded.
//
//     21 list      | u8 more | run of: string8 group, string8 title, u8 own |
//     22 describe  | u8 flags | string8 owner | string8 title | varint members in all |
//                  | stringv meta |
//                  | run of string8 member |
//        flags     4: more members follow   2: the asking user owns it   1: has an allow list
//     event        | 1 joined, 2 left, 3 kicked | rest: user |
//                  | 4 allow list updated | allow list |
//                  | 5 meta updated | rest: meta |
//                  | 7 added | u8 1 if it is cut | u32 members, least significant byte first |
//                  |         | string8 owner | string8 title | rest: meta |
//                  | 8 removed |

import Primitives

extension MRT {
    /// The result of ``Operation/groupList``.
    public struct GroupList: Hashable, Sendable, RequestPart {
        /// Ask again, after the last id of this page.
        public var hasMore: Bool
        /// The groups; ``GroupEntryList`` walks them.
        public var entries: ByteRange

        public init(hasMore: Bool, entries: ByteRange) {
            self.hasMore = hasMore
            self.entries = entries
        }

        public init(_ content: RawSpan) throws(WireError) {
            var reader = PacketReader(content)
            hasMore = try reader.readFlag()
            let start = reader.offset
            while !reader.isAtEnd {
                _ = try reader.readString8(1...WireLimits.identifierByteCountMaximum)
                _ = try reader.readString8()
                _ = try reader.readFlag()
            }
            entries = ByteRange(offset: start, count: reader.offset - start)
            // Without a last id there is nothing to ask after.
            guard !(hasMore && entries.isEmpty) else { throw .malformed }
        }

        public var byteCount: Int { 1 + Int(entries.count) }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(byte: hasMore ? 1 : 0)
            writer.write(bytes: entries.bytes(in: source))
        }
    }

    /// One group of the user who asked.
    public struct GroupEntry: Hashable, Sendable {
        public var group: ByteRange
        public var title: ByteRange
        /// Whether the user owns it.
        public var isOwn: Bool

        /// Bytes of an entry, given those of its strings.
        public static func byteCount(group: Int, title: Int) -> Int { 3 + group + title }
    }

    /// Walks the entries of a ``GroupList``.
    public struct GroupEntryList: ~Escapable {
        private let bytes: RawSpan
        private var offset: Int
        private let end: Int

        /// `range` is one that ``GroupList`` gave out for `bytes`.
        @_lifetime(copy bytes)
        public init(_ range: ByteRange, in bytes: RawSpan) {
            precondition(
                range.endOffset <= bytes.byteCount,
                "a range to \(range.endOffset) of \(bytes.byteCount) bytes")
            self.bytes = bytes
            offset = Int(range.offset)
            end = range.endOffset
        }

        /// The next entry, relative to the buffer.
        public mutating func next() -> GroupEntry? {
            guard offset < end else { return nil }
            let group = ByteRange(offset: offset + 1, count: Int(bytes[offset]))
            let title = ByteRange(
                offset: group.endOffset + 1, count: Int(bytes[group.endOffset]))
            let isOwn = bytes[title.endOffset] == 1
            offset = title.endOffset + 1
            precondition(offset <= end, "an unchecked list: offset \(offset) of \(end)")
            return GroupEntry(group: group, title: title, isOwn: isOwn)
        }
    }

    /// The result of ``Operation/groupDescribe``.
    public struct GroupDescription: Hashable, Sendable, RequestPart {
        /// Whether only those on its allow list may join.
        public var hasAllowList: Bool
        /// Whether the asking user owns it.
        public var isOwn: Bool
        /// Ask again, after the last member of this page.
        public var hasMoreMembers: Bool
        public var owner: ByteRange
        public var title: ByteRange
        /// Members in all, on this page and off it.
        public var memberCount: UInt32
        public var meta: ByteRange
        /// The members of this page; ``IdentifierList`` walks them.
        public var members: ByteRange

        private enum Flag {
            static var allowList: UInt8 { 0x01 }
            static var own: UInt8 { 0x02 }
            static var more: UInt8 { 0x04 }
            static var all: UInt8 { 0x07 }
        }

        public init(
            hasAllowList: Bool, isOwn: Bool, hasMoreMembers: Bool, owner: ByteRange,
            title: ByteRange, memberCount: UInt32, meta: ByteRange, members: ByteRange
        ) {
            self.hasAllowList = hasAllowList
            self.isOwn = isOwn
            self.hasMoreMembers = hasMoreMembers
            self.owner = owner
            self.title = title
            self.memberCount = memberCount
            self.meta = meta
            self.members = members
        }

        public init(_ content: RawSpan) throws(WireError) {
            var reader = PacketReader(content)
            let flags = try reader.readByte()
            guard flags & ~Flag.all == 0 else { throw .malformed }
            hasAllowList = flags & Flag.allowList != 0
            isOwn = flags & Flag.own != 0
            hasMoreMembers = flags & Flag.more != 0
            owner = try reader.readString8(1...WireLimits.identifierByteCountMaximum)
            title = try reader.readString8()
            memberCount = try reader.readVarInt(in: 0...UInt32.max)
            meta = try reader.readStringV(0...WireLimits.remainingLengthMaximum)
            members = try reader.readRun().strings
            guard !(hasMoreMembers && members.isEmpty) else { throw .malformed }
        }

        public var byteCount: Int {
            1 + owner.string8ByteCount + title.string8ByteCount
                + VariableInteger.byteCount(memberCount) + meta.stringVByteCount
                + Int(members.count)
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(
                byte: (hasAllowList ? Flag.allowList : 0) | (isOwn ? Flag.own : 0)
                    | (hasMoreMembers ? Flag.more : 0))
            writer.write(string8: owner.bytes(in: source))
            writer.write(string8: title.bytes(in: source))
            writer.write(varInt: memberCount)
            writer.write(stringV: meta.bytes(in: source))
            writer.write(bytes: members.bytes(in: source))
        }
    }

    /// What happened in a group: the payload of a
    /// ``DeliveryKind/groupEvent``.
    public enum GroupEvent: Hashable, Sendable, RequestPart {
        case joined(user: ByteRange)
        case left(user: ByteRange)
        case kicked(user: ByteRange)
        case allowListUpdated(AllowList)
        case metaUpdated(ByteRange)
        case historyUpdated(isKept: Bool, shownCount: UInt32)
        /// The receiver is a member from now on.
        case added(GroupNotice)
        /// The receiver is a member no more: it left on another device, or an operator removed it.
        case removed

        /// Reads a payload; nil for an event that this program does not know, which is not an
        /// error.
        public init?(_ payload: RawSpan) throws(WireError) {
            try self.init(ByteRange(offset: 0, count: payload.byteCount), in: payload)
        }

        /// The same of a payload within `body`, whose ranges are then within `body` too.
        public init?(
            _ payload: ByteRange, in body: RawSpan
        ) throws(WireError) {
            let bytes = body.extracting(..<payload.endOffset)
            var reader = PacketReader(bytes, from: Int(payload.offset))
            switch try reader.readByte() {
            case 1: self = .joined(user: try reader.readUser())
            case 2: self = .left(user: try reader.readUser())
            case 3: self = .kicked(user: try reader.readUser())
            case 4: self = .allowListUpdated(try AllowList(&reader))
            case 5: self = .metaUpdated(reader.readRest())
            case 6:
                let isKept = try reader.readFlag()
                self = .historyUpdated(isKept: isKept, shownCount: try reader.readReversed4())
            case 7: self = .added(try GroupNotice(&reader))
            case 8:
                self = .removed
                try reader.expectEnd()
            default: return nil
            }
        }

        public var byteCount: Int {
            switch self {
            case .joined(let rest), .left(let rest), .kicked(let rest), .metaUpdated(let rest):
                1 + Int(rest.count)
            case .allowListUpdated(let list): 1 + list.byteCount
            case .historyUpdated: 6
            case .added(let notice): 1 + notice.byteCount
            case .removed: 1
            }
        }

        private var code: UInt8 {
            switch self {
            case .joined: 1
            case .left: 2
            case .kicked: 3
            case .allowListUpdated: 4
            case .metaUpdated: 5
            case .historyUpdated: 6
            case .added: 7
            case .removed: 8
            }
        }

        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(byte: code)
            switch self {
            case .joined(let rest), .left(let rest), .kicked(let rest), .metaUpdated(let rest):
                writer.write(bytes: rest.bytes(in: source))
            case .allowListUpdated(let list): list.write(to: &writer, from: source)
            case .historyUpdated(let isKept, let shownCount):
                writer.write(byte: isKept ? 1 : 0)
                writer.write(reversed4: shownCount)
            case .added(let notice): notice.write(to: &writer, from: source)
            case .removed: break
            }
        }
    }
}

extension PacketReader {
    /// One byte, 0 or 1.
    mutating func readFlag() throws(WireError) -> Bool {
        let byte = try readByte()
        guard byte <= 1 else { throw .malformed }
        return byte == 1
    }

    /// Four bytes, the least significant one first.
    fileprivate mutating func readReversed4() throws(WireError) -> UInt32 {
        // Not a loop over a list: Embedded Swift would link every constant of this module.
        var number = UInt32(try readByte())
        number |= UInt32(try readByte()) << 8
        number |= UInt32(try readByte()) << 16
        number |= UInt32(try readByte()) << 24
        return number
    }

    /// The rest, which is the id of a user.
    fileprivate mutating func readUser() throws(WireError) -> ByteRange {
        let user = readRest()
        guard (1...WireLimits.identifierByteCountMaximum).contains(Int(user.count)) else {
            throw .malformed
        }
        return user
    }
}

extension MRT {
    /// What a new member learns of its group.
    public struct GroupNotice: Hashable, Sendable, RequestPart {
        /// Something is left out: the meta, because it is long, or everything, because the receiver
        /// accepts short packets only. ``Operation/groupDescribe`` tells it.
        public var isCut: Bool
        /// The number of all members.
        public var memberCount: UInt32
        /// Empty only if the notice is cut.
        public var owner: ByteRange
        public var title: ByteRange
        public var meta: ByteRange

        public init(
            isCut: Bool = false, memberCount: UInt32, owner: ByteRange, title: ByteRange,
            meta: ByteRange
        ) {
            self.isCut = isCut
            self.memberCount = memberCount
            self.owner = owner
            self.title = title
            self.meta = meta
        }

        init(_ reader: inout PacketReader) throws(WireError) {
            isCut = try reader.readFlag()
            memberCount = try reader.readReversed4()
            owner = try reader.readString8(0...WireLimits.identifierByteCountMaximum)
            title = try reader.readString8()
            meta = reader.readRest()
        }

        public var byteCount: Int {
            5 + owner.string8ByteCount + title.string8ByteCount + Int(meta.count)
        }

        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(byte: isCut ? 1 : 0)
            writer.write(reversed4: memberCount)
            writer.write(string8: owner.bytes(in: source))
            writer.write(string8: title.bytes(in: source))
            writer.write(bytes: meta.bytes(in: source))
        }
    }
}

extension PacketWriter {
    /// Four bytes, the least significant one first.
    fileprivate mutating func write(reversed4 number: UInt32) {
        write(byte: UInt8(truncatingIfNeeded: number))
        write(byte: UInt8(truncatingIfNeeded: number >> 8))
        write(byte: UInt8(truncatingIfNeeded: number >> 16))
        write(byte: UInt8(truncatingIfNeeded: number >> 24))
    }
}
