// Which node is asked for a copy, and when: a standby before the primary, and one that could not
// give a copy after all others.

import Replication

/// What the attempts to get a copy have shown of the other nodes.
struct CopySources {
    private struct Failures {
        /// Attempts in a row.
        var count: Int
        /// When the last one failed, on ``ClusterGate/nowMilliseconds``.
        var latestMilliseconds: UInt64
    }

    /// Of each node whose copy could not be got, by its name. The names are those of nodes that
    /// were heard, of which there are at most ``ClusterLimits/nodesMaximum`` at a time.
    private var failures: [[UInt8]: Failures] = [:]

    /// The node with the fewest failed attempts; of these the standby with the most records, or
    /// else the primary. Nil if none of the reports is of a node that has a store.
    func choose(from reports: some Sequence<NodeReport>) -> NodeReport? {
        reports.filter { $0.part == .standby || $0.part == .primary }.min { left, right in
            let (lower, higher) = (failureCount(of: left), failureCount(of: right))
            if lower != higher { return lower < higher }
            if left.part != right.part { return left.part == .standby }
            return left.sequence > right.sequence
        }
    }

    /// Milliseconds before a node is asked again whose copies have failed: whatever is wrong with
    /// it lasts, and each attempt costs it a copy.
    func waitMilliseconds(before report: NodeReport, now: UInt64) -> UInt64 {
        guard let failures = failures[report.node.name] else { return 0 }
        let wait = min(
            ClusterLimits.copyWaitMilliseconds << UInt64(min(failures.count - 1, 16)),
            ClusterLimits.copyWaitMillisecondsMaximum)
        let end = failures.latestMilliseconds + wait
        return end - min(now, end)
    }

    /// An attempt to get the copy of a node has failed.
    mutating func noteFailure(of node: [UInt8], now: UInt64) {
        if failures.count >= ClusterLimits.nodesMaximum, failures[node] == nil { failures = [:] }
        failures[node] = Failures(
            count: (failures[node]?.count ?? 0) + 1, latestMilliseconds: now)
    }

    private func failureCount(of report: NodeReport) -> Int {
        failures[report.node.name]?.count ?? 0
    }
}
