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

    /// Notes an accepted send that has an id. The window is as long as that of unanswered sends.
    mutating func noteRecentSend(
        _ request: SendRequest, refusals: [Refusal], from sender: UInt32
    ) {
        guard
            let tag = sessions[sender].sendTags.last(where: { $0.number == request.number })
        else { return }
        if sessions[sender].recentSends.count >= Int(limits.sendWindowMaximum) {
            sessions[sender].recentSends.removeFirst()
        }
        sessions[sender].recentSends.append(
            RecentSend(
                identifier: tag.identifier, number: request.number, refusals: refusals))
    }

    /// Answers a repeat: at once where the first one's fate is known and nothing of the repeat has
    /// to be stored, otherwise with the batch that is gathering, behind which both are.
    mutating func repeatSend(
        _ recent: Int, _ request: SendRequest, from sender: UInt32, _ effects: inout Effects
    ) {
        counters.sendsRepeated += 1
        let known = sessions[sender].recentSends[recent]
        var entry = OutboxEntry(number: request.number, stamp: 0, grade: request.grade)
        entry.packetIdentifier = request.packetIdentifier
        entry.reason = known.reason
        entry.refusals = known.refusals
        if request.grade == .once && sessions[sender].isPersistent {
            // Its identifier names nothing else until it is released, after a crash too.
            gathering.records.append(sendRow(entry, of: sender))
        } else {
            entry.isComplete = known.isComplete
        }
        sessions[sender].outbox.append(entry)
        if entry.isComplete {
            reportInOrder(sender, &effects)
        } else {
            gathering.repeats.append((sessions.handle(sender), request.number, known.number))
            gathering.isUrgent = true
        }
    }

    /// The batch is committed that repeats waited for.
    mutating func completeRepeats(_ effects: inout Effects) {
        for (session, number, original) in committing.repeats where sessions.contains(session) {
            let sender = session.index
            guard let position = sessions[sender].outboxPosition(number) else { continue }
            // The store may have taken the first one back: then the repeat is refused as well.
            let known = sessions[sender].recentSends.first { $0.number == original }
            sessions[sender].outbox[position].reason = known?.reason ?? .quotaExceeded
            sessions[sender].outbox[position].isComplete = true
            reportInOrder(sender, &effects)
        }
    }

    /// The fate of a send is known, whether or not its sender is there to be told.
    mutating func completeRecentSend(of message: UInt32, reason: ReasonCode) {
        let sender = messages[message].sender
        guard sessions.contains(sender), !sessions[sender.index].recentSends.isEmpty,
            let place = sessions[sender.index].recentSends.firstIndex(where: {
                $0.number == messages[message].senderNumber
            })
        else { return }
        if reason.isFailure {
            // It leaves no trace: the next one is new.
            sessions[sender.index].recentSends.remove(at: place)
        } else {
            sessions[sender.index].recentSends[place].isComplete = true
            sessions[sender.index].recentSends[place].reason = reason
        }
    }
}
