// Collapse keys: once the sender of a message with a key is told that it is accepted, no earlier
// message with that key begins to be sent. One that was sent before may be sent again.

import BrokerTerms

extension Oracle {
    /// The broker sends a copy of a message to a device.
    func copySent(_ message: Int) {
        guard message < sends.count, let key = revisionFacts.keys[sends[message].messageIdentifier],
            revisionFacts.sent.insert(message).inserted, isAnsweredAtOnce(message)
        else { return }
        for identifier in revisionFacts.collapsing[key] ?? [] {
            guard let newer = revisionFacts.messages[identifier], newer != message,
                isNewer(newer, than: message)
            else { continue }
            return fail(
                .newestIsDelivered, "sent first after message \(newer) has its place",
                message: message, client: sends[message].client)
        }
    }

    /// Whether a message was accepted after another one of its client, and its sender knows.
    private func isNewer(_ newer: Int, than message: Int) -> Bool {
        let (first, second) = (sends[message], sends[newer])
        guard first.client == second.client, first.outboxEpoch == second.outboxEpoch,
            first.number < second.number, let outcome = second.outcome
        else { return false }
        return outcome.reason == .sent && outcome.refusedCount == 0 && isAnsweredAtOnce(newer)
            && !outcome.mayHaveLackedRoom && !mayHaveLackedRoom(second)
    }

    /// Whether the broker has not died between a send and its result, so that it accepted the send
    /// once, in its turn.
    private func isAnsweredAtOnce(_ message: Int) -> Bool {
        let send = sends[message]
        guard send.forgetfulness == 0 else { return false }
        return (send.outcome?.deathsBefore ?? deaths) == send.deathsBefore
    }
}
