// The services of some runs: a relay of wake-ups, or a moderator. They are drawn separately from
// the rest of the profile, and in no run both, so that they do not change a run without them.

import BrokerCore
import Primitives
import WireFormat

extension Profile {
    /// The wake-ups of this run, as the oracle expects them; nil for none.
    var wakePolicy: WakePolicy? { limits.appPolicy.wake }
    /// What a moderator decides on in this run; nil for none.
    var moderation: ModerationPolicy? { limits.appPolicy.moderation }

    mutating func drawServices(_ options: SimulationOptions) {
        var random = SimulationRandom(seed: options.seed ^ 0x73_6572_7669_6365)
        switch random.below(12) {
        case 0, 1, 2: if options.faults.contains(.wakes) { drawWakes(&random) }
        case 3, 4: if options.faults.contains(.moderation) { drawModeration(&random) }
        default: break
        }
    }

    private mutating func drawWakes(_ random: inout SimulationRandom) {
        services = [.relay]
        // Little else happens, so that users sleep and are woken often.
        useInterval = max(useInterval, 100)
        latencyMaximum = min(latencyMaximum, 200)
        commitMaximum = min(commitMaximum, 100)
        serviceInterval = useInterval / 5
        var policy = WakePolicy(relay: Array(Service.relay.rawValue.utf8))
        policy.intervalSeconds = random.pick([1, 5, 60])
        // The text of a request names its message.
        policy.hasContents = true
        limits.appPolicy.wake = policy
        // A full queue of the relay loses requests, and one that expires need not arrive.
        limits.queueCountMaximum = CoreLimits().queueCountMaximum
        expiringSends = 0
        withoutServicesFaults()
    }

    private mutating func drawModeration(_ random: inout SimulationRandom) {
        services = [.moderator]
        serviceInterval = random.pick([100, 500, 2_000])
        var policy = ModerationPolicy(moderator: Array(Service.moderator.rawValue.utf8))
        policy.milliseconds = random.pick([100, 500, 2_000])
        policy.acceptsWhenSilent = random.happens(perTenThousand: 2_000)
        policy.coversUsers = random.happens(perTenThousand: 8_500)
        policy.coversGroups = random.happens(perTenThousand: 8_000)
        policy.coversEverybody = random.happens(perTenThousand: 8_000)
        policy.topics = random.pick([[], ["a/#"], ["#"]]).map { Array($0.utf8) }
        limits.appPolicy.moderation = policy
        // Replacements are refused, and a client before 5.0 is told that what is refused is
        // accepted.
        revisionInterval = nil
        for client in clients.indices where clients[client].mqtt != nil {
            clients[client].mqtt?.version = .v5
            // A will is refused with its login.
            clients[client].mqtt?.hasWills = false
        }
        withoutServicesFaults()
    }

    /// The oracle knows the times of requests by the wall clock, and nothing of what a backup
    /// forgets.
    private mutating func withoutServicesFaults() {
        backupMaximum = nil
        faultWeights.removeAll { $0.fault == .clockSteps }
    }
}
