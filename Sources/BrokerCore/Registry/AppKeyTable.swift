// The keys of apps. A back end logs in with one as users of the app, and asks the HTTP API with it:
// `Broker+Authorization.swift` decides as which users. The table contains only the hash of the
// secret, which is shown once, when the key is made.

import Primitives

/// A key of an app, as the broker keeps it.
public struct RegisteredKey: Hashable, Sendable {
    /// What the holder of a key may do within the app. Raw values are on disk.
    public enum Role: UInt8, Hashable, Sendable, CaseIterable {
        /// Read over HTTP; neither log in nor send.
        case view = 0
        /// Change users, tokens, sessions, queues and groups, send messages, and log in as users.
        case operate = 1
    }

    /// Unique within the app.
    public var name: [UInt8]
    /// SHA-256 of the secret.
    public var digest: Digest
    public var role: Role
    /// The rights of the key's connections and sends; nil for those of the app's users. With rights
    /// the key logs in only as users whom a right to attach names.
    public var rights: Rights?
    /// When it was made, in Unix seconds; 0 for a key of a version that did not record it.
    public var madeUnixSeconds: UInt64
    /// Expiry in Unix seconds; the key is refused from then on. `UInt64.max` for none.
    public var expiresUnixSeconds: UInt64
    /// Last use in Unix seconds, rounded to the hour; 0 if there was none.
    public var lastUsedUnixSeconds: UInt64

    public init(
        name: [UInt8], digest: Digest, role: Role, rights: Rights? = nil,
        madeUnixSeconds: UInt64 = 0, expiresUnixSeconds: UInt64 = .max,
        lastUsedUnixSeconds: UInt64 = 0
    ) {
        self.name = name
        self.digest = digest
        self.role = role
        self.rights = rights
        self.madeUnixSeconds = madeUnixSeconds
        self.expiresUnixSeconds = expiresUnixSeconds
        self.lastUsedUnixSeconds = lastUsedUnixSeconds
    }

    /// The name of the key that an app is created with.
    public static let defaultName = Array("default".utf8)
}

/// The keys of all apps, by their digests.
struct AppKeyTable: ~Copyable {
    struct Entry: Sendable {
        var key: RegisteredKey
        let app: Index<App>
    }

    private var entries = Slab<Entry>()
    /// The dictionary compares digests in a time that does not depend on where they differ. Which
    /// of them it compares depends on the digest of a secret and on a random seed, neither of which
    /// a peer can choose.
    private var digests: [Digest: Index<Entry>] = [:]

    var count: Int { entries.count }
    /// All places, also free ones.
    var places: SlabPlaces<Entry> { entries.places }

    /// The entry at a place; nil if the place is free.
    subscript(index: Index<Entry>) -> Entry? {
        entries.contains(index) ? entries[index] : nil
    }

    func contains(_ digest: Digest) -> Bool { digests[digest] != nil }

    /// The key of a presented secret's digest; nil if there is none.
    func find(_ digest: Digest) -> Handle<Entry>? {
        digests[digest].map { entries.handle($0) }
    }

    /// The key of a handle; nil if it was revoked.
    subscript(handle: Handle<Entry>) -> Entry? {
        entries.contains(handle) ? entries[handle.index] : nil
    }

    /// Adds a key whose digest no other key has.
    mutating func insert(_ key: RegisteredKey, app: Index<App>) -> Handle<Entry> {
        precondition(digests[key.digest] == nil, "the digest of \(key.name) is another key's")
        let index = entries.insert(Entry(key: key, app: app)).index
        digests[key.digest] = index
        return entries.handle(index)
    }

    mutating func remove(_ handle: Handle<Entry>) -> RegisteredKey {
        let key = entries.remove(handle.index).key
        digests[key.digest] = nil
        return key
    }

    /// Records a use at a time in Unix seconds. Returns the key if its row must be written again.
    mutating func noteUse(_ handle: Handle<Entry>, _ now: UInt64) -> RegisteredKey? {
        let last = entries[handle.index].key.lastUsedUnixSeconds
        guard now >= last + CoreLimits.tokenUseSecondsMinimum || now < last else { return nil }
        entries[handle.index].key.lastUsedUnixSeconds = now
        return entries[handle.index].key
    }
}

extension Records {
    static func appKey(_ key: RegisteredKey, app: [UInt8]) -> RecordChange {
        var row = RecordWriter(version: 1)
        row.write(key.digest)
        row.write(key.role.rawValue)
        row.write(key.madeUnixSeconds)
        row.write(key.expiresUnixSeconds)
        row.write(key.lastUsedUnixSeconds)
        row.write(UInt8(key.rights == nil ? 0 : 1))
        row.write(key.rights ?? Rights())
        return RecordChange(
            table: .appKeys, key: RecordKey.name(app: app, key.name), value: row.bytes)
    }

    /// Reads the row of a key with this name.
    static func readAppKey(
        name: [UInt8], key: [UInt8], value: [UInt8]
    ) throws(RestoreError) -> RegisteredKey {
        var row = try RecordReader(value, version: 1, table: .appKeys, key: key)
        let digest = try row.readDigest()
        guard let role = RegisteredKey.Role(rawValue: try row.read(UInt8.self)) else {
            throw .unreadableRecord(.appKeys, key: key)
        }
        let made = try row.read(UInt64.self)
        let expires = try row.read(UInt64.self)
        let lastUsed = try row.read(UInt64.self)
        let hasRights = try row.read(UInt8.self) == 1
        let rights = try row.readRights()
        return RegisteredKey(
            name: name, digest: digest, role: role, rights: hasRights ? rights : nil,
            madeUnixSeconds: made, expiresUnixSeconds: expires, lastUsedUnixSeconds: lastUsed)
    }
}
