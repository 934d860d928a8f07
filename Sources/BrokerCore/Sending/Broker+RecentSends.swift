// Application ids of MQTT sends. A send whose id was used within the window of its session is a
// repeat: it is acknowledged like the first one and not delivered again. MRT recognises resends by
// their numbers and does not need this.

import BrokerTerms
import Primitives

/// A send with an application id.
struct RecentSend {
    let identifier: [UInt8]
    let number: UInt64
    /// Whether `reason` is final.
    var isComplete = false
    var reason = ReasonCode.sent
    /// Refused receivers of a list; empty for nearly every send.
    var refusals: [Refusal] = []
    /// The number of refused receivers, named or not.
    var refusedCount: UInt32 = 0
    /// Whether repeats of it wait for its result.
    var hasRepeats = false
}

/// The id of a send, for its answer.
struct SendTag {
    let number: UInt64
    let identifier: [UInt8]
}

extension Broker {
    /// The position of a session's recent send with an id.
    mutating func recentSend(_ identifier: [UInt8], of sender: Index<Session>) -> Int? {
        // There may be many without a result.
        workload.charge(
            sessions[sender].senderState.value.recentSends.count / CoreLimits.looksPerWork)
        return sessions[sender].senderState.value.recentSends.firstIndex {
            $0.identifier == identifier
        }
    }

    /// Adds an accepted send that has an id. The window is as long as that of unanswered sends;
    /// sends without a result remain beyond it, because repeats may wait for them.
    mutating func noteRecentSend(
        _ request: SendRequest, _ tally: RoutingTally, from sender: Index<Session>
    ) {
        guard sessions[sender].senderState.exists,
            let tag = sessions[sender].senderState.value.sendTags.last(
                where: { $0.number == request.number })
        else { return }
        if sessions[sender].senderState.value.recentSends.count >= Int(limits.sendWindowMaximum),
            let oldest = sessions[sender].senderState.value.recentSends.firstIndex(
                where: \.isComplete)
        {
            // The search among the earlier ones, and the moves.
            workload.charge(
                sessions[sender].senderState.value.recentSends.count / CoreLimits.looksPerWork)
            sessions[sender].senderState.value.removeRecentSend(at: oldest)
        }
        let nameCount =
            sessions[sender].senderState.value.recentNameCount + tally.refusals.count
        let areNamed = nameCount <= SenderState.recentNamesMaximum
        if areNamed { sessions[sender].senderState.value.recentNameCount = nameCount }
        sessions[sender].senderState.value.recentSends.append(
            RecentSend(
                identifier: tag.identifier, number: request.number,
                refusals: areNamed ? tally.refusals : [], refusedCount: tally.refusedCount))
    }

    /// Answers a repeat as soon as the result of the first send is known and the row of the repeat
    /// is committed.
    mutating func repeatSend(
        _ recent: Int, _ request: SendRequest, from sender: Index<Session>, in step: inout Step
    ) {
        counters.sendsRepeated += 1
        let known = sessions[sender].senderState.value.recentSends[recent]
        var entry = OutboxEntry(number: request.number, stamp: 0, grade: request.grade)
        entry.packetIdentifier = request.packetIdentifier
        entry.reason = known.reason
        name(known.refusals, in: &entry, of: sender)
        if !known.isComplete {
            entry.original = known.number
            sessions[sender].senderState.value.recentSends[recent].hasRepeats = true
        }
        entry.refusedCount = known.refusedCount
        if request.grade == .once && sessions[sender].isPersistent {
            // The identifier names this repeat until it is released, also after a crash.
            entry.awaitsRow = true
            commits.putWithSends(sendRow(entry, of: sender))
            commits.note(repeat: request.number, of: sessions.handle(sender))
        }
        entry.isComplete = known.isComplete && !entry.awaitsRow
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
            !sessions[handle.index].senderState.value.recentSends.isEmpty,
            let place = sessions[handle.index].senderState.value.place(ofRecent: number)
        else { return }
        let sender = handle.index
        let hasRepeats = sessions[sender].senderState.value.recentSends[place].hasRepeats
        if reason.isFailure {
            // After a refusal, a send with the same id is a new one.
            sessions[sender].senderState.value.removeRecentSend(at: place)
        } else {
            sessions[sender].senderState.value.recentSends[place].isComplete = true
            sessions[sender].senderState.value.recentSends[place].reason = reason
            // A disconnected client sends nothing that would shorten the list. It is shortened
            // once, after the last of up to 65,535 results.
            let isLast = place == sessions[sender].senderState.value.recentSends.count - 1
            if isLast, !sessions[sender].isConnected { trimRecentSends(of: sender) }
        }
        guard hasRepeats else { return }
        workload.charge(sessions[sender].outbox.count / CoreLimits.looksPerWork)
        for repeated in publications(repeating: number, of: sender) {
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
        sessions[sender].senderState.value.trimRecentSends(to: Int(limits.sendWindowMaximum))
    }

    /// The repeats that wait for the result of a send.
    private func publications(repeating number: UInt64, of sender: Index<Session>) -> [OutboxEntry]
    {
        var found: [OutboxEntry] = []
        for position in 0..<sessions[sender].outbox.count
        where sessions[sender].outbox[position].original == number {
            found.append(sessions[sender].outbox[position])
        }
        for position in 0..<sessions[sender].senderState.value.interrupted.count
        where sessions[sender].senderState.value.interrupted[position].original == number {
            found.append(sessions[sender].senderState.value.interrupted[position])
        }
        return found
    }

    /// Deletes the row of a repeat that is refused: its identifier is free again.
    private mutating func deleteSendRow(of entry: OutboxEntry, _ sender: Index<Session>) {
        guard entry.grade == .once && sessions[sender].isPersistent else { return }
        commits.remove(
            .outboxes, key: RecordKey.packet(sessions[sender].identifier, entry.packetIdentifier))
    }
}
