// DELIVER, a message to a client, and the template that makes it cheap to send one to many: all
// that follows the inbox number is the same for every receiver and is encoded once.
//
//     flags  3: raw payload   2: possible duplicate   1-0: grade
//     | varint inbox number (grade > 0) | kind | string8 from | varint time, Unix ms |
//     | address: string8 group (kinds 3, 6, 7) or varint length and topic (kind 0) | payload |
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

        public init(flags: UInt8, body: UnsafeRawBufferPointer) throws(WireError) {
            var reader = PacketReader(body)
            guard let grade = Grade(rawValue: flags & 0x03) else { throw .malformed }
            self.grade = grade
            number =
                grade == .transient
                ? 0 : try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
            isPossibleDuplicate = flags & Flag.possibleDuplicate != 0
            isRaw = flags & Flag.raw != 0
            guard let kind = DeliveryKind(rawValue: try reader.readByte()),
                !isRaw || kind == .topic
            else { throw .malformed }
            self.kind = kind
            from = try reader.readString8(1...WireLimits.identifierByteCountMaximum)
            time = try reader.readVarInt()
            if kind == .topic {
                address = try reader.readStringV(1...WireLimits.topicByteCountMaximum)
            } else if kind.hasAddress {
                address = try reader.readString8(1...WireLimits.identifierByteCountMaximum)
            }
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
            (number == 0 ? 0 : VariableInteger.byteCount(number)) + tailByteCount
        }

        /// Bytes of what follows the inbox number.
        @inlinable
        public var tailByteCount: Int {
            var count = 1 + from.string8ByteCount + VariableInteger.byteCount(time)
            if kind == .topic {
                count += address.stringVByteCount
            } else if kind.hasAddress {
                count += address.string8ByteCount
            }
            return count + Int(payload.count)
        }

        @inlinable
        public func writeBody(to writer: inout PacketWriter, from source: UnsafeRawBufferPointer) {
            precondition((grade == .transient) == (number == 0), "numbers belong to stored grades")
            if number != 0 { writer.write(varInt: number) }
            writeTail(to: &writer, from: source)
        }

        /// Writes exactly ``tailByteCount`` bytes, for a ``DeliverTemplate``.
        @inlinable
        public func writeTail(to writer: inout PacketWriter, from source: UnsafeRawBufferPointer) {
            writer.write(byte: kind.rawValue)
            writer.write(string8: from.bytes(in: source))
            writer.write(varInt: time)
            if kind == .topic {
                writer.write(stringV: address.bytes(in: source))
            } else if kind.hasAddress {
                writer.write(string8: address.bytes(in: source))
            }
            writer.write(bytes: payload.bytes(in: source))
        }
    }

    /// One message on its way to many: per receiver only the fixed header and the inbox number are
    /// made, and the tail is copied. The tail's bytes belong to the caller and outlive the
    /// template.
    public struct DeliverTemplate {
        @usableFromInline let tail: UnsafeRawBufferPointer
        @usableFromInline let commonFlags: UInt8

        /// - Parameter tail: what ``Deliver/writeTail(to:from:)`` wrote.
        @inlinable
        public init(
            tail: UnsafeRawBufferPointer, isRaw: Bool = false, isPossibleDuplicate: Bool = false
        ) {
            self.tail = tail
            self.commonFlags = PacketType.deliver.withFlags(
                (isRaw ? Deliver.Flag.raw : 0)
                    | (isPossibleDuplicate ? Deliver.Flag.possibleDuplicate : 0))
        }

        /// Bytes that no receiver's packet exceeds: a buffer of that size always suffices.
        @inlinable
        public var byteCountMaximum: Int {
            WireLimits.fixedHeaderByteCountMaximum + WireLimits.varIntByteCountMaximum + tail.count
        }

        /// Bytes of the whole packet for one receiver. `number` is 0 for a transient delivery.
        @inlinable
        public func byteCount(number: UInt64) -> Int {
            let body = (number == 0 ? 0 : VariableInteger.byteCount(number)) + tail.count
            return 1 + VariableInteger.byteCount(body) + body
        }

        /// Writes one receiver's whole packet. `number` is 0 exactly when the grade is transient.
        @inlinable
        public func write(grade: Grade, number: UInt64, to writer: inout PacketWriter) {
            precondition((grade == .transient) == (number == 0), "numbers belong to stored grades")
            let numberByteCount = number == 0 ? 0 : VariableInteger.byteCount(number)
            writer.write(
                typeAndFlags: commonFlags | grade.rawValue,
                bodyByteCount: numberByteCount + tail.count)
            if number != 0 { writer.write(varInt: number) }
            writer.write(bytes: tail)
        }
    }
}
