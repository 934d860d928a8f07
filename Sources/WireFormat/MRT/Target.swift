// To whom a message goes: a part of SEND and of a will.
//
//     0 user       | string8 id                                        |
//     1 list       | varint count 1...256 | count × string8 id         |
//     2 group      | string8 id                                        |
//     3 broadcast  |                                                   |
//     4 topic      | varint length 1...65535 | bytes                   |

import BrokerTerms
import Primitives

extension MRT {
    /// To whom a message goes. Decoding checks the structure; whether ids and topics obey their
    /// rules is asked with ``fault(in:)``, because a bad address refuses one send and ends no
    /// connection.
    public enum Target: Hashable, Sendable {
        case user(ByteRange)
        /// `ids` holds `count` ids, each with its byte of length; ``IdentifierList`` walks them.
        case list(count: Int, ids: ByteRange)
        case group(ByteRange)
        case broadcast
        case topic(ByteRange)

        @inlinable
        init(_ reader: inout PacketReader) throws(WireError) {
            switch try reader.readByte() {
            case 0: self = .user(try reader.readString8())
            case 1:
                let count = try reader.readVarInt(in: 1...WireLimits.receiverCountMaximum)
                let start = reader.offset
                for _ in 0..<count { _ = try reader.readString8() }
                let ids = ByteRange(offset: start, count: reader.offset - start)
                self = .list(count: count, ids: ids)
            case 2: self = .group(try reader.readString8())
            case 3: self = .broadcast
            case 4: self = .topic(try reader.readStringV(1...WireLimits.topicByteCountMaximum))
            default: throw .malformed
            }
        }

        @inlinable
        var isTopic: Bool {
            if case .topic = self { return true }
            return false
        }

        @inlinable
        var byteCount: Int {
            switch self {
            case .user(let id), .group(let id): 1 + id.string8ByteCount
            case .list(let count, let ids):
                1 + VariableInteger.byteCount(count) + Int(ids.count)
            case .broadcast: 1
            case .topic(let name): 1 + name.stringVByteCount
            }
        }

        @inlinable
        func write(to writer: inout PacketWriter, from source: RawSpan) {
            switch self {
            case .user(let id):
                writer.write(byte: 0)
                writer.write(string8: id.bytes(in: source))
            case .list(let count, let ids):
                writer.write(byte: 1)
                writer.write(varInt: count)
                writer.write(bytes: ids.bytes(in: source))
            case .group(let id):
                writer.write(byte: 2)
                writer.write(string8: id.bytes(in: source))
            case .broadcast:
                writer.write(byte: 3)
            case .topic(let name):
                writer.write(byte: 4)
                writer.write(stringV: name.bytes(in: source))
            }
        }

        /// ``ReasonCode/topicNameInvalid`` where the one id, or the topic, breaks its rule; nil
        /// where it does not. The ids of a list are each receiver's own matter: check them one by
        /// one with ``TextRules/isIdentifier(_:)`` and refuse by index.
        @inlinable
        public func fault(in body: RawSpan) -> ReasonCode? {
            let isValid =
                switch self {
                case .user(let id), .group(let id): TextRules.isIdentifier(id.bytes(in: body))
                case .list, .broadcast: true
                case .topic(let name): TextRules.isTopicName(name.bytes(in: body))
                }
            return isValid ? nil : .topicNameInvalid
        }
    }

    /// Walks the ids of a ``Target/list(count:ids:)``, or the devices of a presence answer: strings
    /// with one byte of length, one after the other. (Not a Sequence: that brings in the functions
    /// which make arrays, and nothing here allocates.)
    public struct IdentifierList: ~Escapable {
        @usableFromInline let bytes: RawSpan
        @usableFromInline var offset: Int
        @usableFromInline let end: Int

        /// `range` is one that a decoder gave out for `bytes`.
        @inlinable
        @_lifetime(copy bytes)
        public init(_ range: ByteRange, in bytes: RawSpan) {
            precondition(
                range.endOffset <= bytes.byteCount,
                "a range to \(range.endOffset) of \(bytes.byteCount) bytes")
            self.bytes = bytes
            self.offset = Int(range.offset)
            self.end = range.endOffset
        }

        /// The next id, relative to the buffer.
        @inlinable
        public mutating func next() -> ByteRange? {
            guard offset < end else { return nil }
            let range = ByteRange(offset: offset + 1, count: Int(bytes[offset]))
            offset = range.endOffset
            precondition(offset <= end, "an unchecked list: offset \(offset) of \(end)")
            return range
        }
    }
}
