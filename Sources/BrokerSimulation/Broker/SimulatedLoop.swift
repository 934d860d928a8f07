// One event loop as in the real runtime: bytes become events as they arrive; once per turn all of
// them enter the core, and its effects are carried out. The decoder, the encoder and the core are
// the real ones; the sockets are simulated.

import BrokerCore
import BrokerTerms
import Dialects
import Primitives

struct SimulatedLoop: ~Copyable {
    let context: SimulationContext
    private let network: SimulatedNetwork
    private let index: UInt8
    /// The start of the broker that it belongs to.
    private let life: Int
    var decoder: PacketDecoder
    private var encoder: EffectEncoder
    private(set) var host: SimulatedHost
    private var authenticator: SimulatedAuthenticator
    private var notes: SimulatedLog
    /// This loop's effects while they are carried out; empty otherwise.
    var effects = LoopEffects()
    private var schedule: EventSchedule
    private var turnCount: UInt64 = 0
    var planted = PlantedMemory()
    /// A turn is in the event queue.
    var isTurnComing = false

    /// The node of a cluster, which says what may leave; nil without one.
    private let node: ClusterNode?
    private var gated: [GatedEffects] = []

    /// The largest packet that the broker accepts.
    private static let packetMaximum = 65_536

    init(
        _ context: SimulationContext, _ network: SimulatedNetwork, index: UInt8, life: Int,
        node: ClusterNode?
    ) {
        self.node = node
        self.context = context
        self.network = network
        self.index = index
        self.life = life
        decoder = PacketDecoder(
            loop: index, terms: [ListenerTerms()], packetMaximum: Self.packetMaximum)
        encoder = EffectEncoder(packetMaximum: Self.packetMaximum)
        schedule = EventSchedule(
            limits: context.has(.ignoredBudget) ? CoreLimits() : context.profile.limits)
        host = SimulatedHost(context, network, loop: index)
        authenticator = SimulatedAuthenticator(context: context)
        notes = SimulatedLog(history: context.history)
    }

    deinit { host.free() }

    /// Whether the core must be told which connections have sent their bytes.
    var awaitsDrain: Bool { !encoder.awaitingDrain.isEmpty }

    // MARK: - Occurrences

    mutating func opened(link: Int) -> ConnectionID {
        let name = host.open(link: link)
        decoder.conversations.open(name, terms: 0)
        context.enter(
            .silenceChecked(link: link), after: HostConnection.loginMilliseconds)
        return name
    }

    /// Bytes arrive; the next turn reads them.
    mutating func arrived(_ bytes: [UInt8], on connection: ConnectionID) {
        guard host[connection] != nil else { return }
        host[connection]?.unread += bytes
        host[connection]?.lastHeard = context.now
    }

    /// The client closed, or the network lost the connection.
    mutating func closed(_ connection: ConnectionID, _ cause: CloseCause) {
        guard let gone = host[connection], gone.name == connection else { return }
        host[connection] = nil
        decoder.closed(connection, cause)
    }

    /// Whether a client has been silent for too long. Nil if its connection has ended, otherwise
    /// the milliseconds until the next check.
    mutating func checkSilence(_ connection: ConnectionID) -> UInt64? {
        guard let quiet = host[connection], quiet.name == connection, !quiet.isClosing else {
            return nil
        }
        // The broker does not read from it, as in the real event loop.
        if quiet.awaitsAnswers { return quiet.silenceMilliseconds }
        let silence = context.now.milliseconds(since: quiet.lastHeard)
        if silence < quiet.silenceMilliseconds { return quiet.silenceMilliseconds - silence }
        if quiet.isAccepted {
            decoder.events.append(.peerFaulted(connection, .keepAliveTimeout))
        } else {
            network.closedByBroker(quiet.link)
            closed(connection, .closedByBroker)
        }
        return quiet.silenceMilliseconds
    }

    // MARK: - A turn

    /// Reads the bytes that arrived, enters the core, carries out its effects.
    mutating func turn(_ process: BrokerProcess) {
        isTurnComing = false
        turnCount += 1
        reportDrained()
        var arena: [UInt8] = []
        var ranges: [(connection: ConnectionID, range: ByteRange)] = []
        for case let connection? in host.slots
        where !connection.isHeld && !connection.awaitsAnswers && !connection.isWaiting
            && !connection.unread.isEmpty
        {
            ranges.append(
                (connection.name, ByteRange(offset: arena.count, count: connection.unread.count)))
            arena += connection.unread
        }
        arena.withUnsafeMutableBytes { mutable in
            for (connection, range) in ranges { read(range, of: mutable, from: connection) }
            let arena = UnsafeRawBufferPointer(mutable)
            repeat {
                tamperEvents(arena)
                enterCore(process, arena)
                if holdEffects() {
                    requestTurn()
                } else {
                    carryOut()
                    if takeHeldEffects() { carryOut() }
                }
            } while !decoder.events.isEmpty
        }
        for slot in host.slots.indices {
            if let name = host.slots[slot]?.name { flush(name) }
        }
        if encoder.awaitingDrain.contains(where: { host[$0]?.outgoing.isEmpty ?? true }) {
            requestTurn()
        }
    }

    private mutating func read(
        _ range: ByteRange, of arena: UnsafeMutableRawBufferPointer, from connection: ConnectionID
    ) {
        let outcome = decoder.receive(
            range, of: arena, from: connection,
            packetCountMaximum: context.profile.packetsPerTurnMaximum, host: &host,
            authenticator: &authenticator, log: &notes)
        host[connection]?.unread.removeFirst(outcome.consumed)
        if outcome.isCut { requestTurn() }
    }

    private mutating func enterCore(_ process: BrokerProcess, _ arena: UnsafeRawBufferPointer) {
        let moment = context.moment
        for event in decoder.events { noteEvent(event, arena) }
        // Planted bugs add and remove events.
        decoder.spreadRuns(over: arena.count)
        let start = process.broker.work + process.effects.work
        let unsentMaximum = context.profile.outgoingMaximum
        let hasMore = schedule.enter(
            &decoder, turn: turnCount, bytes: arena, at: moment, broker: &process.broker,
            effects: &process.effects
        ) { host[$0].map { $0.outgoing.count < unsentMaximum } ?? true }
        let limits = context.profile.limits
        // A quarter of the turn is reserved for connections without a recent share. The packets
        // that exceed the turn's limit and that quarter are both completed.
        context.oracle.entered(
            cost: process.broker.work + process.effects.work - start,
            costMaximum: limits.turnWorkMaximum * 5 / 4 + 2 * schedule.largestStep)
        process.broker.advance(to: moment, effects: &process.effects)
        process.effects.exchange(index, with: &effects)
        schedule.takeChanges { connection, waits in
            host[connection]?.isWaiting = waits
            if !waits, host[connection] != nil { host.released.append(connection) }
        }
        // They may have sent more, and without effects nothing else reports it.
        if !host.released.isEmpty {
            host.released = []
            requestTurn()
        }
        // One millisecond later: another loop may have to take its effects first.
        if hasMore { requestTurn(after: 1) }
    }

    /// The network has accepted bytes: waiting work continues.
    mutating func drained(_ connection: ConnectionID) {
        flush(connection)
        if !schedule.isEmpty || !encoder.awaitingDrain.isEmpty { requestTurn() }
    }

    /// Tells the core which connections have sent their bytes.
    private mutating func reportDrained() {
        for connection in encoder.awaitingDrain {
            guard host[connection].map({ $0.outgoing.isEmpty }) ?? true else { continue }
            encoder.awaitingDrain.removeAll { $0 == connection }
            decoder.events.append(.outgoingDrained(connection))
        }
    }

    /// Carries out the effects, in a cluster those that may leave.
    private mutating func carryOut() {
        guard let node else { return carryOutAll() }
        if !effects.isEmpty {
            let entry = GatedEffects(mark: node.mark(of: effects))
            swap(&entry.effects, &effects)
            gated.append(entry)
        }
        while let first = gated.first, node.mayEmit(first.mark) {
            swap(&first.effects, &effects)
            gated.removeFirst()
            carryOutAll()
        }
    }

    private mutating func carryOutAll() {
        guard !effects.isEmpty || !planted.forged.isEmpty else { return }
        noteDeliveries()
        tamperEffects()
        encoder.encode(
            effects, at: context.moment.instant, conversations: &decoder.conversations,
            host: &host, log: &notes, events: &decoder.events)
        effects.removeAll()
        for connection in host.overflowed {
            guard let slow = host[connection] else { continue }
            network.closedByBroker(slow.link)
            closed(connection, .outgoingOverflow)
        }
        host.overflowed = []
        // Bytes after CONNECT wait to be read.
        if !host.released.isEmpty {
            host.released = []
            requestTurn()
        }
    }

    /// Asks for another turn of this loop.
    private mutating func requestTurn(after milliseconds: UInt64 = 0) {
        guard !isTurnComing else { return }
        isTurnComing = true
        context.enter(.loopTurn(loop: Int(index), life: life), after: milliseconds)
    }

    // MARK: - Sending

    /// Writes as much as the network accepts; a connection that must be closed is closed after
    /// that.
    mutating func flush(_ connection: ConnectionID) {
        guard let sending = host[connection], sending.name == connection else { return }
        if let node {
            guard !sending.outgoing.isEmpty || sending.isClosing, node.mayEmit(nil) else { return }
            node.noteEmission()
        }
        let count = min(sending.outgoing.count, network.room(on: sending.link, towards: .client))
        if count > 0 {
            network.write(sending.outgoing[..<count], on: sending.link, towards: .client)
            host[connection]?.outgoing.removeFirst(count)
        }
        if sending.isClosing && count == sending.outgoing.count {
            network.closedByBroker(sending.link)
            closed(connection, .closedByBroker)
            requestTurn()
        }
    }

    /// Tells all clients that the broker stops.
    mutating func writeShutdown() {
        encoder.writeShutdown(conversations: &decoder.conversations, host: &host)
        for case let leaving? in host.slots {
            network.write(leaving.outgoing[...], on: leaving.link, towards: .client)
            network.closedByBroker(leaving.link)
        }
    }

    // MARK: - History

    private func noteEvent(_ event: Event, _ arena: UnsafeRawBufferPointer) {
        guard context.history.isRecording else { return }
        switch event {
        case .sendReceived(let connection, let send):
            let message = MessageText.message(
                in: send.payload.bytes(in: arena), isRaw: send.isRaw)
            context.history.note(
                .message(message ?? -1), "reached the broker as #\(send.number) on \(connection)")
        case .inboxAcknowledged(let connection, let through):
            context.history.note(.broker, "\(connection) acknowledges up to \(through)")
        case .connectReceived(let connection, let request):
            context.history.note(
                .broker,
                "CONNECT on \(connection), resume \(request.resume.map { "\($0)" } ?? "none")")
        case .subscribeReceived(let connection, let request):
            var walk = FilterRequestWalk(request.filters, in: arena)
            while let wanted = walk.next() {
                let filter = String(decoding: wanted.filter.bytes(in: arena), as: UTF8.self)
                context.history.note(
                    .broker, "\(connection) subscribes to \(filter), \(wanted.grade)")
            }
        case .unsubscribeReceived(let connection, let request):
            var walk = FilterWalk(request.filters, in: arena)
            while let name = walk.next() {
                let filter = String(decoding: name.bytes(in: arena), as: UTF8.self)
                context.history.note(.broker, "\(connection) unsubscribes from \(filter)")
            }
        default:
            context.history.note(.broker, "\(event)")
        }
    }

    private func noteDeliveries() {
        let hasKeys = !context.oracle.revisionFacts.keys.isEmpty
        guard context.history.isRecording || hasKeys else { return }
        for case .deliver(let delivery) in effects.effects.elements {
            let range = effects.publications[Int(delivery.publication)].block
            let block = MessageBlock(range.bytes(in: effects.bytes.bytes))
            let message = MessageText.message(
                in: block.payload, isRaw: block.marks.contains(.raw))
            if let message, hasKeys { context.oracle.copySent(message) }
            context.history.note(
                .message(message ?? -1),
                "delivered as #\(delivery.number) on \(delivery.connection)")
        }
    }
}
