// Receipts: the payload with which a sender is told what receivers did with a message, and the
// request with which a receiver tells it.
//
//     payload   | 1 | fixed8 reference | string8 message id | string8 device |
//               | 2 | fixed8 reference | string8 message id | string8 device | u8 code | text |
//               | 3 | fixed8 reference | string8 message id | string8 group |
//                   | u32 delivered | u32 applied | u32 failed | u32 members |
//     32 applied  | fixed8 reference | u8 code | text |   ->  nothing

import Primitives

extension MRT {
    /// The payload of a delivery of the kind ``DeliveryKind/receipt``.
    public struct Receipt: Hashable, Sendable {
        /// What happened. A client ignores a receipt of another kind.
        public enum Event: Hashable, Sendable {
            /// A device of the receiver has acknowledged the message.
            case delivered(device: ByteRange)
            /// The receiver has told that it applied it, with its own code, or why not: a code of
            /// 0x80 or more is a failure.
            case applied(device: ByteRange, code: UInt8, text: ByteRange)
            /// Members of a group, and how many of them did what.
            case counts(
                group: ByteRange, delivered: UInt32, applied: UInt32, failed: UInt32,
                members: UInt32)
        }

        /// That of the message.
        public var reference: UInt64
        /// The application's id of the message; empty for none.
        public var messageIdentifier: ByteRange
        public var event: Event

        /// Decodes a payload whose ranges are relative to `bytes`. Nil for a receipt of a kind that
        /// this program does not know.
        public init?(_ payload: ByteRange, in bytes: RawSpan) {
            var reader = PacketReader(
                bytes.extracting(..<payload.endOffset), from: Int(payload.offset))
            guard let kind = try? reader.readByte(), let reference = try? reader.readEpoch(),
                let identifier = try? reader.readString8()
            else { return nil }
            self.reference = reference
            messageIdentifier = identifier
            guard let name = try? reader.readString8() else { return nil }
            switch kind {
            case 1: event = .delivered(device: name)
            case 2:
                guard let code = try? reader.readByte() else { return nil }
                event = .applied(device: name, code: code, text: reader.readRest())
            case 3:
                guard let delivered = reader.readUInt32(), let applied = reader.readUInt32(),
                    let failed = reader.readUInt32(), let members = reader.readUInt32()
                else { return nil }
                event = .counts(
                    group: name, delivered: delivered, applied: applied, failed: failed,
                    members: members)
            default: return nil
            }
        }
    }

    /// The parameters of ``Operation/applied``.
    public struct Applied: Hashable, Sendable, RequestPart {
        /// The reference in the delivery.
        public var reference: UInt64
        /// The application's own: 0 for done, from 0x80 on a failure.
        public var code: UInt8
        /// Text for the sender, at most ``WireLimits/receiptTextByteCountMaximum`` bytes.
        public var text: ByteRange

        public init(reference: UInt64, code: UInt8 = 0, text: ByteRange = .empty) {
            self.reference = reference
            self.code = code
            self.text = text
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            reference = try reader.readEpoch()
            code = try reader.readByte()
            text = reader.readRest()
        }

        public var byteCount: Int { 9 + Int(text.count) }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(fixed8: reference)
            writer.write(byte: code)
            writer.write(bytes: text.bytes(in: source))
        }
    }
}

extension PacketReader {
    /// Four bytes, big-endian.
    fileprivate mutating func readUInt32() -> UInt32? {
        guard let high = try? readUInt16(), let low = try? readUInt16() else { return nil }
        return UInt32(high) << 16 | UInt32(low)
    }
}
