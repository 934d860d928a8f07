// What a decoder throws: the peer's fault, never ours. Each is also a reason code on the wire.

import Primitives

/// Why bytes are not a packet. The connection ends after either: what follows cannot be trusted.
public enum WireError: Error, Hashable, Sendable {
    /// The bytes have no meaning: a length that overruns, a reserved bit, a field outside its
    /// range.
    case malformed
    /// The packet can be read, and must not be sent: an unknown extension that insists, a raw
    /// payload to a user.
    case protocolError
    /// A CONNECT of a protocol or a level that is not spoken here.
    case unsupportedVersion

    @inlinable
    public var reason: ReasonCode {
        switch self {
        case .malformed: .malformedPacket
        case .protocolError: .protocolError
        case .unsupportedVersion: .unsupportedProtocolVersion
        }
    }
}
