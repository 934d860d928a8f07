// The protocol of a loop's handler, and the values in its calls.
import BrokerTerms
import Primitives

/// Handles the events of a loop. All calls run on the loop's thread, one at a time. The loop is
/// passed as an argument, so a handler stores no reference to it.
/// The calls for one connection: at most one `opened`, any number of `received` and
/// `deadlineReached` after it, then exactly one `closed`. A connection that fails before it is open
/// (no TLS, no PROXY header, refused connect) has only `closed`.
///
/// There are no default implementations, so that the compiler reports a missing method. A default
/// would also hide a generic method of the same name, which would never be called.
public protocol LoopHandler: ~Copyable {
    /// An accepted connection has completed its TLS handshake (a plain one: has been accepted, or
    /// has sent its PROXY header), or an outgoing connect, including TLS, has succeeded.
    mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop)

    /// Bytes arrived: all unconsumed bytes of this connection, contiguous. They are in `loop.arena`
    /// until `turnEnded` returns, so ranges of them are valid that long. The result is the number
    /// of consumed bytes; the others are passed again.
    mutating func received(
        _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption

    /// A connection that could not send everything has now sent all of it.
    mutating func outgoingDrained(_ connection: ConnectionID, in loop: inout EventLoop)

    /// The deadline of the connection is reached. The loop does not close the connection, and the
    /// deadline is removed.
    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop)

    /// The connection is closed and its id is no longer valid. During this call,
    /// `loop.closeDetail(of:)` returns the reason as text.
    mutating func closed(
        _ connection: ConnectionID, _ cause: TransportCloseCause, in loop: inout EventLoop)

    /// A connection was accepted and closed at once; it has no id. Or its PROXY header arrived, and
    /// `closed` follows with ``TransportCloseCause/refused``.
    mutating func turnedAway(
        _ peer: SocketAddress, _ cause: RefusalCause, in loop: inout EventLoop)

    /// Another thread called `LoopHandle.wake` at least once since the last call.
    mutating func woken(in loop: inout EventLoop)

    /// All events of the turn have been delivered. Bytes appended now are sent in this turn. Called
    /// once per turn, and more often when the arena is full.
    mutating func turnEnded(in loop: inout EventLoop)

    /// A stop was requested. Bytes appended now are still sent; all connections are closed when
    /// this returns.
    mutating func stopping(in loop: inout EventLoop)
}

/// Where a connection comes from.
public enum ConnectionOrigin: Hashable, Sendable {
    /// Accepted; the tag is the ``Listener``'s.
    case listener(tag: UInt32)
    /// An outgoing connection.
    case connect
}

/// Why a connection was refused.
public enum RefusalCause: Hashable, Sendable {
    /// The limit of connections per address is reached.
    case address
    /// The limit of all connections is reached.
    case total
    /// There was no memory for its TLS session.
    case memory
}

/// The result of a handler's `received`.
public struct Consumption: Hashable, Sendable {
    /// Bytes from the front that need not be passed again.
    public let consumed: Int
    /// The number of bytes, from the first unconsumed one, below which passing them again is
    /// useless.
    public let awaited: Int

    /// `consumed` bytes were processed. If the length of a whole packet is known, `awaiting` is
    /// that length: the loop then collects it without passing, and copying, it piece by piece.
    @inlinable
    public init(consumed: Int, awaiting awaited: Int = 0) {
        self.consumed = consumed
        self.awaited = awaited
    }
}

/// The one deadline a connection may have.
public enum ConnectionDeadline: UInt8, Hashable, Sendable {
    /// Counts from when it was set. Every accepted connection begins with one.
    case authentication
    /// Counts from the last bytes that arrived.
    case keepAlive
}

/// The cause for which a connection ended. The numbers index `LoopCounters`.
public enum TransportCloseCause: UInt8, CaseIterable, Hashable, Sendable {
    /// The handler closed it.
    case closedByHandler
    /// The peer closed its side.
    case peerClosed
    /// The connection was reset or lost; the detail is the errno's text.
    case networkFailure
    /// TLS failed, in the handshake or after; the detail is OpenSSL's reason.
    case tlsFailure
    /// The TLS handshake was not complete at the authentication deadline.
    case handshakeTimeout
    /// The outgoing connect, or its handshake, took too long.
    case connectTimeout
    /// The peer did not read the last bytes within the linger time.
    case lingerTimeout
    /// More traffic that must not be dropped was waiting than the hard maximum.
    case outgoingOverflow
    /// A packet exceeded the connection's packet maximum.
    case packetTooLarge
    /// The loop stopped.
    case loopStopped
    /// The peer broke a rule of WebSocket; the detail says which.
    case webSocketFault
    /// The peer is a proxy, and its PROXY header is missing, malformed or late; the detail says
    /// which.
    case proxyHeaderFault
    /// The client that the PROXY header names has as many connections as it may. `turnedAway` came
    /// before.
    case refused
}
