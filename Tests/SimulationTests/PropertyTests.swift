// The properties of docs/TESTING.md, checked in the simulation with as many seeds as a test run has
// time for. `make sim` runs more.

import BrokerSimulation
import FoundationEssentials
import Synchronization
import Testing

@Suite struct `The simulated broker` {
    /// Each case runs ten seeds.
    @Test(arguments: 0..<6 as Range<UInt64>)
    func `violates no property, whatever fails`(decade: UInt64) {
        for seed in decade * 10 + 1...decade * 10 + 10 {
            let report = SimulationRunner.run(SimulationOptions(seed: seed))
            if let text = report.failureText(revision: "this checkout") {
                Issue.record("\(text)")
            }
            #expect(report.sendCount > 0)
        }
    }

    /// Seeds that found a fault of the broker. 732364: an MQTT client with as many
    /// unanswered publications as it may have waited for its own acknowledgement, which the broker
    /// did not read.
    @Test(arguments: [732_364] as [UInt64])
    func `violates no property with seeds that found a fault`(seed: UInt64) {
        let report = SimulationRunner.run(SimulationOptions(seed: seed))
        if let text = report.failureText(revision: "this checkout") { Issue.record("\(text)") }
    }

    /// Three nodes that share a log. Each case runs three seeds.
    @Test(arguments: 0..<4 as Range<UInt64>)
    func `violates no property as a cluster, whatever fails`(group: UInt64) {
        for seed in group * 3 + 1...group * 3 + 3 {
            let report = SimulationRunner.run(
                SimulationOptions(seed: seed, stepMaximum: 4_000, faults: .cluster, nodeCount: 3))
            if let text = report.failureText(revision: "this checkout") {
                Issue.record("\(text)")
            }
            #expect(report.sendCount > 0)
        }
    }

    @Test func `violates no property without faults`() {
        for seed in 1...10 as ClosedRange<UInt64> {
            let report = SimulationRunner.run(SimulationOptions(seed: seed, faults: []))
            #expect(report.violation == nil)
            #expect(report.deathCount == 0)
        }
    }

    @Test func `is repeatable for a seed, and differs for another`() {
        let reports = [7, 7, 8].map {
            SimulationRunner.run(SimulationOptions(seed: $0, stepMaximum: 1_000))
        }
        #expect(reports[0].fingerprint == reports[1].fingerprint)
        #expect(reports[0].stepCount == reports[1].stepCount)
        #expect(reports[0].fingerprint != reports[2].fingerprint)
    }
}

@Suite struct `A planted bug` {
    /// The first seed that finds each, as in docs/TESTING.md; a mutation that is not listed here
    /// is searched from the first seed on.
    private static let knownSeeds: [Mutation: UInt64] = [
        .unaskedRow: 56,
        .canary: 1,
        .lostCommit: 7,
        .earlyResult: 14,
        .tornCommit: 76,
        .greedyAcknowledgement: 1,
        .forgottenAcknowledgement: 1,
        .forgottenOutbox: 15,
        .forgottenResults: 37,
        .forgottenSubscription: 7,
        .forgottenQueue: 7,
        .oldBackup: 6,
        .fastClock: 1,
        .swappedLoad: 2,
        .skippedLoad: 1,
        .steppedClock: 21,
        .reusedInboxNumber: 6,
        .repeatedWill: 6,
        .lostWill: 6,
        .keptMember: 27,
        .lostMember: 40,
        .swappedTurns: 31,
        .lostWakeUp: 2,
        .overtakenOnce: 2,
        .hastyOnce: 1,
        .rememberedRefusal: 56,
        .kickLosesMessages: 62,
        .hastyWill: 69,
        .keptWill: 6,
        .ignoredWindow: 2,
        .forgottenExpiry: 28,
        .swappedEvents: 1,
        .swappedDeliveries: 2,
        .repeatedDelivery: 1,
        .lostEffects: 1,
        .lostDelivery: 22,
        .namelessResult: 1,
        .unmarkedDuplicate: 6,
        .ignoredBudget: 6,
        .lostBytes: 1,
        .earlyAcknowledgement: 18,
        .lateRecord: 29,
        .reusedNumber: 7,
        .lateSendRecord: 4,
        .hastyReception: 21,
        .forgottenIdentifier: 15,
        .earlyForgetting: 53,
        .repeatedPublication: 15,
        .forgottenReception: 8,
        .unflaggedRepetition: 8,
        .swappedAnswers: 1,
        .forgottenRetained: 260,
        .keptRetained: 457,
        .leaverLosesShare: 8,
        .lateIdentifier: 12,
        .wideSending: 1,
        .wideSubscribing: 1,
        .repeatedResult: 1,
        .keptIdentifier: 156,
        .unheededFull: 111,
        .lostTransfer: 2,
        .keptRefusal: 348,
        .lostMove: 57,
        .refusedMove: 136,
        .forgottenShare: 449,
        .discardedMessages: 474,
        .forgottenBackup: 1683,
        .repeatedRefusal: 6,
        .silentRefusal: 4,
        .uncheckedWill: 5,
        .rawNames: 2,
        .forgottenDelay: 33,
        .deafHost: 8,
        .lostHistory: 5,
        .lostTopicHistory: 24,
        .swappedHistory: 38,
        .skippedPage: 5,
        .forgottenMark: 18,
        .ownIsUnread: 18,
        .forgottenPull: 250,
        .forgottenNotices: 2,
        .lostReceipt: 2,
        .foreignReceipt: 2,
        .forgottenTelling: 51,
        .lostRecall: 14,
        .keptContent: 144,
        .ignoredKey: 101,
        .lostWake: 79,
        .lostRequest: 2,
        .keptWake: 2,
        .forgottenTarget: 37,
        .forgottenAsking: 37,
        .forgottenTemplate: 80,
        .forgottenLogout: 246,
        .unheededLogout: 75,
        .transientWake: 53,
        .hastyWake: 8,
        .crossedVerdicts: 11,
        .keptOriginal: 1,
        .hiddenVerdict: 1,
        .lostHeld: 1,
        .acceptedSilence: 11,
        .unaskedMessages: 1,
        .crossedChannels: 11,
        .gatewayEndsWills: 1,
        .ignoredLease: 6,
        .lastTryLease: 140,
        .stoppedClock: 6,
        .ignoredFence: 4,
        .hastyTakeover: 1365,
        .blindTakeover: 3,
        .uncheckedAppend: 3,
        .earlyRelease: 4,
        .believedWrongLast: 3,
        .believedTimeout: 3,
        .believedFull: 4,
        .keptResult: 7,
        .unsyncedLog: 7,
        .skippedRecord: 1,
        .unsaidRefusal: 79,
        .keptExpired: 5,
        .earlyCommit: 3,
        .earlyPosition: 7,
        .lostLocalCommit: 1,
        .copyWithoutRows: 109,
        .earlyApplied: 1,
        .staleCore: 4,
        .unseenGap: 4,
        .encodedRefusal: 7,
    ]
    /// A change of the code moves seeds; none may need more than these.
    private static let seedMaximum: UInt64 = 200

    /// Runs without a planted bug, the controls: many bugs share one.
    private static let controls = Mutex<[SimulationOptions: Bool]>([:])

    private static func isSound(_ options: SimulationOptions) -> Bool {
        if let known = controls.withLock({ $0[options] }) { return known }
        let isSound = SimulationRunner.run(options).violation == nil
        controls.withLock { $0[options] = isSound }
        return isSound
    }

    @Test(arguments: Mutation.allCases)
    func `is found within two hundred seeds that violate no property without it`(mutation: Mutation)
    {
        let known = Self.knownSeeds[mutation].map { [$0] } ?? []
        let seed = (known + Array(1...Self.seedMaximum)).first { seed in
            var options = SimulationOptions(
                seed: seed, stepMaximum: mutation.stepMaximum, faults: mutation.faults,
                mutation: mutation, nodeCount: mutation.nodeCount)
            guard SimulationRunner.run(options).violation != nil else { return false }
            options.mutation = nil
            return Self.isSound(options)
        }
        #expect(seed != nil, "\(mutation.rawValue) is not found")
    }

    @Test func `is one of at least thirty, each described in the documentation`() throws {
        let page = try String(contentsOfFile: Self.pagePath, encoding: .utf8)
        #expect(Mutation.allCases.count > 30)
        for mutation in Mutation.allCases {
            #expect(page.contains("| `\(mutation.rawValue)` |"), "\(mutation.rawValue)")
        }
    }

    private static let pagePath =
        #filePath.split(separator: "/").dropLast(3).reduce("") { "\($0)/\($1)" }
        + "/docs/TESTING.md"

    @Test func `of the oracle fails every run`() {
        for seed in 1...5 as ClosedRange<UInt64> {
            let report = SimulationRunner.run(
                SimulationOptions(seed: seed, stepMaximum: 300, mutation: .canary))
            #expect(report.violation?.property == .acknowledgedIsKept)
        }
    }

    @Test func `is reported with the command that repeats it and the history of its message`()
        throws
    {
        let options = try #require(
            (1...Self.seedMaximum).lazy.map {
                SimulationOptions(seed: $0, stepMaximum: 500, mutation: .swappedEvents)
            }.first { SimulationRunner.run($0).violation != nil })
        let shrunk = SimulationRunner.shrink(options)
        let text = try #require(shrunk.failureText(revision: "abc"))
        #expect(shrunk.options.stepMaximum < options.stepMaximum)
        #expect(text.contains("repeat: martlet-sim --seed \(options.seed) --steps "))
        #expect(text.contains("--mutation swapped-events    # at abc"))
        #expect(text.contains("reached the broker"))
        let again = SimulationRunner.run(shrunk.options)
        #expect(again.violation == shrunk.violation)
    }
}
