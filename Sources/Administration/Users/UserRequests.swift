// Requests about the users of an app, and its deletion with all of them.

/// Lists the users of an app, in the order in which they became known since the broker started.
public struct ListUsers: AdministrationRequest {
    public static let name = "user.list"
    public var app: String
    /// Begins after this user, the `next` of the previous reply.
    public var after: UInt32?
    /// Users in the reply; nil for ``countMaximum``.
    public var limit: Int?

    /// Users in one reply.
    public static let countMaximum = 1_000

    public init(app: String, after: UInt32? = nil, limit: Int? = nil) {
        self.app = app
        self.after = after
        self.limit = limit
    }

    public struct User: Codable, Hashable, Sendable {
        public var user: String
        public var sessionCount: Int
        /// Sessions that are connected.
        public var connectionCount: Int
        public var tokenCount: Int
        /// The end of the last connection; nil if there was none since the broker started.
        public var lastSeenUnixMilliseconds: UInt64?

        public init(
            user: String, sessionCount: Int, connectionCount: Int, tokenCount: Int,
            lastSeenUnixMilliseconds: UInt64?
        ) {
            self.user = user
            self.sessionCount = sessionCount
            self.connectionCount = connectionCount
            self.tokenCount = tokenCount
            self.lastSeenUnixMilliseconds = lastSeenUnixMilliseconds
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var users: [User]
        /// The user to continue with; nil at the end.
        public var next: UInt32?

        public init(users: [User], next: UInt32?) {
            self.users = users
            self.next = next
        }
    }
}

/// Shows a user with its devices.
public struct ShowUser: AdministrationRequest {
    public static let name = "user.show"
    public var app: String
    public var user: String

    public init(app: String, user: String) {
        self.app = app
        self.user = user
    }

    /// The credential of a connection, without secrets.
    public struct Credential: Codable, Hashable, Sendable {
        public enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
            case token, appKey, anonymous, webToken, certificate, preSharedKey, password, gateway
        }

        public var kind: Kind
        /// The public half of the token; the name of the app's key; the key that signed the web
        /// token; the serial number of the certificate; the identity of the pre-shared key; the
        /// gateway as `user/device`. Nil for the others.
        public var id: String?

        public init(kind: Kind, id: String? = nil) {
            self.kind = kind
            self.id = id
        }
    }

    public struct Device: Codable, Hashable, Sendable {
        public var device: String
        /// `mrt`, `mqtt3` or `mqtt5`.
        public var dialect: String
        public var isPersistent: Bool
        /// Unix milliseconds of the login; nil while it is disconnected.
        public var connectedUnixMilliseconds: UInt64?
        /// Since the last connection ended; nil while it is connected.
        public var awaySeconds: UInt64?
        /// Nil while it is disconnected.
        public var credential: Credential?
        /// Where the connection comes from, as in the log: of a sensor, that of its gateway. Nil
        /// while it is disconnected, and if its event loop does not say.
        public var address: String?
        /// The listener that accepted the connection, such as `tls://127.0.0.1:8883`; nil as for
        /// ``address``.
        public var listener: String?
        public var queue: Queue
        /// Deliveries that are not acknowledged.
        public var underWayCount: UInt32

        public init(
            device: String, dialect: String, isPersistent: Bool,
            connectedUnixMilliseconds: UInt64?, awaySeconds: UInt64?, credential: Credential?,
            address: String?, listener: String?, queue: Queue, underWayCount: UInt32
        ) {
            self.device = device
            self.dialect = dialect
            self.isPersistent = isPersistent
            self.connectedUnixMilliseconds = connectedUnixMilliseconds
            self.awaySeconds = awaySeconds
            self.credential = credential
            self.address = address
            self.listener = listener
            self.queue = queue
            self.underWayCount = underWayCount
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var user: String
        /// All sessions; at most 1,000 are in ``devices``.
        public var sessionCount: Int
        /// Sessions that are connected.
        public var connectionCount: Int
        public var tokenCount: Int
        public var groupCount: Int
        /// As for ``ListUsers/User/lastSeenUnixMilliseconds``.
        public var lastSeenUnixMilliseconds: UInt64?
        /// Messages that wait for the first session.
        public var offlineQueue: Queue
        public var devices: [Device]

        public init(
            user: String, sessionCount: Int, connectionCount: Int, tokenCount: Int,
            groupCount: Int, lastSeenUnixMilliseconds: UInt64?, offlineQueue: Queue,
            devices: [Device]
        ) {
            self.user = user
            self.sessionCount = sessionCount
            self.connectionCount = connectionCount
            self.tokenCount = tokenCount
            self.groupCount = groupCount
            self.lastSeenUnixMilliseconds = lastSeenUnixMilliseconds
            self.offlineQueue = offlineQueue
            self.devices = devices
        }
    }
}

/// Deletes an app. One request deletes a part: repeat it until the reply has no more. From the
/// first one on the app admits no login and no send. After a restart of the broker in the middle,
/// what is left of the app is there until the request is repeated.
public struct DeleteApp: AdministrationRequest {
    public static let name = "app.delete"
    public var app: String
    /// Also if connections, messages, groups or conversations are lost; nil for false.
    public var force: Bool?

    public init(app: String, force: Bool? = nil) {
        self.app = app
        self.force = force
    }

    public typealias Reply = DeletionReply
}

/// Deletes a user. One request deletes a part: repeat it until the reply has no more.
public struct DeleteUser: AdministrationRequest {
    public static let name = "user.delete"
    public var app: String
    public var user: String
    /// As for ``DeleteApp``.
    public var force: Bool?

    public init(app: String, user: String, force: Bool? = nil) {
        self.app = app
        self.user = user
        self.force = force
    }

    public typealias Reply = DeletionReply
}

/// What a request has deleted.
public struct DeletionReply: Codable, Hashable, Sendable {
    public var userCount: Int
    public var sessionCount: Int
    /// Tokens, passwords and keys of the app.
    public var credentialCount: Int
    public var groupCount: Int
    public var retainedCount: Int
    public var conversationCount: Int
    /// Messages that waited in queues.
    public var messageCount: UInt64
    /// Whether something is left; then repeat the request.
    public var hasMore: Bool

    /// Pieces that one request deletes, each with a commit: a few seconds.
    public static let pieceCountMaximum = 64

    public init(
        userCount: Int = 0, sessionCount: Int = 0, credentialCount: Int = 0, groupCount: Int = 0,
        retainedCount: Int = 0, conversationCount: Int = 0, messageCount: UInt64 = 0,
        hasMore: Bool = false
    ) {
        self.userCount = userCount
        self.sessionCount = sessionCount
        self.credentialCount = credentialCount
        self.groupCount = groupCount
        self.retainedCount = retainedCount
        self.conversationCount = conversationCount
        self.messageCount = messageCount
        self.hasMore = hasMore
    }

    /// Adds what a later request has deleted.
    public mutating func add(_ next: DeletionReply) {
        userCount += next.userCount
        sessionCount += next.sessionCount
        credentialCount += next.credentialCount
        groupCount += next.groupCount
        retainedCount += next.retainedCount
        conversationCount += next.conversationCount
        messageCount += next.messageCount
        hasMore = next.hasMore
    }

    /// How many things were deleted.
    public var sum: UInt64 {
        UInt64(
            userCount + sessionCount + credentialCount + groupCount + retainedCount
                + conversationCount) + messageCount
    }
}
