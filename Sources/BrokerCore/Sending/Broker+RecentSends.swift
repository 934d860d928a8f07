// The application's own ids of what MQTT clients send: one that comes again within the window of
// its session is a repeat, acknowledged as the first one was and not delivered again. MRT
// recognises resends by their numbers and needs none of this.

import BrokerTerms
import Primitives

/// A send under an id of the application's own.
struct RecentSend {
    let identifier: [UInt8]
    let number: UInt64
    /// Whether `reason` is final.
    var isComplete = false
    var reason = ReasonCode.sent
    /// Receivers of a list that were refused; empty in nearly every case.
    var refusals: [Refusal] = []
    /// Receivers that were refused, named or only counted.
    var refusedCount: UInt32 = 0
    /// Whether repeats of it wait for its fate.
    var hasRepeats = false
}

/// The id of a send, for its answer.
struct SendTag {
    let number: UInt64
    let identifier: [UInt8]
}

extension Broker {
    /// The place of what a session sent under an id.
    mutating func recentSend(_ identifier: [UInt8], of sender: Index<Session>) -> Int? {
        // Those whose fate is not known may be many.
        workload.charge(
            sessions[sender].senderState.value.recentSends.count / CoreLimits.looksPerWork)
        return sessions[sender].senderState.value.recentSends.firstIndex {
            $0.identifier == identifier
        }
    }

    /// Notes an accepted send that has an id. The window is as long as that of unanswered sends;
    /// one whose fate is not known yet stays in it, since repeats may share it.
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
            // Those before it, and those that move up.
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

    /// Answers a repeat: as soon as the first one's fate is known and what has to be stored of the
    /// repeat is.
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
            // Its identifier names nothing else until it is released, after a crash too.
            entry.awaitsRow = true
            commits.putWithSends(sendRow(entry, of: sender))
            commits.note(repeat: request.number, of: sessions.handle(sender))
        }
        entry.isComplete = known.isComplete && !entry.awaitsRow
        addPublication(entry, of: sender)
        if entry.isComplete { reportInOrder(sender, in: &step) }
    }

    /// The batch with the rows of repeats is committed, or the store had no room for them: then
    /// nothing of them is stored, and they are refused.
    mutating func settleRepeats(isStored: Bool, in step: inout Step) {
        for (session, number) in commits.inFlightBatch.repeats where sessions.contains(session) {
            let sender = session.index
            guard var entry = publication(number, of: sender) else { continue }
            entry.awaitsRow = false
            if !isStored {
                entry.original = 0
                entry.reason = .quotaExceeded
            } else if entry.reason.isFailure {
                // The first one was refused meanwhile.
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

    /// The fate of a send is known, whether or not its sender is there to be told.
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
            // It leaves no trace: the next one is new.
            sessions[sender].senderState.value.removeRecentSend(at: place)
        } else {
            sessions[sender].senderState.value.recentSends[place].isComplete = true
            sessions[sender].senderState.value.recentSends[place].reason = reason
            // A client that is away sends nothing that would shorten the list. Once for all sends:
            // there may be 65,535, and the last of them is known last.
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

    /// Leaves a session as many recent sends as its window is long.
    mutating func trimRecentSends(of sender: Index<Session>) {
        guard sessions[sender].senderState.exists else { return }
        let count = sessions[sender].senderState.value.recentSends.count
        guard count > Int(limits.sendWindowMaximum) else { return }
        workload.charge(count / CoreLimits.looksPerWork)
        sessions[sender].senderState.value.trimRecentSends(to: Int(limits.sendWindowMaximum))
    }

    /// Repeats that wait for the fate of a send.
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

    /// Takes the row of a repeat that is refused out of the store: its identifier is free again.
    private mutating func deleteSendRow(of entry: OutboxEntry, _ sender: Index<Session>) {
        guard entry.grade == .once && sessions[sender].isPersistent else { return }
        commits.remove(
            .outboxes, key: RecordKey.packet(sessions[sender].identifier, entry.packetIdentifier))
    }
}
