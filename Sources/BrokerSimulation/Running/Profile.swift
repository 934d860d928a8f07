// The profile of one run, drawn from the seed: some runs have one user with small windows, others
// have many; some often lose power, others never. Varied runs find more than uniform ones.

import BrokerCore
import Primitives
import WireFormat

/// The properties of a client's device.
struct ClientHabits {
    /// Index of the user, and of the device among all devices.
    var user: Int
    var device: Int
    /// It keeps the inbox record in flash, written together with each message's effect.
    var keepsInbox = true
    /// It keeps sends in flash from before they are first sent until their results.
    var keepsOutbox = true
    /// 0 ends the session with the connection.
    var sessionExpirySeconds: UInt32
    var keepAliveSeconds: UInt16
    var inboxWindow: UInt16
    var acknowledgementDelayMilliseconds: UInt64
    /// It logs in as the device of another client, and sends nothing numbered.
    var isRival = false
    /// It sometimes requests a clean start when it starts.
    var startsClean = false
    /// Its additional properties if it speaks MQTT.
    var mqtt: MQTTHabits?
    /// Another device of its user disconnects when this one connects.
    var isSibling = false
    /// It pulls what history keeps for its user.
    var pulls = false
    /// It carries other clients.
    var isGateway = false
    /// Gateways that carry it, one at a time; none for a client with its own connection.
    var gateways: [Int] = []
}

/// The profile of one run.
struct Profile {
    var userCount: Int
    var deviceCount = 0
    var clients: [ClientHabits] = []
    var loopCount: Int
    var limits = CoreLimits()

    /// Index of the filter that MQTT clients share.
    var sharedFilter = 0
    /// The habits of some clients of this run, and their interval in milliseconds.
    var habits: [Habit] = []
    var habitInterval: UInt64 = 0
    /// The client that shares a filter during the whole run, while others leave it.
    var shareAnchor: Int?
    /// Rights of restricted users.
    var restrictions: [Int: Restriction] = [:]
    /// The user whose devices disconnect in turn, if there is one.
    var siblings: Int?
    /// The maximum of milliseconds until a backup is made, and from then until it is restored.
    var backupMaximum: UInt64?

    /// The interval at which clients keep messages and read conversations, in milliseconds; nil in
    /// most runs.
    var historyInterval: UInt64?
    /// The interval at which clients ask for receipts, in milliseconds; nil in most runs.
    var receiptInterval: UInt64?
    /// The interval at which clients recall and replace messages, in milliseconds; nil in most
    /// runs.
    var revisionInterval: UInt64?

    /// Programs beside the clients, and the interval of what happens around them in milliseconds.
    var services: [Service] = []
    var serviceInterval: UInt64 = 0

    // Times in milliseconds.
    var latencyMaximum: UInt64
    var commitMaximum: UInt64
    var useInterval: UInt64
    var faultInterval: UInt64

    /// Faults of this run, and the weight of each.
    var faultWeights: [(fault: Faults, weight: Int)] = []
    /// Per ten thousand of a client's own steps.
    var powerLosses = 0
    /// Per ten thousand commits: those that end the process.
    var failedCommits = 0

    // The actions of clients, as weights.
    /// Sends, subscriptions and their ends, disconnections, groups, wills.
    var useWeights: [Int]
    var gradeWeights: [Int]
    var targetWeights: [Int]
    /// Per ten thousand sends: those that expire.
    var expiringSends: Int
    /// The maximum of padding in messages.
    var paddingMaximum: Int
    /// Bytes in flight to a client before the broker must keep the rest.
    var pipeCapacity: Int
    /// Packets read from one connection in one turn.
    let packetsPerTurnMaximum = 6
    /// Bytes kept for a client before transient messages are dropped.
    var outgoingMaximum: Int
    /// Bytes kept for a client before its connection is closed: more than a whole inbox window, and
    /// those of the devices that it may carry.
    var outgoingHardMaximum: Int {
        limits.inboxWindowBytesMaximum + 16_384 * (1 + clients.count { !$0.gateways.isEmpty })
    }

    init(_ options: SimulationOptions) {
        var random = SimulationRandom(seed: options.seed ^ 0x70_726F_6669_6C65)
        userCount = random.number(in: 2...5)
        loopCount = random.number(in: 1...3)
        latencyMaximum = random.pick([2, 20, 20, 200, 1_500])
        commitMaximum = random.pick([1, 5, 20, 100, 800])
        useInterval = random.pick([2, 10, 40, 200, 1_000])
        faultInterval = random.pick([100, 500, 2_000, 8_000])
        useWeights = random.pick([
            [84, 10, 3, 3, 7, 5], [84, 10, 3, 0, 0, 0], [50, 5, 2, 3, 40, 5], [50, 5, 2, 3, 5, 30],
            [45, 3, 2, 2, 40, 20],
        ])
        gradeWeights = random.pick([[1, 4, 4], [0, 1, 0], [0, 0, 1], [2, 3, 1], [0, 1, 1]])
        targetWeights = random.pick([
            [6, 2, 2, 4, 4], [1, 0, 0, 0, 0], [0, 3, 1, 0, 0], [1, 0, 0, 0, 4], [2, 0, 4, 0, 0],
            [1, 0, 0, 6, 1],
        ])
        expiringSends = random.pick([0, 0, 500, 3_000])
        paddingMaximum = random.pick([0, 10, 200, 900])
        pipeCapacity = random.pick([600, 4_000, 64_000])
        outgoingMaximum = random.pick([600, 4_000, 64_000])
        drawLimits(&random)
        drawClients(&random, options.faults)
        if options.faults.contains(.mqtt) { drawMQTT(seed: options.seed) }
        if options.faults.contains(.gateways) { drawGateways(seed: options.seed) }
        if options.faults.contains(.rights) { drawRestricted(seed: options.seed) }
        drawHabits(options)
        drawFaults(&random, options.faults)
        drawHabitFaults(options.faults)
        drawBackup(options)
        drawHistory(options)
        drawReceipts(options)
        drawPulls(options)
        drawRevisions(options)
        drawTopicHistory(options)
        drawServices(options)
    }

    private mutating func drawLimits(_ random: inout SimulationRandom) {
        limits.sendWindowMaximum = UInt16(random.pick([1, 2, 8, 64]))
        limits.publishWindowMaximum = limits.sendWindowMaximum
        limits.inboxWindowMaximum = UInt16(random.pick([1, 2, 8, 64]))
        limits.inboxWindowBytesMaximum = random.pick([300, 4_000, 262_144])
        limits.queueCountMaximum = UInt32(random.pick([3, 40, 10_000, 10_000]))
        limits.memoryQueueCountMaximum = random.pick([4, 1_000])
        // Usually so little that a burst takes several turns.
        limits.turnWorkMaximum = [12, 40, 65_536][Int(limits.sendWindowMaximum) % 3]
        limits.replayStepsMaximum = 3
        // In half of all runs so little that events wait for commits. With less, clients with a
        // hundred requests would wait for a hundred commits of a slow store.
        limits.batchChangesMaximum = limits.inboxWindowMaximum % 3 == 1 ? 16 : 16_384
        limits.batchMovesMaximum = limits.inboxWindowMaximum % 3 == 1 ? 4 : 16_384
        limits.shareWorkMaximum = max(1, limits.turnWorkMaximum / 8)
    }

    private mutating func drawClients(_ random: inout SimulationRandom, _ faults: Faults) {
        for user in 0..<userCount {
            for device in 0..<random.pick([1, 1, 1, 2, 3]) {
                var habits = drawHabits(&random, user: user, isFirst: device == 0)
                clients.append(habits)
                if faults.contains(.rivals), random.happens(perTenThousand: 1_000) {
                    habits.isRival = true
                    habits.keepsOutbox = false
                    habits.startsClean = false
                    clients.append(habits)
                }
                deviceCount += 1
            }
        }
    }

    /// Every user has a first device with a persistent session, so that all messages to it are
    /// received in the end.
    func drawHabits(
        _ random: inout SimulationRandom, user: Int, isFirst: Bool
    ) -> ClientHabits {
        let expiries: [UInt32] = isFirst ? [20, 300, .max, .max] : [0, 20, 300, .max]
        return ClientHabits(
            user: user, device: deviceCount,
            keepsInbox: random.happens(perTenThousand: 8_000),
            keepsOutbox: random.happens(perTenThousand: 7_000),
            sessionExpirySeconds: random.pick(expiries),
            keepAliveSeconds: UInt16(random.pick([10, 60, 300])),
            inboxWindow: UInt16(random.pick([1, 2, 5, 64])),
            acknowledgementDelayMilliseconds: random.pick([0, 0, 50, 1_000]),
            startsClean: random.happens(perTenThousand: 1_000))
    }

    private mutating func drawFaults(_ random: inout SimulationRandom, _ faults: Faults) {
        // Services are drawn apart, and are no faults.
        let drawn = Faults.names.filter { $0.fault != .wakes && $0.fault != .moderation }
        for (_, fault) in drawn where faults.contains(fault) {
            // Each run excludes some kinds of faults: one kind alone shows bugs that many kinds
            // hide.
            let weight = random.pick([0, 0, 1, 1, 3])
            faultWeights.append((fault, weight))
            if fault == .power, weight > 0 { powerLosses = random.pick([5, 30, 150]) }
            if fault == .crashes, weight > 0 { failedCommits = random.pick([0, 20, 200]) }
        }
    }

    static func userName(_ user: Int) -> String { "user\(user)" }

    /// Queues are full at some time in the run.
    var hasSmallQueues: Bool { limits.queueCountMaximum < CoreLimits().queueCountMaximum }

    /// Adds gateways, and devices that they carry; or none.
    private mutating func drawGateways(seed: UInt64) {
        var random = SimulationRandom(seed: seed ^ 0x67_6174_6577_6179)
        let count = random.pick([0, 0, 1, 2])
        guard count > 0 else { return }
        var gateways: [Int] = []
        for _ in 0..<count {
            var habits = drawHabits(&random, user: userCount, isFirst: true)
            habits.isGateway = true
            gateways.append(clients.count)
            addUser(habits)
        }
        for _ in 0..<random.number(in: 1...4) {
            var habits = drawHabits(&random, user: userCount, isFirst: true)
            habits.gateways = gateways
            addUser(habits)
        }
    }

    private mutating func addUser(_ habits: ClientHabits) {
        clients.append(habits)
        userCount += 1
        deviceCount += 1
    }

    /// A user that does not exist.
    static let unknownUser = "nobody"
    static let app = "app"
    /// Groups of a run, unless several are created at once.
    static let groupCountMaximum = 4

    /// The token of a user.
    static func token(_ user: Int) -> String { "token-of-user\(user)" }

    static let topics = ["a", "a/b", "a/c", "b/c/d", "deep/er/and/deeper"]
    /// Index of the filter that matches all of them.
    static let allTopicsFilter = 4
    static let filters = ["a", "a/b", "a/+", "a/#", "#", "+/c", "b/+/d", "+/+/+", "deep/#"]
}
