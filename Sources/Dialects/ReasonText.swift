// The reason strings of MQTT 5.0, for people who read a client's log. docs/PROTOCOL.md defines what
// the codes mean to a program.

import BrokerTerms

extension ReasonCode {
    /// One sentence; empty for a success.
    var text: StaticString {
        switch self {
        case .malformedPacket: "the packet cannot be read"
        case .protocolError: "the packet breaks the protocol"
        case .clientIdentifierNotValid: "the client id is not valid here, or not this credential's"
        case .badUserNameOrPassword: "no such token, or it has expired or was revoked"
        case .notAuthorized: "the rights of this client do not allow it"
        case .serverShuttingDown: "the broker stops; come back soon"
        case .badAuthenticationMethod: "the only method is 'token'"
        case .keepAliveTimeout: "nothing came for 1.5 times the keep-alive"
        case .sessionTakenOver: "another connection uses this client id"
        case .topicFilterInvalid: "the filter breaks a rule, or is longer or deeper than allowed"
        case .topicNameInvalid: "nobody is known by this name, or nothing may be published there"
        case .packetIdentifierNotFound: "nothing is under way with this packet identifier"
        case .receiveMaximumExceeded: "more is under way than the receive maximum allows"
        case .topicAliasInvalid: "the alias is 0 or above the topic alias maximum"
        case .packetTooLarge: "the message or packet is larger than allowed"
        case .messageRateTooHigh: "messages come faster than this client may send"
        case .quotaExceeded: "a limit of the broker is reached: its log tells which"
        case .administrativeAction: "an operator ended it"
        case .payloadFormatInvalid: "the payload is not a message of the members t and b"
        case .connectionRateExceeded: "this client id is taken over too often: two clients use it"
        case .maximumConnectTime: "the credential has expired"
        case .serverBusy, .serverUnavailable: "the broker is busy; come back later"
        case .unsupportedProtocolVersion: "this version is not spoken here"
        case .banned: "this client is banned"
        case .unspecifiedError: "it failed; the broker's log tells why"
        default: isFailure ? "it failed; the broker's log tells why" : ""
        }
    }
}

extension StaticString {
    /// The bytes, without a copy.
    var utf8Bytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: utf8Start, count: utf8CodeUnitCount)
    }
}
