// Operations on sessions and queues: list, end, purge.

import Administration
import BrokerCore
import Primitives

extension AdministrationService {
    func listSessions(
        _ request: ListSessions
    ) throws(AdministrationRefusal) -> ListSessions.Reply {
        try check(request.selection, after: request.after)
        var search = SessionSearch(
            matching: SessionFilter(request.selection), after: request.after,
            countMaximum: request.limit ?? ListSessions.countMaximum)
        let moment = clock.moment()
        shared.enterInSlices { $0.broker.advance(&search, at: moment) }
        var sessions = search.descriptions.map(ListSessions.Session.init)
        // For all users, the loops would look up a thousand connections.
        if request.selection.user != nil { addPlaces(of: search.descriptions, to: &sessions) }
        return ListSessions.Reply(sessions: sessions, next: search.next)
    }

    /// Adds what the event loops know of connections.
    private func addPlaces(
        of descriptions: [SessionDescription], to sessions: inout [ListSessions.Session]
    ) {
        let places = shared.places(of: descriptions.compactMap(\.connection))
        let now = loopClock.moment().instant
        for (index, description) in descriptions.enumerated() {
            sessions[index].credential = description.credential.map(ShowUser.Credential.init)
            guard let connection = description.connection, let place = places[connection] else {
                continue
            }
            sessions[index].address = "\(place.peer)"
            sessions[index].listener = listeners.name(ofTerms: place.terms)
            sessions[index].silentSeconds = now.milliseconds(since: place.lastReceived) / 1_000
        }
    }

    func kick(_ request: KickSessions) throws(AdministrationRefusal) -> SessionCount {
        guard request.selection.namesMoreThanApp else { throw Self.tooWide }
        try check(request.selection, after: request.after)
        var selection = request.selection
        selection.isConnected = true
        return changeSessions(
            selection, after: request.after, request: "session.kick"
        ) { state, search, moment in
            state.broker.kickSessions(
                &search, sendsWills: request.sendsWills ?? true, at: moment,
                effects: &state.effects)
        }
    }

    func delete(_ request: DeleteSessions) throws(AdministrationRefusal) -> SessionCount {
        guard request.selection.namesMoreThanApp else { throw Self.tooWide }
        try check(request.selection, after: request.after)
        return changeSessions(
            request.selection, after: request.after, request: "session.delete"
        ) { state, search, moment in
            state.broker.deleteSessions(
                &search, sendsWills: request.sendsWills ?? true, at: moment,
                effects: &state.effects)
        }
    }

    /// Refuses a selection of an app or a user that does not exist, so that a wrong name does not
    /// look like an empty selection.
    private func check(
        _ selection: SessionSelection, after place: UInt32?
    ) throws(AdministrationRefusal) {
        // The user may be removed between two pages, which is no fault of the request.
        guard place == nil else { return }
        let app = Array(selection.app.utf8)
        let user = selection.user.map { Array($0.utf8) }
        let (isAppKnown, isUserKnown) = shared.enter { state in
            (
                state.broker.hasApp(app),
                user.map { state.broker.hasUser($0, app: app) } ?? true
            )
        }
        guard isAppKnown else { throw unknownApp(selection.app) }
        guard isUserKnown else {
            throw Self.unknownUser(selection.user ?? "", selection.app)
        }
    }

    private func changeSessions(
        _ selection: SessionSelection, after place: UInt32?, request name: String,
        _ slice: (inout SharedBroker.State, inout SessionSearch, Moment) -> Bool
    ) -> SessionCount {
        let search = change(selection, after: place, slice)
        report(name, selection, count: UInt64(search.count))
        return SessionCount(sessionCount: search.count, next: search.next)
    }

    /// Changes the sessions of a selection with a commit for each slice, so that messages wait for
    /// one slice at most.
    private func change(
        _ selection: SessionSelection, after place: UInt32?,
        _ slice: (inout SharedBroker.State, inout SessionSearch, Moment) -> Bool
    ) -> SessionSearch {
        var search = SessionSearch(
            matching: SessionFilter(selection), after: place,
            countMaximum: SessionCount.countMaximum)
        while changeAndCommit({ [moment = clock.moment()] state in
            slice(&state, &search, moment)
        }) {}
        return search
    }

    // MARK: - Queues

    func show(_ request: ShowOfflineQueue) throws(AdministrationRefusal) -> Queue {
        let description = shared.enter {
            $0.broker.offlineQueueDescription(
                app: Array(request.app.utf8), user: Array(request.user.utf8))
        }
        guard let description else {
            throw noQueue(
                QueueSelection(app: request.app, user: request.user, device: nil))
        }
        return Queue(description)
    }

    func purge(_ request: PurgeQueues) throws(AdministrationRefusal) -> PurgeQueues.Reply {
        guard request.selection.namesMoreThanApp else { throw Self.tooWide }
        try check(request.selection, after: request.after)
        var selection = request.selection
        selection.isConnected = false
        let search = change(selection, after: request.after) { state, search, moment in
            state.broker.purgeQueues(&search, at: moment)
        }
        var count = search.messageCount
        // Without a device, the selection includes the user's offline queue.
        if let user = selection.user, selection.device == nil, request.after == nil {
            count += changeAndCommit { state in
                state.broker.purgeOfflineQueue(
                    app: Array(selection.app.utf8), user: Array(user.utf8)) ?? 0
            }
        }
        report("queue.purge", selection, count: count)
        return PurgeQueues.Reply(messageCount: count, next: search.next)
    }

    private func report(_ name: String, _ selection: SessionSelection, count: UInt64) {
        log.write(
            .warning, .administration,
            fields: [
                "request": .text(name), "app": .text(selection.app),
                "user": .text(selection.user ?? ""), "device": .text(selection.device ?? ""),
                "away_seconds": .number(selection.awaySeconds ?? 0), "count": .number(count),
            ])
    }
}

extension SessionFilter {
    fileprivate init(_ selection: SessionSelection) {
        self.init(
            app: Array(selection.app.utf8), user: selection.user.map { Array($0.utf8) },
            device: selection.device.map { Array($0.utf8) }, isConnected: selection.isConnected,
            awaySeconds: selection.awaySeconds)
    }
}

extension ListSessions.Session {
    init(_ session: SessionDescription) {
        let isConnected = session.connection != nil
        self.init(
            user: String(decoding: session.user, as: UTF8.self),
            device: String(decoding: session.device, as: UTF8.self),
            dialect: "\(session.dialect)", isPersistent: session.isPersistent,
            expirySeconds: session.expirySeconds == .max ? nil : session.expirySeconds,
            connectedUnixMilliseconds: isConnected ? session.connectedUnixMilliseconds : nil,
            awaySeconds: isConnected ? nil : session.awaySeconds,
            keepAliveSeconds: session.keepAliveSeconds, queue: Queue(session.queue),
            underWayCount: session.underWayCount,
            filters: session.filters.map { String(decoding: $0, as: UTF8.self) }.sorted(),
            filterCount: session.filterCount,
            groupCount: session.groupCount, hasWill: session.hasWill)
    }
}

extension Queue {
    init(_ queue: QueueDescription) {
        self.init(
            messageCount: queue.count, byteCount: queue.byteCount,
            overflowCount: queue.overflowCount, nextNumber: queue.nextNumber)
    }
}
