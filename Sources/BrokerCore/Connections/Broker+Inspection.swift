// Lists single apps, sessions and queues for an operator. The time of a walk is proportional to its
// result, so that it delays no message for long.

import BrokerTerms
import Primitives

/// The properties of an app.
public struct AppDescription: Hashable, Sendable {
    /// Whether clients can log in with a key.
    public var hasKey: Bool
    public var rights: Rights
    public var userCount: Int
    public var groupCount: Int
    public var sessionCount: Int
    public var connectionCount: Int
    public var tokenCount: Int
}

/// A user as its own clients see it: the rights and the sessions.
public struct OwnUserDescription: Hashable, Sendable {
    /// Those of the app.
    public var rights: Rights
    public var sessions: [SessionDescription]
    /// How many there are.
    public var sessionCount: Int
    public var offlineQueue: QueueDescription
}

/// Selects sessions: those that are equal in every property that is not nil.
public struct SessionFilter: Hashable, Sendable {
    public var app: [UInt8]
    public var user: [UInt8]?
    public var device: [UInt8]?
    public var isConnected: Bool?
    /// Minimum time in seconds without a connection.
    public var awaySeconds: UInt64?

    public init(
        app: [UInt8], user: [UInt8]? = nil, device: [UInt8]? = nil, isConnected: Bool? = nil,
        awaySeconds: UInt64? = nil
    ) {
        self.app = app
        self.user = user
        self.device = device
        self.isConnected = isConnected
        self.awaySeconds = awaySeconds
    }
}

/// A session, as an operator sees it.
public struct SessionDescription: Hashable, Sendable {
    /// Position in a list: the next page begins after it. It is valid until the broker ends.
    public var cursor: UInt32
    public var user: [UInt8]
    public var device: [UInt8]
    public var dialect: SessionDialect
    public var isPersistent: Bool
    public var expirySeconds: UInt32
    /// The connection, by which its event loop knows the address; nil if there is none.
    public var connection: ConnectionID?
    /// Time of the login in Unix milliseconds; 0 without a connection.
    public var connectedUnixMilliseconds: UInt64
    /// Seconds since the last connection ended; 0 while there is one.
    public var awaySeconds: UInt64
    public var keepAliveSeconds: UInt32
    public var queue: QueueDescription
    /// Number of deliveries that are not acknowledged.
    public var underWayCount: UInt32
    public var filters: [[UInt8]]
    /// How many there are.
    public var filterCount: Int
    public var groupCount: Int
    public var hasWill: Bool
    /// Nil without a connection, and in lists of all users.
    public var credential: CredentialDescription?

    /// Bytes of the filters that are listed of one session, which may have 1,000 of 65,535 bytes.
    static let filterBytesMaximum = 32 << 10
    /// Bytes of filters in a page. In JSON a byte may become six, and a reply has 4 MiB.
    static let filterBytesPerPage = 256 << 10
}

/// The queue of one receiver.
public struct QueueDescription: Hashable, Sendable {
    public var count: UInt64
    public var byteCount: UInt64
    /// Number of messages that the queue refused or dropped because it was full, since the broker
    /// started.
    public var overflowCount: UInt64
    /// The number that the next message gets.
    public var nextNumber: UInt64
}

extension Broker {
    /// An app by its name; nil if there is none.
    public func appDescription(_ name: [UInt8]) -> AppDescription? {
        guard let app = app(named: name) else { return nil }
        return AppDescription(
            hasKey: !registry.apps[app].keys.isEmpty, rights: registry.apps[app].rights,
            userCount: registry.apps[app].users.count, groupCount: registry.apps[app].groups.count,
            sessionCount: registry.apps[app].sessionCount,
            connectionCount: registry.apps[app].connectionCount,
            tokenCount: registry.apps[app].tokens.count)
    }

    /// A user; nil if there is none.
    ///
    /// - Parameter countMaximum: the maximum number of sessions; there may be fewer because of
    ///   ``SessionDescription/filterBytesPerPage``.
    public func ownUserDescription(
        app name: [UInt8], user: [UInt8], sessionCountMaximum countMaximum: Int, at moment: Moment
    ) -> OwnUserDescription? {
        guard let app = app(named: name), let index = self.user(named: user, app: app),
            let queue = offlineQueueDescription(app: name, user: user)
        else { return nil }
        var described: [SessionDescription] = []
        var (count, filterByteCount) = (0, 0)
        forEachSession(of: index) { session in
            count += 1
            guard described.count < countMaximum,
                filterByteCount < SessionDescription.filterBytesPerPage
            else { return }
            let description = description(
                of: session, filterBytesMaximum: SessionDescription.filterBytesMaximum, at: moment)
            filterByteCount += description.filters.reduce(0) { $0 + $1.count }
            described.append(description)
        }
        return OwnUserDescription(
            rights: registry.apps[app].rights, sessions: described, sessionCount: count,
            offlineQueue: queue)
    }

    // MARK: - Sessions

    func matches(
        _ session: Index<Session>, filter: SessionFilter, app: Index<App>, at moment: Moment
    ) -> Bool {
        let user = sessions[session].user
        guard registry.users[user].app == app else { return false }
        if let wanted = filter.user, !(registry.users[user].name == wanted) { return false }
        if let wanted = filter.device, !(sessions[session].device == wanted) { return false }
        if let wanted = filter.isConnected, wanted != sessions[session].isConnected {
            return false
        }
        if let least = filter.awaySeconds {
            return !sessions[session].isConnected && awaySeconds(session, at: moment) >= least
        }
        return true
    }

    private func awaySeconds(_ session: Index<Session>, at moment: Moment) -> UInt64 {
        sessions[session].isConnected
            ? 0 : moment.instant.milliseconds(since: sessions[session].disconnected) / 1000
    }

    /// - Parameter filterBytesMaximum: bytes of the filters that are listed.
    func description(
        of session: Index<Session>, filterBytesMaximum: Int, at moment: Moment
    ) -> SessionDescription {
        let user = sessions[session].user
        let connected = sessions[session].connected
        var filters: [[UInt8]] = []
        var filterCount = 0
        var filterByteCount = 0
        forEachSubscription(of: session) {
            let filter = routing.audiences[routing.subscriptions[$0].audience].filter
            if filter.isEmpty { return }
            filterCount += 1
            filterByteCount += filter.count
            if filterByteCount <= filterBytesMaximum { filters.append(filter) }
        }
        return SessionDescription(
            cursor: session.place, user: Array(registry.users[user].name),
            device: Array(sessions[session].device),
            dialect: sessions[session].dialect, isPersistent: sessions[session].isPersistent,
            expirySeconds: sessions[session].expirySeconds,
            connection: connected.map { live.connectedSessions[$0].connection },
            connectedUnixMilliseconds: connected.map {
                live.connectedSessions[$0].connectedUnixMilliseconds
            } ?? 0,
            awaySeconds: awaySeconds(session, at: moment),
            keepAliveSeconds: connected.map { live.connectedSessions[$0].keepAliveSeconds } ?? 0,
            queue: QueueDescription(sessions[session].inbox),
            underWayCount: connected.map { live.connectedSessions[$0].sentCount } ?? 0,
            filters: filters, filterCount: filterCount,
            groupCount: registry.users[user].memberships.count,
            hasWill: sessions[session].will != nil)
    }

    // MARK: - Queues

    /// The offline queue of a user; nil if there is no such user.
    public func offlineQueueDescription(app name: [UInt8], user: [UInt8]) -> QueueDescription? {
        guard let app = app(named: name),
            let user = self.user(named: user, app: app)
        else { return nil }
        return offlineQueueDescription(of: user)
    }

    func offlineQueueDescription(of user: Index<User>) -> QueueDescription {
        registry.users[user].offlineQueue.map { QueueDescription(queues.offlineQueues[$0]) }
            ?? QueueDescription(count: 0, byteCount: 0, overflowCount: 0, nextNumber: 1)
    }
}

extension QueueDescription {
    fileprivate init(_ inbox: Inbox) {
        self.init(
            count: UInt64(inbox.count), byteCount: inbox.byteCount,
            overflowCount: UInt64(inbox.overflowCount.value), nextNumber: inbox.nextNumber)
    }
}
