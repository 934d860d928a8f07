// Inboxes: numbers are given in the order of acceptance, deliveries leave in the order of numbers,
// acknowledgements are cumulative. A session holds a bounded window of messages in memory; what lies
// behind it is on disk only and is loaded as the window empties.

import Primitives

/// A message for whoever is online, without a place in memory.
struct TransientMessage {
    let stamp: UInt64
    let block: UnsafeRawBufferPointer
    let deadline: Instant
    /// The session it does not go to.
    let excluded: UInt32
}

extension Broker {
    // MARK: - Into an inbox

    /// Hands a message to everybody online in an audience. This is the fan-out: it reads the audience
    /// from front to back and touches nothing else.
    mutating func deliver(
        _ message: TransientMessage, to audience: UInt32, _ effects: inout Effects
    ) {
        var delivered: UInt64 = 0
        audiences[audience].subscribers.withUnsafeBufferPointer { subscribers in
            for subscriber in subscribers
            where subscriber.connection != .none && subscriber.session != message.excluded {
                let lane = subscriber.connection.lane
                let publication = effects[lane].publication(
                    stamp: message.stamp, block: message.block, deadline: message.deadline)
                effects[lane].effects.append(
                    .deliver(
                        Delivery(
                            connection: subscriber.connection, number: 0,
                            publication: publication, grade: .transient)))
                delivered += 1
            }
        }
        counters.deliveries += delivered
    }

    /// Puts a message into the inbox of every session of an audience, and delivers it where the
    /// session is ready for it.
    mutating func enqueue(
        _ message: UInt32, audience: UInt32, excluding excluded: UInt32,
        _ tally: inout RoutingTally, _ moment: Moment, _ effects: inout Effects
    ) {
        for position in 0..<audiences[audience].subscribers.count {
            let subscriber = audiences[audience].subscribers[position]
            if subscriber.session == excluded { continue }
            if subscriber.grade == .transient {
                tally.taken += 1
                deliverTransiently(message, to: subscriber, &effects)
                continue
            }
            let state = EntryState(grade: min(messages[message].grade, subscriber.grade))
            if let reason = enqueue(message, session: subscriber.session, state) {
                tally.refuse(reason)
            } else {
                tally.taken += 1
                pump(subscriber.session, moment, &effects)
            }
        }
    }

    /// A durable message for a subscription that wants it at most once.
    private mutating func deliverTransiently(
        _ message: UInt32, to subscriber: Subscriber, _ effects: inout Effects
    ) {
        guard subscriber.connection != .none else { return }
        let lane = subscriber.connection.lane
        let publication = effects[lane].publication(
            stamp: messages[message].stamp, block: messages[message].block,
            deadline: messages[message].deadline)
        effects[lane].effects.append(
            .deliver(
                Delivery(
                    connection: subscriber.connection, number: 0, publication: publication,
                    grade: .transient)))
        counters.deliveries += 1
    }

    /// Gives a message the next number of a session's inbox; nil, or why it cannot.
    private mutating func enqueue(
        _ message: UInt32, session: UInt32, _ state: EntryState
    ) -> ReasonCode? {
        let byteCount = UInt32(messages[message].blockByteCount)
        guard sessions[session].isPersistent else {
            return enqueueInMemory(message, session: session, state, byteCount)
        }
        if let reason = makeRoom(in: sessions[session].inbox, for: byteCount) { return reason }
        let number = sessions[session].inbox.add(byteCount: byteCount)
        reserveNumbers(session)
        attachToBatch(message)
        let entry = UInt32(gathering.entries.count)
        gathering.entries.append(
            PendingEntry(
                queue: sessions[session].inbox.queue, number: number, message: message,
                byteCount: byteCount, state: state))
        messages[message].pendingEntries += 1
        messages[message].unsettled += 1
        if hasRoomInWindow(session, for: Int(byteCount)) {
            appendToWindow(
                session,
                WindowEntry(
                    number: number, message: message, batchEntry: entry, byteCount: byteCount,
                    state: state))
        } else {
            sessions[session].backlogCount += 1
        }
        return nil
    }

    /// A session that is not persistent keeps its messages in memory only, while it is connected.
    private mutating func enqueueInMemory(
        _ message: UInt32, session: UInt32, _ state: EntryState, _ byteCount: UInt32
    ) -> ReasonCode? {
        if sessions[session].window.count >= limits.memoryQueueCountMaximum
            || (sessions[session].windowByteCount + Int(byteCount) > limits.queueBytesMaximum)
        {
            counters.memoryQueueDropped += 1
            return .quotaExceeded
        }
        let number = sessions[session].inbox.add(byteCount: byteCount)
        if state.grade == .once { attachToBatch(message) }
        appendToWindow(
            session,
            WindowEntry(
                number: number, message: message, batchEntry: .max, byteCount: byteCount,
                state: state))
        return nil
    }

    /// What waits for a user whom no session receives yet.
    mutating func enqueue(_ message: UInt32, mailboxOf user: UInt32, _ tally: inout RoutingTally) {
        if users[user].mailbox == nil {
            let queue = QueueID(raw: makeIdentifier())
            users[user].mailbox = Inbox(queue: queue)
            queueOwners[queue.raw] = .user(user)
            writeUser(user)
        }
        let byteCount = UInt32(messages[message].blockByteCount)
        if let reason = makeRoom(in: users[user].mailbox!, for: byteCount) {
            tally.refuse(reason)
            return
        }
        tally.taken += 1
        let number = users[user].mailbox!.add(byteCount: byteCount)
        attachToBatch(message)
        gathering.entries.append(
            PendingEntry(
                queue: users[user].mailbox!.queue, number: number, message: message,
                byteCount: byteCount, state: EntryState(grade: messages[message].grade)))
        messages[message].pendingEntries += 1
        messages[message].unsettled += 1
    }

    /// Whether an inbox can take one more message, by the queue's limits and policy.
    private mutating func makeRoom(in inbox: Inbox, for byteCount: UInt32) -> ReasonCode? {
        if inbox.count < limits.queueCountMaximum
            && inbox.byteCount + UInt64(byteCount) <= limits.queueBytesMaximum
        {
            return nil
        }
        return .quotaExceeded
    }

    /// Keeps the numbers of an inbox reserved in the store ahead of their use.
    mutating func reserveNumbers(_ session: UInt32) {
        let wanted = sessions[session].inbox.nextNumber + CoreLimits.numberReservation / 2
        guard wanted > sessions[session].reservationRequested else { return }
        sessions[session].reservationRequested += CoreLimits.numberReservation
        gathering.reservations.append(
            (sessions.handle(session), through: sessions[session].reservationRequested))
        markDirty(session, .session, isUrgent: true)
    }

    // MARK: - The window

    /// Whether the next message of a persistent session may go straight into its window: it is
    /// connected, nothing older waits on disk, and there is room.
    private func hasRoomInWindow(_ session: UInt32, for byteCount: Int) -> Bool {
        sessions[session].isConnected && sessions[session].backlogCount == 0
            && sessions[session].window.count < windowCapacity(session)
            && (sessions[session].windowByteCount + byteCount <= limits.inboxWindowBytesMaximum
                || sessions[session].window.isEmpty)
    }

    /// Messages held in memory for a session: twice what may be under way, so that there is something
    /// to send while the next ones are loaded.
    private func windowCapacity(_ session: UInt32) -> Int { sessions[session].windowMaximum * 2 }

    private mutating func appendToWindow(_ session: UInt32, _ entry: WindowEntry) {
        sessions[session].window.append(entry)
        sessions[session].windowByteCount += Int(entry.byteCount)
        sessions[session].loadedThrough = entry.number
        messages[entry.message].references += 1
    }

    /// Delivers what is ready: in the order of numbers, within the receiver's window, nothing of grade
    /// *once* before its commit, no number before it is reserved.
    mutating func pump(_ session: UInt32, _ moment: Moment, _ effects: inout Effects) {
        guard sessions[session].isConfirmed, sessions[session].isConnected else { return }
        while sessions[session].sentCount < sessions[session].window.count,
            sessions[session].sentCount < sessions[session].windowMaximum
        {
            let position = sessions[session].sentCount
            let entry = sessions[session].window[position]
            if sessions[session].isPersistent && entry.number > sessions[session].reservedThrough {
                return
            }
            if entry.state.grade == .once && messages[entry.message].batch != 0 {
                waitForBatch(session, of: entry.message)
                return
            }
            if messages[entry.message].deadline <= moment.instant {
                dropExpired(session, position, &effects)
                continue
            }
            sessions[session].sentCount += 1
            sessions[session].sentThrough = entry.number
            deliver(entry, to: sessions[session].connection, &effects)
        }
        loadMore(session)
    }

    @inline(__always)
    private mutating func deliver(
        _ entry: WindowEntry, to connection: ConnectionID, _ effects: inout Effects
    ) {
        let publication = effects[connection.lane].publication(
            stamp: messages[entry.message].stamp, block: messages[entry.message].block,
            deadline: messages[entry.message].deadline)
        effects[connection.lane].effects.append(
            .deliver(
                Delivery(
                    connection: connection, number: entry.number, publication: publication,
                    grade: entry.state.grade, options: entry.state.options,
                    packetIdentifier: entry.state.packetIdentifier,
                    subscriptionIdentifier: entry.state.subscriptionIdentifier)))
        counters.deliveries += 1
    }

    private mutating func waitForBatch(_ session: UInt32, of message: UInt32) {
        let handle = sessions.handle(session)
        if messages[message].batch == gathering.sequence {
            if gathering.waitingSessions.last != handle {
                gathering.waitingSessions.append(handle)
            }
        } else if committing.waitingSessions.last != handle {
            committing.waitingSessions.append(handle)
        }
    }

    private mutating func dropExpired(
        _ session: UInt32, _ position: Int, _ effects: inout Effects
    ) {
        counters.expired += 1
        let entry = sessions[session].window.remove(at: position)
        if settle(entry, session, &effects) == .inStore {
            gathering.removals.append(
                EntryRemoval(queue: sessions[session].inbox.queue, number: entry.number))
        }
    }

    /// A delivery could not be put on the wire: it is done with, and counted.
    mutating func dropOversize(
        _ connection: ConnectionID, _ number: UInt64, _ moment: Moment, _ effects: inout Effects
    ) {
        guard let session = session(of: connection) else { return }
        counters.oversizeDropped += 1
        for position in 0..<sessions[session].sentCount
        where sessions[session].window[position].number == number {
            let entry = sessions[session].window.remove(at: position)
            sessions[session].sentCount -= 1
            if settle(entry, session, &effects) == .inStore {
                gathering.removals.append(
                    EntryRemoval(queue: sessions[session].inbox.queue, number: number))
            }
            pump(session, moment, &effects)
            return
        }
    }

    /// Asks for more of the queue once half of the window's memory is free.
    mutating func loadMore(_ session: UInt32) {
        guard sessions[session].backlogCount > 0, !sessions[session].isLoading,
            sessions[session].isConnected
        else { return }
        let room = windowCapacity(session) - sessions[session].window.count
        guard room * 2 >= windowCapacity(session) else { return }
        let byteRoom = limits.inboxWindowBytesMaximum - sessions[session].windowByteCount
        guard byteRoom > 0 || sessions[session].window.isEmpty else { return }
        sessions[session].isLoading = true
        gathering.loads.append(
            LoadRequest(
                queue: sessions[session].inbox.queue,
                afterNumber: sessions[session].loadedThrough,
                countMaximum: min(room, CoreLimits.loadCountMaximum),
                byteMaximum: min(max(byteRoom, 1), CoreLimits.loadBytesMaximum)))
        gathering.loadOwners.append((sessions.handle(session), sessions[session].attachment))
    }

    // MARK: - Acknowledgement

    /// The receiver holds everything up to a number.
    mutating func acknowledgeInbox(
        _ connection: ConnectionID, _ throughNumber: UInt64, _ moment: Moment,
        _ effects: inout Effects
    ) {
        guard let session = session(of: connection) else { return }
        guard throughNumber <= sessions[session].sentThrough else {
            close(session, .protocolError, moment, &effects)
            return
        }
        guard throughNumber > sessions[session].acknowledgedThrough else { return }
        sessions[session].acknowledgedThrough = throughNumber
        counters.acknowledgements += 1
        var needsStore = false
        while sessions[session].sentCount > 0,
            sessions[session].window[0].number <= throughNumber
        {
            let entry = sessions[session].window.removeFirst()
            sessions[session].sentCount -= 1
            if settle(entry, session, &effects) == .inStore { needsStore = true }
        }
        if needsStore { removeFromStore(session, throughNumber: throughNumber) }
        pump(session, moment, &effects)
    }

    /// Where an entry was when it was settled.
    private enum SettledPlace {
        /// It need not be removed from the store: struck out of the batch, or never meant for it.
        case memoryOnly
        case inStore
    }

    /// A receiver is done with an entry that has left its window: counts it out, strikes it out of the
    /// batch if it has not been handed over, and tells the sender if it was the last.
    private mutating func settle(
        _ entry: WindowEntry, _ session: UInt32, _ effects: inout Effects
    ) -> SettledPlace {
        sessions[session].inbox.subtract(count: 1, byteCount: UInt64(entry.byteCount))
        sessions[session].windowByteCount -= Int(entry.byteCount)
        let message = entry.message
        var place = SettledPlace.memoryOnly
        if sessions[session].isPersistent {
            if messages[message].batch == gathering.sequence {
                gathering.entries[Int(entry.batchEntry)].isElided = true
                messages[message].pendingEntries -= 1
                counters.entriesElided += 1
            } else if !entry.isUnstored {
                place = .inStore
            }
            if messages[message].batch != 0 || entry.isUnstored {
                messages[message].takenCount += 1
                settleReceiver(of: message, &effects)
            }
        }
        release(message)
        return place
    }

    /// One receiver less to wait for.
    mutating func settleReceiver(of message: UInt32, _ effects: inout Effects) {
        messages[message].unsettled -= 1
        if messages[message].unsettled == 0 && messages[message].isRouted {
            completeSend(message, &effects)
        }
    }

    /// Removes a session's stored entries up to a number that were counted out already, by one request
    /// per batch however often the number grows.
    private mutating func removeFromStore(_ session: UInt32, throughNumber: UInt64) {
        if sessions[session].acknowledgementBatch == gathering.sequence {
            let index = sessions[session].acknowledgementIndex
            gathering.acknowledgements[index].throughNumber = throughNumber
            return
        }
        sessions[session].acknowledgementBatch = gathering.sequence
        sessions[session].acknowledgementIndex = gathering.acknowledgements.count
        gathering.acknowledgements.append(
            QueueAcknowledgement(
                queue: sessions[session].inbox.queue, throughNumber: throughNumber))
    }

    /// Removes what a receiver says it holds of a queue that is on disk only; what it was is counted
    /// out when the store tells.
    mutating func removeUnseenFromStore(_ session: UInt32, throughNumber: UInt64) {
        gathering.acknowledgements.append(
            QueueAcknowledgement(
                queue: sessions[session].inbox.queue, throughNumber: throughNumber,
                wantsTally: true))
    }
}
