// Requests about sessions and their queues.

import FoundationEssentials

/// A selection of sessions: those that match every member that is not nil.
public struct SessionSelection: Codable, Hashable, Sendable {
    public var app: String
    public var user: String?
    public var device: String?
    public var isConnected: Bool?
    /// Disconnected for at least this long.
    public var awaySeconds: UInt64?

    public init(
        app: String, user: String? = nil, device: String? = nil, isConnected: Bool? = nil,
        awaySeconds: UInt64? = nil
    ) {
        self.app = app
        self.user = user
        self.device = device
        self.isConnected = isConnected
        self.awaySeconds = awaySeconds
    }

    /// Whether it is narrower than all sessions of an app.
    public var namesMoreThanApp: Bool {
        user != nil || device != nil || isConnected != nil || awaySeconds != nil
    }
}

/// Lists sessions, or shows one.
public struct ListSessions: AdministrationRequest {
    public static let name = "session.list"
    public var selection: SessionSelection
    /// Begins after this session, the `next` of the previous reply.
    public var after: UInt32?
    /// Sessions in the reply; nil for ``countMaximum``.
    public var limit: Int?

    /// Sessions in one reply.
    public static let countMaximum = 1_000

    public init(_ selection: SessionSelection, after: UInt32? = nil, limit: Int? = nil) {
        self.selection = selection
        self.after = after
        self.limit = limit
    }

    public struct Session: Codable, Hashable, Sendable {
        public var user: String
        public var device: String
        /// `mrt`, `mqtt3` or `mqtt5`.
        public var dialect: String
        public var isPersistent: Bool
        /// How long it outlives its connection; nil for unlimited.
        public var expirySeconds: UInt32?
        /// Unix milliseconds of the login; nil while it is disconnected.
        public var connectedUnixMilliseconds: UInt64?
        /// Since the last connection ended; nil while it is connected.
        public var awaySeconds: UInt64?
        public var keepAliveSeconds: UInt32
        public var queue: Queue
        /// Deliveries that are not acknowledged.
        public var underWayCount: UInt32
        /// At most 32 KiB of them; ``filterCount`` counts all.
        public var filters: [String]
        public var filterCount: Int
        public var groupCount: Int
        public var hasWill: Bool
        /// Of its connection, as the next three: nil while it is disconnected, and if the request
        /// names no user.
        public var credential: ShowUser.Credential?
        /// As ``ShowUser/Device/address``.
        public var address: String?
        /// As ``ShowUser/Device/listener``.
        public var listener: String?
        /// Since its last bytes arrived.
        public var silentSeconds: UInt64?

        public init(
            user: String, device: String, dialect: String, isPersistent: Bool,
            expirySeconds: UInt32?, connectedUnixMilliseconds: UInt64?, awaySeconds: UInt64?,
            keepAliveSeconds: UInt32, queue: Queue, underWayCount: UInt32, filters: [String],
            filterCount: Int, groupCount: Int, hasWill: Bool
        ) {
            self.user = user
            self.device = device
            self.dialect = dialect
            self.isPersistent = isPersistent
            self.expirySeconds = expirySeconds
            self.connectedUnixMilliseconds = connectedUnixMilliseconds
            self.awaySeconds = awaySeconds
            self.keepAliveSeconds = keepAliveSeconds
            self.queue = queue
            self.underWayCount = underWayCount
            self.filters = filters
            self.filterCount = filterCount
            self.groupCount = groupCount
            self.hasWill = hasWill
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var sessions: [Session]
        /// The session to continue with; nil at the end.
        public var next: UInt32?

        public init(sessions: [Session], next: UInt32?) {
            self.sessions = sessions
            self.next = next
        }
    }
}

/// The queue of one receiver.
public struct Queue: Codable, Hashable, Sendable {
    public var messageCount: UInt64
    public var byteCount: UInt64
    /// Number of messages that the queue refused or dropped because it was full, since the broker
    /// started.
    public var overflowCount: UInt64
    /// The number that the next message gets.
    public var nextNumber: UInt64

    public init(
        messageCount: UInt64, byteCount: UInt64, overflowCount: UInt64, nextNumber: UInt64
    ) {
        self.messageCount = messageCount
        self.byteCount = byteCount
        self.overflowCount = overflowCount
        self.nextNumber = nextNumber
    }
}

/// Ends the connections of sessions with 0x98. The sessions remain, and their devices may
/// reconnect.
public struct KickSessions: AdministrationRequest {
    public static let name = "session.kick"
    /// Must name more than the app.
    public var selection: SessionSelection
    /// Whether their wills are sent, as for any lost connection; nil for yes. Otherwise they are
    /// discarded.
    public var sendsWills: Bool?
    /// Continues after this place, the `next` of the previous reply.
    public var after: UInt32?

    public init(
        _ selection: SessionSelection, sendsWills: Bool? = nil, after: UInt32? = nil
    ) {
        self.selection = selection
        self.sendsWills = sendsWills
        self.after = after
    }

    public typealias Reply = SessionCount
}

/// Ends sessions as if each had expired.
public struct DeleteSessions: AdministrationRequest {
    public static let name = "session.delete"
    /// Must name more than the app.
    public var selection: SessionSelection
    /// As for ``KickSessions/sendsWills``.
    public var sendsWills: Bool?
    /// Continues after this place, the `next` of the previous reply.
    public var after: UInt32?

    public init(
        _ selection: SessionSelection, sendsWills: Bool? = nil, after: UInt32? = nil
    ) {
        self.selection = selection
        self.sendsWills = sendsWills
        self.after = after
    }

    public typealias Reply = SessionCount
}

/// The number of sessions that a request affected.
public struct SessionCount: Codable, Hashable, Sendable {
    public var sessionCount: Int
    /// The place to continue after: a request affects at most ``countMaximum``, so that others do
    /// not wait for it and its caller can show progress. Nil if there are no more.
    public var next: UInt32?

    /// Sessions that one request affects.
    public static let countMaximum = 1_000

    public init(sessionCount: Int, next: UInt32?) {
        self.sessionCount = sessionCount
        self.next = next
    }
}

/// Shows the offline queue of a user. The queues of sessions are listed with the sessions.
public struct ShowOfflineQueue: AdministrationRequest {
    public static let name = "queue.show"
    public var app: String
    public var user: String

    public init(app: String, user: String) {
        self.app = app
        self.user = user
    }

    public typealias Reply = Queue
}

/// Discards the queues of disconnected sessions, and the offline queue of a user.
public struct PurgeQueues: AdministrationRequest {
    public static let name = "queue.purge"
    /// Must name more than the app.
    public var selection: SessionSelection
    /// As for ``KickSessions/after``. The user's offline queue belongs to the first request.
    public var after: UInt32?

    public init(_ selection: SessionSelection, after: UInt32? = nil) {
        self.selection = selection
        self.after = after
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var messageCount: UInt64
        /// As ``SessionCount/next``.
        public var next: UInt32?

        public init(messageCount: UInt64, next: UInt32?) {
            self.messageCount = messageCount
            self.next = next
        }
    }
}

/// Starts a copy of the store, as of the last commit, into a new or empty directory on the broker's
/// machine. The broker continues meanwhile. Refused while another backup is running.
public struct BackUpStore: AdministrationRequest {
    public static let name = "store.backup"
    /// An absolute path.
    public var directory: String

    public init(directory: String) {
        self.directory = directory
    }

    public typealias Reply = BackupStatus
}

/// Shows the progress or the result of the last backup.
public struct ShowBackup: AdministrationRequest {
    public static let name = "store.backup.show"

    public init() {}

    public struct Reply: Codable, Hashable, Sendable {
        /// The last backup; nil if there was none since the broker started.
        public var backup: BackupStatus?

        public init(backup: BackupStatus?) {
            self.backup = backup
        }
    }
}

/// A backup that is running or has ended.
public struct BackupStatus: Codable, Hashable, Sendable {
    /// Counted from the broker's start.
    public var number: UInt64
    public var directory: String
    public var isFinished = false
    /// The reason why there is no copy; nil while the backup runs, and after success.
    public var failure: String?
    /// Bytes read so far, of the store and then of the copy, and their maximum.
    public var readByteCount: UInt64 = 0
    public var totalByteCount: UInt64 = 0
    /// The size of the copy, when it is finished.
    public var byteCount: UInt64 = 0
    /// Damage in the store, and so in the copy, that does not prevent a start. Truncated after
    /// ``findingsMaximum``.
    public var findings: [String] = []
    /// Whether it has the stores of several shards, whose restore needs the configuration; nil for
    /// no.
    public var hasShards: Bool?

    /// Enough to identify the kind of damage; `--verify-store` lists all of it.
    public static let findingsMaximum = 20

    public init(number: UInt64, directory: String) {
        self.number = number
        self.directory = directory
    }
}

/// Takes a piece of a session that an MQTT client had at another broker: messages that wait, and
/// with the last piece its subscriptions. Until then the session has none, so that an import that
/// was interrupted goes on where the reply says.
public struct ImportSession: AdministrationRequest {
    public static let name = "session.import"
    public var app: String
    public var user: String
    public var device: String
    /// How long the session outlives its connections; nil for the default of the broker.
    public var expirySeconds: UInt32?
    /// Whom receivers see as the sender.
    public var from: String
    /// How many messages of the source earlier pieces had, taken or not.
    public var position: UInt64
    /// One for each message, as lines: QoS (1 or 2), seconds until it expires (empty for none; 0 if
    /// it has expired: it counts and is not taken), content type (empty for none), payload as
    /// base64, topic.
    public var messages: [String]
    /// One for each subscription, as lines: options as MQTT 5 has them in a byte (section 3.8.3.1),
    /// subscription identifier (0 for none), filter. Nil except in the last piece.
    public var filters: [String]?

    /// Messages in one request.
    public static let countMaximum = 500
    /// Subscriptions of one session.
    public static let filterCountMaximum = 1_000

    /// The payload of a message; nil if it is no base64.
    public static func payload(base64 text: some StringProtocol) -> [UInt8]? {
        Data(base64Encoded: String(text)).map(Array.init)
    }

    public init(
        app: String, user: String, device: String, expirySeconds: UInt32?, from: String,
        position: UInt64, messages: [String], filters: [String]?
    ) {
        self.app = app
        self.user = user
        self.device = device
        self.expirySeconds = expirySeconds
        self.from = from
        self.position = position
        self.messages = messages
        self.filters = filters
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// `taken`; `elsewhere`, if `position` is not where the import goes on; `exists`, if the
        /// session was not begun by an import, or is complete.
        public var state: String
        /// How many messages of the source the broker has had: where the import goes on.
        public var position: UInt64
        /// Messages in the queue of the session.
        public var messageCount: UInt64
        /// Messages of the piece that are too large, that no client may publish, or for which a
        /// limit of the queue has no room.
        public var refusedCount: Int
        /// Filters that are not taken.
        public var refusedFilters: [String]

        public init(
            state: String, position: UInt64, messageCount: UInt64, refusedCount: Int = 0,
            refusedFilters: [String] = []
        ) {
            self.state = state
            self.position = position
            self.messageCount = messageCount
            self.refusedCount = refusedCount
            self.refusedFilters = refusedFilters
        }
    }
}
