// What the decoders and encoders need from outside, as protocols for static dispatch: connections
// to write packets to, a verifier of credentials, and a log.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

/// What to do with a packet if the connection has no room for it.
public enum PacketPriority: Sendable {
    /// It may be dropped, and the drop is counted.
    case droppable
    /// The same, and it is dropped while there is room for the rest.
    case droppedFirst
    /// The same, and it is kept while there is no room for the rest.
    case droppedLast
    /// The stream makes no sense without it: a connection with no room for it is closed.
    case required
}

/// The owner of a loop's connections: it writes and closes.
public protocol ConnectionHost: ~Copyable {
    /// Room for a packet at the end of the connection's outgoing buffer; nil if the connection is
    /// gone or has no room. The caller must fill and commit it before it makes any other call.
    mutating func reservePacket(
        _ byteCount: Int, for connection: ConnectionID, _ priority: PacketPriority
    ) -> UnsafeMutableRawPointer?

    /// Sends the packet that was reserved last, with this turn.
    mutating func commitPacket(_ byteCount: Int, for connection: ConnectionID)

    /// Closes a connection after its written bytes have been sent.
    mutating func closeConnection(_ connection: ConnectionID)

    /// The login is accepted: the connection is read again, packets up to the granted maximum are
    /// accepted, and the connection is closed if it is silent for longer than this; 0 is no limit.
    mutating func acceptConnection(_ connection: ConnectionID, silenceMilliseconds: UInt64)

    /// Stops reading from a connection until it is accepted.
    mutating func holdConnection(_ connection: ConnectionID)

    /// Stops reading from a connection until ``releaseAfterAnswers(_:)``, because too many of its
    /// packets have no answer yet. The time of its keep-alive is suspended meanwhile.
    mutating func holdForAnswers(_ connection: ConnectionID)
    mutating func releaseAfterAnswers(_ connection: ConnectionID)

    /// Copies bytes to the end of the turn's incoming buffer, where events can refer to them; at
    /// most ``TopicAliasLimits/burstByteCountMaximum`` for each burst that is read.
    mutating func appendIncoming(_ bytes: UnsafeRawBufferPointer) -> ByteRange
}

/// Verifies the credentials that clients present, and draws random numbers.
public protocol Authenticator: ~Copyable {
    /// The claim of a token, with ranges in `bytes`; nil if the token is invalid.
    mutating func claim(
        token: ByteRange, in bytes: UnsafeRawBufferPointer, from connection: ConnectionID
    ) -> Claim?

    /// The claim of an app key; nil if the bytes do not have the form of one.
    mutating func claim(
        app: ByteRange, key: ByteRange, user: ByteRange, in bytes: UnsafeRawBufferPointer
    ) -> Claim?

    /// The claim that the transport has verified for a connection, by certificate or pre-shared
    /// key; nil if it has verified none.
    mutating func claim(of connection: ConnectionID) -> Claim?

    /// What is known of a user name and a password of an app. If it is pending, the decoder asks
    /// again when reading from the connection continues.
    mutating func verify(
        _ login: PasswordLogin, from connection: ConnectionID
    ) -> PasswordVerdict

    /// A random number that cannot be predicted: session epochs and resume cookies.
    mutating func makeRandomNumber() -> UInt64

    /// A new reference of a message, which is never 0.
    mutating func makeReference() -> UInt64
}

/// A login by user name and password.
public struct PasswordLogin {
    /// The app whose user names the listener accepts.
    public let app: [UInt8]
    public let userName: [UInt8]
    public let password: [UInt8]
}

/// The result of verifying a password.
public enum PasswordVerdict {
    case valid(Claim)
    case refused(ReasonCode)
    /// It is being verified on another thread.
    case pending
    /// The password has the form of a token, and is one.
    case isToken
}

extension Authenticator where Self: ~Copyable {
    public mutating func verify(
        _ login: PasswordLogin, from connection: ConnectionID
    ) -> PasswordVerdict { .isToken }

    public mutating func makeReference() -> UInt64 { max(makeRandomNumber(), 1) }
}

/// Writes the log of what happens on a loop.
public protocol LogSink: ~Copyable {
    /// A log event of the core. Its ranges are in `bytes`.
    mutating func take(_ note: LogEvent, bytes: UnsafeRawBufferPointer)

    /// A client was refused before the core received an event of it.
    mutating func takeRefusal(_ connection: ConnectionID, _ reason: ReasonCode)

    /// The names that a client gave which is refused next. Both are valid during the call and
    /// unverified.
    mutating func takeNames(
        _ connection: ConnectionID, user: RawSpan, device: RawSpan)
}

extension LogSink where Self: ~Copyable {
    /// The default for a log that records no names.
    public mutating func takeNames(
        _ connection: ConnectionID, user: RawSpan, device: RawSpan
    ) {}
}
