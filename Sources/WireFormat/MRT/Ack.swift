// ACK, both of the client's acknowledgements in one packet.
//
//     flags  1: results seen   0: inbox number     at least one
//     | varint inbox number | varint results seen |   each covers everything up to it

import Primitives

extension MRT {
    public struct Ack: Hashable, Sendable, Packet {
        /// Everything in the inbox up to this number has been processed; 0 where nothing is said.
        public var inboxNumber: UInt64
        /// The results of all sends up to this number have been seen; 0 where nothing is said.
        public var resultsSeen: UInt64

        @inlinable
        public init(inboxNumber: UInt64 = 0, resultsSeen: UInt64 = 0) {
            self.inboxNumber = inboxNumber
            self.resultsSeen = resultsSeen
        }

        @usableFromInline
        enum Flag {
            @usableFromInline static var inboxNumber: UInt8 { 0x01 }
            @usableFromInline static var resultsSeen: UInt8 { 0x02 }
        }

        @inlinable
        public init(flags: UInt8, body: RawSpan) throws(WireError) {
            guard flags != 0 else { throw .malformed }
            var reader = PacketReader(body)
            inboxNumber = 0
            resultsSeen = 0
            if flags & Flag.inboxNumber != 0 {
                inboxNumber = try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
            }
            if flags & Flag.resultsSeen != 0 {
                resultsSeen = try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
            }
            try reader.expectEnd()
        }

        @inlinable
        public var typeAndFlags: UInt8 {
            PacketType.ack.withFlags(
                (inboxNumber == 0 ? 0 : Flag.inboxNumber)
                    | (resultsSeen == 0 ? 0 : Flag.resultsSeen))
        }

        @inlinable
        public var bodyByteCount: Int {
            (inboxNumber == 0 ? 0 : VariableInteger.byteCount(inboxNumber))
                + (resultsSeen == 0 ? 0 : VariableInteger.byteCount(resultsSeen))
        }

        @inlinable
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            precondition(
                inboxNumber != 0 || resultsSeen != 0, "an ACK of inbox number 0 and results 0")
            if inboxNumber != 0 { writer.write(varInt: inboxNumber) }
            if resultsSeen != 0 { writer.write(varInt: resultsSeen) }
        }
    }
}
