// DELIVER, a message to a client.
//
//     flags  3: raw payload   2: possible duplicate   1-0: grade
//     | varint inbox number (grade > 0) | kind | string8 from | varint time, Unix ms |
//     | address: string8 group (kinds 3, 6, 7, 10, 11) or varint length and topic (0) |
//     | stringv fields (bit 7 of the kind) | payload |
//                                         `---- the tail begins at the kind ----'

import Primitives

extension MRT {
    public struct Deliver: Hashable, Sendable, Packet {
        public var grade: Grade
        /// The place in the receiver's inbox; 0 exactly when the grade is transient.
        public var number: UInt64
        /// The broker died between an earlier send of this message and its acknowledgement; it may
        /// have been delivered then.
        public var isPossibleDuplicate = false
        public var kind: DeliveryKind
        /// The authenticated sender.
        public var from: ByteRange
        /// Unix milliseconds.
        public var time: UInt64
        /// Group id or topic, by kind; empty where the kind has none.
        public var address = ByteRange.empty
        /// A block of fields, which ``DeliverFields`` reads; empty for none. Only a client that
        /// declared it in CONNECT gets one.
        public var fields = ByteRange.empty
        /// The payload is any bytes; without it, it is `t` (or an event) as one byte, then the
        /// rest.
        public var isRaw = false
        public var payload: ByteRange

        @inlinable
        public init(
            grade: Grade, number: UInt64, kind: DeliveryKind, from: ByteRange, time: UInt64,
            payload: ByteRange
        ) {
            self.grade = grade
            self.number = number
            self.kind = kind
            self.from = from
            self.time = time
            self.payload = payload
        }

        @usableFromInline
        enum Flag {
            @usableFromInline static var possibleDuplicate: UInt8 { 0x04 }
            @usableFromInline static var raw: UInt8 { 0x08 }
        }

        public init(flags: UInt8, body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            guard let grade = Grade(rawValue: flags & 0x03) else { throw .malformed }
            self.grade = grade
            number =
                grade == .transient
                ? 0 : try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
            isPossibleDuplicate = flags & Flag.possibleDuplicate != 0
            isRaw = flags & Flag.raw != 0
            let kindByte = try reader.readByte()
            guard let kind = DeliveryKind(rawValue: kindByte & ~DeliverTail.fieldsBit),
                !isRaw || kind == .topic
            else { throw .malformed }
            self.kind = kind
            from = try reader.readString8(1...WireLimits.identifierByteCountMaximum)
            time = try reader.readVarInt()
            if kind == .topic {
                address = try reader.readStringV(1...WireLimits.topicByteCountMaximum)
            } else if kind.hasAddress {
                address = try reader.readString8(
                    (kind.hasOptionalAddress ? 0 : 1)...WireLimits.identifierByteCountMaximum)
            }
            if kindByte & DeliverTail.fieldsBit != 0 { fields = try MRT.readFields(&reader) }
            payload = reader.readRest()
            if payload.isEmpty && kind.needsPayload(isRaw: isRaw) { throw .malformed }
        }

        @inlinable
        public var typeAndFlags: UInt8 {
            PacketType.deliver.withFlags(
                grade.rawValue | (isPossibleDuplicate ? Flag.possibleDuplicate : 0)
                    | (isRaw ? Flag.raw : 0))
        }

        @inlinable
        public var bodyByteCount: Int {
            (number == 0 ? 0 : VariableInteger.byteCount(number))
                + DeliverTail.byteCount(
                    kind, from: Int(from.count), time: time, address: Int(address.count),
                    payload: Int(payload.count))
                + (fields.isEmpty ? 0 : fields.stringVByteCount)
        }

        @inlinable
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            precondition(
                (grade == .transient) == (number == 0),
                "number \(number) with grade \(grade.rawValue)")
            if number != 0 { writer.write(varInt: number) }
            let tail = tail(in: source)
            tail.write(to: &writer, fields: fields.bytes(in: source))
        }

        /// All that follows the inbox number. Ranges of the packet are within `source`.
        @inlinable
        @_lifetime(copy source)
        public func tail(in source: RawSpan) -> DeliverTail {
            DeliverTail(
                kind: kind, from: from.bytes(in: source), time: time,
                address: address.bytes(in: source), payload: payload.bytes(in: source))
        }
    }
}
