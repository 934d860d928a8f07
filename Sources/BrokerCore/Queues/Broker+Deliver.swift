// Deliveries from an inbox. They are sent in the order of their numbers, and acknowledgements are
// cumulative. A session has a bounded window of messages in memory. The messages behind the window
// are on disk only; they are loaded as the window empties.

import BrokerTerms
import Primitives

/// A message for connected sessions that is not in the table of messages.
struct TransientMessage {
    let stamp: UInt64
    let parts: MessageParts
    /// The size of its block.
    let byteCount: Int
    let deadline: Instant
    /// The session that does not receive it.
    @Packed private(set) var excluded: Index<Session>?
    /// The session that sent it.
    let sender: Index<Session>?
    let isRetained: Bool

    @inline(__always)
    init(
        stamp: UInt64, parts: MessageParts, deadline: Instant, excluded: Index<Session>?,
        sender: Index<Session>?, isRetained: Bool
    ) {
        self.stamp = stamp
        self.parts = parts
        self.deadline = deadline
        self.excluded = excluded
        self.sender = sender
        self.isRetained = isRetained
        byteCount = parts.blockByteCount
    }

    /// Compared in its stored form, because a fan-out compares it for each subscriber.
    @inline(__always)
    func excludes(_ session: Index<Session>) -> Bool { _excluded == Packed(wrappedValue: session) }
}

extension Subscriber {
    /// Whether the session that sent the message receives it.
    @inline(__always)
    func takes(from sender: Index<Session>?) -> Bool {
        !options.contains(.noLocal) || session != sender
    }

    /// The state of a delivery by this subscription.
    @inline(__always)
    func state(grade: Grade, isRetained: Bool) -> EntryState {
        EntryState(
            grade: grade,
            options: isRetained && options.contains(.retainsAsPublished) ? .retain : [],
            subscriptionIdentifier: subscriptionIdentifier)
    }
}

extension Broker {
    // MARK: - Without an inbox

    /// Delivers a message to all connected subscribers of an audience. This is the fan-out: it
    /// reads the audience sequentially and no other memory.
    mutating func deliver(
        _ message: TransientMessage, to audience: Index<Audience>, in step: inout Step
    ) {
        // A span, because a buffer pointer in a closure is retained and released for each message.
        let count = deliver(message, to: routing.audiences[audience].subscribers.span, in: &step)
        counters.deliveries += count
        // A subscriber without a connection costs one comparison. A connected one also costs the
        // bytes that are written besides the effect.
        let looks = UInt64(truncatingIfNeeded: routing.audiences[audience].subscribers.count)
        let bytes = count &* UInt64(truncatingIfNeeded: message.byteCount)
        workload.charge(
            Int(
                truncatingIfNeeded: looks / UInt64(CoreLimits.looksPerWork)
                    &+ bytes / UInt64(CoreLimits.writtenBytesPerWork)))
    }

    /// Returns their number.
    private func deliver(
        _ message: TransientMessage, to subscribers: Span<Subscriber>, in step: inout Step
    ) -> UInt64 {
        var delivered: UInt64 = 0
        for position in subscribers.indices {
            let subscriber = subscribers[position]
            if subscriber.connection == .none || message.excludes(subscriber.session)
                || !subscriber.takes(from: message.sender)
            {
                continue
            }
            let state = subscriber.state(grade: .transient, isRetained: message.isRetained)
            if subscriber.subscriptionIdentifier == EntryState.severalIdentifiers {
                // Its fields one by one, because the compiler would load the whole subscriber for
                // each.
                deliverListingIdentifiers(
                    message, to: subscriber.connection, session: subscriber.session,
                    dialect: subscriber.dialect, state: state, in: &step)
            } else {
                step.effects[subscriber.connection.loop].deliver(
                    message, to: subscriber.connection, subscriber.dialect, state: state)
            }
            delivered &+= 1
        }
        return delivered
    }

    /// Delivers a message to a user's connected devices.
    mutating func deliver(
        _ message: TransientMessage, toSessionsOf user: Index<User>, in step: inout Step
    ) {
        var next = registry.users[user].firstSession
        while let session = next {
            let connection = liveConnection(of: session)
            if connection != .none && !sessions[session].dialect.isMQTT {
                step.effects[connection.loop].deliver(
                    message, to: connection, sessions[session].dialect,
                    state: EntryState(grade: .transient))
                counters.deliveries += 1
            } else if !wakes.isEmpty {
                noteTransient(message.parts, for: user, in: &step)
            }
            next = sessions[session].nextOfUser
        }
    }

    // MARK: - The window

    /// Sends the deliveries that are ready: in the order of their numbers and within the receiver's
    /// window, messages of grade *once* only after their commit, and numbers only after their
    /// reservation.
    mutating func pump(_ session: Index<Session>, in step: inout Step) {
        guard let connected = sessions[session].connected,
            live.connectedSessions[connected].isConfirmed
        else {
            return
        }
        let connection = live.connectedSessions[connected].connection
        if live.connectedSessions[connected].replay != nil {
            resumeReplay(connected, in: &step)
        }
        // Numbers of a session in memory end with it.
        var usable =
            sessions[session].isPersistent ? sessions[session].reservedThrough : UInt64.max
        let dialect = sessions[session].dialect
        if dialect.isMQTT, let front = live.connectedSessions[connected].oldestSent {
            // The packet identifier of the first entry is still in use.
            usable = min(usable, front + PacketIdentifier.count - 1)
        }
        while let entry = live.connectedSessions[connected].nextToSend {
            if entry.number > usable { return }
            if memory.messages[entry.message].fate != .delivered {
                switch decision(on: entry, of: session, in: &step) {
                case .isDropped: continue
                case .waits: return
                case .isSent: break
                }
            }
            // The send's grade decides, not the receiver's: a send of grade *once* is taken back as
            // a whole, and a broker that fails before the commit does not know it.
            if memory.messages[entry.message].grade == .once
                && memory.messages[entry.message].batch != 0
            {
                awaitBatch(memory.messages[entry.message].batch, connected)
                return
            }
            let isRepeated = dialect.isMQTT && entry.number <= sessions[session].sentThrough
            // Entries that were sent before do not expire here: their identifiers are in use. In
            // QoS 2 that is a rule [MQTT-4.3.3-7], which loads and sweeps follow too
            // (``numberSentThrough(by:)``). In QoS 1 it applies to entries in the window; entries
            // after the window expire.
            if memory.messages[entry.message].deadline <= step.moment.instant && !isRepeated {
                counters.expired += 1
                drop(session, Int(live.connectedSessions[connected].sentCount), in: &step)
                continue
            }
            live.connectedSessions[connected].noteSent(entry.number)
            if dialect.isMQTT && entry.state.options.contains(.received) {
                let position = Int(live.connectedSessions[connected].sentCount) - 1
                live.connectedSessions[connected].release(at: position)
                step.effects[connection.loop].effects.append(
                    .mqtt(
                        .answerPacket(
                            PacketAnswer(
                                to: connection,
                                packet: PacketIdentifier.derived(from: entry.number),
                                step: .release))))
                continue
            }
            var state = listingIdentifiers(
                entry.state, of: session, entry.message, in: &step.effects[connection.loop])
            if isRepeated { state.options.insert(.repeated) }
            step.effects[connection.loop].deliver(
                stamp: memory.messages[entry.message].stamp,
                block: memory.messages[entry.message].block,
                deadline: memory.messages[entry.message].deadline, to: connection, dialect,
                number: entry.number, state: state)
            counters.deliveries += 1
            // A message for many receivers has one copy here and one in each outgoing buffer.
            workload.charge(Int(entry.byteCount / UInt32(CoreLimits.writtenBytesPerWork)))
        }
        if live.connectedSessions[connected].backlogCount > 0 { loadMore(session) }
    }

    /// Notes, once per batch, that deliveries wait for its commit.
    private mutating func awaitBatch(_ batch: UInt64, _ connected: Index<ConnectedSession>) {
        guard live.connectedSessions[connected].awaits(batch) else { return }
        commits.deliver(to: live.connectedSessions.handle(connected), after: batch)
    }

    private enum FateDecision {
        case isDropped
        case waits
        case isSent
    }

    /// Decides on the next entry of a window whose message is not simply delivered.
    @inline(never)
    private mutating func decision(
        on entry: WindowEntry, of session: Index<Session>, in step: inout Step
    ) -> FateDecision {
        let connected = connectedIndex(of: session)
        switch memory.messages[entry.message].fate {
        case .delivered: break
        case .takenBack:
            withdraw(session, Int(live.connectedSessions[connected].sentCount))
            return .isDropped
        case .held where !mayBeSent(entry, session):
            awaitBatch(commits.pendingSequence, connected)
            return .waits
        case .recalled where !mayBeSent(entry, session) && !stays(entry.message, of: session):
            noteWithdrawn(entry.message, of: session)
            drop(session, Int(live.connectedSessions[connected].sentCount), in: &step)
            return .isDropped
        case .held, .recalled: break
        }
        return .isSent
    }

    /// Whether the copy of a session stays, because its user did not take the newer message.
    private func stays(_ message: Index<Message>, of session: Index<Session>) -> Bool {
        tracked(message).map { tracking.stays($0, of: sessions[session].user) } ?? false
    }

    /// Whether a device may have been sent an entry on an earlier connection.
    func mayBeSent(_ entry: WindowEntry, _ session: Index<Session>) -> Bool {
        entry.number <= sessions[session].sentThrough && sessions[session].isPersistent
            || !entry.state.options.isDisjoint(with: [.sentBefore, .received])
    }

    /// Removes an entry from a window because its send was taken back.
    private mutating func withdraw(_ session: Index<Session>, _ position: Int) {
        let entry = live.connectedSessions[connectedIndex(of: session)].remove(at: position)
        countOut(session: session, count: 1, byteCount: UInt64(entry.byteCount))
        memory.release(entry.message)
    }

    /// Removes one entry of a window, also from the store.
    mutating func drop(_ session: Index<Session>, _ position: Int, in step: inout Step) {
        let entry = live.connectedSessions[connectedIndex(of: session)].remove(at: position)
        if settle(entry, session, in: &step) == .inStore {
            commits.remove(entry.number, from: sessions[session].inbox.queue)
        }
    }

    /// Removes and counts a delivery that could not be encoded.
    mutating func dropOversize(_ connection: ConnectionID, _ number: UInt64, in step: inout Step) {
        guard let session = session(of: connection) else { return }
        counters.oversizeDropped += 1
        let connected = connectedIndex(of: session)
        guard let position = live.connectedSessions[connected].position(of: number),
            position < live.connectedSessions[connected].sentCount
        else { return }
        drop(session, position, in: &step)
        pump(session, in: &step)
    }

    /// Requests more entries of the queue, if it has more, when half of the window's memory is
    /// free.
    private mutating func loadMore(_ session: Index<Session>) {
        let connected = connectedIndex(of: session)
        guard !live.connectedSessions[connected].isLoading else { return }
        let capacity = live.connectedSessions[connected].windowCapacity
        let room = capacity - live.connectedSessions[connected].window.count
        let byteRoom =
            limits.inboxWindowBytesMaximum - live.connectedSessions[connected].windowByteCount
        guard room * 2 >= capacity,
            byteRoom > 0 || live.connectedSessions[connected].window.isEmpty
        else { return }
        live.connectedSessions[connected].beginLoad()
        queues.awaitLoad(into: live.connectedSessions.handle(connected))
        requestWaitingLoads()
    }

    /// Adds the waiting loads to the pending batch, in their order, up to the limit of a batch.
    /// Without the limit, a fleet that connects at once would have all its queues in memory and
    /// delay other logins.
    mutating func requestWaitingLoads() {
        while queues.hasWaitingLoads, commits.takesLoads {
            switch queues.nextLoad() {
            // A connected session that has ended needs no load.
            case .connected(let owner): if live.connectedSessions.contains(owner) { load(owner) }
            case .leftover(let owner): load(leftover: owner)
            case .ending(let owner): load(ending: owner)
            // Operators inspect queues one after another, so these loads do not wait.
            case .inspection: continue
            }
        }
    }

    /// The last number of a session's queue that may have been sent to its MQTT client: QoS 2
    /// entries up to it do not expire. 0 for an MRT client, whose entries may all expire.
    func numberSentThrough(by session: Index<Session>) -> UInt64 {
        sessions[session].dialect.isMQTT ? sessions[session].sentThrough : 0
    }

    private mutating func load(_ owner: Handle<ConnectedSession>) {
        let connected = owner.index
        let inbox = sessions[live.connectedSessions[connected].session].inbox
        let room =
            live.connectedSessions[connected].windowCapacity
            - live.connectedSessions[connected].window.count
        let byteRoom =
            limits.inboxWindowBytesMaximum - live.connectedSessions[connected].windowByteCount
        let request = LoadRequest(
            queue: inbox.queue, afterNumber: live.connectedSessions[connected].loadedThrough,
            sentThrough: numberSentThrough(by: live.connectedSessions[connected].session),
            countMaximum: min(max(room, 1), CoreLimits.loadCountMaximum),
            byteMaximum: min(max(byteRoom, 1), CoreLimits.loadBytesMaximum))
        let count = min(request.countMaximum, Int(live.connectedSessions[connected].backlogCount))
        // Their size is not known. The average size of the entries in the queue is used.
        let average = Int(inbox.byteCount / UInt64(max(inbox.count, 1)))
        commits.load(
            request, for: .connected(owner), expecting: count,
            byteCount: min(request.byteMaximum, count * average))
    }

    // MARK: - Acknowledgement

    /// Handles the acknowledgement of all deliveries up to a number.
    mutating func acknowledgeInbox(
        _ connection: ConnectionID, _ throughNumber: UInt64, in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        let connected = connectedIndex(of: session)
        guard throughNumber <= live.connectedSessions[connected].sentThrough else {
            close(session, .protocolError, in: &step)
            return
        }
        guard throughNumber > sessions[session].inbox.acknowledgedThrough else { return }
        if !tracking.resumed.isEmpty, throughNumber <= tracking.resumed[session] ?? 0 { return }
        sessions[session].inbox.acknowledgedThrough = throughNumber
        counters.acknowledgements += 1
        var isInStore = false
        let areSendsTracked = !tracking.isEmpty
        while live.connectedSessions[connected].sentCount > 0,
            live.connectedSessions[connected].window[0].number <= throughNumber
        {
            let entry = live.connectedSessions[connected].remove(at: 0)
            if areSendsTracked, memory.messages[entry.message].hasFields {
                noteDelivered(entry.message, by: session, in: &step)
            }
            if settle(entry, session, in: &step) == .inStore { isInStore = true }
        }
        if isInStore { removeFromStore(session, throughNumber: throughNumber) }
        pump(session, in: &step)
    }

    /// The location of an entry when it was settled.
    enum SettledLocation {
        /// It is not in the store: it was removed from the pending batch, or was never part of one.
        case memoryOnly
        case inStore
    }

    /// Settles an entry that has left its window: subtracts it from the queue's counts, removes it
    /// from the pending batch, and reports the result if it was the last.
    mutating func settle(_ entry: WindowEntry, _ session: Index<Session>, in step: inout Step)
        -> SettledLocation
    {
        countOut(session: session, count: 1, byteCount: UInt64(entry.byteCount))
        let message = entry.message
        defer { memory.release(message) }
        guard sessions[session].isPersistent else { return .memoryOnly }
        let batch = memory.messages[message].batch
        // The store refused it, and its sender got the reason.
        if entry.isUnstored { return .memoryOnly }
        if batch == 0 { return .inStore }
        let isElided = commits.strike(entry: entry.batchEntry, of: batch)
        if isElided {
            memory.removeEntry(of: message)
            counters.entriesElided += 1
        }
        memory.take(message)
        completeIfSettled(message, in: &step)
        return isElided ? .memoryOnly : .inStore
    }

    /// Removes a session's stored entries up to a number. They have been subtracted already. A
    /// batch has one request, however often the number increases.
    mutating func removeFromStore(_ session: Index<Session>, throughNumber: UInt64) {
        let connected = connectedIndex(of: session)
        commits.acknowledge(
            sessions[session].inbox.queue, through: throughNumber,
            at: &live.connectedSessions[connected].acknowledgement)
    }

    // MARK: - Counting out

    /// Subtracts entries that have left a session's queue.
    @inline(__always)
    mutating func countOut(session: Index<Session>, count: UInt64, byteCount: UInt64) {
        let subtracted = sessions[session].inbox.subtract(count: count, byteCount: byteCount)
        if sessions[session].isPersistent { queues.countOut(count, byteCount: subtracted) }
    }

    /// Subtracts entries that have left a session's queue and were not in its window.
    mutating func countOutBacklog(session: Index<Session>, count: UInt64, byteCount: UInt64) {
        countOut(session: session, count: count, byteCount: byteCount)
        guard let connected = sessions[session].connected else { return }
        live.connectedSessions[connected].takeFromBacklog(count)
    }

    /// Subtracts entries that the store has removed from a queue.
    mutating func countOut(_ tally: QueueTally) {
        switch counter(of: tally.queue) {
        case .session(let session)?:
            countOutBacklog(session: session, count: tally.count, byteCount: tally.byteCount)
        case .offlineQueue(let user)?:
            queues.countOut(
                offlineQueue: offlineQueueIndex(of: user), count: tally.count,
                byteCount: tally.byteCount)
        case .leftover(let leftover)?:
            queues.countOut(
                leftover: leftover, count: tally.count, byteCount: tally.byteCount)
        case .conversation(let conversation)?:
            countOut(conversation: conversation, tally)
        case .inherited, nil:
            break
        }
    }
}
