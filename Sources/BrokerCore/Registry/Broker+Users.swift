// Apps, users and their sessions: look-up, creation, and the offline queues of users without a
// session that receives their messages.

import Primitives

extension Broker {
    func app(named name: [UInt8]) -> Index<App>? {
        registry.app(named: name)
    }

    @discardableResult
    mutating func insertApp(_ name: [UInt8], rights: Rights) -> Index<App> {
        let audience = routing.makeAudience()
        let app = registry.insert(App(name: name, rights: rights, broadcastAudience: audience))
        registry.setFilters(limits.policy(ofApp: name), of: app)
        return app
    }

    // MARK: - Users

    /// The user of an app by name; nil if there is none.
    @inline(__always)
    func user(named name: UnsafeRawBufferPointer, app: Index<App>) -> Index<User>? {
        registry.apps[app].users.find(registry.apps[app].users.hash(name)) {
            registry.users[$0].name == name
        }
    }

    func user(named name: [UInt8], app: Index<App>) -> Index<User>? {
        registry.user(named: name, app: app)
    }

    /// The user of an app by name, created if there is none.
    mutating func knownUser(_ name: [UInt8], app: Index<App>, permit: borrowing GrowthPermit)
        -> Index<User>
    {
        if let user = user(named: name, app: app) { return user }
        return makeUser(name, app: app, permit: permit)
    }

    /// Creates a user, also in the store.
    mutating func makeUser(_ name: [UInt8], app: Index<App>, permit: borrowing GrowthPermit)
        -> Index<User>
    {
        let user = insertUser(name, app: app)
        commits.put(row(ofUser: user), permit)
        return user
    }

    /// Gives a user that has nothing another name, also in the store.
    mutating func rename(
        _ user: Index<User>, to name: [UInt8], permit: borrowing GrowthPermit
    ) {
        let former = row(ofUser: user)
        commits.remove(former.table, key: former.key)
        registry.rename(user, to: name)
        commits.put(row(ofUser: user), permit)
    }

    /// The growth that ``makeUser(_:app:permit:)`` must be admitted for.
    func growth(ofUser name: [UInt8], app: Index<App>) -> Int {
        Records.user(app: registry.apps[app].name, name, offlineQueue: nil).pageByteCount
    }

    mutating func insertUser(_ name: [UInt8], app: Index<App>) -> Index<User> {
        registry.insertUser(name, app: app)
    }

    func row(ofUser user: Index<User>) -> RecordChange {
        Records.user(
            app: registry.apps[registry.users[user].app].name, Array(registry.users[user].name),
            offlineQueue: registry.users[user].offlineQueue.map { queues.offlineQueues[$0].queue },
            sentThrough: registry.users[user].offlineQueue.flatMap {
                queues.sentThrough[queues.offlineQueues[$0].queue.raw]
            } ?? 0)
    }

    /// Writes the id of the offline queue into the user's row, which has room for it.
    private mutating func renewUser(_ user: Index<User>) {
        commits.renew(row(ofUser: user))
    }

    /// The limit that does not allow so many new users of an app; nil if it is allowed. Whoever
    /// makes users asks before.
    func limit(ofNewUsers count: Int, app: Index<App>) -> LimitName? {
        if count == 0 { return nil }
        if registry.apps[app].users.count + count > limits.usersPerAppMaximum { return .usersOfApp }
        // Deleted users have places until the broker ends.
        return registry.users.count + count > limits.usersMaximum ? .users : nil
    }

    // MARK: - Sessions of a user

    @inline(__always)
    func forEachSession(of user: Index<User>, _ body: (Index<Session>) -> Void) {
        var next = registry.users[user].firstSession
        while let session = next {
            next = sessions[session].nextOfUser
            body(session)
        }
    }

    func session(of user: Index<User>, device: Name) -> Index<Session>? {
        var next = registry.users[user].firstSession
        while let session = next {
            if sessions[session].device == device { return session }
            next = sessions[session].nextOfUser
        }
        return nil
    }

    func lastSession(of user: Index<User>) -> Index<Session>? {
        var last: Index<Session>? = nil
        forEachSession(of: user) { last = $0 }
        return last
    }

    /// Whether a session receives the user's messages.
    func hasReceiver(_ user: Index<User>) -> Bool {
        var isFound = false
        forEachSession(of: user) { isFound = isFound || sessions[$0].receivesUserMessages }
        return isFound
    }

    /// Whether a stored session receives the user's messages. Such a session inherits the offline
    /// queue.
    func hasPersistentReceiver(_ user: Index<User>) -> Bool {
        var isFound = false
        forEachSession(of: user) {
            isFound = isFound || (sessions[$0].isPersistent && sessions[$0].receivesUserMessages)
        }
        return isFound
    }

    // MARK: - Offline queues

    /// The offline queue of a user, created if there is none.
    mutating func offlineQueue(of user: Index<User>) -> Index<Inbox> {
        if registry.users[user].offlineQueue == nil {
            giveOfflineQueue(Inbox(queue: QueueID(raw: makeIdentifier())), to: user)
        }
        return offlineQueueIndex(of: user)
    }

    /// The offline queue of a user that has one.
    func offlineQueueIndex(of user: Index<User>) -> Index<Inbox> {
        guard let offlineQueue = registry.users[user].offlineQueue else {
            preconditionFailure("user \(user.place) has no offline queue")
        }
        return offlineQueue
    }

    /// Makes a queue the offline queue of a user.
    mutating func giveOfflineQueue(_ inbox: Inbox, to user: Index<User>) {
        insertOfflineQueue(inbox, of: user)
        renewUser(user)
    }

    mutating func insertOfflineQueue(_ inbox: Inbox, of user: Index<User>) {
        precondition(
            registry.users[user].offlineQueue == nil, "user \(user.place) has an offline queue")
        registry.setOfflineQueue(queues.insert(offlineQueue: inbox, of: user), of: user)
    }

    /// Removes and returns the offline queue of a user; nil if there is none. The caller must give
    /// the queue another owner.
    mutating func takeOfflineQueue(of user: Index<User>) -> Inbox? {
        guard let offlineQueue = registry.users[user].offlineQueue else { return nil }
        registry.setOfflineQueue(nil, of: user)
        renewUser(user)
        return queues.remove(offlineQueue: offlineQueue)
    }
}
