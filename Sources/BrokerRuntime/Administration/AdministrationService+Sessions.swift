// Operations on sessions and queues: list, end, purge.

import Administration
import BrokerCore
import Primitives

extension AdministrationService {
    func listSessions(_ request: ListSessions) -> ListSessions.Reply {
        let moment = clock.moment()
        let filter = SessionFilter(request.selection)
        let (sessions, mayHaveMore) = shared.enter {
            $0.broker.sessionDescriptions(
                matching: filter, after: request.after,
                countMaximum: request.limit ?? ListSessions.countMaximum, at: moment)
        }
        return ListSessions.Reply(
            sessions: sessions.map(ListSessions.Session.init),
            next: mayHaveMore ? sessions.last?.cursor : nil)
    }

    func kick(_ request: KickSessions) throws(AdministrationRefusal) -> SessionCount {
        try changeSessions(request.selection, request: "session.kick") { state, filter, moment in
            state.broker.kickSessions(
                matching: filter, sendsWills: request.sendsWills ?? true, at: moment,
                effects: &state.effects)
        }
    }

    func delete(_ request: DeleteSessions) throws(AdministrationRefusal) -> SessionCount {
        try changeSessions(request.selection, request: "session.delete") { state, filter, moment in
            state.broker.deleteSessions(
                matching: filter, sendsWills: request.sendsWills ?? true, at: moment,
                effects: &state.effects)
        }
    }

    private func changeSessions(
        _ selection: SessionSelection, request name: String,
        _ body: (inout SharedBroker.State, SessionFilter, Moment) -> Int
    ) throws(AdministrationRefusal) -> SessionCount {
        guard selection.namesMoreThanApp else { throw Self.tooWide }
        let moment = clock.moment()
        let count = changeAndCommit { body(&$0, SessionFilter(selection), moment) }
        report(name, selection, count: UInt64(count))
        return SessionCount(sessionCount: count)
    }

    // MARK: - Queues

    func show(_ request: ShowOfflineQueue) throws(AdministrationRefusal) -> Queue {
        let description = shared.enter {
            $0.broker.offlineQueueDescription(
                app: Array(request.app.utf8), user: Array(request.user.utf8))
        }
        guard let description else {
            throw AdministrationRefusal(
                .topicNameInvalid, "nobody knows \(request.user) in \(request.app)")
        }
        return Queue(description)
    }

    func purge(_ request: PurgeQueues) throws(AdministrationRefusal) -> PurgeQueues.Reply {
        let selection = request.selection
        guard selection.namesMoreThanApp else { throw Self.tooWide }
        let moment = clock.moment()
        let count = changeAndCommit { state in
            let sessions = state.broker.purgeQueues(
                matching: SessionFilter(selection), at: moment)
            // Without a device, the selection includes the user's offline queue.
            guard let user = selection.user, selection.device == nil else { return sessions }
            let offlineQueue = state.broker.purgeOfflineQueue(
                app: Array(selection.app.utf8), user: Array(user.utf8))
            return sessions + (offlineQueue ?? 0)
        }
        report("queue.purge", selection, count: count)
        return PurgeQueues.Reply(messageCount: count)
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
