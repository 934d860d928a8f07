// How long things took in a broker since its start: what the metrics, the statistics and the
// dashboard show.

import Administration
import NetTransport
import Primitives

/// Histograms of times, in microseconds.
struct BrokerTimes {
    /// From the acceptance of a durable message until its sender was told.
    let acknowledgement: Histogram
    /// From the acceptance of a message until the turn that sent it ended.
    let delivery: Histogram
    /// A turn of an event loop, without its wait for events.
    let turn: Histogram
    /// A commit of the store, with its sync.
    let commit: Histogram

    /// Those of a broker now.
    init(of shards: Shards) {
        func sum(_ histogram: (LoopHandle) -> PublishedHistogram) -> Histogram {
            shards.loopHandles.reduce(into: Histogram()) { $0 += histogram($1).read() }
        }
        acknowledgement = shards.cores.reduce(into: Histogram()) { sum, core in
            sum += core.look { $0.acknowledgementTimes }
        }
        delivery = sum { $0.deliveryTimes }
        turn = sum { $0.turnTimes }
        commit = shards.cores.reduce(into: Histogram()) { $0 += $1.commits.times.read() }
    }

    /// For `martlet stats`.
    var reply: ReadStatistics.Latencies {
        ReadStatistics.Latencies(
            acknowledgement: Self.buckets(of: acknowledgement),
            delivery: Self.buckets(of: delivery), turn: Self.buckets(of: turn),
            commit: Self.buckets(of: commit))
    }

    /// The buckets that have values, the smallest first.
    private static func buckets(of histogram: Histogram) -> [ReadStatistics.Bucket] {
        (0..<Histogram.bucketCount).compactMap { bucket in
            let count = histogram.counts[bucket]
            return count == 0
                ? nil
                : ReadStatistics.Bucket(upToMicroseconds: 1 << UInt64(bucket), count: count)
        }
    }
}
