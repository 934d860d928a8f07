// Shared subscriptions: of the sessions that subscribe to `$share/name/filter`, one gets each
// message (MQTT 5.0 section 4.8.2). Who that is, is decided when the message is accepted. What is
// under way to a session that goes away in QoS 1 moves to another one; in QoS 2 it waits for its
// session and ends with it [MQTT-4.8.2-4], [MQTT-4.8.2-5].

import Primitives

/// The shares of one filter: for each name, who subscribes under it.
struct ShareSet {
    /// Audiences by index. Their filters are spelled with `$share` and the name.
    var audiences: [UInt32] = []
}

/// A filter of a shared subscription, taken apart.
struct SharedFilter {
    let pattern: UnsafeRawBufferPointer

    private static let prefix: StaticString = "$share/"

    /// Nil for a filter of another kind. What follows the prefix has been checked by the dialect.
    init?(_ filter: UnsafeRawBufferPointer) {
        let prefix = SharedFilter.prefix
        guard filter.count > prefix.utf8CodeUnitCount else { return nil }
        for index in 0..<prefix.utf8CodeUnitCount where filter[index] != prefix.utf8Start[index] {
            return nil
        }
        var end = prefix.utf8CodeUnitCount
        while end < filter.count, filter[end] != UInt8(ascii: "/") { end += 1 }
        guard end + 1 < filter.count else { return nil }
        pattern = UnsafeRawBufferPointer(rebasing: filter[(end + 1)...])
    }
}

extension Broker {
    /// Notes that an audience shares a filter.
    mutating func addShare(_ audience: UInt32, filter: [UInt8], app: UInt32) {
        filter.withUnsafeBytes { filter in
            guard let shared = SharedFilter(filter) else { return }
            let known = apps[app].shares.audience(of: shared.pattern)
            let set = known ?? shareSets.insert(ShareSet()).index
            if known == nil { apps[app].shares.insert(shared.pattern, audience: set) }
            shareSets[set].audiences.append(audience)
            apps[app].shareCount += 1
        }
    }

    /// Nobody subscribes under this name any more.
    mutating func removeShare(_ audience: UInt32, filter: [UInt8], app: UInt32) {
        filter.withUnsafeBytes { filter in
            guard let shared = SharedFilter(filter),
                let set = apps[app].shares.audience(of: shared.pattern)
            else { return }
            shareSets[set].audiences.removeAll { $0 == audience }
            apps[app].shareCount -= 1
            if shareSets[set].audiences.isEmpty {
                shareSets.remove(set)
                apps[app].shares.remove(shared.pattern)
            }
        }
    }

    /// Those to whom a message on a topic goes by shared subscriptions: one for each name; nil
    /// where there are none.
    mutating func audience(
        ofSharesOf topic: UnsafeRawBufferPointer, _ app: UInt32, grade: Grade
    ) -> UInt32? {
        guard apps[app].shareCount > 0 else { return nil }
        var matched = ContiguousArray<UInt32>()
        swap(&matched, &matchedAudiences)
        defer { swap(&matched, &matchedAudiences) }
        matched.removeAllKeepingCapacity()
        apps[app].shares.match(topic, into: &matched)
        audiences[chosenAudience].subscribers.removeAllKeepingCapacity()
        for set in matched {
            for position in 0..<shareSets[set].audiences.count {
                let audience = shareSets[set].audiences[position]
                if var chosen = choose(from: audience, grade: grade) {
                    chosen.options.insert(.chosen)
                    audiences[chosenAudience].subscribers.append(chosen)
                }
            }
        }
        return audiences[chosenAudience].subscribers.isEmpty ? nil : chosenAudience
    }

    /// The next subscriber in turn: one that is there and has room in its window, otherwise one
    /// that is there, otherwise one that will come back.
    private mutating func choose(
        from audience: UInt32, grade: Grade, excluding excluded: UInt32 = Slab<Session>.none
    ) -> Subscriber? {
        let count = audiences[audience].subscribers.count
        let start = Int(audiences[audience].turn) % count
        var second: Int?
        var third: Int?
        for step in 0..<count {
            let position = (start + step) % count
            let subscriber = audiences[audience].subscribers[position]
            if subscriber.session == excluded { continue }
            if subscriber.connection == .none {
                if grade != .transient && subscriber.grade != .transient {
                    third = third ?? position
                }
                continue
            }
            if grade == .transient || hasRoomInWindow(subscriber.session) {
                audiences[audience].turn = UInt32(position + 1)
                return subscriber
            }
            second = second ?? position
        }
        guard let position = second ?? third else { return nil }
        audiences[audience].turn = UInt32(position + 1)
        return audiences[audience].subscribers[position]
    }

    // MARK: - Hand-over

    /// A session loses its connection: what it has not acknowledged of its shares in QoS 1 goes to
    /// others who are there; where the session ends, to those who will come back too. What has not
    /// been committed goes when it is, so that the promise to its sender holds all the time.
    mutating func handOverShares(
        of session: UInt32, endsSession: Bool, _ moment: Moment, _ effects: inout Effects
    ) {
        guard sessions[session].dialect.isMQTT,
            apps[users[sessions[session].user].app].shareCount > 0
        else { return }
        let attachment = sessions[session].attachment
        var position = 0
        while position < attachments[attachment].window.count {
            let entry = attachments[attachment].window[position]
            position += 1
            guard entry.state.grade == .durable, entry.state.options.contains(.shared),
                !entry.isUnstored, !messages[entry.message].isWithdrawn
            else { continue }
            if messages[entry.message].batch != 0 && !endsSession {
                messages[entry.message].references += 1
                let handover = (session: sessions.handle(session), entry: entry)
                if messages[entry.message].batch == gathering.sequence {
                    gathering.handovers.append(handover)
                } else {
                    committing.handovers.append(handover)
                }
                continue
            }
            let isTaken = handOver(
                entry, of: session, needsConnection: !endsSession, moment, &effects)
            // A session that ends takes the rest of its queue with it.
            if endsSession || !isTaken { continue }
            position -= 1
            _ = attachments[attachment].remove(at: position)
            giveUp(entry, of: session)
            release(entry.message)
        }
    }

    /// The batch is committed with which entries of leavers were stored.
    mutating func completeHandovers(
        isStored: Bool, _ moment: Moment, _ effects: inout Effects
    ) {
        for (session, entry) in committing.handovers {
            // One that is back keeps what is its own.
            if isStored, sessions.contains(session), !sessions[session.index].isConnected,
                handOver(entry, of: session.index, needsConnection: true, moment, &effects)
            {
                giveUp(entry, of: session.index)
            }
            release(entry.message)
        }
    }

    /// Takes an entry that is in the store out of a session's queue.
    private mutating func giveUp(_ entry: WindowEntry, of session: UInt32) {
        countOut(session: session, count: 1, byteCount: UInt64(entry.byteCount))
        gathering.removals.append(
            EntryRemoval(queue: sessions[session].inbox.queue, number: entry.number))
    }

    /// Another member of the share that brought an entry to a session.
    private mutating func successor(
        of session: UInt32, for entry: WindowEntry, needsConnection: Bool
    ) -> Subscriber? {
        let app = users[sessions[session].user].app
        let topic = Array(MessageBlock(messages[entry.message].block).address)
        var matched = ContiguousArray<UInt32>()
        topic.withUnsafeBytes { apps[app].shares.match($0, into: &matched) }
        for set in matched {
            for audience in shareSets[set].audiences
            where subscription(of: session, audience: audience) != nil {
                if let other = choose(from: audience, grade: .durable, excluding: session),
                    !needsConnection || other.connection != .none
                {
                    return other
                }
            }
        }
        return nil
    }

    /// Puts a copy of an entry's message into the inbox of another session of the share; false
    /// where there is none with room for it.
    private mutating func handOver(
        _ entry: WindowEntry, of session: UInt32, needsConnection: Bool, _ moment: Moment,
        _ effects: inout Effects
    ) -> Bool {
        guard
            let other = successor(of: session, for: entry, needsConnection: needsConnection),
            other.grade != .transient
        else { return false }
        let state = EntryState(
            grade: .durable, options: entry.state.options.intersection([.shared, .retain]),
            subscriptionIdentifier: other.subscriptionIdentifier)
        // A message is stored once: its successor is a copy, of which no sender hears.
        let copy = messages.insert(
            Message(
                copying: messages[entry.message].block, stamp: makeStamp(),
                deadline: messages[entry.message].deadline, in: &blocks)
        ).index
        messages[copy].references = 1
        var tally = RoutingTally(stamp: messages[copy].stamp)
        enqueue(copy, session: other.session, state, &tally, moment, &effects)
        messages[copy].isRouted = true
        release(copy)
        guard tally.taken > 0 else { return false }
        counters.sharesHandedOver += 1
        return true
    }
}
