// `martlet stats`: the broker's counters, once or every second.

import Administration
import CommandLineOptions
import Glibc

enum StatsOption: String, AdministrationRules {
    case data, server, ca, token, watch, json

    var shape: OptionShape { self == .watch || self == .json ? .flag : .value }
}

enum StatsCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<StatsOption>.options(arguments)
        let broker = try options.administration()
        var earlier: [String: UInt64] = [:]
        while true {
            let reply = try broker.send(ReadStatistics())
            let isTaken = StandardStream.output.print(
                options.has(.json) ? json(reply) : text(reply, earlier))
            guard options.has(.watch), isTaken else { return }
            earlier = values(of: reply)
            sleep(1)
        }
    }

    /// One line per counter, with its change since the last time.
    private static func text(
        _ reply: ReadStatistics.Reply, _ earlier: [String: UInt64]
    ) -> String {
        let width = reply.counters.map(\.name.count).max() ?? 0
        var lines = ["martletd \(printable(reply.brokerVersion)), up \(reply.uptimeSeconds) s"]
        for counter in reply.counters {
            let padding = String(repeating: " ", count: width - counter.name.count)
            var line = "\(printable(counter.name))\(padding)  \(counter.value)"
            if let before = earlier[counter.name], before != counter.value {
                let change = Int64(clamping: counter.value) - Int64(clamping: before)
                line += change > 0 ? "  +\(change)" : "  \(change)"
            }
            lines.append(line)
        }
        return lines.joined(separator: "\n")
    }

    private static func json(_ reply: ReadStatistics.Reply) -> String {
        jsonLine(
            StatisticsLine(
                version: reply.brokerVersion, uptimeSeconds: reply.uptimeSeconds,
                counters: values(of: reply)))
    }

    private static func values(of reply: ReadStatistics.Reply) -> [String: UInt64] {
        Dictionary(reply.counters.map { ($0.name, $0.value) }) { $1 }
    }
}

/// The JSON output of `martlet stats`.
private struct StatisticsLine: Encodable {
    let version: String
    let uptimeSeconds: UInt64
    let counters: [String: UInt64]
}
