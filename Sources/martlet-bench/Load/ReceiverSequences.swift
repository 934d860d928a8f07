// Counts the messages that each receiver got from each publisher: missing, duplicate and late ones,
// from the sequence numbers in the payloads alone.

/// One row per pair of receiver and publisher.
struct ReceiverSequences {
    /// The class of a received message.
    enum Verdict {
        case inOrder
        /// After a later one.
        case late
        /// It arrived before, or is too late to be distinguished from a duplicate.
        case duplicate
    }

    private struct Row {
        /// The next sequence number in order.
        var next: UInt64 = 0
        /// Whether each of the 64 numbers before `next` has arrived; bit 0 is the last.
        var seen: UInt64 = 0
    }

    private var rows: ContiguousArray<Row>
    private(set) var lateCount: UInt64 = 0
    private(set) var duplicateCount: UInt64 = 0

    init(rowCount: Int) {
        rows = ContiguousArray(repeating: Row(), count: rowCount)
    }

    /// Messages of a row up to this one have arrived, or were skipped.
    func next(row: Int) -> UInt64 { rows[row].next }

    mutating func take(_ sequence: UInt64, row: Int) -> Verdict {
        let next = rows[row].next
        if sequence >= next {
            // Skipped numbers are missing; they may still arrive.
            let skipped = sequence - next
            rows[row].seen = skipped < 63 ? rows[row].seen << (skipped + 1) | 1 : 1
            rows[row].next = sequence + 1
            return .inOrder
        }
        let age = next - 1 - sequence
        guard age < 64, rows[row].seen & 1 << age == 0 else {
            duplicateCount += 1
            return .duplicate
        }
        rows[row].seen |= 1 << age
        lateCount += 1
        return .late
    }
}
