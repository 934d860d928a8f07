// What a lane asks of its event loop. The loop with sockets is one answer; the tests that feed a
// lane with arbitrary bytes bring a loop without them, so that they drive the same handler.

import BrokerCore
import Dialects
import NetTransport
import Primitives

/// The event loop of a lane: connections that are read, written and closed, and their time.
package protocol LaneLoop: ConnectionHost, ~Copyable {
    /// The loop's number in its connections' names.
    var lane: UInt8 { get }
    /// The time of this turn.
    var now: Instant { get }
    /// When the handler wants a turn even if nothing happens.
    var nextWake: Instant { get set }
    /// The bytes that `received` told of during this turn.
    var arena: UnsafeRawBufferPointer { get }

    /// Tells turns apart.
    var turn: UInt64 { get }

    mutating func pauseReading(_ connection: ConnectionID, for reason: ReadPause)
    mutating func resumeReading(_ connection: ConnectionID, from reason: ReadPause)
    /// Whether bytes wait because the peer does not read.
    func isSendBlocked(_ connection: ConnectionID) -> Bool
    func outgoingByteCount(of connection: ConnectionID) -> Int
    mutating func close(_ connection: ConnectionID, afterFlush: Bool)

    func peer(of connection: ConnectionID) -> SocketAddress
    func closeDetail(of connection: ConnectionID) -> String
    func peerCertificate(of connection: ConnectionID) -> [UInt8]?
    func preSharedIdentity(of connection: ConnectionID) -> PreSharedIdentity?
}

extension EventLoop: LaneLoop {
    package var lane: UInt8 { configuration.lane }
    package var turn: UInt64 { counters.turns }
}

extension EventLoop: ConnectionHost {
    @inline(__always)
    public mutating func reservePacket(
        _ byteCount: Int, for connection: ConnectionID, _ priority: PacketPriority
    ) -> UnsafeMutableRawPointer? {
        reserve(byteCount, for: connection, priority == .droppable ? .droppable : .required)
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
