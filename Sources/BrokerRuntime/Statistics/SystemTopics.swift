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
        _ statistics: BrokerStatistics, from sources: StatisticsSources, at now: Instant
    ) -> [SystemValue] {
        var values: [SystemValue] = []
        func add(_ name: String, _ text: String) {
            values.append(
                SystemValue(topic: Array((Self.prefix + name).utf8), payload: Array(text.utf8)))
        }
        add("version", "martletd version \(statistics.version)")
        add("uptime", "\(statistics.uptimeSeconds) seconds")
        for one in statistics.values { add(one.name, String(one.value)) }
        let connected = UInt64(sources.gauges.connections)
        let disconnected = UInt64(max(sources.gauges.sessions - sources.gauges.connections, 0))
        clientsMaximum = max(clientsMaximum, connected)
        add("clients/maximum", String(clientsMaximum))
        add("clients/disconnected", String(disconnected))
        // Mosquitto has two names for each of these.
        add("clients/active", String(connected))
        add("clients/inactive", String(disconnected))
        add("store/messages/count", String(sources.gauges.queuedMessages))
        add("publish/messages/received", String(sources.counters.sendsAccepted))
        add("publish/messages/sent", String(sources.counters.deliveries))
        add("publish/messages/dropped", String(sources.droppedCount))
        add("heap/current", String(sources.process.residentBytes))
        let milliseconds = lastRound.map { now.milliseconds(since: $0) } ?? 0
        lastRound = now
        for index in averages.indices {
            let value = averages[index].counter(sources)
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
    /// The counter that it follows.
    let counter: @Sendable (StatisticsSources) -> UInt64
    private var last: UInt64?
    private var perMinute: [Double] = [0, 0, 0]

    private static let minutes = [1, 5, 15]

    static let all = [
        LoadAverage(name: "messages/received") { $0.counters.sendsAccepted },
        LoadAverage(name: "messages/sent") { $0.counters.deliveries },
        LoadAverage(name: "publish/received") { $0.counters.sendsAccepted },
        LoadAverage(name: "publish/sent") { $0.counters.deliveries },
        LoadAverage(name: "publish/dropped") { $0.droppedCount },
        LoadAverage(name: "bytes/received") { $0.sum(\.bytesReceived) },
        LoadAverage(name: "bytes/sent") { $0.sum(\.bytesSent) },
        LoadAverage(name: "sockets") { $0.sum(\.accepted) },
        LoadAverage(name: "connections") { $0.counters.connectsAccepted },
    ]

    init(name: String, counter: @escaping @Sendable (StatisticsSources) -> UInt64) {
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
