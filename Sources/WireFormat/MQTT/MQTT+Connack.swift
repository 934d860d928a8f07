// CONNACK, the broker's answer to CONNECT.
//
//     | 7-1: 0, 0: session present | return code, or reason code in 5.0 | properties (5.0) |

import BrokerTerms
import Primitives

extension MQTT {
    public struct Connack: Hashable, Sendable, Packet {
        public var version: Version
        /// The broker knew this session. Never together with a refusal [MQTT-3.2.2-6].
        public var isSessionPresent: Bool
        /// ``ReasonCode/success`` or a failure, in 3.1 and 3.1.1 too: see ``returnCode(of:)``.
        public var reason: ReasonCode

        // In 5.0 only.
        /// Seconds, where they are not those that were asked for.
        public var sessionExpirySeconds: UInt32?
        /// Publications of QoS 1 and 2 that the broker takes at a time; not 0.
        public var receiveMaximum = UInt16.max
        public var maximumQoS = QoS.exactlyOnce
        public var isRetainAvailable = true
        /// Bytes of the largest packet the broker takes; 0 for any.
        public var packetMaximum: UInt32 = 0
        /// Where the client named none.
        public var assignedClientIdentifier: ByteRange?
        /// The highest topic alias the broker takes; 0 for none.
        public var topicAliasMaximum: UInt16 = 0
        public var reasonString: ByteRange?
        public var isWildcardAvailable = true
        public var isSubscriptionIdentifierAvailable = true
        public var isSharedSubscriptionAvailable = true
        /// Seconds that hold in place of those the client asked for [MQTT-3.2.2-21].
        public var serverKeepAliveSeconds: UInt16?
        public var responseInformation: ByteRange?
        public var serverReference: ByteRange?
        public var authenticationMethod: ByteRange?
        public var authenticationData: ByteRange?
        public var properties = PropertySection.empty

        public init(_ version: Version, _ reason: ReasonCode, isSessionPresent: Bool = false) {
            precondition(
                !isSessionPresent || !reason.isFailure,
                "reason \(reason.rawValue) with a present session")
            self.version = version
            self.reason = reason
            self.isSessionPresent = isSessionPresent
        }

        /// Decodes what a broker sent to a client that speaks `version`.
        public init(_ version: Version, body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            let flags = try reader.readByte()
            // [MQTT-3.2.2-1]. 3.1 leaves the byte unused.
            guard flags <= 1 || version == .v31 else { throw .malformed }
            let code = try reader.readByte()
            guard let reason = Connack.reason(of: code, version) else { throw .malformed }
            self.init(version, reason)
            if version > .v31 { isSessionPresent = flags == 1 }
            // [MQTT-3.2.2-6]; in 3.1.1 [MQTT-3.2.2-4].
            guard !isSessionPresent || !reason.isFailure else { throw .protocolError }
            if version == .v5 { try readProperties(&reader) }
            try reader.expectEnd()
        }

        private mutating func readProperties(_ reader: inout PacketReader) throws(WireError) {
            var section = try PropertyReader(&reader, of: .connack)
            while let property = try section.next() {
                switch property.identifier {
                case .sessionExpiryInterval: sessionExpirySeconds = property.number
                case .receiveMaximum: receiveMaximum = UInt16(property.number)
                case .maximumQoS: maximumQoS = property.number == 0 ? .atMostOnce : .atLeastOnce
                case .maximumPacketSize: packetMaximum = property.number
                case .topicAliasMaximum: topicAliasMaximum = UInt16(property.number)
                case .serverKeepAlive: serverKeepAliveSeconds = UInt16(property.number)
                default: take(property)
                }
            }
            properties = section.section
        }

        /// The properties that are texts or marks.
        private mutating func take(_ property: Property) {
            switch property.identifier {
            case .retainAvailable: isRetainAvailable = property.number == 1
            case .wildcardSubscriptionAvailable: isWildcardAvailable = property.number == 1
            case .subscriptionIdentifierAvailable:
                isSubscriptionIdentifierAvailable = property.number == 1
            case .sharedSubscriptionAvailable:
                isSharedSubscriptionAvailable = property.number == 1
            case .assignedClientIdentifier: assignedClientIdentifier = property.text
            case .reasonString: reasonString = property.text
            case .responseInformation: responseInformation = property.text
            case .serverReference: serverReference = property.text
            case .authenticationMethod: authenticationMethod = property.text
            case .authenticationData: authenticationData = property.text
            default: break
            }
        }

        public var typeAndFlags: UInt8 { PacketType.connack.firstByte }
        public var bodyByteCount: Int { 2 + (version == .v5 ? propertySectionByteCount : 0) }

        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(byte: isSessionPresent && version > .v31 ? 1 : 0)
            if version == .v5 {
                writer.write(byte: reason.rawValue)
                writePropertySection(to: &writer, from: source)
            } else {
                writer.write(byte: Connack.returnCode(of: reason))
            }
        }

        /// The return code of 3.1 and 3.1.1 (table 3.1 there) that tells a client most of a reason.
        static func returnCode(of reason: ReasonCode) -> UInt8 {
            switch reason {
            case .unsupportedProtocolVersion: 1
            case .clientIdentifierNotValid: 2
            case .badUserNameOrPassword, .badAuthenticationMethod: 4
            case .notAuthorized, .banned: 5
            // "Server unavailable" makes clients try again later.
            default: reason.isFailure ? 3 : 0
            }
        }

        private static func reason(of code: UInt8, _ version: Version) -> ReasonCode? {
            guard version < .v5 else {
                return ReasonCode(rawValue: code).flatMap { $0.isInConnack ? $0 : nil }
            }
            switch code {
            case 0: return .success
            case 1: return .unsupportedProtocolVersion
            case 2: return .clientIdentifierNotValid
            case 3: return .serverUnavailable
            case 4: return .badUserNameOrPassword
            case 5: return .notAuthorized
            default: return nil
            }
        }
    }
}

extension MQTT.Connack: MQTT.PacketWithProperties {
    func putProperties(into sink: inout some MQTT.PropertySink & ~Copyable & ~Escapable) {
        if let sessionExpirySeconds { sink.put(.sessionExpiryInterval, sessionExpirySeconds) }
        sink.put(.receiveMaximum, receiveMaximum, default: UInt16.max)
        sink.put(.maximumQoS, maximumQoS.rawValue, default: MQTT.QoS.exactlyOnce.rawValue)
        sink.put(.retainAvailable, isRetainAvailable, default: true)
        sink.put(.maximumPacketSize, packetMaximum, default: 0 as UInt32)
        sink.put(.assignedClientIdentifier, assignedClientIdentifier)
        sink.put(.topicAliasMaximum, topicAliasMaximum, default: 0 as UInt16)
        sink.put(.reasonString, reasonString)
        sink.put(.wildcardSubscriptionAvailable, isWildcardAvailable, default: true)
        sink.put(
            .subscriptionIdentifierAvailable, isSubscriptionIdentifierAvailable, default: true)
        sink.put(.sharedSubscriptionAvailable, isSharedSubscriptionAvailable, default: true)
        if let serverKeepAliveSeconds {
            sink.put(.serverKeepAlive, UInt32(serverKeepAliveSeconds))
        }
        sink.put(.responseInformation, responseInformation)
        sink.put(.serverReference, serverReference)
        sink.put(.authenticationMethod, authenticationMethod)
        sink.put(.authenticationData, authenticationData)
        sink.put(properties, of: .connack)
    }
}
