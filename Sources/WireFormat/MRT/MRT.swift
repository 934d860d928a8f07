// The vocabulary of MRT, Martlet's own dialect, level 1: packet types, grades, kinds, and what
// every packet can do. docs/PROTOCOL.md is the normative text; each packet's file draws its layout.

import Primitives

/// MRT level 1. Each packet is a struct of plain values. Its fields of bytes are ranges of the
/// buffer it was decoded from, or, when it is to be encoded, of the one handed to
/// `write(to:from:)`.
public enum MRT {
    /// The level in CONNECT.
    public static let level: UInt8 = 1

    /// The upper four bits of a packet's first byte.
    public enum PacketType: UInt8, Hashable, Sendable {
        case connect = 1
        case connack = 2
        case send = 3
        case result = 4
        case deliver = 5
        case ack = 6
        case request = 7
        case response = 8
        case channel = 10
        case pingRequest = 12
        case pingResponse = 13
        case disconnect = 14
        case auth = 15

        /// The type of a framed packet that `peer` sent. Reserved types, a remaining length that is
        /// not minimal, and flags without a meaning are malformed; a type that this peer may not
        /// send is a protocol error.
        @inlinable
        public init(_ frame: PacketFrame, from peer: Peer) throws(WireError) {
            guard frame.hasMinimalLength else { throw .malformed }
            try self.init(firstByte: frame.typeAndFlags, from: peer)
        }

        /// What the first byte of a packet says, before the rest has arrived.
        @inlinable
        public init(firstByte: UInt8, from peer: Peer) throws(WireError) {
            guard let type = PacketType(rawValue: firstByte >> 4),
                firstByte & 0x0F & ~type.flagMask == 0
            else { throw .malformed }
            guard type.isSent(by: peer) else { throw .protocolError }
            self = type
        }

        @inlinable
        func isSent(by peer: Peer) -> Bool {
            switch self {
            case .connect, .send, .ack, .request, .pingRequest: peer == .client
            case .connack, .result, .deliver, .response, .pingResponse: peer == .broker
            case .channel, .disconnect, .auth: true
            }
        }

        /// The flag bits that have a meaning; all others must be 0.
        @inlinable
        public var flagMask: UInt8 {
            switch self {
            case .send, .deliver, .result: 0x0F
            case .ack: 0x03
            case .connect, .connack, .request, .response, .channel, .pingRequest, .pingResponse,
                .disconnect, .auth:
                0
            }
        }
    }

    /// The two ends of a connection.
    public enum Peer: Hashable, Sendable {
        case client
        case broker
    }

    /// What is promised of a message. Raw values are the grade bits of SEND and
    /// DELIVER.
    public enum Grade: UInt8, Hashable, Sendable {
        case transient = 0
        case durable = 1
        case once = 2
    }

    /// How a message reached its receiver. Raw values are the kind byte of DELIVER; 2, 3, 4 and 6
    /// are the reason codes of the delivery.
    public enum DeliveryKind: UInt8, Hashable, Sendable {
        /// A plain topic, which is the address.
        case topic = 0
        case unicast = 2
        /// To a group, which is the address.
        case group = 3
        case broadcast = 4
        /// This user was kicked out of the group in the address.
        case kickedOut = 6
        /// An event of the group in the address; the payload is an event byte and its data.
        case groupEvent = 7
        /// The presence of `from` changed; the payload is an event byte and its data.
        case presence = 8
        /// What receivers did with a message of this user; ``Receipt`` reads the payload.
        case receipt = 9
        /// A message to this user, or to the group in the address, was recalled; ``Revision``
        /// reads the payload. Only for a client that declared ``ClientAccepts/revisions``.
        case recall = 10
        /// The same of a message with new content.
        case update = 11
        /// An event of the broker for a relay; the payload is JSON text.
        case brokerEvent = 12

        /// Whether an address (a group id or a topic) is part of the packet.
        @inlinable
        public var hasAddress: Bool {
            switch self {
            case .topic, .group, .kickedOut, .groupEvent, .recall, .update: true
            case .unicast, .broadcast, .presence, .receipt, .brokerEvent: false
            }
        }

        /// Whether the address may be empty: a message to a user has none.
        @inlinable
        var hasOptionalAddress: Bool { self == .recall || self == .update }

        /// Whether the payload begins with a byte of its own: `t` or an event. Only a raw payload
        /// and the notice of a kick may be empty.
        @inlinable
        func needsPayload(isRaw: Bool) -> Bool { !isRaw && self != .kickedOut }
    }

    public typealias Packet = WirePacket
}

extension MRT.PacketType {
    /// The first byte of a packet of this type.
    @inlinable
    func withFlags(_ flags: UInt8) -> UInt8 { rawValue << 4 | flags }
}

extension ByteRange {
    /// Bytes of this string with its one-byte length.
    @inlinable
    var string8ByteCount: Int { 1 + Int(count) }
    /// Bytes of this string with its variable length.
    @inlinable
    var stringVByteCount: Int { VariableInteger.byteCount(count) + Int(count) }
}
