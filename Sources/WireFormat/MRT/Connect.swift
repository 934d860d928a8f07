// CONNECT, the client's first packet.
//
//     | 00 03 'M' 'R' 'T' | level 1 | connect flags | varint keep-alive s | varint inbox window |
//     | varint packet maximum | string8 device |
//     | credential | resume | cookie | outbox | session expiry | extensions |   each by its flag

import Primitives

extension MRT {
    /// Who a client says it is.
    public enum Credential: Hashable, Sendable {
        /// The transport has proved it: a client certificate or a pre-shared key.
        case none
        /// An opaque session token or a JWT, 1...65535 bytes.
        case token(ByteRange)
        /// App id, app key (1...255 bytes) and the user that the client names; for back ends
        /// and development.
        case appKey(app: ByteRange, key: ByteRange, user: ByteRange)
        /// The user, on a channel: the gateway whose connection carries it vouches for the user.
        case attached(user: ByteRange)

        init(_ reader: inout PacketReader) throws(WireError) {
            switch try reader.readByte() {
            case 1: self = .token(try reader.readStringV(1...WireLimits.tokenByteCountMaximum))
            case 2:
                let app = try reader.readString8()
                let key = try reader.readString8(1...WireLimits.appKeyByteCountMaximum)
                self = .appKey(app: app, key: key, user: try reader.readString8())
            case 3: self = .attached(user: try reader.readString8())
            default: throw .malformed
            }
        }

        var byteCount: Int {
            switch self {
            case .none: 0
            case .token(let token): 1 + token.stringVByteCount
            case .appKey(let app, let key, let user):
                1 + app.string8ByteCount + key.string8ByteCount + user.string8ByteCount
            case .attached(let user): 1 + user.string8ByteCount
            }
        }

        func write(to writer: inout PacketWriter, from source: RawSpan) {
            switch self {
            case .none: break
            case .token(let token):
                writer.write(byte: 1)
                writer.write(stringV: token.bytes(in: source))
            case .appKey(let app, let key, let user):
                writer.write(byte: 2)
                writer.write(string8: app.bytes(in: source))
                writer.write(string8: key.bytes(in: source))
                writer.write(string8: user.bytes(in: source))
            case .attached(let user):
                writer.write(byte: 3)
                writer.write(string8: user.bytes(in: source))
            }
        }
    }

    /// What the client holds of its inbox: the record it keeps in flash.
    public struct Resume: Hashable, Sendable {
        /// The session epoch of the CONNACK under which the number was received; not 0.
        public var epoch: UInt64
        /// Everything up to this number has been processed; 0 where nothing has.
        public var lastNumber: UInt64

        public init(epoch: UInt64, lastNumber: UInt64) {
            self.epoch = epoch
            self.lastNumber = lastNumber
        }
    }

    /// What the client says of its own numbering.
    public struct Outbox: Hashable, Sendable {
        /// Random, not 0, new whenever the client's numbering starts again.
        public var epoch: UInt64
        /// Results up to this number need not be kept any longer.
        public var resultsSeen: UInt64
        /// The highest number that was ever sent under this epoch; at least `resultsSeen`.
        public var highestUsed: UInt64

        public init(epoch: UInt64, resultsSeen: UInt64, highestUsed: UInt64) {
            self.epoch = epoch
            self.resultsSeen = resultsSeen
            self.highestUsed = highestUsed
        }
    }

    /// What a client accepts beyond level 1. Without the declaration it gets none of it.
    public struct ClientAccepts: OptionSet, Hashable, Sendable {
        public var rawValue: UInt8

        public init(rawValue: UInt8) { self.rawValue = rawValue }

        /// Blocks of fields in DELIVER.
        public static var fields: ClientAccepts { ClientAccepts(rawValue: 1) }
        /// Deliveries of the kinds ``DeliveryKind/recall`` and ``DeliveryKind/update``.
        public static var revisions: ClientAccepts { ClientAccepts(rawValue: 2) }
        /// Messages that history keeps are not delivered: the client reads their conversations.
        public static var pull: ClientAccepts { ClientAccepts(rawValue: 4) }
    }

    public struct Connect: Hashable, Sendable, Packet {
        /// Forget the session, its queue and its outbox before connecting.
        public var isCleanStart = false
        /// An automatic re-login: on a conflict this one is refused and the other stays.
        public var isReconnect = false
        /// Seconds; 0 asks for none.
        public var keepAliveSeconds: UInt16 = 0
        /// Numbered deliveries unacknowledged at a time, 1...65535.
        public var inboxWindow: UInt16 = 1
        /// Bytes of the largest packet the client takes, at least 128; 0 for the broker's own.
        public var packetMaximum: UInt32 = 0
        /// 0...64 bytes.
        public var device = ByteRange.empty
        public var credential = Credential.none
        public var resume: Resume?
        /// From the last CONNACK: it lets this login replace the ghost of its own connection.
        public var cookie: UInt64?
        public var outbox: Outbox?
        /// Seconds the session outlives its connection; nil for the broker's default.
        public var sessionExpirySeconds: UInt32?
        /// JSON text about the device, at most 5120 bytes; empty for none.
        public var information = ByteRange.empty
        /// What the client accepts beyond level 1.
        public var accepts: ClientAccepts = []

        public init() {}

        enum Flag {
            static let cleanStart: UInt8 = 0x01
            static let reconnect: UInt8 = 0x02
            static let resume: UInt8 = 0x04
            static let cookie: UInt8 = 0x08
            static let outbox: UInt8 = 0x10
            static let sessionExpiry: UInt8 = 0x20
            static let credential: UInt8 = 0x40
            static let extensions: UInt8 = 0x80
        }
        static let nameAndLevelByteCount = 6
        static let informationExtension: UInt64 = 1
        static let acceptsExtension: UInt64 = 4

        /// Decodes the body of a CONNECT, name and level included. Ids are checked for structure
        /// only: who they may be is the login's matter.
        public init(body: RawSpan) throws(WireError) {
            guard case .mrt(let level) = try ProtocolName.read(body), level == MRT.level else {
                throw .unsupportedVersion
            }
            var reader = PacketReader(body)
            _ = try reader.readBytes(Connect.nameAndLevelByteCount)
            let flags = try reader.readByte()
            isCleanStart = flags & Flag.cleanStart != 0
            isReconnect = flags & Flag.reconnect != 0
            keepAliveSeconds = try reader.readVarInt(in: 0...WireLimits.keepAliveSecondsMaximum)
            inboxWindow = try reader.readVarInt(in: 1...WireLimits.windowMaximum)
            packetMaximum = try reader.readVarInt(in: 0...UInt32.max)
            guard packetMaximum == 0 || packetMaximum >= UInt32(WireLimits.packetMaximumMinimum)
            else { throw .malformed }
            device = try reader.readString8()
            if flags & Flag.credential != 0 { credential = try Credential(&reader) }
            try readOptionalParts(&reader, flags)
            try reader.expectEnd()
        }

        private mutating func readOptionalParts(
            _ reader: inout PacketReader, _ flags: UInt8
        ) throws(WireError) {
            if flags & Flag.resume != 0 {
                let epoch = try reader.readEpoch()
                resume = Resume(epoch: epoch, lastNumber: try reader.readVarInt())
            }
            if flags & Flag.cookie != 0 { cookie = try reader.readFixed8() }
            if flags & Flag.outbox != 0 {
                let epoch = try reader.readEpoch()
                let seen = try reader.readVarInt()
                let used = try reader.readVarInt(in: seen...WireLimits.varIntMaximum)
                outbox = Outbox(epoch: epoch, resultsSeen: seen, highestUsed: used)
            }
            if flags & Flag.sessionExpiry != 0 {
                sessionExpirySeconds = try reader.readVarInt(in: 0...UInt32.max)
            }
            if flags & Flag.extensions != 0 { try readExtensions(&reader) }
        }

        private mutating func readExtensions(_ reader: inout PacketReader) throws(WireError) {
            var previous: Extension?
            repeat {
                let item = try Extension(&reader, after: previous)
                previous = item
                switch item.id {
                case Connect.informationExtension:
                    guard
                        (1...WireLimits.informationByteCountMaximum).contains(Int(item.value.count))
                    else { throw .malformed }
                    information = item.value
                case Connect.acceptsExtension:
                    var value = PacketReader(item.value.bytes(in: reader.bytes))
                    accepts = ClientAccepts(rawValue: try value.readByte())
                default: try item.refuseIfInsistent()
                }
            } while !reader.isAtEnd
        }

        public var typeAndFlags: UInt8 { PacketType.connect.withFlags(0) }

        public var bodyByteCount: Int {
            var count = Connect.nameAndLevelByteCount + 1
            count += VariableInteger.byteCount(keepAliveSeconds)
            count += VariableInteger.byteCount(inboxWindow)
            count += VariableInteger.byteCount(packetMaximum)
            count += device.string8ByteCount + credential.byteCount
            if let resume { count += 8 + VariableInteger.byteCount(resume.lastNumber) }
            if cookie != nil { count += 8 }
            if let outbox {
                count += 8 + VariableInteger.byteCount(outbox.resultsSeen)
                count += VariableInteger.byteCount(outbox.highestUsed)
            }
            if let sessionExpirySeconds {
                count += VariableInteger.byteCount(sessionExpirySeconds)
            }
            if !information.isEmpty { count += 1 + information.stringVByteCount }
            if !accepts.isEmpty { count += 3 }
            return count
        }

        private var connectFlags: UInt8 {
            var flags: UInt8 = 0
            if isCleanStart { flags |= Flag.cleanStart }
            if isReconnect { flags |= Flag.reconnect }
            if resume != nil { flags |= Flag.resume }
            if cookie != nil { flags |= Flag.cookie }
            if outbox != nil { flags |= Flag.outbox }
            if sessionExpirySeconds != nil { flags |= Flag.sessionExpiry }
            if credential != .none { flags |= Flag.credential }
            if !information.isEmpty || !accepts.isEmpty { flags |= Flag.extensions }
            return flags
        }

        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(uint16: 3)
            writer.write(byte: UInt8(ascii: "M"))
            writer.write(byte: UInt8(ascii: "R"))
            writer.write(byte: UInt8(ascii: "T"))
            writer.write(byte: MRT.level)
            writer.write(byte: connectFlags)
            writer.write(varInt: keepAliveSeconds)
            writer.write(varInt: inboxWindow)
            writer.write(varInt: packetMaximum)
            writer.write(string8: device.bytes(in: source))
            credential.write(to: &writer, from: source)
            if let resume {
                writer.write(fixed8: resume.epoch)
                writer.write(varInt: resume.lastNumber)
            }
            if let cookie { writer.write(fixed8: cookie) }
            if let outbox {
                writer.write(fixed8: outbox.epoch)
                writer.write(varInt: outbox.resultsSeen)
                writer.write(varInt: outbox.highestUsed)
            }
            if let sessionExpirySeconds { writer.write(varInt: sessionExpirySeconds) }
            if !information.isEmpty {
                writer.write(varInt: Connect.informationExtension)
                writer.write(stringV: information.bytes(in: source))
            }
            if !accepts.isEmpty {
                writer.write(varInt: Connect.acceptsExtension)
                writer.write(varInt: 1)
                writer.write(byte: accepts.rawValue)
            }
        }
    }
}
