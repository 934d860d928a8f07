// A lane: one event loop with its conversations. Bytes become events as they arrive; once per turn
// the core is entered with all of them, and what it wants done on this lane's connections is
// carried out.

import BrokerCore
import Dialects
import NetTransport
import Primitives

/// What a loop tells a lane, and what the lane does about it.
struct LaneHandler: LoopHandler, ~Copyable {
    private let lane: UInt8
    private let shared: SharedBroker
    private let clock: BrokerClock
    private var desk: PacketDesk
    private var carrier: EffectCarrier
    private var doorkeeper: CredentialDesk
    /// By tag: whether a listener's clients may prove by TLS who they are.
    private let provesIdentity: [Bool]
    private var notes: LaneLog
    /// This lane's effects while they are carried out; empty otherwise.
    private var effects = EffectLane()
    private let packetMaximum: Int
    private let rates: ClientRates
    private var limiter = RateLimiter()
    /// Connections that are not read from because they were too fast, by when they are again.
    private var paused: TimerWheel
    /// Whether another thread has left effects for this lane.
    private var isWoken = false
    /// The broker is about to stop: what comes now stays unread, so that the last results can be
    /// told before the goodbye.
    private var isDrained = false
    /// The loop has begun to stop. The core is not told of the connections that end with it, so
    /// that no session ends and no will is sent because the broker is stopped.
    private var isStopping = false

    init(
        lane: UInt8, shared: SharedBroker, clock: BrokerClock, listeners: ListenerSet,
        trust: ClientTrust, rates: ClientRates, packetMaximum: Int,
        notes: consuming LaneLog
    ) {
        self.rates = rates
        paused = TimerWheel(start: clock.moment().instant)
        self.lane = lane
        self.shared = shared
        self.clock = clock
        self.packetMaximum = packetMaximum
        self.notes = notes
        desk = PacketDesk(lane: lane, terms: listeners.terms, packetMaximum: packetMaximum)
        doorkeeper = CredentialDesk(trust: trust, clock: clock)
        provesIdentity = listeners.provesIdentity
        carrier = EffectCarrier(packetMaximum: packetMaximum)
    }

    // MARK: - Connections

    mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
    ) {
        guard case .listener(let tag) = origin else {
            preconditionFailure("a broker connects to nobody")
        }
        desk.conversations.open(connection, terms: UInt8(tag))
        if provesIdentity[Int(tag)] { doorkeeper.opened(connection, in: loop) }
    }

    mutating func received(
        _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption {
        if isDrained {
            loop.pauseReading(connection)
            return Consumption(consumed: 0)
        }
        let values = rates.values
        // Before it is in, its few bytes are the transport's to bound.
        let isLimited =
            values.areLimited && desk.conversations[connection]?.phase == .established
        let outcome = desk.receive(
            bytes, of: loop.arena, from: connection,
            workMaximum: isLimited
                ? limiter.allowance(of: connection, rates: values, at: loop.now) : .max,
            host: &loop, doorkeeper: &doorkeeper, notes: &notes)
        if isLimited { charge(connection, outcome, values, &loop) }
        return Consumption(consumed: outcome.consumed, awaiting: outcome.awaited)
    }

    /// Holds a client to its rate.
    private mutating func charge(
        _ connection: ConnectionID, _ outcome: PacketDesk.Outcome, _ values: ClientRates.Values,
        _ loop: inout EventLoop
    ) {
        let amount = RateLimiter.Amount(
            messages: outcome.work, bytes: outcome.consumed, leavesRest: outcome.leavesRest)
        let verdict = limiter.charge(connection, amount, rates: values, at: loop.now)
        guard desk.conversations[connection]?.phase == .established else { return }
        switch verdict {
        case .withinRate:
            break
        case .pause(let end):
            rates.countPause()
            loop.pauseReading(connection)
            _ = paused.insert(deadline: end, payload: connection.rawValue)
        case .flood:
            rates.countFlood()
            desk.fail(connection, .messageRateTooHigh)
        }
    }

    /// Reads again from those whose pause is over.
    private mutating func resumePaused(_ loop: inout EventLoop) {
        while let payload = paused.popDue(at: loop.now) {
            // Whoever is gone has no name any more, and nothing happens.
            if !isDrained { loop.resumeReading(ConnectionID(rawValue: payload)) }
        }
        if let next = paused.nextDeadline { loop.nextWake = min(loop.nextWake, next) }
    }

    mutating func turnedAway(
        _ peer: SocketAddress, _ cause: RefusalCause, in loop: inout EventLoop
    ) {
        notes.writeTurnedAway(peer, cause)
    }

    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop
    ) {
        switch deadline {
        case .authentication:
            // It has not logged in (D18); there may be no dialect to answer in.
            notes.takeRefusal(connection, .keepAliveTimeout)
            loop.close(connection, afterFlush: false)
        case .keepAlive:
            desk.events.append(.peerFaulted(connection, .keepAliveTimeout))
        }
    }

    mutating func closed(
        _ connection: ConnectionID, _ cause: NetTransport.CloseCause, in loop: inout EventLoop
    ) {
        notes.takeClosed(connection, cause, loop)
        doorkeeper.closed(connection)
        desk.closed(connection, BrokerCore.CloseCause(cause), isTold: !isStopping)
    }

    // MARK: - Turns

    mutating func woken(in loop: inout EventLoop) {
        isWoken = true
    }

    mutating func turnEnded(in loop: inout EventLoop) {
        let isDue = loop.nextWake <= loop.now
        defer {
            writeNotes(loop)
            resumePaused(&loop)
        }
        guard isDue || isWoken || !desk.events.isEmpty else { return }
        isWoken = false
        var isDraining = false
        repeat {
            isDraining = enterCore(&loop)
            carryOut(&loop)
        } while !desk.events.isEmpty
        if isDraining, !isDrained {
            isDrained = true
            shared.laneDrained()
        }
    }

    /// True when the broker is about to stop.
    private mutating func enterCore(_ loop: inout EventLoop) -> Bool {
        let moment = clock.moment(at: loop.now)
        let bytes = loop.arena
        var isDraining = false
        loop.nextWake = shared.enter(from: lane) { state in
            isDraining = state.isDraining
            for (connection, identity) in doorkeeper.presented {
                state.broker.present(identity, for: connection)
            }
            for event in desk.events {
                state.broker.step(event, bytes: bytes, at: moment, effects: &state.effects)
            }
            state.broker.advance(to: moment, effects: &state.effects)
            state.effects.exchange(lane, with: &effects)
            return state.broker.nextDeadline ?? .never
        }
        desk.events.removeAllKeepingCapacity()
        doorkeeper.forgetPresented()
        return isDraining
    }

    private mutating func writeNotes(_ loop: borrowing EventLoop) {
        for (connection, refusal) in doorkeeper.refusals {
            notes.explain(connection, refusal.detail)
        }
        doorkeeper.forgetRefusals()
        notes.write(loop, desk.conversations)
    }

    private mutating func carryOut(_ loop: inout EventLoop) {
        guard !effects.isEmpty else { return }
        carrier.carryOut(
            effects, at: loop.now, conversations: &desk.conversations, host: &loop, notes: &notes,
            events: &desk.events)
        effects.removeAll()
    }

    mutating func stopping(in loop: inout EventLoop) {
        isStopping = true
        // The results of what was drained may have come in this very turn.
        _ = enterCore(&loop)
        carryOut(&loop)
        carrier.sayGoodbye(conversations: &desk.conversations, host: &loop)
    }
}

extension BrokerCore.CloseCause {
    /// What the core wants to know of why a loop closed a connection.
    fileprivate init(_ cause: NetTransport.CloseCause) {
        switch cause {
        case .outgoingOverflow, .lingerTimeout: self = .outgoingOverflow
        case .closedByHandler, .loopStopped: self = .closedByBroker
        case .peerClosed, .networkFailure, .tlsFailure, .handshakeTimeout, .connectTimeout,
            .packetTooLarge:
            self = .lost
        }
    }
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
        resumeReading(connection)
    }

    public mutating func holdConnection(_ connection: ConnectionID) {
        pauseReading(connection)
    }

    public mutating func appendIncoming(_ bytes: UnsafeRawBufferPointer) -> ByteRange {
        appendToArena(bytes)
    }
}
