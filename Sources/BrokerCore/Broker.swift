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
    var appNames = ByteKeyTable()
    var users = Slab<User>()
    var sessions = Slab<Session>(minimumCapacity: 64)
    /// Of sessions that are connected.
    var attachments = Slab<Attachment>(minimumCapacity: 64)
    /// What waits for users without a persistent session.
    var mailboxes = Slab<Inbox>()
    /// What sessions that ended had of shared subscriptions.
    var leftovers = Slab<Leftover>()
    /// Those of each user's sessions.
    var leftoversOfUsers: [UInt32: [UInt32]] = [:]
    /// Sessions by their queues.
    var sessionQueues = IndexTable()
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
    var orphanWills: [WillOwner: UInt32] = [:]
    /// The last messages of topics.
    var retained = Slab<Retained>()
    /// What the broker tells of itself.
    var systemTopics = SystemTopics()
    var connections: ConnectionTable

    // Who receives what.
    var audiences = Slab<Audience>()
    /// The union of several audiences, while one message is routed to it.
    let mergedAudience: UInt32
    /// Those whom shared subscriptions choose, while one message is routed to them.
    let chosenAudience: UInt32
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
    var residentMessages: [UInt64: UInt32] = [:]
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
    var matchedAudiences: ContiguousArray<UInt32> = []
    /// While audiences are merged: 1 + the place of a session among those that have been found, 0
    /// for others.
    var mergePlaces: ContiguousArray<UInt32> = []
    /// The topic whose audiences are marked, its app, and which they are.
    var markedTopic: [UInt8] = []
    var markedApp = Slab<App>.none
    var markedAudiences: ContiguousArray<UInt32> = []
    var scratch = ByteArena(capacity: 1024)
    /// Requests whose answers wait for a commit.
    var openRequests: Set<RequestName> = []
    /// Identifiers of QoS 2 of sessions that have ended, whose rows are not deleted.
    var doomedSends: [(session: UInt64, identifiers: PacketIdentifiers)] = []
    /// Bounds what the log is told of refused receivers.
    var receiverNotes = NoteAllowance()
    /// What events have cost so far beside the effects they had, in the unit of
    /// ``CoreLimits/turnWorkMaximum``. Only differences mean something.
    public internal(set) var work = 0
    /// Attachments that wait for more of their queues, in order.
    var waitingLoads = Ring<LoadOwner>()
    /// What connected sessions are sent of retained messages.
    var replays = Slab<RetainedReplay>()
    /// Those whose session has no connection, by session.
    var suspendedReplays: [UInt32: UInt32] = [:]

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
        precondition(restoration == nil, "an event before the stored state is back")
        work += 1
        switch event {
        case .connectReceived(let connection, let request):
            // To keep a will is work of its own.
            if request.will != nil { work += 1 }
            connect(connection, request, bytes, identities, moment, &effects)
        case .connectionClosed(let connection, let cause):
            connectionClosed(connection, cause, moment, &effects)
        case .sendReceived(let connection, let request):
            send(connection, request, bytes, moment, &effects)
        case .inboxAcknowledged(let connection, let throughNumber):
            acknowledgeInbox(connection, throughNumber, moment, &effects)
        case .resultsSeen(let connection, let throughNumber):
            resultsSeen(connection, throughNumber, moment, &effects)
        case .packetAnswered(let connection, let identifier, let step, let reason):
            packetAnswered(connection, identifier, step, reason, moment, &effects)
        case .subscribeReceived(let connection, let request):
            guard admits(connection, request: request.requestIdentifier, moment, &effects) else {
                return
            }
            subscribe(connection, request, bytes, moment, &effects)
        case .unsubscribeReceived(let connection, let request):
            guard admits(connection, request: request.requestIdentifier, moment, &effects) else {
                return
            }
            unsubscribe(connection, request, bytes, &effects)
        case .presenceQueried(let connection, let identifier, let user):
            guard admits(connection, request: identifier, moment, &effects) else { return }
            reportPresence(connection, identifier, user.bytes(in: bytes), &effects)
        case .groupRequested(let connection, let identifier, let request):
            guard admits(connection, request: identifier, moment, &effects) else { return }
            groupRequested(connection, identifier, request, bytes, moment, &effects)
        case .willSet(let connection, let identifier, let request):
            guard admits(connection, request: identifier, moment, &effects) else { return }
            setWill(connection, identifier, request, bytes, moment, &effects)
        case .willCleared(let connection, let identifier):
            guard admits(connection, request: identifier, moment, &effects) else { return }
            clearWill(connection, identifier)
        case .requestFaulted(let connection, let identifier, let reason):
            guard admits(connection, request: identifier, moment, &effects),
                session(of: connection) != nil
            else { return }
            counters.requestsRefused += 1
            effects[connection.lane].respond(connection, identifier, reason)
        case .credentialPresented(let connection, let claim):
            exchangeCredential(connection, claim, bytes, identities, moment, &effects)
        case .credentialRefused(let connection, let reason):
            refuseCredential(connection, reason, &effects)
        case .disconnectReceived(let connection, let request):
            disconnect(connection, request, moment, &effects)
        case .deliveryTooLarge(let connection, let number):
            dropOversize(connection, number, moment, &effects)
        case .outgoingDrained(let connection):
            outgoingDrained(connection, moment, &effects)
        case .peerFaulted(let connection, let reason):
            peerFaulted(connection, reason, moment, &effects)
        }
        scheduleHousekeeping(moment)
    }

    /// Does what has become due.
    public mutating func advance(to moment: Moment, effects: inout Effects) {
        while let payload = deadlines.popDue(at: moment.instant) {
            switch DeadlinePayload(raw: payload) {
            case .session(let session): expire(session: session, moment, &effects)
            case .will(let will): willDue(will, moment, &effects)
            case .retained(let index): expire(retained: index)
            case .access(let access): expireAccess(access, moment, &effects)
            case .login(let index): hear(login: index, moment, &effects)
            case .housekeeping: keepHouse(moment)
            }
        }
    }

    /// When ``advance(to:effects:)`` has something to do; never later than the true deadline.
    public var nextDeadline: Instant? { deadlines.nextDeadline }

    // MARK: - Access

    /// The session of a connection that was let in and is still the session's own; nil for whatever
    /// arrives late from a connection that has lost it.
    @inline(__always)
    func session(of connection: ConnectionID) -> UInt32? {
        let session = connections[connection]
        return session == Slab<Session>.none ? nil : session
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
    case session(UInt32)
    case mailbox(user: UInt32)
    /// It is on its way into a session's inbox.
    case inherited(by: Handle)
    /// The shares' that brought it to a session which has ended.
    case leftover(UInt32)
}

extension ConnectionID {
    /// No connection: generation 0 is never given to one.
    static var none: ConnectionID { ConnectionID(rawValue: 0) }
}

/// What a deadline of the core is for, in the number that the timing wheel carries.
enum DeadlinePayload {
    case session(UInt32)
    case will(UInt32)
    case access(UInt32)
    case housekeeping
    case retained(UInt32)
    case login(UInt32)

    var raw: UInt64 {
        switch self {
        case .session(let index): UInt64(index)
        case .will(let index): 1 << 32 | UInt64(index)
        case .housekeeping: 2 << 32
        case .access(let index): 3 << 32 | UInt64(index)
        case .retained(let index): 4 << 32 | UInt64(index)
        case .login(let index): 5 << 32 | UInt64(index)
        }
    }

    init(raw: UInt64) {
        let index = UInt32(truncatingIfNeeded: raw)
        switch raw >> 32 {
        case 0: self = .session(index)
        case 1: self = .will(index)
        case 3: self = .access(index)
        case 4: self = .retained(index)
        case 5: self = .login(index)
        default: self = .housekeeping
        }
    }
}
