// The exchange that acknowledges one publication in MQTT: its steps, and its packet identifiers.
// MRT does not need it: its acknowledgements contain numbers.

import BrokerTerms
import Primitives

/// One packet of the exchange.
public enum PacketStep: UInt8, Hashable, BitwiseCopyable, Sendable {
    /// PUBACK: a QoS 1 publication is accepted.
    case accepted
    /// PUBREC: a QoS 2 publication is accepted, and its identifier is stored.
    case received
    /// PUBREL: the identifier may be released.
    case release
    /// PUBCOMP: the identifier is released.
    case complete
}

/// One packet of the exchange that the broker sends.
public struct PacketAnswer: Hashable, BitwiseCopyable, Sendable {
    public var connection: ConnectionID
    public var packetIdentifier: UInt16
    public var step: PacketStep
    public var reason: ReasonCode
    /// What the reason of a refusal does not tell.
    public var cause = LimitName.none
    /// The application's id of the message, in the event loop's bytes; empty if there is none.
    public var messageIdentifier = ByteRange.empty
    /// The message's reference, if its sender asked for it; 0 for none.
    public var reference: UInt64 = 0
    /// The reason code of MRT for the same result.
    public var result = ReasonCode.success
    /// ``Refusal`` values in the event loop's `refusals`.
    public var firstRefusal: UInt32 = 0
    public var namedRefusalCount: UInt32 = 0
    /// The number of refused receivers, including those that are not named.
    public var refusedCount: UInt32 = 0

    init(
        to connection: ConnectionID, packet packetIdentifier: UInt16, step: PacketStep,
        reason: ReasonCode = .success
    ) {
        self.connection = connection
        self.packetIdentifier = packetIdentifier
        self.step = step
        self.reason = reason
    }
}

/// The packet identifiers of deliveries are derived from inbox numbers, which are unique, increase,
/// and are committed with their entry. So an identifier is committed before its QoS 2 PUBLISH
/// leaves, and is the same after a reconnect or a crash, without being stored or searched for.
enum PacketIdentifier {
    /// The distance of two numbers with the same identifier.
    static let count: UInt64 = 65_535

    @inline(__always)
    static func derived(from number: UInt64) -> UInt16 {
        UInt16(truncatingIfNeeded: (number - 1) % count + 1)
    }
}
