// The packets that concern the connection itself.
//
//     PINGREQ, PINGRESP  nothing
//     DISCONNECT         nothing, or in 5.0 | reason | properties, may be absent |
//     AUTH (5.0)         nothing, or | reason | properties |

import BrokerTerms
import Primitives

extension MQTT {
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
            (isResponse ? PacketType.pingresp : PacketType.pingreq).firstByte
        }
        @inlinable
        public var bodyByteCount: Int { 0 }
        @inlinable
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {}
    }

    /// Either side leaves; before 5.0 only the client says so, and nothing but that.
    public struct Disconnect: Hashable, Sendable, Packet {
        public var version: Version
        public var reason: ReasonCode
        /// From a client: replaces what CONNECT asked for; nil leaves it.
        public var sessionExpirySeconds: UInt32?
        public var reasonString: ByteRange?
        public var serverReference: ByteRange?
        public var properties = PropertySection.empty

        public init(_ version: Version, _ reason: ReasonCode = .normalDisconnection) {
            self.version = version
            self.reason = reason
        }

        /// Decodes what `peer` sent.
        public init(
            _ version: Version, body: RawSpan, from peer: Peer
        ) throws(WireError) {
            self.init(version)
            var reader = PacketReader(body)
            if version == .v5, !reader.isAtEnd {
                // [MQTT-3.14.2-1]
                guard let reason = ReasonCode(rawValue: try reader.readByte()),
                    reason.isInDisconnect(from: peer)
                else { throw .protocolError }
                self.reason = reason
                if !reader.isAtEnd { try readProperties(&reader, from: peer) }
            }
            try reader.expectEnd()
        }

        private mutating func readProperties(
            _ reader: inout PacketReader, from peer: Peer
        ) throws(WireError) {
            var section = try PropertyReader(&reader, of: .disconnect)
            while let property = try section.next() {
                switch property.identifier {
                case .sessionExpiryInterval:
                    // [MQTT-3.14.2-2]
                    guard peer == .client else { throw .protocolError }
                    sessionExpirySeconds = property.number
                case .reasonString: reasonString = property.text
                case .serverReference: serverReference = property.text
                default: break
                }
            }
            properties = section.section
        }

        public var typeAndFlags: UInt8 { PacketType.disconnect.firstByte }

        public var bodyByteCount: Int {
            guard version == .v5 else { return 0 }
            let count = propertyByteCount
            if count == 0 { return reason == .normalDisconnection ? 0 : 1 }
            return 1 + propertySectionByteCount
        }

        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            let count = bodyByteCount
            if count > 0 { writer.write(byte: reason.rawValue) }
            if count > 1 { writePropertySection(to: &writer, from: source) }
        }
    }

    /// One step of an exchange that proves who a client is (section 4.12).
    public struct Auth: Hashable, Sendable, Packet {
        public var reason: ReasonCode
        /// Nil only in the shortest form of a success.
        public var authenticationMethod: ByteRange?
        public var authenticationData: ByteRange?
        public var reasonString: ByteRange?
        public var properties = PropertySection.empty

        public init(_ reason: ReasonCode, authenticationMethod: ByteRange?) {
            self.reason = reason
            self.authenticationMethod = authenticationMethod
        }

        /// Decodes what `peer` sent.
        public init(body: RawSpan, from peer: Peer) throws(WireError) {
            self.init(.success, authenticationMethod: nil)
            var reader = PacketReader(body)
            let code = reader.isAtEnd ? 0 : try reader.readByte()
            // [MQTT-3.15.2-1]
            guard let reason = ReasonCode(rawValue: code), reason.isInAuth(from: peer) else {
                throw .protocolError
            }
            self.reason = reason
            if reader.isAtEnd && body.isEmpty { return }
            var section = try PropertyReader(&reader, of: .auth)
            while let property = try section.next() {
                switch property.identifier {
                case .authenticationMethod: authenticationMethod = property.text
                case .authenticationData: authenticationData = property.text
                case .reasonString: reasonString = property.text
                default: break
                }
            }
            properties = section.section
            try reader.expectEnd()
            // To omit it is a protocol error (section 3.15.2.2.2).
            guard authenticationMethod != nil else { throw .protocolError }
        }

        public var typeAndFlags: UInt8 { PacketType.auth.firstByte }

        private var isShort: Bool { reason == .success && propertyByteCount == 0 }

        public var bodyByteCount: Int { isShort ? 0 : 1 + propertySectionByteCount }

        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            guard !isShort else { return }
            writer.write(byte: reason.rawValue)
            writePropertySection(to: &writer, from: source)
        }
    }
}

extension MQTT.Disconnect: MQTT.PacketWithProperties {
    func putProperties(into sink: inout some MQTT.PropertySink & ~Copyable & ~Escapable) {
        if let sessionExpirySeconds { sink.put(.sessionExpiryInterval, sessionExpirySeconds) }
        sink.put(.reasonString, reasonString)
        sink.put(.serverReference, serverReference)
        sink.put(properties, of: .disconnect)
    }
}

extension MQTT.Auth: MQTT.PacketWithProperties {
    func putProperties(into sink: inout some MQTT.PropertySink & ~Copyable & ~Escapable) {
        sink.put(.authenticationMethod, authenticationMethod)
        sink.put(.authenticationData, authenticationData)
        sink.put(.reasonString, reasonString)
        sink.put(properties, of: .auth)
    }
}
