// What a relay reports of the wake-ups that it was asked for.
//
//     44 report   | run of (string8 user | varint target | u8 kind | u8 step | varint time |
//                 | varint number | varint count | string8 detail)   ->  nothing
//
// The core says which kinds and steps exist.

import Primitives

extension MRT {
    /// One thing that happened to a wake-up.
    public struct WakeReport: Hashable, Sendable, RequestPart {
        /// Whose target it is.
        public var user: ByteRange
        /// The id of the target.
        public var target: UInt64
        /// The kind of the target, as in ``WakeTarget``. The broker refuses others.
        public var kind: UInt8
        /// What happened. The broker refuses what it does not know.
        public var step: UInt8
        /// Unix milliseconds.
        public var time: UInt64
        /// The relay's number of the wake-up.
        public var number: UInt64
        /// Messages that waited for the user.
        public var count: UInt64
        /// A status, a reason or a cause, at most ``WireLimits/wakeDetailByteCountMaximum`` bytes;
        /// empty for none.
        public var detail: ByteRange

        public init(
            user: ByteRange, target: UInt64, kind: UInt8, step: UInt8, time: UInt64,
            number: UInt64, count: UInt64, detail: ByteRange
        ) {
            self.user = user
            self.target = target
            self.kind = kind
            self.step = step
            self.time = time
            self.number = number
            self.count = count
            self.detail = detail
        }

        init(_ reader: inout PacketReader) throws(WireError) {
            user = try reader.readString8()
            target = try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
            kind = try reader.readByte()
            step = try reader.readByte()
            time = try reader.readVarInt()
            number = try reader.readVarInt()
            count = try reader.readVarInt()
            detail = try reader.readString8(0...WireLimits.wakeDetailByteCountMaximum)
        }

        public var byteCount: Int {
            user.string8ByteCount + VariableInteger.byteCount(target) + 2
                + VariableInteger.byteCount(time) + VariableInteger.byteCount(number)
                + VariableInteger.byteCount(count) + detail.string8ByteCount
        }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(string8: user.bytes(in: source))
            writer.write(varInt: target)
            writer.write(byte: kind)
            writer.write(byte: step)
            writer.write(varInt: time)
            writer.write(varInt: number)
            writer.write(varInt: count)
            writer.write(string8: detail.bytes(in: source))
        }
    }

    /// The parameters of ``Operation/reportWakes``.
    public struct WakeReportList: Hashable, Sendable, RequestPart {
        /// 1 to ``WireLimits/wakeReportMaximum`` of them, the oldest first; ``forEach(in:_:)``
        /// reads them.
        public var entries: ByteRange

        public init(entries: ByteRange) {
            self.entries = entries
        }

        public init(_ parameters: RawSpan) throws(WireError) {
            var reader = PacketReader(parameters)
            var count = 0
            repeat {
                _ = try WakeReport(&reader)
                count += 1
                guard count <= WireLimits.wakeReportMaximum else { throw .malformed }
            } while !reader.isAtEnd
            entries = ByteRange(offset: 0, count: parameters.byteCount)
        }

        /// Calls `body` with each entry. `content` is what the list was decoded from.
        public func forEach(in content: RawSpan, _ body: (WakeReport) -> Void) {
            var reader = PacketReader(content)
            while !reader.isAtEnd, let entry = try? WakeReport(&reader) { body(entry) }
        }

        public var byteCount: Int { Int(entries.count) }
        public func write(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(bytes: entries.bytes(in: source))
        }
    }
}
