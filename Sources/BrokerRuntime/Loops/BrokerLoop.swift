// The interface that the broker's handler needs from its event loop. `EventLoop` implements it with
// sockets; the fuzz tests implement it without them, so that they run the same handler.

import BrokerCore
import BrokerTerms
import Dialects
import NetTransport
import Primitives
import WireFormat

/// An event loop as the broker's handler sees it: it reads, writes and closes connections.
package protocol BrokerLoop: ConnectionHost, ~Copyable {
    /// The loop's number, which is part of its connections' ids.
    var index: UInt8 { get }
    /// The time of this turn.
    var now: Instant { get }
    /// The time of the next turn even if no event occurs.
    var nextWake: Instant { get set }
    /// The bytes that were passed to `received` during this turn.
    var arena: UnsafeRawBufferPointer { get }
    /// The same bytes, to be rewritten where they are decoded.
    var mutableArena: UnsafeMutableRawBufferPointer { get }

    /// The number of this turn.
    var turn: UInt64 { get }
    /// Whether every ready connection has been read and sent to since the last turn that began a
    /// round.
    var beginsRound: Bool { get }

    mutating func pauseReading(_ connection: ConnectionID, for reason: ReadPause)
    mutating func resumeReading(_ connection: ConnectionID, from reason: ReadPause)
    /// Whether bytes are unsent because the peer does not read.
    func isSendBlocked(_ connection: ConnectionID) -> Bool
    func outgoingByteCount(of connection: ConnectionID) -> Int
    mutating func close(_ connection: ConnectionID, afterFlush: Bool)
    /// Speaks WebSocket on a connection from now on.
    mutating func startWebSocket(_ connection: ConnectionID, _ form: WebSocketForm)
    /// Bytes that ``appendIncoming(_:)`` can take in this turn.
    var incomingRoom: Int { get }
    /// Whether as many connections as may have not logged in.
    var isCrowded: Bool { get }
    /// Gives a connection that has not logged in the whole time for it again.
    mutating func restartAuthentication(_ connection: ConnectionID)

    /// Takes note that this turn sends a message that was accepted at a time of the monotonic
    /// clock, in nanoseconds.
    mutating func noteAccepted(at time: UInt64)

    func peer(of connection: ConnectionID) -> SocketAddress
    /// When the last bytes of a connection arrived.
    func lastReceived(of connection: ConnectionID) -> Instant
    /// The TLS parameters of a connection; nil for a plain one.
    func tlsSummary(of connection: ConnectionID) -> TLSSummary?
    /// The connections whose peers do not read, among some slots; then the next slot.
    func blockedConnections(
        from start: Int, slotCount count: Int
    ) -> (found: [ConnectionID], next: Int)
    /// Whether a proxy named that address.
    func isPeerNamed(of connection: ConnectionID) -> Bool
    /// Gives a connection of a proxy to one client. False if the client's address has as many as
    /// it may.
    mutating func namePeer(_ peer: SocketAddress, of connection: ConnectionID) -> Bool
    func closeDetail(of connection: ConnectionID) -> String
    func peerCertificate(of connection: ConnectionID) -> [UInt8]?
    func preSharedIdentity(of connection: ConnectionID) -> PreSharedIdentity?
    /// An identity without a key that the client has presented, for the log.
    func refusedPreSharedIdentity(of connection: ConnectionID) -> String?

    /// Whether the transport holds pings that may not be answered yet.
    var hasHeldPings: Bool { get }
    /// Answers those of the connections for which `mayEmit` is true.
    mutating func answerHeldPings(where mayEmit: (ConnectionID) -> Bool)
}

extension EventLoop: BrokerLoop {
    package var index: UInt8 { configuration.loopIndex }
    package var turn: UInt64 { counters.turns }
    package var incomingRoom: Int { arenaRoom }

    package mutating func restartAuthentication(_ connection: ConnectionID) {
        setDeadline(
            .authentication, for: connection,
            afterMilliseconds: configuration.authenticationMilliseconds)
    }
}

extension EventLoop: ConnectionHost {
    @inline(__always)
    public mutating func reservePacket(
        _ byteCount: Int, for connection: ConnectionID, _ priority: PacketPriority
    ) -> UnsafeMutableRawPointer? {
        let traffic: Traffic =
            switch priority {
            case .droppable: .droppable
            case .required: .required
            case .droppedFirst: .droppedFirst
            case .droppedLast: .droppedLast
            }
        return reserve(byteCount, for: connection, traffic)
    }

    @inline(__always)
    public mutating func commitPacket(_ byteCount: Int, for connection: ConnectionID) {
        commit(byteCount, for: connection)
    }

    public mutating func closeConnection(_ connection: ConnectionID) {
        close(connection, afterFlush: true)
    }

    public mutating func acceptConnection(
        _ connection: ConnectionID, silenceMilliseconds: UInt64
    ) {
        setPacketMaximum(configuration.packetMaximum, for: connection)
        if silenceMilliseconds > 0 {
            setDeadline(.keepAlive, for: connection, afterMilliseconds: silenceMilliseconds)
        } else {
            clearDeadline(of: connection)
        }
        resumeReading(connection, from: .login)
    }

    public mutating func holdConnection(_ connection: ConnectionID) {
        pauseReading(connection, for: .login)
    }

    public mutating func holdForAnswers(_ connection: ConnectionID) {
        pauseReading(connection, for: .answers)
    }

    public mutating func releaseAfterAnswers(_ connection: ConnectionID) {
        resumeReading(connection, from: .answers)
    }

    public mutating func appendIncoming(_ bytes: UnsafeRawBufferPointer) -> ByteRange {
        appendToArena(bytes)
    }
}
