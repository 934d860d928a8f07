// A seeded walk through what can happen to the queues of a few users within one batch: sessions of
// both protocols end, inherit and resume, at numbers they were given and at others; messages
// expire; shares are handed over; queues are trimmed and purged; the broker stops and dies. What is
// checked is that the core's sums hold after each step and are the store's whenever nothing is
// under way. What the clients are promised is checked by `RandomWalkTests`.

import Foundation
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A random walk over the queues` {
    /// `MARTLET_WALK_SEEDS=1000-2000` walks these in place of a few.
    private static let seeds: ClosedRange<UInt64> = {
        let wanted = ProcessInfo.processInfo.environment["MARTLET_WALK_SEEDS"] ?? "1-40"
        let bounds = wanted.split(separator: "-").map { UInt64($0)! }
        return bounds[0]...bounds[1]
    }()

    @Test(arguments: seeds)
    func `counts what the store has`(seed: UInt64) {
        var walker = QueueWalker(seed: seed)
        for _ in 0..<300 { walker.walk() }
        walker.comeHome()
        #expect(walker.missingCount == 0, "seed \(seed)")
        #expect(walker.world.gauges.queuedMessages == 0, "seed \(seed)")
        #expect(walker.world.store.heldMessages == [], "seed \(seed)")
    }
}

private struct QueueWalker {
    let world = World()
    private var random: WalkRandom
    private var isCommitting = false
    private var sentCount: UInt64 = 0
    /// More than 0 where a count had to be corrected after any step.
    private(set) var missingCount: UInt64 = 0
    /// Whether each device speaks MQTT on its last connection.
    private var isMQTT: [String: Bool] = [:]

    private let users = ["ann", "bob"]
    private let names = ["ann/1", "ann/2", "ann/3", "bob/1", "bob/2"]

    init(seed: UInt64) {
        random = WalkRandom(seed: seed)
        world.limits.queueCountMaximum = random.of([3, 10, 40])
        world.limits.queuePolicy = random.of([.refuse, .oldest, .newest])
        world.limits.inboxWindowBytesMaximum = random.of([100, 2_048])
        world.limits.inheritedCountMinimum = random.of([5, 1_000])
        world.limits.leftoverCountMinimum = random.of([3, 1_000])
        var policy = AppPolicy()
        policy.takeoversPerMinute = 1_000
        world.limits.appPolicies[World.app] = policy
    }

    // MARK: - Steps

    mutating func walk() {
        let name = random.of(names)
        switch random.below(100) {
        case 0..<25: send(from: name)
        case 25..<45: acknowledge(name)
        case 45..<62: connect(name)
        case 62..<66: leave(name)
        case 66..<72: subscribe(name)
        case 72..<88: isCommitting ? finishCommit() : beginCommit()
        case 88..<91: settle()
        case 91..<94: world.pass(milliseconds: random.of([10, 1_500, 10_000, 100_000]))
        case 94..<96: restart()
        default: administer(name)
        }
        _ = world.lines()
        missingCount += world.counters.missingEntries
    }

    /// Everybody takes all there is.
    mutating func comeHome() {
        if isCommitting { finishCommit() }
        for _ in 0..<30 {
            for name in names {
                isMQTT[name] = false
                world.connect(name, expiry: 3_600, dialect: .mrt)
            }
            world.settle()
            for _ in 0..<4 {
                for name in names where isThere(name) {
                    world.acknowledge(name, through: world.sentThrough(name))
                }
                world.settle()
            }
            world.pass(seconds: 40)
            world.settle()
            _ = world.lines()
            missingCount += world.counters.missingEntries
        }
    }

    private mutating func connect(_ name: String) {
        let dialect: SessionDialect = random.of([.mrt, .mrt, .json, .mqtt5, .mqtt3])
        isMQTT[name] = dialect.isMQTT
        var resume: (epoch: UInt64, number: UInt64)?
        if let session = session(name), !dialect.isMQTT, random.below(3) > 0 {
            let inbox = world.broker.sessions[session].inbox
            let given = inbox.nextNumber - 1
            resume = (
                world.broker.sessions[session].epoch,
                random.of([
                    inbox.acknowledgedThrough, given, given + 1, random.below(given + 1),
                    world.broker.sessions[session].sentThrough,
                ])
            )
        }
        world.connect(
            name, clean: random.below(8) == 0, expiry: random.of([0, 1, 60, 3_600, 3_600, .max]),
            window: random.of([1, 2, 16]), resume: resume, loop: UInt8(random.below(2)),
            dialect: dialect)
    }

    private mutating func send(from name: String) {
        guard isThere(name) else { return }
        let users = users.filter { _ in random.below(2) == 0 }
        let target: Target =
            switch random.below(6) {
            case 0 where !users.isEmpty: .users(users)
            case 1: .everybody
            case 2, 3: .topic("t")
            default: .user(random.of(self.users))
            }
        let grade = random.of([Grade.durable, .durable, .once])
        let expiry: UInt64? = random.below(3) == 0 ? random.of([1, 5, 100]) : nil
        for _ in 0..<random.of([1, 1, 4]) {
            sentCount += 1
            if isMQTT[name] == true {
                world.publish(
                    name, UInt16(sentCount % 60_000 + 1), to: target, "m", grade: grade,
                    expiry: expiry)
            } else {
                world.send(name, sentCount, to: target, "m", grade: grade, expiry: expiry)
            }
        }
        guard isThere(name), isMQTT[name] != true else { return }
        world.seeResults(name, through: sentCount)
    }

    private mutating func acknowledge(_ name: String) {
        guard isThere(name), let session = session(name),
            let connected = world.broker.sessions[session].connected
        else { return }
        let sentCount = world.broker.live.connectedSessions[connected].sentCount
        guard sentCount > 0 else { return }
        let position = Int(random.below(UInt64(sentCount)))
        let entry = world.broker.live.connectedSessions[connected].window[position]
        if isMQTT[name] != true {
            world.acknowledge(name, through: entry.number)
        } else if entry.state.grade == .durable {
            world.answer(name, .accepted, PacketIdentifier.derived(from: entry.number))
        } else {
            world.answer(
                name, entry.isReleased ? .complete : .received,
                PacketIdentifier.derived(from: entry.number))
        }
    }

    private mutating func subscribe(_ name: String) {
        guard isThere(name) else { return }
        let user = name.prefix { $0 != "/" }
        let filter = random.of(["$u/\(user)", "$u/\(user)", "t", "$share/s/t", "$share/s/#", "$b"])
        if filter.hasPrefix("$"), !filter.hasPrefix("$share"), isMQTT[name] != true { return }
        if random.below(4) == 0 {
            world.unsubscribe(name, filter)
        } else {
            world.subscribe(name, filter, grade: random.of([.durable, .once]))
        }
    }

    private mutating func leave(_ name: String) {
        guard isThere(name) else { return }
        switch random.below(3) {
        case 0: world.lose(name)
        case 1: world.disconnect(name)
        default: world.disconnect(name, expiry: random.of([0, 0, 1, 3_600]))
        }
    }

    private mutating func administer(_ name: String) {
        let (user, device) = World.split(name)
        if random.below(2) == 0 {
            inspect(QueueSelection(name, isOffline: random.below(4) == 0))
            return world.broker.checkInvariants()
        }
        var filter = SessionFilter(app: World.app, user: Array(user.utf8))
        if random.below(2) == 0 { filter.device = Array(device.utf8) }
        switch random.below(3) {
        case 0: world.purgeQueues(matching: filter)
        case 1: _ = world.broker.purgeOfflineQueue(app: World.app, user: Array(user.utf8))
        default: world.deleteSessions(matching: filter)
        }
        world.broker.checkInvariants()
    }

    /// Drops a message, often one that is under way or not there, or looks at the queue. Nobody
    /// takes the result.
    private mutating func inspect(_ selection: QueueSelection) {
        let number = 1 + random.below(20)
        if random.below(3) == 0 {
            _ = world.broker.inspectQueue(
                selection, after: number, countMaximum: 3, contentMaximum: 10)
        } else {
            _ = world.drop(number, of: selection)
        }
    }

    private mutating func beginCommit() { isCommitting = world.beginCommit() }

    private mutating func finishCommit() {
        isCommitting = false
        world.finishCommit()
    }

    private mutating func settle() {
        if isCommitting { finishCommit() }
        world.settle()
    }

    private mutating func restart() {
        if random.below(2) == 0 {
            settle()
            world.broker.prepareToStop()
            settle()
        }
        isCommitting = false
        world.crash(committing: random.below(2) == 0)
    }

    // MARK: - What there is

    private func isThere(_ name: String) -> Bool {
        guard let connection = world.connections[name] else { return false }
        return world.broker.session(of: connection) != nil
    }

    private func session(_ name: String) -> Index<Session>? {
        let (user, device) = World.split(name)
        guard let app = world.broker.app(named: World.app),
            let known = world.broker.user(named: Array(user.utf8), app: app)
        else { return nil }
        return world.broker.session(of: known, device: Name(Array(device.utf8)))
    }
}
