// What a bridge is told: the two brokers, where it keeps its record, and the rules.

import MartletClient
import NetTransport
import WireFormat

/// How the broker on the other side is reached, and as whom.
public struct ForeignSettings: Sendable {
    public var server: ServerAddress
    /// Nil for a plain connection.
    public var tls: ClientTLSContext?
    /// 3.1.1 or 5.0.
    public var version = MQTT.Version.v5
    /// Names the session that the broker keeps. Never shared with another client.
    public var clientIdentifier: String
    public var user: String?
    public var password: String?
    public var keepAliveSeconds: UInt16 = 60
    /// Seconds that the session outlives its connection, in 5.0; a week, as Martlet's own.
    public var sessionExpirySeconds: UInt32 = 604_800
    /// Publications without an answer in each direction.
    public var inFlightMaximum = BridgeLimits.foreignInFlightDefault
}

/// How Martlet is reached, and as whom.
public struct MartletSettings: Sendable {
    public var server: ServerAddress
    /// Nil for a plain connection.
    public var tls: ClientTLSContext?
    /// Nil where the client certificate says who this is.
    public var token: String?
    public var device = "bridge"
    public var keepAliveSeconds: UInt16 = 60
    /// Deliveries without an acknowledgement.
    public var inFlightMaximum = BridgeLimits.inFlightDefault
}

/// A bridge's configuration.
public struct BridgeSettings: Sendable {
    public var foreign: ForeignSettings
    public var martlet: MartletSettings
    /// Where the record is kept.
    public var stateFile: String
    /// Bytes of the largest packet of either side.
    public var packetMaximum = BridgeLimits.packetMaximumDefault
    /// Seconds between two lines of totals; 0 for none but the last.
    public var totalsSeconds = 300
    var rules: RuleSet
}

/// Limits of a bridge, each with its reason.
public enum BridgeLimits {
    /// What Martlet's own windows are by default.
    static let inFlightDefault = 64
    /// What Mosquitto keeps in flight by default. After a crash it takes for new what was above.
    static let foreignInFlightDefault = 20
    /// Each is some 20 bytes of the record, which has to fit its slot.
    static let inFlightMaximum = 1_000
    /// Twice Martlet's own default for a packet.
    static let packetMaximumDefault = 1 << 20
    /// Below this Martlet's largest ordinary messages would not fit.
    static let packetMaximumMinimum = 64 << 10
    /// The arena of the loop and the memory of the client grow with it.
    static let packetMaximumMaximum = 64 << 20
    /// Bytes that may wait for one side's socket before no more is handed to it.
    static let backlogMaximum = 1 << 20
    /// What one rule file may hold: each filter stands in the record.
    static let rulesMaximum = 1_000
    /// Bytes of the record, twice in the file.
    static let recordByteCountMaximum = 256 << 10
    /// Numbers that are set aside with one write: a write for each thousand messages.
    static let numberReservation: UInt64 = 1_024
    /// The highest number that a record may hold: half of what the wire can say, so that counting
    /// on from it never ends.
    static let numberMaximum: UInt64 = 1 << 62
    /// A broker sends what has no answer at once when its client is back. What it does not send for
    /// so long, it does not have any more.
    static let recoveryMilliseconds: UInt64 = 30_000
    /// Publications of QoS 2 that were answered and wait for PUBREL; with more, answers wait.
    /// Mosquitto does not count them in its window. Each is 19 bytes of the record.
    static let unreleasedMaximum = 4_096
    /// Publications of QoS 1 and 2 that are not over: twice the ones that wait for PUBREL, of which
    /// the record has room for 8,192. With more the connection ends.
    static let publicationsMaximum = 8_192
    /// Between two attempts of a message that was refused for now: at first, and at most.
    static let retryMillisecondsMinimum: UInt64 = 500
    static let retryMillisecondsMaximum: UInt64 = 30_000
    /// Between two attempts of a subscription or a group that was refused: at first, and at most. A
    /// right that is missing is put in place by people, in minutes.
    static let subscriptionRetryMillisecondsMinimum: UInt64 = 1_000
    static let subscriptionRetryMillisecondsMaximum: UInt64 = 300_000
    /// Filters in one SUBSCRIBE or UNSUBSCRIBE: brokers bound the packet, and a refusal of the
    /// whole packet concerns few.
    static let filtersPerRequestMaximum = 64
    /// Bytes of a SUBSCRIBE or UNSUBSCRIBE before its first filter: fixed header 5, identifier 2,
    /// no properties 1.
    static let requestHeaderByteCountMaximum = 8
    /// Lines of the log that name what is missing, with each line of totals.
    static let missingLinesMaximum = 20
    /// How long what is under way may take to end after SIGTERM: below systemd's 90 s.
    static let drainMilliseconds: UInt64 = 10_000
    /// Bytes of a topic that a line of the log shows.
    static let loggedByteCountMaximum = 200
}
