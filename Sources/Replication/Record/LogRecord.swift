// One record of the log: a batch with its outcomes, the start of a primary's term, or a sign of
// life. Every node applies the same records in the same order, so a record says what was decided
// and leaves nothing to decide.

import BrokerCore
import Primitives

/// A node in one life of its process.
public struct NodeLife: Hashable, Sendable {
    /// 1 to ``ReplicationLimits/nameByteCountMaximum`` bytes.
    public var name: [UInt8]
    /// Random: two lives of a node, and two nodes with one name, differ.
    public var life: UInt64
    /// Whether its store had no rows. If this is so in the first record of a log, a new node needs
    /// no copy: the records have all rows.
    public var beginsEmpty = false

    public init(name: [UInt8], life: UInt64, beginsEmpty: Bool = false) {
        self.name = name
        self.life = life
        self.beginsEmpty = beginsEmpty
    }
}

/// A record of the log.
public struct LogRecord: Hashable, Sendable {
    /// The identity of the cluster, which is that of its stores.
    public var cluster: StoreIdentity
    /// The term in which it was written; that of a takeover is the one before it.
    public var term: Term
    /// Number of the record within its term, from 1 on; 0 for a takeover.
    public var number: UInt64
    /// The broker time and the wall clock of its author.
    public var moment: Moment
    public var content: LogContent

    public init(
        cluster: StoreIdentity, term: Term, number: UInt64, moment: Moment, content: LogContent
    ) {
        self.cluster = cluster
        self.term = term
        self.number = number
        self.moment = moment
        self.content = content
    }
}

/// What a record says.
public enum LogContent: Hashable, Sendable {
    /// A node becomes the primary.
    case takeover(NodeLife)
    /// The primary lives; what it has decided before is confirmed.
    case heartbeat
    /// The encoded batch and its outcomes: see ``DecidedBatch``.
    case batch([UInt8])
}
