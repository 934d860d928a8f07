// The entries that one batch removes from the store, in memory that is reused from batch to batch.

import BrokerCore
import Primitives

/// The reason why an entry was set aside. On disk: never change or reuse a value.
enum DamageCause: UInt8 {
    /// The entry failed its checksum.
    case unreadableEntry = 1
    /// The entry's body is missing or failed its checksum.
    case unreadableBody = 2
}

/// Removed entries: the bodies that they released, and the tallies to report.
struct RemovalTally {
    /// One message id per removed entry.
    var released: [UInt64] = []
    var expired = TallyList()
    var damaged = TallyList()
    /// Whether the core still counts the entries that are being removed: damaged ones must then be
    /// reported by queue, otherwise they are only counted.
    var countsDamage = true
    private(set) var damagedUncounted: UInt64 = 0
    /// All damaged entries.
    private(set) var setAside: [EntryKey] = []

    mutating func addDamaged(_ key: EntryKey, byteCount: UInt64) {
        setAside.append(key)
        if countsDamage {
            damaged.add(key.queue, byteCount: byteCount)
        } else {
            damagedUncounted += 1
        }
    }

    /// Resets the tally: before a batch, and after its transaction was aborted.
    mutating func removeAll() {
        released.removeAllKeepingCapacity()
        expired.removeAll()
        damaged.removeAll()
        setAside.removeAll()
        countsDamage = true
        damagedUncounted = 0
    }
}

/// Tallies per queue. Entries arrive queue by queue, so comparing with the last tally is enough for
/// most; a queue may still occur twice.
struct TallyList {
    private(set) var tallies: [QueueTally] = []

    mutating func add(_ queue: UInt64, byteCount: UInt64) {
        if let last = tallies.indices.last, tallies[last].queue.raw == queue {
            tallies[last].count += 1
            tallies[last].byteCount += byteCount
        } else {
            tallies.append(QueueTally(queue: QueueID(raw: queue), count: 1, byteCount: byteCount))
        }
    }

    mutating func removeAll() {
        tallies.removeAllKeepingCapacity()
    }
}
