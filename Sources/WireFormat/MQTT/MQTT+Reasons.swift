// Which packet may contain which reason code (MQTT 5.0 table 2-6). A code that is none, or that
// belongs to another packet, is a protocol error: [MQTT-3.2.2-8], [MQTT-3.4.2-1] and their like.

import BrokerTerms

extension ReasonCode {
    /// The reason codes that CONNACK may contain [MQTT-3.2.2-8].
    public var isInConnack: Bool {
        switch self {
        case .success, .unspecifiedError, .malformedPacket, .protocolError,
            .implementationSpecificError, .unsupportedProtocolVersion, .clientIdentifierNotValid,
            .badUserNameOrPassword, .notAuthorized, .serverUnavailable, .serverBusy, .banned,
            .badAuthenticationMethod, .topicNameInvalid, .packetTooLarge, .quotaExceeded,
            .payloadFormatInvalid, .retainNotSupported, .qosNotSupported, .useAnotherServer,
            .serverMoved, .connectionRateExceeded:
            true
        default: false
        }
    }

    /// The reason codes that PUBACK [MQTT-3.4.2-1] or a PUBREC [MQTT-3.5.2-1] may contain.
    public var isInPublishAnswer: Bool {
        switch self {
        case .success, .noMatchingSubscribers, .unspecifiedError, .implementationSpecificError,
            .notAuthorized, .topicNameInvalid, .packetIdentifierInUse, .quotaExceeded,
            .payloadFormatInvalid:
            true
        default: false
        }
    }

    /// The reason codes that PUBREL [MQTT-3.6.2-1] or a PUBCOMP [MQTT-3.7.2-1] may contain.
    public var isInRelease: Bool { self == .success || self == .packetIdentifierNotFound }

    /// The reason codes that SUBACK may contain besides a granted QoS [MQTT-3.9.3-2].
    public var isInSuback: Bool {
        switch self {
        case .unspecifiedError, .implementationSpecificError, .notAuthorized, .topicFilterInvalid,
            .packetIdentifierInUse, .quotaExceeded, .sharedSubscriptionsNotSupported,
            .subscriptionIdentifiersNotSupported, .wildcardSubscriptionsNotSupported:
            true
        default: false
        }
    }

    /// The reason codes that UNSUBACK may contain [MQTT-3.11.3-2].
    public var isInUnsuback: Bool {
        switch self {
        case .success, .noSubscriptionExisted, .unspecifiedError, .implementationSpecificError,
            .notAuthorized, .topicFilterInvalid, .packetIdentifierInUse:
            true
        default: false
        }
    }

    /// The reason codes that DISCONNECT of a client or a broker may contain [MQTT-3.14.2-1].
    public func isInDisconnect(from peer: MQTT.Peer) -> Bool {
        switch self {
        case .normalDisconnection, .unspecifiedError, .malformedPacket, .protocolError,
            .implementationSpecificError, .topicNameInvalid, .receiveMaximumExceeded,
            .topicAliasInvalid, .packetTooLarge, .messageRateTooHigh, .quotaExceeded,
            .administrativeAction, .payloadFormatInvalid:
            true
        case .disconnectWithWill: peer == .client
        case .notAuthorized, .serverBusy, .serverShuttingDown, .badAuthenticationMethod,
            .keepAliveTimeout, .sessionTakenOver, .topicFilterInvalid, .retainNotSupported,
            .qosNotSupported, .useAnotherServer, .serverMoved, .sharedSubscriptionsNotSupported,
            .connectionRateExceeded, .maximumConnectTime, .subscriptionIdentifiersNotSupported,
            .wildcardSubscriptionsNotSupported:
            peer == .broker
        default: false
        }
    }

    /// The reason codes that AUTH may contain [MQTT-3.15.2-1].
    func isInAuth(from peer: MQTT.Peer) -> Bool {
        switch self {
        case .success: peer == .broker
        case .continueAuthentication: true
        case .reauthenticate: peer == .client
        default: false
        }
    }
}
