// Withdrawals: one transaction finds the entry of a message in a queue, and removes it unless it
// may have been sent. New blocks of stored bodies are written here too.

import BrokerCore
import CLMDB
import Primitives

extension WriteTransaction {
    /// Removes the entry of a message from a queue.
    mutating func withdraw(
        _ withdrawal: EntryWithdrawal, removalTally: inout RemovalTally
    ) throws(StoreError) -> WithdrawalOutcome {
        guard let (key, entry) = try find(withdrawal.message.raw, in: withdrawal.queue.raw) else {
            return WithdrawalOutcome(.absent)
        }
        let outcome = withdrawal.outcome(
            number: key.number, state: entry.state, byteCount: entry.byteCount)
        if outcome.state == .found, !withdrawal.isProbe {
            _ = try take(key, removalTally: &removalTally)
        }
        return outcome
    }

    /// Finds the entry of a message in a queue, and moves the cursor there.
    private mutating func find(
        _ message: UInt64, in queue: UInt64
    ) throws(StoreError) -> (EntryKey, StoredEntry)? {
        guard message != 0,
            try entries.seek(notBefore: EntryKey(queue: queue, number: 0)),
            let first = EntryKey(entries.key), first.queue == queue
        else { return nil }
        if let found = try search(message, from: first) { return found }
        return try scan(message, from: first)
    }

    /// Searches the numbers of a queue as if its messages were in order. Numbers may have gaps, so
    /// a step looks at the first entry that is not before the middle.
    private mutating func search(
        _ message: UInt64, from first: EntryKey
    ) throws(StoreError) -> (EntryKey, StoredEntry)? {
        let isBehind = try entries.seek(before: EntryKey(queue: first.queue, number: .max))
        guard isBehind, let last = EntryKey(entries.key), last.queue == first.queue else {
            return nil
        }
        var (low, high) = (first.number, last.number)
        while low <= high {
            let middle = low + (high - low) / 2
            guard try entries.seek(notBefore: EntryKey(queue: first.queue, number: middle)),
                let key = EntryKey(entries.key), key.queue == first.queue, key.number <= high,
                let entry = StoredEntry(entries.value, key: key)
            else {
                if middle == 0 { return nil }
                high = middle - 1
                continue
            }
            if entry.message == message { return (key, entry) }
            if entry.message < message {
                low = key.number + 1
            } else {
                if middle == 0 { return nil }
                high = middle - 1
            }
        }
        return nil
    }

    /// Looks at the first entries of a queue one by one: transfers may have put older messages
    /// behind newer ones.
    private mutating func scan(
        _ message: UInt64, from first: EntryKey
    ) throws(StoreError) -> (EntryKey, StoredEntry)? {
        var isThere = try entries.seek(notBefore: first)
        var count = 0
        while isThere, count < CoreLimits.withdrawalScanMaximum,
            scanCount < CoreLimits.withdrawalScansPerBatchMaximum,
            let key = EntryKey(entries.key), key.queue == first.queue
        {
            scanCount += 1
            if let entry = StoredEntry(entries.value, key: key), entry.message == message {
                return (key, entry)
            }
            count += 1
            isThere = try entries.next()
        }
        return nil
    }

    /// Gives a stored body another block. The old one is deleted first: LMDB would keep its pages
    /// for a shorter one, and the check of pages expects no more than a value needs.
    mutating func replace(_ message: UInt64, block: RawSpan) throws(StoreError) {
        guard try messages.seek(message),
            let receiverCount = StoredMessage.receiverCount(messages.value, id: message)
        else { return }
        try messages.delete()
        let place = try messages.reserve(
            message, byteCount: StoredMessage.headByteCount + block.byteCount,
            flags: MDB_NOOVERWRITE)
        guard let place else { preconditionFailure("message \(message) is still stored") }
        block.withUnsafeBytes {
            StoredMessage.write(to: place, id: message, receiverCount: receiverCount, block: $0)
        }
    }
}
