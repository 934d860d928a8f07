// Habits of some runs: clients that reuse message ids, leave shares, change long rows. They are
// drawn separately from the rest of the profile, so that they do not change a run without them.

import BrokerCore
import Primitives
import WireFormat

/// An additional action that clients of some runs perform at times.
enum Habit: CaseIterable {
    /// An MQTT client sends under a message id that it has used before.
    case repeatsIdentifier
    /// A group's owner replaces its allow list or its meta text.
    case changesRows
    /// A member of a share leaves it, returns, or disconnects with unacknowledged messages.
    case changesShare
    /// A restricted client tries to subscribe to the broker's `$SYS` topics.
    case readsSystem
    /// Devices of one user disconnect in turn, until their sessions have expired one after the
    /// other.
    case goesAway

    var fault: Faults {
        switch self {
        case .repeatsIdentifier: .repeats
        case .changesRows: .rows
        case .changesShare: .leavers
        case .readsSystem: .rights
        case .goesAway: .siblings
        }
    }
}

extension Profile {
    mutating func drawHabits(_ options: SimulationOptions) {
        var random = SimulationRandom(seed: options.seed ^ 0x68_6162_6974_73)
        habitInterval = random.pick([2, 20, 100])
        for habit in Habit.allCases {
            guard random.happens(perTenThousand: 4_000), options.faults.contains(habit.fault)
            else { continue }
            habits.append(habit)
        }
        if habits.contains(.changesShare) { drawLeavers(&random) }
        if habits.contains(.goesAway) { drawSiblings(&random) }
        if habits.contains(.repeatsIdentifier) { drawRepeaters(&random) }
    }

    /// The times of backups and restores; in most runs never.
    mutating func drawBackup(_ options: SimulationOptions) {
        var random = SimulationRandom(seed: options.seed ^ 0x6261_636B_7570)
        guard options.faults.contains(.backups), random.happens(perTenThousand: 800) else {
            return
        }
        backupMaximum = random.pick([1_000, 5_000, 50_000])
    }

    /// Whether clients keep messages, and how many a conversation has; drawn apart from the other
    /// habits, so that runs without it are as they were.
    mutating func drawHistory(_ options: SimulationOptions) {
        var random = SimulationRandom(seed: options.seed ^ 0x68_6973_746F_7269)
        guard options.faults.contains(.history), random.happens(perTenThousand: 2_000) else {
            return
        }
        historyInterval = random.pick([5, 20, 100])
        limits.historyCountMaximum = random.pick([3, 20, 10_000, 10_000])
        // MQTT clients do not say that a message is not to be kept.
        limits.appPolicy.keepsHistory =
            random.happens(perTenThousand: 5_000) && clients.allSatisfy { $0.mqtt == nil }
    }

    /// Which topics have history; drawn apart from the other habits, so that runs without it are as
    /// they were.
    mutating func drawTopicHistory(_ options: SimulationOptions) {
        var random = SimulationRandom(seed: options.seed ^ 0x74_6F_7069_6373)
        // With history by default, clients say of each send to users whether it is kept.
        guard options.faults.contains(.topicHistory), !limits.appPolicy.keepsHistory,
            random.happens(perTenThousand: 2_000)
        else { return }
        if historyInterval == nil { historyInterval = random.pick([5, 20, 100]) }
        limits.appPolicy.historyTopics = random.pick([["#"], ["a/+"], ["a", "+/c", "deep/#"]])
            .map { Array($0.utf8) }
    }

    /// Whether a send is kept without its sender's asking.
    func keepsTopic(_ receivers: Receivers, _ grade: MRT.Grade) -> Bool {
        guard case .topic(let topic) = receivers, grade != .transient else { return false }
        return keepsTopic(topic)
    }

    /// Whether numbered publications on a topic are kept.
    func keepsTopic(_ topic: Int) -> Bool {
        limits.appPolicy.historyTopics.contains {
            Oracle.matches(
                topic: Profile.topics[topic], filter: String(decoding: $0, as: UTF8.self))
        }
    }

    /// Topics with history, by index.
    var keptTopics: [Int] { Profile.topics.indices.filter(keepsTopic) }

    /// Whether clients ask for receipts; drawn apart from the other habits, so that runs without it
    /// are as they were.
    mutating func drawReceipts(_ options: SimulationOptions) {
        var random = SimulationRandom(seed: options.seed ^ 0x72_6563_6569_7074)
        guard options.faults.contains(.receipts), random.happens(perTenThousand: 2_000) else {
            return
        }
        receiptInterval = random.pick([5, 20, 100])
    }

    /// Which devices pull; drawn apart from the other habits, so that runs without it are as they
    /// were.
    mutating func drawPulls(_ options: SimulationOptions) {
        var random = SimulationRandom(seed: options.seed ^ 0x70_756C_6C73)
        guard options.faults.contains(.pulls), historyInterval != nil,
            random.happens(perTenThousand: 5_000)
        else { return }
        let pulling = (0..<deviceCount).filter { _ in random.happens(perTenThousand: 5_000) }
        for client in clients.indices
        where clients[client].mqtt == nil && pulling.contains(clients[client].device) {
            clients[client].pulls = true
        }
    }

    /// Whether clients recall and replace messages; drawn apart from the other habits, so that runs
    /// without it are as they were.
    mutating func drawRevisions(_ options: SimulationOptions) {
        var random = SimulationRandom(seed: options.seed ^ 0x72_6563_616C_6C)
        guard options.faults.contains(.revisions), random.happens(perTenThousand: 2_000) else {
            return
        }
        revisionInterval = random.pick([5, 20, 100])
    }

    /// Faults that these habits need.
    mutating func drawHabitFaults(_ faults: Faults) {
        guard habits.contains(.changesShare) || habits.contains(.repeatsIdentifier) else { return }
        for (fault, weight) in [
            (Faults.crashes, 2), (.restarts, 2), (.fullStore, 2),
        ] where faults.contains(fault) {
            faultWeights.append((fault, weight))
        }
        faultInterval = max(faultInterval, 500)
    }

    /// A user with two devices whose sessions end at different times.
    private mutating func drawSiblings(_ random: inout SimulationRandom) {
        siblings = userCount
        for seconds in [20, 60] as [UInt32] {
            var habits = ClientHabits(
                user: userCount, device: deviceCount, sessionExpirySeconds: seconds,
                keepAliveSeconds: 10, inboxWindow: 5,
                acknowledgementDelayMilliseconds: random.pick([0, 50]))
            habits.isSibling = true
            clients.append(habits)
            deviceCount += 1
        }
        userCount += 1
    }

    /// MQTT clients whose packet identifiers are reused soon, and a short memory of message ids.
    private mutating func drawRepeaters(_ random: inout SimulationRandom) {
        limits.sendWindowMaximum = UInt16(random.pick([2, 3, 8]))
        for client in clients.indices where clients[client].mqtt?.version == .v5 {
            clients[client].mqtt?.identifierMaximum = 30
            clients[client].mqtt?.inFlightMaximum = 20
            clients[client].sessionExpirySeconds = random.pick([20, .max])
        }
    }

    /// Devices of MQTT users that share a filter and whose sessions end with their connections.
    private mutating func drawLeavers(_ random: inout SimulationRandom) {
        guard
            let anchor = clients.firstIndex(where: {
                $0.mqtt?.isLate == false && $0.sessionExpirySeconds > 0
                    && restrictions[$0.user] == nil
            })
        else { return }
        // It stays, so every message that the others leave has a receiver.
        shareAnchor = anchor
        clients[anchor].mqtt?.sharedFilter = sharedFilter
        clients[anchor].mqtt?.keepsRecord = true
        clients[anchor].sessionExpirySeconds = .max
        clients[anchor].startsClean = false
        limits.queueCountMaximum = CoreLimits().queueCountMaximum
        limits.sessionExpirySecondsDefault = 604_800
        let known = clients[anchor]
        // The messages of a session that is not stored are lost with the broker: in half of these
        // runs there is no such session, and nothing may be lost.
        let isStored = random.happens(perTenThousand: 5_000)
        for _ in 0..<random.number(in: 1...2) {
            var habits = drawMQTTHabits(&random, user: known.user, isFirst: false)
            habits.sessionExpirySeconds = isStored ? 20 : 0
            habits.inboxWindow = UInt16(random.pick([2, 5, 64]))
            habits.acknowledgementDelayMilliseconds = random.pick([0, 1_000, 5_000])
            habits.mqtt?.sharedFilter = sharedFilter
            habits.mqtt?.userGrade = nil
            habits.mqtt?.broadcastGrade = nil
            clients.append(habits)
            deviceCount += 1
        }
        for client in clients.indices
        where clients[client].mqtt?.isLate == false && client != anchor
            && restrictions[clients[client].user] == nil
        {
            clients[client].mqtt?.sharedFilter = sharedFilter
            if isStored {
                clients[client].sessionExpirySeconds = max(clients[client].sessionExpirySeconds, 20)
            }
            clients[client].inboxWindow = 64
            clients[client].acknowledgementDelayMilliseconds = random.pick([50, 1_000, 5_000])
        }
    }
}
