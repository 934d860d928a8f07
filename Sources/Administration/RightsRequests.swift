// Requests about what clients may do: an app's rights, and why something is allowed or not.

/// Shows one app.
public struct ShowApp: AdministrationRequest {
    public static let name = "app.show"
    public var app: String

    public init(app: String) {
        self.app = app
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var app: String
        /// Whether its key lets clients in.
        public var hasKey: Bool
        /// What its users may do unless their credential says otherwise.
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

/// Replaces what an app's users may do, those who are connected included. Subscriptions that are
/// not allowed any more end at once.
public struct SetAppRights: AdministrationRequest {
    public static let name = "app.rights"
    public var app: String
    /// Such as `send:*` or `publish:site/%u/#`; the broker knows the kinds.
    public var rights: [String]

    public init(app: String, rights: [String]) {
        self.app = app
        self.rights = rights
    }

    public struct Reply: Codable, Hashable, Sendable {
        public init() {}
    }
}

/// Asks which right lets a device do something.
public struct ExplainRights: AdministrationRequest {
    public static let name = "rights.explain"

    public enum Action: String, Codable, Hashable, Sendable, CaseIterable {
        case send, publish, subscribe, presence, broadcast, createGroup = "create-group"
    }

    public var app: String
    public var user: String
    public var device: String
    public var action: Action
    /// A user, topic or filter; empty for a broadcast and for making a group.
    public var target: String

    public init(app: String, user: String, device: String, action: Action, target: String = "") {
        self.app = app
        self.user = user
        self.device = device
        self.action = action
        self.target = target
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// What the answer rests on.
        public enum Grounds: String, Codable, Hashable, Sendable {
            /// The right in ``right``.
            case right
            /// It is the user's own address.
            case own
            /// Everybody of the app hears broadcasts.
            case everybody
            /// The user is a member of the group.
            case member
            /// The user becomes a member by subscribing.
            case joins
            /// It is refused, with ``reason``.
            case refused
        }

        public var grounds: Grounds
        /// The right that allows it; nil where none has to, or none does.
        public var right: String?
        /// The reason code of a refusal.
        public var reason: UInt8?
        /// Where the rights are written, for people: `app demo`, `token k3v9qx2mfh7a`.
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
