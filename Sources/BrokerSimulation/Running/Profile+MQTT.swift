// The MQTT clients of a run. They are drawn separately from the rest of the profile, so that they
// do not change a run without MQTT.

import Primitives
import WireFormat

/// The properties of an MQTT client in addition to its ``ClientHabits``.
struct MQTTHabits {
    var version: MQTT.Version
    /// It keeps its half of the session in flash; otherwise it starts clean after a loss of power.
    var keepsRecord: Bool
    /// The maximum of QoS 1 and 2 publications in flight.
    var inFlightMaximum: Int
    /// The highest packet identifier that it uses: a small one is reused soon.
    var identifierMaximum: UInt16
    var topicAliasMaximum: UInt16
    /// Most of its connections have a will.
    var hasWills: Bool
    /// The QoS of its subscriptions to its user and everybody, from the beginning; nil for none.
    var userGrade: MRT.Grade?
    var broadcastGrade: MRT.Grade?
    /// The filter that it shares with others from the beginning, if any.
    var sharedFilter: Int?
    /// It starts when the faults are over, and subscribes to all topics: it receives the retained
    /// messages.
    var isLate = false
}

extension Profile {
    /// Adds users with MQTT devices, and MQTT devices to users who have others; or none.
    mutating func drawMQTT(seed: UInt64) {
        var random = SimulationRandom(seed: seed ^ 0x6D_717474)
        let count = random.pick([0, 1, 1, 2, 3, 4])
        guard count > 0 else { return }
        limits.sessionExpirySecondsDefault = random.pick([20, 300, 604_800])
        sharedFilter = random.below(Profile.filters.count)
        for _ in 0..<count {
            let isOfKnownUser = random.happens(perTenThousand: 1_500)
            let user = isOfKnownUser ? random.below(userCount) : userCount
            if !isOfKnownUser { userCount += 1 }
            clients.append(drawMQTTHabits(&random, user: user, isFirst: !isOfKnownUser))
            deviceCount += 1
            if !isOfKnownUser, random.happens(perTenThousand: 2_000) {
                clients.append(drawMQTTHabits(&random, user: user, isFirst: false))
                deviceCount += 1
            }
        }
        addLateDevice(&random)
    }

    /// Adds the user whose device is ``MQTTHabits/isLate``.
    private mutating func addLateDevice(_ random: inout SimulationRandom) {
        var habits = drawMQTTHabits(&random, user: userCount, isFirst: true)
        habits.mqtt?.isLate = true
        habits.mqtt?.sharedFilter = nil
        habits.acknowledgementDelayMilliseconds = 0
        clients.append(habits)
        userCount += 1
        deviceCount += 1
    }

    func drawMQTTHabits(
        _ random: inout SimulationRandom, user: Int, isFirst: Bool
    ) -> ClientHabits {
        let expiries: [UInt32] = isFirst ? [20, 300, .max, .max] : [0, 20, 300, .max]
        let version = random.pick([MQTT.Version.v311, .v5, .v5])
        var habits = ClientHabits(
            user: user, device: deviceCount, sessionExpirySeconds: random.pick(expiries),
            keepAliveSeconds: UInt16(random.pick([10, 60, 300])),
            inboxWindow: UInt16(random.pick([1, 2, 5, 64])),
            acknowledgementDelayMilliseconds: random.pick([0, 0, 50, 1_000]))
        // Before 5.0 a client that forgets would have to request a clean session first, and then
        // another one.
        let keepsRecord = version < .v5 || random.happens(perTenThousand: 8_000)
        habits.startsClean =
            !keepsRecord || version == .v5 && random.happens(perTenThousand: 1_000)
        let receivesUser = isFirst || random.happens(perTenThousand: 7_000)
        let receivesBroadcasts = random.happens(perTenThousand: 7_000)
        habits.mqtt = MQTTHabits(
            version: version, keepsRecord: keepsRecord,
            inFlightMaximum: random.pick([1, 2, 8, 20]),
            identifierMaximum: random.pick([40, 40, .max]),
            topicAliasMaximum: random.pick([0, 2, 16]),
            hasWills: random.happens(perTenThousand: 4_000),
            userGrade: receivesUser ? random.pick([.durable, .once]) : nil,
            broadcastGrade: receivesBroadcasts ? random.pick([.transient, .durable, .once]) : nil,
            sharedFilter: random.happens(perTenThousand: 4_000) ? sharedFilter : nil)
        return habits
    }
}
