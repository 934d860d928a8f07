// `martlet-bench compare`: the same loads for several brokers in turn, round after round, so that
// other load on the machine affects all alike. The results are ratios; the floor is the cost of the
// machine.

import CommandLineOptions
import Glibc

enum CompareOption: String, OptionRules {
    case rounds
    case seconds
    case subjects
    case only
    case write
    case programs

    var shape: OptionShape { .value }

    static let helpPage = """
        martlet-bench compare: measure several brokers under the same loads, in turn

          martlet-bench compare Bench/Scenarios/deliveries.json5
          martlet-bench compare --only 'fan-in' --rounds 1 Bench/Scenarios/*.json5

          --rounds N        measurements of each load with each broker (as in the file)
          --seconds S       duration of each measurement (as in the file)
          --subjects A,B    only these subjects of the file
          --only TEXT       only scenarios whose name contains the text
          --write FILE      write each file's table between the lines <!-- table NAME --> and
                            <!-- end --> of FILE; NAME is the name of the scenario file without
                            .json5
          --programs DIR    the directory of martletd (the one of martlet-bench)
          -h, --help        print this page and exit

        A scenario file is JSON5:

          {
              rounds: 3, seconds: 4,
              subjects: ["floor", "martlet", "mosquitto", "mine"],
              scenarios: [
                  // `load` is a command line of martlet-bench without address, dialect and
                  // duration. `measure` is the compared value: cpu (seconds per million), rate,
                  // p50, p99, idle (bytes per connection), written (bytes to disk per message) or
                  // memory (bytes per session); it may follow a phase: "drain rate". `goal` limits
                  // Martlet to a multiple of the floor, or requires a multiple of the best other
                  // broker. The floor of an offline load is LMDB alone.
                  {name: "fan-out 1000", load: "fanout -c 1000 -F 16", measure: "cpu",
                   goal: {floor: 1.5, best: 2}},
                  // A new process for each measurement, and only for some subjects.
                  {name: "idle", load: "connect -c 5000", measure: "idle", fresh: true,
                   subjects: ["martlet", "mosquitto"]},
              ],
              brokers: [
                  // {port}, {tlsPort}, {directory}, {certificate}, {key}, {user} and
                  // {configuration}, a file with the text below, are filled in.
                  {name: "mine", command: "mybroker -c {configuration}", dialect: "mqtt311",
                   configuration: "port {port}", tls: false},
              ],
          }

        Built in: floor, martlet (in mrt), martlet-mqtt311, martlet-mqtt5, mosquitto, nats, flashmq;
        those that are not installed are left out. Exit codes: 0, 1 command line or file, 2 a load
        lost, doubled or disordered a message.
        """
}

enum CompareCommand {
    static func run(_ arguments: ArraySlice<String>) throws(UsageError) -> ExitCode {
        let options: ParsedOptions<CompareOption>
        switch try OptionParser<CompareOption>.parse(arguments, positionalMaximum: 100) {
        case .help:
            StandardStream.output.print(CompareOption.helpPage)
            return .success
        case .run(let parsed): options = parsed
        }
        guard !options.positionals.isEmpty else {
            throw UsageError("missing FILE: martlet-bench compare FILE")
        }
        var files: [ScenarioFile] = []
        for path in options.positionals { files.append(try prepared(path, options)) }
        do throws(BenchFailure) {
            let programs = options[.programs] ?? BrokerLauncher.ownDirectory()
            var launcher = try BrokerLauncher(programs: programs)
            defer { launcher.close() }
            var isClean = true
            for file in files {
                let results = try Comparison.run(file, launcher: &launcher)
                isClean = isClean && results.faultCount == 0
                StandardStream.output.print(results.table(of: file))
                if let path = options[.write] {
                    let text = String(decoding: try HarnessFile.read(path), as: UTF8.self)
                    let table = results.table(of: file)
                    guard let replaced = Markers.replace(file.name, with: table, in: text) else {
                        throw BenchFailure("\(path) has no <!-- table \(file.name) -->")
                    }
                    try HarnessFile.write(replaced, to: path)
                }
            }
            return isClean ? .success : .failure
        } catch {
            StandardStream.error.print("martlet-bench: \(error.message)")
            return Interruption.exitCode ?? .failure
        }
    }

    /// A file, limited by the command line.
    private static func prepared(
        _ path: String, _ options: ParsedOptions<CompareOption>
    ) throws(UsageError) -> ScenarioFile {
        var file = try ScenarioFile(path: path)
        file.rounds = try options.integer(.rounds, in: 1...1000) ?? file.rounds
        file.seconds = try options.integer(.seconds, in: 1...86_400) ?? file.seconds
        if let text = options[.only] {
            file.scenarios.removeAll { !$0.name.contains(text) }
        }
        if let text = options[.subjects] {
            let wanted = text.split(separator: ",").map(String.init)
            file.subjects.removeAll { !wanted.contains($0) }
        }
        return file
    }
}

/// Parts of a document that a program writes.
enum Markers {
    /// The document with the lines between a table's marks replaced; nil if it has no such marks.
    static func replace(_ name: String, with table: String, in text: String) -> String? {
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        guard let start = lines.firstIndex(of: "<!-- table \(name) -->"),
            let end = lines[start...].firstIndex(of: "<!-- end -->")
        else { return nil }
        lines.replaceSubrange(start + 1..<end, with: [Substring(table)])
        return lines.joined(separator: "\n")
    }
}
