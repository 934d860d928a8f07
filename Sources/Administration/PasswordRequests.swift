// Requests about the passwords of apps, with which MQTT clients log in by a user name.

/// Sets a password. An earlier one of the same name is refused from then on, and its connections
/// end with 0x87.
public struct SetPassword: AdministrationRequest {
    public static let name = "password.set"
    public var app: String
    /// The user name in CONNECT: 1 to ``nameByteCountMaximum`` bytes without control characters.
    public var name: String
    /// The password, of 1 to 1,024 bytes and not in the form of a token. Exactly one of
    /// ``password`` and ``hash`` is given.
    public var password: String?
    /// Its hash in a form that Mosquitto writes.
    public var hash: String?
    /// Who logs in with it; nil for the user of the same name.
    public var user: String?
    /// The only device that may use it; nil for any.
    public var device: String?
    /// Nil for the rights of the app.
    public var rights: [String]?
    /// Seconds from now until it expires; nil is never.
    public var expirySeconds: UInt64?
    /// Whether members that are nil keep what an earlier password of the name has; nil is false.
    /// One that has expired needs an expiry then.
    public var keepsTerms: Bool?

    /// Bytes of a user name: with the app's name it is the key of a row.
    public static let nameByteCountMaximum = 128
    /// Rights of a password, as of a token.
    public static let rightCountMaximum = 64

    public init(
        app: String, name: String, password: String? = nil, hash: String? = nil,
        user: String? = nil, device: String? = nil, rights: [String]? = nil,
        expirySeconds: UInt64? = nil, keepsTerms: Bool? = nil
    ) {
        self.app = app
        self.name = name
        self.keepsTerms = keepsTerms
        self.password = password
        self.hash = hash
        self.user = user
        self.device = device
        self.rights = rights
        self.expirySeconds = expirySeconds
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// Connections of the earlier password that were ended.
        public var connectionCount: Int

        public init(connectionCount: Int) {
            self.connectionCount = connectionCount
        }
    }
}

/// Sets passwords by their hashes, all or none, as ``SetPassword`` does. One of a known name keeps
/// its device and its expiry, and its rights if none are given. One that has the same hash, user
/// and rights already keeps its connections too.
public struct ImportPasswords: AdministrationRequest {
    public static let name = "password.import"
    public var app: String
    /// The user names.
    public var names: [String]
    /// The hash of each.
    public var hashes: [String]
    /// The user of each; nil if all are named as their user names.
    public var users: [String]?
    /// The rights of each, one on a line; an empty text for those that the name has, or those of
    /// the app. Nil is an empty text for all.
    public var rights: [String]?

    /// Passwords in one request.
    public static let countMaximum = 1_000

    public init(
        app: String, names: [String], hashes: [String], users: [String]? = nil,
        rights: [String]? = nil
    ) {
        self.app = app
        self.names = names
        self.hashes = hashes
        self.users = users
        self.rights = rights
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// Connections of earlier passwords that were ended.
        public var connectionCount: Int

        public init(connectionCount: Int) {
            self.connectionCount = connectionCount
        }
    }
}

/// Lists passwords in the order of their names: the broker keeps only their hashes, which the reply
/// does not contain.
public struct ListPasswords: AdministrationRequest {
    public static let name = "password.list"
    public var app: String
    /// Only those of this user; nil for all.
    public var user: String?
    /// Begins after this name, the `next` of the previous reply.
    public var after: String?
    /// Passwords in the reply; nil for ``countMaximum``.
    public var limit: Int?

    /// Passwords in one reply.
    public static let countMaximum = 1_000

    public init(app: String, user: String? = nil, after: String? = nil, limit: Int? = nil) {
        self.app = app
        self.user = user
        self.after = after
        self.limit = limit
    }

    public struct Password: Codable, Hashable, Sendable {
        public var name: String
        public var user: String
        /// The only device that may use it; nil for any.
        public var device: String?
        /// How it is hashed: `argon2id`, `pbkdf2-sha512` or `sha512`.
        public var kind: String
        /// Nil for the rights of the app.
        public var rights: [String]?
        public var madeUnixSeconds: UInt64
        /// Nil for unlimited.
        public var expiresUnixSeconds: UInt64?
        /// With a resolution of one hour; nil if it was never used.
        public var lastUsedUnixSeconds: UInt64?

        public init(
            name: String, user: String, device: String?, kind: String, rights: [String]?,
            madeUnixSeconds: UInt64, expiresUnixSeconds: UInt64?, lastUsedUnixSeconds: UInt64?
        ) {
            self.name = name
            self.user = user
            self.device = device
            self.kind = kind
            self.rights = rights
            self.madeUnixSeconds = madeUnixSeconds
            self.expiresUnixSeconds = expiresUnixSeconds
            self.lastUsedUnixSeconds = lastUsedUnixSeconds
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var passwords: [Password]
        /// The name to continue with; nil at the end.
        public var next: String?

        public init(passwords: [Password], next: String?) {
            self.passwords = passwords
            self.next = next
        }
    }
}

/// Changes when a password expires. Connections that would remain longer end with 0x87.
public struct ExpirePassword: AdministrationRequest {
    public static let name = "password.expire"
    public var app: String
    public var name: String
    /// Seconds from now until it expires; nil is never.
    public var expirySeconds: UInt64?

    public init(app: String, name: String, expirySeconds: UInt64?) {
        self.app = app
        self.name = name
        self.expirySeconds = expirySeconds
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// Connections that were ended.
        public var connectionCount: Int

        public init(connectionCount: Int) {
            self.connectionCount = connectionCount
        }
    }
}

/// Revokes a password. It is refused from then on, and its connections end with 0x87.
public struct RevokePassword: AdministrationRequest {
    public static let name = "password.revoke"
    public var app: String
    public var name: String

    public init(app: String, name: String) {
        self.app = app
        self.name = name
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// Connections that were ended.
        public var connectionCount: Int

        public init(connectionCount: Int) {
            self.connectionCount = connectionCount
        }
    }
}
