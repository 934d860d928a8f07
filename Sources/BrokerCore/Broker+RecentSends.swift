// The application's own ids of what MQTT clients send: one that comes again within the window of
// its session is a repeat, acknowledged as the first one was and not delivered again. MRT
// recognises resends by their numbers and needs none of this.

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
}

/// The id of a send, for its answer.
struct SendTag {
    let number: UInt64
    let identifier: [UInt8]
}

extension Broker {
    /// The place of what a session sent under an id.
    func recentSend(_ identifier: [UInt8], of sender: UInt32) -> Int? {
        sessions[sender].recentSends.firstIndex { $0.identifier == identifier }
    }

    /// Notes an accepted send that has an id. The window is as long as that of unanswered sends;
    /// one whose fate is not known yet stays in it, since repeats may share it.
    mutating func noteRecentSend(
        _ request: SendRequest, _ tally: RoutingTally, from sender: UInt32
    ) {
        guard
            let tag = sessions[sender].sendTags.last(where: { $0.number == request.number })
        else { return }
        if sessions[sender].recentSends.count >= Int(limits.sendWindowMaximum),
            let oldest = sessions[sender].recentSends.firstIndex(where: \.isComplete)
        {
            sessions[sender].recentSends.remove(at: oldest)
        }
        sessions[sender].recentSends.append(
            RecentSend(
                identifier: tag.identifier, number: request.number, refusals: tally.refusals,
                refusedCount: tally.refusedCount))
    }

    /// Answers a repeat: as soon as the first one's fate is known and what has to be stored of the
    /// repeat is.
    mutating func repeatSend(
        _ recent: Int, _ request: SendRequest, from sender: UInt32, _ effects: inout Effects
    ) {
        counters.sendsRepeated += 1
        let known = sessions[sender].recentSends[recent]
        var entry = OutboxEntry(number: request.number, stamp: 0, grade: request.grade)
        entry.packetIdentifier = request.packetIdentifier
        entry.reason = known.reason
        entry.refusals = known.refusals
        if !known.isComplete { entry.original = known.number }
        entry.refusedCount = known.refusedCount
        if request.grade == .once && sessions[sender].isPersistent {
            // Its identifier names nothing else until it is released, after a crash too.
            entry.awaitsRow = true
            gathering.putWithSends(sendRow(entry, of: sender))
            gathering.repeats.append((sessions.handle(sender), request.number))
        }
        entry.isComplete = known.isComplete && !entry.awaitsRow
        sessions[sender].outbox.append(entry)
        if entry.isComplete { reportInOrder(sender, &effects) }
    }

    /// The batch with the rows of repeats is committed, or the store had no room for them: then
    /// nothing of them is stored, and they are refused.
    mutating func settleRepeats(isStored: Bool, _ effects: inout Effects) {
        for (session, number) in committing.repeats where sessions.contains(session) {
            let sender = session.index
            guard let position = sessions[sender].outboxPosition(number) else { continue }
            sessions[sender].outbox[position].awaitsRow = false
            if !isStored {
                sessions[sender].outbox[position].original = 0
                sessions[sender].outbox[position].reason = .quotaExceeded
            } else if sessions[sender].outbox[position].reason.isFailure {
                // The first one was refused meanwhile.
                deleteSendRow(of: sessions[sender].outbox[position], sender)
            }
            completeRepeat(sender, position, &effects)
        }
    }

    private mutating func completeRepeat(
        _ sender: UInt32, _ position: Int, _ effects: inout Effects
    ) {
        let entry = sessions[sender].outbox[position]
        guard entry.original == 0 && !entry.awaitsRow else { return }
        sessions[sender].outbox[position].isComplete = true
        reportInOrder(sender, &effects)
    }

    /// The fate of a send is known, whether or not its sender is there to be told.
    mutating func completeRecentSend(
        of message: UInt32, reason: ReasonCode, _ effects: inout Effects
    ) {
        let handle = messages[message].sender
        let number = messages[message].senderNumber
        guard sessions.contains(handle), !sessions[handle.index].recentSends.isEmpty,
            let place = sessions[handle.index].recentSends.firstIndex(where: {
                $0.number == number
            })
        else { return }
        let sender = handle.index
        if reason.isFailure {
            // It leaves no trace: the next one is new.
            sessions[sender].recentSends.remove(at: place)
        } else {
            sessions[sender].recentSends[place].isComplete = true
            sessions[sender].recentSends[place].reason = reason
        }
        // Numbers, since what is answered leaves the outbox.
        for repeated in sessions[sender].outbox.filter({ $0.original == number }) {
            guard let position = sessions[sender].outboxPosition(repeated.number) else { continue }
            sessions[sender].outbox[position].original = 0
            sessions[sender].outbox[position].reason = reason
            if reason.isFailure && !repeated.awaitsRow { deleteSendRow(of: repeated, sender) }
            completeRepeat(sender, position, &effects)
        }
    }

    /// Takes the row of a repeat that is refused out of the store: its identifier is free again.
    private mutating func deleteSendRow(of entry: OutboxEntry, _ sender: UInt32) {
        guard entry.grade == .once && sessions[sender].isPersistent else { return }
        gathering.remove(
            .outboxes, key: RecordKey.packet(sessions[sender].identifier, entry.packetIdentifier))
    }
}
