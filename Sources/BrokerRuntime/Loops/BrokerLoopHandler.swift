// Connects one event loop with the core. The handler decodes bytes into events as they arrive. At
// the end of a turn it enters the core with all events, and then carries out the core's effects on
// the connections of this loop.

import BrokerCore
import BrokerTerms
import Dialects
import NetTransport
import Primitives
import WireFormat

/// Handles the events of one event loop for the broker.
package struct BrokerLoopHandler: LoopHandler, ~Copyable {
    let loopIndex: UInt8
    /// The core of the first shard, and what all shards share.
    let shared: SharedBroker
    /// The other cores; nil if there is one.
    let others: LoopShards?
    private let clock: BrokerClock
    var decoder: PacketDecoder
    var encoder: EffectEncoder
    private var verifier: CredentialVerifier
    private let identityProofs: IdentityProofs
    var connectionLog: ConnectionLog
    /// Connections of web listeners that do not speak WebSocket yet.
    private var web: WebConnections
    /// Connections that speak for another system.
    let sockets: SourceSockets
    /// The effects for this loop while they are carried out; empty otherwise.
    var effects = LoopEffects()
    private let packetMaximum: Int
    private let rates: ClientRates
    private var limiter = RateLimiter()
    /// Connections that exceeded their rate, by the time at which reading resumes.
    private var paused: TimerWheel
    /// Decides which events enter the core in this turn and which wait.
    private var schedule = EventSchedule()
    /// Connections with more unread bytes than one turn processes.
    private var unfinished: [ConnectionID] = []
    /// Connections with unsent bytes for which the core waits for an `outgoingDrained` event.
    private var slow: Set<ConnectionID> = []
    /// Whether another thread has added effects for this loop.
    private var isWoken = false
    /// The broker is stopping: new bytes stay unread, so that clients receive the last results
    /// before the connection closes.
    private(set) var isDrained = false
    /// All earlier input has entered the core, and the shared broker has been notified.
    private var hasReportedDrain = false
    /// The loop is stopping. The core gets no event for connections that close now, so that a stop
    /// of the broker ends no session and sends no will.
    private var isStopping = false
    /// Whether there is a trace. Without one, this test is all that a read and a turn pay for it.
    private var isTracing = false
    /// In a cluster, the effects of the first core that may not leave yet.
    let gated: GatedLoop
    let isGated: Bool
    /// Cores that have so many of them that their connections are not read.
    var fullCoreCount = 0
    /// Connections that are not read because too many effects wait in a cluster.
    var held: [ConnectionID] = []
    /// Whether bytes stay unread: the broker is stopping, or too many effects wait.
    var holdsInput = false
    private let tracer: LoopTracer
    private var meter = ActivityMeter()
    /// Where the next look for slow readers begins.
    private var nextBlocked = 0

    /// - Parameters:
    ///   - terms: the permissions of each listener's clients, by tag.
    ///   - identityProofs: the listeners whose clients may authenticate by TLS.
    ///   - web: what requests of web listeners are answered with.
    package init(
        loopIndex: UInt8, shards: Shards, clock: BrokerClock, terms: [ListenerTerms],
        identityProofs: IdentityProofs, trust: ClientTrust, rates: ClientRates, packetMaximum: Int,
        web: WebServices = WebServices(), numbers: RandomNumbers = .system,
        passwords: PasswordVerifier? = nil, traces: TraceRegistry = TraceRegistry(),
        log: consuming ConnectionLog
    ) {
        tracer = LoopTracer(traces, shards: shards, loop: loopIndex, at: clock.moment())
        self.web = WebConnections(
            web, loopIndex: loopIndex, shards: shards, trust: trust, rates: rates, clock: clock,
            log: log.log)
        self.rates = rates
        paused = TimerWheel(start: clock.moment().instant)
        self.loopIndex = loopIndex
        shared = shards.first
        others = LoopShards(shards)
        self.clock = clock
        self.packetMaximum = packetMaximum
        self.connectionLog = log
        decoder = PacketDecoder(loop: loopIndex, terms: terms, packetMaximum: packetMaximum)
        sockets = SourceSockets(
            web, loopIndex: loopIndex, shards: shards, rates: rates, clock: clock,
            packetMaximum: packetMaximum, log: connectionLog.log)
        decoder.conversations.relay = sockets
        verifier = CredentialVerifier(
            trust: trust, clock: clock, numbers: numbers, passwords: passwords)
        self.identityProofs = identityProofs
        encoder = EffectEncoder(packetMaximum: packetMaximum)
        gated = GatedLoop(shared.gate, isOfStandby: !shared.takesEvents)
        isGated = shared.gate != nil
    }

    // MARK: - Connections

    package mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin,
        in loop: inout some BrokerLoop & ~Copyable
    ) {
        guard case .listener(let tag) = origin else {
            preconditionFailure("unexpected origin \(origin): the broker opens no connections")
        }
        if !web.open(connection, tag: tag) {
            decoder.conversations.open(connection, terms: UInt8(tag))
        }
        if identityProofs.mayProve(tag: tag) { verifier.opened(connection, in: loop) }
    }

    package mutating func received(
        _ bytes: ByteRange, from connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) -> Consumption {
        if !web.isEmpty, web.contains(connection) {
            return receivedRequest(bytes, from: connection, in: &loop)
        }
        if !sockets.isEmpty, sockets.contains(connection) {
            return receivedMessages(bytes, from: connection, in: &loop)
        }
        if holdsInput, isDrained || gate(of: connection).holdsInput {
            loop.pauseReading(connection, for: .handler)
            if !isDrained { held.append(connection) }
            return Consumption(consumed: 0)
        }
        if isGated { decoder.holdsPings = !gate(of: connection).mayEmit }
        noteRequest(bytes, from: connection, in: loop)
        let values = rates.values
        // Before login, the transport limits the bytes of a connection.
        let isLimited =
            values.areLimited && decoder.conversations[connection]?.phase == .established
        let workMaximum =
            isLimited
            ? limiter.allowance(of: connection, rates: values, at: loop.now)
            // With the maximum, the decoder counts nothing.
            : meter.isMeasuring ? .max - 1 : .max
        let outcome =
            isTracing
            ? decodeTraced(bytes, from: connection, workMaximum: workMaximum, in: &loop)
            : decoder.receive(
                bytes, of: loop.mutableArena, from: connection, workMaximum: workMaximum,
                packetCountMaximum: packetCountMaximum,
                host: &loop, authenticator: &verifier, log: &connectionLog)
        if isLimited { charge(connection, for: outcome, rates: values, in: &loop) }
        if meter.isMeasuring {
            meter.note(
                connection, messages: outcome.work, bytes: outcome.consumed, at: loop.now)
        }
        if outcome.isCut {
            loop.pauseReading(connection, for: .budget)
            unfinished.append(connection)
        }
        if decoder.events.count >= ScheduleLimits.gatheredEventsMaximum { _ = work(&loop) }
        return Consumption(consumed: outcome.consumed, awaiting: outcome.awaited)
    }

    private var packetCountMaximum: Int {
        guard let others else { return schedule.packetCountMaximum }
        return min(schedule.packetCountMaximum, others.packetCountMaximum)
    }

    /// Reads requests of a connection that does not speak WebSocket yet.
    private mutating func receivedRequest(
        _ bytes: ByteRange, from connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) -> Consumption {
        switch web.receive(bytes, from: connection, isDraining: isDrained, in: &loop) {
        case .consumed(let count): return Consumption(consumed: count)
        case .webSocket(let client):
            decoder.conversations.open(connection, terms: client.terms, json: client.json)
            if let user = client.actingUser {
                decoder.conversations.setActingUser(user, of: connection)
            }
            if let form = client.form { sockets.open(connection, form, in: &loop) }
        case .eventStream(let login):
            decoder.conversations.open(
                connection, terms: login.terms, json: .eventStream, cors: login.cors)
            // The packet is written over the request, whose fields have longer names.
            precondition(
                login.connect.count <= bytes.count,
                "a CONNECT of \(login.connect.count) bytes for a request of \(bytes.count)")
            login.connect.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: loop.mutableArena[bytes.offsets])
                    .copyMemory(from: $0)
            }
            let packet = ByteRange(offset: Int(bytes.offset), count: login.connect.count)
            readStandIn(packet, for: connection, in: &loop)
        }
        return Consumption(consumed: Int(bytes.count))
    }

    /// Decodes packets that a request stands for.
    mutating func readStandIn(
        _ packets: ByteRange, for connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) {
        guard !isTracing else {
            _ = decodeTraced(packets, from: connection, workMaximum: .max, in: &loop)
            return
        }
        _ = decoder.receive(
            packets, of: loop.mutableArena, from: connection, host: &loop,
            authenticator: &verifier, log: &connectionLog)
    }

    /// Subscribes for event streams whose login was accepted.
    private mutating func subscribeStreams(_ loop: inout some BrokerLoop & ~Copyable) {
        guard !web.subscribing.isEmpty else { return }
        let ready = web.takeSubscriptions(room: loop.incomingRoom) {
            decoder.conversations[$0]?.phase == .established
        }
        for (connection, packets) in ready {
            let range = packets.withUnsafeBytes { loop.appendIncoming($0) }
            readStandIn(range, for: connection, in: &loop)
        }
    }

    /// Says in the log that a connection of a listener for packets begins with an HTTP request.
    private mutating func noteRequest(
        _ bytes: ByteRange, from connection: ConnectionID,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) {
        // A letter begins no packet of a client but a PUBREC.
        guard let first = bytes.bytes(in: loop.arena).first, first >= 0x43, first <= 0x54,
            first != 0x50 || bytes.count >= 4,
            decoder.conversations[connection]?.phase == .awaitingConnect,
            HTTPRequestHead.looksLikeRequest(bytes.bytes(in: loop.arena).bytes)
        else { return }
        connectionLog.explain(
            connection, "an HTTP request; http(s):// and ws(s):// listeners take them")
    }

    /// Enforces a client's rate limit.
    private mutating func charge(
        _ connection: ConnectionID, for outcome: PacketDecoder.Outcome,
        rates values: ClientRates.Values, in loop: inout some BrokerLoop & ~Copyable
    ) {
        let amount = RateLimiter.Amount(
            messages: outcome.work, bytes: outcome.consumed, leavesRest: outcome.leavesRest)
        let verdict = limiter.charge(connection, amount, rates: values, at: loop.now)
        guard decoder.conversations[connection]?.phase == .established else { return }
        switch verdict {
        case .withinRate:
            break
        case .pause(let end):
            rates.countPause()
            loop.pauseReading(connection, for: .rate)
            _ = paused.insert(deadline: end, payload: connection.rawValue)
        case .flood:
            rates.countFlood()
            decoder.fail(connection, .messageRateTooHigh)
        }
    }

    /// Resumes reading from connections whose pause has ended.
    private mutating func resumePaused(_ loop: inout some BrokerLoop & ~Copyable) {
        while let payload = paused.popDue(at: loop.now) {
            // The loop ignores the id of a connection that has closed.
            loop.resumeReading(ConnectionID(rawValue: payload), from: .rate)
        }
        if let next = paused.nextDeadline { loop.nextWake = min(loop.nextWake, next) }
    }

    /// Resumes reading from connections whose passwords were verified.
    private mutating func continueLogins(_ loop: inout some BrokerLoop & ~Copyable) {
        verifier.continueLogins(
            loop: loopIndex, at: loop.now, address: { loop.peer(of: $0).ipAddress }
        ) {
            loop.resumeReading($0, from: .login)
        }
        if let next = verifier.nextPasswordDeadline { loop.nextWake = min(loop.nextWake, next) }
    }

    package mutating func turnedAway(
        _ peer: SocketAddress, _ cause: RefusalCause, in loop: inout some BrokerLoop & ~Copyable
    ) {
        connectionLog.writeTurnedAway(peer, cause)
    }

    package mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) {
        switch deadline {
        case .authentication
        where !web.isEmpty && web.contains(connection) && !web.isStream(connection):
            web.deadlineReached(connection, in: &loop)
        case .authentication:
            // The client has not logged in, so its dialect may be unknown.
            connectionLog.takeRefusal(connection, .keepAliveTimeout)
            sockets.end(connection, code: 408, "no login in time", in: &loop)
            loop.close(connection, afterFlush: sockets.contains(connection))
        case .keepAlive where !web.isEmpty && web.isStream(connection):
            // The client sends nothing; what is sent to it shows whether it is there.
            web.sendComment(
                to: connection, isHeld: !gate(of: connection).mayEmit, in: &loop)
        case .keepAlive:
            decoder.events.append(.peerFaulted(connection, .keepAliveTimeout))
        }
    }

    package mutating func closed(
        _ connection: ConnectionID, _ cause: TransportCloseCause,
        in loop: inout some BrokerLoop & ~Copyable
    ) {
        connectionLog.takeClosed(connection, cause: cause, of: loop)
        if isTracing {
            tracer.closed(
                connection, cause, detail: loop.closeDetail(of: connection),
                at: clock.moment(at: loop.now))
        }
        verifier.closed(connection)
        web.close(connection)
        sockets.close(connection)
        slow.remove(connection)
        decoder.closed(connection, CloseCause(cause), isTold: !isStopping)
    }

    // MARK: - Turns

    package mutating func woken(in loop: inout some BrokerLoop & ~Copyable) {
        isWoken = true
        others?.isWoken = true
        answerInquiries(in: loop)
        if tracer.isOutdated {
            isTracing = tracer.refresh(
                at: clock.moment(at: loop.now), conversations: decoder.conversations, in: loop)
            connectionLog.isTraced = isTracing
        }
    }

    /// Tells the thread of the administration where connections come from, and who does most.
    private mutating func answerInquiries(in loop: borrowing some BrokerLoop & ~Copyable) {
        if shared.activity.question(for: loopIndex) != nil {
            var activity = meter.report(at: loop.now)
            let blocked = loop.blockedConnections(
                from: nextBlocked, slotCount: ActivityMeter.slotsMaximum)
            nextBlocked = blocked.next
            activity.readers = blocked.found.map {
                LoopActivity.Reader(
                    connection: $0, unsentByteCount: loop.outgoingByteCount(of: $0))
            }
            activity.readers.sort { $0.unsentByteCount > $1.unsentByteCount }
            activity.readers.removeSubrange(
                min(ActivityMeter.readersMaximum, activity.readers.count)...)
            shared.activity.answer(loopIndex, with: activity)
        }
        guard let questions = shared.places.question(for: loopIndex) else { return }
        var places: [ConnectionID: ConnectionPlace] = [:]
        for connection in questions where connection.loop == loopIndex {
            // A sensor has no connection of its own, but its gateway.
            let transport =
                connection.isChannel
                ? decoder.conversations.channelOrigin(of: connection)?.gateway : connection
            guard let transport, let conversation = decoder.conversations[transport] else {
                continue
            }
            places[connection] = ConnectionPlace(
                peer: loop.peer(of: transport), terms: conversation.terms,
                lastReceived: loop.lastReceived(of: transport))
        }
        shared.places.answer(loopIndex, with: places)
    }

    package mutating func outgoingDrained(
        _ connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) {
        if slow.remove(connection) != nil { decoder.events.append(.outgoingDrained(connection)) }
    }

    package mutating func turnEnded(in loop: inout some BrokerLoop & ~Copyable) {
        let isDue = loop.nextWake <= loop.now
        defer {
            if web.awaitsSubscribing(decoder.conversations) { loop.nextWake = loop.now }
            writeLog(loop)
            resumePaused(&loop)
            continueLogins(&loop)
            resumeUnfinished(&loop)
            endSockets(&loop)
        }
        reportDrained(&loop)
        web.endTurn(&loop)
        subscribeStreams(&loop)
        if isGated { answerHeldPings(in: &loop) }
        guard isDue || isWoken || !decoder.events.isEmpty || hasWaiting else { return }
        isWoken = false
        if work(&loop) {
            isDrained = true
            holdsInput = true
        }
        if isDrained, !hasWaiting, !hasReportedDrain {
            hasReportedDrain = true
            shared.loopDrained()
            others?.loopDrained()
        }
    }

    /// Whether events wait for a core.
    private var hasWaiting: Bool { !schedule.isEmpty || others.map { !$0.isEmpty } ?? false }

    /// Ends the turn of clients of other systems.
    private mutating func endSockets(_ loop: inout some BrokerLoop & ~Copyable) {
        let late = sockets.endTurn(&loop)
        guard !late.isEmpty else { return }
        for connection in late {
            decoder.events.append(.peerFaulted(connection, .keepAliveTimeout))
        }
        loop.nextWake = loop.now
    }

    /// Enters the core with the pending events, and again while effects produce more events.
    ///
    /// - Returns: whether the broker is stopping.
    private mutating func work(_ loop: inout some BrokerLoop & ~Copyable) -> Bool {
        var isDraining = false
        repeat {
            isDraining = enterCores(&loop)
        } while !decoder.events.isEmpty
        schedule.takeChanges { Self.note($0, waits: $1, in: &loop) }
        for shard in others?.all ?? [] {
            shard.takeChanges { Self.note($0, waits: $1, in: &loop) }
        }
        return isDraining
    }

    /// Reads nothing of a connection whose events wait for their core.
    private static func note(
        _ connection: ConnectionID, waits: Bool, in loop: inout some BrokerLoop & ~Copyable
    ) {
        if waits {
            loop.pauseReading(connection, for: .budget)
        } else {
            loop.resumeReading(connection, from: .budget)
        }
    }

    /// Enters every core with its events, and carries out its effects.
    ///
    /// - Returns: whether the broker is stopping.
    private mutating func enterCores(
        _ loop: inout some BrokerLoop & ~Copyable, isForced: Bool = false
    ) -> Bool {
        guard let others else {
            let isDraining = enterCore(&loop)
            verifier.endTurn()
            carryOut(of: shared, gated, &loop)
            endCarryingOut(&loop)
            return isDraining
        }
        others.distribute(from: &decoder, identities: verifier.identities, in: loop)
        var isDraining = enterCore(&loop)
        carryOut(of: shared, gated, &loop)
        for shard in others.all {
            let isOneDraining = others.enter(
                shard, &decoder, effects: &effects, identities: verifier.identities,
                at: clock.moment(at: loop.now), isForced: isForced, in: loop)
            isDraining = isDraining || isOneDraining
            carryOut(of: shard.shared, shard.gated, &loop)
        }
        others.isWoken = false
        verifier.endTurn()
        endCarryingOut(&loop)
        loop.nextWake = min(loop.nextWake, others.nextWake)
        return isDraining
    }

    /// Reads on from a connection in the next turn.
    mutating func continueNextTurn(
        _ connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) {
        loop.pauseReading(connection, for: .budget)
        unfinished.append(connection)
    }

    /// Resumes reading from connections that had more bytes than one turn processes.
    private mutating func resumeUnfinished(_ loop: inout some BrokerLoop & ~Copyable) {
        for connection in unfinished
        where !schedule.holds(connection) && others?.holds(connection) != true {
            loop.resumeReading(connection, from: .budget)
        }
        unfinished.removeAll(keepingCapacity: true)
    }

    /// Adds an event for each connection that has sent the bytes of an earlier turn.
    private mutating func reportDrained(_ loop: inout some BrokerLoop & ~Copyable) {
        encoder.awaitingDrain.removeAll { connection in
            if loop.isSendBlocked(connection) {
                slow.insert(connection)
            } else if loop.outgoingByteCount(of: connection) > 0 {
                // The loop has not sent to it in this round.
                return false
            } else {
                decoder.events.append(.outgoingDrained(connection))
            }
            return true
        }
        if !encoder.awaitingDrain.isEmpty { loop.nextWake = loop.now }
    }

    /// - Returns: whether the broker is stopping.
    private mutating func enterCore(_ loop: inout some BrokerLoop & ~Copyable) -> Bool {
        let moment = clock.moment(at: loop.now)
        let bytes = loop.arena
        let turn = loop.turn
        let beginsRound = loop.beginsRound
        var isDraining = false
        var hasMore = false
        let nextWake = shared.enter(from: loopIndex) { state in
            isDraining = state.isDraining
            guard state.takesEvents else {
                gated.isOfStandby = !state.leads
                gated.isClosing = state.isClosing
                if !schedule.isEmpty { schedule = EventSchedule() }
                state.refuseLogins(&decoder, loop: loopIndex, of: shared)
                state.effects.exchange(loopIndex, with: &effects)
                return Instant.never
            }
            gated.isOfStandby = false
            gated.isClosing = false
            let moment = shared.local(moment)
            hasMore = schedule.enter(
                &decoder, turn: turn, beginsRound: beginsRound, bytes: bytes,
                identities: verifier.identities, at: moment, broker: &state.broker,
                effects: &state.effects
            ) { connection in
                // A client that does not read delays only itself, and never the stop of the broker.
                isDraining
                    || loop.outgoingByteCount(of: connection) < ScheduleLimits.unsentBytesMaximum
            }
            state.broker.advance(to: moment, effects: &state.effects)
            state.effects.exchange(loopIndex, with: &effects)
            return shared.loopTime(
                of: min(state.broker.nextDeadline ?? .never, schedule.nextDeadline ?? .never))
        }
        loop.nextWake = hasMore ? loop.now : nextWake
        return isDraining
    }

    private mutating func writeLog(_ loop: borrowing some BrokerLoop & ~Copyable) {
        for (connection, refusal) in verifier.refusals {
            connectionLog.explain(connection, refusal.detail)
        }
        verifier.forgetRefusals()
        if !web.isEmpty {
            for connection in connectionLog.refusedCredentials {
                web.countRefusal(connection, in: loop)
            }
        }
        shared.countRefusedLogins(connectionLog.refusedLoginCount)
        if isTracing { tracer.take(connectionLog.notes, conversations: decoder.conversations) }
        connectionLog.write(of: loop, conversations: decoder.conversations)
    }

    mutating func carryOutAll(
        of core: SharedBroker, _ loop: inout some BrokerLoop & ~Copyable
    ) {
        guard !effects.isEmpty else { return }
        sockets.beginEffects()
        for publication in effects.publications.elements {
            if let time = publication.acceptedNanoseconds { loop.noteAccepted(at: time) }
        }
        let now = core.local(loop.now)
        if isTracing {
            encodeTraced(&loop, at: now)
        } else {
            encoder.encode(
                effects, at: now, conversations: &decoder.conversations, host: &loop,
                log: &connectionLog, events: &decoder.events)
        }
        effects.removeAll()
        if !encoder.awaitingDrain.isEmpty { loop.nextWake = loop.now }
    }

    // MARK: - Traces

    /// Decodes received bytes while there is a trace.
    @inline(never)
    private mutating func decodeTraced(
        _ bytes: ByteRange, from connection: ConnectionID, workMaximum: Int,
        in loop: inout some BrokerLoop & ~Copyable
    ) -> PacketDecoder.Outcome {
        let conversation = decoder.conversations[connection]
        let received = bytes.bytes(in: loop.arena.bytes)
        tracer.beginRead(
            received, from: connection, conversation,
            messages: { decoder.packets(ofMessages: received, from: connection) },
            peer: loop.peer(of: connection), at: clock.moment(at: loop.now))
        let arena = loop.mutableArena
        var host = TracingHost(consume loop, tracer)
        let outcome = decoder.receive(
            bytes, of: arena, from: connection, workMaximum: workMaximum,
            packetCountMaximum: packetCountMaximum,
            host: &host, authenticator: &verifier, log: &connectionLog)
        loop = host.finish()
        tracer.endRead(consumed: outcome.consumed, conversations: decoder.conversations)
        return outcome
    }

    /// Carries out the effects while there is a trace.
    ///
    /// - Parameter now: the time of the core.
    @inline(never)
    private mutating func encodeTraced(
        _ loop: inout some BrokerLoop & ~Copyable, at now: Instant
    ) {
        tracer.beginWriting(at: clock.moment(at: loop.now))
        var host = TracingHost(consume loop, tracer)
        encoder.encode(
            effects, at: now, conversations: &decoder.conversations, host: &host,
            log: &connectionLog, events: &decoder.events)
        loop = host.finish()
        tracer.endWriting(conversations: decoder.conversations)
    }

    package mutating func stopping(in loop: inout some BrokerLoop & ~Copyable) {
        isStopping = true
        // The last results may have arrived in this turn.
        _ = enterCores(&loop, isForced: true)
        if isGated {
            gated.awaitLast()
            carryOut(of: shared, gated, &loop)
            for shard in others?.all ?? [] {
                shard.gated.awaitLast()
                carryOut(of: shard.shared, shard.gated, &loop)
            }
        }
        encoder.writeShutdown(conversations: &decoder.conversations, host: &loop)
    }
}

extension CloseCause {
    /// The core's cause for the cause that a loop reports.
    fileprivate init(_ cause: TransportCloseCause) {
        switch cause {
        case .outgoingOverflow, .lingerTimeout: self = .outgoingOverflow
        case .closedByHandler, .loopStopped: self = .closedByBroker
        case .peerClosed, .networkFailure, .tlsFailure, .handshakeTimeout, .connectTimeout,
            .packetTooLarge, .webSocketFault, .proxyHeaderFault, .refused:
            self = .lost
        }
    }
}
