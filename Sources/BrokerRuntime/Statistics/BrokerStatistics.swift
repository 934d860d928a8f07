// The statistics of a broker at one moment: what they are read from, and their rows.

import Administration
import BrokerCore
import NetTransport

/// A number of the broker, by its name.
struct Statistic {
    /// A value and its kind.
    enum Measure {
        /// It only increases.
        case counter(UInt64)
        /// It may also decrease.
        case gauge(UInt64)
    }

    /// As under `$SYS/broker/`: `clients/connected`.
    let name: String
    let measure: Measure

    var value: UInt64 {
        switch measure {
        case .counter(let value), .gauge(let value): value
        }
    }

    var isGauge: Bool {
        switch measure {
        case .counter: false
        case .gauge: true
        }
    }
}

/// What the statistics are read from.
struct StatisticsSources {
    /// Requests to the HTTP API.
    struct API {
        let requests: UInt64
        /// Credentials that were refused.
        let failures: UInt64
    }

    let counters: Counters
    let gauges: Gauges
    let loops: [LoopCounters]
    let rates: ClientRates.Counts
    let web: WebListeners.Counts
    let api: API
    let process: ProcessUsage
    let expiry: TrustExpiry
}

/// The statistics of one moment.
struct BrokerStatistics {
    /// The version of the broker.
    let version: String
    let uptimeSeconds: UInt64
    let rows: [Statistic]

    /// For `martlet stats`.
    func reply(latencies: ReadStatistics.Latencies) -> ReadStatistics.Reply {
        ReadStatistics.Reply(
            brokerVersion: version, uptimeSeconds: uptimeSeconds,
            counters: rows.map { ReadStatistics.Counter(name: $0.name, value: $0.value) },
            latencies: latencies)
    }
}
