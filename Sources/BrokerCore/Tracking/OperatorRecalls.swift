// The operators' recalls whose results have not been taken, by their numbers.

import BrokerTerms

struct OperatorRecalls {
    private struct Entry {
        var result: OperatorRecallResult?
        /// The batch after whose commit the result is final.
        var batch: UInt64 = 0
    }

    private var entries: [UInt64: Entry] = [:]
    private var lastNumber: UInt64 = 0

    /// Adds a recall that begins, and returns its number.
    mutating func add() -> UInt64 {
        lastNumber += 1
        entries[lastNumber] = Entry()
        return lastNumber
    }

    /// Notes the result of a recall.
    mutating func complete(
        _ number: UInt64, reason: ReasonCode, answer: RecallAnswer?, batch: UInt64
    ) {
        guard entries[number] != nil else { return }
        entries[number] = Entry(
            result: OperatorRecallResult(reason: reason, answer: answer), batch: batch)
    }

    /// Forgets a result, complete or not.
    mutating func forget(_ number: UInt64) { entries[number] = nil }

    /// Removes and returns a result whose batch is committed.
    mutating func take(_ number: UInt64, firstOpenBatch: UInt64) -> OperatorRecallResult? {
        guard let entry = entries[number], let result = entry.result,
            entry.batch < firstOpenBatch
        else { return nil }
        entries[number] = nil
        return result
    }
}
