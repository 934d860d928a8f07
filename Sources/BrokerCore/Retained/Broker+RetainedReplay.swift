// Sends the retained messages of a new subscription. There may be a hundred thousand of them, so
// they are sent in pieces: the next piece when the client has read the last one and, in QoS 1 and
// 2, its window has room. One subscription of a session is served at a time. The others wait, each
// once.
//
// The row of a subscription tells that its retained messages have not all been sent. After a crash
// the broker begins with that subscription again, so its client may receive some of them twice.

import BrokerTerms
import Primitives

/// The replay of retained messages to a session.
struct RetainedReplay {
    /// The subscription of the walk. The walk ends when the subscription ends, by a request or by a
    /// right that was withdrawn.
    var subscription: Handle<Subscription>
    var grade: Grade
    var subscriptionIdentifier: UInt32
    var walk: Walk
    /// Whether the walk waits for room in the window.
    var awaitsWindow = false
    /// Subscriptions that are served later.
    var waiting: [Handle<Subscription>] = []
    /// The number of subscriptions at the front of `waiting` that have been served.
    var servedCount = 0

    /// A position among the retained messages of the session's app, or among the values of `$SYS`.
    enum Walk {
        case app(RetainedWalk<Retained>)
        case system(RetainedWalk<SystemBlock>)
    }

    /// The result of one step of the walk.
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
    /// Sends the retained messages that a new subscription matches.
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

    /// Continues a replay when the client has read everything that was written.
    mutating func outgoingDrained(_ connection: ConnectionID, in step: inout Step) {
        guard let session = session(of: connection) else { return }
        let connected = connectedIndex(of: session)
        guard live.connectedSessions[connected].replay != nil else { return }
        advanceReplay(connected, in: &step)
        pump(session, in: &step)
    }

    /// Continues a replay that waited for room in the window, if there is some.
    mutating func resumeReplay(_ connected: Index<ConnectedSession>, in step: inout Step) {
        guard let replay = live.connectedSessions[connected].replay,
            retention.replays[replay].awaitsWindow,
            hasRoomInWindow(live.connectedSessions[connected].session)
        else { return }
        retention.note(awaitsWindow: false, replay)
        let connection = live.connectedSessions[connected].connection
        step.effects[connection.loop].effects.append(.awaitDrain(connection))
    }

    /// The same for all sessions.
    mutating func resumeReplays(in step: inout Step) {
        guard retention.replays.count > 0 else { return }
        for connected in live.connectedSessions.places
        where live.connectedSessions.contains(connected)
            && live.connectedSessions[connected].replay != nil
        {
            resumeReplay(connected, in: &step)
        }
    }

    // MARK: - Rows

    /// Updates, before a subscription is written, whether retained messages are still to be sent.
    /// Returns true if the stored row differs.
    mutating func noteReplay(of subscription: Index<Subscription>) -> Bool {
        let row = routing.subscriptions[subscription]
        guard sessions[row.session].isPersistent else { return false }
        guard let replay = live.connectedSessions[connectedIndex(of: row.session)].replay else {
            return false
        }
        let subscriber = routing.subscriber(of: subscription)
        let isServed =
            retention.replays[replay].subscription == routing.subscriptions.handle(subscription)
            && !retention.replays[replay].isSystem
        let isWaiting =
            subscriber.awaitsRetained
            && routing.audiences[row.audience].filter.withUnsafeBytes {
                ReservedTopic($0) != .system
            }
        guard isServed || isWaiting, !subscriber.options.contains(.awaitsReplay) else {
            return false
        }
        routing.note(awaitsReplay: true, subscription)
        return true
    }

    /// Updates the row of a subscription whose retained messages are all in its session's queue.
    private mutating func completeReplay(_ handle: Handle<Subscription>) {
        guard routing.subscriptions.contains(handle) else { return }
        let subscriber = routing.subscriber(of: handle.index)
        guard subscriber.options.contains(.awaitsReplay), !subscriber.awaitsRetained else {
            return
        }
        routing.note(awaitsReplay: false, handle.index)
        writeSubscription(handle.index)
    }

    /// Registers a restored subscription. When its session connects, it gets its retained messages
    /// from the first one on.
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

    /// Suspends the replay of a connection that ends. A persistent session gets the rest on its
    /// next connection, because its client does not subscribe again then [MQTT-3.8.4-4].
    mutating func suspendReplay(of connected: Index<ConnectedSession>) {
        guard let index = live.connectedSessions[connected].replay else { return }
        live.connectedSessions[connected].endReplay()
        retention.suspend(index, of: live.connectedSessions[connected].session)
    }

    /// Resumes the replay of a session that has connected again.
    mutating func takeUpReplay(of session: Index<Session>) {
        guard let index = retention.takeSuspended(of: session) else { return }
        live.connectedSessions[connectedIndex(of: session)].begin(index)
    }

    /// Ends the replay of a session without a connection.
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
            // The subscription may have ended between two pieces.
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

    /// Sends the message that a step found. Returns its bytes.
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

    /// Begins with the next subscription that waits. Returns false if there is none.
    private mutating func beginNext(_ index: Index<RetainedReplay>, _ session: Index<Session>)
        -> Bool
    {
        while let handle = retention.takeNext(of: index) {
            guard routing.subscriptions.contains(handle) else { continue }
            routing.note(awaitsRetained: false, handle.index)
            let filter = routing.audiences[routing.subscriptions[handle.index].audience].filter
            let isSystem = filter.withUnsafeBytes { ReservedTopic($0) == .system }
            endWalk(retention.replays[index], session)
            retention.replace(index, with: makeReplay(session, handle.index, isSystem: isSystem))
            return true
        }
        return false
    }

    /// Adds a subscription to the waiting ones unless it is among them; then it gets the messages
    /// once, with its options at that time.
    private mutating func enqueueReplay(
        _ subscription: Index<Subscription>, in replay: Index<RetainedReplay>
    ) {
        let row = routing.subscriptions[subscription]
        guard !routing.subscriber(of: subscription).awaitsRetained else { return }
        routing.note(awaitsRetained: true, subscription)
        // Removes subscriptions that were served or have ended, so that the list is at most twice
        // as long as the session's number of subscriptions.
        let waiting = retention.replays[replay].waiting
        if waiting.count >= 2 * Int(sessions[row.session].filterCount) + 16 {
            let rest = waiting[retention.replays[replay].servedCount...]
            retention.setWaiting(rest.filter { routing.subscriptions.contains($0) }, of: replay)
        }
        retention.enqueue(routing.subscriptions.handle(subscription), in: replay)
    }

    private mutating func makeReplay(
        _ session: Index<Session>, _ subscription: Index<Subscription>, isSystem: Bool
    ) -> RetainedReplay {
        let row = routing.subscriptions[subscription]
        let subscriber = routing.subscriber(of: subscription)
        let filter = routing.audiences[row.audience].filter
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
            // A message that has no room in memory would be refused, because these sessions do not
            // queue on disk.
            && (sessions[session].isPersistent || live.connectedSessions[connected].window.isEmpty
                || hasRoom(session, for: limits.payloadMaximum))
    }
}
