// The reason strings of MQTT 5.0, for people who read a client's log. docs/PROTOCOL.md defines the
// codes for programs.

import BrokerCore
import BrokerTerms

extension ReasonCode {
    /// One clause; empty for a success.
    var text: StaticString {
        switch self {
        case .malformedPacket: "the packet is malformed"
        case .protocolError: "the packet is not allowed in this state"
        case .clientIdentifierNotValid:
            "the client id is invalid, or the credential is bound to another one"
        case .badUserNameOrPassword: "the credential is unknown, expired or revoked"
        case .notAuthorized: "no right of this client allows the request"
        case .serverShuttingDown: "the broker is shutting down; reconnect later"
        case .badAuthenticationMethod: "the only authentication method is 'token'"
        case .keepAliveTimeout: "no packet arrived for 1.5 times the keep-alive"
        case .sessionTakenOver: "another connection uses this client id"
        case .topicFilterInvalid: "the filter is invalid, or exceeds a limit"
        case .topicNameInvalid: "the user or group is unknown, or the topic is invalid"
        case .packetIdentifierInUse: "an incomplete exchange uses this packet identifier"
        case .packetIdentifierNotFound: "no exchange uses this packet identifier"
        case .receiveMaximumExceeded: "more messages are unanswered than the receive maximum allows"
        case .topicAliasInvalid: "the alias is 0 or above the topic alias maximum"
        case .packetTooLarge: "the message or packet is larger than the limit"
        case .messageRateTooHigh: "the client exceeds its message rate"
        case .quotaExceeded: "a limit of the broker is reached; the broker's log names it"
        case .qosNotSupported: "this grade does not allow what the message asks for"
        case .administrativeAction: "an operator ended the connection"
        case .payloadFormatInvalid: "the payload is not a message with the members t and b"
        case .connectionRateExceeded: "two clients use this client id and take it over too often"
        case .maximumConnectTime: "the credential has expired"
        case .serverBusy, .serverUnavailable: "the broker is busy; try again later"
        case .useAnotherServer: "another node of the cluster serves this app"
        case .unsupportedProtocolVersion: "this protocol version is not supported"
        case .banned: "this client is banned"
        case .unspecifiedError: "an unspecified error; the broker's log has the reason"
        default: isFailure ? "an unspecified error; the broker's log has the reason" : ""
        }
    }
}

extension ReasonCode {
    /// The clause for a client: that of the cause, if the broker knows one.
    func text(_ cause: LimitName) -> [UInt8] {
        cause == .none ? Array(text.utf8Bytes) : cause.text
    }
}

extension VerdictNote {
    /// The moderator's text, or the clause of the cause.
    func detail(_ cause: LimitName) -> [UInt8] { text.isEmpty ? cause.text : text }
}

extension StaticString {
    /// The bytes, without a copy.
    var utf8Bytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: utf8Start, count: utf8CodeUnitCount)
    }
}
