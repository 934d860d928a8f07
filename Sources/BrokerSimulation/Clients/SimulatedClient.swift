// A device with the real client machine: it connects, keeps its records in flash, processes
// messages, and can lose power between any two of its steps.
//
// This file has its lifecycle; SimulatedClient+Receiving.swift has its received packets,
// SimulatedClient+Sending.swift those that it sends.

import BrokerTerms
import ClientCore
import Primitives
import WireFormat

final class SimulatedClient: NetworkedClient {
    let index: Int
    let habits: ClientHabits
    let context: SimulationContext
    let network: SimulatedNetwork
    var oracle: Oracle { context.oracle }

    /// Nil while it has no power.
    var machine: ClientMachine?
    var flash = ClientFlash()
    /// Its connection, as it knows it.
    private(set) var link: Int?
    /// The gateway that carried it last.
    private var lastGateway: Int?
    /// The devices that it carries.
    var gatewayChannels = GatewayChannels()

    // The state that it loses with its power.
    /// Names of sends by their numbers.
    var messages: [UInt64: Int] = [:]
    var requests: [UInt64: PendingRequest] = [:]
    /// References of messages whose senders want to know that they are applied.
    var askedReferences: [UInt64] = []
    /// Filters that it subscribes to, with their grades.
    var wishes: [Int: MRT.Grade] = [:]

    // The state that is visible on the wire of this connection.
    var incoming = WireTap()
    var outgoing = WireTap()
    /// The session of CONNACK, in the oracle.
    var session: Int?
    var inboxWindow = 0
    /// Numbered deliveries that are not acknowledged.
    var unacknowledged: [UInt64] = []
    var lastSeenNumber: UInt64 = 0
    /// Numbers of sends that were made and answered on this connection. An earlier send may be
    /// answered once by itself and once because it was repeated.
    var answered: Set<UInt64> = []
    private(set) var linkOpenedAt = Instant.never

    let memory: MachineMemory
    private var dueEntered = Instant.never
    /// Until its first CONNACK it requests a clean start.
    var asksForCleanStart = false
    /// It has disconnected normally on this connection.
    private var isLeaving = false
    /// And its session ends with it.
    private(set) var isLoggingOut = false
    /// Another event will start it again.
    private var isStartComing = false

    /// A request without an answer.
    enum PendingRequest {
        case subscription(filter: Int, grade: MRT.Grade, isSubscribing: Bool)
        case groupCreation(askedAt: Instant)
        /// The index of a membership change in the oracle.
        case membership(group: Int, change: Int)
        /// The name of the will's message.
        case will(Int)
        case willRemoval
        /// A change of a group that only its owner may make.
        case groupChange
        case page(ConversationName, before: UInt64, asked: PageRequest)
        case mark(ConversationName, UInt64)
        case hiding(ConversationName, UInt64)
        /// By the reference of a message.
        case applied(UInt64)
        /// A message, and its new content if it is replaced.
        case revision(message: Int, content: Int?)
        case wakeTarget(kind: UInt8, isOwn: Bool)
        case wakeRemoval(UInt64)
    }

    init(_ index: Int, context: SimulationContext, network: SimulatedNetwork) {
        self.index = index
        self.context = context
        self.network = network
        habits = context.profile.clients[index]
        let device = context.profile.deviceName(of: habits)
        // A gateway attaches the user.
        let credential =
            habits.gateways.isEmpty ? Profile.token(habits.user) : Profile.userName(habits.user)
        memory = MachineMemory(
            names: Array((device + credential).utf8), receiveCount: 2_048, outboxCount: 8_192,
            transmitCount: 512)
        deviceByteCount = device.utf8.count
    }

    private let deviceByteCount: Int

    deinit { machine = nil }

    var isPowered: Bool { machine != nil }
    var isConnected: Bool { machine?.isConnected ?? false }
    /// Its outbox epoch, if it knows it.
    var outboxRecord: MRT.Outbox { machine?.outboxRecord ?? flash.outbox }

    /// Bytes of the machine's last event.
    func bytes(through endOffset: Int) -> UnsafeRawBufferPointer {
        machine?.bytes(ByteRange(offset: 0, count: endOffset))
            ?? UnsafeRawBufferPointer(start: nil, count: 0)
    }

    /// Whether all its requests are answered.
    var isAtRest: Bool { requests.isEmpty && oracle.open(index).isEmpty }

    // MARK: Power

    /// Starts, and connects with the records of its flash.
    func powerOn() {
        guard machine == nil else { return }
        flash.boots += 1
        if !habits.keepsOutbox || flash.outbox.epoch == 0 {
            let epoch = context.powerRandom.next() | 1
            flash.outbox = MRT.Outbox(epoch: epoch, resultsSeen: 0, highestUsed: 0)
        }
        var record = ClientRecord(outboxEpoch: flash.outbox.epoch)
        record.outbox = flash.outbox
        record.inbox = habits.keepsInbox ? flash.inbox : nil
        record.cookie = flash.cookie
        var options = ClientOptions(jitterSeed: UInt64(index) << 32 | UInt64(flash.boots))
        options.acknowledgementDelayMilliseconds = habits.acknowledgementDelayMilliseconds
        machine = ClientMachine(
            identity: memory.identity(makeConnect()), memory: memory.ofClient, record: record,
            options: options)
        oracle.history.note(
            .client(index), "switched on, inbox \(flash.inbox.map { "\($0)" } ?? "none")")
        sendStored()
        start()
    }

    private func makeConnect() -> MRT.Connect {
        var connect = MRT.Connect()
        connect.device = ByteRange(offset: 0, count: deviceByteCount)
        let credential = ByteRange(
            offset: deviceByteCount, count: memory.nameByteCount - deviceByteCount)
        connect.credential =
            habits.gateways.isEmpty ? .token(credential) : .attached(user: credential)
        connect.keepAliveSeconds = habits.keepAliveSeconds
        connect.inboxWindow = habits.inboxWindow
        connect.sessionExpirySeconds = habits.sessionExpirySeconds
        if habits.startsClean, !context.isRecovering,
            context.powerRandom.happens(perTenThousand: 3_000)
        {
            connect.isCleanStart = true
        }
        asksForCleanStart = connect.isCleanStart
        if context.profile.receiptInterval != nil { connect.accepts = .fields }
        if habits.pulls { connect.accepts.insert(.pull) }
        if context.profile.revisionInterval != nil { connect.accepts.insert(.revisions) }
        return connect
    }

    /// Loses power, and with it everything except its flash.
    func powerOff() {
        guard machine != nil else { return }
        oracle.history.note(.client(index), "loses its power")
        machine = nil
        if let link {
            oracle.connectionEnded(index)
            network.clientDied(link)
        }
        dropDevices(network.otherEndDied)
        forgetLink()
        let kept = Set(flash.sends.map(\.message))
        for message in oracle.open(index) where !kept.contains(message) { oracle.abandon(message) }
        messages = [:]
        forgetRequests()
        if context.has(.reusedNumber) {
            flash.outbox.highestUsed = 0
            flash.outbox.resultsSeen = 0
            for send in flash.sends { oracle.abandon(send.message) }
            flash.sends = []
        }
        let off = context.powerRandom.milliseconds(in: 10...30_000)
        context.enter(.clientPowered(client: index), after: off)
    }

    /// Whether the client still has power after this step of its own.
    func survives() -> Bool {
        let losses = context.profile.powerLosses
        guard !context.isRecovering, context.powerRandom.happens(perTenThousand: losses)
        else { return machine != nil }
        powerOff()
        return false
    }

    // MARK: Life

    /// Connects, and stays connected.
    func start() {
        isStartComing = false
        guard machine != nil else { return }
        machine?.start(now: context.now)
        runOn()
    }

    /// Disconnects normally, and reconnects later.
    func leave() {
        guard isConnected else { return }
        var expirySeconds: UInt32?
        if context.useRandom.happens(perTenThousand: 500) {
            expirySeconds = 0
            oracle.sessionMayEnd(index)
        }
        leave(sessionExpirySeconds: expirySeconds)
    }

    /// - Parameter expirySeconds: replaces the expiry of its session; 0 ends it.
    func leave(sessionExpirySeconds expirySeconds: UInt32?) {
        oracle.history.note(.client(index), "leaves")
        isLoggingOut = (expirySeconds ?? habits.sessionExpirySeconds) == 0
        if isLoggingOut { oracle.loggingOut(index) }
        oracle.doubtWills(of: habits.device)
        isLeaving = true
        oracle.connectionEnded(index)
        machine?.leave(sessionExpirySeconds: expirySeconds, now: context.now)
        runOn()
    }

    func timePassed() {
        dueEntered = .never
        guard machine != nil else { return }
        machine?.timePassed(now: context.now)
        runOn()
    }

    /// The requested transport connection is open, or has failed.
    func linkOpened(_ opened: Int, isAccepted: Bool) {
        guard link == opened, machine != nil else { return }
        if isAccepted {
            oracle.connecting(index)
            if habits.isRival { oracle.rivalComes(index) }
            if asksForCleanStart { oracle.sessionMayEnd(index) }
            machine?.opened(now: context.now)
        } else {
            forgetLink()
            machine?.closed(now: context.now)
        }
        runOn()
    }

    /// It learns that its connection has ended.
    func linkClosed(_ closed: Int) {
        guard link == closed, machine != nil else { return }
        oracle.connectionEnded(index)
        forgetLink()
        machine?.closed(now: context.now)
        runOn()
    }

    /// Executes the consequences of the last call: events, bytes, the next deadline.
    func runOn() {
        guard drainEvents() else { return }
        guard transmit() else { return }
        if let deadline = machine?.nextDeadline, deadline < dueEntered, deadline != .never {
            dueEntered = deadline
            context.eventQueue.enter(
                .clientDue(client: index), at: max(deadline, context.now))
        }
    }

    func openLink() {
        precondition(link == nil, "client \(index) is connected already")
        forgetLink()
        linkOpenedAt = context.now
        if habits.gateways.isEmpty {
            link = network.open(client: index)
            return
        }
        // Occasionally it has moved from one gateway to another.
        let moves = lastGateway == nil || context.useRandom.happens(perTenThousand: 3_000)
        if moves { lastGateway = context.useRandom.pick(habits.gateways) }
        link = network.open(client: index, gateway: lastGateway)
    }

    /// The machine has given up its connection, or was stopped.
    func disconnected(_ end: ClientDisconnection) {
        oracle.history.note(
            .client(index), "disconnected, \(end.reason.map { "\($0.name)" } ?? "no reason")")
        checkFault(end.reason)
        if let link {
            oracle.connectionEnded(index)
            network.closedByClient(link)
        }
        dropDevices(network.closedByBroker)
        if isLeaving, end.reason == .normalDisconnection {
            oracle.willsAreOver(of: habits.device)
            if isLoggingOut { oracle.loggedOut(index) }
        }
        forgetLink()
        if end.retryAt == nil { comeBack() }
    }

    private func forgetLink() {
        if link != nil, asksForCleanStart { oracle.startedLate(index) }
        link = nil
        oracle.gatewaysByClient[index] = nil
        isLeaving = false
        isLoggingOut = false
        incoming = WireTap()
        outgoing = WireTap()
        session = nil
        unacknowledged = []
        lastSeenNumber = 0
        answered = []
    }

    /// The machine has stopped permanently: it is started again later.
    private func comeBack() {
        guard !isStartComing else { return }
        isStartComing = true
        if habits.isSibling {
            let away = context.habitRandom.milliseconds(in: 1_000...150_000)
            context.enter(.clientStarted(client: index), after: away)
            return
        }
        let away =
            context.useRandom.happens(perTenThousand: 7_000)
            ? context.useRandom.milliseconds(in: 10...5_000)
            : context.useRandom.milliseconds(in: 5_000...400_000)
        context.enter(.clientStarted(client: index), after: away)
    }

    /// Client and broker are both ours: neither may report a protocol error of the other.
    private func checkFault(_ reason: ReasonCode?) {
        guard let reason else { return }
        switch reason {
        case .malformedPacket, .protocolError, .receiveMaximumExceeded, .packetTooLarge,
            .badUserNameOrPassword, .clientIdentifierNotValid, .notAuthorized,
            .unsupportedProtocolVersion, .implementationSpecificError:
            oracle.fail(
                .nobodyIsAtFault, "disconnected: \(reason.name)", client: index)
        default: break
        }
    }
}
