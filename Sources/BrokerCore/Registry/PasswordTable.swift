// The passwords of apps, with which MQTT clients log in by a user name. The table contains hashes
// as text and does not interpret them: the edge verifies a password, and the core believes the
// identity as long as the password is still the one that was verified.

import Primitives

/// A password of an app, as the broker keeps it.
public struct RegisteredPassword: Hashable, Sendable {
    /// The user name of CONNECT, unique within the app.
    public var name: [UInt8]
    /// The hash, in the form of its kind.
    public var hash: [UInt8]
    /// Distinguishes passwords that had the same name at different times. It is unpredictable.
    public var mark: UInt64
    /// Who logs in with it.
    public var user: [UInt8]
    /// The only device that may use it; nil for any.
    public var device: [UInt8]?
    /// The rights of the principal; nil for those of the app's users.
    public var rights: Rights?
    /// When it was set, in Unix seconds.
    public var madeUnixSeconds: UInt64
    /// Expiry in Unix seconds; it is refused from then on. `UInt64.max` for none.
    public var expiresUnixSeconds: UInt64
    /// Last login in Unix seconds, rounded to the hour; 0 if there was none.
    public var lastUsedUnixSeconds: UInt64

    public init(
        name: [UInt8], hash: [UInt8], mark: UInt64, user: [UInt8], device: [UInt8]? = nil,
        rights: Rights? = nil, madeUnixSeconds: UInt64 = 0, expiresUnixSeconds: UInt64 = .max,
        lastUsedUnixSeconds: UInt64 = 0
    ) {
        self.name = name
        self.hash = hash
        self.mark = mark
        self.user = user
        self.device = device
        self.rights = rights
        self.madeUnixSeconds = madeUnixSeconds
        self.expiresUnixSeconds = expiresUnixSeconds
        self.lastUsedUnixSeconds = lastUsedUnixSeconds
    }

    /// Maximum bytes of a name: a row's key has an app's name of 64 bytes before it, and at most
    /// ``RecordChange/keyByteCountMaximum``.
    public static let nameByteCountMaximum = 128
    /// Maximum bytes of a hash: argon2id with a salt and a digest of 128 bytes each takes 400.
    public static let hashByteCountMaximum = 512
}

/// The passwords of all apps, by app and name.
struct PasswordTable: ~Copyable {
    struct Entry: Sendable {
        var password: RegisteredPassword
        let app: Index<App>
    }

    private var entries = Slab<Entry>()
    private var names = ByteKeyTable<Entry>()

    var count: Int { entries.count }
    /// All places, also free ones.
    var places: SlabPlaces<Entry> { entries.places }

    /// The entry at a place; nil if the place is free.
    subscript(index: Index<Entry>) -> Entry? {
        entries.contains(index) ? entries[index] : nil
    }

    func find(_ name: [UInt8], app: [UInt8]) -> Index<Entry>? {
        RecordKey.name(app: app, name).withUnsafeBytes { names.value(for: $0) }
    }

    /// Adds a password, or replaces the one of its name.
    mutating func set(_ password: RegisteredPassword, app: Index<App>, named appName: [UInt8]) {
        if let index = find(password.name, app: appName) {
            entries[index].password = password
            return
        }
        let index = entries.insert(Entry(password: password, app: app)).index
        RecordKey.name(app: appName, password.name).withUnsafeBytes {
            names.insert(index, for: $0)
        }
    }

    mutating func remove(_ index: Index<Entry>, app: [UInt8]) {
        let entry = entries.remove(index)
        RecordKey.name(app: app, entry.password.name).withUnsafeBytes { _ = names.remove($0) }
    }

    mutating func setExpiry(_ index: Index<Entry>, unixSeconds: UInt64) {
        // A login that is being verified has the later expiry: it is to be verified anew.
        if unixSeconds < entries[index].password.expiresUnixSeconds {
            entries[index].password.mark &+= 1
        }
        entries[index].password.expiresUnixSeconds = unixSeconds
    }

    /// Records a login at a time in Unix seconds. Returns the password if its row must be written
    /// again.
    mutating func noteUse(_ index: Index<Entry>, _ now: UInt64) -> RegisteredPassword? {
        let last = entries[index].password.lastUsedUnixSeconds
        guard now >= last + CoreLimits.tokenUseSecondsMinimum || now < last else { return nil }
        entries[index].password.lastUsedUnixSeconds = now
        return entries[index].password
    }
}

extension Records {
    static func password(_ password: RegisteredPassword, app: [UInt8]) -> RecordChange {
        var row = RecordWriter(version: 1)
        row.write(password.hash)
        row.write(password.mark)
        row.write(password.user)
        row.write(UInt8(password.device == nil ? 0 : 1))
        row.write(password.device ?? [])
        row.write(password.madeUnixSeconds)
        row.write(password.expiresUnixSeconds)
        row.write(password.lastUsedUnixSeconds)
        row.write(UInt8(password.rights == nil ? 0 : 1))
        row.write(password.rights ?? Rights())
        return RecordChange(
            table: .passwords, key: RecordKey.name(app: app, password.name), value: row.bytes)
    }

    /// Reads the row of a password with this name.
    static func readPassword(
        name: [UInt8], key: [UInt8], value: [UInt8]
    ) throws(RestoreError) -> RegisteredPassword {
        var row = try RecordReader(value, version: 1, table: .passwords, key: key)
        let hash = try row.readString()
        let mark = try row.read(UInt64.self)
        let user = try row.readString()
        let isBound = try row.read(UInt8.self) == 1
        let device = try row.readString()
        let made = try row.read(UInt64.self)
        let expires = try row.read(UInt64.self)
        let lastUsed = try row.read(UInt64.self)
        let hasRights = try row.read(UInt8.self) == 1
        let rights = try row.readRights()
        return RegisteredPassword(
            name: name, hash: hash, mark: mark, user: user, device: isBound ? device : nil,
            rights: hasRights ? rights : nil, madeUnixSeconds: made, expiresUnixSeconds: expires,
            lastUsedUnixSeconds: lastUsed)
    }
}
