// What a group keeps of its messages: the parameters and results of the operations 40 and 41.
// Ranges are relative to the parameters, or the content, that was decoded.
//
//     40 set history | string8 group | u8 1 if messages are kept by default | varint shown |
//     41 history     | string8 group | u8 options: 1 with the newest message, may be absent |
//       ->           | u8 kept | varint shown | varint last number |
//                    | with the newest message: varint number, 0 for none, |
//                    | string8 from, varint time ms, stringv t and b |

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

    /// The parameters of ``Operation/groupHistory``.
    public struct GroupHistoryQuery: Hashable, Sendable, RequestPart {
        public var group: ByteRange
        /// Whether the newest kept message is told too.
        public var wantsMessage: Bool

        public init(group: ByteRange, wantsMessage: Bool = false) {
            self.group = group
            self.wantsMessage = wantsMessage
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            group = try reader.readString8()
            wantsMessage = reader.isAtEnd ? false : try reader.readFlag()
            try reader.expectEnd()
        }

        public var byteCount: Int { group.string8ByteCount + (wantsMessage ? 1 : 0) }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(string8: group.bytes(in: source))
            if wantsMessage { writer.write(byte: 1) }
        }
    }

    /// The result of ``Operation/groupHistory``.
    public struct GroupHistory: Hashable, Sendable, RequestPart {
        public var isKept: Bool
        public var shownCount: UInt32
        /// The number of the newest kept message; 0 if there was none.
        public var lastNumber: UInt64
        /// The newest kept message, if it was asked for.
        public var newest: NewestMessage?

        public init(
            isKept: Bool, shownCount: UInt32, lastNumber: UInt64, newest: NewestMessage? = nil
        ) {
            self.isKept = isKept
            self.shownCount = shownCount
            self.lastNumber = lastNumber
            self.newest = newest
        }

        public init(_ content: RawSpan) throws(WireError) {
            var reader = PacketReader(content)
            isKept = try reader.readFlag()
            shownCount = try reader.readVarInt(in: 0...UInt32.max)
            lastNumber = try reader.readVarInt()
            if !reader.isAtEnd { newest = try NewestMessage(&reader) }
            try reader.expectEnd()
        }

        public var byteCount: Int {
            1 + VariableInteger.byteCount(shownCount) + VariableInteger.byteCount(lastNumber)
                + (newest?.byteCount ?? 0)
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(byte: isKept ? 1 : 0)
            writer.write(varInt: shownCount)
            writer.write(varInt: lastNumber)
            newest?.write(to: &writer, from: source)
        }
    }

    /// The newest message that a conversation has, in an answer.
    public struct NewestMessage: Hashable, Sendable, RequestPart {
        /// Nil if it has none any more.
        public var message: HistoryEntry?

        public init(_ message: HistoryEntry?) {
            self.message = message
        }

        init(_ reader: inout PacketReader) throws(WireError) {
            let number = try reader.readVarInt()
            if number > 0 { message = try HistoryEntry(number: number, &reader) }
        }

        public var byteCount: Int { message?.byteCount ?? 1 }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            if let message {
                message.write(to: &writer, from: source)
            } else {
                writer.write(varInt: 0 as UInt64)
            }
        }
    }
}
