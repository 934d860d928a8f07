// The settings of a bridge: the two brokers, the state file, and the rules.

import MartletClient
import NetTransport
import WireFormat

/// Address and identity for the MQTT broker.
public struct ForeignSettings: Sendable {
    public var server: ServerAddress
    /// Nil without TLS.
    public var tls: ClientTLSContext?
    /// 3.1.1 or 5.0.
    public var version = MQTT.Version.v5
    /// Identifies the session that the broker keeps. No other client may use it.
    public var clientIdentifier: String
    public var user: String?
    public var password: String?
    public var keepAliveSeconds: UInt16 = 60
    /// The session expiry, in 5.0; a week, as Martlet's default.
    public var sessionExpirySeconds: UInt32 = 604_800
    /// Unanswered publications in each direction.
    public var inFlightMaximum = BridgeLimits.foreignInFlightDefault
}

/// Address and identity for Martlet.
public struct MartletSettings: Sendable {
    /// Those of all nodes, if it is a cluster.
    public var servers: [ServerAddress]
    /// Nil without TLS.
    public var tls: ClientTLSContext?
    /// Nil if the client certificate identifies the bridge.
    public var token: String?
    public var device = "bridge"
    public var keepAliveSeconds: UInt16 = 60
    /// Unacknowledged deliveries.
    public var inFlightMaximum = BridgeLimits.inFlightDefault
}

/// A bridge's configuration.
public struct BridgeSettings: Sendable {
    public var foreign: ForeignSettings
    public var martlet: MartletSettings
    /// The path of the record.
    public var stateFile: String
    /// The largest packet of either side.
    public var packetMaximum = BridgeLimits.packetMaximumDefault
    /// Seconds between two lines of totals; 0 for only the last.
    public var totalsSeconds = 300
    var rules: RuleSet
}

/// Limits of a bridge, each with its reason.
public enum BridgeLimits {
    /// Martlet's default windows.
    static let inFlightDefault = 64
    /// Mosquitto's default in flight. After a crash it treats the messages above it as new.
    static let foreignInFlightDefault = 20
    /// Each is about 20 bytes of the record, which must fit its slot.
    static let inFlightMaximum = 1_000
    /// Twice Martlet's own default for a packet.
    static let packetMaximumDefault = 1 << 20
    /// Below this Martlet's largest ordinary messages would not fit.
    static let packetMaximumMinimum = 64 << 10
    /// The arena of the loop and the memory of the client grow with it.
    static let packetMaximumMaximum = 64 << 20
    /// Bytes that may wait for one side's socket before no more are written to it.
    static let backlogMaximum = 1 << 20
    /// Requests of signals that wait for a turn: only the last reload counts.
    static let requestsMaximum = 16
    /// Rules of one file: each filter is in the record.
    static let rulesMaximum = 1_000
    /// Bytes of the record, twice in the file.
    static let recordByteCountMaximum = 256 << 10
    /// Numbers reserved with one write: one write for each thousand messages.
    static let numberReservation: UInt64 = 1_024
    /// The highest number that a record may contain: half of the wire's range, so that counting on
    /// from it never overflows.
    static let numberMaximum: UInt64 = 1 << 62
    /// A broker repeats unanswered messages at once when its client reconnects. A message that it
    /// does not repeat for this long no longer exists there.
    static let recoveryMilliseconds: UInt64 = 30_000
    /// Answered QoS 2 publications that wait for PUBREL; above it, answers wait. Mosquitto does not
    /// count them in its window. Each is 19 bytes of the record.
    static let unreleasedMaximum = 4_096
    /// Incomplete publications of QoS 1 and 2: twice those that wait for PUBREL, of which the
    /// record has room for 8,192. Above it the connection is closed.
    static let publicationsMaximum = 8_192
    /// Between two attempts of a message that was refused temporarily: the first and the longest
    /// time.
    static let retryMillisecondsMinimum: UInt64 = 500
    static let retryMillisecondsMaximum: UInt64 = 30_000
    /// Between two attempts of a subscription or a group that was refused: the first and the
    /// longest time. A missing right is granted by people, within minutes.
    static let subscriptionRetryMillisecondsMinimum: UInt64 = 1_000
    static let subscriptionRetryMillisecondsMaximum: UInt64 = 300_000
    /// Filters in one SUBSCRIBE or UNSUBSCRIBE: brokers limit the packet, and a refusal of the
    /// whole packet affects few.
    static let filtersPerRequestMaximum = 64
    /// Bytes of a SUBSCRIBE or UNSUBSCRIBE before its first filter: fixed header 5, packet
    /// identifier 2, length of the properties 1, subscription identifier 5.
    static let requestHeaderByteCountMaximum = 13
    /// The range of a subscription identifier begins at 1 and ends here (3.8.2.1.2 of MQTT 5.0).
    static let subscriptionIdentifierMaximum: UInt32 = 268_435_455
    /// How long a reload waits for the MQTT broker's answer to a request before it ends the
    /// connection: brokers answer a SUBSCRIBE within seconds.
    static let reloadMilliseconds: UInt64 = 30_000
    /// Lines of the log that name missing subscriptions, with each line of totals.
    static let missingLinesMaximum = 20
    /// How long open exchanges may take to complete after SIGTERM: below systemd's 90 s.
    static let drainMilliseconds: UInt64 = 10_000
}
