// Requests about traces: the packets of one user's connections, decoded, as they pass.

/// Starts a trace of a user's packets.
public struct StartTrace: AdministrationRequest {
    public static let name = "trace.start"
    public var app: String
    /// The user need not be known: refused logins that name the user are shown too.
    public var user: String
    /// Only this device; nil for all.
    public var device: String?
    /// Whether the trace shows the beginning of payloads. The default is no.
    public var showsPayloads: Bool?
    /// Seconds until the trace ends, 1 to ``secondsMaximum``; nil for ``secondsDefault``.
    public var seconds: UInt64?

    /// Long enough to switch a device off and on.
    public static let secondsDefault: UInt64 = 60
    /// A trace that nobody needs any more ends within an hour.
    public static let secondsMaximum: UInt64 = 3_600

    public init(
        app: String, user: String, device: String? = nil, showsPayloads: Bool? = nil,
        seconds: UInt64? = nil
    ) {
        self.app = app
        self.user = user
        self.device = device
        self.showsPayloads = showsPayloads
        self.seconds = seconds
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// The id of the trace, for the other requests.
        public var trace: String

        public init(trace: String) {
            self.trace = trace
        }
    }
}

/// Lists the traces, also those that have ended and can still be read.
public struct ListTraces: AdministrationRequest {
    public static let name = "trace.list"

    public init() {}

    public struct Trace: Codable, Hashable, Sendable {
        public var trace: String
        public var app: String
        public var user: String
        public var device: String?
        public var showsPayloads: Bool
        /// The operator who started it; `admin socket` on the broker's machine.
        public var startedBy: String
        public var startedUnixMilliseconds: UInt64
        /// Seconds until it ends; 0 if it has ended.
        public var secondsLeft: UInt64
        /// Packets and events that it saw.
        public var packetCount: UInt64

        public init(
            trace: String, app: String, user: String, device: String?, showsPayloads: Bool,
            startedBy: String, startedUnixMilliseconds: UInt64, secondsLeft: UInt64,
            packetCount: UInt64
        ) {
            self.trace = trace
            self.app = app
            self.user = user
            self.device = device
            self.showsPayloads = showsPayloads
            self.startedBy = startedBy
            self.startedUnixMilliseconds = startedUnixMilliseconds
            self.secondsLeft = secondsLeft
            self.packetCount = packetCount
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// The oldest first.
        public var traces: [Trace]

        public init(traces: [Trace]) {
            self.traces = traces
        }
    }
}

/// Reads what a trace has recorded. A trace that nobody reads for 30 seconds ends.
public struct ReadTrace: AdministrationRequest {
    public static let name = "trace.read"
    public var trace: String
    /// `next` of the previous reply; nil for the oldest packet that is kept.
    public var after: UInt64?

    public init(trace: String, after: UInt64? = nil) {
        self.trace = trace
        self.after = after
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var packets: [TracedPacket]
        /// Where the next request continues.
        public var next: UInt64
        /// Packets since `after` that are not shown, because more came than a trace keeps.
        public var missedCount: UInt64
        /// Connections of the user that are not shown, because there are more than a trace follows.
        public var missedConnectionCount: UInt64
        /// Why it ended: `time`, `silence` of its reader, or `stopped`; nil while it runs, or while
        /// there is more to read.
        public var end: String?

        public init(
            packets: [TracedPacket], next: UInt64, missedCount: UInt64,
            missedConnectionCount: UInt64, end: String?
        ) {
            self.packets = packets
            self.next = next
            self.missedCount = missedCount
            self.missedConnectionCount = missedConnectionCount
            self.end = end
        }
    }
}

/// Ends a trace and discards what it has recorded.
public struct StopTrace: AdministrationRequest {
    public static let name = "trace.stop"
    public var trace: String

    public init(trace: String) {
        self.trace = trace
    }

    public struct Reply: Codable, Hashable, Sendable {
        public init() {}
    }
}

/// One packet of a traced connection, or an event of it such as its end. It contains no secret: no
/// password, token or key, and no cookie.
public struct TracedPacket: Codable, Hashable, Sendable {
    /// Where a packet went.
    public enum Direction: String, Codable, Hashable, Sendable {
        /// From the client.
        case `in`
        /// To the client.
        case out
        /// No packet: something that the broker knows about the connection.
        case event
    }

    /// Counts what passed, from 1; packets that are not kept are counted too.
    public var number: UInt64 = 0
    public var unixMilliseconds: UInt64 = 0
    public var direction: Direction
    /// The broker's name of the connection, until it closes.
    public var connection = ""
    /// The type of the packet or message as its specification names it, or the name of an event.
    public var packet: String
    /// Bytes of the packet or JSON message without TLS and WebSocket; 0 for an event.
    public var byteCount: UInt64 = 0
    /// The address of the peer, where a connection begins.
    public var address: String?
    /// As CONNECT presents them, or as the broker knows them.
    public var user: String?
    public var device: String?
    /// `MRT 1`, `MQTT 3.1`, `MQTT 3.1.1`, `MQTT 5.0` or `JSON`, in CONNECT.
    public var dialect: String?
    public var topic: String?
    /// Users, a group, or everybody.
    public var receiver: String?
    /// Topic filters with the requested grade.
    public var filters: [String]?
    /// 0 transient, 1 durable, 2 once; QoS in MQTT.
    public var grade: UInt64?
    /// The number that an acknowledgement or answer repeats.
    public var id: UInt64?
    public var payloadByteCount: UInt64?
    /// The beginning of the payload as text, if the trace shows payloads.
    public var payload: String?
    /// The beginning of a payload that is no text, in hexadecimal digits.
    public var hex: String?
    /// The name and the number of a reason code.
    public var reason: String?
    public var code: UInt64?
    /// The answer to each filter, in their order.
    public var codes: [String]?
    /// The other fields, in words.
    public var detail: String?

    public init(_ direction: Direction, _ packet: String, byteCount: UInt64 = 0) {
        self.direction = direction
        self.packet = packet
        self.byteCount = byteCount
    }
}
