// The bytes of several connections through the real dialects, core and encoder, with commits, time,
// losses and restarts in between. The sockets are arrays, the store is the simulation's.

import BrokerCore
import BrokerSimulation
import BrokerTerms
import Dialects
import Primitives
import WireFormat

/// An input is a row of steps: a byte whose lower three bits say what happens and whose upper bits
/// say to whom, and for bytes that arrive their count and themselves.
func fuzzConnection(_ bytes: UnsafeRawBufferPointer) {
    var input = InputReader(bytes)
    var host = FuzzedBroker()
    for _ in 0..<512 where !input.isAtEnd {
        let step = input.readByte()
        let peer = Int(step >> 3) % FuzzedBroker.peerCount
        switch step & 7 {
        case 0...3: host.receive(input.read(Int(input.readByte())), from: peer)
        case 4: host.lose(peer)
        case 5: host.commit()
        case 6: host.pass(milliseconds: 1 << (step >> 3))
        default: step >> 3 == 31 ? host.restart() : host.commit()
        }
        host.broker.checkInvariants()
    }
}

/// The same, with JSON clients as the first two peers. What arrives from them is a message, or a
/// frame of one, as the transport shows it.
func fuzzJSON(_ bytes: UnsafeRawBufferPointer) {
    var input = InputReader(bytes)
    var host = FuzzedBroker(jsonPeerCount: 2)
    for _ in 0..<256 where !input.isAtEnd {
        let step = input.readByte()
        let peer = Int(step >> 3) % FuzzedBroker.peerCount
        switch step & 7 {
        case 0...4 where peer >= 2: host.receive(input.read(Int(input.readByte())), from: peer)
        case 0...2: host.receiveFrame(input.read(Int(input.readUInt16() & 1023)), from: peer)
        case 3:
            host.receiveFrame(
                input.read(Int(input.readByte())), isLast: false, from: peer)
        case 4: host.lose(peer)
        case 5: host.commit()
        case 6: host.pass(milliseconds: 1 << (step >> 3))
        default: step >> 3 == 31 ? host.restart() : host.commit()
        }
        host.broker.checkInvariants()
    }
}

/// One loop of a broker that lets everybody in, and its peers.
private struct FuzzedBroker: ~Copyable {
    static let peerCount = 4
    private static let packetMaximum = 4_096

    private(set) var broker: Broker
    private var store = InMemoryStore()
    private var decoder: PacketDecoder
    private var encoder = EffectEncoder(packetMaximum: FuzzedBroker.packetMaximum)
    private var host = PeerTable()
    private var authenticator = OpenAuthenticator()
    private var notes = NoNotes()
    private var effects = Effects(loopCount: 1)
    private var loopEffects = LoopEffects()
    private var generation: UInt32 = 1
    private let jsonPeerCount: Int
    private var now = Moment(
        instant: Instant(milliseconds: 1_000_000), unixMilliseconds: 1_790_000_000_000)

    /// - Parameter jsonPeerCount: the first so many peers are JSON clients.
    init(jsonPeerCount: Int = 0) {
        self.jsonPeerCount = jsonPeerCount
        broker = Broker(at: now)
        decoder = PacketDecoder(
            loop: 0, terms: [ListenerTerms(allowsAnonymous: true)],
            packetMaximum: FuzzedBroker.packetMaximum)
        start()
        precondition(try! broker.addApp(OpenAuthenticator.app, keyDigest: nil, rights: .everything))
        commit()
    }

    deinit { host.free() }

    private mutating func start() {
        broker.limits.appPolicy.opensLeanMessage = true
        let state = store.restore(into: &broker)
        do throws(RestoreError) {
            try broker.finishRestoring(state, newEpochSeed: 7, at: now)
        } catch {
            preconditionFailure("the core cannot read what it wrote: \(error)")
        }
    }

    // MARK: Steps

    mutating func receive(_ bytes: UnsafeRawBufferPointer, from peer: Int) {
        if host.peers[peer].connection == nil { open(peer) }
        host.peers[peer].unread += bytes
        read(peer)
    }

    mutating func receiveFrame(
        _ text: UnsafeRawBufferPointer, isLast: Bool = true, from peer: Int
    ) {
        let mark = isLast ? WebSocketFrame.lastFrameMark : 0
        let frame = withUnsafeBytes(of: (UInt32(text.count) | mark).littleEndian) {
            Array($0) + text
        }
        frame.withUnsafeBytes { receive($0, from: peer) }
    }

    private mutating func read(_ peer: Int) {
        guard let connection = host.peers[peer].connection else { return }
        let count = host.peers[peer].unread.count
        host.peers[peer].unread.withUnsafeBytes {
            UnsafeMutableRawBufferPointer(rebasing: host.arena[..<count]).copyMemory(from: $0)
        }
        host.incomingCount = count
        let arena = UnsafeRawBufferPointer(host.arena)
        let outcome = decoder.receive(
            ByteRange(offset: 0, count: count), of: host.arena, from: connection, host: &host,
            authenticator: &authenticator, log: &notes)
        precondition(outcome.consumed <= count)
        host.peers[peer].unread.removeFirst(outcome.consumed)
        enterCore(arena)
    }

    mutating func lose(_ peer: Int) {
        guard let connection = host.peers[peer].connection else { return }
        host.peers[peer] = Peer()
        decoder.closed(connection, .lost)
        enterCore(UnsafeRawBufferPointer(start: nil, count: 0))
    }

    mutating func commit() {
        var batch = StoreBatch()
        var result = StoreResult()
        while broker.takeBatch(into: &batch, at: now) {
            store.carryOut(batch, into: &result)
            broker.stored(result, at: now, effects: &effects)
            carryOut()
        }
    }

    mutating func pass(milliseconds: UInt64) {
        now.instant = now.instant.advanced(byMilliseconds: milliseconds)
        now.unixMilliseconds += milliseconds
        broker.advance(to: now, effects: &effects)
        carryOut()
    }

    /// Dies and comes back with what was committed.
    mutating func restart() {
        for peer in 0..<Self.peerCount {
            guard let connection = host.peers[peer].connection else { continue }
            decoder.closed(connection, .lost, isTold: false)
            host.peers[peer] = Peer()
        }
        decoder.events.removeAll()
        effects = Effects(loopCount: 1)
        broker = Broker(at: now)
        start()
    }

    // MARK: A turn

    private mutating func open(_ peer: Int) {
        let connection = ConnectionID(loop: 0, slot: peer, generation: generation)
        generation += 1
        host.peers[peer] = Peer(connection: connection)
        let form: JSONForm = peer == 0 ? .socket : .leanMessage
        decoder.conversations.open(
            connection, terms: 0, json: peer < jsonPeerCount ? form : nil)
    }

    private mutating func enterCore(_ arena: UnsafeRawBufferPointer) {
        for event in decoder.events {
            broker.step(event, bytes: arena, at: now, effects: &effects)
        }
        decoder.events.removeAll(keepingCapacity: true)
        broker.advance(to: now, effects: &effects)
        carryOut()
    }

    private mutating func carryOut() {
        repeat {
            effects.exchange(0, with: &loopEffects)
            encoder.encode(
                loopEffects, at: now.instant, conversations: &decoder.conversations, host: &host,
                log: &notes, events: &decoder.events)
            loopEffects.removeAll()
            for event in decoder.events {
                broker.step(
                    event, bytes: UnsafeRawBufferPointer(start: nil, count: 0), at: now,
                    effects: &effects)
            }
            decoder.events.removeAll(keepingCapacity: true)
        } while !effects[0].isEmpty
        for peer in 0..<Self.peerCount {
            if host.peers[peer].isClosing { lose(peer) }
            if host.peers[peer].isReleased {
                host.peers[peer].isReleased = false
                read(peer)
            }
        }
    }
}

private struct Peer {
    var connection: ConnectionID?
    var unread: [UInt8] = []
    var isClosing = false
    /// It was let in: what came behind its CONNECT is to be read.
    var isReleased = false
}

/// Peers that take every packet at once, whatever its size, and forget it.
private struct PeerTable: ConnectionHost {
    var peers = [Peer](repeating: Peer(), count: FuzzedBroker.peerCount)
    /// Of exactly the size of the packet, so that a sanitizer sees a byte too many.
    private var room = UnsafeMutableRawBufferPointer.allocate(byteCount: 1, alignment: 1)

    /// The turn's incoming bytes, with room for what aliases stand for.
    let arena = UnsafeMutableRawBufferPointer.allocate(
        byteCount: unreadMaximum + TopicAliasLimits.burstByteCountMaximum, alignment: 1)
    var incomingCount = 0
    static let unreadMaximum = 1 << 18

    func free() {
        room.deallocate()
        arena.deallocate()
    }

    mutating func appendIncoming(_ bytes: UnsafeRawBufferPointer) -> ByteRange {
        let range = ByteRange(offset: incomingCount, count: bytes.count)
        UnsafeMutableRawBufferPointer(rebasing: arena[incomingCount...]).copyMemory(from: bytes)
        incomingCount += bytes.count
        return range
    }

    private func has(_ connection: ConnectionID) -> Bool {
        connection.slot < peers.count && peers[connection.slot].connection == connection
            && !peers[connection.slot].isClosing
    }

    mutating func reservePacket(
        _ byteCount: Int, for connection: ConnectionID, _ priority: PacketPriority
    ) -> UnsafeMutableRawPointer? {
        guard has(connection) else { return nil }
        if room.count != byteCount {
            room.deallocate()
            room = .allocate(byteCount: byteCount, alignment: 1)
        }
        return room.baseAddress
    }

    mutating func commitPacket(_ byteCount: Int, for connection: ConnectionID) {
        precondition(byteCount == room.count, "a packet of another size than reserved")
    }

    mutating func closeConnection(_ connection: ConnectionID) {
        if has(connection) { peers[connection.slot].isClosing = true }
    }

    mutating func acceptConnection(_ connection: ConnectionID, silenceMilliseconds: UInt64) {
        if has(connection) { peers[connection.slot].isReleased = true }
    }

    mutating func holdConnection(_ connection: ConnectionID) {}

    mutating func holdForAnswers(_ connection: ConnectionID) {}

    mutating func releaseAfterAnswers(_ connection: ConnectionID) {
        if has(connection) { peers[connection.slot].isReleased = true }
    }
}

/// Believes what is presented; its random numbers are 1, 2, 3 and so on.
private struct OpenAuthenticator: Authenticator {
    static let app = Array("app".utf8)
    private var count: UInt64 = 0

    mutating func claim(
        token: ByteRange, in bytes: UnsafeRawBufferPointer, from connection: ConnectionID
    ) -> Claim? { .anonymous(user: token) }

    mutating func claim(
        app: ByteRange, key: ByteRange, user: ByteRange, in bytes: UnsafeRawBufferPointer
    ) -> Claim? { .anonymous(user: user) }

    mutating func claim(of connection: ConnectionID) -> Claim? { nil }

    mutating func makeRandomNumber() -> UInt64 {
        count += 1
        return count
    }
}

private struct NoNotes: LogSink {
    mutating func take(_ note: LogEvent, bytes: UnsafeRawBufferPointer) {}
    mutating func takeRefusal(_ connection: ConnectionID, _ reason: ReasonCode) {}
}
