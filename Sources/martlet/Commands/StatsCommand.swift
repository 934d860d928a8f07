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
        var earlier: ReadStatistics.Reply?
        while true {
            let reply = try broker.send(ReadStatistics())
            let isTaken = StandardStream.output.print(
                options.has(.json) ? json(reply) : text(reply, since: earlier))
            guard options.has(.watch), isTaken else { return }
            earlier = reply
            sleep(1)
        }
    }

    /// One line per counter, with its change since the last time, then the latencies, then the
    /// counters of each of several shards.
    private static func text(
        _ reply: ReadStatistics.Reply, since earlierReply: ReadStatistics.Reply?
    ) -> String {
        let earlier = earlierReply.map(values) ?? [:]
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
        lines.append(
            latency(of: "acknowledgements", reply, since: earlierReply, in: \.acknowledgement))
        lines.append(latency(of: "deliveries", reply, since: earlierReply, in: \.delivery))
        lines.append(latency(of: "turns", reply, since: earlierReply, in: \.turn))
        lines.append(latency(of: "commits", reply, since: earlierReply, in: \.commit))
        for shard in reply.shards ?? [] {
            lines.append("shard \(printable(shard.name)):")
            let width = shard.counters.map(\.name.count).max() ?? 0
            for counter in shard.counters {
                let padding = String(repeating: " ", count: width - counter.name.count)
                lines.append("  \(printable(counter.name))\(padding)  \(counter.value)")
            }
        }
        return lines.joined(separator: "\n")
    }

    /// How long half of the things and 99 of 100 took at most, since the last time or since the
    /// broker's start.
    private static func latency(
        of name: String, _ reply: ReadStatistics.Reply, since earlier: ReadStatistics.Reply?,
        in buckets: KeyPath<ReadStatistics.Latencies, [ReadStatistics.Bucket]>
    ) -> String {
        var counts: [UInt64: UInt64] = [:]
        for bucket in reply.latencies[keyPath: buckets] {
            counts[bucket.upToMicroseconds] = bucket.count
        }
        for bucket in earlier?.latencies[keyPath: buckets] ?? [] {
            counts[bucket.upToMicroseconds, default: 0] &-= bucket.count
        }
        let total = counts.values.reduce(0, &+)
        guard total > 0 else { return "\(name): none" }
        func quantile(_ hundredths: Double) -> String {
            var below: UInt64 = 0
            for (bound, count) in counts.sorted(by: { $0.key < $1.key }) {
                below &+= count
                if Double(below) >= Double(total) * hundredths / 100 {
                    return bound < 1_000 ? "\(bound) µs" : "\(bound / 1_000) ms"
                }
            }
            return "none"
        }
        return "\(name): \(total), half within \(quantile(50)), 99 % within \(quantile(99))"
    }

    private static func json(_ reply: ReadStatistics.Reply) -> String {
        jsonLine(
            StatisticsLine(
                version: reply.brokerVersion, uptimeSeconds: reply.uptimeSeconds,
                counters: values(of: reply), latencies: reply.latencies,
                shards: reply.shards.map { shards in
                    Dictionary(shards.map { ($0.name, values(of: $0.counters)) }) { $1 }
                }))
    }

    private static func values(of reply: ReadStatistics.Reply) -> [String: UInt64] {
        values(of: reply.counters)
    }

    private static func values(of counters: [ReadStatistics.Counter]) -> [String: UInt64] {
        Dictionary(counters.map { ($0.name, $0.value) }) { $1 }
    }
}

/// The JSON output of `martlet stats`.
private struct StatisticsLine: Encodable {
    let version: String
    let uptimeSeconds: UInt64
    let counters: [String: UInt64]
    let latencies: ReadStatistics.Latencies
    /// By the names of the shards; absent if there is one.
    let shards: [String: [String: UInt64]]?
}
