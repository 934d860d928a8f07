// Two event loops of a real broker, without sockets: credentials that the broker verifies, rates,
// rights, several packets per segment, several connections and turns, logins that wait,
// operators, a full store, and restarts. The core's invariants hold after every entry.

import BrokerCore
import BrokerRuntime
import BrokerSimulation
import Dialects
import Glibc
import NetTransport
import Primitives
import Threads

/// An input begins with one byte of settings. Then comes step after step: the lower five bits of a
/// byte choose the action, the upper three the peer.
func fuzzLoop(_ bytes: UnsafeRawBufferPointer) {
    var input = InputReader(bytes)
    let loops = FuzzedLoops(settings: input.readByte())
    for _ in 0..<FuzzedLoops.stepsMaximum where !input.isAtEnd {
        let step = input.readByte()
        loops.take(step & 31, of: Int(step >> 5), &input)
    }
}

/// A broker with two loops and eight peers.
final class FuzzedLoops {
    static let stepsMaximum = 400
    static let loopCount = 2
    static let peerCount = loopCount * FuzzedTransport.peerCount

    /// Values that are made once and that no test waits for.
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
    private let trust = ClientTrust(FuzzedLoops.trusted)
    private let rates = ClientRates(
        ClientRates.Values(messagesPerSecond: 0, bytesPerSecond: 0, toleranceSeconds: 5))
    private var now = Instant(milliseconds: 1_000_000)
    private var store = InMemoryStore()
    private var backup: InMemoryStore?
    private var shared: SharedBroker
    private var loops: [FuzzedLoop] = []
    private var builders = [PacketBuilder](repeating: PacketBuilder(), count: FuzzedLoops.peerCount)
    private var pending = [[UInt8]](repeating: [], count: FuzzedLoops.peerCount)
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

    /// Restores the broker from the store and makes the loops.
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
            FuzzedLoop(
                BrokerLoopHandler(
                    loopIndex: UInt8(loop), shards: Shards(shared), clock: clock,
                    terms: [
                        ListenerTerms(allowsAnonymous: settings & 0x10 != 0), ListenerTerms(),
                    ],
                    identityProofs: IdentityProofs([false, true]), trust: trust, rates: rates,
                    packetMaximum: FuzzedTransport.packetMaximum,
                    numbers: .counted(after: lives << 8), log: ConnectionLog(Self.fixtures.log)),
                FuzzedTransport(index: UInt8(loop), now: now))
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
            let packet = builders[peer].connect(&input, takes: &takes)
            if channel == nil { open(peer, kind: input.readByte()) }
            append(packet, peer)
            if loops[peer % 2].transport.connection(of: peer / 2) != nil {
                loops[peer % 2].transport.setTakesMaximum(takes, of: peer / 2)
            }
        case 2: append(builders[peer].authenticate(&input), peer)
        case 3, 4: append(builders[peer].send(&input), peer)
        case 5: append(builders[peer].subscribe(&input), peer)
        case 6: append(builders[peer].unsubscribe(&input), peer)
        case 7: append(builders[peer].ask(&input), peer)
        case 8, 9: append(builders[peer].acknowledge(&input), peer)
        case 10: append(builders[peer].ping(), peer)
        case 11: append(builders[peer].disconnect(&input), peer)
        case 12: channel = input.readByte()
        case 13: repeatLast(Int(input.readByte()), peer)
        case 14: corrupt(peer, place: input.readByte(), value: input.readByte())
        case 15, 16: deliver(peer)
        case 17, 18:
            deliver(peer)
            turnAll()
        case 19: turnAll()
        case 20: beginCommit()
        case 21: finishCommit()
        case 22: commitAll()
        case 23: pass(milliseconds: 1 << UInt64(input.readByte() % 22))
        case 24: loops[peer % 2].transport.lose(peer / 2)
        case 25: loops[peer % 2].transport.setReading(input.readByte() & 1 == 0, of: peer / 2)
        case 26: restart(input.readByte())
        case 27: store.isFull = input.readByte() & 1 == 0
        case 28: reload(input.readByte())
        default: operate(input.readByte(), input.readByte())
        }
    }

    private func open(_ peer: Int, kind: UInt8) {
        let (loop, slot) = (loops[peer % 2], peer / 2)
        guard loop.transport.connection(of: slot) == nil else { return }
        // One of four connections has TLS that may prove somebody.
        let hasProof = kind & 3 == 0
        loop.open(
            slot, tag: hasProof ? 1 : 0,
            certificate: hasProof && kind & 4 != 0 ? FuzzCredentials.certificate : nil,
            preSharedIdentity: hasProof && kind & 4 == 0
                ? FuzzCredentials.preSharedIdentity(Int(kind >> 3) % 3) : nil)
    }

    private func append(_ packet: [UInt8], _ peer: Int) {
        lastPacket = channel.map { PacketBuilder.channel($0, packet) } ?? packet
        channel = nil
        add(lastPacket, peer)
    }

    private func add(_ packet: [UInt8], _ peer: Int) {
        guard packet.count <= segmentBytesLeft else { return }
        segmentBytesLeft -= packet.count
        pending[peer] += packet
    }

    private func repeatLast(_ count: Int, _ peer: Int) {
        for _ in 0..<count where pending[peer].count < 8 * FuzzedTransport.burstMaximum {
            add(lastPacket, peer)
        }
    }

    private func corrupt(_ peer: Int, place: UInt8, value: UInt8) {
        guard !pending[peer].isEmpty else { return }
        pending[peer][Int(place) % pending[peer].count] = value
    }

    /// The pending bytes of a peer arrive as one segment.
    private func deliver(_ peer: Int) {
        let (loop, slot) = (loops[peer % 2], peer / 2)
        loop.transport.send(pending[peer], from: slot)
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
        for peer in builders.indices { builders[peer].groups = groups }
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
        // The broker writes to a full store again and again.
        for _ in 0..<8 where isCommitting {
            finishCommit()
            beginCommit()
        }
    }

    private func pass(milliseconds: UInt64) {
        now = now.advanced(byMilliseconds: milliseconds)
        for loop in loops {
            loop.transport.now = now
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

    /// An orderly stop: the broker accepts nothing more, stores all it has, and tells every client.
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
        // The administration service checks requests before the core does, so names are valid here.
        let user = FuzzWords.users[[0, 1, 2, 3, 4, 5, 0, 1][Int(detail & 7)]]
        var filter = SessionFilter(app: app, user: detail & 8 == 0 ? user : nil)
        if choice % 12 == 0 { filter.isConnected = true }
        let group =
            builders[0].groups.isEmpty
            ? [] : builders[0].groups[Int(detail >> 4) % builders[0].groups.count]
        shared.enter { state in
            switch choice % 12 {
            case 0:
                var search = SessionSearch(matching: filter, countMaximum: .max)
                while state.broker.kickSessions(
                    &search, at: moment, effects: &state.effects)
                {}
            case 1:
                var search = SessionSearch(matching: filter, countMaximum: .max)
                while state.broker.deleteSessions(
                    &search, at: moment, effects: &state.effects)
                {}
            case 2:
                var search = SessionSearch(matching: filter, countMaximum: .max)
                while state.broker.purgeQueues(&search, at: moment) {}
            case 3: _ = state.broker.purgeOfflineQueue(app: app, user: user)
            case 4:
                var revocation = Revocation(of: TokenFilter(app: app, user: user))
                while state.broker.revokeTokens(
                    &revocation, at: moment, effects: &state.effects)
                {}
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
                    key: UInt64(detail), seed: UInt64(detail), at: moment,
                    effects: &state.effects)
            case 8, 9:
                let actions: [GroupAction] = [
                    .join(user: user, backlog: detail & 8 == 0 ? nil : UInt32(detail)),
                    .leave(user: user), .kick(user: user), .ban(user: user),
                    .setMeta(user), .setAllowed(detail & 8 == 0 ? nil : [user]),
                ]
                _ = state.broker.changeGroup(
                    app: app, group, actions[Int(choice >> 4) % actions.count], at: moment,
                    effects: &state.effects)
            case 10:
                var search = TokenSearch(
                    matching: TokenFilter(app: app, user: user), after: nil, countMaximum: 10)
                while state.broker.advance(&search) {}
                _ = user.withUnsafeBytes {
                    state.broker.explain(
                        app: app, user: user, device: [], tokens: search.page.tokens,
                        .subscribe(filter: $0))
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

/// The real handler of an event loop, with a transport that has no sockets.
final class FuzzedLoop {
    private var handler: BrokerLoopHandler
    var transport: FuzzedTransport

    init(_ handler: consuming BrokerLoopHandler, _ transport: consuming FuzzedTransport) {
        self.handler = handler
        self.transport = transport
    }

    func open(
        _ slot: Int, tag: UInt32, certificate: [UInt8]?, preSharedIdentity: PreSharedIdentity?
    ) {
        let connection = transport.accept(
            slot, certificate: certificate, preSharedIdentity: preSharedIdentity)
        handler.opened(connection, .listener(tag: tag), in: &transport)
    }

    /// Everything that a peer has sent is shown, burst after burst.
    func read(_ slot: Int) {
        reportClosed()
        while transport.read(
            slot, &handler,
            endTurn: { transport, handler in
                handler.turnEnded(in: &transport)
                transport.flush()
            })
        {}
        reportClosed()
    }

    func turn(isWoken: Bool) {
        reportClosed()
        for slot in 0..<FuzzedTransport.peerCount { read(slot) }
        for connection in transport.takeDrained() {
            handler.outgoingDrained(connection, in: &transport)
        }
        for (deadline, connection) in transport.takeDue() {
            handler.deadlineReached(deadline, connection, in: &transport)
        }
        if isWoken { handler.woken(in: &transport) }
        handler.turnEnded(in: &transport)
        transport.flush()
    }

    func stop() {
        handler.stopping(in: &transport)
        transport.flush()
    }

    private func reportClosed() {
        for (connection, cause) in transport.takeDead() {
            handler.closed(connection, cause, in: &transport)
            transport.release(connection)
        }
    }
}
