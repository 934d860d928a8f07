// The state that all parts of a run share: time, random numbers, the event queue, the oracle.

import BrokerCore
import Primitives

final class SimulationContext {
    let options: SimulationOptions
    let profile: Profile
    let oracle: Oracle
    let history: History

    /// Broker time, which is the true time here. It does not begin at 0, so that a forgotten
    /// instant is detected.
    private(set) var now = Instant(milliseconds: 1_000_000)
    var eventQueue = EventQueue()
    /// The faults have ended: nothing is lost from now on, and everything must come to rest.
    var isRecovering = false { didSet { recoverySince = now } }
    private(set) var recoverySince = Instant.never

    /// Random numbers of the network, of clients' power, of what clients do, of faults, and of the
    /// broker's epochs and cookies.
    var networkRandom: SimulationRandom
    var powerRandom: SimulationRandom
    var useRandom: SimulationRandom
    var faultRandom: SimulationRandom
    var secretRandom: SimulationRandom
    var storeRandom: SimulationRandom
    private var mutationRandom: SimulationRandom
    /// Random numbers of habits; separate, so that they do not change other runs.
    var habitRandom: SimulationRandom
    /// Random numbers of what clients do with conversations.
    var historyRandom: SimulationRandom
    /// Those of receipts.
    var receiptRandom: SimulationRandom
    /// Those of recalls and replacements.
    var revisionRandom: SimulationRandom
    /// Those of relays and moderators.
    var serviceRandom: SimulationRandom
    /// For a planted bug: sends that wait for a verdict.
    var plantedHeld: Set<PlantedRefusal> = []
    /// For a planted bug: sends that were refused.
    var plantedRefusals: Set<PlantedRefusal> = []
    /// For another: bytes of lists and texts of groups.
    var unaskedByteCount = 0
    /// For another: identifiers of MQTT clients that are in use.
    var plantedIdentifiers: Set<PlantedIdentifier> = []

    init(_ options: SimulationOptions, _ history: History) {
        self.options = options
        profile = Profile(options)
        self.history = history
        oracle = Oracle(profile, history)
        var random = SimulationRandom(seed: options.seed)
        networkRandom = random.fork()
        powerRandom = random.fork()
        useRandom = random.fork()
        faultRandom = random.fork()
        secretRandom = random.fork()
        storeRandom = random.fork()
        mutationRandom = random.fork()
        habitRandom = SimulationRandom(seed: options.seed ^ 0x68_6162_6974)
        historyRandom = SimulationRandom(seed: options.seed ^ 0x68_6973_746F_7279)
        receiptRandom = SimulationRandom(seed: options.seed ^ 0x746F_6C64)
        revisionRandom = SimulationRandom(seed: options.seed ^ 0x7265_7669_7365)
        serviceRandom = SimulationRandom(seed: options.seed ^ 0x7365_7276_6963_6573)
    }

    /// Unix time of broker time 0: some day of 2025.
    static let unixStart: UInt64 = 1_750_000_000_000
    /// The offset of the wall clock so far; it never goes back before its start.
    var clockStep: UInt64 = 0

    var moment: Moment {
        Moment(
            instant: now,
            unixMilliseconds: SimulationContext.unixStart + now.milliseconds + clockStep)
    }

    func advance(to time: Instant) {
        precondition(
            time >= now, "time goes back from \(now.milliseconds) to \(time.milliseconds) ms")
        now = time
        history.now = time
        oracle.now = time
    }

    func enter(_ occurrence: Occurrence, after milliseconds: UInt64) {
        eventQueue.enter(occurrence, at: now.advanced(byMilliseconds: milliseconds))
    }

    /// Whether this is the run's planted bug.
    func has(_ mutation: Mutation) -> Bool { options.mutation == mutation }

    /// Whether a planted bug that shows only sometimes shows now.
    func misbehaves(_ mutation: Mutation, perTenThousand: Int) -> Bool {
        has(mutation) && mutationRandom.happens(perTenThousand: perTenThousand)
    }
}
