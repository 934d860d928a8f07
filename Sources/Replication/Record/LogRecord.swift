// One record of the log: a batch with its outcomes, the start of a primary's term, or a sign of
// life. Every node applies the same records in the same order, so a record says what was decided
// and leaves nothing to decide.

import BrokerCore
import Primitives

/// The position of a primary's takeover in the log. Of two terms, the later one is higher.
public struct Term: Hashable, Comparable, Sendable {
    public var raw: UInt64

    @inlinable
    public init(raw: UInt64) { self.raw = raw }

    /// Before the first takeover.
    @inlinable
    public static var none: Term { Term(raw: 0) }

    @inlinable
    public static func < (left: Term, right: Term) -> Bool { left.raw < right.raw }
}

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

/// A batch of the core and what the primary's store decided about it.
public struct DecidedBatch: Sendable {
    /// Only what changes the store: loads and sweeps are not encoded.
    public var batch: StoreBatch
    public var outcome: BatchOutcome

    public init(_ batch: StoreBatch, _ outcome: BatchOutcome) {
        self.batch = batch
        self.outcome = outcome
    }
}

/// The decisions of the primary's store that depend on its disk, its time or its limits. A replay
/// repeats them and makes none.
public struct BatchOutcome: Hashable, Sendable {
    /// The sends of the batch were left out.
    public var refusesSends = false
    /// Entries that loads found expired, and that leave with this record.
    public var expired: [EntryName] = []
    /// Entries that the primary could not read and has set aside.
    public var setAside: [EntryName] = []
    /// Deleted queues in the order of their deletion, as far as it went.
    public var deletions: [QueueDeletion] = []
    /// The sum of what the batch did by itself: trims, transfers, withdrawals, moves. A replay with
    /// another sum has other rows than the primary.
    public var digest: UInt64 = 0

    public init() {}
}

/// An entry, by its key.
public struct EntryName: Hashable, Sendable {
    public var queue: QueueID
    public var number: UInt64

    public init(queue: QueueID, number: UInt64) {
        self.queue = queue
        self.number = number
    }
}

/// How far a batch deleted a queue.
public struct QueueDeletion: Hashable, Sendable {
    public var queue: QueueID
    /// Entries up to this number were removed; the maximum if it is complete.
    public var throughNumber: UInt64
    public var isComplete: Bool

    public init(queue: QueueID, throughNumber: UInt64, isComplete: Bool) {
        self.queue = queue
        self.throughNumber = throughNumber
        self.isComplete = isComplete
    }
}

extension BatchOutcome {
    /// The sum of a result's parts that follow from the batch and the rows alone.
    public static func digest(of result: StoreResult) -> UInt64 {
        var sum = Checksum(seed: LogRecord.outcomeSeed)
        func add(_ tallies: [QueueTally]) {
            sum.mix(UInt64(tallies.count))
            for tally in tallies {
                sum.mix(tally.queue.raw)
                sum.mix(tally.count)
                sum.mix(tally.byteCount)
            }
        }
        add(result.tallies)
        add(result.trimmed)
        add(result.transferred)
        sum.mix(UInt64(result.withdrawn.count))
        for outcome in result.withdrawn {
            sum.mix(outcome.state == .absent ? 0 : outcome.state == .sent ? 1 : 2)
            sum.mix(UInt64(outcome.byteCount))
        }
        for index in result.missedMoves { sum.mix(UInt64(index)) }
        return sum.value
    }
}
