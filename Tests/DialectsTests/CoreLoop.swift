// A loop with the real core and a store without a disk: packets go in, and their cost can be read.
// Connections are numbers, and the bytes sent to them are only counted.

import BrokerSimulation
import BrokerTerms
import Primitives
import WireFormat

@testable import BrokerCore
@testable import Dialects

/// What one burst of packets has caused.
struct RequestCost: Equatable {
    var requestBytes = 0
    /// Bytes written to all connections.
    var writtenBytes = 0
    /// Memory of effects on their way from the core to the loop.
    var effectBytes = 0
    /// In the unit of ``CoreLimits/turnWorkMaximum``.
    var work = 0
    /// Bytes of rows, messages and entries that the store was given.
    var storeBytes = 0
}

final class CoreLoop {
    var broker: Broker
    var decoder = PacketDecoder(
        loop: 0, terms: [ListenerTerms(allowsAnonymous: true)], packetMaximum: 1 << 20)
    var schedule: EventSchedule
    var host = CountingHost()
    var now = Moment(
        instant: Instant(milliseconds: 1_000_000), unixMilliseconds: 1_790_000_000_000)
    private var encoder = EffectEncoder(packetMaximum: 1 << 20)
    private var authenticator = TestAuthenticator()
    private var log = TestLog()
    private var effects = Effects()
    private var fetched = LoopEffects()
    private var store = InMemoryStore()
    private var batch = StoreBatch()
    private var result = StoreResult()
    private var turn: UInt64 = 0
    private var nextSlot = 0

    init(limits: CoreLimits = CoreLimits()) {
        broker = Broker(limits: limits, at: now)
        schedule = EventSchedule(limits: limits)
        let state = store.restore(into: &broker)
        try! broker.finishRestoring(state, newEpochSeed: 1, at: now)
        broker.anonymousApp = Array("app".utf8)
        _ = try! broker.addApp(
            broker.anonymousApp, keyDigest: Digest(words: (0, 0, 0, 0)), rights: .everything)
        commit()
    }

    // MARK: - Connections

    func open(slot: Int? = nil, generation: UInt32 = 1) -> ConnectionID {
        nextSlot += 1
        let name = ConnectionID(loop: 0, slot: slot ?? nextSlot, generation: generation)
        decoder.conversations.open(name, terms: 0)
        return name
    }

    /// A client that is let in.
    func client(_ name: String, _ dialect: SessionDialect = .mrt) -> ConnectionID {
        let connection = open()
        exchange(Packets.connect(name, dialect), connection)
        precondition(decoder.conversations[connection]?.phase == .established, "refused: \(name)")
        return connection
    }

    // MARK: - Packets

    /// Lets packets take place, all that waits for a commit included, and says what they cost.
    @discardableResult
    func exchange(_ packets: [UInt8], _ connection: ConnectionID) -> RequestCost {
        var cost = RequestCost(requestBytes: packets.count)
        let written = host.byteCount
        let before = broker.work
        read(packets, connection) { buffer in
            for event in decoder.events {
                broker.step(event, bytes: buffer, at: now, effects: &effects)
            }
            decoder.removeEvents()
        }
        count(&cost)
        carryOut()
        commit(&cost)
        cost.work += broker.work - before
        cost.writtenBytes = host.byteCount - written
        return cost
    }

    /// Gathers the events of a burst for ``enter(_:)``; they point into the buffer that `body`
    /// gets. What the decoder leaves unread is told.
    @discardableResult
    func read(
        _ packets: [UInt8], _ connection: ConnectionID, packetMaximum: Int = .max,
        _ body: (UnsafeRawBufferPointer) -> Void
    ) -> PacketDecoder.Outcome {
        var buffer =
            packets + [UInt8](repeating: 0, count: TopicAliasLimits.burstByteCountMaximum)
        return buffer.withUnsafeMutableBytes { mutable in
            host.incoming = mutable
            host.incomingCount = packets.count
            let outcome = decoder.receive(
                ByteRange(offset: 0, count: packets.count), of: mutable, from: connection,
                packetCountMaximum: packetMaximum, host: &host,
                authenticator: &authenticator, log: &log)
            body(UnsafeRawBufferPointer(mutable))
            return outcome
        }
    }

    /// A turn of the schedule with what has been read; true where something waits.
    @discardableResult
    func enter(
        _ buffer: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        isNewTurn: Bool = true, beginsRound: Bool = true,
        isReading: (ConnectionID) -> Bool = { _ in true }
    ) -> Bool {
        if isNewTurn { turn += 1 }
        let waits = schedule.enter(
            &decoder, turn: turn, beginsRound: beginsRound, bytes: buffer, at: now,
            broker: &broker, effects: &effects,
            isReading: isReading)
        carryOut()
        return waits
    }

    /// The last number that a receiver has been sent and has not acknowledged.
    func sentThrough(_ connection: ConnectionID) -> Int? {
        guard let session = broker.session(of: connection) else { return nil }
        let through = broker.live.connectedSessions[broker.connectedIndex(of: session)].sentThrough
        return through > broker.sessions[session].inbox.acknowledgedThrough ? Int(through) : nil
    }

    func holds(_ connection: ConnectionID) -> Bool { schedule.holds(connection) }
    var isIdle: Bool { schedule.isEmpty }
    var waitingByteCount: Int { schedule.waitingByteCount }
    var packetCountMaximum: Int { schedule.packetCountMaximum }

    /// Adds what the core's effects take until the loop has carried them out, and what they cost.
    private func count(_ cost: inout RequestCost) {
        cost.effectBytes +=
            effects[0].effects.count * MemoryLayout<Effect>.stride + effects[0].bytes.count
            + effects[0].publications.count * MemoryLayout<Publication>.stride
        cost.work += effects.work
    }

    func carryOut() {
        effects.exchange(0, with: &fetched)
        var events = ContiguousArray<Event>()
        encoder.encode(
            fetched, at: now.instant, conversations: &decoder.conversations, host: &host,
            log: &log, events: &events)
        decoder.events += events
        fetched.removeAll()
        encoder.awaitingDrain = []
    }

    /// Commits until there is nothing left to commit.
    private func commit(_ cost: inout RequestCost) {
        while broker.takeBatch(into: &batch, at: now) {
            cost.storeBytes += batch.blocks.count
            cost.storeBytes += batch.entries.count * CoreLimits.uncommittedEntryBytes
            for record in batch.records {
                cost.storeBytes += record.key.count + (record.value?.count ?? 0)
            }
            store.carryOut(batch, into: &result)
            broker.stored(result, at: now, effects: &effects)
            count(&cost)
            carryOut()
        }
    }

    /// Stores a batch that was taken, and brings the result.
    func finish(_ batch: StoreBatch) {
        store.carryOut(batch, into: &result)
        broker.stored(result, at: now, effects: &effects)
        carryOut()
    }

    func commit() {
        var ignored = RequestCost()
        commit(&ignored)
    }
}

/// Counts what is written.
struct CountingHost: ConnectionHost {
    var byteCount = 0
    var incoming: UnsafeMutableRawBufferPointer?
    var incomingCount = 0
    private var packet = [UInt8](repeating: 0, count: 1 << 20)

    mutating func appendIncoming(_ bytes: UnsafeRawBufferPointer) -> ByteRange {
        let range = ByteRange(offset: incomingCount, count: bytes.count)
        UnsafeMutableRawBufferPointer(rebasing: incoming![incomingCount...])
            .copyMemory(from: bytes)
        incomingCount += bytes.count
        return range
    }

    mutating func reservePacket(
        _ byteCount: Int, for connection: ConnectionID, _ priority: PacketPriority
    ) -> UnsafeMutableRawPointer? {
        precondition(byteCount <= packet.count, "a packet of \(byteCount) bytes")
        return packet.withUnsafeMutableBytes { $0.baseAddress }
    }

    mutating func commitPacket(_ count: Int, for connection: ConnectionID) { byteCount += count }
    mutating func closeConnection(_ connection: ConnectionID) {}
    mutating func acceptConnection(_ connection: ConnectionID, silenceMilliseconds: UInt64) {}
    mutating func holdConnection(_ connection: ConnectionID) {}
    mutating func holdForAnswers(_ connection: ConnectionID) {}
    mutating func releaseAfterAnswers(_ connection: ConnectionID) {}
}

/// Packets of clients, as bytes.
enum Packets {
    static func packet(_ first: UInt8, _ body: [UInt8]) -> [UInt8] {
        [first] + varint(body.count) + body
    }

    static func varint(_ value: Int) -> [UInt8] {
        var (rest, bytes) = (value, [UInt8]())
        repeat {
            bytes.append(UInt8(rest & 0x7F) | (rest > 0x7F ? 0x80 : 0))
            rest >>= 7
        } while rest > 0
        return bytes
    }

    static func string8(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + text.utf8 }

    static func string16(_ text: String) -> [UInt8] {
        [UInt8(text.utf8.count >> 8), UInt8(text.utf8.count & 0xFF)] + text.utf8
    }

    /// - Parameter will: the topic of an empty will; only in MQTT 5.0.
    static func connect(
        _ name: String, _ dialect: SessionDialect, will: String? = nil
    ) -> [UInt8] {
        if dialect == .mrt {
            return packet(0x10, [0, 3] + "MRT".utf8 + [1, 0, 0, 64, 0] + string8(name))
        }
        // Starts clean, with an expiry in 5.0.
        let level: UInt8 = dialect == .mqtt5 ? 5 : 4
        let properties: [UInt8] = dialect == .mqtt5 ? [5, 0x11, 0, 0, 14, 16] : []
        return packet(
            0x10,
            string16("MQTT") + [level, will == nil ? 2 : 6, 0, 0] + properties + string16(name)
                + (will.map { [0] + string16($0) + [0, 0] } ?? []))
    }

    /// Of one of a user's devices, with an app key.
    static func connect(_ user: String, device: String) -> [UInt8] {
        packet(
            0x10,
            [0, 3] + "MRT".utf8 + [1, 0x40, 0, 64, 0] + string8(device) + [2] + string8("app")
                + string8("key") + string8(user))
    }

    /// The first packet of a channel, for whose user its gateway vouches.
    static func connectChannel(_ user: String) -> [UInt8] {
        packet(0x10, [0, 3] + "MRT".utf8 + [1, 0x40, 0, 64, 0, 0, 3] + string8(user))
    }

    static func publish(
        _ topic: String, _ payload: [UInt8] = [], qos: UInt8 = 0, identifier: UInt16 = 1,
        isRetained: Bool = false, properties: [UInt8] = []
    ) -> [UInt8] {
        packet(
            0x30 | qos << 1 | (isRetained ? 1 : 0),
            string16(topic) + (qos > 0 ? [UInt8(identifier >> 8), UInt8(identifier & 0xFF)] : [])
                + [UInt8(properties.count)] + properties + payload)
    }

    static func subscribe(_ filters: [String], qos: UInt8 = 0, _ dialect: SessionDialect = .mqtt5)
        -> [UInt8]
    {
        packet(
            0x82,
            [0, 1] + (dialect == .mqtt5 ? [0] : [])
                + filters.flatMap { string16($0) + [qos] })
    }

    static func unsubscribe(_ filters: [String], _ dialect: SessionDialect = .mqtt5) -> [UInt8] {
        packet(
            0xA2,
            [0, 1] + (dialect == .mqtt5 ? [0] : []) + filters.flatMap { string16($0) })
    }

    static func request(_ operation: MRT.Operation, _ parameters: [UInt8], id: Int = 1) -> [UInt8] {
        packet(0x70, varint(id) + [operation.rawValue] + parameters)
    }

    /// - Parameter target: with its kind.
    static func send(
        _ target: [UInt8], _ payload: [UInt8], grade: UInt8 = 0, number: Int = 1,
        isRaw: Bool = false
    ) -> [UInt8] {
        packet(
            0x30 | grade | (isRaw ? 8 : 0), (grade > 0 ? varint(number) : []) + target + payload)
    }
}
