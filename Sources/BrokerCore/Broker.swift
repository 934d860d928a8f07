// The broker as a state machine: events and the time come in, effects go out, changes of durable
// state are gathered into batches. It does no I/O, reads no clock and draws no random number, so
// that the same events always give the same effects and the whole broker runs in a simulation.
//
// This file holds the state and the way in; what happens on each event stands in the files
// `Broker+*.swift`, one aspect each.

import BrokerTerms
import Primitives

/// The core of the broker: sessions, routing, inboxes and outboxes. Single-threaded; whoever shares
/// it between threads holds a lock around every call.
public struct Broker: ~Copyable, Sendable {
    /// Holds nothing. A value of a type that only the run-time knows makes the compiler hand the
    /// whole broker around by its address; without it Swift 6.3.1 copies all of it, 2 KB, for each
    /// call of a method that changes nothing (docs/PERFORMANCE.md).
    private let handedByAddress: any Sendable = ()

    public var limits: CoreLimits
    public internal(set) var counters = Counters()

    // The parts. The head of each one's file says what it owns and which invariants hold.
    var registry: Registry
    var sessions = Slab<Session>(minimumCapacity: 64)
    var live: LiveConnections
    var routing = Routing()
    var groupTable = GroupTable()
    var willTable = WillTable()
    var retention = RetainedMessages()
    var queues = Queues()
    var memory = MessageMemory()
    var commits = CommitPipeline()

    var deadlines: Deadlines
    var workload = Workload()
    /// Memory that is used again and again within one event.
    var scratch = ByteArena(capacity: 1024)

    /// A broker without any state; let a store read itself out to it, then call
    /// ``finishRestoring(_:newEpochSeed:at:)``.
    ///
    /// - Parameters:
    ///   - loopCount: event loops that connections may belong to, 1...256.
    ///   - trust: what vouches for identities that the edge verifies, until the first
    ///     ``replaceTrust(_:at:effects:)``.
    public init(
        limits: CoreLimits = CoreLimits(), loopCount: Int = 1, trust: VoucherTrust = .nothing,
        at moment: Moment
    ) {
        self.limits = limits
        registry = Registry(trust: trust)
        live = LiveConnections(loopCount: loopCount)
        deadlines = Deadlines(start: moment.instant)
    }

    /// Takes one event. Ranges in it point into `bytes`, and a verified claim into `identities`;
    /// both are needed no longer than this call.
    public mutating func step(
        _ event: Event, bytes: UnsafeRawBufferPointer,
        identities: TurnIdentities = TurnIdentities(), at moment: Moment, effects: inout Effects
    ) {
        var step = Step(bytes: bytes, at: moment, effects: effects)
        precondition(
            commits.restoration == nil,
            "an event at \(moment.unixMilliseconds) precedes the stored state")
        workload.charge(1)
        switch event {
        case .connectReceived(let connection, let request):
            // To keep a will is work of its own.
            if request.will != nil { workload.charge(1) }
            connect(connection, request, identities: identities, in: &step)
        case .connectionClosed(let connection, let cause):
            connectionClosed(connection, cause, in: &step)
        case .sendReceived(let connection, let request):
            send(connection, request, in: &step)
        case .inboxAcknowledged(let connection, let throughNumber):
            acknowledgeInbox(connection, throughNumber, in: &step)
        case .resultsSeen(let connection, let throughNumber):
            resultsSeen(connection, throughNumber, in: &step)
        case .packetAnswered(let connection, let identifier, let exchange, let reason):
            packetAnswered(
                by: connection, packet: identifier, exchange: exchange, reason: reason, in: &step)
        case .subscribeReceived(let connection, let request):
            guard admits(connection, request: request.requestIdentifier, in: &step) else {
                return
            }
            subscribe(connection, request, in: &step)
        case .unsubscribeReceived(let connection, let request):
            guard admits(connection, request: request.requestIdentifier, in: &step) else {
                return
            }
            unsubscribe(connection, request, in: &step)
        case .presenceQueried(let connection, let identifier, let user):
            guard admits(connection, request: identifier, in: &step) else { return }
            reportPresence(
                to: connection, request: identifier, of: user.bytes(in: step.bytes), in: &step)
        case .groupRequested(let connection, let identifier, let request):
            guard admits(connection, request: identifier, in: &step) else { return }
            groupRequested(by: connection, identifier: identifier, request, in: &step)
        case .willSet(let connection, let identifier, let request):
            guard admits(connection, request: identifier, in: &step) else { return }
            setWill(of: connection, identifier: identifier, request, in: &step)
        case .willCleared(let connection, let identifier):
            guard admits(connection, request: identifier, in: &step) else { return }
            clearWill(connection, identifier)
        case .requestFaulted(let connection, let identifier, let reason):
            guard admits(connection, request: identifier, in: &step),
                session(of: connection) != nil
            else { return }
            counters.requestsRefused += 1
            step.effects[connection.loop].respond(
                to: connection, request: identifier, reason: reason)
        case .credentialPresented(let connection, let claim):
            exchangeCredential(connection, claim, identities: identities, in: &step)
        case .credentialRefused(let connection, let reason):
            refuseCredential(connection, reason, in: &step)
        case .disconnectReceived(let connection, let request):
            disconnect(connection, request, in: &step)
        case .deliveryTooLarge(let connection, let number):
            dropOversize(connection, number, in: &step)
        case .outgoingDrained(let connection):
            outgoingDrained(connection, in: &step)
        case .peerFaulted(let connection, let reason):
            peerFaulted(connection, reason, in: &step)
        }
        scheduleHousekeeping(at: step.moment)
    }

    /// Does what has become due, at most as much as a turn may cost and one deadline beyond it: a
    /// hundred wills for ten thousand receivers each may be due at once. What is left stays due,
    /// and also what the batch has no room for.
    public mutating func advance(to moment: Moment, effects: inout Effects) {
        var step = Step(at: moment, effects: effects)
        let start = work + effects.work
        let end = start + limits.turnWorkMaximum
        defer { workload.chargeNextTurn(work + effects.work - start) }
        while work + effects.work < end, !mustDeadlinesWait,
            let deadline = deadlines.popDue(at: moment.instant)
        {
            let before = commits.pendingBatch.share
            defer { commits.chargeDeadline(since: before) }
            switch deadline {
            case .session(let session): expire(session: session, in: &step)
            case .will(let will): willDue(will, in: &step)
            case .retained(let index): expire(retained: index)
            case .access(let access): expireAccess(access, in: &step)
            case .login(let index): hear(login: index, in: &step)
            case .housekeeping: runHousekeeping(at: moment)
            case .deliveries: deliverWaiting(untilWork: end, effects, in: &step)
            }
        }
        if mustDeadlinesWait { commits.awaitNextBatch() }
    }

    /// What results of commits and deadlines have cost since the last call, for the turn that
    /// carries them out.
    public mutating func takeResultWork() -> Int { workload.takeResultUnits() }

    /// What events have cost so far beside the effects they had, in the unit of
    /// ``CoreLimits/turnWorkMaximum``. Only differences mean something.
    public var work: Int { workload.units }

    /// The app of clients whom a listener lets in without credentials.
    public var anonymousApp: [UInt8] {
        get { registry.anonymousApp }
        set { registry.anonymousApp = newValue }
    }

    /// When ``advance(to:effects:)`` has something to do; never later than the true deadline. Nil
    /// while the batch is full: ``takeResumption()`` tells when that is over.
    public var nextDeadline: Instant? { mustDeadlinesWait ? nil : deadlines.next }

    // MARK: - Access

    /// The session of a connection that was let in and is still the session's own; nil for whatever
    /// arrives late from a connection that has lost it.
    @inline(__always)
    func session(of connection: ConnectionID) -> Index<Session>? { live.connections[connection] }

    /// The connected half of a session that has a connection.
    @inline(__always)
    func connectedIndex(of session: Index<Session>) -> Index<ConnectedSession> {
        guard let connected = sessions[session].connected else {
            preconditionFailure("session \(session.place) has no connection")
        }
        return connected
    }

    /// Whose messages a queue holds; nil once its deletion is under way.
    func owner(of queue: QueueID) -> QueueOwner? {
        queues.owner(of: queue, among: sessions)
    }

    /// Who counts the entries of a queue: the owner, or where all of it is moved into another
    /// queue, the owner of that.
    func counter(of queue: QueueID) -> QueueOwner? {
        var owner = owner(of: queue)
        while case .inherited(let next)? = owner { owner = self.owner(of: next) }
        return owner
    }

    /// A new durable name. Names are reserved in the store in blocks, so that none is used twice.
    mutating func makeIdentifier() -> UInt64 {
        let (identifier, needsReservation) = commits.identifiers.makeIdentifier()
        if needsReservation { writeIdentifierReservation() }
        return identifier
    }

    mutating func writeIdentifierReservation() {
        commits.renew(
            Records.counter(.identifiers, value: commits.identifiers.identifiersReservedThrough))
    }

    mutating func makeStamp() -> UInt64 { commits.identifiers.makeStamp() }
}

/// Whose messages a queue holds: a session's, by its index, or a user's.
enum QueueOwner {
    case session(Index<Session>)
    case offlineQueue(user: Index<User>)
    /// Its entries are moved into another queue, whose owner counts them already.
    case inherited(into: QueueID)
    /// The shares' that brought it to a session which has ended.
    case leftover(Index<Leftover>)
}

extension ConnectionID {
    /// No connection: generation 0 is never given to one.
    static var none: ConnectionID { ConnectionID(rawValue: 0) }
}
