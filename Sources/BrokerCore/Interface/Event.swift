// What happens to the broker, in the past tense and as plain data. Byte ranges point into the
// buffer that is handed to `Broker.step` together with the event, so that a batch of events and its
// buffer can be recorded and replayed. Verified identities are in a list beside that buffer.

import BrokerTerms
import Primitives

/// One event of a connection. The dialect has checked ids, topics and UTF-8; the core checks rights
/// and limits.
public enum Event: Sendable {
    case connectReceived(ConnectionID, ConnectRequest)
    /// The connection has closed.
    case connectionClosed(ConnectionID, CloseCause)
    case sendReceived(ConnectionID, SendRequest)
    /// The receiver acknowledges all deliveries up to this inbox number.
    case inboxAcknowledged(ConnectionID, throughNumber: UInt64)
    /// The sender acknowledges all results up to this outbox number.
    case resultsSeen(ConnectionID, throughNumber: UInt64)
    /// A step of the exchange about one publication, of either direction (MQTT).
    case packetAnswered(ConnectionID, packetIdentifier: UInt16, PacketStep, ReasonCode)
    case subscribeReceived(ConnectionID, SubscribeRequest)
    case unsubscribeReceived(ConnectionID, UnsubscribeRequest)
    case presenceQueried(ConnectionID, requestIdentifier: UInt64, user: ByteRange)
    case groupRequested(ConnectionID, requestIdentifier: UInt64, GroupRequest)
    case historyRequested(ConnectionID, requestIdentifier: UInt64, HistoryRequest)
    case conversationsRequested(ConnectionID, requestIdentifier: UInt64, ConversationListRequest)
    case markReadRequested(ConnectionID, requestIdentifier: UInt64, ReadMarkRequest)
    case appliedReported(ConnectionID, requestIdentifier: UInt64, AppliedRequest)
    case recallRequested(ConnectionID, requestIdentifier: UInt64, RecallRequest)
    case willSet(ConnectionID, requestIdentifier: UInt64, WillRequest)
    case willCleared(ConnectionID, requestIdentifier: UInt64)
    /// A request that the dialect refused: the operation is unknown or its parameters are invalid.
    /// It is answered with this reason, in the order of the requests.
    case requestFaulted(
        ConnectionID, requestIdentifier: UInt64, ReasonCode, cause: LimitName = .none)
    /// A new credential for the connected user; it replaces the old one.
    case credentialPresented(ConnectionID, Claim)
    /// A new credential that the credential verifier found invalid.
    case credentialRefused(ConnectionID, ReasonCode)
    case disconnectReceived(ConnectionID, DisconnectRequest)
    /// A delivery cannot be encoded: its packet exceeds the client's maximum packet size.
    case deliveryTooLarge(ConnectionID, number: UInt64)
    /// All bytes that were written before ``Effect/awaitDrain(_:)`` have been passed to the socket.
    case outgoingDrained(ConnectionID)
    /// The peer violated the protocol or exceeded its keep-alive: the connection ends with this
    /// reason.
    case peerFaulted(ConnectionID, ReasonCode)
}

extension Event {
    /// The connection of the event.
    public var connection: ConnectionID {
        switch self {
        case .connectReceived(let connection, _), .connectionClosed(let connection, _),
            .sendReceived(let connection, _), .inboxAcknowledged(let connection, _),
            .resultsSeen(let connection, _), .packetAnswered(let connection, _, _, _),
            .subscribeReceived(let connection, _), .unsubscribeReceived(let connection, _),
            .presenceQueried(let connection, _, _), .groupRequested(let connection, _, _),
            .historyRequested(let connection, _, _), .conversationsRequested(let connection, _, _),
            .markReadRequested(let connection, _, _), .appliedReported(let connection, _, _),
            .recallRequested(let connection, _, _), .willSet(let connection, _, _),
            .willCleared(let connection, _),
            .requestFaulted(let connection, _, _, _), .credentialPresented(let connection, _),
            .credentialRefused(let connection, _), .disconnectReceived(let connection, _),
            .deliveryTooLarge(let connection, _), .outgoingDrained(let connection),
            .peerFaulted(let connection, _):
            connection
        }
    }

    /// Whether it is the last event of its connection.
    public var endsConnection: Bool {
        switch self {
        case .connectionClosed, .disconnectReceived, .peerFaulted: true
        case .connectReceived, .sendReceived, .inboxAcknowledged, .resultsSeen, .packetAnswered,
            .subscribeReceived, .unsubscribeReceived, .presenceQueried, .groupRequested,
            .historyRequested, .conversationsRequested, .markReadRequested, .appliedReported,
            .recallRequested, .willSet, .willCleared, .requestFaulted, .credentialPresented,
            .credentialRefused, .deliveryTooLarge, .outgoingDrained:
            false
        }
    }

    /// The effect of the event on the pending batch.
    public var batchEffect: BatchEffect {
        switch self {
        case .conversationsRequested(_, _, let request) where request.wantsMessages: .adds
        case .presenceQueried(_, let identifier, _), .conversationsRequested(_, let identifier, _),
            .requestFaulted(_, let identifier, _, _):
            // A publication of QoS 2 is stored, whatever it asks for.
            PublishedRequest(number: identifier)?.isOnce == true ? .adds : .none
        case .deliveryTooLarge, .outgoingDrained: .none
        case .packetAnswered(_, _, .release, _): .adds
        case .inboxAcknowledged, .resultsSeen, .packetAnswered: .settles
        case .sendReceived(_, let request):
            request.grade != .transient || request.isRetained ? .adds : .none
        case .connectReceived, .connectionClosed, .subscribeReceived, .unsubscribeReceived,
            .groupRequested, .historyRequested, .markReadRequested, .appliedReported,
            .recallRequested, .willSet, .willCleared,
            .credentialPresented, .credentialRefused, .disconnectReceived, .peerFaulted:
            .adds
        }
    }
}

/// The effect of an event on the pending batch.
public enum BatchEffect: Sendable {
    case none
    /// It removes an entry from the batch, or adds the removal of a stored one.
    case settles
    case adds
}

/// Why a connection ended: wills and logs depend on it.
public enum CloseCause: UInt8, Hashable, Sendable {
    /// The peer closed or reset the connection, or the network lost it.
    case lost
    /// No packet arrived for one and a half times the keep-alive.
    case keepAliveTimeout
    /// The peer did not read, and its outgoing buffer exceeded the limit.
    case outgoingOverflow
    /// The broker closed it. (The end of the process is no event: it ends no session.)
    case closedByBroker
}

/// The identity that a client claims, before the core has checked it.
public enum Claim: Hashable, Sendable {
    /// An opaque token: its public id and the SHA-256 of its secret.
    case token(identifier: ByteRange, digest: Digest)
    /// App id, SHA-256 of the app key, and the user that the client names.
    case appKey(app: ByteRange, digest: Digest, user: ByteRange)
    /// The listener admits the client without credentials. The client names its user, of the
    /// broker's anonymous app (development and conformance suites).
    case anonymous(user: ByteRange)
    /// An identity that the credential verifier has verified. It is in the list that `Broker.step`
    /// receives together with the event.
    case verified(TurnIdentities.Reference)
    /// A gateway has authenticated the user, on one of the channels of its connection.
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

/// The protocol of a session.
public enum SessionDialect: UInt8, Hashable, BitwiseCopyable, Sendable {
    case mrt = 1
    /// The same as MRT, with JSON in place of packets.
    case json = 2
    case mqtt3 = 3
    case mqtt5 = 5

    @inlinable
    public var isMQTT: Bool {
        switch self {
        case .mrt, .json: false
        case .mqtt3, .mqtt5: true
        }
    }
}

public struct ConnectRequest: Sendable {
    public var dialect: SessionDialect
    public var claim: Claim
    public var device: ByteRange
    /// The client sent an empty client id; the broker assigns one (MQTT).
    public var assignsDevice = false
    /// Discards the state of an earlier session.
    public var startsClean: Bool
    /// The login is automatic: no person requested it.
    public var isReconnect: Bool
    /// The session does not receive messages that history keeps for its user: it reads them there.
    public var pulls = false
    /// The client speaks LeanMessage, which apps open for their users.
    public var isOfLeanMessage = false
    /// Seconds; 0 if the client requests none.
    public var keepAliveSeconds: UInt32
    /// Seconds after the end of the connection; 0 ends the session with it, nil requests the
    /// default, `UInt32.max` no expiry.
    public var sessionExpirySeconds: UInt32?
    /// Maximum number of unacknowledged deliveries to the client.
    public var inboxWindow: UInt16
    private var ownPart: OwnPart
    /// Fresh random numbers for this connection: the session's epoch if it is new, and the cookie.
    public var newEpoch: UInt64
    public var newCookie: UInt64

    /// The fields that only one of the protocols has. The two share their memory: an event would be
    /// half as large again with both.
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
    /// The last inbox number that the receiver acknowledged, and its epoch (MRT).
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

    /// The connection's will, which is committed before the login is accepted (MQTT).
    public var will: WillRequest? {
        if case .mqtt(let will) = ownPart { will } else { nil }
    }

    /// Replaces the will by one with other ranges (MQTT).
    public mutating func setWill(_ will: WillRequest) {
        precondition(dialect.isMQTT, "a CONNECT of \(dialect) has no will")
        ownPart = .mqtt(will: will)
    }
}

/// A receiver's position in its inbox.
public struct InboxPosition: Hashable, Sendable {
    public var epoch: UInt64
    public var number: UInt64

    public init(epoch: UInt64, number: UInt64) {
        self.epoch = epoch
        self.number = number
    }
}

/// A sender's position in its outbox.
public struct OutboxPosition: Hashable, Sendable {
    public var epoch: UInt64
    /// The sender does not request results up to this number again.
    public var resultsSeen: UInt64
    /// The highest number ever sent under this epoch.
    public var highestUsed: UInt64

    public init(epoch: UInt64, resultsSeen: UInt64, highestUsed: UInt64) {
        self.epoch = epoch
        self.resultsSeen = resultsSeen
        self.highestUsed = highestUsed
    }
}

/// The receivers of a message.
public enum SendTarget: Hashable, Sendable {
    case user(ByteRange)
    /// `count` ids, one after the other, each as one length byte and its bytes.
    case users(ids: ByteRange, count: Int)
    case group(ByteRange)
    case everybody
    case topic(ByteRange)
}

extension SendTarget {
    /// How the message was addressed, for its receivers.
    var kind: MessageKind {
        switch self {
        case .user, .users: .unicast
        case .group: .group
        case .everybody: .broadcast
        case .topic: .topic
        }
    }

    /// The address for its receivers: the group or the topic.
    func address(in bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        switch self {
        case .group(let name), .topic(let name): name.bytes(in: bytes)
        case .user, .users, .everybody: ByteRange.empty.bytes(in: bytes)
        }
    }
}

public struct SendRequest: Sendable {
    // In the order that needs the least memory: an event has one or more of these (``Event``).

    /// The outbox number; 0 for a transient send, which has none, and in MQTT, where the broker
    /// assigns the number.
    public var number: UInt64
    public var target: SendTarget
    public var grade: Grade
    /// RETAIN is set: the message is stored as the last of its topic, for later subscribers (MQTT).
    public var isRetained = false
    private var keeping: Keeping = []
    /// The payload is arbitrary bytes; otherwise `t` as one byte and then `b`.
    public var isRaw: Bool
    /// Whether it may have asks, a late time, a priority, attributes or mentions: other sends pay
    /// for one comparison.
    public private(set) var isUnusual = false
    /// What the reason of ``fault`` does not tell.
    public var faultCause = LimitName.none
    /// Whether the message gets a reference: the sender asks for something, or it has a key.
    @inlinable
    public var needsReference: Bool { !asks.isEmpty || !collapseKey.isEmpty }
    /// What the sender asks for.
    public var asks: SendAsks = [] { didSet { isUnusual = true } }
    /// ``senderUnixMilliseconds`` is the time of a reading which the sender could not send earlier.
    public var isLate = false { didSet { isUnusual = true } }
    /// When a transient message is dropped for a client that reads slowly.
    public var priority = SendPriority.normal { didSet { isUnusual = true } }
    /// The key of ``collapseKey``, in the space that the alignment of the next property leaves.
    private var collapseKeyByteCount: UInt8 = 0
    private var collapseKeyOffset: UInt32 = 0
    /// Seconds until the message expires; nil for the age limit of queues.
    public var expirySeconds: UInt64?
    /// The fault that the dialect found in this send; the core refuses it with this reason.
    public var fault: ReasonCode?
    /// The packet identifier of a QoS 1 or 2 publication; 0 in MRT.
    public var packetIdentifier: UInt16 = 0
    /// Bytes of the minimal JSON form of a `t`/`b` payload, as the dialect counted them.
    public var messageByteCount: UInt32
    /// The sender's time in Unix milliseconds; 0 if there is none.
    public var senderUnixMilliseconds: UInt64
    /// A random number that becomes the message's reference, if the sender asks for anything; 0
    /// otherwise.
    public var reference: UInt64 = 0
    /// The application's id of the message; the result repeats it. Empty if there is none.
    public var messageIdentifier: ByteRange
    public var payload: ByteRange
    /// MQTT 5 properties that the message keeps.
    public var properties: ByteRange
    /// Keys and values beside the payload: each as one length byte and its bytes. The dialect has
    /// checked them.
    public var attributes = ByteRange.empty { didSet { isUnusual = true } }
    /// Whom a message to a group mentions.
    public var mentions = Mentions() { didSet { isUnusual = true } }

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

    /// Whether it is kept, in one byte.
    private struct Keeping: OptionSet {
        var rawValue: UInt8
        static let kept = Keeping(rawValue: 1)
        static let never = Keeping(rawValue: 2)
        static let only = Keeping(rawValue: 4)

        mutating func set(_ option: Keeping, to isSet: Bool) {
            if isSet { insert(option) } else { remove(option) }
        }
    }

    /// The message is kept in the conversation of its sender and its receivers.
    public var isKept: Bool {
        get { keeping.contains(.kept) }
        set { keeping.set(.kept, to: newValue) }
    }

    /// The message is kept nowhere, whatever its app and its group keep by default.
    public var isNeverKept: Bool {
        get { keeping.contains(.never) }
        set { keeping.set(.never, to: newValue) }
    }

    /// The message is kept only: nobody gets it, and its time is that of the sender.
    public var isUndelivered: Bool {
        get { keeping.contains(.only) }
        set { keeping.set(.only, to: newValue) }
    }

    /// An undelivered earlier message of the same sender to the same receivers with this key is
    /// withdrawn: 1 to 64 bytes with the rule of a message id; empty for none.
    public var collapseKey: ByteRange {
        get { ByteRange(offset: Int(collapseKeyOffset), count: Int(collapseKeyByteCount)) }
        set {
            collapseKeyOffset = newValue.offset
            collapseKeyByteCount = UInt8(newValue.count)
            isUnusual = true
        }
    }
}

/// A SUBSCRIBE, with all its filters.
public struct SubscribeRequest: Sendable {
    public enum Filters: Sendable {
        case one(FilterRequest)
        /// Of one MQTT packet, which has one answer.
        case list(FilterList)
    }

    public var requestIdentifier: UInt64
    public var filters: Filters
    /// Deliveries through the subscriptions contain it; 0 for none (MQTT 5).
    public var subscriptionIdentifier: UInt32
    /// Filters beyond ``CoreLimits/filtersPerPacketMaximum``, which are refused unread.
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
    /// The maximum grade of deliveries.
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

/// The options of a subscription besides its grade (MQTT 5 section 3.8.3.1). The lower four bits
/// are stored.
public struct SubscriptionOptions: OptionSet, Hashable, Sendable, BitwiseCopyable {
    public var rawValue: UInt8

    @inlinable
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The session does not receive its own messages.
    @inlinable
    public static var noLocal: SubscriptionOptions { SubscriptionOptions(rawValue: 1 << 0) }
    /// Deliveries have the RETAIN flag of the publication.
    @inlinable
    public static var retainsAsPublished: SubscriptionOptions {
        SubscriptionOptions(rawValue: 1 << 1)
    }
    /// Retained messages are sent only if the subscription is new.
    @inlinable
    public static var retainedIfNew: SubscriptionOptions { SubscriptionOptions(rawValue: 1 << 4) }
    /// Retained messages are not sent.
    @inlinable
    public static var withoutRetained: SubscriptionOptions {
        SubscriptionOptions(rawValue: 1 << 5)
    }

    /// Retained messages are still to be sent. Never in a request.
    static var awaitsReplay: SubscriptionOptions { SubscriptionOptions(rawValue: 1 << 6) }
    /// The subscriber that a shared subscription selected for this message. Never in a request.
    static var chosen: SubscriptionOptions { SubscriptionOptions(rawValue: 1 << 7) }

    /// The options that are stored.
    var stored: SubscriptionOptions {
        intersection([.noLocal, .retainsAsPublished, .awaitsReplay])
    }
}

/// An UNSUBSCRIBE, with all its filters.
public struct UnsubscribeRequest: Sendable {
    public enum Filters: Sendable {
        case one(ByteRange)
        /// Of one MQTT packet, which has one answer.
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
    /// A new expiry of the session, in seconds; nil keeps the granted one.
    public var sessionExpirySeconds: UInt32?
    /// The will is sent although the client disconnects.
    public var sendsWill: Bool

    public init(sessionExpirySeconds: UInt32? = nil, sendsWill: Bool = false) {
        self.sendsWill = sendsWill
        self.sessionExpirySeconds = sessionExpirySeconds
    }
}
