// The core's output, as plain data: what the event loops must do. Each event loop has a list of
// effects, in the order in which they must be carried out. Bytes and message blocks that they refer
// to are in the loop's arena, so that an effect does not depend on the input it was made from.

import BrokerTerms
import Primitives

/// One action on one connection.
public enum Effect: BitwiseCopyable, Sendable {
    case accept(ConnectionID, Acceptance)
    /// Refuse the login with this reason, then close the connection.
    case refuse(ConnectionID, ReasonCode, retryAfterSeconds: UInt32)
    case deliver(Delivery)
    case reportResult(SendResult)
    /// Stop reading from a connection until ``resumeReading(_:)``: its client has too many
    /// publications without an answer.
    case pauseReading(ConnectionID)
    case resumeReading(ConnectionID)
    /// An answer to a request.
    case mrt(MRTEffect)
    /// An answer that only MQTT has.
    case mqtt(MQTTEffect)
    /// Report the result of a new credential.
    case answerCredential(ConnectionID, ReasonCode)
    /// Confirm the client's own disconnect, then close.
    case confirmDisconnect(ConnectionID)
    /// Report ``Event/outgoingDrained(_:)`` when all bytes that were written before this effect
    /// have been passed to the socket.
    case awaitDrain(ConnectionID)
    /// Send the reason, then close the connection.
    case close(ConnectionID, ReasonCode)
    case note(LogEvent)
}

/// The answers to requests. MQTT has no packet for them: its clients get them as publications.
public enum MRTEffect: BitwiseCopyable, Sendable {
    /// Answer a request. `body` is the operation's result, or the text of a failure.
    case respond(ConnectionID, requestIdentifier: UInt64, ReasonCode, body: ByteRange)
    /// Report what became of a recall or a replacement, which ``RecallAnswer/init(decoding:)``
    /// reads.
    case reportRecall(ConnectionID, requestIdentifier: UInt64, answer: ByteRange)
    /// Report the id of a wake target that was set.
    case reportWakeTarget(ConnectionID, requestIdentifier: UInt64, target: UInt64)
    /// Report the wake targets of a user, in the form of MRT.
    case reportWakeTargets(ConnectionID, requestIdentifier: UInt64, entries: ByteRange)
    /// Report whether a user is online, since when in Unix milliseconds, and on which devices:
    /// `count` names, each as one length byte and its bytes.
    case reportPresence(
        ConnectionID, requestIdentifier: UInt64, isOnline: Bool, sinceUnixMilliseconds: UInt64,
        devices: ByteRange, count: Int)
    /// Report a page of a user's groups: for each its id and its title, each after one length byte,
    /// and one byte that is 1 if the user owns it.
    case reportGroups(
        ConnectionID, requestIdentifier: UInt64, hasMore: Bool, entries: ByteRange)
    case reportGroup(ConnectionID, requestIdentifier: UInt64, GroupReport)
    case reportGroupHistory(ConnectionID, requestIdentifier: UInt64, GroupHistoryReport)
    /// Report a page of a conversation, whose messages ``HistoryEntry/read(_:in:)`` reads. The next
    /// page begins before the number `next`, which is 0 at the end.
    ///
    /// - Parameters:
    ///   - hasFields: whether the answer has the fields of the messages.
    ///   - isTopic: whether it is of a topic, whose messages may be raw.
    case reportHistory(
        ConnectionID, requestIdentifier: UInt64, next: UInt64, entries: ByteRange,
        hasFields: Bool, isTopic: Bool)
    /// Report a page of a user's conversations, which ``ConversationEntry/read(_:in:)`` reads. The
    /// next page begins after the place `next`, which is 0 at the end.
    case reportConversations(
        ConnectionID, requestIdentifier: UInt64, next: UInt64, entries: ByteRange)
}

/// The answers to packets with an identifier, which MRT does not have.
public enum MQTTEffect: BitwiseCopyable, Sendable {
    /// A step of the exchange about one publication, of either direction.
    case answerPacket(PacketAnswer)
    /// Report the result of each filter of a SUBSCRIBE or an UNSUBSCRIBE.
    case answerFilters(FilterAnswer)
    /// Forget a request that repeats one by its publication: it is not carried out and has no
    /// reply.
    case dropReply(ConnectionID, requestIdentifier: UInt64)
}

/// The contents of CONNACK.
public struct Acceptance: Hashable, BitwiseCopyable, Sendable {
    public var isSessionPresent: Bool
    public var hasWill: Bool
    public var epoch: UInt64
    public var cookie: UInt64
    public var unixMilliseconds: UInt64
    public var keepAliveSeconds: UInt32
    public var sessionExpirySeconds: UInt32
    public var sendWindow: UInt16
    public var inboxWindow: UInt16
    public var messageMaximum: UInt32
    public var payloadMaximum: UInt32
    /// Whether refused publications are acknowledged: see ``AppPolicy/acknowledgesRefused``.
    public var acknowledgesRefused = false
    /// Conversations with unread messages, at most ``CoreLimits/unreadCountMaximum``; nil for a
    /// session that does not pull.
    public var unreadCount: UInt8?
    /// The authenticated user, in the event loop's bytes.
    public var user: ByteRange
    /// The device id that the broker assigned, in the event loop's bytes; empty if the client named
    /// one.
    public var assignedDevice = ByteRange.empty
}

/// The description of a group, with a page of its members. Ranges are in the event loop's bytes.
public struct GroupReport: Hashable, BitwiseCopyable, Sendable {
    public var hasAllowList: Bool
    /// Whether the requesting user owns it.
    public var isOwn: Bool
    public var hasMoreMembers: Bool
    /// The number of all members.
    public var memberCount: UInt32
    public var owner: ByteRange
    public var title: ByteRange
    public var meta: ByteRange
    /// Ids, each as one length byte and its bytes.
    public var members: ByteRange
}

/// What a group keeps.
public struct GroupHistoryReport: Hashable, BitwiseCopyable, Sendable {
    public var history: GroupHistory
    /// The number of its newest kept message; 0 if there was none.
    public var lastNumber: UInt64
    /// Whether the request wanted the newest message.
    public var wantsMessage = false
    /// The newest message as ``HistoryEntry/read(_:in:)`` reads it, in the event loop's bytes;
    /// empty if there is none.
    public var newest = ByteRange.empty
}

/// One message for one receiver.
public struct Delivery: Hashable, BitwiseCopyable, Sendable {
    public var connection: ConnectionID
    /// The inbox number; 0 for a transient delivery.
    public var number: UInt64
    /// Index into the event loop's publications.
    public var publication: UInt32
    public var grade: Grade
    public var options: EntryOptions
    /// The protocol in which it is encoded.
    public var dialect: SessionDialect
    /// The packet identifier in MQTT; 0 for a transient delivery.
    public var packetIdentifier: UInt16
    /// 0 for none; from ``EntryState/severalIdentifiers`` on, that and an index into the loop's
    /// `identifierLists`.
    public var subscriptionIdentifier: UInt32

    /// Where the identifiers are if there are several.
    @inlinable
    public var identifierList: Int? {
        subscriptionIdentifier < EntryState.severalIdentifiers
            ? nil : Int(subscriptionIdentifier - EntryState.severalIdentifiers)
    }

    @inlinable
    public init(
        connection: ConnectionID, number: UInt64, publication: UInt32, grade: Grade,
        options: EntryOptions = [], dialect: SessionDialect = .mrt, packetIdentifier: UInt16 = 0,
        subscriptionIdentifier: UInt32 = 0
    ) {
        self.dialect = dialect
        self.connection = connection
        self.number = number
        self.publication = publication
        self.grade = grade
        self.options = options
        self.packetIdentifier = packetIdentifier
        self.subscriptionIdentifier = subscriptionIdentifier
    }
}

/// A message that deliveries of the same event loop refer to.
public struct Publication: Hashable, BitwiseCopyable, Sendable {
    /// The message block, in the event loop's bytes.
    public var block: ByteRange
    public var deadline: Instant
    var stamp: UInt64 = 0

    /// When the message was accepted, by the clock of ``Broker/noteTime(nanoseconds:)``; nil for
    /// one that is not sent as it was accepted, such as one that waited in the store.
    public var acceptedNanoseconds: UInt64? { Identifiers.acceptedNanoseconds(of: stamp) }
}

/// The result of a send.
public struct SendResult: Hashable, BitwiseCopyable, Sendable {
    public var connection: ConnectionID
    /// The outbox number; 0 for a transient send that was refused.
    public var number: UInt64
    public var reason: ReasonCode
    /// What the reason of a refusal does not tell.
    public var cause = LimitName.none
    /// The application's id, in the event loop's bytes; empty if there is none.
    public var messageIdentifier: ByteRange
    /// The message's reference, if its sender asked for it; 0 for none.
    public var reference: UInt64 = 0
    /// The number of refused receivers, including those that are not named.
    public var refusedCount: UInt32
    /// ``Refusal`` values in the event loop's `refusals`.
    public var firstRefusal: UInt32
    public var namedRefusalCount: UInt32
}

/// The results of the filters of one packet (MQTT).
public struct FilterAnswer: Hashable, BitwiseCopyable, Sendable {
    /// The kind of the packet.
    public enum Request: UInt8, Hashable, BitwiseCopyable, Sendable {
        case subscribe
        case unsubscribe
    }

    public var connection: ConnectionID
    public var request: Request
    public var requestIdentifier: UInt64
    /// A code for each filter, in the event loop's bytes.
    public var codes: ByteRange

    public init(
        connection: ConnectionID, request: Request, requestIdentifier: UInt64, codes: ByteRange
    ) {
        self.connection = connection
        self.request = request
        self.requestIdentifier = requestIdentifier
        self.codes = codes
    }
}

/// One receiver of a list that was refused.
public struct Refusal: Hashable, BitwiseCopyable, Sendable {
    /// Its position in the sender's list, from 0.
    public var index: UInt32
    public var reason: ReasonCode
}

/// An event for the log.
public struct LogEvent: Hashable, BitwiseCopyable, Sendable {
    public enum Kind: UInt8, Hashable, BitwiseCopyable, Sendable {
        case connected
        case connectRefused
        case disconnected
        case takenOver
        /// A login on a device that is connected; it was refused (MRT) or waits (MQTT).
        case duplicateLogin
        case sendRefused
        case subscribeRefused
        case presenceRefused
        case sessionExpired
        /// A will that was due was not sent, or not to these receivers.
        case willRefused
        /// A full queue refused a message for one receiver of a send.
        case receiverRefused
        /// A request was refused for a cause that its reason code does not tell.
        case requestRefused
    }

    public var kind: Kind
    public var connection: ConnectionID
    public var reason: ReasonCode
    /// User and device, in the event loop's bytes.
    public var user: ByteRange
    public var device: ByteRange
    /// The object of the event, such as a topic or a user, in the event loop's bytes. Of a login,
    /// what ``loginSubject(app:credential:)`` makes; of a refused login, the device that its
    /// credential is bound to if the client's is another; of a session that expires, the number of
    /// messages in its queue.
    public var subject: ByteRange
    /// The second connection of the event: of two logins for one session, the later one.
    public var other: ConnectionID
    /// The limit or the rule that caused a refusal, if its code does not tell.
    public var limit = LimitName.none

    /// The app of a login, and the kind and the name of its credential, each on a line. Names of
    /// apps and kinds have no line feed.
    static func loginSubject(app: [UInt8], credential: CredentialDescription?) -> [UInt8] {
        let feed = UInt8(ascii: "\n")
        return app + [feed] + Array((credential?.kindName ?? "").utf8) + [feed]
            + (credential?.name ?? [])
    }

    /// Whether ``other`` is set.
    public var isAboutTwo: Bool { other != .none }
}

extension Effect {
    /// The connection of the effect.
    public var connection: ConnectionID {
        switch self {
        case .accept(let connection, _), .refuse(let connection, _, _),
            .answerCredential(let connection, _), .confirmDisconnect(let connection),
            .awaitDrain(let connection), .close(let connection, _),
            .pauseReading(let connection), .resumeReading(let connection):
            connection
        case .deliver(let delivery): delivery.connection
        case .reportResult(let result): result.connection
        case .mrt(let effect): effect.connection
        case .mqtt(let effect): effect.connection
        case .note(let note): note.connection
        }
    }
}

extension MRTEffect {
    /// The connection that sent the request.
    public var connection: ConnectionID {
        switch self {
        case .respond(let connection, _, _, _), .reportPresence(let connection, _, _, _, _, _),
            .reportGroups(let connection, _, _, _), .reportGroup(let connection, _, _),
            .reportGroupHistory(let connection, _, _),
            .reportHistory(let connection, _, _, _, _, _), .reportRecall(let connection, _, _),
            .reportWakeTarget(let connection, _, _), .reportWakeTargets(let connection, _, _),
            .reportConversations(let connection, _, _, _):
            connection
        }
    }

    /// The number of the request.
    public var requestIdentifier: UInt64 {
        switch self {
        case .respond(_, let identifier, _, _), .reportPresence(_, let identifier, _, _, _, _),
            .reportGroups(_, let identifier, _, _), .reportGroup(_, let identifier, _),
            .reportGroupHistory(_, let identifier, _),
            .reportHistory(_, let identifier, _, _, _, _), .reportRecall(_, let identifier, _),
            .reportWakeTarget(_, let identifier, _), .reportWakeTargets(_, let identifier, _),
            .reportConversations(_, let identifier, _, _):
            identifier
        }
    }
}

extension MQTTEffect {
    /// The connection that sent the request.
    public var connection: ConnectionID {
        switch self {
        case .answerPacket(let answer): answer.connection
        case .answerFilters(let answer): answer.connection
        case .dropReply(let connection, _): connection
        }
    }
}
