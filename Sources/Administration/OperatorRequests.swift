// Requests about operators: who may use the HTTP API, and how much of it.

/// What an operator may do. Each role may do what the ones before it may.
public enum OperatorRole: String, Codable, Hashable, Sendable, CaseIterable, Comparable {
    /// Read.
    case view
    /// Change users, tokens, sessions, queues and groups, and trace packets.
    case operate
    /// Change apps, rights and operators, and write backups.
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
