// The event queue of a run: occurrences in the order of their times, and for equal times in the
// order of insertion, so a run can be repeated.

import Primitives

/// One end of a connection.
enum End: Hashable {
    case broker
    case client
}

/// One future occurrence. Links and clients are identified by their index. An occurrence of one
/// start of the broker names that start, and is ignored after its end.
enum Occurrence: Hashable {
    /// An event loop reads its connections and executes its effects.
    case loopTurn(loop: Int, life: Int)
    /// The writer checks whether the core has a batch.
    case storeAsked(life: Int)
    /// The commit in flight ends.
    case storeFinished(life: Int)
    /// The core has a due deadline.
    case coreDue(life: Int)
    /// The process starts and opens its listeners.
    case brokerStarted
    case linkOpened(link: Int)
    /// The next bytes arrive at an end.
    case bytesArrived(link: Int, at: End)
    /// An end learns that the connection has ended.
    case closeNoticed(link: Int, by: End)
    /// The broker checks whether a client has been silent for too long.
    case silenceChecked(link: Int)
    case clientDue(client: Int)
    /// A client gets power again.
    case clientPowered(client: Int)
    /// A stopped client is started.
    case clientStarted(client: Int)
    /// An application uses a client.
    case clientUsed
    /// A client of some runs follows its habit: see ``Habit``.
    case habitDue
    /// A client of some runs keeps messages, reads a conversation, or tells what it has read.
    case historyDue
    /// A client of some runs asks for receipts, or tells what it has applied.
    case receiptDue
    case revisionDue
    /// Something happens around the relay or the moderator of some runs.
    case serviceUsed
    /// A service does what it has planned, by its index among all clients.
    case serviceDue(service: Int)
    case faultDue
    /// A backup is made, or the last one replaces the store.
    case backupMade
    case backupPutBack
    case storeHasRoom
    /// A step of a cluster: see ``ClusterOccurrence``.
    case cluster(ClusterOccurrence)
}

/// A priority queue of occurrences: a binary heap.
struct EventQueue {
    private struct Entry {
        let time: Instant
        let order: UInt64
        let occurrence: Occurrence

        func isBefore(_ other: Entry) -> Bool {
            time != other.time ? time < other.time : order < other.order
        }
    }

    private var heap: [Entry] = []
    private var nextOrder: UInt64 = 0

    mutating func enter(_ occurrence: Occurrence, at time: Instant) {
        heap.append(Entry(time: time, order: nextOrder, occurrence: occurrence))
        nextOrder += 1
        var child = heap.count - 1
        while child > 0, heap[child].isBefore(heap[(child - 1) / 2]) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// The next occurrence and its time; nil if there is none.
    mutating func takeNext() -> (time: Instant, occurrence: Occurrence)? {
        guard let first = heap.first else { return nil }
        let last = heap.removeLast()
        if !heap.isEmpty {
            heap[0] = last
            sink()
        }
        return (first.time, first.occurrence)
    }

    private mutating func sink() {
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < heap.count && heap[child].isBefore(heap[least]) {
                least = child
            }
            if least == parent { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
