// The oracle's model of sends, sessions and devices: only what a client can see, and the times at
// which the broker died.

import BrokerTerms
import Primitives
import WireFormat

/// The receivers of a message.
enum Receivers: Hashable {
    /// Users by index; the index after the last one is a user that does not exist.
    case users([Int], isList: Bool)
    case everybody
    /// Index of a group.
    case group(Int)
    /// Index of a topic.
    case topic(Int)

    var kind: MRT.DeliveryKind {
        switch self {
        case .users: .unicast
        case .everybody: .broadcast
        case .group: .group
        case .topic: .topic
        }
    }
}

/// The filter of a subscription.
enum FilterName: Hashable {
    /// Index of a filter of plain topics.
    case topics(Int)
    /// The same as a shared subscription (MQTT).
    case share(Int)
    /// Messages to the user (MQTT).
    case user
    /// Broadcasts (MQTT).
    case everybody
    /// Index of a group that the user is a member of (MQTT).
    case group(Int)
    /// The broker's own topics (MQTT).
    case system
}

/// One send, from the application's call to its result.
struct SendFact {
    let client: Int
    let receivers: Receivers
    let grade: MRT.Grade
    /// 0 for none.
    let expirySeconds: UInt32
    let messageIdentifier: String
    /// For a will, the loss of its device.
    var issuedAt: Instant
    /// The sender's session, if it was connected.
    var session: Int?
    /// The connection was open at both ends.
    var wasReachable: Bool
    /// How often the broker had died, and the store had been full.
    let deathsBefore: Int
    /// The orderly stops among them.
    var stopsBefore = 0
    let fullTimesBefore: Int
    /// It is kept in the conversations of its sender and its receivers.
    var isKept = false
    /// Sent by the broker, for a device that is lost.
    var isWill = false
    /// Its sender speaks MQTT.
    var isMQTT = false
    /// The send whose message id it repeats.
    var repeats: Int?
    /// How many publications with an id the client had written before this one, when it first wrote
    /// it.
    var identifierPlace: Int?
    /// It is retained; without a payload it removes the retained message.
    var isRetained = false
    var isClearing = false
    /// How often an MQTT client has begun to write it. In QoS 1 each may be a separate message.
    var attemptCount = 0
    /// When its sender had stored the result, and would not repeat it.
    var closedAt: Instant?
    /// The sender's outbox epoch, for grades that have one.
    var outboxEpoch: UInt64 = 0
    var number: UInt64 = 0
    /// How often the broker was permitted to forget the sender's numbers since.
    var forgetfulness = 0
    /// The result that the sender received, and when.
    var outcome: Outcome?
    var receivedCount = 0
    /// Receptions in a grade that is stored.
    var keptCount = 0

    struct Outcome: Hashable {
        let reason: ReasonCode
        let refusedCount: Int
        /// Refused receivers of a list, by index, as far as they were named.
        let refusedIndices: [Int]
        let at: Instant
        let deathsBefore: Int
        /// A queue or the store may have been full for some receiver.
        let mayHaveLackedRoom: Bool
    }
}

/// One session, as its CONNACKs show it.
struct SessionFact {
    let device: Int
    let epoch: UInt64
    /// Whether it outlives its connection.
    let isLasting: Bool
    let firstSeen: Instant
    var lastSeen: Instant
    /// The start of the broker that sent its last CONNACK.
    var brokerStart = 0
    /// The time between the client's request to end it and the moment when it existed nevertheless:
    /// a broker that died may have executed the request, and forgotten it.
    var doubts: [ClosedRange<Instant>] = []
    var filters: [FilterName: FilterFact] = [:]
    /// Messages by their inbox numbers, as seen on the wire.
    var numbers: [UInt64: Int] = [:]
    /// Messages that a client of this session has processed.
    var received: Set<Int> = []
    /// Groups that its client was told to be of its user.
    var notices: Set<[UInt8]> = []
    /// Those that were delivered because they were retained.
    var retainedReceived: Set<Int> = []
}

/// A subscription that was confirmed.
struct FilterFact {
    let grade: MRT.Grade
    let askedAt: Instant
    let confirmedAt: Instant
    /// How often the store had been full when it was requested.
    let fullTimesBefore: Int
    /// When its end was requested.
    var endedAt = Instant.never
}

/// One device of a user; several clients may log in as it.
struct DeviceFact {
    let user: Int
    var session: Int?
    /// The earliest time at which the last accepted connection can have ended; nil while it is
    /// open. With rivals it may be the connection of another client.
    var lastEnd: Instant?
    var expirySeconds: UInt32 = 0
    /// The client has requested something that ends the session.
    var mayEnd = false
    /// Whether a CONNECT of an earlier connection may have ended, or may end, the session.
    var hasLateStart = false
    /// Since when; nil if it follows from the session's expiry.
    var endAskedAt: Instant?
    /// Connections that the broker has accepted since the last CONNACK that was seen.
    var attempts = 0
    /// All filters that were ever requested, and the first time of each.
    var filtersAskedFor: [FilterName: Instant] = [:]
    /// Those of them with QoS 2.
    var sharedOnce: Set<FilterName> = []
    /// The sessions that it has had.
    var sessionCount = 0
}

/// How often one client has processed one message in one session.
struct Receipt: Hashable {
    let session: Int
    let client: Int
    let message: Int
}

struct ReceiptFact {
    /// In a grade that is stored.
    var count = 0
    var transientCount = 0
    var unmarkedCount = 0
    /// Deliveries without a mark that they may be a second one (MQTT).
    var firstCount = 0
    var lastNumber: UInt64 = 0
    /// The start of the client, by its number.
    var lastBoot = 0
}

/// One sender's messages in delivery to one session.
struct Route: Hashable {
    let session: Int
    let sender: Int
    let outboxEpoch: UInt64
    /// The scope within which order is guaranteed: nil for all messages, as in MRT.
    var receivers: Receivers?
    var grade: MRT.Grade?
}
