// Requests to list and revoke tokens.

/// A selection of tokens: those that match every member that is not nil.
public struct TokenSelection: Codable, Hashable, Sendable {
    public var app: String
    /// The public half of one token.
    public var id: String?
    public var user: String?
    public var device: String?
    /// The label that they were minted with.
    public var batch: String?

    public init(
        app: String, id: String? = nil, user: String? = nil, device: String? = nil,
        batch: String? = nil
    ) {
        self.app = app
        self.id = id
        self.user = user
        self.device = device
        self.batch = batch
    }
}

/// Lists tokens, in the order of their ids. The reply contains no secrets: the broker keeps only
/// their hashes.
public struct ListTokens: AdministrationRequest {
    public static let name = "token.list"
    public var selection: TokenSelection
    /// Begins after the token with this id, the last one of the previous reply.
    public var after: String?
    /// Tokens in the reply; nil for ``countMaximum``.
    public var limit: Int?

    /// Tokens in one reply.
    public static let countMaximum = 1_000

    public init(_ selection: TokenSelection, after: String? = nil, limit: Int? = nil) {
        self.selection = selection
        self.after = after
        self.limit = limit
    }

    public struct Token: Codable, Hashable, Sendable {
        public var id: String
        public var user: String
        /// The only device that may use it; nil for any.
        public var device: String?
        public var batch: String?
        /// Nil for unlimited.
        public var expiresUnixSeconds: UInt64?
        /// With a resolution of one hour; nil if it was never used.
        public var lastUsedUnixSeconds: UInt64?
        /// Nil for the rights of the app.
        public var rights: [String]?

        public init(
            id: String, user: String, device: String?, batch: String?,
            expiresUnixSeconds: UInt64?, lastUsedUnixSeconds: UInt64?, rights: [String]?
        ) {
            self.id = id
            self.user = user
            self.device = device
            self.batch = batch
            self.expiresUnixSeconds = expiresUnixSeconds
            self.lastUsedUnixSeconds = lastUsedUnixSeconds
            self.rights = rights
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var tokens: [Token]
        /// The token to continue with; nil at the end.
        public var next: String?

        public init(tokens: [Token], next: String?) {
            self.tokens = tokens
            self.next = next
        }
    }
}

/// Revokes tokens. They allow no more logins, and their connections end with 0x87.
public struct RevokeTokens: AdministrationRequest {
    public static let name = "token.revoke"
    /// Must name more than the app, so that a forgotten option does not revoke all tokens.
    public var selection: TokenSelection
    /// Continues after this place, the `next` of the previous reply.
    public var after: UInt32?

    /// A request revokes no more tokens when it has revoked this many: a batch may have a million,
    /// and others would wait for all of it.
    public static let countMaximum = 2_000

    public init(_ selection: TokenSelection, after: UInt32? = nil) {
        self.selection = selection
        self.after = after
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var tokenCount: Int
        /// Connections that were ended.
        public var connectionCount: Int
        /// As ``SessionCount/next``.
        public var next: UInt32?

        public init(tokenCount: Int, connectionCount: Int, next: UInt32? = nil) {
            self.tokenCount = tokenCount
            self.connectionCount = connectionCount
            self.next = next
        }
    }
}
