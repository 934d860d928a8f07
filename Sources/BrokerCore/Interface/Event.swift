// What happens to the broker, in the past tense and as plain data. Byte ranges point into the
// buffer that is handed to `Broker.step` together with the event, so that a batch of events and its
// buffer can be recorded and replayed. Verified identities stand in a list beside that buffer.

import BrokerTerms
import Primitives

/// One thing that happened on a connection. Ids, topics and UTF-8 have been checked by the dialect;
/// whether they may be used is the core's decision.
public enum Event: Sendable {
    case connectReceived(ConnectionID, ConnectRequest)
    /// The connection is gone or given up; nothing is delivered on it any more.
    case connectionClosed(ConnectionID, CloseCause)
    case sendReceived(ConnectionID, SendRequest)
    /// The receiver holds everything up to this inbox number (cumulative).
    case inboxAcknowledged(ConnectionID, throughNumber: UInt64)
    /// The sender has seen every result up to this outbox number (cumulative).
    case resultsSeen(ConnectionID, throughNumber: UInt64)
    /// A step of the exchange about one publication, of either direction (MQTT).
    case packetAnswered(ConnectionID, packetIdentifier: UInt16, PacketStep, ReasonCode)
    case subscribeReceived(ConnectionID, SubscribeRequest)
    case unsubscribeReceived(ConnectionID, UnsubscribeRequest)
    case presenceQueried(ConnectionID, requestIdentifier: UInt64, user: ByteRange)
    case groupRequested(ConnectionID, requestIdentifier: UInt64, GroupRequest)
    case willSet(ConnectionID, requestIdentifier: UInt64, WillRequest)
    case willCleared(ConnectionID, requestIdentifier: UInt64)
    /// A request that goes no further than its dialect, which does not know the operation or found
    /// its parameters against the rules: it is answered with this reason, in its place.
    case requestFaulted(ConnectionID, requestIdentifier: UInt64, ReasonCode)
    /// A new credential for the user who is connected, to take the place of the old one.
    case credentialPresented(ConnectionID, Claim)
    /// A new credential that is worth nothing, as the edge has found out.
    case credentialRefused(ConnectionID, ReasonCode)
    case disconnectReceived(ConnectionID, DisconnectRequest)
    /// A delivery cannot be put on the wire: its packet is larger than the client takes.
    case deliveryTooLarge(ConnectionID, number: UInt64)
    /// What ``Effect/awaitDrain(_:)`` asked for: the connection has taken everything that was
    /// written.
    case outgoingDrained(ConnectionID)
    /// The peer broke the protocol, or was silent for too long: the connection ends with this
    /// reason.
    case peerFaulted(ConnectionID, ReasonCode)
}

extension Event {
    /// The connection it happened on.
    public var connection: ConnectionID {
        switch self {
        case .connectReceived(let connection, _), .connectionClosed(let connection, _),
            .sendReceived(let connection, _), .inboxAcknowledged(let connection, _),
            .resultsSeen(let connection, _), .packetAnswered(let connection, _, _, _),
            .subscribeReceived(let connection, _), .unsubscribeReceived(let connection, _),
            .presenceQueried(let connection, _, _), .groupRequested(let connection, _, _),
            .willSet(let connection, _, _), .willCleared(let connection, _),
            .requestFaulted(let connection, _, _), .credentialPresented(let connection, _),
            .credentialRefused(let connection, _), .disconnectReceived(let connection, _),
            .deliveryTooLarge(let connection, _), .outgoingDrained(let connection),
            .peerFaulted(let connection, _):
            connection
        }
    }

    /// Whether it is the last of its connection.
    public var endsConnection: Bool {
        switch self {
        case .connectionClosed, .disconnectReceived, .peerFaulted: true
        case .connectReceived, .sendReceived, .inboxAcknowledged, .resultsSeen, .packetAnswered,
            .subscribeReceived, .unsubscribeReceived, .presenceQueried, .groupRequested, .willSet,
            .willCleared, .requestFaulted, .credentialPresented, .credentialRefused,
            .deliveryTooLarge, .outgoingDrained:
            false
        }
    }

    /// What it does to the pending batch.
    public var batchEffect: BatchEffect {
        switch self {
        case .presenceQueried, .requestFaulted, .deliveryTooLarge, .outgoingDrained: .none
        case .packetAnswered(_, _, .release, _): .adds
        case .inboxAcknowledged, .resultsSeen, .packetAnswered: .settles
        case .sendReceived(_, let request):
            request.grade != .transient || request.isRetained ? .adds : .none
        case .connectReceived, .connectionClosed, .subscribeReceived, .unsubscribeReceived,
            .groupRequested, .willSet, .willCleared, .credentialPresented, .credentialRefused,
            .disconnectReceived, .peerFaulted:
            .adds
        }
    }
}

/// What an event does to the pending batch.
public enum BatchEffect: Sendable {
    case none
    /// It takes an entry out that is not stored yet, or adds the removal of one that is.
    case settles
    case adds
}

/// Why a connection ended, as far as it matters to wills and logs.
public enum CloseCause: UInt8, Hashable, Sendable {
    /// The peer closed or reset the connection, or the network lost it.
    case lost
    /// Nothing came for one and a half times the keep-alive.
    case keepAliveTimeout
    /// The peer did not read: its outgoing buffer passed the hard bound.
    case outgoingOverflow
    /// The broker closed it. (The end of the process is no event: it ends no session.)
    case closedByBroker
}

/// Who wants to connect, as far as the edge could find out without the core's tables.
public enum Claim: Hashable, Sendable {
    /// An opaque token: its public id and the SHA-256 of its secret.
    case token(identifier: ByteRange, digest: Digest)
    /// App id, SHA-256 of the app key, and the user's own word for who it is (development).
    case appKey(app: ByteRange, digest: Digest, user: ByteRange)
    /// The listener vouches for the client and the client names its user, of the broker's anonymous
    /// app (development and conformance suites).
    case anonymous(user: ByteRange)
    /// What the edge has verified: in the list of identities that is handed to `Broker.step`
    /// together with the event.
    case verified(TurnIdentities.Reference)
    /// A gateway vouches for the user, on one of the channels of its connection.
    case attached(gateway: ConnectionID, user: ByteRange)
}

/// A SHA-256 digest as four words; equality takes the same time wherever they differ.
public struct Digest: Hashable, Sendable {
    public var words: (UInt64, UInt64, UInt64, UInt64)

    public init(words: (UInt64, UInt64, UInt64, UInt64)) {
        self.words = words
    }

    /// Reads 32 bytes.
    public init(bytes: UnsafeRawBufferPointer) {
        precondition(bytes.count == 32, "\(bytes.count) bytes of a SHA-256, which has 32")
        words = (
            bytes.loadUnaligned(fromByteOffset: 0, as: UInt64.self).littleEndian,
            bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self).littleEndian,
            bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self).littleEndian,
            bytes.loadUnaligned(fromByteOffset: 24, as: UInt64.self).littleEndian
        )
    }

    @inline(never)
    public static func == (left: Digest, right: Digest) -> Bool {
        let difference =
            (left.words.0 ^ right.words.0) | (left.words.1 ^ right.words.1)
            | (left.words.2 ^ right.words.2) | (left.words.3 ^ right.words.3)
        return difference == 0
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
        hasher.combine(words.1)
        hasher.combine(words.2)
        hasher.combine(words.3)
    }
}

/// How the messages of a session are put on the wire.
public enum SessionDialect: UInt8, Hashable, BitwiseCopyable, Sendable {
    case mrt = 1
    case mqtt3 = 3
    case mqtt5 = 5

    public var isMQTT: Bool { self != .mrt }
}

public struct ConnectRequest: Sendable {
    public var dialect: SessionDialect
    public var claim: Claim
    public var device: ByteRange
    /// The client names no device and leaves it to the broker to think of one (MQTT).
    public var assignsDevice = false
    /// Discard what is stored of an earlier session.
    public var startsClean: Bool
    /// An automatic re-login, not somebody signing on.
    public var isReconnect: Bool
    /// Seconds; 0 where the client asks for none.
    public var keepAliveSeconds: UInt32
    /// Seconds after the end of the connection; 0 ends the session with it, nil asks for the
    /// default, `UInt32.max` for none.
    public var sessionExpirySeconds: UInt32?
    /// Unacknowledged deliveries the client takes at a time.
    public var inboxWindow: UInt16
    private var ownPart: OwnPart
    /// Fresh random numbers for this connection: the session's epoch if it is new, and the cookie.
    public var newEpoch: UInt64
    public var newCookie: UInt64

    /// What a CONNECT of one protocol has and the other has not. The two share their memory: an
    /// event would be half as large again with both.
    private enum OwnPart: Sendable {
        case mrt(resume: InboxPosition?, cookie: UInt64?, outbox: OutboxPosition?)
        case mqtt(will: WillRequest?)
    }

    public init(
        dialect: SessionDialect, claim: Claim, device: ByteRange, startsClean: Bool = false,
        isReconnect: Bool = false, keepAliveSeconds: UInt32 = 0,
        sessionExpirySeconds: UInt32? = nil, inboxWindow: UInt16 = .max,
        resume: InboxPosition? = nil, cookie: UInt64? = nil, outbox: OutboxPosition? = nil,
        will: WillRequest? = nil, newEpoch: UInt64, newCookie: UInt64
    ) {
        self.dialect = dialect
        self.claim = claim
        self.device = device
        self.startsClean = startsClean
        self.isReconnect = isReconnect
        self.keepAliveSeconds = keepAliveSeconds
        self.sessionExpirySeconds = sessionExpirySeconds
        self.inboxWindow = inboxWindow
        ownPart =
            dialect.isMQTT
            ? .mqtt(will: will) : .mrt(resume: resume, cookie: cookie, outbox: outbox)
        self.newEpoch = newEpoch
        self.newCookie = newCookie
    }
}

extension ConnectRequest {
    /// The last inbox number the receiver holds, and the epoch it belongs to (MRT).
    public var resume: InboxPosition? {
        if case .mrt(let resume, _, _) = ownPart { resume } else { nil }
    }

    /// The cookie of the connection that this one replaces (MRT).
    public var cookie: UInt64? {
        if case .mrt(_, let cookie, _) = ownPart { cookie } else { nil }
    }

    public var outbox: OutboxPosition? {
        if case .mrt(_, _, let outbox) = ownPart { outbox } else { nil }
    }

    /// The connection's will, which is committed before the client is let in (MQTT).
    public var will: WillRequest? {
        if case .mqtt(let will) = ownPart { will } else { nil }
    }

    /// Puts another will, with other ranges, in place of the one there is (MQTT).
    public mutating func setWill(_ will: WillRequest) {
        precondition(dialect.isMQTT, "a CONNECT of \(dialect) has no will")
        ownPart = .mqtt(will: will)
    }
}

/// How far a receiver has come.
public struct InboxPosition: Hashable, Sendable {
    public var epoch: UInt64
    public var number: UInt64

    public init(epoch: UInt64, number: UInt64) {
        self.epoch = epoch
        self.number = number
    }
}

/// How far a sender has come.
public struct OutboxPosition: Hashable, Sendable {
    public var epoch: UInt64
    /// Results up to here will not be asked for again.
    public var resultsSeen: UInt64
    /// The highest number ever sent under this epoch.
    public var highestUsed: UInt64

    public init(epoch: UInt64, resultsSeen: UInt64, highestUsed: UInt64) {
        self.epoch = epoch
        self.resultsSeen = resultsSeen
        self.highestUsed = highestUsed
    }
}

/// Whom a message is for.
public enum SendTarget: Hashable, Sendable {
    case user(ByteRange)
    /// `count` ids in a row, each one length byte and its bytes.
    case users(ids: ByteRange, count: Int)
    case group(ByteRange)
    case everybody
    case topic(ByteRange)
}

extension SendTarget {
    /// What receivers are told of how it was addressed.
    var kind: MessageKind {
        switch self {
        case .user, .users: .unicast
        case .group: .group
        case .everybody: .broadcast
        case .topic: .topic
        }
    }

    /// What receivers are told of the address: the group or the topic.
    func address(in bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        switch self {
        case .group(let name), .topic(let name): name.bytes(in: bytes)
        case .user, .users, .everybody: UnsafeRawBufferPointer(start: nil, count: 0)
        }
    }
}

public struct SendRequest: Sendable {
    /// The outbox number; 0 for a transient send, which has none, and in MQTT, where the broker
    /// counts.
    public var number: UInt64
    /// What names a QoS 1 or 2 publication until it is acknowledged; 0 in MRT.
    public var packetIdentifier: UInt16 = 0
    /// Kept as the last message of its topic, for those who subscribe later (MQTT).
    public var isRetained = false
    public var grade: Grade
    public var target: SendTarget
    /// The application's own id, to come back in the result; empty where none was given.
    public var messageIdentifier: ByteRange
    /// Seconds the message is worth delivering; nil for as long as queues keep messages.
    public var expirySeconds: UInt64?
    /// The sender's clock in Unix milliseconds; 0 where none was given.
    public var senderUnixMilliseconds: UInt64
    /// The payload is any bytes; otherwise `t` as one byte and then `b`.
    public var isRaw: Bool
    public var payload: ByteRange
    /// Bytes of the minimal JSON form of a `t`/`b` payload, as the dialect counted them.
    public var messageByteCount: UInt32
    /// MQTT 5 properties that travel along.
    public var properties: ByteRange
    /// What the dialect found wrong with this send, beyond which it is not looked at.
    public var fault: ReasonCode?

    public init(
        number: UInt64, grade: Grade, target: SendTarget, messageIdentifier: ByteRange = .empty,
        expirySeconds: UInt64? = nil, senderUnixMilliseconds: UInt64 = 0, isRaw: Bool = false,
        payload: ByteRange, messageByteCount: UInt32, properties: ByteRange = .empty,
        fault: ReasonCode? = nil
    ) {
        self.fault = fault
        self.number = number
        self.grade = grade
        self.target = target
        self.messageIdentifier = messageIdentifier
        self.expirySeconds = expirySeconds
        self.senderUnixMilliseconds = senderUnixMilliseconds
        self.isRaw = isRaw
        self.payload = payload
        self.messageByteCount = messageByteCount
        self.properties = properties
    }
}

/// A SUBSCRIBE, with all its filters.
public struct SubscribeRequest: Sendable {
    public enum Filters: Sendable {
        case one(FilterRequest)
        /// Of a packet of MQTT: one answer tells of them all.
        case list(FilterList)
    }

    public var requestIdentifier: UInt64
    public var filters: Filters
    /// Comes back in what the subscriptions bring; 0 for none (MQTT 5).
    public var subscriptionIdentifier: UInt32
    /// Filters beyond ``CoreLimits/filtersPerPacketMaximum``, which are refused without a look.
    public var omittedCount: Int

    public init(
        requestIdentifier: UInt64, filters: Filters, subscriptionIdentifier: UInt32 = 0,
        omittedCount: Int = 0
    ) {
        self.requestIdentifier = requestIdentifier
        self.filters = filters
        self.subscriptionIdentifier = subscriptionIdentifier
        self.omittedCount = omittedCount
    }
}

/// One filter of a SUBSCRIBE.
public struct FilterRequest: Sendable {
    public var filter: ByteRange
    /// The highest grade this subscription wants.
    public var grade: Grade
    public var options: SubscriptionOptions
    /// Whether the filter obeys the rules of filters (MQTT 4.7).
    public var isValid: Bool

    public init(
        filter: ByteRange, grade: Grade, options: SubscriptionOptions = [], isValid: Bool = true
    ) {
        self.filter = filter
        self.grade = grade
        self.options = options
        self.isValid = isValid
    }
}

/// What a subscription wants beside its grade (MQTT 5 section 3.8.3.1). The lower half is stored.
public struct SubscriptionOptions: OptionSet, Hashable, Sendable, BitwiseCopyable {
    public var rawValue: UInt8

    @inlinable
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// What the session sends itself does not come back.
    @inlinable
    public static var noLocal: SubscriptionOptions { SubscriptionOptions(rawValue: 1 << 0) }
    /// A message that was retained says so.
    @inlinable
    public static var retainsAsPublished: SubscriptionOptions {
        SubscriptionOptions(rawValue: 1 << 1)
    }
    /// Retained messages are not sent where the subscription was there before.
    @inlinable
    public static var retainedIfNew: SubscriptionOptions { SubscriptionOptions(rawValue: 1 << 4) }
    /// Retained messages are not sent.
    @inlinable
    public static var withoutRetained: SubscriptionOptions {
        SubscriptionOptions(rawValue: 1 << 5)
    }

    /// Retained messages are still to be sent; in no request.
    static var awaitsReplay: SubscriptionOptions { SubscriptionOptions(rawValue: 1 << 6) }
    /// Of somebody whom a shared subscription has chosen for a message; in no request.
    static var chosen: SubscriptionOptions { SubscriptionOptions(rawValue: 1 << 7) }

    /// What outlives the request.
    var stored: SubscriptionOptions {
        intersection([.noLocal, .retainsAsPublished, .awaitsReplay])
    }
}

/// An UNSUBSCRIBE, with all its filters.
public struct UnsubscribeRequest: Sendable {
    public enum Filters: Sendable {
        case one(ByteRange)
        /// Of a packet of MQTT: one answer tells of them all.
        case list(FilterList)
    }

    public var requestIdentifier: UInt64
    public var filters: Filters
    /// As in ``SubscribeRequest``.
    public var omittedCount: Int

    public init(requestIdentifier: UInt64, filters: Filters, omittedCount: Int = 0) {
        self.requestIdentifier = requestIdentifier
        self.filters = filters
        self.omittedCount = omittedCount
    }
}

public struct DisconnectRequest: Hashable, Sendable {
    /// A new expiry for the session that stays behind, in seconds; nil keeps the granted one.
    public var sessionExpirySeconds: UInt32?
    /// The client wants its will sent although it says good-bye.
    public var sendsWill: Bool

    public init(sessionExpirySeconds: UInt32? = nil, sendsWill: Bool = false) {
        self.sendsWill = sendsWill
        self.sessionExpirySeconds = sessionExpirySeconds
    }
}
