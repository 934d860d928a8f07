// A lane: one event loop with its conversations. Bytes become events as they arrive; once per turn
// the core is entered with all of them, and what it wants done on this lane's connections is
// carried out.

import BrokerCore
import Dialects
import NetTransport
import Primitives

/// What a loop tells a lane, and what the lane does about it.
package struct LaneHandler: LoopHandler, ~Copyable {
    private let lane: UInt8
    private let shared: SharedBroker
    private let clock: BrokerClock
    private var desk: PacketDesk
    private var carrier: EffectCarrier
    private var doorkeeper: CredentialDesk
    private let identityProofs: IdentityProofs
    private var notes: LaneLog
    /// This lane's effects while they are carried out; empty otherwise.
    private var effects = EffectLane()
    private let packetMaximum: Int
    private let rates: ClientRates
    private var limiter = RateLimiter()
    /// Connections that are not read from because they were too fast, by when they are again.
    private var paused: TimerWheel
    /// Which events the core has this turn, and which wait.
    private var schedule = EventSchedule()
    /// Connections that had more to read than one turn takes.
    private var cut: [ConnectionID] = []
    /// Connections of which the core wants to know when they have read, and that do not.
    private var slow: Set<ConnectionID> = []
    /// Whether another thread has left effects for this lane.
    private var isWoken = false
    /// The broker is about to stop: what comes now stays unread, so that the last results can be
    /// told before the goodbye.
    private var isDrained = false
    /// Everything that had come by then has been taken in, and the broker knows.
    private var isDrainTold = false
    /// The loop has begun to stop. The core is not told of the connections that end with it, so
    /// that no session ends and no will is sent because the broker is stopped.
    private var isStopping = false

    /// - Parameters:
    ///   - terms: what each listener lets its clients do, by tag.
    ///   - identityProofs: which listeners' clients may prove by TLS who they are.
    package init(
        lane: UInt8, shared: SharedBroker, clock: BrokerClock, terms: [ListenerTerms],
        identityProofs: IdentityProofs, trust: ClientTrust, rates: ClientRates, packetMaximum: Int,
        numbers: RandomNumbers = .system, notes: consuming LaneLog
    ) {
        self.rates = rates
        paused = TimerWheel(start: clock.moment().instant)
        self.lane = lane
        self.shared = shared
        self.clock = clock
        self.packetMaximum = packetMaximum
        self.notes = notes
        desk = PacketDesk(lane: lane, terms: terms, packetMaximum: packetMaximum)
        doorkeeper = CredentialDesk(trust: trust, clock: clock, numbers: numbers)
        self.identityProofs = identityProofs
        carrier = EffectCarrier(packetMaximum: packetMaximum)
    }

    // MARK: - Connections

    package mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin,
        in loop: inout some LaneLoop & ~Copyable
    ) {
        guard case .listener(let tag) = origin else {
            preconditionFailure("a broker connects to nobody")
        }
        desk.conversations.open(connection, terms: UInt8(tag))
        if identityProofs.mayProve(tag: tag) { doorkeeper.opened(connection, in: loop) }
    }

    package mutating func received(
        _ bytes: ByteRange, from connection: ConnectionID, in loop: inout some LaneLoop & ~Copyable
    ) -> Consumption {
        if isDrained {
            loop.pauseReading(connection, for: .handler)
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
            packetCountMaximum: schedule.packetCountMaximum,
            host: &loop, doorkeeper: &doorkeeper, notes: &notes)
        if isLimited { charge(connection, outcome, values, &loop) }
        if outcome.isCut {
            loop.pauseReading(connection, for: .budget)
            cut.append(connection)
        }
        if desk.events.count >= ScheduleLimits.gatheredEventsMaximum { _ = work(&loop) }
        return Consumption(consumed: outcome.consumed, awaiting: outcome.awaited)
    }

    /// Holds a client to its rate.
    private mutating func charge(
        _ connection: ConnectionID, _ outcome: PacketDesk.Outcome, _ values: ClientRates.Values,
        _ loop: inout some LaneLoop & ~Copyable
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
            loop.pauseReading(connection, for: .rate)
            _ = paused.insert(deadline: end, payload: connection.rawValue)
        case .flood:
            rates.countFlood()
            desk.fail(connection, .messageRateTooHigh)
        }
    }

    /// Reads again from those whose pause is over.
    private mutating func resumePaused(_ loop: inout some LaneLoop & ~Copyable) {
        while let payload = paused.popDue(at: loop.now) {
            // Whoever is gone has no name any more, and nothing happens.
            loop.resumeReading(ConnectionID(rawValue: payload), from: .rate)
        }
        if let next = paused.nextDeadline { loop.nextWake = min(loop.nextWake, next) }
    }

    package mutating func turnedAway(
        _ peer: SocketAddress, _ cause: RefusalCause, in loop: inout some LaneLoop & ~Copyable
    ) {
        notes.writeTurnedAway(peer, cause)
    }

    package mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID,
        in loop: inout some LaneLoop & ~Copyable
    ) {
        switch deadline {
        case .authentication:
            // It has not logged in; there may be no dialect to answer in.
            notes.takeRefusal(connection, .keepAliveTimeout)
            loop.close(connection, afterFlush: false)
        case .keepAlive:
            desk.events.append(.peerFaulted(connection, .keepAliveTimeout))
        }
    }

    package mutating func closed(
        _ connection: ConnectionID, _ cause: NetTransport.CloseCause,
        in loop: inout some LaneLoop & ~Copyable
    ) {
        notes.takeClosed(connection, cause, loop)
        doorkeeper.closed(connection)
        slow.remove(connection)
        desk.closed(connection, BrokerCore.CloseCause(cause), isTold: !isStopping)
    }

    // MARK: - Turns

    package mutating func woken(in loop: inout some LaneLoop & ~Copyable) {
        isWoken = true
    }

    package mutating func outgoingDrained(
        _ connection: ConnectionID, in loop: inout some LaneLoop & ~Copyable
    ) {
        if slow.remove(connection) != nil { desk.events.append(.outgoingDrained(connection)) }
    }

    package mutating func turnEnded(in loop: inout some LaneLoop & ~Copyable) {
        let isDue = loop.nextWake <= loop.now
        defer {
            writeNotes(loop)
            resumePaused(&loop)
            resumeCut(&loop)
        }
        tellDrained(&loop)
        guard isDue || isWoken || !desk.events.isEmpty || !schedule.isEmpty else { return }
        isWoken = false
        if work(&loop) { isDrained = true }
        if isDrained, schedule.isEmpty, !isDrainTold {
            isDrainTold = true
            shared.laneDrained()
        }
    }

    /// Enters the core with what has been gathered, and again with what comes of that. True when
    /// the broker is about to stop.
    private mutating func work(_ loop: inout some LaneLoop & ~Copyable) -> Bool {
        var isDraining = false
        repeat {
            isDraining = enterCore(&loop)
            carryOut(&loop)
        } while !desk.events.isEmpty
        schedule.takeChanges { connection, waits in
            if waits {
                loop.pauseReading(connection, for: .budget)
            } else {
                loop.resumeReading(connection, from: .budget)
            }
        }
        return isDraining
    }

    /// Reads on from those who had more than one turn takes.
    private mutating func resumeCut(_ loop: inout some LaneLoop & ~Copyable) {
        for connection in cut where !schedule.holds(connection) {
            loop.resumeReading(connection, from: .budget)
        }
        cut.removeAll(keepingCapacity: true)
    }

    /// Tells the core who has taken what was written in an earlier turn.
    private mutating func tellDrained(_ loop: inout some LaneLoop & ~Copyable) {
        for connection in carrier.awaitingDrain {
            if loop.isSendBlocked(connection) {
                slow.insert(connection)
            } else {
                desk.events.append(.outgoingDrained(connection))
            }
        }
        carrier.awaitingDrain.removeAll(keepingCapacity: true)
    }

    /// True when the broker is about to stop.
    private mutating func enterCore(_ loop: inout some LaneLoop & ~Copyable) -> Bool {
        let moment = clock.moment(at: loop.now)
        let bytes = loop.arena
        let turn = loop.turn
        var isDraining = false
        var hasMore = false
        let nextWake = shared.enter(from: lane) { state in
            isDraining = state.isDraining
            hasMore = schedule.enter(
                &desk, turn: turn, bytes: bytes, identities: doorkeeper.identities, at: moment,
                &state.broker, &state.effects
            ) { connection in
                // Whoever does not read holds up nobody but itself, and not the end of the broker.
                isDraining
                    || loop.outgoingByteCount(of: connection) < ScheduleLimits.unsentBytesMaximum
            }
            state.broker.advance(to: moment, effects: &state.effects)
            state.effects.exchange(lane, with: &effects)
            return state.broker.nextDeadline ?? .never
        }
        doorkeeper.endTurn()
        loop.nextWake = hasMore ? loop.now : nextWake
        return isDraining
    }

    private mutating func writeNotes(_ loop: borrowing some LaneLoop & ~Copyable) {
        for (connection, refusal) in doorkeeper.refusals {
            notes.explain(connection, refusal.detail)
        }
        doorkeeper.forgetRefusals()
        notes.write(loop, desk.conversations)
    }

    private mutating func carryOut(_ loop: inout some LaneLoop & ~Copyable) {
        guard !effects.isEmpty else { return }
        carrier.carryOut(
            effects, at: loop.now, conversations: &desk.conversations, host: &loop, notes: &notes,
            events: &desk.events)
        effects.removeAll()
        if !carrier.awaitingDrain.isEmpty { loop.nextWake = loop.now }
    }

    package mutating func stopping(in loop: inout some LaneLoop & ~Copyable) {
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
