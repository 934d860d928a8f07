// Requests about a cluster. They come on a Unix socket of their own in the data directory, because
// a standby has no broker that the other requests are about; the lines are those of the
// administration socket. A primary answers them over the HTTP API too.

import BrokerTerms

/// The socket of a cluster's node.
public enum ClusterLine {
    /// Its name in the data directory.
    public static let socketName = "cluster.sock"
    /// No request has a body.
    public static let requestByteCountMaximum = 1_024
}

/// Shows a node and those that it has heard.
public struct ShowCluster: AdministrationRequest {
    public static let name = "cluster.show"

    public init() {}

    /// A node as it was heard last.
    public struct Node: Codable, Hashable, Sendable {
        public var name: String
        /// `primary`, `standby` or `resigned`.
        public var part: String
        public var address: String
        /// Where the HTTP interfaces of the node are; empty if it has none.
        public var webAddress: String
        /// The record through which its store has applied the log.
        public var sequence: UInt64
        /// Records behind it that the answering node has accepted.
        public var lagRecords: UInt64
        /// Milliseconds since it was heard; 0 for the node itself.
        public var heardMilliseconds: UInt64

        public init(
            name: String, part: String, address: String, webAddress: String, sequence: UInt64,
            lagRecords: UInt64, heardMilliseconds: UInt64
        ) {
            self.name = name
            self.part = part
            self.address = address
            self.webAddress = webAddress
            self.sequence = sequence
            self.lagRecords = lagRecords
            self.heardMilliseconds = heardMilliseconds
        }
    }

    /// A server with a copy of the log.
    public struct Server: Codable, Hashable, Sendable {
        public var name: String
        public var isLeader: Bool
        /// Whether it is reachable and has what the leader has.
        public var isCurrent: Bool
        /// Operations that it lacks.
        public var lag: UInt64

        public init(name: String, isLeader: Bool, isCurrent: Bool, lag: UInt64) {
            self.name = name
            self.isLeader = isLeader
            self.isCurrent = isCurrent
            self.lag = lag
        }
    }

    /// One shard of a node.
    public struct Shard: Codable, Hashable, Sendable {
        public var name: String
        /// `primary`, `standby`, or `opening` before its log and its store are open.
        public var part: String
        public var term: UInt64
        /// Whether the node may serve clients of the shard now.
        public var hasLease: Bool
        /// The record through which the store has applied the log, and how many of those that the
        /// node has accepted are behind it.
        public var sequence: UInt64
        public var lagRecords: UInt64
        /// Where the primary is that was heard lately; empty if none was.
        public var primary: String
        public var alarms: [String]

        public init(
            name: String, part: String, term: UInt64, hasLease: Bool, sequence: UInt64,
            lagRecords: UInt64, primary: String, alarms: [String]
        ) {
            self.name = name
            self.part = part
            self.term = term
            self.hasLease = hasLease
            self.sequence = sequence
            self.lagRecords = lagRecords
            self.primary = primary
            self.alarms = alarms
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// The node that answers is the first.
        public var nodes: [Node]
        public var term: UInt64
        /// Whether the node may serve clients now.
        public var hasLease: Bool
        /// The length of a lease, and what is left of it; 0 without one.
        public var leaseMilliseconds: UInt64
        public var leaseLeftMilliseconds: UInt64
        /// `strict` or `relaxed`.
        public var durability: String
        /// Those of the log, at the last look; empty if none has told it.
        public var servers: [Server] = []
        /// What an operator should look at, as sentences.
        public var alarms: [String] = []
        /// The extent of the log, at the last look; nil if no server has told it.
        public var firstRecord: UInt64?
        public var lastRecord: UInt64?
        public var logByteCount: UInt64?
        public var logByteCountMaximum: UInt64?
        /// Of a node with several shards: each of them, the default one first, whose values the
        /// other members have. Nil with one shard.
        public var shards: [Shard]?

        public init(
            nodes: [Node], term: UInt64, leaseMilliseconds: UInt64, leaseLeftMilliseconds: UInt64,
            durability: String
        ) {
            self.nodes = nodes
            self.term = term
            hasLease = leaseLeftMilliseconds > 0
            self.leaseMilliseconds = leaseMilliseconds
            self.leaseLeftMilliseconds = leaseLeftMilliseconds
            self.durability = durability
        }
    }
}

/// Makes a primary give its place to another node.
public struct StepDown: AdministrationRequest {
    public static let name = "cluster.step-down"
    /// The shard that is handed over; nil for all, which ends the process of the primary.
    public var shard: String?

    public init(shard: String? = nil) { self.shard = shard }

    public struct Reply: Codable, Hashable, Sendable {
        public init() {}
    }
}

/// A request about a cluster as a node receives it.
public enum ClusterCommand: Hashable, Sendable {
    case show(ShowCluster)
    case stepDown(StepDown)

    /// Reads one line, with or without its line feed.
    public init(line: [UInt8]) throws(AdministrationRefusal) {
        let head = try AdministrationLine.decode(AdministrationLine.RequestHead.self, from: line)
        switch head.request {
        case ShowCluster.name: self = .show(ShowCluster())
        case StepDown.name:
            self = .stepDown(
                try AdministrationLine.decode(
                    AdministrationLine.RequestLine<StepDown>.self, from: line
                ).body)
        default:
            throw AdministrationRefusal(
                .implementationSpecificError,
                "a node of a cluster does not know the request \(head.request)")
        }
    }
}
