// What each receiver has got of each publisher: counts what is missing, what came twice and what
// came late, from nothing but the sequence numbers in the payloads.

/// One row per receiver and publisher who have to do with each other.
struct ReceiverSequences {
    /// What a message is to its receiver.
    enum Verdict {
        case inOrder
        /// After a later one.
        case late
        /// It was there before, or it is too late to be told from a duplicate.
        case duplicate
    }

    private struct Row {
        /// The next sequence number in order.
        var next: UInt64 = 0
        /// Whether each of the 64 numbers before `next` has come; bit 0 is the last.
        var seen: UInt64 = 0
    }

    private var rows: ContiguousArray<Row>
    private(set) var lateCount: UInt64 = 0
    private(set) var duplicateCount: UInt64 = 0

    init(rowCount: Int) {
        rows = ContiguousArray(repeating: Row(), count: rowCount)
    }

    /// Messages of a row up to this one have come, or were passed over.
    func next(row: Int) -> UInt64 { rows[row].next }

    mutating func take(_ sequence: UInt64, row: Int) -> Verdict {
        let next = rows[row].next
        if sequence >= next {
            // Numbers that were passed over are unseen; they may still come.
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
