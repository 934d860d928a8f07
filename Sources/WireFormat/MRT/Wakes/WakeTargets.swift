// Wake targets: where a relay reaches a user of whom no device is connected. The requests that
// set, list and remove them.
//
//     35 set      | string8 device | u8 kind | u8 environment | string8 language |
//                 | rest: address |                            ->  varint id
//     36 list     | string8 user |                             ->  run of (varint id |
//                 | string8 device | u8 kind | u8 environment | string8 language |
//                 | stringv address)
//     37 remove   | string8 user | varint id |                 ->  nothing
//     38 wake of a group, 39 mute   | string8 group | u8 0 or 1 |   ->  nothing
//
// An empty user is the one who asks. The core says which kinds, environments and addresses exist.

import Primitives

extension MRT {
    /// A wake target, without the id that the broker gives it. The parameters of
    /// ``Operation/setWakeTarget``.
    public struct WakeTarget: Hashable, Sendable, RequestPart {
        /// The device that it wakes; empty for any device of the user.
        public var device: ByteRange
        /// 1 webhook, 2 apns, 3 fcm, 4 sms-webhook, 5 mqtt, 6 udp. The broker refuses others.
        public var kind: UInt8
        /// 0 production, 1 sandbox. The broker refuses others.
        public var environment: UInt8
        /// A language tag of BCP 47, at most ``WireLimits/languageByteCountMaximum`` bytes; empty
        /// for none.
        public var language: ByteRange
        /// 1 to ``WireLimits/wakeAddressByteCountMaximum`` bytes; the kind says what they are.
        public var address: ByteRange

        public init(
            device: ByteRange, kind: UInt8, environment: UInt8, language: ByteRange,
            address: ByteRange
        ) {
            self.device = device
            self.kind = kind
            self.environment = environment
            self.language = language
            self.address = address
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            self = try WakeTarget(headOf: &reader)
            address = reader.readRest()
            guard !address.isEmpty else { throw .malformed }
        }

        fileprivate init(headOf reader: inout PacketReader) throws(WireError) {
            device = try reader.readString8()
            kind = try reader.readByte()
            environment = try reader.readByte()
            language = try reader.readString8()
            address = .empty
        }

        fileprivate var headByteCount: Int {
            device.string8ByteCount + 2 + language.string8ByteCount
        }

        fileprivate func writeHead(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(string8: device.bytes(in: source))
            writer.write(byte: kind)
            writer.write(byte: environment)
            writer.write(string8: language.bytes(in: source))
        }

        public var byteCount: Int { headByteCount + Int(address.count) }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writeHead(to: &writer, from: source)
            writer.write(bytes: address.bytes(in: source))
        }
    }

    /// A target of a list, and its id. ``Operation/setWakeTarget`` answers with the id alone.
    public struct WakeTargetEntry: Hashable, Sendable, RequestPart {
        /// At least 1, and below 2^53, so that every JSON reader holds it.
        public var identifier: UInt64
        public var target: WakeTarget

        public init(identifier: UInt64, target: WakeTarget) {
            self.identifier = identifier
            self.target = target
        }

        init(_ reader: inout PacketReader) throws(WireError) {
            identifier = try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
            target = try WakeTarget(headOf: &reader)
            target.address = try reader.readStringV(1...WireLimits.wakeAddressByteCountMaximum)
        }

        public var byteCount: Int {
            VariableInteger.byteCount(identifier) + target.headByteCount
                + target.address.stringVByteCount
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(varInt: identifier)
            target.writeHead(to: &writer, from: source)
            writer.write(stringV: target.address.bytes(in: source))
        }
    }

    /// The result of ``Operation/setWakeTarget``.
    public struct WakeTargetIdentifier: Hashable, Sendable, RequestPart {
        public var identifier: UInt64

        public init(identifier: UInt64) {
            self.identifier = identifier
        }

        public init(_ content: RawSpan) throws(WireError) {
            var reader = PacketReader(content)
            identifier = try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
            try reader.expectEnd()
        }

        public var byteCount: Int { VariableInteger.byteCount(identifier) }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(varInt: identifier)
        }
    }

    /// The parameters of ``Operation/listWakeTargets``.
    public struct WakeTargetQuery: Hashable, Sendable, RequestPart {
        /// Whose targets; empty for the own ones.
        public var user: ByteRange

        public init(user: ByteRange = .empty) {
            self.user = user
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            user = try reader.readString8()
            try reader.expectEnd()
        }

        public var byteCount: Int { user.string8ByteCount }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(string8: user.bytes(in: source))
        }
    }

    /// The result of ``Operation/listWakeTargets``.
    public struct WakeTargetList: Hashable, Sendable, RequestPart {
        /// At most ``WireLimits/wakeTargetMaximum`` of them, in the order in which they were set
        /// first; ``forEach(in:_:)`` reads them.
        public var entries: ByteRange

        public init(entries: ByteRange) {
            self.entries = entries
        }

        public init(_ content: RawSpan) throws(WireError) {
            var reader = PacketReader(content)
            var count = 0
            while !reader.isAtEnd {
                _ = try WakeTargetEntry(&reader)
                count += 1
                guard count <= WireLimits.wakeTargetMaximum else { throw .malformed }
            }
            entries = ByteRange(offset: 0, count: content.byteCount)
        }

        /// Calls `body` with each entry. `content` is what the list was decoded from.
        public func forEach(in content: RawSpan, _ body: (WakeTargetEntry) -> Void) {
            var reader = PacketReader(content)
            while !reader.isAtEnd, let entry = try? WakeTargetEntry(&reader) { body(entry) }
        }

        public var byteCount: Int { Int(entries.count) }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(bytes: entries.bytes(in: source))
        }
    }

    /// The parameters of ``Operation/groupSetWake`` and ``Operation/groupMute``.
    public struct GroupFlag: Hashable, Sendable, RequestPart {
        public var group: ByteRange
        /// Whether messages of the group wake its members; whether this user mutes the group.
        public var isSet: Bool

        public init(group: ByteRange, isSet: Bool) {
            self.group = group
            self.isSet = isSet
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            group = try reader.readString8()
            isSet = try reader.readFlag()
            try reader.expectEnd()
        }

        public var byteCount: Int { group.string8ByteCount + 1 }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(string8: group.bytes(in: source))
            writer.write(byte: isSet ? 1 : 0)
        }
    }

    /// The parameters of ``Operation/removeWakeTarget``.
    public struct WakeTargetName: Hashable, Sendable, RequestPart {
        /// Whose target; empty for an own one.
        public var user: ByteRange
        public var identifier: UInt64

        public init(user: ByteRange = .empty, identifier: UInt64) {
            self.user = user
            self.identifier = identifier
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            user = try reader.readString8()
            identifier = try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
            try reader.expectEnd()
        }

        public var byteCount: Int {
            user.string8ByteCount + VariableInteger.byteCount(identifier)
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(string8: user.bytes(in: source))
            writer.write(varInt: identifier)
        }
    }
}
