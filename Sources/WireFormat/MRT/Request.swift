// REQUEST and RESPONSE: everything that is asked once and answered once, by the number that the
// client gave it.
//
//     REQUEST   | varint request id ≥ 1 | operation | operation's body |
//     RESPONSE  | varint request id | reason | success: operation's result; failure: text |

import BrokerTerms
import Primitives

extension MRT {
    /// What a REQUEST asks for. The parameters and results of 1 to 5 stand in
    /// `Request+Operations.swift`, those of 16 to 24 in `GroupRequests.swift` and
    /// `GroupAnswers.swift`, those of 25 to 27, 42 and 43 in `HistoryRequests.swift`, that of 32 in
    /// `Receipts.swift`, those of 33 and 34 in `Revisions.swift`, those
    /// of 35 to 39 in `WakeTargets.swift`, those of 40 and 41 in `GroupHistoryRequests.swift`, that
    /// of 44 in `WakeReports.swift`.
    public enum Operation: UInt8, Hashable, Sendable {
        case subscribe = 1
        case unsubscribe = 2
        case setWill = 3
        case clearWill = 4
        case presence = 5
        case groupCreate = 16
        case groupJoin = 17
        case groupLeave = 18
        case groupKick = 19
        case groupBan = 20
        case groupList = 21
        case groupDescribe = 22
        case groupSetMeta = 23
        case groupSetAllowList = 24
        case history = 25
        case conversations = 26
        case markRead = 27
        case applied = 32
        case recall = 33
        case replace = 34
        case setWakeTarget = 35
        case listWakeTargets = 36
        case removeWakeTarget = 37
        case groupSetWake = 38
        case groupMute = 39
        case groupSetHistory = 40
        case groupHistory = 41
        case hideHistory = 42
        case searchHistory = 43
        case reportWakes = 44
    }

    public struct Request: Hashable, Sendable, Packet {
        /// Chosen by the client, at least 1, not in use by another open request.
        public var identifier: UInt64
        /// As on the wire: an operation that is not known is answered with
        /// ``ReasonCode/implementationSpecificError`` and ends no connection.
        public var operationCode: UInt8
        public var parameters: ByteRange

        public init(identifier: UInt64, operation: Operation, parameters: ByteRange) {
            self.identifier = identifier
            self.operationCode = operation.rawValue
            self.parameters = parameters
        }

        /// Nil where this program does not know it.
        public var operation: Operation? { Operation(rawValue: operationCode) }

        public init(body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            identifier = try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
            operationCode = try reader.readByte()
            parameters = reader.readRest()
        }

        public var typeAndFlags: UInt8 { PacketType.request.withFlags(0) }
        public var bodyByteCount: Int {
            VariableInteger.byteCount(identifier) + 1 + Int(parameters.count)
        }
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(varInt: identifier)
            writer.write(byte: operationCode)
            writer.write(bytes: parameters.bytes(in: source))
        }
    }

    /// A REQUEST that is written together with its parameters, without putting them into bytes
    /// first.
    public struct OutgoingRequest<Part: RequestPart>: Packet {
        public var identifier: UInt64
        public var operation: Operation
        public var part: Part

        public init(identifier: UInt64, operation: Operation, part: Part) {
            self.identifier = identifier
            self.operation = operation
            self.part = part
        }

        public var typeAndFlags: UInt8 { PacketType.request.withFlags(0) }
        public var bodyByteCount: Int {
            VariableInteger.byteCount(identifier) + 1 + part.byteCount
        }
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(varInt: identifier)
            writer.write(byte: operation.rawValue)
            part.write(to: &writer, from: source)
        }
    }

    public struct Response: Hashable, Sendable, Packet {
        public var identifier: UInt64
        public var reason: ReasonCode
        /// The operation's result on success, UTF-8 text for people on failure.
        public var content: ByteRange

        /// Bytes of content that fit into a packet of `byteCount`, whatever the identifier; 0
        /// stands for a packet of any size.
        public static func contentByteCount(ofPacket byteCount: UInt32) -> Int {
            byteCount == 0
                ? .max
                : Int(byteCount) - WireLimits.fixedHeaderByteCountMaximum
                    - WireLimits.varIntByteCountMaximum - 1
        }

        public init(identifier: UInt64, reason: ReasonCode, content: ByteRange = .empty) {
            self.identifier = identifier
            self.reason = reason
            self.content = content
        }

        public init(body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            identifier = try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
            guard let reason = ReasonCode(received: try reader.readByte()) else {
                throw .malformed
            }
            self.reason = reason
            content = reader.readRest()
        }

        public var typeAndFlags: UInt8 { PacketType.response.withFlags(0) }
        public var bodyByteCount: Int {
            VariableInteger.byteCount(identifier) + 1 + Int(content.count)
        }
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(varInt: identifier)
            writer.write(byte: reason.rawValue)
            writer.write(bytes: content.bytes(in: source))
        }
    }
}
