// An event loop for one connection, without sockets: bytes to it are shown to the code under test,
// and bytes from it are kept.

import BrokerTerms
import Dialects
import NetTransport
import Primitives
import WireFormat

@testable import BrokerRuntime

/// The loop of one connection.
struct TestLoop: BrokerLoop, ~Copyable {
    let index: UInt8 = 0
    let connection = ConnectionID(loop: 0, slot: 0, generation: 1)
    var now = Instant(milliseconds: 1_000_000)
    var nextWake = Instant.never
    var turn: UInt64 = 1
    let beginsRound = true
    var isCrowded = false
    /// Whether the peer does not read.
    var isPeerSlow = false

    /// What the peer was sent.
    private(set) var sent: [UInt8] = []
    private(set) var pauses: ReadPause = []
    /// Nil while the connection is open.
    private(set) var closesAfterFlush: Bool?
    private(set) var form: WebSocketForm?

    private let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 18, alignment: 64)
    private var room = UnsafeMutableRawBufferPointer.allocate(byteCount: 1, alignment: 1)

    deinit {
        memory.deallocate()
        room.deallocate()
    }

    var arena: UnsafeRawBufferPointer { UnsafeRawBufferPointer(memory) }
    var mutableArena: UnsafeMutableRawBufferPointer { memory }
    var incomingRoom: Int { memory.count }

    mutating func appendIncoming(_ bytes: UnsafeRawBufferPointer) -> ByteRange {
        memory.copyMemory(from: bytes)
        return ByteRange(offset: 0, count: bytes.count)
    }

    /// Takes what the peer was sent since the last time, as text.
    mutating func takeSent() -> String {
        defer { sent = [] }
        return String(decoding: sent, as: UTF8.self)
    }

    mutating func pauseReading(_ connection: ConnectionID, for reason: ReadPause) {
        pauses.insert(reason)
    }

    mutating func resumeReading(_ connection: ConnectionID, from reason: ReadPause) {
        pauses.remove(reason)
    }

    func isSendBlocked(_ connection: ConnectionID) -> Bool { false }
    func outgoingByteCount(of connection: ConnectionID) -> Int { isPeerSlow ? sent.count : 0 }

    mutating func close(_ connection: ConnectionID, afterFlush: Bool) {
        closesAfterFlush = afterFlush
    }

    mutating func startWebSocket(_ connection: ConnectionID, _ form: WebSocketForm) {
        self.form = form
    }

    mutating func restartAuthentication(_ connection: ConnectionID) {}
    mutating func noteAccepted(at time: UInt64) {}
    func peer(of connection: ConnectionID) -> SocketAddress { .local }
    func lastReceived(of connection: ConnectionID) -> Instant { now }
    func blockedConnections(
        from start: Int, slotCount count: Int
    ) -> (found: [ConnectionID], next: Int) { ([], 0) }
    func tlsSummary(of connection: ConnectionID) -> TLSSummary? { nil }
    func isPeerNamed(of connection: ConnectionID) -> Bool { false }
    mutating func namePeer(_ peer: SocketAddress, of connection: ConnectionID) -> Bool { true }
    func closeDetail(of connection: ConnectionID) -> String { "" }
    func peerCertificate(of connection: ConnectionID) -> [UInt8]? { nil }
    var hasHeldPings: Bool { false }
    mutating func answerHeldPings(where mayEmit: (ConnectionID) -> Bool) {}
    func preSharedIdentity(of connection: ConnectionID) -> PreSharedIdentity? { nil }
    func refusedPreSharedIdentity(of connection: ConnectionID) -> String? { nil }

    mutating func reservePacket(
        _ byteCount: Int, for connection: ConnectionID, _ priority: PacketPriority
    ) -> UnsafeMutableRawPointer? {
        room.deallocate()
        room = .allocate(byteCount: byteCount, alignment: 1)
        return room.baseAddress
    }

    mutating func commitPacket(_ byteCount: Int, for connection: ConnectionID) {
        sent += room.prefix(byteCount)
    }

    mutating func closeConnection(_ connection: ConnectionID) {
        close(connection, afterFlush: true)
    }

    mutating func acceptConnection(_ connection: ConnectionID, silenceMilliseconds: UInt64) {}
    mutating func holdConnection(_ connection: ConnectionID) {}
    mutating func holdForAnswers(_ connection: ConnectionID) {}
    mutating func releaseAfterAnswers(_ connection: ConnectionID) {}
}
