// RESULT, the outcome of a send.
//
//     flags  3: reference   2: refusals   1: message id   0: reason
//     | varint number, 0 for a transient send | reason | string8 message id | fixed8 reference |
//     | varint refused in all | varint index, reason | varint index, reason | … |

import BrokerTerms
import Primitives

extension MRT {
    public struct SendResult: Hashable, Sendable, Packet {
        /// The send's number; 0 for the refusal of a transient one.
        public var number: UInt64
        /// ``ReasonCode/sent``, or why the whole send was refused.
        public var reason: ReasonCode
        /// The application's id from the send; empty for none.
        public var messageIdentifier = ByteRange.empty
        /// The message's reference, if the send asked for it; 0 for none.
        public var reference: UInt64 = 0
        /// Receivers that were refused although the send was accepted; 0 for none.
        public var refusedCount: UInt64 = 0
        /// Refused receivers by their index in the send's list, as far as they are named;
        /// ``RefusalList`` walks them.
        public var refusals = ByteRange.empty

        @inlinable
        public init(number: UInt64, reason: ReasonCode = .sent) {
            self.number = number
            self.reason = reason
        }

        @usableFromInline
        enum Flag {
            @usableFromInline static var reason: UInt8 { 0x01 }
            @usableFromInline static var messageIdentifier: UInt8 { 0x02 }
            @usableFromInline static var refusals: UInt8 { 0x04 }
            @usableFromInline static var reference: UInt8 { 0x08 }
        }

        public init(flags: UInt8, body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            number = try reader.readVarInt()
            reason = .sent
            if flags & Flag.reason != 0 {
                guard let reason = ReasonCode(received: try reader.readByte()), reason != .sent
                else { throw .malformed }
                self.reason = reason
            }
            if flags & Flag.messageIdentifier != 0 {
                messageIdentifier = try reader.readString8(
                    1...WireLimits.messageIdentifierByteCountMaximum)
            }
            if flags & Flag.reference != 0 { reference = try reader.readEpoch() }
            if flags & Flag.refusals != 0 {
                refusedCount = try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
                refusals = try RefusalList.read(&reader, countMaximum: refusedCount)
            }
            try reader.expectEnd()
        }

        @inlinable
        public var typeAndFlags: UInt8 {
            PacketType.result.withFlags(
                (reason == .sent ? 0 : Flag.reason)
                    | (messageIdentifier.isEmpty ? 0 : Flag.messageIdentifier)
                    | (refusedCount == 0 ? 0 : Flag.refusals)
                    | (reference == 0 ? 0 : Flag.reference))
        }

        @inlinable
        public var bodyByteCount: Int {
            var count = VariableInteger.byteCount(number)
            if reason != .sent { count += 1 }
            if !messageIdentifier.isEmpty { count += messageIdentifier.string8ByteCount }
            if reference != 0 { count += 8 }
            if refusedCount != 0 {
                count += VariableInteger.byteCount(refusedCount) + Int(refusals.count)
            }
            return count
        }

        @inlinable
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(varInt: number)
            if reason != .sent { writer.write(byte: reason.rawValue) }
            if !messageIdentifier.isEmpty {
                writer.write(string8: messageIdentifier.bytes(in: source))
            }
            if reference != 0 { writer.write(fixed8: reference) }
            if refusedCount != 0 {
                writer.write(varInt: refusedCount)
                writer.write(bytes: refusals.bytes(in: source))
            }
        }
    }

    /// One receiver that did not get the message.
    public struct Refusal: Hashable, Sendable {
        /// The place in the send's list, from 0.
        public var index: UInt32
        public var reason: ReasonCode

        @inlinable
        public init(index: UInt32, reason: ReasonCode) {
            self.index = index
            self.reason = reason
        }

        /// Bytes that one refusal takes at most: a list has at most 256 places.
        public static let byteCountMaximum = 3

        /// Bytes of this refusal in a list.
        @inlinable
        public var byteCount: Int { VariableInteger.byteCount(index) + 1 }

        /// Appends this refusal to a list that becomes ``SendResult/refusals``. Indices rise.
        @inlinable
        public func write(to writer: inout PacketWriter) {
            writer.write(varInt: index)
            writer.write(byte: reason.rawValue)
        }
    }

    /// Walks ``SendResult/refusals``.
    public struct RefusalList: ~Escapable {
        var reader: PacketReader

        /// `range` is one that a decoder gave out for `bytes`.
        @_lifetime(copy bytes)
        public init(_ range: ByteRange, in bytes: RawSpan) {
            reader = PacketReader(range.bytes(in: bytes))
        }

        public mutating func next() -> Refusal? {
            guard !reader.isAtEnd else { return nil }
            guard let index = try? reader.readVarInt(), let byte = try? reader.readByte(),
                let reason = ReasonCode(received: byte)
            else { preconditionFailure("an unchecked list of refusals") }
            return Refusal(index: UInt32(truncatingIfNeeded: index), reason: reason)
        }

        /// Checks the list that fills the rest of a body: indices rise, reasons are failures, and
        /// there are at most `countMaximum`.
        static func read(
            _ reader: inout PacketReader, countMaximum: UInt64
        ) throws(WireError) -> ByteRange {
            let start = reader.offset
            var count: UInt64 = 0
            var lowest = 0
            while !reader.isAtEnd {
                let last = WireLimits.receiverCountMaximum - 1
                let index = try reader.readVarInt(in: 0...last)
                guard index >= lowest, try reader.readByte() >= 0x80 else { throw .malformed }
                lowest = index + 1
                count += 1
            }
            guard count <= countMaximum else { throw .malformed }
            return ByteRange(offset: start, count: reader.offset - start)
        }
    }
}
