// A DELIVER in two parts, which make it cheap to send one message to many: the tail is the same for
// every receiver and encoded once, the head has the inbox number.

import Primitives

extension MRT {
    /// What follows the inbox number in a DELIVER: the same for every receiver.
    public struct DeliverTail: ~Escapable {
        public var kind: DeliveryKind
        /// The authenticated sender: 1...64 bytes.
        public var from: RawSpan
        /// Unix milliseconds.
        public var time: UInt64
        /// Group id or topic, by kind; empty where the kind has none.
        public var address: RawSpan
        public var payload: RawSpan

        @inlinable
        @_lifetime(copy from, copy address, copy payload)
        public init(
            kind: DeliveryKind, from: RawSpan, time: UInt64,
            address: RawSpan, payload: RawSpan
        ) {
            self.kind = kind
            self.from = from
            self.time = time
            self.address = address
            self.payload = payload
        }

        /// Bytes that ``write(to:)`` writes.
        @inlinable
        public var byteCount: Int {
            DeliverTail.byteCount(
                kind, from: from.byteCount, time: time, address: address.byteCount,
                payload: payload.byteCount)
        }

        @inlinable
        static func byteCount(
            _ kind: DeliveryKind, from: Int, time: UInt64, address: Int, payload: Int
        ) -> Int {
            var count = 2 + from + VariableInteger.byteCount(time) + payload
            if kind == .topic {
                count += VariableInteger.byteCount(address) + address
            } else if kind.hasAddress {
                count += 1 + address
            }
            return count
        }

        /// Set in the byte of the kind if fields precede the payload.
        @usableFromInline static var fieldsBit: UInt8 { 0x80 }

        /// Bytes that a block of fields adds to ``byteCount``.
        public static func byteCount(ofFields fields: RawSpan) -> Int {
            fields.isEmpty
                ? 0 : VariableInteger.byteCount(fields.byteCount) + fields.byteCount
        }

        /// Writes exactly ``byteCount`` bytes.
        @inlinable
        public func write(to writer: inout PacketWriter) {
            writer.write(byte: kind.rawValue)
            writeHead(to: &writer)
            writer.write(bytes: payload)
        }

        /// The same with a block of fields, which may be empty.
        public func write(to writer: inout PacketWriter, fields: RawSpan) {
            guard !fields.isEmpty else { return write(to: &writer) }
            writer.write(byte: kind.rawValue | DeliverTail.fieldsBit)
            writeHead(to: &writer)
            writer.write(stringV: fields)
            writer.write(bytes: payload)
        }

        /// Writes what is between the kind and the payload.
        @inlinable @inline(__always)
        func writeHead(to writer: inout PacketWriter) {
            writer.write(string8: from)
            writer.write(varInt: time)
            if kind == .topic {
                writer.write(stringV: address)
            } else if kind.hasAddress {
                writer.write(string8: address)
            }
        }
    }

    /// What comes before the tail in one receiver's DELIVER.
    public struct DeliverHead {
        @usableFromInline let commonFlags: UInt8
        @usableFromInline let tailByteCount: Int

        @inlinable
        public init(tailByteCount: Int, isRaw: Bool, isPossibleDuplicate: Bool) {
            self.tailByteCount = tailByteCount
            commonFlags = PacketType.deliver.withFlags(
                (isRaw ? Deliver.Flag.raw : 0)
                    | (isPossibleDuplicate ? Deliver.Flag.possibleDuplicate : 0))
        }

        /// Bytes of the whole packet for one receiver. `number` is 0 for a transient delivery.
        @inlinable
        public func packetByteCount(number: UInt64) -> Int {
            let body = (number == 0 ? 0 : VariableInteger.byteCount(number)) + tailByteCount
            return 1 + VariableInteger.byteCount(body) + body
        }

        /// Writes it; the tail has to follow. `number` is 0 exactly when the grade is transient.
        @inlinable
        public func write(grade: Grade, number: UInt64, to writer: inout PacketWriter) {
            precondition(
                (grade == .transient) == (number == 0),
                "number \(number) with grade \(grade.rawValue)")
            let numberByteCount = number == 0 ? 0 : VariableInteger.byteCount(number)
            writer.write(
                typeAndFlags: commonFlags | grade.rawValue,
                bodyByteCount: numberByteCount + tailByteCount)
            if number != 0 { writer.write(varInt: number) }
        }
    }
}
