// What a conversation needs from outside, as protocols for static dispatch: a place to write
// packets, somebody who knows credentials, somebody who keeps the log.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

/// What may happen to a packet for a connection that does not keep up.
public enum PacketPriority: Sendable {
    /// It may be left out, and is counted.
    case droppable
    /// Without it the stream makes no sense; a connection with no room for it is closed.
    case required
}

/// The owner of a loop's connections: writes and closes.
public protocol ConnectionHost: ~Copyable {
    /// Room for a packet at the end of what the connection is to be sent; nil when the connection
    /// is gone or has no room for it. It must be filled and committed before anything else is asked
    /// for.
    mutating func reservePacket(
        _ byteCount: Int, for connection: ConnectionID, _ priority: PacketPriority
    ) -> UnsafeMutableRawPointer?

    /// Sends the packet that was reserved last with this turn.
    mutating func commitPacket(_ byteCount: Int, for connection: ConnectionID)

    /// Closes a connection once what is written has been sent.
    mutating func closeConnection(_ connection: ConnectionID)

    /// The client is let in: it is read from again, packets up to the granted maximum are taken,
    /// and it must not be silent for longer than this; 0 for as long as it likes.
    mutating func acceptConnection(_ connection: ConnectionID, silenceMilliseconds: UInt64)

    /// Keeps what comes from a connection unread until it is accepted.
    mutating func holdConnection(_ connection: ConnectionID)

    /// Keeps what comes from a connection unread until ``releaseAfterAnswers(_:)``: too much of
    /// what it sent has no answer yet. Its silence meanwhile is not its own.
    mutating func holdForAnswers(_ connection: ConnectionID)
    mutating func releaseAfterAnswers(_ connection: ConnectionID)

    /// Copies bytes to the end of the turn's incoming buffer, where events can point at them; at
    /// most ``TopicAliasLimits/burstByteCountMaximum`` for each burst that is read.
    mutating func appendIncoming(_ bytes: UnsafeRawBufferPointer) -> ByteRange
}

/// Knows what clients present to prove who they are, and draws random numbers.
public protocol Authenticator: ~Copyable {
    /// The claim that a token makes, with ranges in `bytes`; nil when it is worth nothing.
    mutating func claim(
        token: ByteRange, in bytes: UnsafeRawBufferPointer, from connection: ConnectionID
    ) -> Claim?

    /// The claim that an app key makes; nil when it does not look like one.
    mutating func claim(
        app: ByteRange, key: ByteRange, user: ByteRange, in bytes: UnsafeRawBufferPointer
    ) -> Claim?

    /// The claim that the transport has proved for a connection, by certificate or pre-shared key;
    /// nil where it has proved none.
    mutating func claim(of connection: ConnectionID) -> Claim?

    /// An unpredictable number: session epochs and resume cookies.
    mutating func makeRandomNumber() -> UInt64
}

/// Keeps the log of what happens on a loop.
public protocol LogSink: ~Copyable {
    /// A note of the core's. Its ranges are in `bytes`.
    mutating func take(_ note: LogEvent, bytes: UnsafeRawBufferPointer)

    /// A client was sent away before the core heard of it.
    mutating func takeRefusal(_ connection: ConnectionID, _ reason: ReasonCode)

    /// What a client called itself that is sent away next; both are valid during the call, and may
    /// be anything.
    mutating func takeNames(
        _ connection: ConnectionID, user: UnsafeRawBufferPointer, device: UnsafeRawBufferPointer)
}

extension LogSink where Self: ~Copyable {
    /// For whoever keeps no names.
    public mutating func takeNames(
        _ connection: ConnectionID, user: UnsafeRawBufferPointer, device: UnsafeRawBufferPointer
    ) {}
}
