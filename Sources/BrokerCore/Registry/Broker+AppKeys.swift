// The keys of apps: made, listed and revoked by operators. A revocation closes the connections that
// the key admitted.

import Primitives

/// The result of adding a key.
public enum KeyAddition: Hashable, Sendable {
    case added
    case unknownApp
    /// The app has a key of this name.
    case exists
    /// The app has ``CoreLimits/appKeysMaximum`` keys.
    case tooMany
}

/// The result of revoking a key.
public enum KeyRevocation: Hashable, Sendable {
    /// The number of connections that were closed.
    case revoked(connectionCount: Int)
    case unknownApp
    case unknownKey
}

extension Broker {
    /// Adds a key. Precondition: no other key has its digest, which is one of 130 random bits.
    public mutating func addKey(
        _ key: RegisteredKey, app name: [UInt8]
    ) throws(NoRoom) -> KeyAddition {
        guard let app = app(named: name) else { return .unknownApp }
        guard self.key(named: key.name, app: app) == nil else { return .exists }
        guard registry.apps[app].keys.count < CoreLimits.appKeysMaximum else { return .tooMany }
        let row = Records.appKey(key, app: name)
        guard let permit = admitGrowth(of: row.pageByteCount) else { throw NoRoom() }
        registry.insert(key, app: app)
        commits.put(row, permit)
        return .added
    }

    /// The keys of an app, in the order of their names; nil if there is no such app.
    public func keys(ofApp name: [UInt8]) -> [RegisteredKey]? {
        guard let app = app(named: name) else { return nil }
        return registry.apps[app].keys.compactMap { registry.keys[$0]?.key }
            .sorted { $0.name.lexicographicallyPrecedes($1.name) }
    }

    /// Revokes a key. Connections that it admitted are closed with reason 0x87. Wills that depend
    /// on it are not sent, also if the device has disconnected and the delay is running.
    public mutating func revokeKey(
        _ name: [UInt8], app appName: [UInt8], at moment: Moment, effects: inout Effects
    ) -> KeyRevocation {
        guard let app = app(named: appName) else { return .unknownApp }
        guard let handle = key(named: name, app: app) else { return .unknownKey }
        var step = Step(at: moment, effects: effects)
        var connectionCount = 0
        for access in live.accesses.places where live.accesses.contains(access) {
            guard case .appKey(let used) = live.accesses[access].source, used == handle
            else { continue }
            close(session(of: access), .notAuthorized, willFate: .removed, in: &step)
            connectionCount += 1
        }
        remove(key: handle, named: name, of: app)
        return .revoked(connectionCount: connectionCount)
    }

    /// Removes a key that admits no connection any more.
    mutating func remove(key: Handle<AppKeyTable.Entry>, named name: [UInt8], of app: Index<App>) {
        registry.remove(key, app: app)
        if registry.apps[app].rowContainsKey, name == RegisteredKey.defaultName {
            registry.noteMovedKey(of: app)
            // The row has the same length without the key.
            commits.renew(row(ofApp: app))
        } else {
            commits.remove(
                .appKeys, renewable: [RecordKey.name(app: registry.apps[app].name, name)])
        }
    }

    /// Replaces the default key of an app, and invalidates the old one. Returns false if there is
    /// no such app. For the start of a broker for development, which makes a new key each time.
    public mutating func setAppKey(
        _ name: [UInt8], keyDigest: Digest, unixSeconds now: UInt64
    ) -> Bool {
        guard let app = app(named: name) else { return false }
        if let old = key(named: RegisteredKey.defaultName, app: app) {
            registry.remove(old, app: app)
        }
        let key = RegisteredKey(
            name: RegisteredKey.defaultName, digest: keyDigest, role: .operate,
            madeUnixSeconds: now)
        registry.insert(key, app: app)
        registry.noteMovedKey(of: app)
        // Each app has at most one such row.
        commits.renew(row(ofApp: app))
        commits.renew(Records.appKey(key, app: name))
        return true
    }

    func key(named name: [UInt8], app: Index<App>) -> Handle<AppKeyTable.Entry>? {
        registry.apps[app].keys.first { registry.keys[$0]?.key.name == name }
    }

    /// The digest of the key that the row of an app contains; nil if there is none.
    func containedKeyDigest(of app: Index<App>) -> Digest? {
        guard registry.apps[app].rowContainsKey else { return nil }
        return key(named: RegisteredKey.defaultName, app: app)
            .flatMap { registry.keys[$0]?.key.digest }
    }

    /// Records the last use of a key, rounded to the hour. The row waits for the next commit.
    mutating func noteUse(of handle: Handle<AppKeyTable.Entry>, _ now: UInt64) {
        guard let app = registry.keys[handle]?.app,
            let key = registry.noteUse(of: handle, unixSeconds: now)
        else { return }
        // The row of an app that an earlier version wrote has no place for it.
        if registry.apps[app].rowContainsKey, key.name == RegisteredKey.defaultName { return }
        commits.renewLazily(Records.appKey(key, app: registry.apps[app].name))
    }

    // MARK: - Restart

    /// Restores an app. The row of an earlier version contains the app's only key.
    mutating func restoreApp(_ name: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        var row = try RecordReader(value, version: 2, table: .apps, key: name)
        let hasKey = try row.read(UInt8.self) == 1
        let digest = try row.readDigest()
        insertApp(name, rights: try row.readRights())
        guard hasKey, let app = app(named: name) else { return }
        try restore(
            RegisteredKey(name: RegisteredKey.defaultName, digest: digest, role: .operate),
            app: app, else: .unreadableRecord(.apps, key: name))
        registry.noteContainedKey(of: app)
    }

    mutating func restoreAppKey(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        guard let appCount = key.first, key.count > 1 + Int(appCount),
            let app = app(named: Array(key[1..<1 + Int(appCount)]))
        else { throw .danglingRecord(.appKeys, key: key) }
        let name = Array(key[(1 + Int(appCount))...])
        try restore(
            try Records.readAppKey(name: name, key: key, value: value), app: app,
            else: .unreadableRecord(.appKeys, key: key))
    }

    private mutating func restore(
        _ key: RegisteredKey, app: Index<App>, else failure: RestoreError
    ) throws(RestoreError) {
        guard !registry.keys.contains(key.digest), self.key(named: key.name, app: app) == nil else {
            throw failure
        }
        registry.insert(key, app: app)
    }

    /// Gives the keys that earlier versions wrote into the rows of apps rows of their own. In a
    /// store without room they stay where they are until another start.
    mutating func moveContainedKeys() {
        for app in registry.apps.places
        where registry.apps.contains(app) && registry.apps[app].rowContainsKey {
            let key = key(named: RegisteredKey.defaultName, app: app).flatMap { registry.keys[$0] }
            guard let key else {
                preconditionFailure("the row of app \(app.place) contains a key that is not known")
            }
            let row = Records.appKey(key.key, app: registry.apps[app].name)
            guard let permit = admitGrowth(of: row.pageByteCount) else { return }
            registry.noteMovedKey(of: app)
            commits.put(row, permit)
            commits.renew(self.row(ofApp: app))
        }
    }
}
