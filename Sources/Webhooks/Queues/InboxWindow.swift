// The messages that the broker has sent and may not forget yet. A message is settled when every
// hook that wants it has it, or when it is in the record. The broker is told up to the first that
// is not settled.

import MartletClient
import Primitives

struct InboxWindow {
    private struct Entry {
        let number: UInt64
        let arrival: Instant
        let byteCount: Int
        /// Deliveries that are neither done nor in the record.
        var pendingCount: Int
    }

    /// 0 before the first message.
    private(set) var epoch: UInt64 = 0
    private var entries: [Entry] = []
    private var highestNumber: UInt64 = 0
    private var settledThrough: UInt64 = 0
    private var acknowledgedThrough: UInt64 = 0

    /// The arrival of the oldest message that is not settled.
    var oldestArrival: Instant? { entries.first?.arrival }

    /// Messages that the broker waits for.
    var unsettledCount: Int { entries.count }

    /// The bytes of their events.
    private(set) var unsettledByteCount = 0

    /// The position that an earlier run has reached.
    init(position: InboxRecord?) {
        guard let position else { return }
        epoch = position.epoch
        highestNumber = position.number
        settledThrough = position.number
        acknowledgedThrough = position.number
    }

    /// A message arrived.
    ///
    /// - Parameters:
    ///   - byteCount: the bytes of its event.
    ///   - pendingCount: the number of its deliveries.
    mutating func add(
        _ record: InboxRecord, byteCount: Int = 0, pendingCount: Int, now: Instant
    ) {
        if record.epoch != epoch {
            // A new session: the numbers of the old one are void.
            self = InboxWindow(position: InboxRecord(epoch: record.epoch, number: 0))
        }
        highestNumber = max(highestNumber, record.number)
        unsettledByteCount += byteCount
        entries.append(
            Entry(
                number: record.number, arrival: now, byteCount: byteCount,
                pendingCount: pendingCount))
        advance()
    }

    /// One delivery of a message is done.
    mutating func settle(_ record: InboxRecord) {
        guard record.epoch == epoch else { return }
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].number < record.number { low = middle + 1 } else { high = middle }
        }
        guard low < entries.count, entries[low].number == record.number else { return }
        entries[low].pendingCount -= 1
        advance()
    }

    /// The position that is reached when all present deliveries are in the record; nil before the
    /// first message.
    var position: InboxRecord? {
        epoch == 0 ? nil : InboxRecord(epoch: epoch, number: highestNumber)
    }

    /// All present deliveries are in the record.
    mutating func recorded() {
        entries = []
        unsettledByteCount = 0
        settledThrough = highestNumber
    }

    /// What the broker may forget now; nil if it knows.
    mutating func takeAcknowledgement() -> InboxRecord? {
        guard settledThrough > acknowledgedThrough else { return nil }
        acknowledgedThrough = settledThrough
        return InboxRecord(epoch: epoch, number: settledThrough)
    }

    private mutating func advance() {
        var count = 0
        while count < entries.count, entries[count].pendingCount <= 0 {
            unsettledByteCount -= entries[count].byteCount
            count += 1
        }
        guard count > 0 else { return }
        entries.removeFirst(count)
        settledThrough = entries.first.map { $0.number - 1 } ?? highestNumber
    }
}
