// What a group keeps of its messages: the parameters and results of the operations 40 and 41.
// Ranges are relative to the parameters, or the content, that was decoded.
//
//     40 set history | string8 group | u8 1 if messages are kept by default | varint shown |
//     41 history     | string8 group |
//       ->           | u8 kept | varint shown | varint last number |

import Primitives

extension MRT {
    /// The parameters of ``Operation/groupSetHistory``.
    public struct GroupSetHistory: Hashable, Sendable, RequestPart {
        public var group: ByteRange
        /// Whether messages are kept unless their senders say no.
        public var isKept: Bool
        /// How many of the newest kept messages a new member sees from before it joined.
        public var shownCount: UInt32

        public init(group: ByteRange, isKept: Bool, shownCount: UInt32) {
            self.group = group
            self.isKept = isKept
            self.shownCount = shownCount
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            group = try reader.readString8()
            isKept = try reader.readFlag()
            shownCount = try reader.readVarInt(in: 0...UInt32.max)
            try reader.expectEnd()
        }

        public var byteCount: Int {
            group.string8ByteCount + 1 + VariableInteger.byteCount(shownCount)
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(string8: group.bytes(in: source))
            writer.write(byte: isKept ? 1 : 0)
            writer.write(varInt: shownCount)
        }
    }

    /// The result of ``Operation/groupHistory``.
    public struct GroupHistory: Hashable, Sendable, RequestPart {
        public var isKept: Bool
        public var shownCount: UInt32
        /// The number of the newest kept message; 0 if there was none.
        public var lastNumber: UInt64

        public init(isKept: Bool, shownCount: UInt32, lastNumber: UInt64) {
            self.isKept = isKept
            self.shownCount = shownCount
            self.lastNumber = lastNumber
        }

        public init(_ content: RawSpan) throws(WireError) {
            var reader = PacketReader(content)
            isKept = try reader.readFlag()
            shownCount = try reader.readVarInt(in: 0...UInt32.max)
            lastNumber = try reader.readVarInt()
            try reader.expectEnd()
        }

        public var byteCount: Int {
            1 + VariableInteger.byteCount(shownCount) + VariableInteger.byteCount(lastNumber)
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(byte: isKept ? 1 : 0)
            writer.write(varInt: shownCount)
            writer.write(varInt: lastNumber)
        }
    }
}
