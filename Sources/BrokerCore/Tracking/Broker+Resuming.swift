// What a device says that it has when it connects again. The broker reads these messages from the
// store before it removes them, if their senders may have asked for receipts.

import Primitives

extension Broker {
    /// Whether a user may have messages whose delivery is to be told. Sends to groups of other apps
    /// do not matter, nor those to users that are named.
    func mayAwaitDelivery(to user: Index<User>) -> Bool {
        tracking.mayAwaitDelivery(to: user)
            || tracking.mayAwaitDelivery(toGroupsOf: registry.users[user].app)
    }

    /// Settles an entry that the store has read, and that its receiver says it has.
    mutating func settleResumed(_ entry: LoadedEntry, _ session: Index<Session>) {
        countOut(session: session, count: 1, byteCount: UInt64(entry.byteCount))
        live.connectedSessions[connectedIndex(of: session)].noteRead(entry.number)
        sessions[session].inbox.acknowledgedThrough = entry.number
        removeFromStore(session, throughNumber: entry.number)
    }

    // MARK: - Sessions that end before it is read

    /// Whether a session that is to end is first read what its client has: the senders of these
    /// messages may have asked for receipts. It ends with ``expire(session:in:)``, at the latest
    /// after ``CoreLimits/endingReadSeconds``; a login before continues it.
    mutating func beginsEnding(_ session: Index<Session>) -> Bool {
        guard !tracking.resumed.isEmpty, tracking.resumed[session] != nil,
            sessions[session].isPersistent, sessions[session].inbox.count > 0
        else { return false }
        tracking.ending[session] = sessions[session].inbox.acknowledgedThrough
        queues.awaitLoad(ofEnding: sessions.handle(session))
        requestWaitingLoads()
        return true
    }

    /// Loads the next part of what the client of a session has.
    mutating func load(ending owner: Handle<Session>) {
        guard sessions.contains(owner), let lookedThrough = tracking.ending[owner.index] else {
            return
        }
        commits.load(
            LoadRequest(
                queue: sessions[owner.index].inbox.queue, afterNumber: lookedThrough,
                countMaximum: CoreLimits.loadCountMaximum,
                byteMaximum: CoreLimits.loadBytesMaximum),
            for: .ending(owner), expecting: CoreLimits.loadCountMaximum,
            byteCount: CoreLimits.loadBytesMaximum)
    }

    /// The number up to which the client of a session that ends has its messages; 0 if the session
    /// has ended, or goes on.
    func numberAwaited(byEnding owner: Handle<Session>) -> UInt64 {
        guard sessions.contains(owner), tracking.ending[owner.index] != nil else { return 0 }
        return tracking.resumed[owner.index] ?? 0
    }

    /// Notes the messages that the client of a session has, and ends the session after the last.
    ///
    /// - Parameter messages: each is held, and released here.
    mutating func takeLast(
        _ messages: [Index<Message>], in load: LoadedQueue, of owner: Handle<Session>,
        in step: inout Step
    ) {
        let (session, through) = (owner.index, numberAwaited(byEnding: owner))
        for message in messages {
            if memory.messages[message].hasFields { noteDelivered(message, by: session, in: &step) }
            memory.release(message)
        }
        guard through > 0 else { return }
        guard load.reachedEnd || load.examinedThrough >= through else {
            tracking.ending[session] = load.examinedThrough
            queues.awaitLoad(ofEnding: owner)
            return requestWaitingLoads()
        }
        // Ends between events, as every session that expires.
        cancelExpiry(session)
        sessions[session].expiryToken = deadlines.insert(
            .session(session), at: step.moment.instant)
    }

    /// Removes what a session's client has, because the session ends. Otherwise another session of
    /// the user would get it.
    mutating func clearResumed(_ session: Index<Session>) {
        tracking.ending[session] = nil
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
        // Entries up to it that have expired, or that the store refused, were not read.
        live.connectedSessions[connectedIndex(of: session)].noteRead(through: number)
    }
}
