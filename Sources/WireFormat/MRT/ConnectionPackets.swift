// The small packets that concern the connection itself.
//
//     PINGREQ, PINGRESP          nothing
//     DISCONNECT client->broker  nothing, or | reason | varint session expiry s, may be absent |
//     DISCONNECT broker->client  | reason | text |
//     AUTH       client->broker  credential, as in CONNECT
//     AUTH       broker->client  | reason |
//     CHANNEL    both            | varint channel | one whole inner packet |

import BrokerTerms
import Primitives

extension MRT {
    /// PINGREQ or PINGRESP: a packet that is only its type.
    public struct Ping: Hashable, Sendable, Packet {
        public var isResponse: Bool

        @inlinable
        public init(isResponse: Bool) {
            self.isResponse = isResponse
        }

        /// Checks that there is no body.
        @inlinable
        public init(isResponse: Bool, body: RawSpan) throws(WireError) {
            try PacketReader(body).expectEnd()
            self.isResponse = isResponse
        }

        @inlinable
        public var typeAndFlags: UInt8 {
            (isResponse ? PacketType.pingResponse : PacketType.pingRequest).withFlags(0)
        }
        @inlinable
        public var bodyByteCount: Int { 0 }
        @inlinable
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {}
    }

    /// The client leaves.
    public struct ClientDisconnect: Hashable, Sendable, Packet {
        /// ``ReasonCode/normalDisconnection`` removes the will, ``ReasonCode/disconnectWithWill``
        /// and failures fire it.
        public var reason: ReasonCode
        /// Replaces the session expiry of CONNACK; nil leaves it.
        public var sessionExpirySeconds: UInt32?

        public init(reason: ReasonCode = .normalDisconnection, sessionExpirySeconds: UInt32? = nil)
        {
            self.reason = reason
            self.sessionExpirySeconds = sessionExpirySeconds
        }

        public init(body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            reason = .normalDisconnection
            guard !reader.isAtEnd else { return }
            guard let reason = ReasonCode(received: try reader.readByte()),
                reason == .normalDisconnection || reason == .disconnectWithWill || reason.isFailure
            else { throw .malformed }
            self.reason = reason
            if !reader.isAtEnd {
                sessionExpirySeconds = try reader.readVarInt(in: 0...UInt32.max)
            }
            try reader.expectEnd()
        }

        public var typeAndFlags: UInt8 { PacketType.disconnect.withFlags(0) }
        public var bodyByteCount: Int {
            if let sessionExpirySeconds {
                return 1 + VariableInteger.byteCount(sessionExpirySeconds)
            }
            return reason == .normalDisconnection ? 0 : 1
        }
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            if bodyByteCount > 0 { writer.write(byte: reason.rawValue) }
            if let sessionExpirySeconds { writer.write(varInt: sessionExpirySeconds) }
        }
    }

    /// The broker ends the connection, or confirms that the client has.
    public struct BrokerDisconnect: Hashable, Sendable, Packet {
        public var reason: ReasonCode
        /// UTF-8, for people; may be empty.
        public var text: ByteRange

        public init(reason: ReasonCode, text: ByteRange = .empty) {
            self.reason = reason
            self.text = text
        }

        public init(body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            guard let reason = ReasonCode(received: try reader.readByte()) else {
                throw .malformed
            }
            self.reason = reason
            text = reader.readRest()
        }

        public var typeAndFlags: UInt8 { PacketType.disconnect.withFlags(0) }
        public var bodyByteCount: Int { 1 + Int(text.count) }
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(byte: reason.rawValue)
            writer.write(bytes: text.bytes(in: source))
        }
    }

    /// A new credential for the same user, before the old one expires.
    public struct ClientAuth: Hashable, Sendable, Packet {
        public var credential: Credential

        public init(credential: Credential) {
            self.credential = credential
        }

        public init(body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            credential = try Credential(&reader)
            try reader.expectEnd()
        }

        public var typeAndFlags: UInt8 { PacketType.auth.withFlags(0) }
        public var bodyByteCount: Int { credential.byteCount }
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            precondition(credential != .none, "no credential is not a new one")
            credential.write(to: &writer, from: source)
        }
    }

    /// What became of a ``ClientAuth``.
    public struct BrokerAuth: Hashable, Sendable, Packet {
        public var reason: ReasonCode

        public init(reason: ReasonCode) {
            self.reason = reason
        }

        public init(body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            guard let reason = ReasonCode(received: try reader.readByte()) else {
                throw .malformed
            }
            self.reason = reason
            try reader.expectEnd()
        }

        public var typeAndFlags: UInt8 { PacketType.auth.withFlags(0) }
        public var bodyByteCount: Int { 1 }
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(byte: reason.rawValue)
        }
    }

    /// One packet of a conversation that a gateway carries over its connection.
    public struct Channel: Hashable, Sendable, Packet {
        /// Which of the connection's conversations.
        public var channel: UInt32
        /// One whole packet with its fixed header.
        public var inner: ByteRange

        public init(channel: UInt32, inner: ByteRange) {
            self.channel = channel
            self.inner = inner
        }

        public init(body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            channel = try reader.readVarInt(in: 0...UInt32.max)
            inner = reader.readRest()
            let bytes = inner.bytes(in: body)
            guard
                case .packet(let frame) = PacketFrame.next(in: bytes, at: 0, packetMaximum: .max),
                frame.byteCount == bytes.byteCount, frame.type != PacketType.channel.rawValue
            else { throw .malformed }
        }

        public var typeAndFlags: UInt8 { PacketType.channel.withFlags(0) }
        public var bodyByteCount: Int {
            VariableInteger.byteCount(channel) + Int(inner.count)
        }
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(varInt: channel)
            writer.write(bytes: inner.bytes(in: source))
        }

        /// The most bytes that stand before the inner packet: type, remaining length, channel.
        public static let prefixByteCountMaximum = 1 + 4 + 5

        /// Bytes before an inner packet of `innerByteCount` bytes.
        public static func prefixByteCount(channel: UInt32, innerByteCount: Int) -> Int {
            let channelByteCount = VariableInteger.byteCount(channel)
            return 1 + VariableInteger.byteCount(channelByteCount + innerByteCount)
                + channelByteCount
        }

        /// Writes what stands before an inner packet that is written next.
        public static func writePrefix(
            channel: UInt32, innerByteCount: Int, to writer: inout PacketWriter
        ) {
            writer.write(byte: PacketType.channel.withFlags(0))
            writer.write(varInt: VariableInteger.byteCount(channel) + innerByteCount)
            writer.write(varInt: channel)
        }
    }
}
