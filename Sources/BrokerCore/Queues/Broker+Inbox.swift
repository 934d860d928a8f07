// Adds messages to inboxes: a message gets the next number, an entry in the pending batch, and an
// entry in the window if its receiver is connected. This file also applies the policy of full
// queues.

import Primitives

extension Broker {
    // MARK: - To many

    /// Puts a message into the inbox of every session of an audience, and delivers it to the
    /// sessions that are ready.
    mutating func enqueue(
        _ message: Index<Message>, audience: Index<Audience>, excluding excluded: Index<Session>?,
        tally: inout RoutingTally, in step: inout Step
    ) {
        let sender = senderSession(of: message)
        let isRetained = MessageBlock(memory.messages[message].block).marks.contains(.retain)
        workload.charge(routing.audiences[audience].subscribers.count)
        let isPullable = tally.isPullable
        for position in 0..<routing.audiences[audience].subscribers.count {
            let subscriber = routing.audiences[audience].subscribers[position]
            if subscriber.session == excluded || !subscriber.takes(from: sender) { continue }
            if isPullable, isPulled(subscriber.session, message, tally: &tally, in: &step) {
                continue
            }
            if subscriber.grade == .transient {
                tally.taken += 1
                deliverTransiently(message, to: subscriber, isRetained, in: &step)
                continue
            }
            var state = subscriber.state(
                grade: min(memory.messages[message].grade, subscriber.grade), isRetained: isRetained
            )
            if subscriber.options.contains(.chosen) {
                state.options.insert(.shared)
                state.share =
                    routing.audiences[routing.subscriptions[subscriber.subscription].audience].share
            }
            enqueue(message, session: subscriber.session, state: state, tally: &tally, in: &step)
        }
    }

    /// Puts a message into the inbox of every session of a user.
    mutating func enqueue(
        _ message: Index<Message>, sessionsOf user: Index<User>,
        excluding excluded: Index<Session>? = nil, tally: inout RoutingTally, in step: inout Step
    ) {
        let state = EntryState(grade: memory.messages[message].grade)
        var next = registry.users[user].firstSession
        while let session = next {
            if !sessions[session].dialect.isMQTT, session != excluded,
                !tally.isPullable || !isPulled(session, message, tally: &tally, in: &step)
            {
                enqueue(message, session: session, state: state, tally: &tally, in: &step)
            }
            next = sessions[session].nextOfUser
        }
    }

    /// The session that sent a message; nil if it has ended, or if no session sent it.
    func senderSession(of message: Index<Message>) -> Index<Session>? {
        let sender = memory.messages[message].sender
        return sessions.contains(sender) ? sender.index : nil
    }

    /// Delivers a message to a subscription of grade *transient*. A full store may take back a
    /// message of grade *once*, so such a message is delivered after its commit only.
    mutating func deliverTransiently(
        _ message: Index<Message>, to subscriber: Subscriber, _ isRetained: Bool,
        in step: inout Step
    ) {
        guard subscriber.connection != .none else { return }
        if memory.messages[message].grade == .once && !memory.messages[message].isRouted {
            attachToBatch(message)
            commits.deliver(message, to: subscriber, isRetained: isRetained)
            return
        }
        let state = listingIdentifiers(
            subscriber.state(grade: .transient, isRetained: isRetained), of: subscriber.session,
            message, in: &step.effects[subscriber.connection.loop])
        step.effects[subscriber.connection.loop].deliver(
            stamp: memory.messages[message].stamp, block: memory.messages[message].block,
            deadline: memory.messages[message].deadline, to: subscriber.connection,
            subscriber.dialect,
            state: state)
        counters.deliveries += 1
    }

    // MARK: - To one

    /// Gives a message the next number of a session's inbox.
    mutating func enqueue(
        _ message: Index<Message>, session: Index<Session>, state: EntryState,
        tally: inout RoutingTally, in step: inout Step
    ) {
        let byteCount = UInt32(memory.messages[message].blockByteCount)
        guard sessions[session].isPersistent else {
            enqueueInMemory(
                message, session: session, state: state, byteCount: byteCount, tally: &tally,
                in: &step)
            pump(session, in: &step)
            return
        }
        if !hasRoom(sessions[session].inbox, for: byteCount) {
            switch makeRoom(session: session, for: byteCount, in: &step) {
            case .found: break
            case .dropped:
                sessions[session].inbox.overflowCount += 1
                untakenReceivers.note(sessions[session].user)
                tally.taken += 1
                return
            case .refused:
                sessions[session].inbox.overflowCount += 1
                let limit = limitReached(by: sessions[session].inbox)
                noteRefused(
                    user: sessions[session].user, device: sessions[session].device, limit, in: &step
                )
                return tally.refuse(.quotaExceeded, limit)
            }
        }
        tally.taken += 1
        var state = state
        if memory.messages[message].isOwnOnly { state.options.insert(.ownOnly) }
        let number = sessions[session].inbox.add(byteCount: byteCount)
        queues.countIn(1, byteCount: UInt64(byteCount))
        reserveNumbers(session)
        let batchEntry = addPendingEntry(
            message, queue: sessions[session].inbox.queue, number: number, byteCount: byteCount,
            state: state)
        appendToWindow(
            WindowEntry(
                number: number, message: message, batchEntry: batchEntry, byteCount: byteCount,
                state: state), in: session, in: &step)
    }

    /// Adds the newest entry of a session's queue to its window, if the session is connected and
    /// the window has space.
    @inline(__always)
    mutating func appendToWindow(
        _ entry: WindowEntry, in session: Index<Session>, in step: inout Step
    ) {
        guard let connected = sessions[session].connected else {
            if !wakes.isEmpty {
                noteWaiting(entry.message, for: sessions[session].user, in: &step)
            }
            return
        }
        // While entries are being moved into the queue, it waits on disk: in the window it would be
        // acknowledged before them, and with it all lower numbers.
        if !commits.awaitsArrivals(in: sessions[session].inbox.queue),
            live.connectedSessions[connected].takesNext(
                byteCount: Int(entry.byteCount),
                windowBytesMaximum: limits.inboxWindowBytesMaximum)
        {
            live.connectedSessions[connected].append(entry)
            memory.retain(entry.message)
        } else {
            live.connectedSessions[connected].addToBacklog(1)
        }
        pump(session, in: &step)
    }

    /// A session that is not persistent keeps its messages in memory only, while it is connected.
    private mutating func enqueueInMemory(
        _ message: Index<Message>, session: Index<Session>, state: EntryState, byteCount: UInt32,
        tally: inout RoutingTally, in step: inout Step
    ) {
        let connected = connectedIndex(of: session)
        let limit = memoryLimitReached(
            by: session, for: byteCount, isCounted: memory.messages[message].isInMemoryQueue)
        if let limit {
            counters.memoryQueueRefused += 1
            sessions[session].inbox.overflowCount += 1
            noteRefused(
                user: sessions[session].user, device: sessions[session].device, limit, in: &step)
            return tally.refuse(.quotaExceeded, limit)
        }
        memory.countInMemoryQueue(message)
        tally.taken += 1
        let number = sessions[session].inbox.add(byteCount: byteCount)
        if memory.messages[message].grade == .once { attachToBatch(message) }
        live.connectedSessions[connected].append(
            WindowEntry(
                number: number, message: message, batchEntry: .max, byteCount: byteCount,
                state: state))
        memory.retain(message)
    }

    /// Adds a message to the offline queue of a user without a session that receives its messages.
    mutating func enqueue(
        _ message: Index<Message>, offlineQueueOf user: Index<User>, grade: Grade? = nil,
        tally: inout RoutingTally, in step: inout Step
    ) {
        // A tracked send may name a sender that was deleted since.
        guard !registry.isDeleted(user) else { return tally.refuse(.topicNameInvalid) }
        let offlineQueue = offlineQueue(of: user)
        let byteCount = UInt32(memory.messages[message].blockByteCount)
        if !hasRoom(queues.offlineQueues[offlineQueue], for: byteCount) {
            switch makeRoom(offlineQueue: offlineQueue, for: byteCount) {
            case .found: break
            case .dropped:
                queues.noteOverflow(1, ofOfflineQueue: offlineQueue)
                untakenReceivers.note(user)
                tally.taken += 1
                return
            case .refused:
                queues.noteOverflow(1, ofOfflineQueue: offlineQueue)
                let limit = limitReached(by: queues.offlineQueues[offlineQueue])
                noteRefused(user: user, device: nil, limit, in: &step)
                return tally.refuse(.quotaExceeded, limit)
            }
        }
        tally.taken += 1
        let number = queues.add(toOfflineQueue: offlineQueue, byteCount: byteCount)
        _ = addPendingEntry(
            message, queue: queues.offlineQueues[offlineQueue].queue, number: number,
            byteCount: byteCount,
            state: EntryState(grade: grade ?? memory.messages[message].grade))
        if !wakes.isEmpty { noteWaiting(message, for: user, in: &step) }
    }

    /// Adds an entry to the pending batch. Returns its position.
    @inline(__always)
    private mutating func addPendingEntry(
        _ message: Index<Message>, queue: QueueID, number: UInt64, byteCount: UInt32,
        state: EntryState
    ) -> UInt32 {
        attachToBatch(message)
        memory.addEntry(of: message)
        return commits.store(
            PendingEntry(
                queue: queue, number: number, message: message, byteCount: byteCount,
                state: state))
    }

    /// Keeps the numbers of an inbox reserved in the store ahead of their use.
    mutating func reserveNumbers(_ session: Index<Session>) {
        let wanted = sessions[session].inbox.nextNumber + CoreLimits.numberReservation / 2
        guard wanted > sessions[session].reservationRequested else { return }
        sessions[session].reservationRequested = max(
            sessions[session].reservationRequested + CoreLimits.numberReservation, wanted)
        commits.reserve(
            through: sessions[session].reservationRequested, for: sessions.handle(session))
        markDirty(session, .session, isUrgent: true)
    }

    // MARK: - Full queues

    /// The decision on one more message for a full queue.
    private enum Room {
        case found
        /// The policy drops the message, and the sender does not get a reason.
        case dropped
        case refused
    }

    /// Whether a session can take one more message, by its limits alone.
    func hasRoom(_ session: Index<Session>, for byteCount: UInt32) -> Bool {
        guard !sessions[session].isPersistent else {
            return hasRoom(sessions[session].inbox, for: byteCount)
        }
        return sessions[session].connected != nil
            && memoryLimitReached(by: session, for: byteCount, isCounted: false) == nil
    }

    /// The limit that a message exceeds in the window of a session that is not persistent; nil if
    /// there is none. Every session has ``CoreLimits/inboxWindowBytesMaximum``, and more while the
    /// sum of all is below ``CoreLimits/memoryQueueBytesMaximum``.
    ///
    /// - Parameter isCounted: whether another such session has the message, so that its bytes are
    ///   counted already.
    private func memoryLimitReached(
        by session: Index<Session>, for byteCount: UInt32, isCounted: Bool
    ) -> LimitName? {
        let connected = connectedIndex(of: session)
        if live.connectedSessions[connected].window.count >= limits.memoryQueueCountMaximum {
            return .memoryQueue
        }
        if sessions[session].inbox.byteCount + UInt64(byteCount) > limits.queueBytesMaximum {
            return .queueBytes
        }
        let own = live.connectedSessions[connected].windowByteCount + Int(byteCount)
        if own <= limits.inboxWindowBytesMaximum || live.connectedSessions[connected].window.isEmpty
        {
            return nil
        }
        let all = memory.memoryQueueByteCount + (isCounted ? 0 : Int(byteCount))
        return all <= limits.memoryQueueBytesMaximum ? nil : .memoryQueueBytes
    }

    private func limitReached(by inbox: Inbox) -> LimitName {
        inbox.count >= limits.queueCountMaximum ? .queueMessages : .queueBytes
    }

    @inline(__always)
    private func hasRoom(_ inbox: Inbox, for byteCount: UInt32) -> Bool {
        inbox.count < limits.queueCountMaximum
            && inbox.byteCount + UInt64(byteCount) <= limits.queueBytesMaximum
    }

    /// Applies the policy of full queues to a session's.
    private mutating func makeRoom(
        session: Index<Session>, for byteCount: UInt32, in step: inout Step
    ) -> Room {
        guard limits.queuePolicy == .oldest else { return roomWithoutTrim() }
        guard let connected = sessions[session].connected else {
            return trim(
                sessions[session].inbox, onDisk: UInt64(sessions[session].inbox.count),
                bytesOnDisk: sessions[session].inbox.byteCount, for: byteCount)
        }
        // Entries of the window that have not been sent are older than those on disk.
        while !hasRoom(sessions[session].inbox, for: byteCount),
            Int(live.connectedSessions[connected].sentCount)
                < live.connectedSessions[connected].window.count
        {
            counters.queueDropped += 1
            sessions[session].inbox.overflowCount += 1
            drop(session, Int(live.connectedSessions[connected].sentCount), in: &step)
        }
        if hasRoom(sessions[session].inbox, for: byteCount) { return .found }
        return trim(
            sessions[session].inbox, onDisk: UInt64(live.connectedSessions[connected].backlogCount),
            bytesOnDisk: sessions[session].inbox.byteCount
                - UInt64(live.connectedSessions[connected].windowByteCount), for: byteCount)
    }

    private mutating func makeRoom(offlineQueue: Index<Inbox>, for byteCount: UInt32) -> Room {
        guard limits.queuePolicy == .oldest else { return roomWithoutTrim() }
        return trim(
            queues.offlineQueues[offlineQueue],
            onDisk: UInt64(queues.offlineQueues[offlineQueue].count),
            bytesOnDisk: queues.offlineQueues[offlineQueue].byteCount, for: byteCount)
    }

    private mutating func roomWithoutTrim() -> Room {
        switch limits.queuePolicy {
        case .refuse: return .refused
        case .oldest, .newest:
            counters.queueDropped += 1
            return .dropped
        }
    }

    /// Asks the store to remove as many of a queue's oldest entries as one more message needs. If
    /// all entries have been sent to the receiver already, the new message is dropped.
    private mutating func trim(
        _ inbox: Inbox, onDisk: UInt64, bytesOnDisk: UInt64, for byteCount: UInt32
    ) -> Room {
        var pending = queues.pendingTrim(of: inbox.queue)
        let count = UInt64(inbox.count) + 1
        let bytes = inbox.byteCount + UInt64(byteCount)
        let missing = TrimAmount(
            count: count.missing(from: UInt64(limits.queueCountMaximum) + pending.amount.count),
            byteCount: bytes.missing(from: limits.queueBytesMaximum + pending.amount.byteCount))
        pending.amount += missing
        if pending.amount.count > onDisk || pending.amount.byteCount > bytesOnDisk {
            return roomWithoutTrim()
        }
        guard missing.count > 0 || missing.byteCount > 0 else { return .found }
        commits.trim(inbox.queue, by: missing, at: &pending.position)
        queues.note(pending, of: inbox.queue)
        return .found
    }
}

extension UInt64 {
    /// The part of the number above a bound.
    func missing(from bound: UInt64) -> UInt64 { self > bound ? self - bound : 0 }
}
