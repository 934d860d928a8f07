// The broker's settings as plain values with their defaults. `SettingTable.swift` defines how they
// are written, checked, documented and reloaded; the values here are within their ranges.

/// All settings of an operator. The initialiser sets the defaults.
public struct BrokerSettings: Hashable, Sendable {
    public var dataDirectory = "/var/lib/martlet"
    public var listeners = [
        ListenerSettings(transport: .tls, host: .any, port: 8883),
        ListenerSettings(transport: .tcp, host: .loopback, port: 1883),
    ]
    /// Event loops; 0 for the broker's default.
    public var loops = 0
    public var tls = TLS()
    public var jwt = WebTokens()
    /// Settings of single apps, which override ``limits`` and ``mqtt``.
    public var apps: [AppSettings] = []
    /// The shards beside the default one.
    public var shards: [ShardSettings] = []
    public var limits = Limits()
    public var queues = Queues()
    public var history = History()
    public var files = Files()
    public var mqtt = MQTT()
    public var web = Web()
    public var store = Store()
    public var cluster = ClusterSettings()
    public var log = Log()

    public init() {}

    public struct TLS: Hashable, Sendable {
        public var certificateFile: String?
        public var keyFile: String?
        public var minimumVersion = MinimumTLSVersion.tls12
        public var clientAuthorityFile: String?
        public var crlFile: String?
        public var pskFile: String?
        public var clientApp: String?
        public var clientName = CertificateName.commonName
    }

    public struct WebTokens: Hashable, Sendable {
        public var keys: [WebTokenKeySettings] = []
        public var issuers: [TokenIssuerSettings] = []
        public var allowHS256 = false
    }

    public struct Limits: Hashable, Sendable {
        public var connections = 100_000
        public var connectionsPerAddress = 0
        public var pendingLogins = 4_096
        public var handshakes = 1_024
        public var messagesPerSecond = 0
        public var bytesPerSecond = 0
        public var rateToleranceSeconds = 60
        public var sessions = 1_000_000
        public var sessionsPerApp = 1_000_000
        public var users = 2_000_000
        public var usersPerApp = 1_000_000
        public var authenticationSeconds = 15
        public var keepAliveMaximumSeconds = 5_400
        public var sessionExpirySeconds = 7 * 86_400
        public var sessionExpiryMaximumSeconds = Int(UInt32.max)
        public var sessionsPerUser = 64
        public var takeoversPerMinute = 5
        public var groupsPerApp = 100_000
        public var groupsPerUser = 1_000
        public var trackedSendsPerApp = 100_000
        public var trackedSendsPerUser = 10_000
        public var trackedMembersPerApp = 1_000_000
        public var trackedMembersPerUser = 200_000
        public var groupBytesPerApp = 64 << 20
        public var groupBytesPerUser = 4 << 20
        public var membersPerGroup = 1_000_000
        public var subscriptionsPerSession = 1_000
        public var topicLevels = 64
        public var filterBytes = 1_024
        public var retainedPerApp = 100_000
        public var retainedBytesPerApp = 64 << 20
        public var inboxWindow = 64
        public var inboxWindowBytes = 262_144
        public var sendWindow = 64
        public var messageMaximum = 1_024
        public var payloadMaximum = 262_144
        public var packetMaximum = PacketSizes.packetStandard
        public var outgoingBytes = 512 << 20
    }

    public struct History: Hashable, Sendable {
        public var byDefault = false
        public var messages = 10_000
        public var bytes = 16 << 20
        public var ageSeconds = 30 * 86_400
        public var conversationsPerApp = 100_000
        public var topicsPerApp = 10_000
        public var bytesPerApp = 1 << 30
    }

    /// Files of messages that clients of other systems send.
    public struct Files: Hashable, Sendable {
        public var directory: String?
        public var bytesPerApp = 0
        public var userPercent = 10
        public var ageSeconds = 7 * 86_400
        public var address: String?
    }

    public struct Queues: Hashable, Sendable {
        public var messages = 10_000
        public var bytes = 16 << 20
        public var ageSeconds = 7 * 86_400
        public var bytesPerApp = 0
        public var memoryBytes = 64 << 20
        public var uncommittedBytes = 256 << 20
        public var policy = QueueFullPolicy.refuse
    }

    public struct MQTT: Hashable, Sendable {
        public var refusedPublish = RefusedPublish.close
        public var receiveMaximum = 1_024
        public var enforcesReceiveMaximum = false
        public var joinsGroups = true
        public var sysIntervalSeconds = 10
    }

    public struct Web: Hashable, Sendable {
        public var allowedOrigins: [String] = []
        public var metrics = MetricsReaders.loopback
    }

    public struct Store: Hashable, Sendable {
        public var mapBytes = 128 << 30
        public var softLimitBytes = 32 << 30
        public var checksPages = true
        public var downtimeMaximumSeconds = 7 * 86_400
    }

    public struct Log: Hashable, Sendable {
        public var level = LogLevel.info
        public var format = LogFormat.logfmt
    }
}

/// The oldest version of TLS that a listener accepts.
public enum MinimumTLSVersion: String, CaseIterable, Sendable {
    case tls12 = "1.2"
    case tls13 = "1.3"
}

/// Who may read the metrics of a web listener.
public enum MetricsReaders: String, CaseIterable, Sendable {
    case loopback, anyone, nobody
}

/// The part of a client's certificate that identifies the client.
public enum CertificateName: String, CaseIterable, Sendable {
    case commonName = "common-name"
    case dnsName = "dns-name"
    case uri
    case email
}

/// What happens to a message for a full queue.
public enum QueueFullPolicy: String, CaseIterable, Sendable {
    case refuse, oldest, newest
}

/// What happens to the connection of a refused publication that has no negative acknowledgement.
public enum RefusedPublish: String, CaseIterable, Sendable {
    case close, count
}

/// The importance of an event for operators.
public enum LogLevel: String, CaseIterable, Comparable, Sendable {
    /// A function does not work until somebody acts.
    case error
    /// A fault; the broker continues.
    case warning
    /// Normal events of clients and of the broker.
    case info
    /// Details for finding faults.
    case debug

    /// More important levels are less.
    public static func < (left: LogLevel, right: LogLevel) -> Bool {
        left.rank < right.rank
    }

    private var rank: Int {
        switch self {
        case .error: 0
        case .warning: 1
        case .info: 2
        case .debug: 3
        }
    }
}

/// How log lines are written.
public enum LogFormat: String, CaseIterable, Sendable {
    case logfmt, json
}
