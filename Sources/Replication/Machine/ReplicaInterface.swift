// What a replica is told and what it asks for: plain values, so that they can be logged, compared
// and replayed.

import BrokerCore
import Primitives

/// The part of a node in its cluster.
public enum ReplicaRole: Hashable, Sendable {
    /// The store lacks records that the log has forgotten: it needs a copy of another node's.
    /// Exits: standby.
    case joining
    /// It applies records, and takes over after a silence. Exits: primary, joining, fenced.
    case standby
    /// It decides, as long as its lease holds. Exit: fenced.
    case primary
    /// Another node is the primary, or the log cannot be followed. The process ends.
    case fenced
}

/// The record through which a store has applied the log.
public struct ReplicaPosition: Hashable, Sendable {
    public var cluster: StoreIdentity
    public var sequence: LogSequence
    /// The term of that record, and its number within the term.
    public var term: Term
    public var number: UInt64

    public init(cluster: StoreIdentity, sequence: LogSequence, term: Term, number: UInt64) {
        self.cluster = cluster
        self.sequence = sequence
        self.term = term
        self.number = number
    }

    /// The position of a store with which a cluster begins.
    public static func founding(_ cluster: StoreIdentity) -> ReplicaPosition {
        ReplicaPosition(cluster: cluster, sequence: .start, term: .none, number: 0)
    }
}

/// The settings of a replica.
public struct ReplicaSettings: Hashable, Sendable {
    public var node: NodeLife
    /// The same on all nodes, within ``ReplicationLimits/leaseMilliseconds``.
    public var leaseMilliseconds: UInt64

    public init(node: NodeLife, leaseMilliseconds: UInt64) {
        precondition(
            ReplicationLimits.leaseMilliseconds.contains(leaseMilliseconds),
            "a lease of \(leaseMilliseconds) ms")
        precondition(
            (1...ReplicationLimits.nameByteCountMaximum).contains(node.name.count),
            "a node's name of \(node.name.count) bytes")
        self.node = node
        self.leaseMilliseconds = leaseMilliseconds
    }

    /// A standby that has heard nothing for so long takes over. The quarter is for clocks that run
    /// at different speeds.
    var silenceMilliseconds: UInt64 { leaseMilliseconds + leaseMilliseconds / 4 }

    /// An idle primary appends a heartbeat so long after its last append.
    var heartbeatMilliseconds: UInt64 { leaseMilliseconds / 4 }
}

/// The times at which a replica is called.
public struct ReplicaTime: Hashable, Sendable {
    /// The monotonic clock of this machine, which no other node sees.
    public var now: Instant
    /// The time of the broker, which goes into records.
    public var moment: Moment

    public init(now: Instant, moment: Moment) {
        self.now = now
        self.moment = moment
    }
}

/// What happened.
public enum ReplicaEvent: Hashable, Sendable {
    case log(ReplicatedLogEvent)
    /// The primary's store has applied a batch in a transaction that is open. The bytes are those
    /// of ``DecidedBatch/encoded``. It is told one at a time, after the outcome of the one before.
    case decided([UInt8], hasSends: Bool)
    /// The primary has decided something that no batch contains: see ``Replica/confirmationMark``.
    case confirmationWanted
    /// The store has applied the records up to this one.
    case applied(LogSequence)
    /// The store was replaced by a copy of another node's.
    case copied(ReplicaPosition)
    /// The primary and at least one standby have applied the records up to this one.
    case trimAllowed(LogSequence)
    /// The primary of a term has emitted its last output, and the log ends with this record: a
    /// standby that has applied it takes over at once.
    case resigned(Term, through: LogSequence)
    /// See ``Replica/deadline``.
    case timePassed
}

/// What the owner of a replica does, in the order of the commands.
public enum ReplicaCommand: Sendable {
    // Of the log.
    case append([UInt8], expecting: LogSequence, LogRequest)
    case read(LogSequence, LogRequest)
    case follow(from: LogSequence)
    case trim(through: LogSequence)
    /// Applies a record to the store, and tells ``ReplicaEvent/applied(_:)``. Records may be
    /// gathered. A primary gets its own takeover and heartbeats so, which change no rows.
    case apply(ReplicaPosition, Moment, DecidedBatch?)
    /// Restores the core from the store, and opens the listeners.
    case lead(Term)
    /// The decided batch is in the log: its results are released, and its transaction is committed
    /// with this position. If that fails, the process ends: the next start replays.
    case commit(ReplicaPosition)
    /// The log has no room for the decided batch. Its transaction is aborted, and the batch is
    /// decided again without its sends.
    case refuseSends
    /// Another node's store is copied here, and ``ReplicaEvent/copied(_:)`` told.
    case copyStore
    /// Nothing is emitted any more: the transaction is aborted, all connections are closed, and the
    /// process ends.
    case fence(FenceCause)
}

/// Why a node stops.
public enum FenceCause: Hashable, Sendable {
    /// Another node's record is where this primary's was to be.
    case deposed(at: LogSequence)
    /// A record is unreadable, of another cluster, or of a newer program.
    case unreadable(LogSequence, LogRecordError)
    /// A record does not continue those before it: the log was replaced.
    case brokenHistory(LogSequence)
    /// The log has committed a record at another position than was asked for.
    case misplaced(LogSequence)
    /// The log does not accept records of this size.
    case refused(LogRefusal)
}
