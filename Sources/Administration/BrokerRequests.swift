// Requests about the broker itself: its listeners, its configuration, its log.

/// Lists the listeners, with their connections and certificates.
public struct ListListeners: AdministrationRequest {
    public static let name = "listener.list"

    public init() {}

    public struct Listener: Codable, Hashable, Sendable {
        /// As the configuration writes host and port, with the port that the system chose:
        /// `*:8883`.
        public var address: String
        /// `tls`, `tcp`, `wss`, `ws`, `https` or `http`.
        public var scheme: String
        /// What a web listener serves, as in `serve=`; empty for another one.
        public var parts: [String]
        /// Connections that are open, with those that have not logged in.
        public var connectionCount: Int
        /// The subject of the certificate; nil without TLS, here and below.
        public var certificateSubject: String?
        public var certificateExpiresUnixSeconds: UInt64?
        /// Whole days until it expires; 0 also after that.
        public var certificateDays: UInt64?

        public init(
            address: String, scheme: String, parts: [String], connectionCount: Int,
            certificateSubject: String?, certificateExpiresUnixSeconds: UInt64?,
            certificateDays: UInt64?
        ) {
            self.address = address
            self.scheme = scheme
            self.parts = parts
            self.connectionCount = connectionCount
            self.certificateSubject = certificateSubject
            self.certificateExpiresUnixSeconds = certificateExpiresUnixSeconds
            self.certificateDays = certificateDays
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// In the order of the configuration.
        public var listeners: [Listener]

        public init(listeners: [Listener]) {
            self.listeners = listeners
        }
    }
}

/// Lists the latest refused logins, requests and sends, and connections that ended for a cause.
public struct ListRefusals: AdministrationRequest {
    public static let name = "refusal.list"
    /// Only those with a higher number, the oldest first; nil for the latest ones.
    public var after: UInt64?
    /// How many at most, up to ``countMaximum``; nil for ``countDefault``.
    public var limit: Int?

    public static let countDefault = 100
    /// As many as the broker keeps.
    public static let countMaximum = 1_000

    public init(after: UInt64? = nil, limit: Int? = nil) {
        self.after = after
        self.limit = limit
    }

    public struct Refusal: Codable, Hashable, Sendable {
        /// Rises by one with each refusal since the start. Numbers that are missing were left out:
        /// of one event, 50 are kept in a second.
        public var number: UInt64
        public var unixMilliseconds: UInt64
        /// The event of the log, such as `auth_failed`.
        public var event: String
        /// Of the peer.
        public var address: String?
        public var user: String?
        public var device: String?
        /// The name of a reason code, or why a connection ended.
        public var reason: String?
        /// A reason code, or the status of HTTP.
        public var code: UInt64?
        /// The user, topic, filter, group or other address concerned.
        public var subject: String?
        public var detail: String?

        public init(number: UInt64, unixMilliseconds: UInt64, event: String) {
            self.number = number
            self.unixMilliseconds = unixMilliseconds
            self.event = event
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// The oldest first.
        public var refusals: [Refusal]
        /// The number of the latest one; 0 if there was none. It is lower than an earlier one if
        /// the broker was started meanwhile.
        public var last: UInt64

        public init(refusals: [Refusal], last: UInt64) {
            self.refusals = refusals
            self.last = last
        }
    }
}

/// Lists the latest lines of the log, of level info and above whatever the level of the log is
/// while somebody asks at least every 10 seconds.
public struct ListLogLines: AdministrationRequest {
    public static let name = "log.list"
    /// Only those with a higher number, the oldest first; nil for the latest ones.
    public var after: UInt64?
    /// How many at most, up to ``countMaximum``; nil for ``countDefault``.
    public var limit: Int?

    public static let countDefault = 100
    /// As many as the broker keeps.
    public static let countMaximum = 1_000

    public init(after: UInt64? = nil, limit: Int? = nil) {
        self.after = after
        self.limit = limit
    }

    public struct Field: Codable, Hashable, Sendable {
        public var name: String
        public var value: String

        public init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    public struct Line: Codable, Hashable, Sendable {
        /// Rises by one with each line since the start. Numbers that are missing were left out: of
        /// one event, 50 are kept in a second.
        public var number: UInt64
        public var unixMilliseconds: UInt64
        /// error, warning or info.
        public var level: String
        /// The event, such as `client_connected`.
        public var event: String
        /// In the order of the line.
        public var fields: [Field]

        public init(
            number: UInt64, unixMilliseconds: UInt64, level: String, event: String,
            fields: [Field]
        ) {
            self.number = number
            self.unixMilliseconds = unixMilliseconds
            self.level = level
            self.event = event
            self.fields = fields
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// The oldest first.
        public var lines: [Line]
        /// The number of the latest one; 0 if there was none. It is lower than an earlier one if
        /// the broker was started meanwhile.
        public var last: UInt64

        public init(lines: [Line], last: UInt64) {
            self.lines = lines
            self.last = last
        }
    }
}

/// Reads the configuration, certificates, keys and lists again, as SIGHUP does.
public struct ReloadConfiguration: AdministrationRequest {
    public static let name = "configuration.reload"

    public init() {}

    public struct Reply: Codable, Hashable, Sendable {
        /// The keys whose values have changed since the configuration was last read.
        public var changed: [String]
        /// The keys whose values differ from those at the start, which are in use until a restart.
        public var needsRestart: [String]
        /// The paths of certificates, keys and lists that have changed since they were last read.
        public var files: [String]

        public init(changed: [String], needsRestart: [String], files: [String]) {
            self.changed = changed
            self.needsRestart = needsRestart
            self.files = files
        }
    }
}

/// Changes the level of the log until the next reload or restart.
public struct SetLogLevel: AdministrationRequest {
    public static let name = "log.level"
    /// `error`, `warning`, `info` or `debug`.
    public var level: String

    /// The levels, the one with the fewest lines first.
    public static let levels = ["error", "warning", "info", "debug"]

    public init(level: String) {
        self.level = level
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// The level before.
        public var previous: String

        public init(previous: String) {
            self.previous = previous
        }
    }
}

/// Reads who sends most, which queues are deepest, and who reads slowly. The event loops measure
/// senders from the first request until 30 seconds after the last one: the first reply has none.
public struct ReadActivity: AdministrationRequest {
    public static let name = "activity.read"
    /// How many of each at most, up to ``countMaximum``; nil for ``countDefault``.
    public var limit: Int?

    public static let countDefault = 10
    /// More than a person looks at.
    public static let countMaximum = 50

    public init(limit: Int? = nil) {
        self.limit = limit
    }

    /// A user and what its connections have sent in the time of the reply.
    public struct Sender: Codable, Hashable, Sendable {
        public var app: String
        public var user: String
        /// Connections of the user that have sent.
        public var connectionCount: Int
        public var messageCount: UInt64
        /// Of packets.
        public var byteCount: UInt64

        public init(
            app: String, user: String, connectionCount: Int, messageCount: UInt64,
            byteCount: UInt64
        ) {
            self.app = app
            self.user = user
            self.connectionCount = connectionCount
            self.messageCount = messageCount
            self.byteCount = byteCount
        }
    }

    public struct Queue: Codable, Hashable, Sendable {
        public var app: String
        public var user: String
        /// Nil for the user's offline queue.
        public var device: String?
        public var isConnected: Bool
        public var messageCount: UInt64
        public var byteCount: UInt64

        public init(
            app: String, user: String, device: String?, isConnected: Bool, messageCount: UInt64,
            byteCount: UInt64
        ) {
            self.app = app
            self.user = user
            self.device = device
            self.isConnected = isConnected
            self.messageCount = messageCount
            self.byteCount = byteCount
        }
    }

    /// A connection whose client reads more slowly than the broker sends.
    public struct Reader: Codable, Hashable, Sendable {
        public var app: String
        public var user: String
        public var device: String
        /// Bytes that wait for the client in the memory of the broker.
        public var unsentByteCount: UInt64

        public init(app: String, user: String, device: String, unsentByteCount: UInt64) {
            self.app = app
            self.user = user
            self.device = device
            self.unsentByteCount = unsentByteCount
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// How long the senders were measured, about two seconds; 0 in the first reply.
        public var milliseconds: UInt64
        /// The busiest first.
        public var senders: [Sender]
        /// The deepest first.
        public var queues: [Queue]
        /// The slowest first.
        public var readers: [Reader]

        public init(
            milliseconds: UInt64, senders: [Sender], queues: [Queue], readers: [Reader]
        ) {
            self.milliseconds = milliseconds
            self.senders = senders
            self.queues = queues
            self.readers = readers
        }
    }
}
