// A message with a collapse key whose successor comes before it is stored. Both are in the pending
// batch, which the store takes or refuses as a whole, so the earlier one leaves its queues at once:
// a client that sends a thousand messages with one key in a row has one of them stored.

import BrokerTerms
import Primitives

/// A send that another one of the same batch has superseded.
struct SupersededSend {
    let send: Handle<TrackedSend>
    let batch: UInt64
    let message: Index<Message>
    /// Entries that were struck out. Their receivers count as such that took the message.
    let count: UInt32
}

extension Broker {
    /// Takes a message of the pending batch out of the queues in which it waits.
    ///
    /// - Returns: false if it is of another batch, or if only the store can find its copies.
    mutating func supersede(_ earlier: Index<TrackedSend>, in step: inout Step) -> Bool {
        guard tracking.sends[earlier].batch == commits.pendingSequence,
            !tracking.sends[earlier].marks.contains(.hasStays),
            let message = tracking.sends[earlier].message,
            let entries = supersedableEntries(of: earlier, message)
        else { return false }
        var (withdrawn, late) = (Set<Index<User>>(), Set<Index<User>>())
        var count: UInt32 = 0
        for position in entries {
            workload.charge(1)
            guard !commits.pendingBatch.entries[position].isSettled,
                let user = takeCopy(at: position, in: &step)
            else { continue }
            switch user {
            case .sent(let user): late.insert(user)
            case .taken(let user):
                withdrawn.insert(user)
                count += 1
            }
        }
        withdrawn.subtract(late)
        withdrawn = withdrawn.filter { !isKnownSent(earlier, to: $0) }
        counters.messagesCollapsed += 1
        counters.copiesWithdrawn += UInt64(count)
        for user in withdrawn { tracking.noteWithdrawn(earlier, of: user) }
        tracking.sends[earlier].revisionState = .collapsed
        // Sessions in memory have copies that are no entries.
        decide(.recalled, of: earlier)
        tracking.noteChange(of: earlier)
        tracking.superseded.append(
            SupersededSend(
                send: tracking.sends.handle(earlier), batch: commits.pendingSequence,
                message: message, count: count))
        return true
    }

    /// The entries of a message in the pending batch, if all of them are in queues of sessions and
    /// in offline queues; nil if a queue has another owner meanwhile.
    private func supersedableEntries(
        of index: Index<TrackedSend>, _ message: Index<Message>
    ) -> Range<Int>? {
        let entries = tracking.sends[index].entries
        guard entries.upperBound <= commits.pendingBatch.entries.count else { return nil }
        var count: UInt32 = 0
        for position in entries where !commits.pendingBatch.entries[position].isSettled {
            let entry = commits.pendingBatch.entries[position]
            guard entry.message == message else { return nil }
            count += 1
            switch owner(of: entry.queue) {
            case .session, .offlineQueue, .conversation: break
            case .inherited, .leftover, nil: return nil
            }
        }
        return count == memory.messages[message].pendingEntries ? entries : nil
    }

    /// What becomes of a copy.
    private enum CopyFate {
        case sent(Index<User>)
        case taken(Index<User>)
    }

    /// Strikes out an entry that was not sent.
    ///
    /// - Returns: nil for the entry of a conversation, which stays.
    private mutating func takeCopy(at position: Int, in step: inout Step) -> CopyFate? {
        let entry = commits.pendingBatch.entries[position]
        switch owner(of: entry.queue) {
        case .session(let session)?:
            guard takeCopy(entry, from: session) else { return .sent(sessions[session].user) }
            strike(entry, at: position)
            pump(session, in: &step)
            if !wakes.isEmpty { noteFewerWaiting(for: sessions[session].user) }
            return .taken(sessions[session].user)
        case .offlineQueue(let user)?:
            queues.countOut(
                offlineQueue: offlineQueueIndex(of: user), count: 1,
                byteCount: UInt64(entry.byteCount))
            strike(entry, at: position)
            if !wakes.isEmpty { noteFewerWaiting(for: user) }
            return .taken(user)
        case .conversation, .inherited, .leftover, nil: return nil
        }
    }

    /// Takes an entry out of the queue of a session. Returns false if it may have been sent.
    private mutating func takeCopy(_ entry: PendingEntry, from session: Index<Session>) -> Bool {
        guard let connected = sessions[session].connected,
            let place = live.connectedSessions[connected].position(of: entry.number)
        else {
            var sentThrough = max(
                sessions[session].inbox.acknowledgedThrough, sessions[session].sentThrough)
            if let connected = sessions[session].connected {
                sentThrough = max(sentThrough, live.connectedSessions[connected].sentThrough)
            }
            guard entry.number > sentThrough else { return false }
            countOutBacklog(session: session, count: 1, byteCount: UInt64(entry.byteCount))
            return true
        }
        let waiting = live.connectedSessions[connected].window[place]
        guard place >= live.connectedSessions[connected].sentCount, !mayBeSent(waiting, session)
        else { return false }
        let taken = live.connectedSessions[connected].remove(at: place)
        countOut(session: session, count: 1, byteCount: UInt64(taken.byteCount))
        memory.release(taken.message)
        return true
    }

    private mutating func strike(_ entry: PendingEntry, at position: Int) {
        _ = commits.strike(entry: UInt32(position), of: commits.pendingSequence)
        memory.removeEntry(of: entry.message)
        memory.take(entry.message)
        counters.entriesElided += 1
    }

    // MARK: - The commit

    /// The store refused the batch: the receivers that were struck out do not get the message.
    mutating func takeBackSuperseded() {
        for superseded in tracking.superseded
        where superseded.batch == commits.inFlightBatch.sequence {
            memory.refuseTaken(superseded.count, of: superseded.message)
            counters.receiversRefused += UInt64(superseded.count)
        }
    }

    /// Ends the sends that the in-flight batch has superseded; their results are told.
    mutating func finishSuperseded() {
        let batch = commits.inFlightBatch.sequence
        for superseded in tracking.superseded
        where superseded.batch <= batch && tracking.sends.contains(superseded.send) {
            forgetCollapsed(superseded.send.index)
        }
        tracking.superseded.removeAll { $0.batch <= batch }
    }
}
