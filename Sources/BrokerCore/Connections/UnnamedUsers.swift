// Users of anonymous clients that gave no name. Each such client is a user, to whom others can
// send. A user that has nothing when its client is gone becomes the next client's, so that there
// are as many of these users as clients at one time, and not as logins. It gets a new name then:
// whoever knows the former one, such as the client before, cannot log in with it beside the next
// client, and an answer to the client before does not reach the next one.

import Primitives

/// Users that the broker has named and that nobody uses.
struct UnnamedUsers {
    private var users: [Index<User>] = []
    /// The same, so that each is there once: somebody else can have logged in with its name.
    private var members: Set<Index<User>> = []

    mutating func add(_ user: Index<User>) {
        if members.insert(user).inserted { users.append(user) }
    }

    mutating func takeLast() -> Index<User>? {
        guard let user = users.popLast() else { return nil }
        members.remove(user)
        return user
    }
}

extension Broker {
    /// A name that the broker gives a client without one begins with it.
    static let assignedNamePrefix = Array("auto-".utf8)

    /// A unique device name, from an unpredictable number.
    func assignedName(_ seed: UInt64) -> [UInt8] {
        Self.assignedNamePrefix + unpredictableName(seed)
    }

    /// A user of an earlier client without a name, which has nothing and gets a new name; nil if
    /// there is none.
    mutating func takeUnnamedUser(of app: Index<App>) -> Index<User>? {
        while let user = registry.takeUnnamedUser() {
            // Meanwhile it may have got a message, a group or a token, or be deleted.
            if registry.users[user].app == app, isUnused(user) { return user }
        }
        return nil
    }

    /// Keeps the user of a session that has ended, if the broker has named it, for the next client
    /// without a name.
    mutating func giveBackIfUnnamed(_ user: Index<User>) {
        guard registry.users[user].name.starts(with: Self.assignedNamePrefix),
            registry.apps[registry.users[user].app].name == registry.anonymousApp, isUnused(user)
        else { return }
        registry.giveBack(unnamedUser: user)
    }

    /// Finds the users of clients without a name that earlier processes have left.
    mutating func giveBackUnnamedUsers() {
        guard let app = app(named: registry.anonymousApp) else { return }
        var next = registry.apps[app].firstUser
        while let user = next {
            next = registry.users[user].nextOfApp
            giveBackIfUnnamed(user)
        }
    }

    /// Whether nothing of a user would become another client's.
    private func isUnused(_ user: Index<User>) -> Bool {
        !registry.isDeleted(user) && isBare(user)
            && registry.users[user].offlineQueue == nil && tracking.count(ofUser: user) == 0
            && wakes.index(of: user) == nil && wakes.restingIndex(of: user) == nil
            && !wakeReports.has(user) && !hasDetachedWill(user)
    }

    /// A client that named itself has no device name, another one that of its user.
    private func hasDetachedWill(_ user: Index<User>) -> Bool {
        [Name([]), registry.users[user].name].contains { device in
            willTable.hasDetached(of: WillOwner(user: user, device: device))
        }
    }
}
