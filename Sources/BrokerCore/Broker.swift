// The broker as a state machine: events and the time come in, effects go out, changes of durable
// state are gathered into batches. It does no I/O, reads no clock and draws no random number, so
// that the same events always give the same effects and the whole broker runs in a simulation.
//
// This file holds the state and the way in; what happens on each event stands in the files
// `Broker+*.swift`, one aspect each.

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

    /// The app of clients whom a listener lets in without credentials.
    public var anonymousApp: [UInt8] = []

    // Who there is.
    var apps = Slab<App>()
    var appNames = ByteKeyTable<App>()
    var users = Slab<User>()
    var sessions = Slab<Session>(minimumCapacity: 64)
    /// Of sessions that are connected.
    var attachments = Slab<Attachment>(minimumCapacity: 64)
    /// What waits for users without a persistent session.
    var mailboxes = Slab<Inbox>()
    /// What sessions that ended had of shared subscriptions.
    var leftovers = Slab<Leftover>()
    /// Those of each user's sessions.
    var leftoversOfUsers: [Index<User>?: [Index<Leftover>]] = [:]
    /// Sessions by their queues.
    var sessionQueues = IndexTable<Session>()
    /// Whose the queues are that belong to no session.
    var queueOwners: [UInt64: QueueOwner] = [:]
    var tokens = TokenTable()
    /// What vouches for identities that the edge verifies.
    var trust: VoucherTrust
    /// What live connections were let in with.
    var accesses = Slab<Access>()
    /// MQTT logins that wait for their turn.
    var heldLogins = Slab<HeldLogin>()
    var groups = Slab<Group>()
    var memberships = Slab<Membership>()
    var wills = Slab<Will>()
    /// Wills of devices that have no session since the broker started.
    var orphanWills: [WillOwner: Index<Will>] = [:]
    /// The last messages of topics.
    var retained = Slab<Retained>()
    /// What the broker tells of itself.
    var systemTopics = SystemTopics()
    var connections: ConnectionTable

    // Who receives what.
    var audiences = Slab<Audience>()
    /// The union of several audiences, while one message is routed to it.
    let mergedAudience: Index<Audience>
    /// Those whom shared subscriptions choose, while one message is routed to them.
    let chosenAudience: Index<Audience>
    var shareSets = Slab<ShareSet>()
    var subscriptions = Slab<Subscription>()

    // Messages in memory and what is on its way to the store.
    var messages = Slab<Message>(minimumCapacity: 64)
    /// Memory of messages that are over, for the next ones.
    /// Bytes of the messages that sessions in memory hold, each message once.
    var memoryQueueByteCount = 0
    var blocks = BlockPool(byteCountMaximum: CoreLimits.spareBytesMaximum)
    /// Messages in memory that are in the store, by where they are stored: a body that wakes a
    /// thousand sessions is loaded for all of them once.
    var residentMessages: [UInt64: Index<Message>] = [:]
    var gathering = GatheringBatch()
    var committing = GatheringBatch()
    var isCommitting = false
    var batchSequence: UInt64 = 0
    /// Set while the store has no room for sends.
    var isStoreFull = false
    /// Bytes by which rows may grow until the store tells again, as it told last.
    var rowRoomByteCount = Int.max
    /// Bytes by which rows have grown although there was no room, since there was.
    var growthWhileFull = 0
    /// As of the last commit, for the statistics.
    var storeUsedBytes: UInt64 = 0
    var storeLimitBytes: UInt64 = 0
    /// Whether some app has more waiting than it may.
    var hasAppsOverQuota = false
    /// Entries waiting in the queues that the store mirrors.
    var queuedCount: UInt64 = 0
    /// What the policy `oldest` has asked the store to trim and has not heard of, by queue.
    var pendingTrims: [UInt64: PendingTrim] = [:]

    // Identifiers: the next one, and how far they are reserved.
    var nextIdentifier: UInt64 = 1
    var identifiersReservedThrough: UInt64 = 0
    var nextMessageIdentifier: UInt64 = 1
    var nextStamp: UInt64 = 1

    var deadlines: TimerWheel
    /// Whether the next round of housekeeping is among the deadlines.
    var isHousekeepingDue = false
    /// What is read back before the first event; nil afterwards.
    var restoration: Restoration? = Restoration()

    // Memory that is used again and again within one event.
    var matchedAudiences: ContiguousArray<Index<Audience>> = []
    var matchedShareSets: ContiguousArray<Index<ShareSet>> = []
    /// While audiences are merged: 1 + the place of a session among those that have been found, 0
    /// for others.
    var mergePlaces: ContiguousArray<UInt32> = []
    /// The topic whose audiences are marked, its app, and which they are.
    var markedTopic: [UInt8] = []
    @Packed var markedApp: Index<App>? = nil
    var markedAudiences: ContiguousArray<Index<Audience>> = []
    var scratch = ByteArena(capacity: 1024)
    /// Requests whose answers wait for a commit.
    var openRequests: Set<RequestName> = []
    /// Identifiers of QoS 2 of sessions that have ended, whose rows are not deleted.
    var doomedSends: [(session: UInt64, identifiers: PacketIdentifiers)] = []
    /// Bounds what the log is told of refused receivers.
    var receiverNotes = NoteAllowance()
    /// The answers to those filters of a SUBSCRIBE or UNSUBSCRIBE that have been looked at.
    var answerCodes: [UInt8] = []
    /// Whether one of them has to wait for a commit, whatever the session is.
    var answersAtCommit = false
    /// What events have cost so far beside the effects they had, in the unit of
    /// ``CoreLimits/turnWorkMaximum``. Only differences mean something.
    public internal(set) var work = 0
    /// Comparisons of rights that are less than a unit of ``work``, until there are more.
    var comparisonCount = 0
    /// What results of commits and deadlines have cost, effects included, and no turn has been
    /// charged for.
    var resultWork = 0
    /// Attachments that wait for more of their queues, in order.
    var waitingLoads = Ring<LoadOwner>()
    /// Attachments whose deliveries waited for a commit that is over, in order.
    var waitingDeliveries = Ring<Handle<Attachment>>()
    /// Whether they are among the deadlines.
    var areDeliveriesDue = false
    /// What connected sessions are sent of retained messages.
    var replays = Slab<RetainedReplay>()
    /// Those whose session has no connection, by session.
    var suspendedReplays: [Index<Session>: Index<RetainedReplay>] = [:]

    /// A broker without any state; let a store read itself out to it, then call
    /// ``finishRestoring(_:newEpochSeed:at:)``.
    ///
    /// - Parameters:
    ///   - laneCount: event loops that connections may belong to, 1...256.
    ///   - trust: what vouches for identities that the edge verifies, until the first
    ///     ``replaceTrust(_:at:effects:)``.
    public init(
        limits: CoreLimits = CoreLimits(), laneCount: Int = 1, trust: VoucherTrust = .nothing,
        at moment: Moment
    ) {
        self.limits = limits
        self.trust = trust
        connections = ConnectionTable(laneCount: laneCount)
        deadlines = TimerWheel(start: moment.instant)
        mergedAudience = audiences.insert(Audience()).index
        chosenAudience = audiences.insert(Audience()).index
        gathering.sequence = 1
        batchSequence = 1
    }

    /// Takes one event. Ranges in it point into `bytes`, and a verified claim into `identities`;
    /// both are needed no longer than this call.
    public mutating func step(
        _ event: Event, bytes: UnsafeRawBufferPointer,
        identities: TurnIdentities = TurnIdentities(), at moment: Moment, effects: inout Effects
    ) {
        var step = Step(bytes: bytes, identities: identities, at: moment, effects: effects)
        precondition(restoration == nil, "an event before the stored state is back")
        work += 1
        switch event {
        case .connectReceived(let connection, let request):
            connect(connection, request, in: &step)
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
            step.effects[connection.lane].respond(
                to: connection, request: identifier, reason: reason)
        case .credentialPresented(let connection, let claim):
            exchangeCredential(connection, claim, in: &step)
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
    /// hundred wills for ten thousand receivers each may be due at once. What is left stays due.
    public mutating func advance(to moment: Moment, effects: inout Effects) {
        var step = Step(at: moment, effects: effects)
        let start = work + effects.work
        let end = start + limits.turnWorkMaximum
        defer { resultWork += work + effects.work - start }
        while work + effects.work < end, let payload = deadlines.popDue(at: moment.instant) {
            switch DeadlinePayload(raw: payload) {
            case .session(let session): expire(session: session, in: &step)
            case .will(let will): willDue(will, in: &step)
            case .retained(let index): expire(retained: index)
            case .access(let access): expireAccess(access, in: &step)
            case .login(let index): hear(login: index, in: &step)
            case .housekeeping: keepHouse(at: moment)
            case .deliveries:
                areDeliveriesDue = false
                deliverWaiting(untilWork: end, effects, in: &step)
            }
        }
    }

    /// What results of commits and deadlines have cost since the last call, for the turn that
    /// carries them out.
    public mutating func takeResultWork() -> Int {
        defer { resultWork = 0 }
        return resultWork
    }

    /// When ``advance(to:effects:)`` has something to do; never later than the true deadline.
    public var nextDeadline: Instant? { deadlines.nextDeadline }

    // MARK: - Access

    /// The session of a connection that was let in and is still the session's own; nil for whatever
    /// arrives late from a connection that has lost it.
    @inline(__always)
    func session(of connection: ConnectionID) -> Index<Session>? { connections[connection] }

    /// The connected half of a session that has a connection.
    @inline(__always)
    func attachmentIndex(of session: Index<Session>) -> Index<Attachment> {
        guard let attachment = sessions[session].attachment else {
            preconditionFailure("session \(session.place) has no connection")
        }
        return attachment
    }

    /// Whose messages a queue holds; nil once its deletion is under way.
    func owner(of queue: QueueID) -> QueueOwner? {
        let session = sessionQueues.find(sessionQueues.hash(queue.raw)) {
            sessions[$0].inbox.queue == queue
        }
        return session.map { .session($0) } ?? queueOwners[queue.raw]
    }

    /// A new durable name. Names are reserved in the store in blocks, so that none is used twice.
    mutating func makeIdentifier() -> UInt64 {
        let identifier = nextIdentifier
        nextIdentifier += 1
        if nextIdentifier + CoreLimits.identifierReservation / 2 > identifiersReservedThrough {
            identifiersReservedThrough += CoreLimits.identifierReservation
            writeIdentifierReservation()
        }
        return identifier
    }

    mutating func writeIdentifierReservation() {
        gathering.renew(Records.counter(.identifiers, value: identifiersReservedThrough))
    }

    mutating func makeStamp() -> UInt64 {
        defer { nextStamp += 1 }
        return nextStamp
    }
}

/// Whose messages a queue holds: a session's, by its index, or a user's.
enum QueueOwner {
    case session(Index<Session>)
    case mailbox(user: Index<User>)
    /// It is on its way into a session's inbox.
    case inherited(by: Handle<Session>)
    /// The shares' that brought it to a session which has ended.
    case leftover(Index<Leftover>)
}

extension ConnectionID {
    /// No connection: generation 0 is never given to one.
    static var none: ConnectionID { ConnectionID(rawValue: 0) }
}

/// What a deadline of the core is for, in the number that the timing wheel carries.
enum DeadlinePayload {
    case session(Index<Session>)
    case will(Index<Will>)
    case access(Index<Access>)
    case housekeeping
    case retained(Index<Retained>)
    case login(Index<HeldLogin>)
    case deliveries

    var raw: UInt64 {
        switch self {
        case .session(let session): UInt64(session.place)
        case .will(let will): 1 << 32 | UInt64(will.place)
        case .housekeeping: 2 << 32
        case .access(let access): 3 << 32 | UInt64(access.place)
        case .retained(let retained): 4 << 32 | UInt64(retained.place)
        case .login(let login): 5 << 32 | UInt64(login.place)
        case .deliveries: 6 << 32
        }
    }

    init(raw: UInt64) {
        let place = UInt32(truncatingIfNeeded: raw)
        switch raw >> 32 {
        case 0: self = .session(Index(place: place))
        case 1: self = .will(Index(place: place))
        case 3: self = .access(Index(place: place))
        case 4: self = .retained(Index(place: place))
        case 5: self = .login(Index(place: place))
        case 6: self = .deliveries
        default: self = .housekeeping
        }
    }
}
