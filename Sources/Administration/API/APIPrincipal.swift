// Who makes a request to the HTTP API, and which operations it may make. The core decides by the
// rights of its credential what it may send.

/// The principal of a request, as its credential proves it.
public enum APIPrincipal: Hashable, Sendable {
    /// The kinds of principals. An operation serves some of them.
    public enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
        case `operator`, appKey, user
    }

    /// A key of an app.
    public struct AppKey: Hashable, Sendable {
        public let app: String
        public let name: String
        /// ``OperatorRole/view`` or ``OperatorRole/operate``, within the app.
        public let role: OperatorRole
        /// Whether it has rights of its own, beyond which it must not lead.
        public let isLimited: Bool

        public init(app: String, name: String, role: OperatorRole, isLimited: Bool) {
            precondition(role < .own, "key \(name) of \(app) has the role \(role)")
            self.app = app
            self.name = name
            self.role = role
            self.isLimited = isLimited
        }
    }

    /// A user with a token.
    public struct User: Hashable, Sendable {
        public let app: String
        public let user: String
        /// The only device that may use the token; nil for any.
        public let device: String?

        public init(app: String, user: String, device: String?) {
            self.app = app
            self.user = user
            self.device = device
        }
    }

    case `operator`(name: String, role: OperatorRole)
    case appKey(AppKey)
    case user(User)

    public var kind: Kind {
        switch self {
        case .operator: .operator
        case .appKey: .appKey
        case .user: .user
        }
    }

    /// The app that the credential belongs to; nil for an operator.
    public var app: String? {
        switch self {
        case .operator: nil
        case .appKey(let key): key.app
        case .user(let user): user.app
        }
    }

    /// Why the principal may not make an operation; nil if it may.
    ///
    /// - Parameter path: the values of the members of the operation's path.
    public func refusal(of operation: APIOperation, path: [String]) -> APIRefusal? {
        switch self {
        case .operator(_, let role):
            guard operation.serves.contains(.operator) else { return .notForOperators }
            return role < operation.role ? .needsRole(operation.role) : nil
        case .appKey(let key):
            guard operation.serves.contains(.appKey) else {
                return operation.path.hasPrefix(APIOperation.appPath) && operation.role == .own
                    ? .needsRole(operation.role) : .notForKeys
            }
            if let app = operation.appMember, path[app] != key.app { return .otherApp }
            if key.role < operation.role { return .needsRole(operation.role) }
            // A token or password without rights would have more than the key.
            // A later expiry makes a credential of one that had ended.
            let makesCredential = [
                .mintTokens, .setPassword, .importPasswords, .expirePassword,
            ].contains(operation.kind)
            return key.isLimited && makesCredential ? .limitedKey : nil
        case .user:
            return operation.serves.contains(.user) ? nil : .notForUsers
        }
    }
}

extension APIPrincipal: CustomStringConvertible {
    /// For the log: an operator's name, `app key NAME of APP`, or `user USER of APP`.
    public var description: String {
        switch self {
        case .operator(let name, _): name
        case .appKey(let key): "app key \(key.name) of \(key.app)"
        case .user(let user): "user \(user.user) of \(user.app)"
        }
    }
}

/// Why a principal may not make an operation.
public enum APIRefusal: Hashable, Sendable {
    case needsRole(OperatorRole)
    case notForOperators
    case notForKeys
    case notForUsers
    /// The path is of another app than the key.
    case otherApp
    /// A key with rights makes no tokens and no passwords.
    case limitedKey

    public var text: String {
        switch self {
        case .needsRole(let role): "this operation needs the role \(role.rawValue)"
        case .notForOperators:
            "this operation is for app keys and users; operators name the app in the path"
        case .notForKeys: "this operation is for operators, not for the keys of apps"
        case .notForUsers: "this operation is not for users"
        case .otherApp: "the key is of another app"
        case .limitedKey: "a key with rights makes no tokens and passwords, which could have others"
        }
    }
}

/// Who makes a request, for the values that are not in its path, query and content.
public struct APIRequester: Hashable, Sendable {
    public let principal: APIPrincipal
    /// The user in the field `Martlet-User`; nil without it.
    public let actingUser: String?

    public init(_ principal: APIPrincipal, actingFor user: String? = nil) {
        self.principal = principal
        actingUser = user
    }
}
