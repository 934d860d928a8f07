// The program of the simulation, from its arguments to its exit code.

import BrokerSimulation
import CommandLineOptions
import Glibc

enum SimulationProgram {
    /// The default number of seeds: a few minutes at most.
    private static let seedCountDefault = 1_000

    static func run(_ arguments: ArraySlice<String>) -> ExitCode {
        do throws(UsageError) {
            switch try OptionParser<SimulationOption>.parse(arguments) {
            case .help:
                StandardStream.output.print(SimulationOption.helpPage)
                return .success
            case .run(let parsed) where parsed.has(.version):
                StandardStream.output.print("martlet-sim \(ProgramVersion.text)")
                return .success
            case .run(let parsed): return try run(parsed)
            }
        } catch {
            StandardStream.error.print("martlet-sim: \(error.message)\nSee martlet-sim --help")
            return .usage
        }
    }

    private static func run(
        _ parsed: ParsedOptions<SimulationOption>
    ) throws(UsageError) -> ExitCode {
        if parsed.has(.mutations) {
            for mutation in Mutation.allCases { StandardStream.output.print(mutation.rawValue) }
            return .success
        }
        let first = try SimulationOption.firstRun(parsed)
        let seedCount =
            try parsed.integer(.seeds, in: 1...1_000_000_000)
            ?? (parsed.has(.seed) ? 1 : seedCountDefault)
        TrapLine.install()
        if parsed.has(.verbose) { return tell(first) }
        return search(first, seedCount: seedCount)
    }

    /// One run, printing every event.
    private static func tell(_ options: SimulationOptions) -> ExitCode {
        TrapLine.set("trapped: \(options.command)")
        let report = SimulationRunner.run(options) { StandardStream.output.print($0) }
        guard let violation = report.violation else { return .success }
        StandardStream.error.print(
            "violated property: \(violation.property.rawValue)\n    \(violation.text)")
        return .failure
    }

    /// Seed after seed, until one fails.
    private static func search(_ first: SimulationOptions, seedCount: Int) -> ExitCode {
        var totals = Totals()
        var options = first
        let start = ContinuousClock.now
        for seed in 0..<seedCount {
            options.seed = first.seed + UInt64(seed)
            TrapLine.set("trapped: \(options.command)")
            let report = SimulationRunner.run(options)
            totals.add(report)
            guard report.violation == nil else {
                StandardStream.error.print(totals.text(since: start))
                StandardStream.error.print("seed \(options.seed) fails; shrinking")
                let shrunk = SimulationRunner.shrink(options)
                let failed = shrunk.violation == nil ? report : shrunk
                if let text = failed.failureText(revision: Revision.current()) {
                    StandardStream.error.print(text)
                }
                return .failure
            }
        }
        StandardStream.output.print(totals.text(since: start))
        return .success
    }
}

/// The sums over all runs.
private struct Totals {
    private var runs = 0
    private var steps = 0
    private var sends = 0
    private var received = 0
    private var deaths = 0
    private var excused = 0

    mutating func add(_ report: SimulationReport) {
        runs += 1
        steps += report.stepCount
        sends += report.sendCount
        received += report.receivedCount
        deaths += report.deathCount
        excused += report.excusedCount
    }

    func text(since start: ContinuousClock.Instant) -> String {
        let duration = start.duration(to: .now)
        let seconds =
            Double(duration.components.seconds)
            + Double(duration.components.attoseconds) / 1e18
        return "\(runs) seeds, \(steps) steps (\(Int(Double(steps) / seconds)) a second), "
            + "\(sends) sends, \(received) deliveries processed, \(deaths) deaths of the broker, "
            + "\(excused) excused"
    }
}
