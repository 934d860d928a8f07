// Recall and replace: the requests with which a sender takes a message back or changes it, their
// result, and the payload with which receivers are told who already have the message.
//
//     33 recall    | message | rest: detail |                          ->  result
//     34 replace   | message | string8 detail | u8 t | rest: b |       ->  result
//     message      | 0 | fixed8 reference |   or   | 1 | string8 message id |
//     result       | varint withdrawn | varint late | run of string8 late user |
//     payload      | fixed8 reference | string8 message id | u8 code | string8 detail |
//                  | u8 t | rest: b |   (t and b of a change only)

import Primitives

extension MRT {
    /// How a request names a message of its sender.
    public enum SentMessage: Hashable, Sendable {
        /// By the reference that the result told.
        case reference(UInt64)
        /// By the application's id, 1 to 64 bytes: the latest message with it.
        case messageIdentifier(ByteRange)

        init(_ reader: inout PacketReader) throws(WireError) {
            switch try reader.readByte() {
            case 0: self = .reference(try reader.readEpoch())
            case 1:
                self = .messageIdentifier(
                    try reader.readString8(1...WireLimits.messageIdentifierByteCountMaximum))
            default: throw .malformed
            }
        }

        var byteCount: Int {
            switch self {
            case .reference: 9
            case .messageIdentifier(let identifier): 1 + identifier.string8ByteCount
            }
        }

        func write(to writer: inout PacketWriter, from source: RawSpan) {
            switch self {
            case .reference(let reference):
                writer.write(byte: 0)
                writer.write(fixed8: reference)
            case .messageIdentifier(let identifier):
                writer.write(byte: 1)
                writer.write(string8: identifier.bytes(in: source))
            }
        }
    }

    /// The parameters of ``Operation/recall``.
    public struct Recall: Hashable, Sendable, RequestPart {
        public var message: SentMessage
        /// Text for those who have the message, at most
        /// ``WireLimits/revisionDetailByteCountMaximum`` bytes.
        public var detail: ByteRange

        public init(message: SentMessage, detail: ByteRange = .empty) {
            self.message = message
            self.detail = detail
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            message = try SentMessage(&reader)
            detail = reader.readRest()
        }

        public var byteCount: Int { message.byteCount + Int(detail.count) }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            message.write(to: &writer, from: source)
            writer.write(bytes: detail.bytes(in: source))
        }
    }

    /// The parameters of ``Operation/replace``.
    public struct Replace: Hashable, Sendable, RequestPart {
        public var message: SentMessage
        /// As in ``Recall``.
        public var detail: ByteRange
        /// The new content: `t` as one byte and then `b`.
        public var payload: ByteRange

        public init(message: SentMessage, detail: ByteRange = .empty, payload: ByteRange) {
            self.message = message
            self.detail = detail
            self.payload = payload
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            message = try SentMessage(&reader)
            detail = try reader.readString8()
            payload = reader.readRest()
            guard !payload.isEmpty else { throw .malformed }
        }

        public var byteCount: Int {
            message.byteCount + detail.string8ByteCount + Int(payload.count)
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            message.write(to: &writer, from: source)
            writer.write(string8: detail.bytes(in: source))
            writer.write(bytes: payload.bytes(in: source))
        }
    }

    /// The result of both.
    public struct RevisionResult: Hashable, Sendable, RequestPart {
        /// Users of whom no device had the message or may have had it.
        public var withdrawnCount: UInt32
        /// Users who have the message, or may have it.
        public var lateCount: UInt32
        /// Some of the late users: as many as fit. ``IdentifierList`` walks them.
        public var lateUsers: ByteRange

        public init(withdrawnCount: UInt32, lateCount: UInt32, lateUsers: ByteRange = .empty) {
            self.withdrawnCount = withdrawnCount
            self.lateCount = lateCount
            self.lateUsers = lateUsers
        }

        public init(_ content: RawSpan) throws(WireError) {
            var reader = PacketReader(content)
            withdrawnCount = try reader.readVarInt(in: 0...UInt32.max)
            lateCount = try reader.readVarInt(in: 0...UInt32.max)
            let start = reader.offset
            while !reader.isAtEnd {
                _ = try reader.readString8(1...WireLimits.identifierByteCountMaximum)
            }
            lateUsers = ByteRange(offset: start, count: reader.offset - start)
        }

        public var byteCount: Int {
            VariableInteger.byteCount(withdrawnCount) + VariableInteger.byteCount(lateCount)
                + Int(lateUsers.count)
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(varInt: withdrawnCount)
            writer.write(varInt: lateCount)
            writer.write(bytes: lateUsers.bytes(in: source))
        }
    }

    /// The payload of a delivery of the kinds ``DeliveryKind/recall`` and ``DeliveryKind/update``.
    public struct Revision: Hashable, Sendable {
        /// That of the message.
        public var reference: UInt64
        /// The application's id of the message; empty for none.
        public var messageIdentifier: ByteRange
        /// 0: by the sender.
        public var code: UInt8
        /// Text of the sender, maybe empty.
        public var detail: ByteRange
        /// The new content: `t` as one byte and then `b`. Nil for a recall.
        public var content: ByteRange?

        /// Decodes a payload whose ranges are relative to `bytes`. Nil for one that has no such
        /// layout.
        public init?(_ kind: DeliveryKind, _ payload: ByteRange, in bytes: RawSpan) {
            guard kind == .recall || kind == .update else { return nil }
            var reader = PacketReader(
                bytes.extracting(..<payload.endOffset), from: Int(payload.offset))
            guard let reference = try? reader.readEpoch(),
                let identifier = try? reader.readString8(), let code = try? reader.readByte(),
                let detail = try? reader.readString8()
            else { return nil }
            self.reference = reference
            messageIdentifier = identifier
            self.code = code
            self.detail = detail
            guard kind == .update else { return }
            let rest = reader.readRest()
            guard !rest.isEmpty else { return nil }
            content = rest
        }
    }
}
