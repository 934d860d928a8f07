// The passwords of apps: set, listed, expired and revoked by operators. A change closes the
// connections that the old password admitted.

import Primitives

/// What became of passwords that were set.
public enum PasswordChange: Hashable, Sendable {
    /// The number of connections that earlier passwords of the same names had admitted.
    case set(connectionCount: Int)
    case unknownApp
}

/// What became of a password that was revoked or whose expiry was changed.
public enum PasswordEnd: Hashable, Sendable {
    /// The number of connections that were closed.
    case done(connectionCount: Int)
    case unknownApp
    case unknownName
}

/// A search for the first passwords of an app, in the order of their names. The table is not in
/// that order, so that each search reads all of it, in slices: no message waits for more than one.
public struct PasswordSearch: Sendable {
    fileprivate let app: [UInt8]
    fileprivate let user: [UInt8]?
    private let start: [UInt8]?
    private let countMaximum: Int
    /// Unsorted; at most twice the maximum.
    private var found: [RegisteredPassword] = []
    fileprivate var last: UInt32?

    /// Places that are read at a time: about a millisecond.
    fileprivate static let sliceCount = 4_096

    /// - Parameters:
    ///   - user: whose passwords; nil for those of all users.
    ///   - name: the list begins after this one; nil for the beginning.
    ///   - countMaximum: the maximum number of passwords.
    public init(app: [UInt8], user: [UInt8]?, after name: [UInt8]?, countMaximum: Int) {
        self.app = app
        self.user = user
        start = name
        self.countMaximum = countMaximum
    }

    /// The passwords that were found, and whether there may be more.
    public var page: (passwords: [RegisteredPassword], mayHaveMore: Bool) {
        let first = self.first
        return (first, first.count == countMaximum)
    }

    private var first: [RegisteredPassword] {
        Array(
            found.sorted { $0.name.lexicographicallyPrecedes($1.name) }.prefix(countMaximum))
    }

    fileprivate mutating func read(_ password: RegisteredPassword) {
        if let start, !start.lexicographicallyPrecedes(password.name) { return }
        if let user, password.user != user { return }
        found.append(password)
        if found.count >= 2 * countMaximum { found = first }
    }
}

extension Broker {
    // MARK: - Operators

    /// Sets passwords of an app, and makes their users if necessary. All or none are set. An
    /// earlier password of the same name is refused from then on, and its connections are closed
    /// with reason 0x87.
    public mutating func setPasswords(
        _ passwords: [RegisteredPassword], app name: [UInt8], at moment: Moment,
        effects: inout Effects
    ) throws(NoRoom) -> PasswordChange {
        guard let app = app(named: name) else { return .unknownApp }
        var (byteCount, oldByteCount, newUsers) = (0, 0, Set<[UInt8]>())
        for password in passwords {
            byteCount += Records.password(password, app: name).pageByteCount
            if let old = self.password(password.name, app: name) {
                oldByteCount += Records.password(old, app: name).pageByteCount
            }
            if user(named: password.user, app: app) == nil,
                newUsers.insert(password.user).inserted
            {
                byteCount += growth(ofUser: password.user, app: app)
            }
        }
        try checkUsers(newUsers.count, app: app)
        // A full store takes a password in place of one whose row is not shorter.
        guard let permit = admitGrowth(of: byteCount, replacing: oldByteCount) else {
            throw NoRoom()
        }
        var step = Step(at: moment, effects: effects)
        var replaced: Set<[UInt8]> = []
        for password in passwords {
            if registry.passwords.find(password.name, app: name) != nil {
                replaced.insert(password.name)
            }
        }
        let count = closeConnections(ofPasswords: replaced, app: name, in: &step)
        commits.discardLazy(
            .passwords, keys: Set(replaced.map { RecordKey.name(app: name, $0) }))
        for password in passwords {
            let user = knownUser(password.user, app: app, permit: permit)
            registry.setPassword(password, of: user, app: app)
            commits.put(Records.password(password, app: name), permit)
        }
        return .set(connectionCount: count)
    }

    /// The password of an app with a name; nil if there is none.
    public func password(_ name: [UInt8], app: [UInt8]) -> RegisteredPassword? {
        registry.passwords.find(name, app: app).flatMap { registry.passwords[$0]?.password }
    }

    /// Reads the next slice of the passwords. Returns false when all were read.
    public func advance(_ search: inout PasswordSearch) -> Bool {
        guard let app = app(named: search.app) else { return false }
        var places = registry.passwords.places.after(search.last)
        for _ in 0..<PasswordSearch.sliceCount {
            guard let index = places.next() else { return false }
            search.last = index.place
            guard let entry = registry.passwords[index], entry.app == app else { continue }
            search.read(entry.password)
        }
        return true
    }

    /// Revokes a password. Connections that it admitted are closed with reason 0x87. Wills that
    /// depend on it are not sent, also if the device has disconnected and the delay is running.
    public mutating func revokePassword(
        _ name: [UInt8], app: [UInt8], at moment: Moment, effects: inout Effects
    ) -> PasswordEnd {
        guard self.app(named: app) != nil else { return .unknownApp }
        guard let index = registry.passwords.find(name, app: app) else { return .unknownName }
        var step = Step(at: moment, effects: effects)
        let count = closeConnections(ofPasswords: [name], app: app, in: &step)
        registry.removePassword(index, app: app)
        commits.remove(.passwords, renewable: [RecordKey.name(app: app, name)])
        return .done(connectionCount: count)
    }

    /// Changes the expiry of a password, in Unix seconds. Connections that would remain longer are
    /// closed with reason 0x87; they may log in again until the new expiry.
    public mutating func expirePassword(
        _ name: [UInt8], app: [UInt8], atUnixSeconds expiry: UInt64, at moment: Moment,
        effects: inout Effects
    ) -> PasswordEnd {
        guard self.app(named: app) != nil else { return .unknownApp }
        guard let index = registry.passwords.find(name, app: app),
            let entry = registry.passwords[index]
        else { return .unknownName }
        var step = Step(at: moment, effects: effects)
        let count =
            expiry < entry.password.expiresUnixSeconds
            ? closeConnections(ofPasswords: [name], app: app, in: &step) : 0
        registry.setExpiry(ofPassword: index, unixSeconds: expiry)
        if let password = registry.passwords[index]?.password {
            commits.discardLazy(.passwords, keys: [RecordKey.name(app: app, name)])
            // The row has the same length.
            commits.renew(Records.password(password, app: app))
        }
        return .done(connectionCount: count)
    }

    /// Closes the connections that passwords of an app admitted. Returns their number.
    private mutating func closeConnections(
        ofPasswords names: Set<[UInt8]>, app: [UInt8], in step: inout Step
    ) -> Int {
        if names.isEmpty { return 0 }
        var count = 0
        for access in live.accesses.places where live.accesses.contains(access) {
            guard case .verified(let identity) = live.accesses[access].source,
                identity.proof == .password, identity.app == app, names.contains(identity.voucher)
            else { continue }
            close(session(of: access), .notAuthorized, willFate: .removed, in: &step)
            count += 1
        }
        return count
    }

    // MARK: - Logins

    /// Records the last use of a password, rounded to the hour. The row waits for the next commit.
    mutating func noteUse(of identity: VerifiedIdentity, _ now: UInt64) {
        guard identity.proof == .password,
            let index = registry.passwords.find(identity.voucher, app: identity.app),
            let password = registry.noteUse(ofPassword: index, unixSeconds: now)
        else { return }
        commits.renewLazily(Records.password(password, app: identity.app))
    }

    // MARK: - Restart

    mutating func restorePassword(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        guard let appCount = key.first, key.count > 1 + Int(appCount),
            let app = app(named: Array(key[1..<1 + Int(appCount)]))
        else { throw .danglingRecord(.passwords, key: key) }
        let name = Array(key[(1 + Int(appCount))...])
        let password = try Records.readPassword(name: name, key: key, value: value)
        guard let user = user(named: password.user, app: app) else {
            throw .danglingRecord(.passwords, key: key)
        }
        registry.setPassword(password, of: user, app: app)
    }
}
