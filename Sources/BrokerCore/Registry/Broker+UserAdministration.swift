// Lists the users of an app for an operator, and shows one with its devices. Users are read in
// slices: no message waits for more than one.

import BrokerTerms
import Primitives

/// A user in a list.
public struct UserSummary: Hashable, Sendable {
    public var user: [UInt8]
    public var sessionCount: Int
    /// The number of its sessions that are connected.
    public var connectionCount: Int
    public var tokenCount: Int
    /// The end of the last connection in Unix milliseconds; 0 if there was none since the broker
    /// started.
    public var lastSeenUnixMilliseconds: UInt64
}

/// A search for the users of an app, in the order in which they became known since the broker
/// started. The place of a deleted user remains.
public struct UserSearch: Sendable {
    fileprivate let app: [UInt8]
    fileprivate let countMaximum: Int
    public fileprivate(set) var found: [UserSummary] = []
    fileprivate var place: UInt32?
    fileprivate var isAtEnd = false

    /// Users that are read at a time: about a millisecond.
    static let sliceCount = 4_096

    /// - Parameters:
    ///   - cursor: ``next`` of the previous page; nil for the first page.
    ///   - countMaximum: the maximum number of users, at least 1.
    public init(app: [UInt8], after cursor: UInt32?, countMaximum: Int) {
        self.app = app
        place = cursor
        self.countMaximum = countMaximum
    }

    /// The place after which the next page begins; nil if all were read. It is valid until the
    /// broker ends.
    public var next: UInt32? { isAtEnd ? nil : place }
}

/// A user and its devices.
public struct UserDescription: Hashable, Sendable {
    public var summary: UserSummary
    public var groupCount: Int
    public var offlineQueue: QueueDescription
    /// At most ``CoreLimits/describedDevicesMaximum``.
    public var devices: [DeviceDescription]
}

/// A device of a user: its session, and what its connection has presented.
public struct DeviceDescription: Hashable, Sendable {
    public var session: SessionDescription
    /// Nil without a connection.
    public var credential: CredentialDescription?
}

/// The credential of a connection, without secrets.
public enum CredentialDescription: Hashable, Sendable {
    /// An opaque token, by its public part.
    case token([UInt8])
    /// A key of the app, by its name.
    case appKey([UInt8])
    case anonymous
    /// A verified identity, by the object that proved it.
    case verified(VerifiedIdentity.Proof, voucher: [UInt8])
    /// A gateway, which attached the device as a sensor.
    case gateway(user: [UInt8], device: [UInt8])

    /// The kind, as operators and the log name it.
    public var kindName: String {
        switch self {
        case .token: "token"
        case .appKey: "appKey"
        case .anonymous: "anonymous"
        case .verified(.webToken, _): "webToken"
        case .verified(.certificate, _): "certificate"
        case .verified(.preSharedKey, _): "preSharedKey"
        case .verified(.password, _): "password"
        case .gateway: "gateway"
        }
    }

    /// The name of the object that proved the client; a gateway is `user/device`. Empty for none.
    public var name: [UInt8] {
        switch self {
        case .token(let name), .appKey(let name), .verified(_, let name): name
        case .anonymous: []
        case .gateway(let user, let device): user + [UInt8(ascii: "/")] + device
        }
    }
}

extension Broker {
    // MARK: - Lists

    /// Reads the next slice of the users. Returns false when the page is complete.
    public func advance(_ search: inout UserSearch) -> Bool {
        guard let app = app(named: search.app) else {
            search.isAtEnd = true
            return false
        }
        var next = registry.apps[app].firstUser
        if let place = search.place {
            let last = Index<User>(place: place)
            // A client may name any place.
            guard registry.users.contains(last), registry.users[last].app == app else {
                search.isAtEnd = true
                return false
            }
            next = registry.users[last].nextOfApp
        }
        var readCount = 0
        while let user = next {
            if search.found.count == search.countMaximum { return false }
            if readCount == UserSearch.sliceCount { return true }
            readCount += 1
            search.place = user.place
            if !registry.isDeleted(user) { search.found.append(summary(of: user)) }
            next = registry.users[user].nextOfApp
        }
        search.isAtEnd = true
        return false
    }

    private func summary(of user: Index<User>) -> UserSummary {
        var (sessionCount, connectionCount) = (0, 0)
        forEachSession(of: user) {
            sessionCount += 1
            if sessions[$0].isConnected { connectionCount += 1 }
        }
        return UserSummary(
            user: Array(registry.users[user].name), sessionCount: sessionCount,
            connectionCount: connectionCount, tokenCount: Int(registry.users[user].tokenCount),
            lastSeenUnixMilliseconds: registry.users[user].lastSeenUnixMilliseconds)
    }

    // MARK: - One user

    /// A user and its devices; nil if there is no such user.
    public func userDescription(
        app name: [UInt8], user userName: [UInt8], at moment: Moment
    ) -> UserDescription? {
        guard let app = app(named: name), let user = self.user(named: userName, app: app) else {
            return nil
        }
        var devices: [DeviceDescription] = []
        forEachSession(of: user) { session in
            guard devices.count < CoreLimits.describedDevicesMaximum else { return }
            devices.append(
                DeviceDescription(
                    session: description(of: session, filterBytesMaximum: 0, at: moment),
                    credential: credential(of: session)))
        }
        return UserDescription(
            summary: summary(of: user), groupCount: registry.users[user].memberships.count,
            offlineQueue: offlineQueueDescription(of: user), devices: devices)
    }

    func credential(of session: Index<Session>) -> CredentialDescription? {
        guard let connected = sessions[session].connected,
            let access = live.connectedSessions[connected].access
        else { return nil }
        switch live.accesses[access].source {
        // A token that is revoked ends its connections.
        case .token(let handle): return registry.tokens[handle].map { .token($0.identifier) }
        // A key that is revoked ends its connections.
        case .appKey(let handle): return registry.keys[handle].map { .appKey($0.key.name) }
        case .anonymous: return .anonymous
        case .verified(let identity):
            return .verified(identity.proof, voucher: identity.voucher)
        case .gateway(let gateway):
            return self.session(of: gateway).map {
                .gateway(
                    user: Array(registry.users[sessions[$0].user].name),
                    device: Array(sessions[$0].device))
            }
        }
    }
}
