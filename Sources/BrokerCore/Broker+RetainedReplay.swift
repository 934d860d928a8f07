// The retained messages of a new subscription. There may be a hundred thousand of them, so they are
// sent in pieces: the next one when the client has taken the last, and in QoS 1 and 2 when its
// window has room. One subscription of a session is served at a time; the others wait, each once.
//
// The row of a subscription that has not been sent all says so. A broker that dies meanwhile begins
// with that subscription again: what its client had by then may come a second time.

import Primitives

/// What a connected session is being sent.
struct RetainedReplay {
    /// What the walk is for. It ends with its subscription, whoever ended that: the client, or a
    /// right that was withdrawn.
    var subscription: Handle
    var grade: Grade
    var subscriptionIdentifier: UInt32
    /// Among the broker's own values, not those of the app.
    var isSystem: Bool
    var walk: RetainedWalk
    /// Whether it goes on when the window has room.
    var awaitsWindow = false
    /// Subscriptions whose turn comes later.
    var waiting: [Handle] = []
    /// How many of those have had it.
    var servedCount = 0
}

extension Broker {
    /// Sends a new subscription the last messages of the topics it matches.
    mutating func sendRetained(
        to session: UInt32, _ subscription: UInt32, _ filter: UnsafeRawBufferPointer,
        _ request: FilterRequest, isNew: Bool, _ moment: Moment, _ effects: inout Effects
    ) {
        guard sessions[session].dialect.isMQTT, !request.options.contains(.withoutRetained),
            isNew || !request.options.contains(.retainedIfNew), SharedFilter(filter) == nil
        else { return }
        let isSystem = ReservedTopic(filter) == .system
        guard isSystem || apps[users[sessions[session].user].app].retained.count > 0 else { return }
        let attachment = sessions[session].attachment
        let replay = attachments[attachment].replay
        if replay != Slab<RetainedReplay>.none {
            enqueueReplay(subscription, in: replay)
            return
        }
        attachments[attachment].replay =
            replays.insert(makeReplay(session, subscription, isSystem: isSystem)).index
        advanceReplay(attachment, moment, &effects)
    }

    /// The client has taken all that was written.
    mutating func outgoingDrained(
        _ connection: ConnectionID, _ moment: Moment, _ effects: inout Effects
    ) {
        guard let session = session(of: connection) else { return }
        let attachment = sessions[session].attachment
        guard attachments[attachment].replay != Slab<RetainedReplay>.none else { return }
        advanceReplay(attachment, moment, &effects)
        pump(session, moment, &effects)
    }

    /// Goes on with a replay that waited for room in the window, where there is some.
    mutating func resumeReplay(_ attachment: UInt32, _ effects: inout Effects) {
        let replay = attachments[attachment].replay
        guard replays[replay].awaitsWindow, hasRoomInWindow(attachments[attachment].session) else {
            return
        }
        replays[replay].awaitsWindow = false
        let connection = attachments[attachment].connection
        effects[connection.lane].effects.append(.awaitDrain(connection))
    }

    /// As above, for all.
    mutating func resumeReplays(_ effects: inout Effects) {
        guard replays.count > 0 else { return }
        for attachment in 0..<attachments.endIndex
        where attachments.contains(attachment)
            && attachments[attachment].replay != Slab<RetainedReplay>.none
        {
            resumeReplay(attachment, &effects)
        }
    }

    // MARK: - What is stored

    /// A subscription is about to be written: notes whether retained messages are still to be sent.
    /// True where the row did not say that.
    mutating func noteReplay(of subscription: UInt32) -> Bool {
        let place = subscriptions[subscription]
        guard sessions[place.session].isPersistent else { return false }
        let replay = attachments[sessions[place.session].attachment].replay
        guard replay != Slab<RetainedReplay>.none else { return false }
        let position = Int(place.position)
        let subscriber = audiences[place.audience].subscribers[position]
        let isServed =
            replays[replay].subscription == subscriptions.handle(subscription)
            && !replays[replay].isSystem
        let isWaiting =
            subscriber.awaitsRetained
            && audiences[place.audience].filter.withUnsafeBytes { ReservedTopic($0) != .system }
        guard isServed || isWaiting, !subscriber.options.contains(.awaitsReplay) else {
            return false
        }
        audiences[place.audience].subscribers[position].options.insert(.awaitsReplay)
        return true
    }

    /// All that a subscription was to be sent has been put into its session's queue.
    private mutating func completeReplay(_ handle: Handle) {
        guard subscriptions.contains(handle) else { return }
        let place = subscriptions[handle.index]
        let position = Int(place.position)
        let subscriber = audiences[place.audience].subscribers[position]
        guard subscriber.options.contains(.awaitsReplay), !subscriber.awaitsRetained else {
            return
        }
        audiences[place.audience].subscribers[position].options.remove(.awaitsReplay)
        writeSubscription(handle.index)
    }

    /// A subscription comes back from the store. It gets its retained messages, from the first one
    /// on, when its session has a connection.
    mutating func restoreReplay(of subscription: UInt32) {
        let session = subscriptions[subscription].session
        if let replay = suspendedReplays[session] {
            enqueueReplay(subscription, in: replay)
            return
        }
        var replay = makeReplay(session, subscription, isSystem: false)
        replay.awaitsWindow = true
        suspendedReplays[session] = replays.insert(replay).index
    }

    // MARK: - The end of a connection

    /// A connection ends. A session that lasts gets the rest on its next connection: it does not
    /// subscribe again then [MQTT-3.8.4-4].
    mutating func suspendReplay(of attachment: UInt32) {
        let index = attachments[attachment].replay
        guard index != Slab<RetainedReplay>.none else { return }
        attachments[attachment].replay = Slab<RetainedReplay>.none
        // It goes on when the window of the next connection is served.
        replays[index].awaitsWindow = true
        suspendedReplays[attachments[attachment].session] = index
    }

    /// A session has a connection again.
    mutating func takeUpReplay(of session: UInt32) {
        guard !suspendedReplays.isEmpty, let index = suspendedReplays.removeValue(forKey: session)
        else { return }
        attachments[sessions[session].attachment].replay = index
    }

    /// A session without a connection ends, and what it was being sent.
    mutating func endReplay(of session: UInt32) {
        guard !suspendedReplays.isEmpty, let index = suspendedReplays.removeValue(forKey: session)
        else { return }
        let replay = replays.remove(index)
        for handle in replay.waiting[replay.servedCount...] where subscriptions.contains(handle) {
            setAwaitsRetained(handle.index, false)
        }
        endWalk(replay, session)
    }

    // MARK: - Pieces

    private mutating func advanceReplay(
        _ attachment: UInt32, _ moment: Moment, _ effects: inout Effects
    ) {
        let session = attachments[attachment].session
        let connection = attachments[attachment].connection
        let index = attachments[attachment].replay
        let app = users[sessions[session].user].app
        var byteCount = 0
        var stepCount = 0
        defer { work += stepCount / CoreLimits.looksPerWork }
        repeat {
            // What was subscribed to before may have ended between two pieces.
            while subscriptions.contains(replays[index].subscription) {
                if replays[index].grade != .transient, !hasRoomInWindow(session) {
                    replays[index].awaitsWindow = true
                    return
                }
                if byteCount >= CoreLimits.replayBytesMaximum
                    || stepCount >= limits.replayStepsMaximum
                {
                    effects[connection.lane].effects.append(.awaitDrain(connection))
                    return
                }
                stepCount += 1
                let step =
                    replays[index].isSystem
                    ? systemTopics.tree.advance(&replays[index].walk)
                    : apps[app].retained.advance(&replays[index].walk)
                if case .end = step { break }
                guard case .value(let value) = step else { continue }
                byteCount += send(value, of: replays[index], to: session, moment, &effects)
            }
            completeReplay(replays[index].subscription)
        } while beginNext(index, session)
        attachments[attachment].replay = Slab<RetainedReplay>.none
        endWalk(replays.remove(index), session)
    }

    /// Sends one message of a replay; gives its bytes.
    private mutating func send(
        _ value: UInt32, of replay: RetainedReplay, to session: UInt32, _ moment: Moment,
        _ effects: inout Effects
    ) -> Int {
        if replay.isSystem {
            send(
                system: value, to: session,
                subscriptionIdentifier: replay.subscriptionIdentifier, &effects)
            return systemTopics.blocks[Int(value)].count
        }
        guard retained[value].deadline > moment.instant else { return 0 }
        send(
            retained: value, to: session, grade: replay.grade,
            subscriptionIdentifier: replay.subscriptionIdentifier, moment, &effects)
        return retained[value].block.count
    }

    /// Turns to the next subscription that waits; false where there is none.
    private mutating func beginNext(_ index: UInt32, _ session: UInt32) -> Bool {
        while replays[index].servedCount < replays[index].waiting.count {
            let handle = replays[index].waiting[replays[index].servedCount]
            replays[index].servedCount += 1
            guard subscriptions.contains(handle) else { continue }
            setAwaitsRetained(handle.index, false)
            let filter = audiences[subscriptions[handle.index].audience].filter
            let isSystem = filter.withUnsafeBytes { ReservedTopic($0) == .system }
            endWalk(replays[index], session)
            let next = makeReplay(session, handle.index, isSystem: isSystem)
            replays[index].subscription = next.subscription
            replays[index].grade = next.grade
            replays[index].subscriptionIdentifier = next.subscriptionIdentifier
            replays[index].isSystem = next.isSystem
            replays[index].walk = next.walk
            return true
        }
        return false
    }

    /// Puts a subscription behind the others that wait, unless it is among them: then it gets the
    /// messages once, as it is when its turn comes.
    private mutating func enqueueReplay(_ subscription: UInt32, in replay: UInt32) {
        let place = subscriptions[subscription]
        guard !audiences[place.audience].subscribers[Int(place.position)].awaitsRetained else {
            return
        }
        setAwaitsRetained(subscription, true)
        // Those that have had their turn or have ended are left out now and then, so that the list
        // is no longer than twice what a session subscribes to.
        let waiting = replays[replay].waiting
        if waiting.count >= 2 * Int(sessions[place.session].filterCount) + 16 {
            replays[replay].waiting = waiting[replays[replay].servedCount...].filter {
                subscriptions.contains($0)
            }
            replays[replay].servedCount = 0
        }
        replays[replay].waiting.append(subscriptions.handle(subscription))
    }

    private mutating func setAwaitsRetained(_ subscription: UInt32, _ awaits: Bool) {
        let place = subscriptions[subscription]
        audiences[place.audience].subscribers[Int(place.position)].awaitsRetained = awaits
    }

    private mutating func makeReplay(
        _ session: UInt32, _ subscription: UInt32, isSystem: Bool
    ) -> RetainedReplay {
        let place = subscriptions[subscription]
        let subscriber = audiences[place.audience].subscribers[Int(place.position)]
        let filter = audiences[place.audience].filter
        let app = users[sessions[session].user].app
        return RetainedReplay(
            subscription: subscriptions.handle(subscription),
            grade: subscriber.grade,
            subscriptionIdentifier: subscriber.subscriptionIdentifier, isSystem: isSystem,
            walk: isSystem
                ? systemTopics.tree.begin(filter) : apps[app].retained.begin(filter))
    }

    private mutating func endWalk(_ replay: RetainedReplay, _ session: UInt32) {
        if replay.isSystem {
            systemTopics.tree.end(replay.walk)
        } else {
            apps[users[sessions[session].user].app].retained.end(replay.walk)
        }
    }

    func hasRoomInWindow(_ session: UInt32) -> Bool {
        let attachment = sessions[session].attachment
        return attachments[attachment].backlogCount == 0
            && attachments[attachment].window.count < attachments[attachment].windowMaximum
            // What has no room in memory would be refused, and not wait on disk.
            && (sessions[session].isPersistent || attachments[attachment].window.isEmpty
                || hasRoom(session, for: limits.payloadMaximum))
    }
}
