// Application ids of MQTT sends. A send whose id was used within the window of its session is a
// repeat: it is acknowledged like the first one and not delivered again. MRT recognises resends by
// their numbers and does not need this.

import BrokerTerms
import Primitives

extension Broker {
    /// The recent send of a session with an application id.
    mutating func recentSend(_ identifier: [UInt8], of sender: Index<Session>) -> RecentSend? {
        // There may be many without a result.
        workload.charge(
            sessions[sender].senderState.value.recentSends.count / CoreLimits.looksPerWork)
        return sessions[sender].senderState.value.recentSends.first(identifier)
    }

    /// Adds an accepted send that has an id. The window is as long as that of unanswered sends;
    /// sends without a result remain beyond it, because repeats may wait for them.
    mutating func addRecentSend(
        _ request: SendRequest, _ tally: RoutingTally, from sender: Index<Session>
    ) {
        guard sessions[sender].senderState.exists,
            let identifier = sessions[sender].senderState.value.applicationIdentifier(
                of: request.number)
        else { return }
        let count = sessions[sender].senderState.value.recentSends.count
        if count >= Int(limits.sendWindowMaximum),
            sessions[sender].senderState.value.recentSends.removeOldestComplete()
        {
            // The search among the earlier ones, and the moves.
            workload.charge(count / CoreLimits.looksPerWork)
        }
        sessions[sender].senderState.value.recentSends.add(
            request.number, identifier: identifier, refusals: tally.refusals,
            refusedCount: tally.refusedCount)
    }

    /// Answers a repeat as soon as the result of the first send is known and the row of the repeat
    /// is committed.
    mutating func repeatSend(
        _ earlier: RecentSend, _ request: SendRequest, from sender: Index<Session>,
        in step: inout Step
    ) {
        counters.sendsRepeated += 1
        var entry = OutboxEntry(number: request.number, stamp: 0, grade: request.grade)
        entry.packetIdentifier = request.packetIdentifier
        entry.reason = earlier.reason
        storeRefusals(earlier.refusals, in: &entry, of: sender)
        if !earlier.isComplete {
            entry.original = earlier.number
            sessions[sender].senderState.value.recentSends.awaitResult(of: earlier.number)
        }
        entry.refusedCount = earlier.refusedCount
        if request.grade == .once && sessions[sender].isPersistent {
            // The identifier names this repeat until it is released, also after a crash.
            entry.awaitsRow = true
            commits.putWithSends(sendRow(entry, of: sender))
            commits.note(repeat: request.number, of: sessions.handle(sender))
        }
        entry.isComplete = earlier.isComplete && !entry.awaitsRow
        addPublication(entry, of: sender)
        if entry.isComplete { reportInOrder(sender, in: &step) }
    }

    /// Takes the result of the batch with the rows of repeats. If the store had no room for the
    /// rows, the repeats are refused.
    mutating func settleRepeats(isStored: Bool, in step: inout Step) {
        for (session, number) in commits.inFlightBatch.repeats where sessions.contains(session) {
            let sender = session.index
            guard var entry = publication(number, of: sender) else { continue }
            entry.awaitsRow = false
            if !isStored {
                entry.original = 0
                entry.reason = .quotaExceeded
            } else if entry.reason.isFailure {
                // The first send was refused meanwhile.
                deleteSendRow(of: entry, sender)
            }
            completeRepeat(entry, of: sender, in: &step)
        }
    }

    private mutating func completeRepeat(
        _ repeated: OutboxEntry, of sender: Index<Session>, in step: inout Step
    ) {
        var entry = repeated
        entry.isComplete = entry.original == 0 && !entry.awaitsRow
        update(entry, of: sender, in: &step)
    }

    /// Takes the result of a send, whether or not its sender is connected.
    mutating func completeRecentSend(
        of message: Index<Message>, reason: ReasonCode, in step: inout Step
    ) {
        let handle = memory.messages[message].sender
        let number = memory.messages[message].senderNumber
        guard sessions.contains(handle), sessions[handle.index].senderState.exists,
            let completion = sessions[handle.index].senderState.value.recentSends.complete(
                number, reason)
        else { return }
        let sender = handle.index
        // A disconnected client sends nothing that would shorten the list. It is shortened once,
        // after the last of up to 65,535 results.
        if completion.isLast, !reason.isFailure, !sessions[sender].isConnected {
            trimRecentSends(of: sender)
        }
        guard completion.hasRepeats else { return }
        workload.charge(sessions[sender].outbox.count / CoreLimits.looksPerWork)
        for repeated in repeats(of: number, by: sender) {
            var entry = repeated
            entry.original = 0
            entry.reason = reason
            if reason.isFailure && !entry.awaitsRow { deleteSendRow(of: entry, sender) }
            completeRepeat(entry, of: sender, in: &step)
        }
    }

    /// Shortens the list of a session's recent sends to the length of its window.
    mutating func trimRecentSends(of sender: Index<Session>) {
        guard sessions[sender].senderState.exists else { return }
        let count = sessions[sender].senderState.value.recentSends.count
        guard count > Int(limits.sendWindowMaximum) else { return }
        workload.charge(count / CoreLimits.looksPerWork)
        sessions[sender].senderState.value.recentSends.trim(to: Int(limits.sendWindowMaximum))
    }

    /// The repeats that wait for the result of a send.
    private func repeats(of number: UInt64, by sender: Index<Session>) -> [OutboxEntry] {
        sessions[sender].outbox.repeats(of: number)
            + sessions[sender].senderState.value.interrupted.repeats(of: number)
    }

    /// Deletes the row of a repeat that is refused: its identifier is free again.
    private mutating func deleteSendRow(of entry: OutboxEntry, _ sender: Index<Session>) {
        guard entry.grade == .once && sessions[sender].isPersistent else { return }
        commits.remove(
            .outboxes, key: RecordKey.packet(sessions[sender].identifier, entry.packetIdentifier))
    }
}
