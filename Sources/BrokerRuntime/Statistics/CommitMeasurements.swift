// What the writer of the store measures, for the metrics.

import NetTransport
import Threads

/// Histograms of the commits, which only the writer adds to, and the sizes of the store's tables.
final class CommitMeasurements: Sendable {
    /// How long commits took, in microseconds.
    let times = PublishedHistogram()
    /// Messages of a commit.
    let messageCounts = PublishedHistogram()
    /// Bytes of the messages of a commit.
    let byteCounts = PublishedHistogram()
    /// Bytes of the pages of each table, at most a second old while there are commits.
    let tables = Locked<[(name: String, byteCount: UInt64)]>([])
}
