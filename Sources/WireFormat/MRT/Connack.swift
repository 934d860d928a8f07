// CONNACK, the broker's answer to CONNECT: accepted with all that both sides now agree on, or
// refused with a reason.
//
//     accepted  | reason 5 | flags | 8: session epoch | 8: resume cookie | varint time, Unix ms |
//               | varint keep-alive s | varint session expiry s | varint send window |
//               | varint inbox window | varint packet maximum | varint message maximum |
//               | varint payload maximum | string8 user | extensions by their flag |
//     refused   | reason ≥ 80 | varint retry after s | reason text |

import BrokerTerms
import Primitives

extension MRT {
    public struct ConnectAccepted: Hashable, Sendable, Packet {
        /// The broker knew this session: its queue and its outbox are still there.
        public var isSessionPresent = false
        /// A will of this user is stored.
        public var hasWill = false
        /// Random, not 0; belongs to the session's inbox numbers. A client that held another one
        /// forgets its last number.
        public var sessionEpoch: UInt64 = 0
        /// Presented on the next CONNECT.
        public var resumeCookie: UInt64 = 0
        /// The broker's clock, Unix milliseconds.
        public var serverTime: UInt64 = 0
        /// Seconds; what the client must keep to. 0 for none.
        public var keepAliveSeconds: UInt16 = 0
        /// Seconds; 0xFFFFFFFF for never.
        public var sessionExpirySeconds: UInt32 = 0
        /// Numbered sends whose results the client has not yet confirmed, at a time; 1...65535.
        public var sendWindow: UInt16 = 1
        /// Numbered deliveries unacknowledged at a time, at most what was asked for; 1...65535.
        public var inboxWindow: UInt16 = 1
        /// Bytes of the largest packet the broker takes, at least 128.
        public var packetMaximum: UInt32 = 0
        /// Bytes of the minimal JSON form of a `t`/`b` message.
        public var messageMaximum: UInt32 = 0
        /// Bytes of a raw payload on a plain topic; 0 where none are allowed.
        public var payloadMaximum: UInt32 = 0
        /// The user that the credential proved.
        public var user = ByteRange.empty
        /// Conversations with unread messages, at most ``WireLimits/unreadCountMaximum``; nil for a
        /// client that gets all messages delivered.
        public var unreadCount: UInt8?

        public init() {}

        static let unreadExtension: UInt64 = 4

        enum Flag {
            static let sessionPresent: UInt8 = 0x01
            static let will: UInt8 = 0x02
            static let extensions: UInt8 = 0x80
            static let all = sessionPresent | will | extensions
        }

        init(_ reader: inout PacketReader) throws(WireError) {
            let flags = try reader.readByte()
            guard flags & ~Flag.all == 0 else { throw .malformed }
            isSessionPresent = flags & Flag.sessionPresent != 0
            hasWill = flags & Flag.will != 0
            sessionEpoch = try reader.readEpoch()
            resumeCookie = try reader.readFixed8()
            serverTime = try reader.readVarInt()
            keepAliveSeconds = try reader.readVarInt(in: 0...WireLimits.keepAliveSecondsMaximum)
            sessionExpirySeconds = try reader.readVarInt(in: 0...UInt32.max)
            sendWindow = try reader.readVarInt(in: 1...WireLimits.windowMaximum)
            inboxWindow = try reader.readVarInt(in: 1...WireLimits.windowMaximum)
            let packetMinimum = UInt32(WireLimits.packetMaximumMinimum)
            packetMaximum = try reader.readVarInt(in: packetMinimum...UInt32.max)
            messageMaximum = try reader.readVarInt(in: 0...UInt32.max)
            payloadMaximum = try reader.readVarInt(in: 0...UInt32.max)
            user = try reader.readString8(1...WireLimits.identifierByteCountMaximum)
            if flags & Flag.extensions != 0 {
                var previous: Extension?
                repeat {
                    let item = try Extension(&reader, after: previous)
                    if item.id == ConnectAccepted.unreadExtension {
                        var value = PacketReader(item.value.bytes(in: reader.bytes))
                        unreadCount = try value.readByte()
                    } else {
                        try item.refuseIfInsistent()
                    }
                    previous = item
                } while !reader.isAtEnd
            }
            try reader.expectEnd()
        }

        public var typeAndFlags: UInt8 { PacketType.connack.withFlags(0) }

        public var bodyByteCount: Int {
            func size(_ value: UInt32) -> Int { VariableInteger.byteCount(value) }
            var count = 2 + 8 + 8 + VariableInteger.byteCount(serverTime)
            count += size(UInt32(keepAliveSeconds)) + size(sessionExpirySeconds)
            count += size(UInt32(sendWindow)) + size(UInt32(inboxWindow)) + size(packetMaximum)
            count += size(messageMaximum) + size(payloadMaximum)
            return count + user.string8ByteCount + (unreadCount == nil ? 0 : 3)
        }

        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(byte: ReasonCode.connected.rawValue)
            writer.write(
                byte: (isSessionPresent ? Flag.sessionPresent : 0) | (hasWill ? Flag.will : 0)
                    | (unreadCount == nil ? 0 : Flag.extensions))
            writer.write(fixed8: sessionEpoch)
            writer.write(fixed8: resumeCookie)
            writer.write(varInt: serverTime)
            writer.write(varInt: keepAliveSeconds)
            writer.write(varInt: sessionExpirySeconds)
            writer.write(varInt: sendWindow)
            writer.write(varInt: inboxWindow)
            writer.write(varInt: packetMaximum)
            writer.write(varInt: messageMaximum)
            writer.write(varInt: payloadMaximum)
            writer.write(string8: user.bytes(in: source))
            if let unreadCount {
                writer.write(varInt: ConnectAccepted.unreadExtension)
                writer.write(varInt: 1)
                writer.write(byte: unreadCount)
            }
        }
    }

    /// A failed login. The broker closes after it.
    public struct ConnectRefused: Hashable, Sendable, Packet {
        /// A failure.
        public var reason: ReasonCode
        /// Seconds to wait before the next attempt; 0 for no advice.
        public var retryAfterSeconds: UInt32
        /// UTF-8, for people; may be empty.
        public var text: ByteRange

        public init(reason: ReasonCode, retryAfterSeconds: UInt32 = 0, text: ByteRange = .empty) {
            precondition(reason.isFailure, "reason \(reason.rawValue) refuses nothing")
            self.reason = reason
            self.retryAfterSeconds = retryAfterSeconds
            self.text = text
        }

        public var typeAndFlags: UInt8 { PacketType.connack.withFlags(0) }

        public var bodyByteCount: Int {
            1 + VariableInteger.byteCount(retryAfterSeconds) + Int(text.count)
        }

        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(byte: reason.rawValue)
            writer.write(varInt: retryAfterSeconds)
            writer.write(bytes: text.bytes(in: source))
        }
    }

    /// What a client reads.
    public enum Connack: Hashable, Sendable {
        case accepted(ConnectAccepted)
        case refused(ConnectRefused)

        public init(body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            guard let reason = ReasonCode(received: try reader.readByte()) else {
                throw .malformed
            }
            if reason == .connected {
                self = .accepted(try ConnectAccepted(&reader))
                return
            }
            guard reason.isFailure else { throw .malformed }
            let retryAfter = try reader.readVarInt(in: 0...UInt32.max)
            self = .refused(
                ConnectRefused(
                    reason: reason, retryAfterSeconds: retryAfter, text: reader.readRest()))
        }
    }
}
