// Two real event loops of a real broker, without sockets: credentials that verify and are judged, rates,
// rights, several packets a segment, several connections and turns, logins that are held,
// operators, a store that is full, and restarts. The core's invariants hold after every entry.

import BrokerCore
import BrokerRuntime
import BrokerSimulation
import Dialects
import Glibc
import NetTransport
import Primitives
import Threads

/// An input begins with one byte of settings. Then comes step after step: the lower five bits of a
/// byte say what happens, the upper three to whom.
func fuzzLane(_ bytes: UnsafeRawBufferPointer) {
    var input = InputReader(bytes)
    let loops = FuzzedLanes(settings: input.readByte())
    for _ in 0..<FuzzedLanes.stepsMaximum where !input.isAtEnd {
        let step = input.readByte()
        loops.take(step & 31, of: Int(step >> 5), &input)
    }
}

/// A broker with two event loops and eight peers.
final class FuzzedLanes {
    static let stepsMaximum = 400
    static let loopCount = 2
    static let peerCount = loopCount * FuzzedLoop.peerCount

    /// What is made once: nobody waits for any of it here.
    private struct Fixtures: @unchecked Sendable {
        let handles: [LoopHandle]
        let writerSignal = WakeSignal()
        let log: LogWriter

        init() {
            do throws(TransportError) {
                handles = [try LoopHandle(), try LoopHandle()]
            } catch {
                preconditionFailure("no descriptors: \(error)")
            }
            log = LogWriter(
                descriptor: Glibc.open("/dev/null", O_WRONLY), level: .info, isJournal: false)
        }
    }

    private static let fixtures = Fixtures()
    private static let trusted = FuzzCredentials.material(withKey: true)
    private static let distrusted = FuzzCredentials.material(withKey: false)

    private let settings: UInt8
    private let clock = BrokerClock(simulatedFromUnixMilliseconds: FuzzCredentials.start)
    private let trust = ClientTrust(FuzzedLanes.trusted)
    private let rates = ClientRates(
        ClientRates.Values(messagesPerSecond: 0, bytesPerSecond: 0, toleranceSeconds: 5))
    private var now = Instant(milliseconds: 1_000_000)
    private var store = InMemoryStore()
    private var backup: InMemoryStore?
    private var shared: SharedBroker
    private var loops: [FuzzedLane] = []
    private var smiths = [PacketSmith](repeating: PacketSmith(), count: FuzzedLanes.peerCount)
    private var pending = [[UInt8]](repeating: [], count: FuzzedLanes.peerCount)
    private var lastPacket: [UInt8] = []
    /// The channel that a peer's next packet goes to.
    private var channel: UInt8?
    private var isCommitting = false
    private var batch = StoreBatch()
    private var lives: UInt64 = 0
    /// Bytes of segments that are built in one run: what a few peers send in a second.
    private var segmentBytesLeft = 512 << 10

    init(settings: UInt8) {
        self.settings = settings
        let limits = Self.limits(settings)
        shared = Self.makeShared(
            Broker(
                limits: limits, loopCount: Self.loopCount, trust: trust.vouchers,
                at: clock.moment(at: now)))
        if settings & 0x20 != 0 { changeRates(settings) }
        start()
        let isNew = shared.enter { state in
            try! state.broker.addApp(
                FuzzCredentials.app, keyDigest: FuzzCredentials.appKeyDigest, rights: .ordinary)
        }
        precondition(isNew)
        for token in FuzzCredentials.opaque {
            shared.enter { precondition(try! $0.broker.addToken(token)) }
        }
        commitAll()
    }

    private static func makeShared(_ broker: consuming Broker) -> SharedBroker {
        var broker = broker
        broker.anonymousApp = FuzzCredentials.app
        return SharedBroker(
            broker, loopHandles: fixtures.handles, writerSignal: fixtures.writerSignal)
    }

    /// Small limits, so that few packets reach them.
    private static func limits(_ settings: UInt8) -> CoreLimits {
        var limits = CoreLimits()
        limits.sessionsPerUserMaximum = 4
        limits.queueCountMaximum = 12
        limits.queueBytesMaximum = 8_192
        limits.uncommittedBytesMaximum = 64 << 10
        limits.memoryQueueCountMaximum = 6
        limits.subscriptionsMaximum = 8
        limits.groupsPerUserMaximum = 4
        limits.groupMembersMaximum = 3
        limits.retainedPerAppMaximum = 4
        limits.inboxWindowMaximum = 8
        limits.sendWindowMaximum = 8
        limits.inboxWindowBytesMaximum = 4_096
        limits.payloadMaximum = 4_096
        limits.appPolicy.takeoversPerMinute = 2
        limits.queuePolicy = [.refuse, .oldest, .newest, .refuse][Int(settings & 3)]
        limits.appPolicy.acknowledgesRefused = settings & 4 != 0
        limits.appPolicy.joinsGroupsBySubscribing = settings & 8 == 0
        return limits
    }

    /// Reads back what the store has, and makes the event loops.
    private func start() {
        lives += 1
        let moment = clock.moment(at: now)
        var broker = Broker(
            limits: Self.limits(settings), loopCount: Self.loopCount, trust: trust.vouchers,
            at: moment)
        let state = store.restore(into: &broker)
        do throws(RestoreError) {
            try broker.finishRestoring(state, newEpochSeed: lives, at: moment)
        } catch {
            preconditionFailure("the core cannot read what it wrote: \(error)")
        }
        shared = Self.makeShared(broker)
        isCommitting = false
        loops = (0..<Self.loopCount).map { loop in
            FuzzedLane(
                BrokerLoopHandler(
                    loopIndex: UInt8(loop), shared: shared, clock: clock,
                    terms: [
                        ListenerTerms(allowsAnonymous: settings & 0x10 != 0), ListenerTerms(),
                    ],
                    identityProofs: IdentityProofs([false, true]), trust: trust, rates: rates,
                    packetMaximum: FuzzedLoop.packetMaximum,
                    numbers: .counted(after: lives << 8), log: ConnectionLog(Self.fixtures.log)),
                FuzzedLoop(index: UInt8(loop), now: now))
        }
        for peer in pending.indices { pending[peer] = [] }
        check()
    }

    // MARK: - Steps

    func take(_ kind: UInt8, of peer: Int, _ input: inout InputReader) {
        switch kind {
        case 0: append(Array(input.read(Int(input.readByte()))), peer)
        case 1:
            var takes = 0
            let packet = smiths[peer].connect(&input, takes: &takes)
            if channel == nil { open(peer, kind: input.readByte()) }
            append(packet, peer)
            if loops[peer % 2].loop.connection(of: peer / 2) != nil {
                loops[peer % 2].loop.setTakesMaximum(takes, of: peer / 2)
            }
        case 2: append(smiths[peer].authenticate(&input), peer)
        case 3, 4: append(smiths[peer].send(&input), peer)
        case 5: append(smiths[peer].subscribe(&input), peer)
        case 6: append(smiths[peer].unsubscribe(&input), peer)
        case 7: append(smiths[peer].ask(&input), peer)
        case 8, 9: append(smiths[peer].acknowledge(&input), peer)
        case 10: append(smiths[peer].ping(), peer)
        case 11: append(smiths[peer].disconnect(&input), peer)
        case 12: channel = input.readByte()
        case 13: repeatLast(Int(input.readByte()), peer)
        case 14: corrupt(peer, input.readByte(), input.readByte())
        case 15, 16: deliver(peer)
        case 17, 18:
            deliver(peer)
            turnAll()
        case 19: turnAll()
        case 20: beginCommit()
        case 21: finishCommit()
        case 22: commitAll()
        case 23: pass(milliseconds: 1 << UInt64(input.readByte() % 22))
        case 24: loops[peer % 2].loop.lose(peer / 2)
        case 25: loops[peer % 2].loop.setReading(input.readByte() & 1 == 0, of: peer / 2)
        case 26: restart(input.readByte())
        case 27: store.isFull = input.readByte() & 1 == 0
        case 28: reload(input.readByte())
        default: operate(input.readByte(), input.readByte())
        }
    }

    private func open(_ peer: Int, kind: UInt8) {
        let (loop, slot) = (loops[peer % 2], peer / 2)
        guard loop.loop.connection(of: slot) == nil else { return }
        // One of four connections has TLS that may prove somebody.
        let hasProof = kind & 3 == 0
        loop.open(
            slot, tag: hasProof ? 1 : 0,
            certificate: hasProof && kind & 4 != 0 ? FuzzCredentials.certificate : nil,
            preSharedIdentity: hasProof && kind & 4 == 0
                ? FuzzCredentials.preSharedIdentity(Int(kind >> 3) % 3) : nil)
    }

    private func append(_ packet: [UInt8], _ peer: Int) {
        lastPacket = channel.map { PacketSmith.channel($0, packet) } ?? packet
        channel = nil
        add(lastPacket, peer)
    }

    private func add(_ packet: [UInt8], _ peer: Int) {
        guard packet.count <= segmentBytesLeft else { return }
        segmentBytesLeft -= packet.count
        pending[peer] += packet
    }

    private func repeatLast(_ count: Int, _ peer: Int) {
        for _ in 0..<count where pending[peer].count < 8 * FuzzedLoop.burstMaximum {
            add(lastPacket, peer)
        }
    }

    private func corrupt(_ peer: Int, _ place: UInt8, _ value: UInt8) {
        guard !pending[peer].isEmpty else { return }
        pending[peer][Int(place) % pending[peer].count] = value
    }

    /// What a peer has gathered arrives as one segment.
    private func deliver(_ peer: Int) {
        let (loop, slot) = (loops[peer % 2], peer / 2)
        loop.loop.send(pending[peer], from: slot)
        pending[peer] = []
        loop.read(slot)
        learnGroups()
    }

    private func turnAll() {
        for index in loops.indices {
            let isWoken = shared.enter { !$0.effects[UInt8(index)].isEmpty }
            loops[index].turn(isWoken: isWoken)
        }
        check()
    }

    private func check() { shared.enter { $0.broker.checkInvariants() } }

    private func learnGroups() {
        let groups = shared.enter { state in
            state.broker.groupDescriptions(
                app: FuzzCredentials.app, of: nil, after: nil, countMaximum: 4
            ).map(\.name)
        }
        for peer in smiths.indices { smiths[peer].groups = groups }
    }

    // MARK: - Store

    private func beginCommit() {
        guard !isCommitting else { return }
        let moment = clock.moment(at: now)
        var batch = StoreBatch()
        isCommitting = shared.enter { $0.broker.takeBatch(into: &batch, at: moment) }
        if isCommitting { self.batch = batch }
    }

    private func finishCommit() {
        guard isCommitting else { return }
        isCommitting = false
        var result = StoreResult()
        store.carryOut(batch, into: &result)
        shared.finish(result, at: clock.moment(at: now))
        turnAll()
    }

    private func commitAll() {
        finishCommit()
        beginCommit()
        // A store that is full is asked again and again.
        for _ in 0..<8 where isCommitting {
            finishCommit()
            beginCommit()
        }
    }

    private func pass(milliseconds: UInt64) {
        now = now.advanced(byMilliseconds: milliseconds)
        for loop in loops {
            loop.loop.now = now
            loop.turn(isWoken: true)
        }
        check()
    }

    private func restart(_ choice: UInt8) {
        switch choice & 7 {
        case 0, 1: stop()
        case 2: backup = store
        case 3:
            guard let backup else { return }
            store = backup
            store.identity = StoreIdentity(high: 1, low: lives)
        case 4 where isCommitting:
            var lost = StoreResult()
            store.carryOut(batch, into: &lost)
        default: break
        }
        if choice & 7 != 2 { start() }
    }

    /// An orderly end: nothing more is taken in, what was is stored, and all are told.
    private func stop() {
        shared.enter { $0.isDraining = true }
        turnAll()
        commitAll()
        for loop in loops { loop.stop() }
    }

    // MARK: - Operators

    private func reload(_ choice: UInt8) {
        if choice & 0x10 != 0 { changeRates(choice) }
        trust.replace(with: choice & 1 == 0 ? Self.distrusted : Self.trusted)
        let moment = clock.moment(at: now)
        var limits = Self.limits(choice >> 1)
        if choice & 0x20 != 0 { limits.queueCountMaximum = 3 }
        if choice & 0x40 != 0 { limits.sessionsPerUserMaximum = 1 }
        shared.enter { state in
            state.broker.limits = limits
            _ = state.broker.replaceTrust(
                trust.vouchers, at: moment, effects: &state.effects)
        }
        turnAll()
    }

    private func changeRates(_ choice: UInt8) {
        rates.change(
            ClientRates.Values(
                messagesPerSecond: choice & 1 != 0 ? 3 : 300,
                bytesPerSecond: choice & 2 != 0 ? 500 : 0, toleranceSeconds: 2))
    }

    private func operate(_ choice: UInt8, _ detail: UInt8) {
        let (app, moment) = (FuzzCredentials.app, clock.moment(at: now))
        // Operators' requests are checked before they come here: only names that can be.
        let user = FuzzWords.users[[0, 1, 2, 3, 4, 5, 0, 1][Int(detail & 7)]]
        let filter = SessionFilter(app: app, user: detail & 8 == 0 ? user : nil)
        let group =
            smiths[0].groups.isEmpty
            ? [] : smiths[0].groups[Int(detail >> 4) % smiths[0].groups.count]
        shared.enter { state in
            switch choice % 12 {
            case 0:
                _ = state.broker.kickSessions(
                    matching: filter, at: moment, effects: &state.effects)
            case 1:
                _ = state.broker.deleteSessions(
                    matching: filter, at: moment, effects: &state.effects)
            case 2: _ = state.broker.purgeQueues(matching: filter, at: moment)
            case 3: _ = state.broker.purgeOfflineQueue(app: app, user: user)
            case 4:
                _ = state.broker.revokeTokens(
                    matching: TokenFilter(app: app, user: user), at: moment,
                    effects: &state.effects)
            case 5:
                for token in FuzzCredentials.opaque { _ = try? state.broker.addToken(token) }
            case 6:
                let texts = FuzzCredentials.rights[Int(detail) % FuzzCredentials.rights.count]
                _ = try? state.broker.setAppRights(
                    app, rights: texts.map(FuzzCredentials.compiled) ?? .ordinary, at: moment,
                    effects: &state.effects)
            case 7:
                _ = state.broker.createGroup(
                    app: app, owner: user, title: [], meta: [], allowed: nil,
                    key: UInt64(detail), seed: UInt64(detail))
            case 8, 9:
                let actions: [GroupAction] = [
                    .join(user: user), .leave(user: user), .kick(user: user), .ban(user: user),
                    .setMeta(user), .setAllowed(detail & 8 == 0 ? nil : [user]),
                ]
                _ = state.broker.changeGroup(
                    app: app, group, actions[Int(choice >> 4) % actions.count], at: moment,
                    effects: &state.effects)
            case 10:
                _ = user.withUnsafeBytes {
                    state.broker.explain(
                        app: app, user: user, device: [], .subscribe(filter: $0))
                }
            default:
                state.broker.publishSystem(
                    [
                        SystemValue(
                            topic: Array("$SYS/broker/version".utf8), payload: [detail])
                    ], at: moment, effects: &state.effects)
            }
        }
        turnAll()
    }
}

/// A real event loop with a loop that has no sockets.
final class FuzzedLane {
    private var handler: BrokerLoopHandler
    var loop: FuzzedLoop

    init(_ handler: consuming BrokerLoopHandler, _ loop: consuming FuzzedLoop) {
        self.handler = handler
        self.loop = loop
    }

    func open(
        _ slot: Int, tag: UInt32, certificate: [UInt8]?, preSharedIdentity: PreSharedIdentity?
    ) {
        let connection = loop.accept(
            slot, certificate: certificate, preSharedIdentity: preSharedIdentity)
        handler.opened(connection, .listener(tag: tag), in: &loop)
    }

    /// Everything that a peer has sent is shown, burst after burst.
    func read(_ slot: Int) {
        tellClosed()
        while loop.read(
            slot, &handler,
            endTurn: { loop, handler in
                handler.turnEnded(in: &loop)
                loop.flush()
            })
        {}
        tellClosed()
    }

    func turn(isWoken: Bool) {
        tellClosed()
        for slot in 0..<FuzzedLoop.peerCount { read(slot) }
        for connection in loop.takeDrained() { handler.outgoingDrained(connection, in: &loop) }
        for (deadline, connection) in loop.takeDue() {
            handler.deadlineReached(deadline, connection, in: &loop)
        }
        if isWoken { handler.woken(in: &loop) }
        handler.turnEnded(in: &loop)
        loop.flush()
    }

    func stop() {
        handler.stopping(in: &loop)
        loop.flush()
    }

    private func tellClosed() {
        for (connection, cause) in loop.takeDead() {
            handler.closed(connection, cause, in: &loop)
            loop.release(connection)
        }
    }
}
