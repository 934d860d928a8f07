// The retained messages of a new subscription. There may be a hundred thousand of them, so they are
// sent in pieces: the next one when the client has taken the last, and in QoS 1 and 2 when its
// window has room. One subscription of a session is served at a time; the others wait, each once.
//
// The row of a subscription that has not been sent all says so. A broker that dies meanwhile begins
// with that subscription again: what its client had by then may come a second time.

import BrokerTerms
import Primitives

/// What a connected session is being sent.
struct RetainedReplay {
    /// What the walk is for. It ends with its subscription, whoever ended that: the client, or a
    /// right that was withdrawn.
    var subscription: Handle<Subscription>
    var grade: Grade
    var subscriptionIdentifier: UInt32
    var walk: Walk
    /// Whether it goes on when the window has room.
    var awaitsWindow = false
    /// Subscriptions whose turn comes later.
    var waiting: [Handle<Subscription>] = []
    /// How many of those have had it.
    var servedCount = 0

    /// A place among the retained messages of the session's app, or among the broker's own values.
    enum Walk {
        case app(RetainedWalk<Retained>)
        case system(RetainedWalk<SystemBlock>)
    }

    /// What a step of the walk met.
    enum Met {
        case nothing
        case message(Index<Retained>)
        case systemValue(Index<SystemBlock>)
        case end
    }

    var isSystem: Bool {
        switch walk {
        case .app: false
        case .system: true
        }
    }
}

extension Broker {
    /// Sends a new subscription the last messages of the topics it matches.
    mutating func sendRetained(
        to session: Index<Session>, subscription: Index<Subscription>,
        filter: UnsafeRawBufferPointer, request: FilterRequest, isNew: Bool, in step: inout Step
    ) {
        guard sessions[session].dialect.isMQTT, !request.options.contains(.withoutRetained),
            isNew || !request.options.contains(.retainedIfNew), SharedFilter(filter) == nil
        else { return }
        let isSystem = ReservedTopic(filter) == .system
        guard
            isSystem || registry.apps[registry.users[sessions[session].user].app].retained.count > 0
        else { return }
        let connected = connectedIndex(of: session)
        if let replay = live.connectedSessions[connected].replay {
            enqueueReplay(subscription, in: replay)
            return
        }
        let replay = makeReplay(session, subscription, isSystem: isSystem)
        live.connectedSessions[connected].begin(retention.begin(replay))
        advanceReplay(connected, in: &step)
    }

    /// The client has taken all that was written.
    mutating func outgoingDrained(_ connection: ConnectionID, in step: inout Step) {
        guard let session = session(of: connection) else { return }
        let connected = connectedIndex(of: session)
        guard live.connectedSessions[connected].replay != nil else { return }
        advanceReplay(connected, in: &step)
        pump(session, in: &step)
    }

    /// Goes on with a replay that waited for room in the window, where there is some.
    mutating func resumeReplay(_ connected: Index<ConnectedSession>, in step: inout Step) {
        guard let replay = live.connectedSessions[connected].replay,
            retention.replays[replay].awaitsWindow,
            hasRoomInWindow(live.connectedSessions[connected].session)
        else { return }
        retention.note(awaitsWindow: false, replay)
        let connection = live.connectedSessions[connected].connection
        step.effects[connection.loop].effects.append(.awaitDrain(connection))
    }

    /// As above, for all.
    mutating func resumeReplays(in step: inout Step) {
        guard retention.replays.count > 0 else { return }
        for connected in live.connectedSessions.places
        where live.connectedSessions.contains(connected)
            && live.connectedSessions[connected].replay != nil
        {
            resumeReplay(connected, in: &step)
        }
    }

    // MARK: - What is stored

    /// A subscription is about to be written: notes whether retained messages are still to be sent.
    /// True where the row did not say that.
    mutating func noteReplay(of subscription: Index<Subscription>) -> Bool {
        let place = routing.subscriptions[subscription]
        guard sessions[place.session].isPersistent else { return false }
        guard let replay = live.connectedSessions[connectedIndex(of: place.session)].replay else {
            return false
        }
        let subscriber = routing.subscriber(of: subscription)
        let isServed =
            retention.replays[replay].subscription == routing.subscriptions.handle(subscription)
            && !retention.replays[replay].isSystem
        let isWaiting =
            subscriber.awaitsRetained
            && routing.audiences[place.audience].filter.withUnsafeBytes {
                ReservedTopic($0) != .system
            }
        guard isServed || isWaiting, !subscriber.options.contains(.awaitsReplay) else {
            return false
        }
        routing.note(awaitsReplay: true, subscription)
        return true
    }

    /// All that a subscription was to be sent has been put into its session's queue.
    private mutating func completeReplay(_ handle: Handle<Subscription>) {
        guard routing.subscriptions.contains(handle) else { return }
        let subscriber = routing.subscriber(of: handle.index)
        guard subscriber.options.contains(.awaitsReplay), !subscriber.awaitsRetained else {
            return
        }
        routing.note(awaitsReplay: false, handle.index)
        writeSubscription(handle.index)
    }

    /// A subscription comes back from the store. It gets its retained messages, from the first one
    /// on, when its session has a connection.
    mutating func restoreReplay(of subscription: Index<Subscription>) {
        let session = routing.subscriptions[subscription].session
        if let replay = retention.suspendedReplay(of: session) {
            enqueueReplay(subscription, in: replay)
            return
        }
        let replay = retention.begin(makeReplay(session, subscription, isSystem: false))
        retention.suspend(replay, of: session)
    }

    // MARK: - The end of a connection

    /// A connection ends. A session that lasts gets the rest on its next connection: it does not
    /// subscribe again then [MQTT-3.8.4-4].
    mutating func suspendReplay(of connected: Index<ConnectedSession>) {
        guard let index = live.connectedSessions[connected].replay else { return }
        live.connectedSessions[connected].endReplay()
        retention.suspend(index, of: live.connectedSessions[connected].session)
    }

    /// A session has a connection again.
    mutating func takeUpReplay(of session: Index<Session>) {
        guard let index = retention.takeSuspended(of: session) else { return }
        live.connectedSessions[connectedIndex(of: session)].begin(index)
    }

    /// A session without a connection ends, and what it was being sent.
    mutating func endReplay(of session: Index<Session>) {
        guard let index = retention.takeSuspended(of: session) else { return }
        let replay = retention.end(index)
        for handle in replay.waiting[replay.servedCount...]
        where routing.subscriptions.contains(handle) {
            routing.note(awaitsRetained: false, handle.index)
        }
        endWalk(replay, session)
    }

    // MARK: - Pieces

    private mutating func advanceReplay(_ connected: Index<ConnectedSession>, in step: inout Step) {
        let session = live.connectedSessions[connected].session
        let connection = live.connectedSessions[connected].connection
        guard let index = live.connectedSessions[connected].replay else { return }
        let app = registry.users[sessions[session].user].app
        var byteCount = 0
        var stepCount = 0
        defer { workload.charge(stepCount / CoreLimits.looksPerWork) }
        repeat {
            // What was subscribed to before may have ended between two pieces.
            while routing.subscriptions.contains(retention.replays[index].subscription) {
                if retention.replays[index].grade != .transient, !hasRoomInWindow(session) {
                    retention.note(awaitsWindow: true, index)
                    return
                }
                if byteCount >= CoreLimits.replayBytesMaximum
                    || stepCount >= limits.replayStepsMaximum
                {
                    step.effects[connection.loop].effects.append(.awaitDrain(connection))
                    return
                }
                stepCount += 1
                let met = advanceWalk(of: index, app)
                if case .end = met { break }
                byteCount += send(met, of: retention.replays[index], to: session, in: &step)
            }
            completeReplay(retention.replays[index].subscription)
        } while beginNext(index, session)
        live.connectedSessions[connected].endReplay()
        endWalk(retention.end(index), session)
    }

    private mutating func advanceWalk(
        of replay: Index<RetainedReplay>, _ app: Index<App>
    ) -> RetainedReplay.Met {
        switch retention.replays[replay].walk {
        case .app(var walk):
            let step = registry.advance(&walk, app: app)
            retention.setWalk(.app(walk), of: replay)
            return switch step {
            case .nothing: .nothing
            case .value(let value): .message(value)
            case .end: .end
            }
        case .system(var walk):
            let step = retention.systemTopics.tree.advance(&walk)
            retention.setWalk(.system(walk), of: replay)
            return switch step {
            case .nothing: .nothing
            case .value(let value): .systemValue(value)
            case .end: .end
            }
        }
    }

    /// Sends what a step met; gives its bytes.
    private mutating func send(
        _ met: RetainedReplay.Met, of replay: RetainedReplay, to session: Index<Session>,
        in step: inout Step
    ) -> Int {
        switch met {
        case .nothing, .end: return 0
        case .systemValue(let value):
            send(
                system: value, to: session, subscriptionIdentifier: replay.subscriptionIdentifier,
                in: &step)
            return retention.systemTopics.blocks[value].bytes.count
        case .message(let value):
            guard retention.retained[value].deadline > step.moment.instant else { return 0 }
            send(
                retained: value, to: session, grade: replay.grade,
                subscriptionIdentifier: replay.subscriptionIdentifier, in: &step)
            return retention.retained[value].block.count
        }
    }

    /// Turns to the next subscription that waits; false where there is none.
    private mutating func beginNext(_ index: Index<RetainedReplay>, _ session: Index<Session>)
        -> Bool
    {
        while let handle = retention.takeNext(of: index) {
            guard routing.subscriptions.contains(handle) else { continue }
            routing.note(awaitsRetained: false, handle.index)
            let filter = routing.audiences[routing.subscriptions[handle.index].audience].filter
            let isSystem = filter.withUnsafeBytes { ReservedTopic($0) == .system }
            endWalk(retention.replays[index], session)
            retention.turn(index, to: makeReplay(session, handle.index, isSystem: isSystem))
            return true
        }
        return false
    }

    /// Puts a subscription behind the others that wait, unless it is among them: then it gets the
    /// messages once, as it is when its turn comes.
    private mutating func enqueueReplay(
        _ subscription: Index<Subscription>, in replay: Index<RetainedReplay>
    ) {
        let place = routing.subscriptions[subscription]
        guard !routing.subscriber(of: subscription).awaitsRetained else { return }
        routing.note(awaitsRetained: true, subscription)
        // Those that have had their turn or have ended are left out now and then, so that the list
        // is no longer than twice what a session subscribes to.
        let waiting = retention.replays[replay].waiting
        if waiting.count >= 2 * Int(sessions[place.session].filterCount) + 16 {
            let rest = waiting[retention.replays[replay].servedCount...]
            retention.setWaiting(rest.filter { routing.subscriptions.contains($0) }, of: replay)
        }
        retention.enqueue(routing.subscriptions.handle(subscription), in: replay)
    }

    private mutating func makeReplay(
        _ session: Index<Session>, _ subscription: Index<Subscription>, isSystem: Bool
    ) -> RetainedReplay {
        let place = routing.subscriptions[subscription]
        let subscriber = routing.subscriber(of: subscription)
        let filter = routing.audiences[place.audience].filter
        let app = registry.users[sessions[session].user].app
        return RetainedReplay(
            subscription: routing.subscriptions.handle(subscription),
            grade: subscriber.grade,
            subscriptionIdentifier: subscriber.subscriptionIdentifier,
            walk: isSystem
                ? .system(retention.systemTopics.tree.begin(filter))
                : .app(registry.beginWalk(filter, app: app)))
    }

    private mutating func endWalk(_ replay: RetainedReplay, _ session: Index<Session>) {
        switch replay.walk {
        case .app(let walk):
            registry.end(walk, app: registry.users[sessions[session].user].app)
        case .system(let walk): retention.systemTopics.tree.end(walk)
        }
    }

    func hasRoomInWindow(_ session: Index<Session>) -> Bool {
        let connected = connectedIndex(of: session)
        return live.connectedSessions[connected].backlogCount == 0
            && live.connectedSessions[connected].window.count
                < live.connectedSessions[connected].windowMaximum
            // What has no room in memory would be refused, and not wait on disk.
            && (sessions[session].isPersistent || live.connectedSessions[connected].window.isEmpty
                || hasRoom(session, for: limits.payloadMaximum))
    }
}
