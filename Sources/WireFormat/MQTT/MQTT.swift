// The vocabulary of MQTT 3.1, 3.1.1 and 5.0: versions, packet types and their flags, qualities of
// service. Every packet has a file of its own here.
//
// A statement number such as [MQTT-3.3.1-4] stands at the line that decides it and is the number in
// MQTT 5.0. Where only 3.1.1 has the statement, or has it under another number, it is marked so.

import Primitives

/// MQTT. Each packet is a struct of plain values. Its fields of bytes are ranges of the body it was
/// decoded from, or, when it is to be encoded, of the source handed to `write(to:from:)`.
public enum MQTT {
    public typealias Packet = WirePacket
    public typealias Peer = MRT.Peer

    /// The level in CONNECT.
    public enum Version: UInt8, Hashable, Comparable, Sendable {
        case v31 = 3
        case v311 = 4
        case v5 = 5

        /// The version that a CONNECT asks for; nil where it asks for none of these.
        public init?(_ name: ProtocolName) {
            switch name {
            case .mqtt(level: 4): self = .v311
            case .mqtt(level: 5): self = .v5
            case .mqisdp(level: 3): self = .v31
            case .mqtt, .mqisdp, .mrt, .unknown: return nil
            }
        }

        @inlinable
        public static func < (left: Version, right: Version) -> Bool {
            left.rawValue < right.rawValue
        }
    }

    /// Raw values are the QoS bits of PUBLISH, of the connect flags and of subscription options.
    public enum QoS: UInt8, Hashable, Comparable, Sendable {
        case atMostOnce = 0
        case atLeastOnce = 1
        case exactlyOnce = 2

        @inlinable
        public static func < (left: QoS, right: QoS) -> Bool { left.rawValue < right.rawValue }
    }

    /// The upper four bits of a packet's first byte.
    public enum PacketType: UInt8, Hashable, Sendable {
        case connect = 1
        case connack = 2
        case publish = 3
        case puback = 4
        case pubrec = 5
        case pubrel = 6
        case pubcomp = 7
        case subscribe = 8
        case suback = 9
        case unsubscribe = 10
        case unsuback = 11
        case pingreq = 12
        case pingresp = 13
        case disconnect = 14
        case auth = 15

        /// The type of a framed packet that `peer` sent. A reserved type, a remaining length that
        /// is not minimal and flags without a meaning are malformed; a type that this peer may not
        /// send is a protocol error.
        @inlinable
        public init(_ frame: PacketFrame, _ version: Version, from peer: Peer) throws(WireError) {
            // [MQTT-1.5.5-1]. 3.1.1 has no such rule.
            guard frame.hasMinimalLength || version < .v5 else { throw .malformed }
            try self.init(firstByte: frame.typeAndFlags, version, from: peer)
        }

        /// What the first byte of a packet says, before the rest has arrived.
        @inlinable
        public init(firstByte: UInt8, _ version: Version, from peer: Peer) throws(WireError) {
            guard let type = PacketType(rawValue: firstByte >> 4), type != .auth || version == .v5
            else { throw .malformed }
            // [MQTT-2.1.3-1], [MQTT-2.2.2-1] and [MQTT-2.2.2-2] of 3.1.1.
            guard type == .publish || type.allows(firstByte & 0x0F, version) else {
                throw .malformed
            }
            guard type.isSent(by: peer, version) else { throw .protocolError }
            self = type
        }

        @inlinable
        func allows(_ flags: UInt8, _ version: Version) -> Bool {
            // 3.1 gave these three the flags of a QoS 1 PUBLISH, and a repetition bears DUP.
            let meaningful: UInt8 = version == .v31 && fixedFlags != 0 ? 0x07 : 0x0F
            return flags & meaningful == fixedFlags
        }

        /// The flag bits of every packet but PUBLISH: 2 for PUBREL [MQTT-3.6.1-1], SUBSCRIBE
        /// [MQTT-3.8.1-1] and UNSUBSCRIBE [MQTT-3.10.1-1], otherwise 0.
        @inlinable
        var fixedFlags: UInt8 {
            switch self {
            case .pubrel, .subscribe, .unsubscribe: 0x02
            case .connect, .connack, .publish, .puback, .pubrec, .pubcomp, .suback, .unsuback,
                .pingreq, .pingresp, .disconnect, .auth:
                0
            }
        }

        @inlinable
        func isSent(by peer: Peer, _ version: Version) -> Bool {
            switch self {
            case .connect, .subscribe, .unsubscribe, .pingreq: peer == .client
            case .connack, .suback, .unsuback, .pingresp: peer == .broker
            case .disconnect: peer == .client || version == .v5
            case .publish, .puback, .pubrec, .pubrel, .pubcomp, .auth: true
            }
        }

        /// The first byte of a packet of this type that is not a PUBLISH.
        @inlinable
        var firstByte: UInt8 { rawValue << 4 | fixedFlags }
    }
}

extension ByteRange {
    /// Bytes of this string with its length of two bytes.
    @inlinable
    var string16ByteCount: Int { 2 + Int(count) }
}
