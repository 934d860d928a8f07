// What the operations 16 to 24 ask of groups. Ranges are relative to the parameters that were
// decoded.
//
//     16 create          | fixed8 key | string8 title | stringv meta | allow list |
//     17 join            | string8 group | varint backlog, may be absent |
//     18 leave           | string8 group |
//     19 kick, 20 ban    | string8 group | string8 user |
//     21 list            | string8 after |
//     22 describe        | string8 group | string8 after |
//     23 set meta        | string8 group | rest: meta |
//     24 set allow list  | string8 group | allow list |
//
//     allow list: | 0 | for everybody, or | 1 | run of string8 user | up to the end
//
// Decoding checks the structure. Whether ids, title and meta obey their rules is each request's own
// matter: ``TextRules`` tells, and a bad one refuses the request and ends no connection.

import Primitives

extension MRT {
    /// Who may join a group. It is the last part of whatever it is in: its run has no other end.
    public enum AllowList: Hashable, Sendable {
        case everybody
        /// `count` ids, each with its byte of length; ``IdentifierList`` walks them. 0 for nobody.
        case only(count: Int, ids: ByteRange)

        init(_ reader: inout PacketReader) throws(WireError) {
            let form = try reader.readByte()
            switch form {
            case 0:
                self = .everybody
                try reader.expectEnd()
            case 1:
                let run = try reader.readRun()
                self = .only(count: run.count, ids: run.strings)
            default: throw .malformed
            }
        }

        var byteCount: Int {
            switch self {
            case .everybody: 1
            case .only(_, let ids): 1 + Int(ids.count)
            }
        }

        func write(to writer: inout PacketWriter, from source: RawSpan) {
            switch self {
            case .everybody: writer.write(byte: 0)
            case .only(_, let ids):
                writer.write(byte: 1)
                writer.write(bytes: ids.bytes(in: source))
            }
        }
    }

    /// The parameters of ``Operation/groupCreate``. The result is the new group's id, as it stands.
    public struct GroupCreate: Hashable, Sendable, RequestPart {
        /// Random, and the same whenever this very request is repeated: by it the broker tells a
        /// repetition after a lost connection from a second group.
        public var key: UInt64
        /// A name for people; ``TextRules/isGroupTitle(_:)`` is its rule.
        public var title: ByteRange
        /// UTF-8 that the broker does not look into; JSON by custom.
        public var meta: ByteRange
        public var allowList: AllowList

        public init(key: UInt64, title: ByteRange, meta: ByteRange, allowList: AllowList) {
            self.key = key
            self.title = title
            self.meta = meta
            self.allowList = allowList
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            key = try reader.readFixed8()
            title = try reader.readString8()
            meta = try reader.readStringV(0...WireLimits.remainingLengthMaximum)
            allowList = try AllowList(&reader)
        }

        public var byteCount: Int {
            8 + title.string8ByteCount + meta.stringVByteCount + allowList.byteCount
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(fixed8: key)
            writer.write(string8: title.bytes(in: source))
            writer.write(stringV: meta.bytes(in: source))
            allowList.write(to: &writer, from: source)
        }
    }

    /// The parameters of ``Operation/groupJoin``.
    public struct GroupJoin: Hashable, Sendable, RequestPart {
        public var group: ByteRange
        /// How many of the newest kept messages the user wants to see from before it joins, at most
        /// ``WireLimits/backlogMaximum``; nil for as many as the group shows to new members.
        public var backlog: UInt32?

        public init(group: ByteRange, backlog: UInt32? = nil) {
            self.group = group
            self.backlog = backlog
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            group = try reader.readString8()
            if !reader.isAtEnd {
                backlog = try reader.readVarInt(in: 0...WireLimits.backlogMaximum)
            }
            try reader.expectEnd()
        }

        public var byteCount: Int {
            group.string8ByteCount + (backlog.map { VariableInteger.byteCount($0) } ?? 0)
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(string8: group.bytes(in: source))
            if let backlog { writer.write(varInt: backlog) }
        }
    }

    /// The parameters of ``Operation/groupLeave`` and ``Operation/groupHistory``.
    public struct GroupName: Hashable, Sendable, RequestPart {
        public var group: ByteRange

        public init(group: ByteRange) {
            self.group = group
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            group = try reader.readString8()
            try reader.expectEnd()
        }

        public var byteCount: Int { group.string8ByteCount }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(string8: group.bytes(in: source))
        }
    }

    /// The parameters of ``Operation/groupKick`` and ``Operation/groupBan``.
    public struct GroupMember: Hashable, Sendable, RequestPart {
        public var group: ByteRange
        public var user: ByteRange

        public init(group: ByteRange, user: ByteRange) {
            self.group = group
            self.user = user
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            group = try reader.readString8()
            user = try reader.readString8()
            try reader.expectEnd()
        }

        public var byteCount: Int { group.string8ByteCount + user.string8ByteCount }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(string8: group.bytes(in: source))
            writer.write(string8: user.bytes(in: source))
        }
    }

    /// The parameters of ``Operation/groupList``: a page of the user's groups, in the order of the
    /// bytes of their ids.
    public struct GroupListQuery: Hashable, Sendable, RequestPart {
        /// The page begins behind this id, whether or not it still exists; empty for the first
        /// page.
        public var after: ByteRange

        public init(after: ByteRange = .empty) {
            self.after = after
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            after = try reader.readString8()
            try reader.expectEnd()
        }

        public var byteCount: Int { after.string8ByteCount }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(string8: after.bytes(in: source))
        }
    }

    /// The parameters of ``Operation/groupDescribe``: what a group is, and a page of its members in
    /// the order of the bytes of their ids.
    public struct GroupQuery: Hashable, Sendable, RequestPart {
        public var group: ByteRange
        /// The page begins behind this user, member or not; empty for the first page.
        public var after: ByteRange

        public init(group: ByteRange, after: ByteRange = .empty) {
            self.group = group
            self.after = after
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            group = try reader.readString8()
            after = try reader.readString8()
            try reader.expectEnd()
        }

        public var byteCount: Int { group.string8ByteCount + after.string8ByteCount }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(string8: group.bytes(in: source))
            writer.write(string8: after.bytes(in: source))
        }
    }

    /// The parameters of ``Operation/groupSetMeta``: all of the new meta.
    public struct GroupSetMeta: Hashable, Sendable, RequestPart {
        public var group: ByteRange
        public var meta: ByteRange

        public init(group: ByteRange, meta: ByteRange) {
            self.group = group
            self.meta = meta
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            group = try reader.readString8()
            meta = reader.readRest()
        }

        public var byteCount: Int { group.string8ByteCount + Int(meta.count) }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(string8: group.bytes(in: source))
            writer.write(bytes: meta.bytes(in: source))
        }
    }

    /// The parameters of ``Operation/groupSetAllowList``: all of the new list.
    public struct GroupSetAllowList: Hashable, Sendable, RequestPart {
        public var group: ByteRange
        public var allowList: AllowList

        public init(group: ByteRange, allowList: AllowList) {
            self.group = group
            self.allowList = allowList
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            group = try reader.readString8()
            allowList = try AllowList(&reader)
        }

        public var byteCount: Int { group.string8ByteCount + allowList.byteCount }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(string8: group.bytes(in: source))
            allowList.write(to: &writer, from: source)
        }
    }
}

extension PacketReader {
    /// A run: string8 after string8 up to the end.
    mutating func readRun() throws(WireError) -> (count: Int, strings: ByteRange) {
        let start = offset
        var count = 0
        while !isAtEnd {
            _ = try readString8()
            count += 1
        }
        return (count, ByteRange(offset: start, count: offset - start))
    }
}
