// What other threads see of a node: its part, the nodes that it has heard, and the size of the log.

import BrokerCore
import Replication

/// A node and its cluster at one moment.
struct ClusterView: Sendable {
    /// Who sends a report. A node that was restarted has the same address. Of two nodes that have
    /// one name by mistake, each has its own.
    struct PeerKey: Hashable, Comparable, Sendable {
        let name: String
        let address: String

        init(_ report: NodeReport) {
            name = String(decoding: report.node.name, as: UTF8.self)
            address = String(decoding: report.address, as: UTF8.self)
        }

        static func < (one: PeerKey, other: PeerKey) -> Bool {
            (one.name, one.address) < (other.name, other.address)
        }
    }

    /// A node that was heard.
    struct Peer: Sendable {
        var report: NodeReport
        /// On ``ClusterGate/nowMilliseconds``.
        var heardMilliseconds: UInt64
    }

    /// What the configuration of this node says.
    struct Own: Sendable {
        var name = ""
        var address = ""
        var webAddress = ""
        var leaseMilliseconds: UInt64 = 0
        var durability = ""
        var shards: UInt64 = 0
    }

    var own = Own()
    var part = NodeReport.Part.standby
    var term = Term.none
    /// The last record that the node has accepted, and that through which its store has applied the
    /// log on its disk.
    var received = LogSequence.start
    var applied = LogSequence.start
    private(set) var peers: [PeerKey: Peer] = [:]
    /// What the log said when it was last asked.
    var logAnswer = LogAnswer.unanswered
    /// The log at the last look that had an answer, and what this node had appended before it.
    private var known: LogState?
    private var appendedBefore: UInt64 = 0
    /// Bytes that this node has tried to append, about.
    var appendedByteCount: UInt64 = 0
    /// Whether the log is so full that it has no room for this node's takeover.
    var isTakeoverRefused = false
    /// Logins and requests that this node has refused as a standby.
    var refusedCount: UInt64 = 0
    /// Batches that were decided again without their sends, because their record was too large, or
    /// because the log was full.
    var oversizedCount: UInt64 = 0
    var logFullCount: UInt64 = 0
    /// Set by an operator who wants another node to be the primary.
    var isAskedToStepDown = false

    var log: LogState? { logAnswer.state }

    /// Takes a look at the log.
    ///
    /// - Parameter appended: ``appendedByteCount`` before the look.
    mutating func note(_ answer: LogAnswer, appended: UInt64) {
        // Only a state shows that a stream is there again.
        if answer == .unanswered, logAnswer == .absent { return }
        logAnswer = answer
        guard let state = answer.state else { return }
        known = state
        appendedBefore = appended
    }

    /// What an operator is told of a log that does not exist any more.
    static let absentLog =
        "the NATS servers say that the stream of the log does not exist in this account, or is "
        + "not the one that was opened: no node can take over, so restart none"

    /// Whether the rest of the log is for everything but sends: takeovers, heartbeats and the
    /// removals that make room in queues.
    var isLogNearlyFull: Bool {
        guard let known, known.byteCountMaximum > 0 else { return false }
        let reserve = min(ClusterLimits.logReserveByteCount, known.byteCountMaximum / 4)
        let byteCount = known.byteCount + (appendedByteCount - appendedBefore)
        return byteCount > known.byteCountMaximum - reserve
    }

    /// Whether this node is the one that trims. A standby that cannot take over because the log is
    /// full does so too: nobody else would.
    var trims: Bool { part == .primary || isTakeoverRefused }

    /// Takes what another node reports of itself.
    mutating func note(_ report: NodeReport, at now: UInt64) {
        let peer = PeerKey(report)
        // A node that has moved is heard at its new address alone.
        peers = peers.filter { key, heard in
            key == peer || key.name != peer.name || Self.isRecent(heard, at: now)
        }
        guard peers[peer] != nil || peers.count < ClusterLimits.nodesMaximum else { return }
        peers[peer] = Peer(report: report, heardMilliseconds: now)
    }

    private static func isRecent(_ peer: Peer, at now: UInt64) -> Bool {
        now - min(peer.heardMilliseconds, now) < ClusterLimits.reportAgeMilliseconds
    }

    /// The peers that were heard lately.
    func present(at now: UInt64) -> [(name: String, report: NodeReport)] {
        peers.compactMap { peer, heard in
            Self.isRecent(heard, at: now) ? (peer.name, heard.report) : nil
        }
    }

    /// Those of them whose settings have other shards than this node's, by name.
    func nodesWithOtherShards(at now: UInt64) -> [String] {
        present(at: now).filter { $0.report.shards != own.shards }.map(\.name).sorted()
    }

    /// Such a node, which may be away now, but can come back.
    var knownNodeWithOtherShards: String? {
        peers.filter { $0.value.report.shards != own.shards }.keys.min()?.name
    }

    /// What an operator is told of such a node.
    static func otherShards(of name: String) -> String {
        "the node \(name) has other \"shards\" than this one: give all nodes the same, and restart "
            + "those that had others"
    }

    /// The primary of the newest term that was heard lately; nil if none was.
    func primary(at now: UInt64) -> NodeReport? {
        present(at: now).map(\.report).filter { $0.part == .primary }
            .max { $0.term < $1.term }
    }

    /// The standbys that were heard lately.
    var standbys: [NodeReport] {
        present(at: ClusterGate.nowMilliseconds).map(\.report).filter { $0.part == .standby }
    }

    /// Records that the slowest of them has not applied.
    var lag: UInt64 {
        let slowest = standbys.map(\.sequence).min() ?? received
        return received.raw - min(slowest.raw, received.raw)
    }

    /// Through which record the log may be trimmed: the older half of what two stores have, if the
    /// log is more than half full; nil for nothing.
    func trimTarget(at now: UInt64) -> LogSequence? {
        guard let log, log.byteCountMaximum > 0, log.byteCount > log.byteCountMaximum / 2,
            log.last > log.first
        else { return nil }
        let others = present(at: now).filter { $0.report.part == .standby }
            .map(\.report.sequence)
        guard let second = others.max() else { return nil }
        let middle = LogSequence(raw: log.first.raw + (log.last.raw - log.first.raw) / 2)
        let target = min(min(second, applied), middle)
        return target >= log.first ? target : nil
    }
}

/// What operators have been told of a node.
struct PeerWarning: Hashable {
    enum Finding: CaseIterable, Hashable { case sameName, otherShards, clock }

    let peer: ClusterView.PeerKey
    let finding: Finding
}
