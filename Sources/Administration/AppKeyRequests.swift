// Requests about the keys of apps: what back ends log in with, and ask the HTTP API.

/// Adds a key to an app.
public struct AddAppKey: AdministrationRequest {
    public static let name = "app.key.add"
    public var app: String
    /// 1 to 64 letters, digits, `.`, `_`, `-` and `@`; unique within the app.
    public var name: String
    /// What the key may do over HTTP within the app: ``OperatorRole/view`` or
    /// ``OperatorRole/operate``.
    public var role: OperatorRole
    /// The rights of the key's connections and sends; nil for those of the app's users.
    public var rights: [String]?
    /// Seconds from now until the key expires; nil is never.
    public var expirySeconds: UInt64?

    /// The roles that a key may have.
    public static let roles: [OperatorRole] = [.view, .operate]

    public init(
        app: String, name: String, role: OperatorRole, rights: [String]? = nil,
        expirySeconds: UInt64? = nil
    ) {
        self.app = app
        self.name = name
        self.role = role
        self.rights = rights
        self.expirySeconds = expirySeconds
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// Only in this reply; the broker keeps its hash.
        public var key: String

        public init(key: String) {
            self.key = key
        }
    }
}

/// Lists the keys of an app by their names: the broker keeps only the hashes of the keys.
public struct ListAppKeys: AdministrationRequest {
    public static let name = "app.key.list"
    public var app: String

    public init(app: String) {
        self.app = app
    }

    public struct Key: Codable, Hashable, Sendable {
        public var name: String
        public var role: OperatorRole
        /// Nil for the rights of the app.
        public var rights: [String]?
        /// Nil for a key of a version that did not record it.
        public var madeUnixSeconds: UInt64?
        /// Nil for unlimited.
        public var expiresUnixSeconds: UInt64?
        /// With a resolution of one hour; nil if it was never used.
        public var lastUsedUnixSeconds: UInt64?

        public init(
            name: String, role: OperatorRole, rights: [String]?, madeUnixSeconds: UInt64?,
            expiresUnixSeconds: UInt64?, lastUsedUnixSeconds: UInt64?
        ) {
            self.name = name
            self.role = role
            self.rights = rights
            self.madeUnixSeconds = madeUnixSeconds
            self.expiresUnixSeconds = expiresUnixSeconds
            self.lastUsedUnixSeconds = lastUsedUnixSeconds
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// In the order of their names.
        public var keys: [Key]

        public init(keys: [Key]) {
            self.keys = keys
        }
    }
}

/// Revokes a key of an app. It is refused from then on, and its connections end with 0x87.
public struct RevokeAppKey: AdministrationRequest {
    public static let name = "app.key.revoke"
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
