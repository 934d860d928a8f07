// The properties of MQTT 5.0 (section 2.2.2): what there is, what form each has, which packets may
// carry it. The tables are the specification's table 2-4, row by row.

import Primitives

extension MQTT {
    /// Raw values are on the wire.
    public enum PropertyIdentifier: UInt8, Hashable, CaseIterable, Sendable {
        case payloadFormatIndicator = 0x01
        case messageExpiryInterval = 0x02
        case contentType = 0x03
        case responseTopic = 0x08
        case correlationData = 0x09
        case subscriptionIdentifier = 0x0B
        case sessionExpiryInterval = 0x11
        case assignedClientIdentifier = 0x12
        case serverKeepAlive = 0x13
        case authenticationMethod = 0x15
        case authenticationData = 0x16
        case requestProblemInformation = 0x17
        case willDelayInterval = 0x18
        case requestResponseInformation = 0x19
        case responseInformation = 0x1A
        case serverReference = 0x1C
        case reasonString = 0x1F
        case receiveMaximum = 0x21
        case topicAliasMaximum = 0x22
        case topicAlias = 0x23
        case maximumQoS = 0x24
        case retainAvailable = 0x25
        case userProperty = 0x26
        case maximumPacketSize = 0x27
        case wildcardSubscriptionAvailable = 0x28
        case subscriptionIdentifierAvailable = 0x29
        case sharedSubscriptionAvailable = 0x2A
    }

    /// Where a section of properties stands.
    public struct PropertyOwner: OptionSet, Hashable, Sendable {
        public var rawValue: UInt16

        @inlinable
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        @inlinable
        public init(_ type: PacketType) { self.init(rawValue: 1 << UInt16(type.rawValue)) }

        public static let connect = PropertyOwner(.connect)
        public static let connack = PropertyOwner(.connack)
        public static let publish = PropertyOwner(.publish)
        public static let subscribe = PropertyOwner(.subscribe)
        public static let disconnect = PropertyOwner(.disconnect)
        public static let auth = PropertyOwner(.auth)
        /// The will's own section within CONNECT.
        public static let will = PropertyOwner(rawValue: 1 << 0)
        /// The packets that answer one packet identifier.
        static let acknowledgements: PropertyOwner = [
            PropertyOwner(.puback), PropertyOwner(.pubrec), PropertyOwner(.pubrel),
            PropertyOwner(.pubcomp), PropertyOwner(.suback), PropertyOwner(.unsuback),
        ]
        static let all = PropertyOwner(rawValue: .max)
    }

    /// How the value of a property is encoded.
    public enum PropertyForm: Hashable, Sendable {
        /// A byte that is 0 or 1.
        case flag
        case uint16
        case uint32
        case variableInteger
        case text
        case binary
        case textPair
    }

    /// One property of a section.
    public struct Property: Hashable, Sendable {
        public var identifier: PropertyIdentifier
        /// The value where it is a number.
        public var number: UInt32 = 0
        /// The value where it is text or bytes; of a user property, the name.
        public var text = ByteRange.empty
        /// The value of a user property.
        public var value = ByteRange.empty
    }
}

extension MQTT.PropertyIdentifier {
    public var form: MQTT.PropertyForm {
        switch self {
        case .payloadFormatIndicator, .requestProblemInformation, .requestResponseInformation,
            .maximumQoS, .retainAvailable, .wildcardSubscriptionAvailable,
            .subscriptionIdentifierAvailable, .sharedSubscriptionAvailable:
            .flag
        case .serverKeepAlive, .receiveMaximum, .topicAliasMaximum, .topicAlias: .uint16
        case .messageExpiryInterval, .sessionExpiryInterval, .willDelayInterval,
            .maximumPacketSize:
            .uint32
        case .subscriptionIdentifier: .variableInteger
        case .contentType, .responseTopic, .assignedClientIdentifier, .authenticationMethod,
            .responseInformation, .serverReference, .reasonString:
            .text
        case .correlationData, .authenticationData: .binary
        case .userProperty: .textPair
        }
    }

    /// Who may carry it.
    public var owners: MQTT.PropertyOwner {
        switch self {
        case .payloadFormatIndicator, .messageExpiryInterval, .contentType, .responseTopic,
            .correlationData:
            [.publish, .will]
        case .subscriptionIdentifier: [.publish, .subscribe]
        case .sessionExpiryInterval: [.connect, .connack, .disconnect]
        case .authenticationMethod, .authenticationData: [.connect, .connack, .auth]
        case .receiveMaximum, .topicAliasMaximum, .maximumPacketSize: [.connect, .connack]
        case .requestProblemInformation, .requestResponseInformation: [.connect]
        case .willDelayInterval: [.will]
        case .topicAlias: [.publish]
        case .serverReference: [.connack, .disconnect]
        case .reasonString: [.connack, .disconnect, .auth, .acknowledgements]
        case .userProperty: .all
        case .assignedClientIdentifier, .serverKeepAlive, .responseInformation, .maximumQoS,
            .retainAvailable, .wildcardSubscriptionAvailable, .subscriptionIdentifierAvailable,
            .sharedSubscriptionAvailable:
            [.connack]
        }
    }

    /// Whether it may stand in a section more than once; others are a protocol error then. A broker
    /// names every matching subscription in one PUBLISH [MQTT-3.3.4-4].
    func mayRepeat(in owner: MQTT.PropertyOwner) -> Bool {
        self == .userProperty || (self == .subscriptionIdentifier && owner == .publish)
    }

    /// Whether it has no field in its packet's struct and is carried in the
    /// ``MQTT/PropertySection``.
    public func isCarried(in owner: MQTT.PropertyOwner) -> Bool {
        switch self {
        case .payloadFormatIndicator, .contentType, .responseTopic, .correlationData,
            .userProperty:
            true
        case .subscriptionIdentifier: owner == .publish
        case .messageExpiryInterval, .sessionExpiryInterval, .assignedClientIdentifier,
            .serverKeepAlive, .authenticationMethod, .authenticationData,
            .requestProblemInformation, .willDelayInterval, .requestResponseInformation,
            .responseInformation, .serverReference, .reasonString, .receiveMaximum,
            .topicAliasMaximum, .topicAlias, .maximumQoS, .retainAvailable, .maximumPacketSize,
            .wildcardSubscriptionAvailable, .subscriptionIdentifierAvailable,
            .sharedSubscriptionAvailable:
            false
        }
    }
}
