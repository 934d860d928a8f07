// What a device says that it has when it connects again. The broker reads these messages from the
// store before it removes them, if their senders may have asked for receipts.

import Primitives

extension Broker {
    /// Settles an entry that the store has read, and that its receiver says it has.
    mutating func settleResumed(_ entry: LoadedEntry, _ session: Index<Session>) {
        countOut(session: session, count: 1, byteCount: UInt64(entry.byteCount))
        live.connectedSessions[connectedIndex(of: session)].noteRead(entry.number)
        sessions[session].inbox.acknowledgedThrough = entry.number
        removeFromStore(session, throughNumber: entry.number)
    }

    /// Removes what a session's client has, because the session ends before it was read. Otherwise
    /// another session of the user would get it.
    mutating func clearResumed(_ session: Index<Session>) {
        guard let number = tracking.resumed.removeValue(forKey: session) else { return }
        sessions[session].inbox.acknowledgedThrough = number
        commits.clear(
            sessions[session].inbox.queue, through: number,
            countMaximum: sessions[session].inbox.count)
    }

    /// Notes the messages that were settled, and ends the resumption of a session if its window
    /// begins behind what its client has.
    ///
    /// - Parameter messages: each is held, and released here.
    mutating func finishResuming(
        _ session: Index<Session>, _ messages: [Index<Message>], isComplete: Bool,
        in step: inout Step
    ) {
        // A receipt may enter the queue of the same session, behind all that was read.
        for message in messages {
            if memory.messages[message].hasFields {
                noteDelivered(message, by: session, in: &step)
            }
            memory.release(message)
        }
        guard isComplete, let number = tracking.resumed.removeValue(forKey: session) else { return }
        sessions[session].inbox.acknowledgedThrough = max(
            sessions[session].inbox.acknowledgedThrough, number)
    }
}
