// Requests about operators: who may use the HTTP API, and how much of it.

/// What an operator may do. Each role may do what the ones before it may.
public enum OperatorRole: String, Codable, Hashable, Sendable, CaseIterable, Comparable {
    /// Read.
    case view
    /// Change users, tokens, sessions, queues and groups, and trace packets.
    case operate
    /// Change apps, rights and operators, write backups, reload, and change the log's level.
    case own

    private var rank: Int {
        switch self {
        case .view: 0
        case .operate: 1
        case .own: 2
        }
    }

    public static func < (left: OperatorRole, right: OperatorRole) -> Bool {
        left.rank < right.rank
    }
}

/// Adds an operator of the HTTP API and makes their token.
public struct AddOperator: AdministrationRequest {
    public static let name = "operator.add"
    /// 1 to 64 letters, digits, `.`, `_`, `-` and `@`.
    public var `operator`: String
    public var role: OperatorRole
    /// Seconds from now until the token expires; nil is never.
    public var expirySeconds: UInt64?

    public init(`operator`: String, role: OperatorRole, expirySeconds: UInt64? = nil) {
        self.operator = `operator`
        self.role = role
        self.expirySeconds = expirySeconds
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// Only in this reply; the broker keeps its hash.
        public var token: String

        public init(token: String) {
            self.token = token
        }
    }
}

/// Lists the operators of the HTTP API.
public struct ListOperators: AdministrationRequest {
    public static let name = "operator.list"

    public init() {}

    public struct Operator: Codable, Hashable, Sendable {
        public var `operator`: String
        public var role: OperatorRole
        public var madeUnixSeconds: UInt64
        /// Nil for unlimited.
        public var expiresUnixSeconds: UInt64?

        public init(
            `operator`: String, role: OperatorRole, madeUnixSeconds: UInt64,
            expiresUnixSeconds: UInt64?
        ) {
            self.operator = `operator`
            self.role = role
            self.madeUnixSeconds = madeUnixSeconds
            self.expiresUnixSeconds = expiresUnixSeconds
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// In the order of their names.
        public var operators: [Operator]

        public init(operators: [Operator]) {
            self.operators = operators
        }
    }
}

/// Removes an operator. Their token is refused from then on.
public struct RevokeOperator: AdministrationRequest {
    public static let name = "operator.revoke"
    public var `operator`: String

    public init(`operator`: String) {
        self.operator = `operator`
    }

    public struct Reply: Codable, Hashable, Sendable {
        public init() {}
    }
}

/// Makes a link to the dashboard, whose code a browser exchanges for a token once.
public struct MakeLoginLink: AdministrationRequest {
    public static let name = "operator.link"
    /// Whom the log names: 1 to 64 letters, digits, `.`, `_`, `-` and `@`. An operator of this name
    /// need not exist.
    public var `operator`: String
    /// At most the role of the operator of this name, if there is one.
    public var role: OperatorRole

    public init(`operator`: String, role: OperatorRole) {
        self.operator = `operator`
        self.role = role
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// Only in this reply; the broker keeps its hash.
        public var code: String
        public var expiresUnixSeconds: UInt64
        /// The dashboard's addresses as far as the broker knows them, such as
        /// `https://localhost:8443/`; at least one.
        public var addresses: [String]

        public init(code: String, expiresUnixSeconds: UInt64, addresses: [String]) {
            self.code = code
            self.expiresUnixSeconds = expiresUnixSeconds
            self.addresses = addresses
        }

        /// The link at an address. A browser sends no fragment to a server and in no `Referer`
        /// (RFC 9110, 10.1.3), so that no log contains the code.
        ///
        /// - Parameter address: with a slash at its end.
        public func link(at address: String) -> String { "\(address)#login=\(code)" }
    }
}

/// What the exchange of a code answers.
public struct OperatorLogin: Codable, Hashable, Sendable {
    public var `operator`: String
    public var role: OperatorRole
    /// An operator's token. The broker keeps its hash, in memory only.
    public var token: String
    public var expiresUnixSeconds: UInt64

    public init(
        `operator`: String, role: OperatorRole, token: String, expiresUnixSeconds: UInt64
    ) {
        self.operator = `operator`
        self.role = role
        self.token = token
        self.expiresUnixSeconds = expiresUnixSeconds
    }

    /// As JSON, with a line feed.
    public var bytes: [UInt8] { AdministrationLine.encode(self) }
}

/// Shows whose credential a request has, and what it allows.
public struct ShowSelf: AdministrationRequest {
    public static let name = "self.show"

    public init() {}

    /// Sessions of a user in a reply. A user has a few devices.
    public static let sessionCountMaximum = 256

    public struct Reply: Codable, Hashable, Sendable {
        public var kind: APIPrincipal.Kind
        /// An operator's name, empty over the admin socket, where nobody has one; nil for others.
        public var `operator`: String?
        /// Of an operator or a key.
        public var role: OperatorRole?
        /// Of a key or a user.
        public var app: String?
        /// The name of a key.
        public var keyName: String?
        public var user: String?
        /// The only device that may use the token of a user; nil for any.
        public var device: String?
        /// Those of a user's token; of a key, those that it has of its own.
        public var rights: [String]?
        /// Of an operator's token or a key; nil for unlimited.
        public var expiresUnixSeconds: UInt64?
        /// Those of a user, at most ``ShowSelf/sessionCountMaximum``.
        public var sessions: [ListSessions.Session]?
        /// How many a user has.
        public var sessionCount: Int?
        /// The messages that wait while no session of the user receives them.
        public var queue: Queue?

        public init(_ kind: APIPrincipal.Kind) {
            self.kind = kind
        }
    }
}
