// The statistics as `$SYS` topics, under Mosquitto's names where they exist, because dashboards use
// these. Values are text.

import BrokerCore
import Primitives

/// Computes the values of each publication.
struct SystemTopics {
    private static let prefix = "$SYS/broker/"

    /// The maximum of connected clients over all publications.
    private var clientsMaximum: UInt64 = 0
    private var averages: [LoadAverage] = LoadAverage.all
    private var lastRound: Instant?

    /// The values of one publication.
    mutating func values(
        _ statistics: BrokerStatistics, at now: Instant
    ) -> [SystemValue] {
        var counts: [String: UInt64] = [:]
        for statistic in statistics.rows { counts[statistic.name] = statistic.value }
        var values: [SystemValue] = []
        func add(_ name: String, _ text: String) {
            values.append(
                SystemValue(topic: Array((Self.prefix + name).utf8), payload: Array(text.utf8)))
        }
        func count(_ name: String) -> UInt64 { counts[name] ?? 0 }
        add("version", "martletd version \(statistics.version)")
        add("uptime", "\(statistics.uptimeSeconds) seconds")
        for statistic in statistics.rows { add(statistic.name, String(statistic.value)) }
        let (connected, total) = (count("clients/connected"), count("clients/total"))
        clientsMaximum = max(clientsMaximum, connected)
        add("clients/maximum", String(clientsMaximum))
        add("clients/disconnected", String(total - min(connected, total)))
        // Mosquitto has two names for each of these.
        add("clients/active", String(connected))
        add("clients/inactive", String(total - min(connected, total)))
        add("store/messages/count", String(count("messages/stored")))
        add("publish/messages/received", String(count("messages/received")))
        add("publish/messages/sent", String(count("messages/sent")))
        let dropped = statistics.rows.reduce(0) { sum, statistic in
            statistic.name.hasPrefix("messages/dropped/") ? sum + statistic.value : sum
        }
        add("publish/messages/dropped", String(dropped))
        add("heap/current", String(count("process/memory/bytes")))
        let milliseconds = lastRound.map { now.milliseconds(since: $0) } ?? 0
        lastRound = now
        for index in averages.indices {
            let source = averages[index].counter
            let value = source == "messages/dropped" ? dropped : count(source)
            averages[index].take(value, afterMilliseconds: milliseconds)
            for (name, text) in averages[index].texts { add(name, text) }
        }
        return values
    }
}

/// The growth of a counter per minute, as moving averages over one, five and fifteen minutes.
struct LoadAverage {
    /// Its name under `load/`.
    let name: String
    /// The counter it follows.
    let counter: String
    private var last: UInt64?
    private var perMinute: [Double] = [0, 0, 0]

    private static let minutes = [1, 5, 15]

    static let all = [
        LoadAverage(name: "messages/received", counter: "messages/received"),
        LoadAverage(name: "messages/sent", counter: "messages/sent"),
        LoadAverage(name: "publish/received", counter: "messages/received"),
        LoadAverage(name: "publish/sent", counter: "messages/sent"),
        LoadAverage(name: "publish/dropped", counter: "messages/dropped"),
        LoadAverage(name: "bytes/received", counter: "bytes/received"),
        LoadAverage(name: "bytes/sent", counter: "bytes/sent"),
        LoadAverage(name: "sockets", counter: "sockets/accepted"),
        LoadAverage(name: "connections", counter: "connects/accepted"),
    ]

    init(name: String, counter: String) {
        self.name = name
        self.counter = counter
    }

    /// Adds the counter's value of the next publication. Each average moves towards the current
    /// rate by the interval's share of its period. This approximates the exponential average of the
    /// kernel's load average, because intervals are short compared with a minute.
    mutating func take(_ value: UInt64, afterMilliseconds milliseconds: UInt64) {
        defer { last = value }
        guard let last, milliseconds > 0 else { return }
        let rate = Double(value &- last) * 60_000 / Double(milliseconds)
        for (index, minutes) in Self.minutes.enumerated() {
            let share = min(Double(milliseconds) / Double(minutes * 60_000), 1)
            perMinute[index] += (rate - perMinute[index]) * share
        }
    }

    /// Topics below the prefix and their values, with two decimal digits.
    var texts: [(String, String)] {
        zip(Self.minutes, perMinute).map { minutes, value in
            let hundredths = UInt64(max(0, value) * 100 + 0.5)
            let fraction = hundredths % 100
            return (
                "load/\(name)/\(minutes)min",
                "\(hundredths / 100).\(fraction < 10 ? "0" : "")\(fraction)"
            )
        }
    }
}
