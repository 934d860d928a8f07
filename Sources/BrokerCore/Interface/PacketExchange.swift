// The exchange that acknowledges one publication in MQTT: its steps, and the packet identifiers
// that name it. MRT needs none of this, since its numbers say it all.

import BrokerTerms
import Primitives

/// One packet of the exchange.
public enum PacketStep: UInt8, Hashable, BitwiseCopyable, Sendable {
    /// PUBACK: a QoS 1 publication has been taken.
    case accepted
    /// PUBREC: a QoS 2 publication has been taken, and its identifier is remembered.
    case received
    /// PUBREL: the identifier may be forgotten.
    case release
    /// PUBCOMP: it is forgotten.
    case complete
}

/// One packet of the exchange that the broker sends.
public struct PacketAnswer: Hashable, BitwiseCopyable, Sendable {
    public var connection: ConnectionID
    public var packetIdentifier: UInt16
    public var step: PacketStep
    public var reason: ReasonCode
    /// The application's own id of what is answered, in the event loop's bytes; empty where it gave
    /// none.
    public var messageIdentifier = ByteRange.empty
    /// The reason as MRT would tell it.
    public var result = ReasonCode.success
    /// ``Refusal`` values in the event loop's `refusals`.
    public var firstRefusal: UInt32 = 0
    public var namedRefusalCount: UInt32 = 0
    /// Receivers that were refused, named or only counted.
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

/// Packet identifiers of what the broker sends are derived from inbox numbers, which are unique,
/// rise, and are committed with their entry. So an identifier is committed before its QoS 2 PUBLISH
/// leaves, and is the same after a reconnect or a crash, without being stored or searched for.
enum PacketIdentifier {
    /// How far two numbers under way at once must be from each other to have one identifier.
    static let count: UInt64 = 65_535

    @inline(__always)
    static func derived(from number: UInt64) -> UInt16 {
        UInt16(truncatingIfNeeded: (number - 1) % count + 1)
    }
}
