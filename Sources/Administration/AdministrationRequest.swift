// The requests that `martlet` can send to a running `martletd`, and their replies.
//
// To add one: a type here that conforms, with its reply, and a case in `AdministrationCommand`.

/// One request, with the type of its reply.
public protocol AdministrationRequest: Codable, Hashable, Sendable {
    associatedtype Reply: Codable, Hashable, Sendable
    /// Its name on the wire: noun and verb. It never changes after a release.
    static var name: String { get }
}

/// Creates an app and its key.
public struct CreateApp: AdministrationRequest {
    public static let name = "app.create"
    public var app: String
    /// The rights of its users unless their credential names rights; nil for all but broadcast and
    /// attach.
    public var rights: [String]?

    public init(app: String, rights: [String]? = nil) {
        self.app = app
        self.rights = rights
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// Only in this reply; the broker keeps its hash.
        public var key: String

        public init(key: String) {
            self.key = key
        }
    }
}

/// Lists all apps.
public struct ListApps: AdministrationRequest {
    public static let name = "app.list"

    public init() {}

    public struct App: Codable, Hashable, Sendable {
        public var app: String
        public var userCount: Int
        public var tokenCount: Int
        /// Whether its deletion has begun, and is not complete; nil for no.
        public var isBeingDeleted: Bool?
        /// The shard that has it; nil for a broker without shards.
        public var shard: String?

        public init(
            app: String, userCount: Int, tokenCount: Int, isBeingDeleted: Bool? = nil,
            shard: String? = nil
        ) {
            self.shard = shard
            self.app = app
            self.userCount = userCount
            self.tokenCount = tokenCount
            self.isBeingDeleted = isBeingDeleted
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// In the order of their names.
        public var apps: [App]
        /// The shards whose apps are missing, because the node does not lead them or has no lease
        /// for them now; nil for none.
        public var missingShards: [String]?

        public init(apps: [App], missingShards: [String]? = nil) {
            self.apps = apps
            self.missingShards = missingShards
        }
    }
}

/// Makes a user known, so that messages wait for them before their first login.
public struct AddUser: AdministrationRequest {
    public static let name = "user.add"
    public var app: String
    public var user: String

    public init(app: String, user: String) {
        self.app = app
        self.user = user
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// False if the user was known already, which is no error.
        public var isNew: Bool

        public init(isNew: Bool) {
            self.isNew = isNew
        }
    }
}

/// Mints one token for each of the users, all in one commit, and makes unknown users known.
public struct MintTokens: AdministrationRequest {
    public static let name = "token.mint"
    public var app: String
    /// One token each, in this order; at most ``userCountMaximum``.
    public var users: [String]
    /// Binds the tokens to this device; nil lets the client choose its device at login.
    public var device: String?
    /// Seconds from now until they expire; nil is never.
    public var expirySeconds: UInt64?
    /// A label to list and revoke them by, such as a production lot: 1 to 64 bytes, without
    /// control characters.
    public var batch: String?
    /// The rights of the tokens; nil for the rights of the app.
    public var rights: [String]?

    /// Keeps a reply below ``AdministrationLine/replyByteCountMaximum`` with ids of the maximum
    /// length.
    public static let userCountMaximum = 10_000

    public init(
        app: String, users: [String], device: String? = nil, expirySeconds: UInt64? = nil,
        batch: String? = nil, rights: [String]? = nil
    ) {
        self.app = app
        self.rights = rights
        self.users = users
        self.device = device
        self.expirySeconds = expirySeconds
        self.batch = batch
    }

    public struct Token: Codable, Hashable, Sendable {
        public var user: String
        /// The public half, for lists and logs.
        public var id: String
        /// Only in this reply; the broker keeps its hash.
        public var token: String

        public init(user: String, id: String, token: String) {
            self.user = user
            self.id = id
            self.token = token
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// One for each user, in the order of the request.
        public var tokens: [Token]

        public init(tokens: [Token]) {
            self.tokens = tokens
        }
    }
}

/// Reads the broker's counters.
public struct ReadStatistics: AdministrationRequest {
    public static let name = "statistics.read"

    public init() {}

    public struct Counter: Codable, Hashable, Sendable {
        /// As under `$SYS/broker/`: `clients/connected`.
        public var name: String
        public var value: UInt64

        public init(name: String, value: UInt64) {
            self.name = name
            self.value = value
        }
    }

    /// How many things took how long, since the start of the broker.
    public struct Latencies: Codable, Hashable, Sendable {
        /// From the acceptance of a durable message until its sender was told.
        public var acknowledgement: [Bucket]
        /// From the acceptance of a message until the turn that sent it ended.
        public var delivery: [Bucket]
        /// A turn of an event loop.
        public var turn: [Bucket]
        /// A commit with its sync.
        public var commit: [Bucket]

        public init(
            acknowledgement: [Bucket], delivery: [Bucket], turn: [Bucket], commit: [Bucket]
        ) {
            self.acknowledgement = acknowledgement
            self.delivery = delivery
            self.turn = turn
            self.commit = commit
        }
    }

    /// Things that took longer than half of a time, and at most that time.
    public struct Bucket: Codable, Hashable, Sendable {
        public var upToMicroseconds: UInt64
        public var count: UInt64

        public init(upToMicroseconds: UInt64, count: UInt64) {
            self.upToMicroseconds = upToMicroseconds
            self.count = count
        }
    }

    /// The counters of one of several shards.
    public struct Shard: Codable, Hashable, Sendable {
        public var name: String
        /// Those of the broker's that tell whether the shard serves, and what its load is.
        public var counters: [Counter]

        public init(name: String, counters: [Counter]) {
            self.name = name
            self.counters = counters
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// The version of the broker that answers.
        public var brokerVersion: String
        public var uptimeSeconds: UInt64
        /// Of all shards.
        public var counters: [Counter]
        public var latencies: Latencies
        /// One for each shard; nil if there is one.
        public var shards: [Shard]?

        public init(
            brokerVersion: String, uptimeSeconds: UInt64, counters: [Counter], latencies: Latencies
        ) {
            self.brokerVersion = brokerVersion
            self.uptimeSeconds = uptimeSeconds
            self.counters = counters
            self.latencies = latencies
        }
    }
}
