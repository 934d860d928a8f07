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
    /// What docs/TESTING.md says of each: the property that its first seed violates.
    private struct Row {
        let property: String
        let seed: UInt64
    }

    private static let rows: [String: Row] = {
        let page = (try? String(contentsOfFile: pagePath, encoding: .utf8)) ?? ""
        var rows: [String: Row] = [:]
        for line in page.split(separator: "\n") where line.hasPrefix("| `") {
            let columns = line.dropFirst(2).dropLast(2).split(separator: " | ").map(String.init)
            guard columns.count == 4, let seed = UInt64(columns[3]) else { continue }
            let name = String(columns[0].dropFirst().dropLast())
            rows[name] = Row(property: columns[2], seed: seed)
        }
        return rows
    }()

    private static let writing = Mutex<Void>(())

    private static func write(_ row: Row, of mutation: Mutation) throws {
        try writing.withLock { _ in
            let page = try String(contentsOfFile: pagePath, encoding: .utf8)
            let lines = page.split(separator: "\n", omittingEmptySubsequences: false).map { line in
                guard line.hasPrefix("| `\(mutation.rawValue)` |") else { return String(line) }
                let columns = line.split(separator: " | ")
                return "\(columns[0]) | \(columns[1]) | \(row.property) | \(row.seed) |"
            }
            try lines.joined(separator: "\n").write(
                toFile: pagePath, atomically: true, encoding: .utf8)
        }
    }

    /// How many are tried where the seed of the page finds it no longer.
    private static let seedMaximum: UInt64 = 200

    /// Runs without a planted bug, the controls: many bugs share one.
    private static let controls = Mutex<[SimulationOptions: Bool]>([:])

    private static func isSound(_ options: SimulationOptions) -> Bool {
        if let known = controls.withLock({ $0[options] }) { return known }
        let isSound = SimulationRunner.run(options).violation == nil
        controls.withLock { $0[options] = isSound }
        return isSound
    }

    /// The property that a seed violates with a planted bug, and without it does not.
    private static func finding(of mutation: Mutation, seed: UInt64) -> Property? {
        var options = SimulationOptions(seed: seed, showing: mutation)
        guard let violation = SimulationRunner.run(options).violation else { return nil }
        options.mutation = nil
        return isSound(options) ? violation.property : nil
    }

    /// The seed of docs/TESTING.md is tried first. A change of the code moves seeds and may let
    /// another property find a bug: MARTLET_UPDATE_DOCS=1 writes the rows, whose difference is to
    /// be read.
    @Test(arguments: Mutation.allCases)
    func `is found by its seed or one of two hundred, which violates no property without it`(
        mutation: Mutation
    ) throws {
        let known = Self.rows[mutation.rawValue].map { [$0.seed] } ?? []
        for seed in known + Array(1...Self.seedMaximum) {
            guard let property = Self.finding(of: mutation, seed: seed) else { continue }
            if ProcessInfo.processInfo.environment["MARTLET_UPDATE_DOCS"] == "1" {
                try Self.write(Row(property: property.rawValue, seed: seed), of: mutation)
            }
            return
        }
        Issue.record("\(mutation.rawValue) is not found")
    }

    /// The lease is all that stops a standby: no other property may have found the bug by chance.
    @Test func `of the lease is found by the silence of deposed primaries`() throws {
        let row = try #require(Self.rows[Mutation.hastyTakeover.rawValue])
        #expect(Self.finding(of: .hastyTakeover, seed: row.seed) == .deposedIsSilent)
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
