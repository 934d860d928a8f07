// An event loop without sockets for the real loop handler: the peers' bytes are arrays, and bytes
// to them are checked packet by packet and discarded. Bursts, kept bytes, pauses, deadlines and
// limits of waiting bytes are those of NetTransport, with smaller numbers.

import BrokerRuntime
import BrokerTerms
import Dialects
import NetTransport
import Primitives
import WireFormat

/// One peer's end of a connection, and what the loop keeps of it.
struct FuzzedPeer {
    enum Phase { case open, flushing, dead }

    var connection: ConnectionID
    var phase = Phase.open
    var cause = TransportCloseCause.closedByHandler
    /// Sent, and not read by the loop.
    var unread: [UInt8] = []
    /// Shown, and not consumed.
    var kept: [UInt8] = []
    var keptAwaited = 0
    var pauses: ReadPause = []
    var isPaused: Bool { !pauses.isEmpty }
    /// It reads again, and the loop has not been told.
    var hasDrained = false
    var packetMaximum = FuzzedTransport.firstPacketMaximum
    /// Bytes of the largest packet that it said it takes; 0 for any.
    var takesMaximum = 0
    var deadline: ConnectionDeadline? = .authentication
    var deadlineAt: Instant
    var keepAliveMilliseconds: UInt64 = 0
    var lastActivity: Instant
    /// Bytes that wait because it does not read.
    var waitingCount = 0
    var isReading = true
    var certificate: [UInt8]?
    var preSharedIdentity: PreSharedIdentity?
}

struct FuzzedTransport: BrokerLoop, ~Copyable {
    static let peerCount = 4
    static let burstMaximum = 4 << 10
    static let packetMaximum = 32 << 10
    static let firstPacketMaximum = 16 << 10
    private static let arenaByteCount =
        packetMaximum + 3 * burstMaximum + TransportLimits.arenaAdditionMaximum
    private static let outgoingMaximum = 64 << 10
    private static let outgoingHardMaximum = 256 << 10
    private static let authenticationMilliseconds: UInt64 = 15_000

    let index: UInt8
    var now: Instant
    var nextWake = Instant.never
    let beginsRound = true
    private(set) var turn: UInt64 = 0
    private(set) var peers: [FuzzedPeer?]
    private var generations: [UInt32]
    private let arenaMemory: UnsafeMutableRawBufferPointer
    private var arenaUsed = 0
    /// Of exactly the size of the packet, so that a sanitizer sees a byte too many.
    private var room: UnsafeMutableRawBufferPointer
    /// Bytes that were sent, for whoever compares runs.
    private(set) var sentByteCount = 0

    init(index: UInt8, now: Instant) {
        self.index = index
        self.now = now
        peers = Array(repeating: nil, count: Self.peerCount)
        generations = Array(repeating: 0, count: Self.peerCount)
        arenaMemory = .allocate(byteCount: Self.arenaByteCount, alignment: 64)
        room = .allocate(byteCount: 1, alignment: 1)
    }

    deinit {
        arenaMemory.deallocate()
        room.deallocate()
    }

    var arena: UnsafeRawBufferPointer { UnsafeRawBufferPointer(arenaMemory) }
    var mutableArena: UnsafeMutableRawBufferPointer { arenaMemory }

    // MARK: - The peers' side

    func connection(of slot: Int) -> ConnectionID? { peers[slot]?.connection }

    mutating func accept(
        _ slot: Int, certificate: [UInt8]? = nil, preSharedIdentity: PreSharedIdentity? = nil
    ) -> ConnectionID {
        generations[slot] += 1
        let connection = ConnectionID(loop: index, slot: slot, generation: generations[slot])
        peers[slot] = FuzzedPeer(
            connection: connection,
            deadlineAt: now.advanced(byMilliseconds: Self.authenticationMilliseconds),
            lastActivity: now, certificate: certificate, preSharedIdentity: preSharedIdentity)
        return connection
    }

    mutating func send(_ bytes: [UInt8], from slot: Int) {
        guard peers[slot]?.phase == .open else { return }
        peers[slot]!.unread += bytes
    }

    mutating func setTakesMaximum(_ byteCount: Int, of slot: Int) {
        peers[slot]?.takesMaximum = byteCount
    }

    /// Stops or begins to take what it is sent.
    mutating func setReading(_ isReading: Bool, of slot: Int) {
        peers[slot]?.isReading = isReading
        guard isReading, let peer = peers[slot], peer.waitingCount > 0 else { return }
        peers[slot]!.waitingCount = 0
        peers[slot]!.hasDrained = true
    }

    /// The connections that read again since the last time.
    mutating func takeDrained() -> [ConnectionID] {
        var drained: [ConnectionID] = []
        for slot in peers.indices where peers[slot]?.hasDrained == true {
            peers[slot]!.hasDrained = false
            if peers[slot]!.phase == .open { drained.append(peers[slot]!.connection) }
        }
        return drained
    }

    mutating func lose(_ slot: Int) { finishClose(slot, .networkFailure) }

    // MARK: - Turns

    /// Reads one burst of a peer and shows it; false when there is nothing to show.
    mutating func read(
        _ slot: Int, _ handler: inout BrokerLoopHandler,
        endTurn: (inout Self, inout BrokerLoopHandler) -> Void
    ) -> Bool {
        guard let peer = peers[slot], peer.phase == .open, !peer.isPaused,
            !(peer.unread.isEmpty && peer.kept.isEmpty)
        else { return false }
        let needed = peer.kept.count + Self.burstMaximum + TransportLimits.arenaAdditionMaximum
        if arenaMemory.count - arenaUsed < needed {
            endTurn(&self, &handler)
            guard let peer = peers[slot], peer.phase == .open, !peer.isPaused else { return false }
        }
        let count = min(peer.unread.count, Self.burstMaximum)
        let bytes = peers[slot]!.kept + peers[slot]!.unread.prefix(count)
        peers[slot]!.unread.removeFirst(count)
        peers[slot]!.kept = []
        peers[slot]!.lastActivity = now
        if bytes.count < peers[slot]!.keptAwaited {
            peers[slot]!.kept = bytes
            return !peers[slot]!.unread.isEmpty
        }
        let range = append(bytes)
        let connection = peer.connection
        let consumption = handler.received(range, from: connection, in: &self)
        guard peers[slot]?.connection == connection, peers[slot]!.phase == .open else {
            return false
        }
        keepRest(slot, of: bytes, consumption)
        return consumption.consumed > 0 && !peers[slot]!.unread.isEmpty
    }

    private mutating func keepRest(_ slot: Int, of bytes: [UInt8], _ consumption: Consumption) {
        let rest = bytes.count - consumption.consumed
        precondition(consumption.consumed >= 0 && rest >= 0, "consumed more than there was")
        peers[slot]!.keptAwaited = 0
        guard rest > 0 else { return }
        guard
            peers[slot]!.isPaused
                || max(rest, consumption.awaited) <= peers[slot]!.packetMaximum
        else {
            beginClose(slot, .packetTooLarge)
            return
        }
        peers[slot]!.kept = Array(bytes.suffix(rest))
        peers[slot]!.keptAwaited = consumption.awaited
    }

    /// The connections that are gone since the last time, with their causes.
    mutating func takeDead() -> [(ConnectionID, TransportCloseCause)] {
        var dead: [(ConnectionID, TransportCloseCause)] = []
        for slot in peers.indices where peers[slot]?.phase == .dead {
            dead.append((peers[slot]!.connection, peers[slot]!.cause))
        }
        return dead
    }

    mutating func release(_ connection: ConnectionID) { peers[connection.slot] = nil }

    /// The deadlines that have come.
    mutating func takeDue() -> [(ConnectionDeadline, ConnectionID)] {
        var due: [(ConnectionDeadline, ConnectionID)] = []
        for slot in peers.indices where peers[slot]?.phase == .open {
            guard let deadline = peers[slot]!.deadline else { continue }
            if deadline == .keepAlive {
                let start = peers[slot]!.isPaused ? now : peers[slot]!.lastActivity
                peers[slot]!.deadlineAt = start.advanced(
                    byMilliseconds: peers[slot]!.keepAliveMilliseconds)
            }
            guard peers[slot]!.deadlineAt <= now else { continue }
            peers[slot]!.deadline = nil
            due.append((deadline, peers[slot]!.connection))
        }
        return due
    }

    /// The end of a turn: what was appended has left, the arena is free.
    mutating func flush() {
        arenaUsed = 0
        turn += 1
        for slot in peers.indices {
            guard let peer = peers[slot] else { continue }
            if peer.isReading { peers[slot]!.waitingCount = 0 }
            if peer.phase == .flushing { peers[slot]!.phase = .dead }
        }
    }

    // MARK: - The arena

    private mutating func append(_ bytes: [UInt8]) -> ByteRange {
        bytes.withUnsafeBytes { appendIncoming($0) }
    }

    var incomingRoom: Int { arenaMemory.count - arenaUsed }

    mutating func appendIncoming(_ bytes: UnsafeRawBufferPointer) -> ByteRange {
        precondition(arenaMemory.count - arenaUsed >= bytes.count, "more than may be added")
        let range = ByteRange(offset: arenaUsed, count: bytes.count)
        if bytes.count > 0 {
            UnsafeMutableRawBufferPointer(rebasing: arenaMemory[arenaUsed...])
                .copyMemory(from: bytes)
        }
        arenaUsed += bytes.count
        return range
    }

    // MARK: - The loop's side

    private func slot(of connection: ConnectionID) -> Int? {
        let slot = connection.slot
        guard slot < peers.count, peers[slot]?.connection == connection,
            peers[slot]!.phase != .dead
        else { return nil }
        return slot
    }

    mutating func pauseReading(_ connection: ConnectionID, for reason: ReadPause) {
        guard let slot = slot(of: connection) else { return }
        peers[slot]!.pauses.insert(reason)
    }

    mutating func resumeReading(_ connection: ConnectionID, from reason: ReadPause) {
        guard let slot = slot(of: connection), peers[slot]!.pauses.contains(reason) else { return }
        peers[slot]!.pauses.remove(reason)
        peers[slot]!.keptAwaited = 0
    }

    func isSendBlocked(_ connection: ConnectionID) -> Bool {
        slot(of: connection).map { !peers[$0]!.isReading && peers[$0]!.waitingCount > 0 } ?? false
    }

    func outgoingByteCount(of connection: ConnectionID) -> Int {
        slot(of: connection).map { peers[$0]!.waitingCount } ?? 0
    }

    /// There are no web listeners here.
    mutating func startWebSocket(_ connection: ConnectionID, _ form: WebSocketForm) {
        preconditionFailure("\(connection) speaks WebSocket")
    }

    var isCrowded: Bool { false }
    mutating func restartAuthentication(_ connection: ConnectionID) {}

    mutating func close(_ connection: ConnectionID, afterFlush: Bool) {
        guard let slot = slot(of: connection) else { return }
        if afterFlush {
            beginClose(slot, .closedByHandler)
        } else {
            finishClose(slot, .closedByHandler)
        }
    }

    private mutating func beginClose(_ slot: Int, _ cause: TransportCloseCause) {
        guard peers[slot]!.phase == .open else { return }
        peers[slot]!.phase = .flushing
        peers[slot]!.cause = cause
        peers[slot]!.kept = []
    }

    private mutating func finishClose(_ slot: Int, _ cause: TransportCloseCause) {
        guard let peer = peers[slot], peer.phase != .dead else { return }
        peers[slot]!.phase = .dead
        peers[slot]!.cause = cause
    }

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

    func peerCertificate(of connection: ConnectionID) -> [UInt8]? {
        slot(of: connection).flatMap { peers[$0]!.certificate }
    }

    func refusedPreSharedIdentity(of connection: ConnectionID) -> String? { nil }

    var hasHeldPings: Bool { false }
    mutating func answerHeldPings(where mayEmit: (ConnectionID) -> Bool) {}
    func preSharedIdentity(of connection: ConnectionID) -> PreSharedIdentity? {
        slot(of: connection).flatMap { peers[$0]!.preSharedIdentity }
    }

    // MARK: - ConnectionHost

    mutating func reservePacket(
        _ byteCount: Int, for connection: ConnectionID, _ priority: PacketPriority
    ) -> UnsafeMutableRawPointer? {
        guard let slot = slot(of: connection), peers[slot]!.phase == .open else { return nil }
        let end = peers[slot]!.waitingCount + byteCount
        if priority == .droppable, end > Self.outgoingMaximum { return nil }
        if end > Self.outgoingHardMaximum {
            finishClose(slot, .outgoingOverflow)
            return nil
        }
        if room.count != byteCount {
            room.deallocate()
            room = .allocate(byteCount: byteCount, alignment: 1)
        }
        return room.baseAddress
    }

    mutating func commitPacket(_ byteCount: Int, for connection: ConnectionID) {
        precondition(byteCount == room.count, "a packet of another size than reserved")
        let packet = UnsafeRawBufferPointer(room)
        guard
            case .packet(let frame) = PacketFrame.next(
                in: packet.bytes, at: 0, packetMaximum: .max),
            frame.byteCount == byteCount
        else { preconditionFailure("what is sent is no whole packet") }
        guard let slot = slot(of: connection) else {
            preconditionFailure("a packet for nobody was committed")
        }
        peers[slot]!.waitingCount += byteCount
        sentByteCount += byteCount
    }

    mutating func closeConnection(_ connection: ConnectionID) {
        close(connection, afterFlush: true)
    }

    mutating func acceptConnection(_ connection: ConnectionID, silenceMilliseconds: UInt64) {
        guard let slot = slot(of: connection) else { return }
        peers[slot]!.packetMaximum = Self.packetMaximum
        peers[slot]!.deadline = silenceMilliseconds > 0 ? .keepAlive : nil
        peers[slot]!.keepAliveMilliseconds = silenceMilliseconds
        resumeReading(connection, from: .login)
    }

    mutating func holdConnection(_ connection: ConnectionID) {
        pauseReading(connection, for: .login)
    }

    mutating func holdForAnswers(_ connection: ConnectionID) {
        pauseReading(connection, for: .answers)
    }

    mutating func releaseAfterAnswers(_ connection: ConnectionID) {
        resumeReading(connection, from: .answers)
    }
}
