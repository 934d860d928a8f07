// The command line of the simulation.

import BrokerSimulation
import CommandLineOptions

enum SimulationOption: String, OptionRules {
    case seed
    case seeds
    case steps
    case without
    case mutation
    case mutations
    case nodes
    case verbose
    case version
    case help

    var shape: OptionShape {
        switch self {
        case .seed, .seeds, .steps, .mutation, .nodes: .value
        case .without: .repeated
        case .mutations, .verbose, .version, .help: .flag
        }
    }

    static let helpPage = """
        martlet-sim: run the broker in a simulation

        Runs the real core, packets and client state machine with a simulated clock, network,
        store and power supply, and checks the broker's properties (docs/TESTING.md). The same
        seed gives the same run.

        Usage: martlet-sim [options]

          --seed=N           the first seed (default: 1)
          --seeds=N          number of seeds, one after the other (default: 1000; 1 with --seed)
          --steps=N          length of each run in steps (default: 2000)
          --without=FAULT    exclude a kind of fault; may be repeated:
                             \(Faults.names.map(\.name).joined(separator: ", "))
          --mutation=NAME    plant this bug, which a seed must find; steps, nodes and faults are
                             those that show it, unless options change them
          --mutations        list the bugs that can be planted
          --nodes=N          nodes of a cluster that shares a log, 2 to 5 (default: 1, no cluster)
          --verbose          print every event; the first seed only
          --version          print the version and exit
          -h, --help         print this page and exit

        A violated property is printed with a command that repeats the run, shortened in at most
        60 runs, and with the history of the message. The exit code is then 2.
        """

    /// The options of the first run.
    static func firstRun(
        _ parsed: ParsedOptions<SimulationOption>
    ) throws(UsageError) -> SimulationOptions {
        let seed = UInt64(try parsed.integer(.seed, in: 0...(.max)) ?? 1)
        var options = SimulationOptions(seed: seed)
        if let name = parsed[.mutation] {
            guard let mutation = Mutation(rawValue: name) else {
                throw UsageError("--mutation: no bug is named \"\(name)\"; see --mutations")
            }
            options = SimulationOptions(seed: seed, showing: mutation)
        }
        if let steps = try parsed.integer(.steps, in: 1...10_000_000) {
            options.stepMaximum = steps
        }
        if let nodeCount = try parsed.integer(.nodes, in: 1...5) {
            if nodeCount == 1, options.mutation?.isOfCluster == true {
                throw UsageError("--nodes: this bug is one of clusters")
            }
            options.nodeCount = nodeCount
            if nodeCount > 1 { options.faults = .cluster }
        }
        for name in parsed.all(.without) {
            guard let fault = Faults.names.first(where: { $0.name == name }) else {
                throw UsageError("--without: no fault is named \"\(name)\"")
            }
            options.faults.remove(fault.fault)
        }
        return options
    }
}
