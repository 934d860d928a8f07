// A device with the real client machine: it connects, keeps its records in flash, processes what it
// is sent, and can lose its power between any two of its own steps.
//
// This file holds its life; what it receives stands in SimulatedClient+Receiving.swift, what it
// sends in SimulatedClient+Sending.swift.

import ClientCore
import Primitives
import WireFormat

final class SimulatedClient: NetworkedClient {
    let index: Int
    let habits: ClientHabits
    let surroundings: Surroundings
    let network: SimulatedNetwork
    var ledger: Ledger { surroundings.ledger }

    /// Nil while it has no power.
    var machine: ClientMachine?
    var flash = ClientFlash()
    /// Its connection, as it knows it.
    private(set) var link: Int?
    /// The gateway that carried it last, by its client.
    private var lastGateway: Int?
    /// The devices that it carries.
    var carriage = Carriage()

    // What it knows until it loses its power.
    /// Names of sends by their numbers.
    var messages: [UInt64: Int] = [:]
    var requests: [UInt64: PendingRequest] = [:]
    /// Filters it wants to be subscribed to, with their grades.
    var wishes: [Int: MRT.Grade] = [:]

    // What is seen on the wire of this connection.
    var incoming = WireTap()
    var outgoing = WireTap()
    /// The session of CONNACK, in the ledger.
    var session: Int?
    var inboxWindow = 0
    /// Numbered deliveries that came and were not acknowledged.
    var unacknowledged: [UInt64] = []
    var lastSeenNumber: UInt64 = 0
    /// Numbers of sends that were made and answered on this connection. What was sent before may be
    /// answered once by itself and once because it came again.
    var answered: Set<UInt64> = []
    private(set) var linkOpenedAt = Instant.never

    private let identity: UnsafeMutableRawBufferPointer
    private let receiveMemory: UnsafeMutableRawBufferPointer
    private let outboxMemory: UnsafeMutableRawBufferPointer
    let transmitBuffer: UnsafeMutableRawBufferPointer
    private var dueEntered = Instant.never
    /// Until its first CONNACK it asks the broker to forget its session.
    var asksForCleanStart = false
    /// It has said good-bye on this connection.
    private var isLeaving = false
    /// Somebody or something will start it again.
    private var isStartComing = false

    /// A request that has no answer.
    enum PendingRequest {
        case subscription(filter: Int, grade: MRT.Grade, isSubscribing: Bool)
        case groupCreation(askedAt: Instant)
        /// A member comes or goes: the change's place in the ledger.
        case membership(group: Int, change: Int)
        /// The name of the will's message.
        case will(Int)
        case willRemoval
        /// Something of a group that is its owner's alone.
        case groupChange
    }

    init(_ index: Int, _ surroundings: Surroundings, _ network: SimulatedNetwork) {
        self.index = index
        self.surroundings = surroundings
        self.network = network
        habits = surroundings.profile.clients[index]
        let device = surroundings.profile.deviceName(of: habits)
        // A gateway vouches for the user.
        let credential =
            habits.gateways.isEmpty ? Profile.token(habits.user) : Profile.userName(habits.user)
        let bytes = Array((device + credential).utf8)
        identity = .allocate(byteCount: bytes.count, alignment: 8)
        identity.copyBytes(from: bytes)
        deviceByteCount = device.utf8.count
        receiveMemory = .allocate(byteCount: 2_048, alignment: 8)
        outboxMemory = .allocate(byteCount: 8_192, alignment: 8)
        transmitBuffer = .allocate(byteCount: 512, alignment: 8)
    }

    private let deviceByteCount: Int

    deinit {
        machine = nil
        identity.deallocate()
        receiveMemory.deallocate()
        outboxMemory.deallocate()
        transmitBuffer.deallocate()
    }

    var isPowered: Bool { machine != nil }
    var isConnected: Bool { machine?.isConnected ?? false }
    /// Its numbering, as far as it knows it.
    var outboxRecord: MRT.Outbox { machine?.outboxRecord ?? flash.outbox }

    /// Bytes of the machine's last event.
    func bytes(through endOffset: Int) -> UnsafeRawBufferPointer {
        machine?.bytes(ByteRange(offset: 0, count: endOffset))
            ?? UnsafeRawBufferPointer(start: nil, count: 0)
    }

    /// Whether nothing it asked for is open.
    var isAtRest: Bool { requests.isEmpty && ledger.open(index).isEmpty }

    // MARK: Power

    /// Is switched on, and connects with what its flash says.
    func powerOn() {
        guard machine == nil else { return }
        flash.boots += 1
        if !habits.keepsOutbox || flash.outbox.epoch == 0 {
            let epoch = surroundings.powerRandom.next() | 1
            flash.outbox = MRT.Outbox(epoch: epoch, resultsSeen: 0, highestUsed: 0)
        }
        var record = ClientRecord(outboxEpoch: flash.outbox.epoch)
        record.outbox = flash.outbox
        record.inbox = habits.keepsInbox ? flash.inbox : nil
        record.cookie = flash.cookie
        var options = ClientOptions(jitterSeed: UInt64(index) << 32 | UInt64(flash.boots))
        options.acknowledgementDelayMilliseconds = habits.acknowledgementDelayMilliseconds
        machine = ClientMachine(
            identity: ClientIdentity(
                connect: makeConnect(), bytes: UnsafeRawBufferPointer(identity)),
            memory: ClientMemory(receive: receiveMemory, outbox: outboxMemory),
            record: record, options: options)
        ledger.history.note(
            .client(index), "switched on, inbox \(flash.inbox.map { "\($0)" } ?? "none")")
        sendStored()
        start()
    }

    private func makeConnect() -> MRT.Connect {
        var connect = MRT.Connect()
        connect.device = ByteRange(offset: 0, count: deviceByteCount)
        let credential = ByteRange(
            offset: deviceByteCount, count: identity.count - deviceByteCount)
        connect.credential =
            habits.gateways.isEmpty ? .token(credential) : .attached(user: credential)
        connect.keepAliveSeconds = habits.keepAliveSeconds
        connect.inboxWindow = habits.inboxWindow
        connect.sessionExpirySeconds = habits.sessionExpirySeconds
        if habits.startsClean, !surroundings.isHealing,
            surroundings.powerRandom.happens(perTenThousand: 3_000)
        {
            connect.isCleanStart = true
        }
        asksForCleanStart = connect.isCleanStart
        return connect
    }

    /// Loses its power, and with it everything but its flash.
    func powerOff() {
        guard machine != nil else { return }
        ledger.history.note(.client(index), "loses its power")
        machine = nil
        if let link {
            ledger.connectionEnded(index)
            network.clientDied(link)
        }
        dropDevices(network.otherEndDied)
        forgetLink()
        let kept = Set(flash.sends.map(\.message))
        for message in ledger.open(index) where !kept.contains(message) { ledger.abandon(message) }
        messages = [:]
        forgetRequests()
        if surroundings.has(.reusedNumber) {
            flash.outbox.highestUsed = 0
            flash.outbox.resultsSeen = 0
            for send in flash.sends { ledger.abandon(send.message) }
            flash.sends = []
        }
        let off = surroundings.powerRandom.milliseconds(in: 10...30_000)
        surroundings.enter(.clientPowered(client: index), after: off)
    }

    /// Whether the client still has power after this step of its own.
    func survives() -> Bool {
        let losses = surroundings.profile.powerLosses
        guard !surroundings.isHealing, surroundings.powerRandom.happens(perTenThousand: losses)
        else { return machine != nil }
        powerOff()
        return false
    }

    // MARK: Life

    /// Connects, and stays connected.
    func start() {
        isStartComing = false
        guard machine != nil else { return }
        machine!.start(now: surroundings.now)
        runOn()
    }

    /// Says good-bye, and comes back after a while.
    func leave() {
        guard isConnected else { return }
        var expirySeconds: UInt32?
        if surroundings.useRandom.happens(perTenThousand: 500) {
            expirySeconds = 0
            ledger.sessionMayEnd(index)
        }
        ledger.history.note(.client(index), "leaves")
        ledger.doubtWills(of: habits.device)
        isLeaving = true
        ledger.connectionEnded(index)
        machine!.leave(sessionExpirySeconds: expirySeconds, now: surroundings.now)
        runOn()
    }

    func timePassed() {
        dueEntered = .never
        guard machine != nil else { return }
        machine!.timePassed(now: surroundings.now)
        runOn()
    }

    /// The transport it asked for is there, or is not.
    func linkOpened(_ opened: Int, isAccepted: Bool) {
        guard link == opened, machine != nil else { return }
        if isAccepted {
            ledger.connecting(index)
            if habits.isRival { ledger.rivalComes(index) }
            if asksForCleanStart { ledger.sessionMayEnd(index) }
            machine!.opened(now: surroundings.now)
        } else {
            forgetLink()
            machine!.closed(now: surroundings.now)
        }
        runOn()
    }

    /// It learns that its connection is gone.
    func linkClosed(_ closed: Int) {
        guard link == closed, machine != nil else { return }
        ledger.connectionEnded(index)
        forgetLink()
        machine!.closed(now: surroundings.now)
        runOn()
    }

    /// Does what follows from the last call: events, bytes, the next deadline.
    func runOn() {
        guard drainEvents() else { return }
        guard transmit() else { return }
        if let deadline = machine?.nextDeadline, deadline < dueEntered, deadline != .never {
            dueEntered = deadline
            surroundings.agenda.enter(
                .clientDue(client: index), at: max(deadline, surroundings.now))
        }
    }

    func openLink() {
        precondition(link == nil, "a second connection of one client")
        forgetLink()
        linkOpenedAt = surroundings.now
        if habits.gateways.isEmpty {
            link = network.open(client: index)
            return
        }
        // Now and then it has moved out of the reach of one gateway and into that of another.
        let moves = lastGateway == nil || surroundings.useRandom.happens(perTenThousand: 3_000)
        if moves { lastGateway = surroundings.useRandom.pick(habits.gateways) }
        link = network.open(client: index, carrier: lastGateway)
    }

    /// The machine has given its connection up, or was told to.
    func disconnected(_ end: ClientDisconnection) {
        ledger.history.note(
            .client(index), "disconnected, \(end.reason.map { "\($0.name)" } ?? "no reason")")
        checkFault(end.reason)
        if let link {
            ledger.connectionEnded(index)
            network.closedByClient(link)
        }
        dropDevices(network.closedByBroker)
        if isLeaving, end.reason == .normalDisconnection { ledger.willsAreOver(of: habits.device) }
        forgetLink()
        if end.retryAt == nil { comeBack() }
    }

    private func forgetLink() {
        link = nil
        ledger.carriers[index] = nil
        isLeaving = false
        incoming = WireTap()
        outgoing = WireTap()
        session = nil
        unacknowledged = []
        lastSeenNumber = 0
        answered = []
    }

    /// The machine has stopped for good: somebody starts it again, after a while.
    private func comeBack() {
        guard !isStartComing else { return }
        isStartComing = true
        if habits.isSibling {
            let away = surroundings.habitRandom.milliseconds(in: 1_000...150_000)
            surroundings.enter(.clientStarted(client: index), after: away)
            return
        }
        let away =
            surroundings.useRandom.happens(perTenThousand: 7_000)
            ? surroundings.useRandom.milliseconds(in: 10...5_000)
            : surroundings.useRandom.milliseconds(in: 5_000...400_000)
        surroundings.enter(.clientStarted(client: index), after: away)
    }

    /// Client and broker are both ours: neither may find the other at fault.
    private func checkFault(_ reason: ReasonCode?) {
        switch reason {
        case .malformedPacket, .protocolError, .receiveMaximumExceeded, .packetTooLarge,
            .badUserNameOrPassword, .clientIdentifierNotValid, .notAuthorized,
            .unsupportedProtocolVersion, .implementationSpecificError:
            ledger.accuse(
                .nobodyIsAtFault, "disconnected: \(reason!.name)", client: index)
        default: break
        }
    }
}
