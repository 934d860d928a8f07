// What a REQUEST's parameters and a RESPONSE's content hold, operation by operation. Ranges are
// relative to the parameters (or the content) that was decoded.
//
//     1 subscribe    | highest grade | filter |          ->  | granted grade |
//     2 unsubscribe  | filter |                          ->  nothing
//     3 set will     | varint delay s | form: 0 t/b, 1 raw | target | payload |   ->  nothing
//     4 clear will   nothing                             ->  nothing
//     5 presence     | string8 user |  ->  | online | varint since, ms | varint n | n × string8 |

import Primitives

/// Parameters or a result: a part of a packet, written behind the packet's own fields.
public protocol RequestPart {
    var byteCount: Int { get }
    /// Writes exactly ``byteCount`` bytes. Ranges of the part are within `source`.
    func write(to writer: inout PacketWriter, from source: RawSpan)
}

extension MRT {
    public struct Subscribe: Hashable, Sendable, RequestPart {
        /// The most that matching messages are delivered with.
        public var highestGrade: Grade
        /// A filter; whether it obeys the rule tells ``TextRules/isTopicFilter(_:)``.
        public var filter: ByteRange

        public init(highestGrade: Grade, filter: ByteRange) {
            self.highestGrade = highestGrade
            self.filter = filter
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            guard let grade = Grade(rawValue: try reader.readByte()) else { throw .malformed }
            highestGrade = grade
            filter = reader.readRest()
        }

        public var byteCount: Int { 1 + Int(filter.count) }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(byte: highestGrade.rawValue)
            writer.write(bytes: filter.bytes(in: source))
        }
    }

    /// The message that is sent for a user who is lost; always of grade *once*.
    public struct Will: Hashable, Sendable, RequestPart {
        /// Seconds between the loss and the sending.
        public var delaySeconds: UInt32
        public var target: Target
        public var isRaw: Bool
        public var payload: ByteRange

        public init(delaySeconds: UInt32, target: Target, isRaw: Bool, payload: ByteRange) {
            self.delaySeconds = delaySeconds
            self.target = target
            self.isRaw = isRaw
            self.payload = payload
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            delaySeconds = try reader.readVarInt(in: 0...UInt32.max)
            let form = try reader.readByte()
            guard form <= 1 else { throw .malformed }
            isRaw = form == 1
            target = try Target(&reader)
            payload = reader.readRest()
            if isRaw {
                guard target.isTopic else { throw .protocolError }
            } else if payload.isEmpty {
                throw .malformed
            }
        }

        public var byteCount: Int {
            VariableInteger.byteCount(delaySeconds) + 1 + target.byteCount
                + Int(payload.count)
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(varInt: delaySeconds)
            writer.write(byte: isRaw ? 1 : 0)
            target.write(to: &writer, from: source)
            writer.write(bytes: payload.bytes(in: source))
        }
    }

    /// The parameters of ``Operation/presence``.
    public struct PresenceQuery: Hashable, Sendable, RequestPart {
        public var user: ByteRange

        public init(user: ByteRange) {
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

    /// The result of ``Operation/presence``.
    public struct PresenceAnswer: Hashable, Sendable, RequestPart {
        public var isOnline: Bool
        /// Unix milliseconds of the last change; 0 where none is known.
        public var since: UInt64
        public var deviceCount: UInt32
        /// The devices that are online; ``IdentifierList`` walks them.
        public var devices: ByteRange

        public init(isOnline: Bool, since: UInt64, deviceCount: UInt32, devices: ByteRange) {
            self.isOnline = isOnline
            self.since = since
            self.deviceCount = deviceCount
            self.devices = devices
        }

        public init(_ content: RawSpan) throws(WireError) {
            var reader = PacketReader(content)
            let online = try reader.readByte()
            guard online <= 1 else { throw .malformed }
            isOnline = online == 1
            since = try reader.readVarInt()
            deviceCount = try reader.readVarInt(in: 0...UInt32.max)
            let start = reader.offset
            for _ in 0..<deviceCount { _ = try reader.readString8() }
            devices = ByteRange(offset: start, count: reader.offset - start)
            try reader.expectEnd()
        }

        public var byteCount: Int {
            1 + VariableInteger.byteCount(since) + VariableInteger.byteCount(deviceCount)
                + Int(devices.count)
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(byte: isOnline ? 1 : 0)
            writer.write(varInt: since)
            writer.write(varInt: deviceCount)
            writer.write(bytes: devices.bytes(in: source))
        }
    }
}
