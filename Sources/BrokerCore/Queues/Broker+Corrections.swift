// Corrects entries that the core counts and the store does not contain. No known sequence of
// operations causes this. If one does, or if a disk loses data, the queue must not request the same
// entries forever: each request is a commit, and an orderly stop would wait for them.

import Primitives

extension Broker {
    /// Corrects the backlogs of connected sessions for which a load reached the end of the queue
    /// and found nothing. Their entries in the pending batch are not in the store yet.
    mutating func correct(
        _ contradicted: [Handle<ConnectedSession>], after result: borrowing StoreResult,
        in step: inout Step
    ) {
        var waiting: [UInt64: TrimAmount] = [:]
        for owner in contradicted {
            waiting[sessions[live.connectedSessions[owner.index].session].inbox.queue.raw] =
                TrimAmount()
        }
        // The batch is read once for all of them.
        for entry in commits.pendingBatch.entries where !entry.isSettled {
            waiting[entry.queue.raw]? += TrimAmount(count: 1, byteCount: UInt64(entry.byteCount))
        }
        for (index, move) in commits.pendingBatch.moves.enumerated() {
            let byteCount = UInt64(commits.pendingBatch.moveByteCounts[index])
            waiting[move.destination.raw]? += TrimAmount(count: 1, byteCount: byteCount)
        }
        // An offline queue that is being moved into the inbox is counted there already.
        for transfer in commits.pendingBatch.transfers where transfer.scope == .all {
            waiting[transfer.destination.raw] = nil
        }
        for owner in contradicted where live.connectedSessions.contains(owner) {
            let session = live.connectedSessions[owner.index].session
            if let expected = waiting[sessions[session].inbox.queue.raw] {
                // If the store could not remove expired entries, it still contains them.
                if !result.keepsLeaving { correct(owner.index, of: session, expecting: expected) }
                if expected.count == 0 { continue }
            }
            pump(session, in: &step)
        }
    }

    private mutating func correct(
        _ connected: Index<ConnectedSession>, of session: Index<Session>,
        expecting expected: TrimAmount
    ) {
        let backlogCount = UInt64(live.connectedSessions[connected].backlogCount)
        let byteCount =
            sessions[session].inbox.byteCount.missing(
                from: UInt64(live.connectedSessions[connected].windowByteCount)
                    + expected.byteCount)
        let missing = backlogCount.missing(from: expected.count)
        guard missing > 0 else { return }
        counters.missingEntries += missing
        countOutBacklog(session: session, count: missing, byteCount: byteCount)
    }

    /// Corrects a leftover if the first load of a round found no entries.
    mutating func correct(
        _ leftover: Index<Leftover>, after load: LoadedQueue, _ result: borrowing StoreResult
    ) {
        let missing = queues.leftovers[leftover].count
        guard load.entries.isEmpty, load.reachedEnd, missing > 0, !result.keepsLeaving,
            queues.leftovers[leftover].lookedThrough == 0
        else { return }
        counters.missingEntries += missing
        queues.countOut(
            leftover: leftover, count: missing, byteCount: queues.leftovers[leftover].byteCount)
    }
}
