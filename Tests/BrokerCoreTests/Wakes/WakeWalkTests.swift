// A seeded walk through all that can happen to users with wake targets: devices and the relay come
// and go, commits are slow, the broker dies. What is checked is what was promised: a user who is
// absent, and for whom an acknowledged message waits, is woken at once or within the interval, and
// nobody without targets is.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A walk with wake-ups` {
    @Test(arguments: 1...40 as ClosedRange<UInt64>)
    func `wakes everybody for whom something waits`(seed: UInt64) {
        #expect(WakeWalker.complaint(seed: seed, bug: nil) == nil, "seed \(seed)")
    }

    /// The first seed that shows each bug.
    @Test(arguments: WakeBug.allCases)
    func `finds planted bugs`(bug: WakeBug) {
        let first = (1...40 as ClosedRange<UInt64>).first {
            WakeWalker.complaint(seed: $0, bug: bug) != nil
        }
        #expect(first != nil, "\(bug) is not found")
    }
}

/// A bug that is planted in a walk.
enum WakeBug: CaseIterable {
    /// A crash loses that a message waits for the next request.
    case forgottenDue
    /// The relay's messages are lost in a crash.
    case lostRequests
    /// A user without targets is woken.
    case wrongUser
}

private struct WakeWalker {
    private static let users = ["bob", "carl", "zoe", "eve"]
    private static let devices = ["bob/1", "carl/1", "carl/2", "eve/1"]

    private let world = World()
    private let bug: WakeBug?
    private var random: WalkRandom
    private var complaint: String?
    private var connected: Set<String> = []
    private var isCommitting = false
    private var number: UInt64 = 0
    /// Of the sends of this life of the broker: the user and the place among all sends.
    private var numbers: [(user: String, place: UInt64)] = []
    /// Their results, and how many of the first ones ann has seen.
    private var told: Set<UInt64> = []
    private var seen = 0
    private var life: UInt64 = 7
    /// The last send to each user that was acknowledged, and the last one that a request is for.
    private var acknowledged: [String: UInt64] = [:]
    private var covered: [String: UInt64] = [:]
    private var heldByRelay: UInt64 = 0
    private var isRelayThere = true

    static func complaint(seed: UInt64, bug: WakeBug?) -> String? {
        var walker = WakeWalker(seed: seed, bug: bug)
        for _ in 0..<250 where walker.complaint == nil { walker.walk() }
        walker.finish()
        return walker.complaint
    }

    private init(seed: UInt64, bug: WakeBug?) {
        self.bug = bug
        random = WalkRandom(seed: seed)
        world.allowWakes()
        world.begin("relay/1", "ann/1")
        for user in Self.users {
            world.addUser(user)
            if user != "eve" || bug == .wrongUser { world.setTarget(user) }
        }
        world.settle()
        listen()
    }

    private mutating func walk() {
        let device = Self.devices[Int(random.below(UInt64(Self.devices.count)))]
        switch random.below(100) {
        case 0..<35: send(to: Self.users[Int(random.below(UInt64(Self.users.count)))])
        case 35..<45: if connected.contains(device) { world.acknowledgeAll(device) }
        case 45..<55: if !connected.contains(device) { connect(device) }
        case 55..<63: if connected.contains(device) { leave(device) }
        case 63..<88: isCommitting ? finishCommit() : beginCommit()
        case 88..<92: crash()
        case 92..<95: isRelayThere ? loseRelay() : connectRelay()
        default: world.pass(milliseconds: random.below(30_000))
        }
        listen()
    }

    private mutating func send(to user: String) {
        number += 1
        numbers.append((user, number))
        world.send("ann/1", UInt64(numbers.count), to: .user(user), "m")
    }

    private mutating func connect(_ device: String) {
        connected.insert(device)
        world.connect(device)
        let user = World.split(device).user
        // Whoever is there needs no request.
        covered[user] = number
    }

    private mutating func leave(_ device: String) {
        connected.remove(device)
        random.below(2) == 0 ? world.lose(device) : world.disconnect(device)
        let user = World.split(device).user
        // What it has not acknowledged wakes it.
        if !isPresent(user), waitingCount(user) > 0 {
            covered[user] = 0
            acknowledged[user] = max(acknowledged[user] ?? 0, 1)
        }
    }

    private mutating func connectRelay() {
        isRelayThere = true
        world.connect("relay/1", resume: (epoch: world.epochs["relay/1"] ?? 0, heldByRelay))
    }

    private mutating func loseRelay() {
        listen()
        isRelayThere = false
        world.lose("relay/1")
    }

    private mutating func beginCommit() { isCommitting = world.beginCommit() }

    private mutating func finishCommit() {
        isCommitting = false
        world.finishCommit()
    }

    private mutating func crash() {
        listen()
        let present = Set(connected.map { World.split($0).user })
        if bug == .forgottenDue {
            if isCommitting { finishCommit() }
            world.rewriteRows(of: .wakeTargets) { row in
                // A row of the state has two bytes.
                if row.count == 2 { row[1] &= 1 }
            }
        }
        isCommitting = false
        world.crash(committing: random.below(2) == 0)
        connected = []
        for user in present where waitingCount(user) > 0 {
            covered[user] = 0
            acknowledged[user] = max(acknowledged[user] ?? 0, 1)
        }
        if bug == .lostRequests {
            world.purgeQueues(matching: SessionFilter(app: World.app, user: Array("relay".utf8)))
        }
        connectRelay()
        life += 1
        (numbers, told, seen) = ([], [], 0)
        world.connect("ann/1", outbox: (epoch: life, seen: 0, used: 0))
        world.settle()
    }

    /// The relay is away when a request is made, and the broker dies before it is back.
    private mutating func crashBesideRelay() {
        world.settle()
        world.pass(seconds: 120)
        world.settle()
        if isRelayThere { loseRelay() }
        send(to: "zoe")
        world.settle()
        crash()
    }

    /// Takes what was told: results of sends, and requests.
    private mutating func listen() {
        for line in world.lines() {
            if line.hasPrefix("ann/1: result "), line.contains("sent") {
                let digits = line.dropFirst("ann/1: result ".count).prefix(while: \.isNumber)
                guard let sent = UInt64(digits), sent <= numbers.count else { continue }
                told.insert(sent)
                let (user, place) = numbers[Int(sent) - 1]
                acknowledged[user] = max(acknowledged[user] ?? 0, place)
            } else if line.hasPrefix("relay/1: #") {
                let digits = line.dropFirst("relay/1: #".count).prefix(while: \.isNumber)
                heldByRelay = max(heldByRelay, UInt64(digits) ?? 0)
                guard line.contains("WAKE_REQUEST"),
                    let user = Self.users.first(where: { line.contains("\"user\":\"\($0)\"") })
                else { continue }
                if user == "eve" { complaint = "eve has no target" }
                covered[user] = number
            }
        }
        world.acknowledgeAll("relay/1")
        // Results in order are seen.
        while seen < numbers.count, told.contains(UInt64(seen + 1)) { seen += 1 }
        if seen > 0 { world.seeResults("ann/1", through: UInt64(seen)) }
    }

    private mutating func finish() {
        guard complaint == nil else { return }
        if isCommitting { finishCommit() }
        if bug == .lostRequests { crashBesideRelay() }
        if !isRelayThere { connectRelay() }
        for _ in 0..<4 {
            world.settle()
            listen()
            world.pass(seconds: 60)
            world.settle()
            listen()
        }
        for user in Self.users where user != "eve" && !isPresent(user) && waitingCount(user) > 0 {
            guard let last = acknowledged[user], last > covered[user] ?? 0 else { continue }
            complaint = "\(user) was not woken for \(last), last for \(covered[user] ?? 0)"
        }
    }

    private func isPresent(_ user: String) -> Bool {
        connected.contains { World.split($0).user == user }
    }

    private func waitingCount(_ user: String) -> Int {
        guard let app = world.broker.app(named: World.app),
            let index = world.broker.user(named: Array(user.utf8), app: app)
        else { return 0 }
        var count = 0
        world.broker.forEachSession(of: index) {
            count = max(count, Int(world.broker.sessions[$0].inbox.count))
        }
        if let queue = world.broker.registry.users[index].offlineQueue {
            count += Int(world.broker.queues.offlineQueues[queue].count)
        }
        return count
    }
}
