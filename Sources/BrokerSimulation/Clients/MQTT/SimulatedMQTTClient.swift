// An MQTT client according to its specification: it keeps its half of the session, repeats
// unanswered publications, recognises a second delivery by its identifier, and can lose power
// between any two of its steps. The only code that it shares with the broker is the encoding of
// packets.
//
// This file has its lifecycle; SimulatedMQTTClient+Receiving.swift has its received packets,
// +Sending.swift and +Subscriptions.swift those that it sends.

import BrokerTerms
import Primitives
import WireFormat

final class SimulatedMQTTClient: NetworkedClient {
    let index: Int
    let habits: ClientHabits
    let mqtt: MQTTHabits
    let context: SimulationContext
    let network: SimulatedNetwork
    var oracle: Oracle { context.oracle }
    var version: MQTT.Version { mqtt.version }

    /// The client's half of the session; nil while the client has no power.
    var state: MQTTSessionState?
    /// The same for a client that has power.
    var powered: MQTTSessionState {
        get {
            guard let state else { preconditionFailure("client \(index) has no power") }
            return state
        }
        set { state = newValue }
    }
    /// The contents of its flash.
    private var flash = MQTTSessionState()
    private(set) var boots = 0
    private(set) var link: Int?
    private var phase = Phase.stopped

    private enum Phase {
        /// It must not connect, or has no power.
        case stopped
        /// It will connect when its pause ends.
        case waiting
        /// It has requested a connection, or sent CONNECT.
        case connecting
        case connected
    }

    // The state of the connection.
    var incoming = WireTap()
    var session: Int?
    var pending: [UInt16: PendingSubscription] = [:]
    /// Subscriptions that were confirmed since its start.
    var confirmed: Set<FilterName> = []
    /// Topics by the aliases that the broker has set.
    var aliases: [UInt16: String] = [:]
    /// Answers that it has not sent yet, and their times.
    var answers: [MQTT.Acknowledgement] = []
    var answersDue = Instant.never
    /// Deliveries of QoS 1 and 2 on this connection whose exchange is not complete.
    var unfinished: Set<UInt16> = []
    /// Publications of this connection without an answer, in order.
    var unanswered: [UInt16] = []
    private var lastSent = Instant(milliseconds: 0)
    /// The time at which an answer of the broker is overdue.
    private var patienceEnds = Instant.never
    private var pingedAt = Instant(milliseconds: 0)
    /// The will of this connection, by the name of its message.
    private var will: Int?

    private var reconnectAt = Instant.never
    private var attemptCount = 0
    /// Consecutive connections that ended right after it had repeated publications.
    var refusalCount = 0
    /// When it repeats unanswered publications.
    private var resendsAt = Instant.never
    private var asksForCleanStart = false
    private var isStartComing = false
    private var dueEntered = Instant.never
    var sendCount: UInt64 = 0
    /// The publications that it has sent under message ids.
    var usedIdentifiers: [(order: Order, message: Int)] = []
    /// The subscriptions that it is configured for; it does not forget them.
    var wishes: [FilterName: MRT.Grade] = [:]

    /// A SUBSCRIBE or UNSUBSCRIBE without an answer.
    struct PendingSubscription {
        let filter: FilterName
        /// Nil to end it.
        let grade: MRT.Grade?
        let askedAt: Instant
        let fullTimesBefore: Int
        /// For a group, the membership change in the oracle.
        let change: Int?
    }

    init(
        _ index: Int, mqtt: MQTTHabits, context: SimulationContext,
        network: SimulatedNetwork
    ) {
        self.index = index
        self.mqtt = mqtt
        self.context = context
        self.network = network
        habits = context.profile.clients[index]
        if let grade = mqtt.userGrade { wishes[.user] = grade }
        if let grade = mqtt.broadcastGrade { wishes[.everybody] = grade }
        if let filter = mqtt.sharedFilter { wishes[.share(filter)] = .durable }
        if mqtt.isLate { wishes[.topics(Profile.allTopicsFilter)] = .once }
    }

    var isConnected: Bool { phase == .connected }

    var isAtRest: Bool {
        guard let state else { return false }
        return state.outgoing.isEmpty && pending.isEmpty && answers.isEmpty
            && confirmed.isSuperset(of: wishes.keys)
    }

    // MARK: Power

    func powerOn() {
        guard state == nil else { return }
        boots += 1
        state = mqtt.keepsRecord ? flash : MQTTSessionState()
        for position in powered.outgoing.indices {
            oracle.reopen(powered.outgoing[position].message)
            // It may have been transmitted after it was stored.
            powered.outgoing[position].wasSent = true
        }
        asksForCleanStart =
            !mqtt.keepsRecord
            || habits.startsClean && !context.isRecovering
                && context.powerRandom.happens(perTenThousand: 3_000)
        oracle.history.note(.client(index), "switched on, \(version)")
        start()
    }

    func powerOff() {
        guard let state else { return }
        oracle.history.note(.client(index), "loses its power")
        self.state = nil
        if let link {
            oracle.connectionEnded(index)
            network.clientDied(link)
        }
        forgetLink()
        phase = .stopped
        confirmed = []
        attemptCount = 0
        refusalCount = 0
        let kept = mqtt.keepsRecord ? Set(flash.outgoing.map(\.message)) : []
        for publication in state.outgoing where !kept.contains(publication.message) {
            oracle.abandon(publication.message)
        }
        let off = context.powerRandom.milliseconds(in: 10...30_000)
        context.enter(.clientPowered(client: index), after: off)
    }

    /// Writes its half of the session into its flash.
    func save() { if let state { flash = state } }

    /// Whether the client still has power after this step of its own.
    func survives() -> Bool {
        let losses = context.profile.powerLosses
        guard !context.isRecovering, context.powerRandom.happens(perTenThousand: losses)
        else { return state != nil }
        powerOff()
        return false
    }

    // MARK: Life

    func start() {
        isStartComing = false
        guard state != nil, phase == .stopped || phase == .waiting else { return }
        phase = .waiting
        reconnectAt = context.now
        runOn()
    }

    func leave() {
        guard phase == .connected, let link else { return }
        var packet = MQTT.Disconnect(version)
        if version == .v5 {
            if habits.sessionExpirySeconds > 0,
                context.useRandom.happens(perTenThousand: 500)
            {
                packet.sessionExpirySeconds = 0
                oracle.sessionMayEnd(index)
            }
            if context.useRandom.happens(perTenThousand: 3_000) {
                packet.reason = .disconnectWithWill
            }
        }
        if packet.reason == .normalDisconnection { oracle.doubtWills(of: habits.device) }
        oracle.history.note(.client(index), "leaves")
        write(packet)
        part(from: link)
        comeBack()
    }

    /// Closes its connection without a DISCONNECT.
    func hangUp() {
        guard phase == .connected, let link else { return }
        oracle.history.note(.client(index), "hangs up")
        part(from: link)
        comeBack()
    }

    private func part(from link: Int) {
        oracle.connectionEnded(index)
        network.closedByClient(link)
        forgetLink()
        phase = .stopped
    }

    private func comeBack() {
        guard !isStartComing else { return }
        isStartComing = true
        let away =
            switch context.useRandom.below(20) {
            case 0..<13: context.useRandom.milliseconds(in: 10...5_000)
            case 13..<18: context.useRandom.milliseconds(in: 5_000...400_000)
            default: context.useRandom.milliseconds(in: 400_000...2_500_000)
            }
        context.enter(.clientStarted(client: index), after: away)
    }

    private func forgetLink() {
        if link != nil, asksForCleanStart { oracle.startedLate(index) }
        link = nil
        session = nil
        incoming = WireTap()
        for request in pending.values {
            guard case .group(let group) = request.filter, let change = request.change else {
                continue
            }
            oracle.membershipForgotten(change, in: group)
        }
        pending = [:]
        aliases = [:]
        answers = []
        answersDue = .never
        unfinished = []
        unanswered = []
        patienceEnds = .never
        resendsAt = .never
        will = nil
    }

    /// The connection has ended, or could not be opened: it tries again later.
    func retry() {
        forgetLink()
        phase = .waiting
        let longest = UInt64(1_000) << UInt64(min(attemptCount, 5))
        attemptCount += 1
        reconnectAt = context.now.advanced(
            byMilliseconds: context.useRandom.milliseconds(in: 0...longest))
        runOn()
    }

    /// It gives up this connection.
    func giveUp() {
        guard let link else { return }
        oracle.connectionEnded(index)
        network.closedByClient(link)
        retry()
    }

    func linkOpened(_ opened: Int, isAccepted: Bool) {
        guard link == opened, state != nil else { return }
        guard isAccepted else { return retry() }
        oracle.mqttConnecting(index)
        oracle.connecting(index)
        if asksForCleanStart || version < .v5 && habits.sessionExpirySeconds == 0 {
            oracle.sessionMayEnd(index)
        }
        patienceEnds = context.now.advanced(bySeconds: 60)
        writeConnect()
        guard survives() else { return }
        runOn()
    }

    func linkClosed(_ closed: Int) {
        guard link == closed, state != nil else { return }
        oracle.connectionEnded(index)
        if phase == .connected { refusalCount += 1 }
        retry()
    }

    private func writeConnect() {
        var source = ByteSource()
        var packet = MQTT.Connect(version)
        packet.isCleanStart =
            asksForCleanStart || version < .v5 && habits.sessionExpirySeconds == 0
        packet.keepAliveSeconds = habits.keepAliveSeconds
        packet.clientIdentifier = source.append(
            context.profile.deviceName(of: habits).utf8)
        packet.userName = source.append("name".utf8)
        packet.password = source.append(Profile.token(habits.user).utf8)
        packet.sessionExpirySeconds = habits.sessionExpirySeconds
        packet.receiveMaximum = habits.inboxWindow
        packet.topicAliasMaximum = mqtt.topicAliasMaximum
        if let order = drawWill() {
            let delay = context.useRandom.pick([0, 0, 5, 60, 400] as [UInt32])
            let message = oracle.willAsked(
                index, to: order.receivers, delaySeconds: version == .v5 ? delay : 0,
                grade: order.grade)
            let (publish, bytes) = encode(order, message)
            var will = MQTT.Will(
                topic: source.append(publish.topic, of: bytes),
                payload: source.append(publish.payload, of: bytes), qos: publish.qos)
            will.delaySeconds = delay
            if version == .v5 {
                will.properties = MQTT.PropertySection(
                    carried: source.append(publish.properties.range, of: bytes))
            }
            packet.will = will
            self.will = message
        }
        write(packet, from: source.bytes)
    }

    private func drawWill() -> Order? {
        guard mqtt.hasWills, !context.isRecovering,
            context.useRandom.happens(perTenThousand: 6_000)
        else { return nil }
        let user = context.useRandom.below(context.profile.userCount)
        let isRestricted = context.profile.restrictions[habits.user] != nil
        let receivers = context.useRandom.pick([
            Receivers.users([user], isList: isRestricted), .everybody,
            .topic(context.useRandom.below(Profile.topics.count)),
        ])
        return Order(
            receivers: receivers,
            grade: context.useRandom.pick([.transient, .durable, .once, .once]))
    }

    /// The broker has accepted or refused its login.
    func handle(_ connack: MQTT.Connack) {
        guard phase == .connecting, let link else {
            return oracle.fail(.nobodyIsAtFault, "a second CONNACK", client: index)
        }
        guard !connack.reason.isFailure else {
            checkFault(connack.reason)
            return giveUp()
        }
        let expiry =
            version == .v5
            ? connack.sessionExpirySeconds ?? habits.sessionExpirySeconds
            : habits.sessionExpirySeconds == 0
                ? 0 : context.profile.limits.sessionExpirySecondsDefault
        if oracle.mayHaveEndedUnseen(habits.device) {
            // It knows by its clock that its session may have expired. MQTT cannot report that the
            // session it finds is another one, whose CONNACK was lost.
            powered.received = []
            confirmed = []
        }
        session = oracle.mqttConnected(
            index, isPresent: connack.isSessionPresent, isStanding: network.isStanding(link),
            expirySeconds: expiry, will: will, brokerStart: network.brokerStart(of: link))
        phase = .connected
        patienceEnds = .never
        attemptCount = 0
        asksForCleanStart = false
        beginSession(isPresent: connack.isSessionPresent, Int(connack.receiveMaximum))
        // Before 5.0 a broker without space closes the connection: a client that repeats at once
        // never sends the answers that would free space.
        let pause = version == .v5 ? 0 : UInt64(min(refusalCount, 20)) * 500
        resendsAt = context.now.advanced(byMilliseconds: pause)
        guard survives() else { return }
        runOn()
    }

    /// Whether the unanswered publications of an earlier connection were sent on this one.
    var hasResent: Bool { phase == .connected && resendsAt == .never }

    // MARK: Time

    func timePassed() {
        dueEntered = .never
        guard state != nil else { return }
        runOn()
    }

    func runOn() {
        guard state != nil else { return }
        let now = context.now
        if phase == .waiting, now >= reconnectAt {
            phase = .connecting
            reconnectAt = .never
            link = network.open(client: index)
        }
        if patienceEnds <= now {
            checkSilence()
            return giveUp()
        }
        if answersDue <= now {
            guard giveAnswers() else { return }
        }
        if phase == .connected, resendsAt <= now {
            resendsAt = .never
            guard sendAgain() else { return }
        }
        if phase == .connected {
            guard askForMissing() else { return }
            if now >= pingDue {
                write(MQTT.Ping(isResponse: false))
                pingedAt = now
                patienceEnds = min(
                    patienceEnds,
                    now.advanced(byMilliseconds: UInt64(habits.keepAliveSeconds) * 500 + 1_000))
            }
        }
        enterDeadline()
    }

    /// Without faults a broker answers PINGREQ, whatever else it waits for. One minute after their
    /// end, the last stalls and slow commits have passed.
    private func checkSilence() {
        guard phase == .connected, context.isRecovering,
            pingedAt >= context.recoverySince.advanced(bySeconds: 60)
        else { return }
        oracle.fail(.allComesToRest, "no answer to PINGREQ", client: index)
    }

    private var pingDue: Instant {
        lastSent.advanced(bySeconds: UInt64(habits.keepAliveSeconds))
    }

    private func enterDeadline() {
        var deadline = min(reconnectAt, patienceEnds, answersDue)
        if phase == .connected { deadline = min(deadline, pingDue, retryWishesAt, resendsAt) }
        guard deadline < dueEntered, deadline != .never else { return }
        dueEntered = deadline
        context.eventQueue.enter(
            .clientDue(client: index), at: max(deadline, context.now))
    }

    /// When it requests a refused subscription again.
    var retryWishesAt = Instant.never

    /// A packet of the broker has arrived.
    func heard() { if phase == .connected { patienceEnds = .never } }

    func write(_ packet: some WirePacket, from source: [UInt8] = []) {
        guard let link else { return }
        var bytes = [UInt8](repeating: 0, count: packet.encodedByteCount)
        source.withUnsafeBytes { source in
            bytes.withUnsafeMutableBytes { bytes in
                var writer = PacketWriter(bytes.mutableBytes)
                packet.write(to: &writer, from: source.bytes)
            }
        }
        lastSent = context.now
        network.write(bytes[...], on: link, towards: .broker)
    }

    /// Client and broker are both ours: neither may report a protocol error of the other.
    func checkFault(_ reason: ReasonCode) {
        switch reason {
        case .malformedPacket, .protocolError, .receiveMaximumExceeded, .packetTooLarge,
            .badUserNameOrPassword, .clientIdentifierNotValid, .unsupportedProtocolVersion,
            .topicAliasInvalid, .payloadFormatInvalid, .implementationSpecificError:
            oracle.fail(.nobodyIsAtFault, "disconnected: \(reason.name)", client: index)
        default: break
        }
    }
}

/// Bytes that are collected for an encoder.
struct ByteSource {
    private(set) var bytes: [UInt8] = []

    mutating func append(_ more: some Collection<UInt8>) -> ByteRange {
        bytes += more
        return ByteRange(offset: bytes.count - more.count, count: more.count)
    }

    mutating func append(_ range: ByteRange, of other: [UInt8]) -> ByteRange {
        append(other[Int(range.offset)..<range.endOffset])
    }

    mutating func append(uint16 number: UInt16) {
        bytes += [UInt8(number >> 8), UInt8(number & 0xFF)]
    }
}
