// The statistics of a broker at one moment, and what they are read from.

import Administration
import BrokerCore
import NetTransport

/// What the statistics are read from.
struct StatisticsSources {
    /// Requests to the HTTP API.
    struct API {
        let requests: UInt64
        /// Credentials that were refused.
        let failures: UInt64
    }

    var counters: Counters
    var gauges: Gauges
    let loops: [LoopCounters]
    let rates: ClientRates.Counts
    let web: WebListeners.Counts
    let api: API
    let interfaces: SourceCounts
    var files = FileCounts()
    let passwords: PasswordVerifier.Counts
    let process: ProcessUsage
    let expiry: TrustExpiry
    /// Nil for a single broker.
    var cluster: ClusterView?

    /// The sum of a counter over the event loops.
    func sum(_ counter: (LoopCounters) -> UInt64) -> UInt64 {
        loops.reduce(0) { $0 + counter($1) }
    }

    /// Messages that were dropped, whatever the cause.
    var droppedCount: UInt64 {
        let dropped = StatisticsTable.all.filter { $0.name.hasPrefix("messages/dropped/") }
        return dropped.reduce(0) { $0 + ($1.value(self) ?? 0) }
    }
}

/// The statistics of one moment.
struct BrokerStatistics {
    /// The version of the broker.
    let version: String
    let uptimeSeconds: UInt64
    /// In the order of the table.
    let values: [StatisticValue]

    init(version: String, uptimeSeconds: UInt64, values: [StatisticValue]) {
        self.version = version
        self.uptimeSeconds = uptimeSeconds
        self.values = values
    }

    /// Those of ``StatisticsTable``.
    init(version: String, uptimeSeconds: UInt64, from sources: StatisticsSources) {
        self.init(
            version: version, uptimeSeconds: uptimeSeconds,
            values: StatisticsTable.all.compactMap { statistic in
                statistic.value(sources).map { StatisticValue(statistic: statistic, value: $0) }
            })
    }

    /// For `martlet stats`.
    func reply(latencies: ReadStatistics.Latencies) -> ReadStatistics.Reply {
        ReadStatistics.Reply(
            brokerVersion: version, uptimeSeconds: uptimeSeconds,
            counters: values.map { ReadStatistics.Counter(name: $0.name, value: $0.value) },
            latencies: latencies)
    }
}
