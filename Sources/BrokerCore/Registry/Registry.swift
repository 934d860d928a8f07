// Apps, their keys and users, the tokens of users, and the keys that the configuration trusts. Its
// contents outlive connections and sessions. It contains no messages.
//
// It refers to sessions, groups, offline queues and retained messages by the indices that a user or
// an app contains. An app has the trees and tables that lead from names to them: filters, shares,
// groups and retained topics.
//
// Invariants: an app is found by its name, and a user by its app and name, unless it is deleted;
// the places of deleted users and apps are not used again, so an index of one is valid for the life
// of the process; an app that is being deleted is found by ``appBeingDeleted(named:)`` only; each
// token is in the chain of its user and in the list of its app; a user counts its tokens and
// passwords; an app counts its filters by kind, its shares, and the bytes of its groups and of its
// retained messages.

import Primitives

/// The apps, users and credentials of the broker.
struct Registry: ~Copyable {
    private(set) var apps = Slab<App>()
    private var appNames = ByteKeyTable<App>()
    private(set) var users = Slab<User>()
    private(set) var tokens = TokenTable()
    private(set) var keys = AppKeyTable()
    private(set) var passwords = PasswordTable()
    /// The app of clients that a listener admits without credentials.
    var anonymousApp: [UInt8] = []
    /// Users of clients without a name, and without anything, for the next such clients.
    private var unnamedUsers = UnnamedUsers()
    /// The keys and certificates that verified identities depend on.
    private(set) var trust: VoucherTrust
    private var appsBeingDeleted: [[UInt8]: Index<App>] = [:] {
        didSet { isDeletingApps = !appsBeingDeleted.isEmpty }
    }
    /// Whether an app is being deleted, which is all that a send tests: a flag, because a look at
    /// the dictionary retains it.
    private(set) var isDeletingApps = false
    private var deletedAppCount = 0
    /// Their places are not used again, because messages and sends may refer to them as long as
    /// they last.
    private var deletedUsers: Set<Index<User>> = [] {
        didSet { hasDeletedUsers = !deletedUsers.isEmpty }
    }
    private var hasDeletedUsers = false
    /// Of users who have some.
    private var passwordCounts: [Index<User>: Int] = [:]

    init(trust: VoucherTrust) {
        self.trust = trust
    }

    // MARK: - Apps

    func app(named name: UnsafeRawBufferPointer) -> Index<App>? { appNames.value(for: name) }

    func app(named name: [UInt8]) -> Index<App>? { name.withUnsafeBytes { app(named: $0) } }

    mutating func insert(_ new: consuming App) -> Index<App> {
        let name = new.name
        let app = apps.insert(new).index
        name.withUnsafeBytes { appNames.insert(app, for: $0) }
        return app
    }

    /// Apps and users that are not deleted.
    var appCount: Int { apps.count - deletedAppCount }
    var userCount: Int { users.count - deletedUsers.count }

    // MARK: - Deletion

    func appBeingDeleted(named name: [UInt8]) -> Index<App>? {
        appsBeingDeleted.isEmpty ? nil : appsBeingDeleted[name]
    }

    /// Hides an app from whoever looks for its name.
    mutating func beginDeletion(of app: Index<App>) {
        let name = apps[app].name
        apps[app].isBeingDeleted = true
        _ = name.withUnsafeBytes { appNames.remove($0) }
        appsBeingDeleted[name] = app
    }

    /// Deletes an app that has no users any more. Its name can be used again.
    mutating func endDeletion(of app: Index<App>) {
        let (name, userCount) = (apps[app].name, apps[app].users.count)
        precondition(
            userCount == 0 && apps[app].keys.isEmpty && apps[app].groups.count == 0,
            "app \(app.place) ends with \(userCount) users")
        apps[app].isDeleted = true
        appsBeingDeleted[name] = nil
        deletedAppCount += 1
    }

    /// Deletes a user that has nothing any more. Its name can be used again.
    mutating func delete(_ user: Index<User>) {
        precondition(
            !isDeleted(user) && users[user].firstSession == nil
                && users[user].offlineQueue == nil && users[user].tokenCount == 0
                && passwordCount(of: user) == 0 && users[user].memberships.isEmpty,
            "user \(user.place) ends and has something, or ends twice")
        removeName(of: user)
        deletedUsers.insert(user)
    }

    @inline(__always)
    func isDeleted(_ user: Index<User>) -> Bool {
        hasDeletedUsers && deletedUsers.contains(user)
    }

    /// Adds a user that was deleted before the broker started, and that a row still names.
    mutating func insertDeletedUser(_ name: [UInt8], app: Index<App>) -> Index<User> {
        let user = users.insert(User(app: app, name: Name(name))).index
        deletedUsers.insert(user)
        return user
    }

    // MARK: - Keys of apps

    mutating func insert(_ key: RegisteredKey, app: Index<App>) {
        apps[app].keys.append(keys.insert(key, app: app))
    }

    mutating func remove(_ key: Handle<AppKeyTable.Entry>, app: Index<App>) {
        _ = keys.remove(key)
        apps[app].keys.removeAll { $0 == key }
    }

    /// Notes that the app's row contains its default key, as earlier versions wrote it.
    mutating func noteContainedKey(of app: Index<App>) { apps[app].rowContainsKey = true }

    /// Notes that the default key of an app has a row of its own, or is revoked.
    mutating func noteMovedKey(of app: Index<App>) { apps[app].rowContainsKey = false }

    /// The key with its last use, if that has changed by an hour.
    mutating func noteUse(
        of key: Handle<AppKeyTable.Entry>, unixSeconds now: UInt64
    ) -> RegisteredKey? {
        keys.noteUse(key, now)
    }

    mutating func setRights(_ rights: Rights, of app: Index<App>) { apps[app].rights = rights }

    mutating func note(isOverQuota: Bool, _ app: Index<App>) { apps[app].isOverQuota = isOverQuota }

    // MARK: - Users

    /// The user of an app by name; nil if there is none, or if it is deleted.
    func user(named name: [UInt8], app: Index<App>) -> Index<User>? {
        name.withUnsafeBytes { name in
            apps[app].users.find(apps[app].users.hash(name)) { users[$0].name == name }
        }
    }

    /// Creates a user.
    mutating func insertUser(_ name: [UInt8], app: Index<App>) -> Index<User> {
        let user = users.insert(User(app: app, name: Name(name))).index
        let hash = name.withUnsafeBytes { apps[app].users.hash($0) }
        apps[app].users.insert(user, hash: hash)
        if let last = apps[app].lastUser {
            users[last].nextOfApp = user
        } else {
            apps[app].firstUser = user
        }
        apps[app].lastUser = user
        return user
    }

    /// Gives a user that has nothing another name, which no user of the app has.
    mutating func rename(_ user: Index<User>, to name: [UInt8]) {
        removeName(of: user)
        users[user].name = Name(name)
        let app = users[user].app
        let hash = name.withUnsafeBytes { apps[app].users.hash($0) }
        apps[app].users.insert(user, hash: hash)
    }

    private mutating func removeName(of user: Index<User>) {
        let (app, name) = (users[user].app, users[user].name)
        let hash = name.withUnsafeBytes { apps[app].users.hash($0) }
        let wasFound = apps[app].users.remove(user, hash: hash)
        precondition(wasFound, "user \(user.place) is not found by its name")
    }

    /// Sets the first session in the chain of a user's sessions; nil for none.
    mutating func setFirstSession(_ session: Index<Session>?, of user: Index<User>) {
        users[user].firstSession = session
    }

    /// Changes the number of sessions of the user's app by one.
    mutating func countSession(of user: Index<User>, isNew: Bool) {
        apps[users[user].app].sessionCount += isNew ? 1 : -1
    }

    /// Changes the number of connected sessions of the user's app by one.
    mutating func countConnection(of user: Index<User>, isNew: Bool) {
        apps[users[user].app].connectionCount += isNew ? 1 : -1
    }

    mutating func setOfflineQueue(_ queue: Index<Inbox>?, of user: Index<User>) {
        users[user].offlineQueue = queue
    }

    /// Keeps a user that was named by the broker for the next client without a name.
    mutating func giveBack(unnamedUser user: Index<User>) { unnamedUsers.add(user) }

    /// The user that was given back last; nil for none.
    mutating func takeUnnamedUser() -> Index<User>? { unnamedUsers.takeLast() }

    mutating func noteSeen(_ user: Index<User>, unixMilliseconds: UInt64) {
        users[user].lastSeenUnixMilliseconds = unixMilliseconds
    }

    /// Notes that a message is routed to a user. Returns false if it was before: a list may name a
    /// user twice.
    @inline(__always)
    mutating func noteRouted(to user: Index<User>, stamp: UInt64) -> Bool {
        guard users[user].routedStamp != stamp else { return false }
        users[user].routedStamp = stamp
        return true
    }

    mutating func insert(
        _ membership: Index<Membership>, at position: Int, of user: Index<User>
    ) {
        users[user].memberships.insert(membership, at: position)
    }

    mutating func removeMembership(at position: Int, of user: Index<User>) {
        users[user].memberships.remove(at: position)
    }

    // MARK: - Credentials

    mutating func insert(_ token: Token, of user: Index<User>) {
        let app = users[user].app
        let index = tokens.insert(
            token, of: user, before: users[user].firstToken, position: apps[app].tokens.count)
        users[user].firstToken = index
        users[user].tokenCount += 1
        apps[app].tokens.append(index)
    }

    mutating func remove(_ handle: Handle<Token>) -> Token {
        let (token, links) = tokens.remove(handle)
        let app = users[links.user].app
        if links.previous == nil { users[links.user].firstToken = links.next }
        users[links.user].tokenCount -= 1
        // The last token of the list takes the position.
        let last = apps[app].tokens.removeLast()
        if last != handle.index {
            apps[app].tokens[Int(links.position)] = last
            tokens.note(position: Int(links.position), of: last)
        }
        return token
    }

    /// The token with its last use, if that has changed by an hour.
    mutating func noteUse(of token: Handle<Token>, unixSeconds now: UInt64) -> Token? {
        tokens.noteUse(token, now)
    }

    mutating func replaceTrust(_ new: VoucherTrust) { trust = new }

    /// Adds a password to an app, or replaces the one of its name.
    ///
    /// - Parameter user: that of the password.
    mutating func setPassword(
        _ password: RegisteredPassword, of user: Index<User>, app: Index<App>
    ) {
        let name = apps[app].name
        if let old = passwords.find(password.name, app: name) { countOut(password: old) }
        passwordCounts[user, default: 0] += 1
        passwords.set(password, app: app, named: name)
    }

    mutating func removePassword(_ password: Index<PasswordTable.Entry>, app: [UInt8]) {
        countOut(password: password)
        passwords.remove(password, app: app)
    }

    func passwordCount(of user: Index<User>) -> Int { passwordCounts[user] ?? 0 }

    /// Counts a password out that is replaced or removed.
    private mutating func countOut(password index: Index<PasswordTable.Entry>) {
        guard let entry = passwords[index] else {
            preconditionFailure("no password at place \(index.place)")
        }
        guard let user = user(named: entry.password.user, app: entry.app) else {
            preconditionFailure("password \(entry.password.name) has no user")
        }
        let count = passwordCount(of: user) - 1
        passwordCounts[user] = count == 0 ? nil : count
    }

    mutating func setExpiry(ofPassword password: Index<PasswordTable.Entry>, unixSeconds: UInt64) {
        passwords.setExpiry(password, unixSeconds: unixSeconds)
    }

    /// The password with its last use, if that has changed by an hour.
    mutating func noteUse(
        ofPassword password: Index<PasswordTable.Entry>, unixSeconds now: UInt64
    ) -> RegisteredPassword? {
        passwords.noteUse(password, now)
    }

    /// Whether the key, certificate or password that proved an identity is still valid.
    func believes(_ identity: VerifiedIdentity) -> Bool {
        guard identity.proof == .password else { return trust.believes(identity) }
        guard let index = passwords.find(identity.voucher, app: identity.app),
            let entry = passwords[index]
        else { return false }
        return identity.key == .mark(entry.password.mark)
    }

    // MARK: - Groups of an app

    mutating func insert(
        _ group: Index<Group>, named name: [UInt8], byteCount: Int, app: Index<App>
    ) {
        apps[app].groupByteCount += byteCount
        name.withUnsafeBytes { apps[app].groups.insert(group, for: $0) }
    }

    mutating func removeGroup(named name: [UInt8], byteCount: Int, app: Index<App>) {
        apps[app].groupByteCount -= byteCount
        _ = name.withUnsafeBytes { apps[app].groups.remove($0) }
    }

    /// Changes the bytes of an app's groups by a difference, which may be negative.
    mutating func changeGroupBytes(by difference: Int, app: Index<App>) {
        apps[app].groupByteCount += difference
    }

    // MARK: - Filters of an app

    /// Adds a filter to the tree.
    mutating func insert(
        filter: UnsafeRawBufferPointer, audience: Index<Audience>, app: Index<App>
    ) {
        apps[app].topics.insert(filter, target: audience)
        countFilter(ReservedTopic(filter), app: app, by: 1)
    }

    mutating func remove(filter: UnsafeRawBufferPointer, app: Index<App>) {
        apps[app].topics.remove(filter)
        countFilter(ReservedTopic(filter), app: app, by: -1)
    }

    private mutating func countFilter(_ kind: ReservedTopic?, app: Index<App>, by change: Int) {
        switch kind {
        case .address?: apps[app].addressCount += change
        case .presence?: apps[app].presenceFilterCount += change
        case .unread?: apps[app].unreadFilterCount += change
        case .system?: apps[app].systemCount += change
        // `takeShareNumber` and `giveBackShareNumber` count shares.
        case .share?, nil: break
        }
    }

    /// Caches the match of a topic, for the next publication on it.
    mutating func noteMatch(
        of topic: UnsafeRawBufferPointer, target: Index<Audience>?, app: Index<App>
    ) {
        apps[app].topics.noteMatch(topic, target: target)
    }

    /// Adds the shares of a filter to the tree of shared filters.
    mutating func insert(
        _ shares: Index<ShareSet>, pattern: UnsafeRawBufferPointer, app: Index<App>
    ) {
        apps[app].shares.insert(pattern, target: shares)
    }

    mutating func removeShares(pattern: UnsafeRawBufferPointer, app: Index<App>) {
        apps[app].shares.remove(pattern)
    }

    /// Counts a share that has this number.
    mutating func takeShareNumber(_ number: UInt16, app: Index<App>) {
        apps[app].shareNumbers[number, default: 0] += 1
        apps[app].shareCount += 1
    }

    /// Counts out a share that had this number.
    mutating func giveBackShareNumber(_ number: UInt16, app: Index<App>) {
        apps[app].shareCount -= 1
        let count = apps[app].shareNumbers[number] ?? 0
        apps[app].shareNumbers[number] = count > 1 ? count - 1 : nil
    }

    /// Takes over the topic filters of an app's settings.
    mutating func setFilters(_ policy: AppPolicy, of app: Index<App>) {
        apps[app].historyTopics.replace(with: policy.historyTopics)
        apps[app].moderatedTopics.replace(with: policy.moderation?.topics ?? [])
    }

    // MARK: - Retained messages of an app

    /// Makes a message the retained one of its topic.
    mutating func setRetained(
        _ message: Index<Retained>, topic: UnsafeRawBufferPointer, byteCount: Int, app: Index<App>
    ) {
        apps[app].retainedByteCount += byteCount
        _ = apps[app].retained.set(topic, to: message)
    }

    mutating func removeRetained(
        topic: UnsafeRawBufferPointer, app: Index<App>
    ) -> Index<Retained>? {
        apps[app].retained.remove(topic)
    }

    /// Subtracts the bytes of a retained message that has been removed.
    mutating func giveBackRetained(byteCount: Int, app: Index<App>) {
        apps[app].retainedByteCount -= byteCount
    }

    mutating func beginWalk(_ filter: [UInt8], app: Index<App>) -> RetainedWalk<Retained> {
        apps[app].retained.begin(filter)
    }

    mutating func advance(
        _ walk: inout RetainedWalk<Retained>, app: Index<App>
    ) -> RetainedWalk<Retained>.Step {
        apps[app].retained.advance(&walk)
    }

    mutating func end(_ walk: RetainedWalk<Retained>, app: Index<App>) {
        apps[app].retained.end(walk)
    }
}
