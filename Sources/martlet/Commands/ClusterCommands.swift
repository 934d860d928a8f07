// `martlet cluster`: a node of a cluster, on its own socket, because a standby has no broker.

import Administration
import CommandLineOptions

enum ClusterOption: String, OptionRules {
    case data, json, shard

    var shape: OptionShape { self == .json ? .flag : .value }
}

extension ParsedOptions<ClusterOption> {
    /// Asks the node that runs on a data directory.
    fileprivate func ask<Request: AdministrationRequest>(
        _ request: Request
    ) throws -> Request.Reply {
        let data = try needed(
            .data, variable: "MARTLET_DATA", meaning: "the data directory of the node")
        do {
            return try AdministrationClient(socketPath: "\(data)/\(ClusterLine.socketName)")
                .send(request)
        } catch AdministrationError.notRunning {
            throw CommandFailure(
                "no node of a cluster runs on \(data): martletd does not run, or runs without "
                    + "cluster.servers", .notConnected)
        }
    }
}

/// `martlet cluster status`
enum ClusterStatusCommand {
    /// What to say instead of "no broker runs" where a standby runs; nil if none does.
    ///
    /// - Parameter path: the socket that a broker would have.
    static func standbyAdvice(besideSocket path: String) -> String? {
        guard path.hasSuffix("/" + AdministrationLine.socketName) else { return nil }
        let directory = path.dropLast(AdministrationLine.socketName.utf8.count)
        guard
            let reply = try? AdministrationClient(
                socketPath: "\(directory)\(ClusterLine.socketName)"
            ).send(ShowCluster()), reply.nodes.first?.part == "standby"
        else { return nil }
        let primary = reply.nodes.first { $0.part == "primary" }
        return printable(
            "this node is a standby; "
                + (primary.map { "the primary is \($0.name) at \($0.address)" }
                    ?? "no primary is known"))
    }

    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<ClusterOption>.options(arguments)
        let reply = try options.ask(ShowCluster())
        if options.has(.json) {
            StandardStream.output.print(jsonLine(reply))
            return
        }
        for (index, node) in reply.nodes.enumerated() {
            let heard = index == 0 ? "this node" : "heard \(node.heardMilliseconds) ms ago"
            StandardStream.output.print(
                [
                    node.name, node.part, node.address, "record \(node.sequence)",
                    "lag \(node.lagRecords)", heard,
                ].map(printable).joined(separator: "  "))
        }
        StandardStream.output.print(
            "term \(reply.term), \(reply.hasLease ? "with" : "without") a lease here, durability "
                + printable(reply.durability))
        if let last = reply.lastRecord, let bytes = reply.logByteCount,
            let maximum = reply.logByteCountMaximum
        {
            StandardStream.output.print(
                "log: last record \(last), \(bytes >> 20) of \(maximum >> 20) MiB")
        } else {
            StandardStream.output.print("log: its state is not known")
        }
        for server in reply.servers {
            let state = server.isCurrent ? "current" : "lacks \(server.lag) operations"
            StandardStream.output.print(
                printable("server \(server.name)  \(server.isLeader ? "leader" : state)"))
        }
        for shard in reply.shards ?? [] {
            StandardStream.output.print(
                [
                    "shard \(shard.name)", shard.part, "term \(shard.term)",
                    "\(shard.hasLease ? "with" : "without") a lease",
                    "record \(shard.sequence)", "lag \(shard.lagRecords)",
                    shard.primary.isEmpty ? "no primary is known" : "primary \(shard.primary)",
                ].map(printable).joined(separator: "  "))
            for alarm in shard.alarms {
                StandardStream.output.print(printable("alarm: shard \(shard.name): \(alarm)"))
            }
        }
        // With shards, the default one's are told with it.
        for alarm in reply.shards == nil ? reply.alarms : [] {
            StandardStream.output.print(printable("alarm: \(alarm)"))
        }
    }
}

/// `martlet cluster step-down`
enum ClusterStepDownCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<ClusterOption>.options(arguments)
        let reply = try options.ask(StepDown(shard: options[.shard]))
        let what = options[.shard].map { "the primary of the shard \($0)" } ?? "the primary"
        StandardStream.output.print(
            options.has(.json)
                ? jsonLine(reply) : printable("\(what) gives its place to another node"))
    }
}
