// Reason codes of one byte, which both dialects send, the core uses and the log prints.

/// One enum for both dialects.
///
/// 1 to 6 are Martlet's own success codes. Every other code is MQTT 5.0's (section 2.4 of that
/// specification). Below 0x80 is success, 0x80 and above is failure. Where the two overlap
/// below 0x80, Martlet's name is the case and MQTT's is an alias: what 1, 2 and 4 mean in a SUBACK
/// or a DISCONNECT follows from the packet.
public enum ReasonCode: UInt8, Hashable, BitwiseCopyable, Sendable, CaseIterable {
    case success = 0x00

    /// The send was accepted; the data is the application's message id.
    case sent = 1
    /// A message to this user.
    case unicastReceived = 2
    /// A message to a group of which this user is a member.
    case groupReceived = 3
    /// A message to everybody.
    case broadcastReceived = 4
    /// Logged in.
    case connected = 5
    /// The owner's result of a kick, and the notice to the one who was kicked out.
    case kickedOut = 6

    case noMatchingSubscribers = 0x10
    case noSubscriptionExisted = 0x11
    case continueAuthentication = 0x18
    case reauthenticate = 0x19

    case unspecifiedError = 0x80
    case malformedPacket = 0x81
    case protocolError = 0x82
    case implementationSpecificError = 0x83
    case unsupportedProtocolVersion = 0x84
    case clientIdentifierNotValid = 0x85
    case badUserNameOrPassword = 0x86
    case notAuthorized = 0x87
    case serverUnavailable = 0x88
    case serverBusy = 0x89
    case banned = 0x8A
    case serverShuttingDown = 0x8B
    case badAuthenticationMethod = 0x8C
    case keepAliveTimeout = 0x8D
    case sessionTakenOver = 0x8E
    case topicFilterInvalid = 0x8F
    case topicNameInvalid = 0x90
    case packetIdentifierInUse = 0x91
    case packetIdentifierNotFound = 0x92
    case receiveMaximumExceeded = 0x93
    case topicAliasInvalid = 0x94
    case packetTooLarge = 0x95
    case messageRateTooHigh = 0x96
    case quotaExceeded = 0x97
    case administrativeAction = 0x98
    case payloadFormatInvalid = 0x99
    case retainNotSupported = 0x9A
    case qosNotSupported = 0x9B
    case useAnotherServer = 0x9C
    case serverMoved = 0x9D
    case sharedSubscriptionsNotSupported = 0x9E
    case connectionRateExceeded = 0x9F
    case maximumConnectTime = 0xA0
    case subscriptionIdentifiersNotSupported = 0xA1
    case wildcardSubscriptionsNotSupported = 0xA2

    /// MQTT's name for 0 in DISCONNECT.
    @inlinable
    public static var normalDisconnection: ReasonCode { .success }
    /// MQTT's name for 4 in DISCONNECT, in MRT too.
    @inlinable
    public static var disconnectWithWill: ReasonCode { .broadcastReceived }

    /// The code for a byte that a peer sent. A failure this program does not know is a failure all
    /// the same, so it reads as ``unspecifiedError``; an unknown success is nil.
    @inlinable
    public init?(received byte: UInt8) {
        if let known = ReasonCode(rawValue: byte) {
            self = known
        } else if byte >= 0x80 {
            self = .unspecifiedError
        } else {
            return nil
        }
    }

    /// Whether what was asked for did not happen.
    @inlinable
    public var isFailure: Bool { rawValue >= 0x80 }
}

extension ReasonCode {
    /// The name in logs, metrics and documents.
    public var name: StaticString {
        switch self {
        case .success: "success"
        case .sent: "sent"
        case .unicastReceived: "unicast-received"
        case .groupReceived: "group-received"
        case .broadcastReceived: "broadcast-received"
        case .connected: "connected"
        case .kickedOut: "kicked-out"
        case .noMatchingSubscribers: "no-matching-subscribers"
        case .noSubscriptionExisted: "no-subscription-existed"
        case .continueAuthentication: "continue-authentication"
        case .reauthenticate: "re-authenticate"
        case .unspecifiedError, .malformedPacket, .protocolError, .implementationSpecificError,
            .unsupportedProtocolVersion, .clientIdentifierNotValid, .badUserNameOrPassword,
            .notAuthorized, .serverUnavailable, .serverBusy, .banned, .serverShuttingDown,
            .badAuthenticationMethod, .keepAliveTimeout, .sessionTakenOver:
            connectionFailureName
        case .topicFilterInvalid, .topicNameInvalid, .packetIdentifierInUse,
            .packetIdentifierNotFound, .receiveMaximumExceeded, .topicAliasInvalid, .packetTooLarge,
            .messageRateTooHigh, .quotaExceeded, .administrativeAction, .payloadFormatInvalid,
            .retainNotSupported, .qosNotSupported, .useAnotherServer, .serverMoved,
            .sharedSubscriptionsNotSupported, .connectionRateExceeded, .maximumConnectTime,
            .subscriptionIdentifiersNotSupported, .wildcardSubscriptionsNotSupported:
            requestFailureName
        }
    }

    /// 0x80 to 0x8E.
    private var connectionFailureName: StaticString {
        switch self {
        case .malformedPacket: "malformed-packet"
        case .protocolError: "protocol-error"
        case .implementationSpecificError: "implementation-specific-error"
        case .unsupportedProtocolVersion: "unsupported-protocol-version"
        case .clientIdentifierNotValid: "client-identifier-not-valid"
        case .badUserNameOrPassword: "bad-user-name-or-password"
        case .notAuthorized: "not-authorized"
        case .serverUnavailable: "server-unavailable"
        case .serverBusy: "server-busy"
        case .banned: "banned"
        case .serverShuttingDown: "server-shutting-down"
        case .badAuthenticationMethod: "bad-authentication-method"
        case .keepAliveTimeout: "keep-alive-timeout"
        case .sessionTakenOver: "session-taken-over"
        default: "unspecified-error"
        }
    }

    /// 0x8F and above.
    private var requestFailureName: StaticString {
        switch self {
        case .topicFilterInvalid: "topic-filter-invalid"
        case .topicNameInvalid: "topic-name-invalid"
        case .packetIdentifierInUse: "packet-identifier-in-use"
        case .packetIdentifierNotFound: "packet-identifier-not-found"
        case .receiveMaximumExceeded: "receive-maximum-exceeded"
        case .topicAliasInvalid: "topic-alias-invalid"
        case .packetTooLarge: "packet-too-large"
        case .messageRateTooHigh: "message-rate-too-high"
        case .quotaExceeded: "quota-exceeded"
        case .administrativeAction: "administrative-action"
        case .payloadFormatInvalid: "payload-format-invalid"
        case .retainNotSupported: "retain-not-supported"
        case .qosNotSupported: "qos-not-supported"
        case .useAnotherServer: "use-another-server"
        case .serverMoved: "server-moved"
        case .sharedSubscriptionsNotSupported: "shared-subscriptions-not-supported"
        case .connectionRateExceeded: "connection-rate-exceeded"
        case .maximumConnectTime: "maximum-connect-time"
        case .subscriptionIdentifiersNotSupported: "subscription-identifiers-not-supported"
        case .wildcardSubscriptionsNotSupported: "wildcard-subscriptions-not-supported"
        default: "unspecified-error"
        }
    }
}
