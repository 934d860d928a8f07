// The histograms of the metrics: which there are, and how each is shown.

import BrokerCore
import NetTransport
import Primitives

/// A histogram and how it is shown.
struct MetricHistogram {
    let name: String
    let help: String
    /// The buckets that are shown end at the powers of two with these exponents; a last one counts
    /// everything.
    let exponents: ClosedRange<Int>
    let unit: Unit
    let values: Histogram

    /// The unit of the values that are shown.
    enum Unit: String {
        /// The values are microseconds.
        case seconds
        case messages
        case bytes
    }

    /// Those of a broker.
    ///
    /// - Parameter commits: of the stores of all shards.
    static func all(_ times: BrokerTimes, of commits: [CommitMeasurements]) -> [MetricHistogram] {
        func sum(_ histogram: (CommitMeasurements) -> PublishedHistogram) -> Histogram {
            commits.reduce(into: Histogram()) { $0 += histogram($1).read() }
        }
        return [
            MetricHistogram(
                name: "martlet_loop_turn_duration_seconds",
                help: "Time of a turn of an event loop, without its wait for events",
                exponents: 4...24, unit: .seconds, values: times.turn),
            MetricHistogram(
                name: "martlet_message_delivery_duration_seconds",
                help: "Time from the acceptance of a message until the turn that sent it ended",
                exponents: 6...26, unit: .seconds, values: times.delivery),
            MetricHistogram(
                name: "martlet_message_acknowledgement_duration_seconds",
                help: "Time from the acceptance of a message until its sender was told",
                exponents: 6...26, unit: .seconds, values: times.acknowledgement),
            MetricHistogram(
                name: "martlet_store_commit_duration_seconds",
                help: "Time of a commit of the store, with its sync", exponents: 6...26,
                unit: .seconds, values: times.commit),
            MetricHistogram(
                name: "martlet_store_commit_messages", help: "Messages that a commit stored",
                exponents: 0...16, unit: .messages, values: sum { $0.messageCounts }),
            MetricHistogram(
                name: "martlet_store_commit_bytes", help: "Size of the messages of a commit",
                exponents: 8...28, unit: .bytes, values: sum { $0.byteCounts }),
        ]
    }

    /// The samples.
    var samples: String {
        var text = ""
        var count: UInt64 = 0
        for bucket in 0..<Histogram.bucketCount {
            count += values.counts[bucket]
            guard exponents.contains(bucket) else { continue }
            text += "\(name)_bucket{le=\"\(shown(1 << UInt64(bucket), isBound: true))\"} \(count)\n"
        }
        // The sum of the same counts, so that no bucket is above the last one.
        return text + "\(name)_bucket{le=\"+Inf\"} \(count)\n\(name)_sum \(shown(values.sum))\n"
            + "\(name)_count \(count)\n"
    }

    /// A value in base units. OpenMetrics writes bounds with a point.
    private func shown(_ value: UInt64, isBound: Bool = false) -> String {
        guard unit == .seconds else { return isBound ? "\(value).0" : "\(value)" }
        let digits = String(value % 1_000_000)
        let fraction = String(repeating: "0", count: 6 - digits.count) + digits
        let end = fraction.lastIndex { $0 != "0" } ?? fraction.startIndex
        return "\(value / 1_000_000).\(fraction[...end])"
    }
}
