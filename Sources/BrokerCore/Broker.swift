// The broker as a state machine. Its input is events and the time; its output is effects, and
// batches of changes of durable state. It does no I/O, reads no clock and draws no random number,
// so that the same events always give the same effects, and a simulation can run the whole broker.
//
// This file contains the state and the entry points. The files `Broker+*.swift` handle the events,
// one aspect each.

import BrokerTerms
import Primitives

/// The core of the broker: sessions, routing, inboxes and outboxes. It is single-threaded; threads
/// that share it hold a lock during every call.
public struct Broker: ~Copyable, Sendable {
    /// Unused. A property whose type only the run-time knows makes the compiler pass the broker by
    /// address. Without it, Swift 6.3.1 copies all of it, 2 KB, for each call of a method that does
    /// not mutate (docs/PERFORMANCE.md).
    private let handedByAddress: any Sendable = ()

    public var limits: CoreLimits {
        didSet {
            renewFilters()
            moderation.isConfigured = limits.hasModeration
        }
    }
    public internal(set) var counters = Counters()
    /// How long durable sends took from their acceptance until their sender was told that they were
    /// accepted, in microseconds.
    public private(set) var acknowledgementTimes = Histogram()

    // The parts. Each file begins with what its part owns and its invariants.
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
    var conversationTable = ConversationTable()
    var operatorSends = OperatorSends()
    var operatorRecalls = OperatorRecalls()
    var sendKeys = SendKeys()
    var tracking = TrackedSends()
    var untakenReceivers = UntakenReceivers()
    var inspections = Inspections()
    var wakes = WakeTable()
    var wakeReports = WakeReportTable()
    var wakeTemplates = WakeTemplateTable()
    var brokerEvents = BrokerEventQueue()
    var moderation: ModerationTable

    var deadlines: Deadlines
    var workload = Workload()
    /// Memory that is reused within one event.
    var scratch = ByteArena(capacity: 1024)

    /// A broker without state. Give it to a store's restore, then call
    /// ``finishRestoring(_:newEpochSeed:at:)``.
    ///
    /// - Parameters:
    ///   - loopCount: the number of event loops, 1...``LoopLimits/countMaximum``.
    ///   - trust: the keys and certificates that verified identities depend on, until the first
    ///     ``replaceTrust(_:at:effects:)``.
    public init(
        limits: CoreLimits = CoreLimits(), loopCount: Int = 1, trust: VoucherTrust = .nothing,
        at moment: Moment
    ) {
        self.limits = limits
        registry = Registry(trust: trust)
        live = LiveConnections(loopCount: loopCount)
        deadlines = Deadlines(start: moment.instant)
        moderation = ModerationTable(isConfigured: limits.hasModeration)
    }

    /// Handles one event. Its ranges refer to `bytes`, and a verified claim to `identities`;
    /// neither is used after this call.
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
            // Storing the will is additional work.
            if request.will != nil { workload.charge(1) }
            connect(connection, request, identities: identities, in: &step)
        case .connectionClosed(let connection, let cause):
            connectionClosed(connection, cause, in: &step)
        case .sendReceived(let connection, let request):
            send(connection, request, in: &step)
            // No other message has it: a copy of an old one may be made in a later step.
            if request.isUnusual { wakes.forgetPush() }
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
        case .historyRequested(let connection, let identifier, let request):
            guard admits(connection, request: identifier, in: &step) else { return }
            requestHistory(connection, identifier: identifier, request, in: &step)
        case .conversationsRequested(let connection, let identifier, let request):
            guard admits(connection, request: identifier, in: &step) else { return }
            reportConversations(to: connection, identifier: identifier, request, in: &step)
        case .markReadRequested(let connection, let identifier, let request):
            guard admits(connection, request: identifier, in: &step) else { return }
            markRead(connection, identifier: identifier, request, in: &step)
        case .appliedReported(let connection, let identifier, let request):
            guard admits(connection, request: identifier, in: &step) else { return }
            reportApplied(connection, identifier: identifier, request, in: &step)
        case .recallRequested(let connection, let identifier, let request):
            guard admits(connection, request: identifier, in: &step) else { return }
            revise(connection, identifier: identifier, request, in: &step)
        case .wakeRequested(let connection, let identifier, let request):
            guard admits(connection, request: identifier, in: &step) else { return }
            wakeRequested(by: connection, identifier: identifier, request, in: &step)
        case .willSet(let connection, let identifier, let request):
            guard admits(connection, request: identifier, in: &step) else { return }
            setWill(of: connection, identifier: identifier, request, in: &step)
        case .willCleared(let connection, let identifier):
            guard admits(connection, request: identifier, in: &step) else { return }
            clearWill(connection, identifier)
        case .requestFaulted(let connection, let identifier, let reason, let cause):
            guard admits(connection, request: identifier, in: &step),
                session(of: connection) != nil
            else { return }
            refuse(connection, request: identifier, reason, cause: cause, in: &step)
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

    /// Handles deadlines that are due, up to the work of one turn and one deadline more: a hundred
    /// wills for ten thousand receivers each may be due at once. The rest remains due, as do
    /// deadlines for which the batch has no room.
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
            case .login(let index): finishDelayedLogin(index, in: &step)
            case .tracked(let index): expire(tracked: index, at: moment)
            case .receipts(let index): paceReceipts(of: index, in: &step)
            case .revision(let index): continueRevision(index, in: &step)
            case .wake(let index): wakeDue(index, in: &step)
            case .wakeCheck(let index): checkWake(index, in: &step)
            case .brokerEvents: sendWaitingEvents(in: &step)
            case .held(let queue): releaseHeld(queue, in: &step)
            case .forgottenQuestions(let questions): expireForgotten(questions, at: moment)
            case .housekeeping: runHousekeeping(at: moment)
            case .deliveries: deliverWaiting(untilWork: end, effects, in: &step)
            }
        }
        if mustDeadlinesWait { commits.awaitNextBatch() }
    }

    /// The work of results and deadlines since the last call. It is charged to the turn that
    /// carries out their effects.
    public mutating func takeResultWork() -> Int { workload.takeResultUnits() }

    /// The work of events so far, without their effects, in the unit of
    /// ``CoreLimits/turnWorkMaximum``. Only differences are meaningful.
    public var work: Int { workload.units }

    /// The app of clients that a listener admits without credentials. It is set after the restore,
    /// because the users of those without a name are looked for then.
    public var anonymousApp: [UInt8] {
        get { registry.anonymousApp }
        set {
            registry.anonymousApp = newValue
            giveBackUnnamedUsers()
        }
    }

    /// The time at which ``advance(to:effects:)`` must be called, which may be earlier than the
    /// first deadline. Nil while the batch is full: ``takeResumption()`` tells when that ends.
    public var nextDeadline: Instant? { mustDeadlinesWait ? nil : deadlines.next }

    // MARK: - Access

    /// The session of a connection; nil if the login was not accepted, or if an event arrives after
    /// the connection has lost its session.
    @inline(__always)
    func session(of connection: ConnectionID) -> Index<Session>? { live.connections[connection] }

    /// The connected state of a session that has a connection.
    @inline(__always)
    func connectedIndex(of session: Index<Session>) -> Index<ConnectedSession> {
        guard let connected = sessions[session].connected else {
            preconditionFailure("session \(session.place) has no connection")
        }
        return connected
    }

    /// The owner of a queue; nil if its deletion is under way.
    func owner(of queue: QueueID) -> QueueOwner? {
        queues.owner(of: queue, among: sessions)
    }

    /// The owner that counts the entries of a queue: its own, or that of the queue into which all
    /// of it is being moved.
    func counter(of queue: QueueID) -> QueueOwner? {
        var owner = owner(of: queue)
        while case .inherited(let next)? = owner { owner = self.owner(of: next) }
        return owner
    }

    /// A new durable identifier. Identifiers are reserved in the store in blocks, so that none is
    /// used twice.
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

    mutating func makeUnmeasuredStamp() -> UInt64 { commits.identifiers.makeUnmeasuredStamp() }

    /// Sets the time that messages which are accepted from now on have, and that acknowledgements
    /// are measured with. Nothing else depends on it. Without it nothing is measured.
    ///
    /// - Parameter nanoseconds: of a monotonic clock, above 0.
    public mutating func noteTime(nanoseconds: UInt64) {
        commits.identifiers.nanoseconds = nanoseconds
    }

    /// Measures an acknowledgement of the message with a stamp.
    @inline(__always)
    mutating func measureAcknowledgement(of stamp: UInt64) {
        let now = commits.identifiers.nanoseconds
        guard now > 0, let accepted = Identifiers.acceptedNanoseconds(of: stamp) else { return }
        acknowledgementTimes.record((now > accepted ? now - accepted : 0) / 1_000)
    }
}

/// The owner of a queue.
enum QueueOwner {
    case session(Index<Session>)
    case offlineQueue(user: Index<User>)
    /// Its entries are being moved into another queue, whose owner counts them already.
    case inherited(into: QueueID)
    /// The entries that an ended session had from shared subscriptions.
    case leftover(Index<Leftover>)
    /// The kept messages of a conversation.
    case conversation(Index<KeptConversation>)
}

extension ConnectionID {
    /// No connection: no real one has generation 0.
    static var none: ConnectionID { ConnectionID(rawValue: 0) }
}
