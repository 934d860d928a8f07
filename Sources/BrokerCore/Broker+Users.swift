// Apps, users and their sessions: finding them, making them known, and what waits for a user whom
// no session receives.

import Primitives

extension Broker {
    func app(named name: [UInt8]) -> UInt32? {
        name.withUnsafeBytes { appNames.value(for: $0) }
    }

    mutating func insertApp(_ name: [UInt8], keyDigest: Digest?, rights: Rights) {
        let audience = audiences.insert(Audience()).index
        let app = apps.insert(
            App(name: name, keyDigest: keyDigest, rights: rights, broadcastAudience: audience)
        ).index
        name.withUnsafeBytes { appNames.insert(app, for: $0) }
    }

    // MARK: - Users

    /// The user of an app by name; nil for one whom nobody knows.
    @inline(__always)
    func user(named name: UnsafeRawBufferPointer, app: UInt32) -> UInt32? {
        apps[app].users.find(apps[app].users.hash(name)) { users[$0].name == name }
    }

    func user(named name: [UInt8], app: UInt32) -> UInt32? {
        name.withUnsafeBytes { user(named: $0, app: app) }
    }

    /// The user of an app by name, known from now on.
    mutating func knownUser(
        _ name: [UInt8], app: UInt32, _ permit: borrowing GrowthPermit
    ) -> UInt32 {
        if let user = user(named: name, app: app) { return user }
        return makeUser(name, app: app, permit)
    }

    /// Makes a user known, in the store too.
    mutating func makeUser(
        _ name: [UInt8], app: UInt32, _ permit: borrowing GrowthPermit
    ) -> UInt32 {
        let user = insertUser(name, app: app)
        gathering.put(row(ofUser: user), permit)
        return user
    }

    /// What ``makeUser(_:app:_:)`` has to be admitted for.
    func growth(ofUser name: [UInt8], app: UInt32) -> Int {
        Records.user(app: apps[app].name, name, mailbox: nil).pageByteCount
    }

    mutating func insertUser(_ name: [UInt8], app: UInt32) -> UInt32 {
        let user = users.insert(User(app: app, name: Name(name))).index
        let hash = name.withUnsafeBytes { apps[app].users.hash($0) }
        apps[app].users.insert(user, hash: hash)
        return user
    }

    private func row(ofUser user: UInt32) -> RecordChange {
        let mailbox = users[user].mailbox
        return Records.user(
            app: apps[users[user].app].name, Array(users[user].name),
            mailbox: mailbox == Slab<Inbox>.none ? nil : mailboxes[mailbox].queue)
    }

    /// Writes which queue waits for a user: the row has room for that.
    private mutating func renewUser(_ user: UInt32) { gathering.renew(row(ofUser: user)) }

    // MARK: - Sessions of a user

    @inline(__always)
    func forEachSession(of user: UInt32, _ body: (UInt32) -> Void) {
        var session = users[user].firstSession
        while session != Slab<Session>.none {
            let next = sessions[session].nextOfUser
            body(session)
            session = next
        }
    }

    func session(of user: UInt32, device: Name) -> UInt32? {
        var session = users[user].firstSession
        while session != Slab<Session>.none {
            if sessions[session].device == device { return session }
            session = sessions[session].nextOfUser
        }
        return nil
    }

    func lastSession(of user: UInt32) -> UInt32 {
        var last = Slab<Session>.none
        forEachSession(of: user) { last = $0 }
        return last
    }

    /// Whether some session receives what is sent to the user.
    func hasListener(_ user: UInt32) -> Bool {
        var isFound = false
        forEachSession(of: user) { isFound = isFound || sessions[$0].hearsMail }
        return isFound
    }

    /// Whether some session that receives the user's mail is stored, and so inherits what waits.
    func hasPersistentListener(_ user: UInt32) -> Bool {
        var isFound = false
        forEachSession(of: user) {
            isFound = isFound || (sessions[$0].isPersistent && sessions[$0].hearsMail)
        }
        return isFound
    }

    // MARK: - Mailboxes

    /// The mailbox of a user, made if there is none.
    mutating func mailbox(of user: UInt32) -> UInt32 {
        if users[user].mailbox == Slab<Inbox>.none {
            giveMailbox(Inbox(queue: QueueID(raw: makeIdentifier())), to: user)
        }
        return users[user].mailbox
    }

    /// Lets a queue wait for a user.
    mutating func giveMailbox(_ inbox: Inbox, to user: UInt32) {
        insertMailbox(inbox, of: user)
        renewUser(user)
    }

    mutating func insertMailbox(_ inbox: Inbox, of user: UInt32) {
        precondition(users[user].mailbox == Slab<Inbox>.none, "a user has one mailbox")
        users[user].mailbox = mailboxes.insert(inbox).index
        queueOwners[inbox.queue.raw] = .mailbox(user: user)
    }

    /// Takes away what waits for a user, if anything does. The caller makes the queue somebody
    /// else's.
    mutating func takeMailbox(of user: UInt32) -> Inbox? {
        let mailbox = users[user].mailbox
        guard mailbox != Slab<Inbox>.none else { return nil }
        users[user].mailbox = Slab<Inbox>.none
        renewUser(user)
        queueOwners[mailboxes[mailbox].queue.raw] = nil
        return mailboxes.remove(mailbox)
    }
}
