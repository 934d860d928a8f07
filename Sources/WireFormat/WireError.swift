// The errors that a decoder throws for invalid bytes of a peer. Each is also a reason code.

import BrokerTerms

/// Why bytes are not a packet. The connection ends after any of these: what follows cannot be
/// trusted.
public enum WireError: Error, Hashable, Sendable {
    /// The bytes have no meaning: a length that overruns, a reserved bit, a field outside its
    /// range.
    case malformed
    /// The packet is well-formed but not permitted: an unknown mandatory extension, a raw payload
    /// to a user.
    case protocolError
    /// A CONNECT with a protocol or a level that is not supported.
    case unsupportedVersion
    /// A client id that is not accepted: an empty one that requests a lasting session.
    case clientIdentifierNotValid
    /// A topic name that no topic can have: empty, or with wildcards.
    case topicNameInvalid
    /// A topic filter that breaks the rules of wildcards or of shared subscriptions.
    case topicFilterInvalid
    /// A topic alias of 0.
    case topicAliasInvalid

    @inlinable
    public var reason: ReasonCode {
        switch self {
        case .malformed: .malformedPacket
        case .protocolError: .protocolError
        case .unsupportedVersion: .unsupportedProtocolVersion
        case .clientIdentifierNotValid: .clientIdentifierNotValid
        case .topicNameInvalid: .topicNameInvalid
        case .topicFilterInvalid: .topicFilterInvalid
        case .topicAliasInvalid: .topicAliasInvalid
        }
    }
}
