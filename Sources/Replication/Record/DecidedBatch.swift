// A batch as a record of the log has it: what changes the store, and what the primary's store
// decided about it.

import BrokerCore
import Primitives

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
