// Requests about rights: those of an app, and why an action is allowed or refused.

/// Shows one app.
public struct ShowApp: AdministrationRequest {
    public static let name = "app.show"
    public var app: String

    public init(app: String) {
        self.app = app
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var app: String
        /// Whether clients can log in with a key.
        public var hasKey: Bool
        /// The rights of its users unless their credential names rights.
        public var rights: [String]
        public var userCount: Int
        public var groupCount: Int
        public var sessionCount: Int
        public var connectionCount: Int
        public var tokenCount: Int

        public init(
            app: String, hasKey: Bool, rights: [String], userCount: Int, groupCount: Int,
            sessionCount: Int, connectionCount: Int, tokenCount: Int
        ) {
            self.app = app
            self.hasKey = hasKey
            self.rights = rights
            self.userCount = userCount
            self.groupCount = groupCount
            self.sessionCount = sessionCount
            self.connectionCount = connectionCount
            self.tokenCount = tokenCount
        }
    }
}

/// Replaces the rights of an app's users, also of connected ones. Subscriptions that are no longer
/// allowed end at once.
public struct SetAppRights: AdministrationRequest {
    public static let name = "app.rights"
    public var app: String
    /// Such as `send:*` or `publish:site/%u/#`; the broker checks them.
    public var rights: [String]

    public init(app: String, rights: [String]) {
        self.app = app
        self.rights = rights
    }

    public struct Reply: Codable, Hashable, Sendable {
        public init() {}
    }
}

/// Asks which right allows an action of a device, or the login of a key as a user.
public struct ExplainRights: AdministrationRequest {
    public static let name = "rights.explain"

    public enum Action: String, Codable, Hashable, Sendable, CaseIterable {
        case send, publish, subscribe, presence, receipts, wake, attach, broadcast
        case createGroup = "create-group"

        /// The words that name an action. The right to make groups is `group:create`, and that is
        /// taken too.
        public static let words = allCases.map(\.rawValue) + [creation]
        private static let creation = "group:create"

        public init?(word: String) {
            guard word != Self.creation else {
                self = .createGroup
                return
            }
            self.init(rawValue: word)
        }
    }

    public var app: String
    /// Nil for a question about a key.
    public var user: String?
    public var device: String
    /// The name of a key of the app, which is asked whether it logs in as the ``target``: the
    /// action is ``Action/attach``.
    public var key: String?
    public var action: Action
    /// A user, topic or filter; empty for a broadcast and for creating a group.
    public var target: String

    public init(
        app: String, user: String? = nil, device: String = "", key: String? = nil, action: Action,
        target: String = ""
    ) {
        self.app = app
        self.user = user
        self.device = device
        self.key = key
        self.action = action
        self.target = target
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// The ground of the verdict.
        public enum Grounds: String, Codable, Hashable, Sendable {
            /// The right in ``right``.
            case right
            /// It is the user's own address.
            case own
            /// Broadcasts may be received by every user of the app.
            case everybody
            /// The user is a member of the group.
            case member
            /// The user becomes a member by subscribing.
            case joins
            /// The key has the role `operate` and no rights of its own.
            case key
            /// The topic is one of requests of MQTT, and the operation decides.
            case operation
            /// The right in ``right`` denies it.
            case denied
            /// It is refused, with ``reason``.
            case refused
        }

        public var grounds: Grounds
        /// The right that allows or denies it; nil if none is needed, or none allows it.
        public var right: String?
        /// The reason code of a refusal.
        public var reason: UInt8?
        /// The origin of the rights, as text: `app demo`, `token k3v9qx2mfh7a`.
        public var origin: String
        /// Whether the device is connected; otherwise the answer is for its next login.
        public var isConnected: Bool
        /// All of its rights.
        public var rights: [String]

        public init(
            grounds: Grounds, right: String?, reason: UInt8?, origin: String, isConnected: Bool,
            rights: [String]
        ) {
            self.grounds = grounds
            self.right = right
            self.reason = reason
            self.origin = origin
            self.isConnected = isConnected
            self.rights = rights
        }
    }
}
