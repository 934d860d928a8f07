// What the broker wants done, in the imperative and as plain data. Each event loop has a list of
// effects, in the order in which they must be carried out. Bytes and message blocks that they refer
// to lie in the loop's own arena, so that an effect outlives what it was made from.

import BrokerTerms
import Primitives

/// One thing to do on one connection.
public enum Effect: BitwiseCopyable, Sendable {
    case accept(ConnectionID, Acceptance)
    /// Tell why the connection is refused, then close it.
    case refuse(ConnectionID, ReasonCode, retryAfterSeconds: UInt32)
    case deliver(Delivery)
    case reportResult(SendResult)
    /// Nothing is read from a connection, until ``resumeReading(_:)``, because its client has too
    /// many answers to come.
    case pauseReading(ConnectionID)
    case resumeReading(ConnectionID)
    /// Answer what only clients of MRT ask.
    case mrt(MRTEffect)
    /// Answer what only clients of MQTT ask.
    case mqtt(MQTTEffect)
    /// Tell what became of a new credential.
    case answerCredential(ConnectionID, ReasonCode)
    /// Confirm the client's own disconnect, then close.
    case confirmDisconnect(ConnectionID)
    /// Come back with ``Event/outgoingDrained(_:)`` when the connection has taken everything that
    /// was written before this.
    case awaitDrain(ConnectionID)
    /// Tell the reason, then close.
    case close(ConnectionID, ReasonCode)
    case note(LogEvent)
}

/// The answers to requests, which MQTT does not have.
public enum MRTEffect: BitwiseCopyable, Sendable {
    /// Answer a request. `body` is the operation's result.
    case respond(ConnectionID, requestIdentifier: UInt64, ReasonCode, body: ByteRange)
    /// Tell whether a user is online, since when in Unix milliseconds, and on which devices:
    /// `count` names in a row, each one length byte and its bytes.
    case reportPresence(
        ConnectionID, requestIdentifier: UInt64, isOnline: Bool, sinceUnixMilliseconds: UInt64,
        devices: ByteRange, count: Int)
    /// Tell a page of a user's groups: each its id and its title, with one byte of length each, and
    /// one byte that is 1 for its owner.
    case reportGroups(
        ConnectionID, requestIdentifier: UInt64, hasMore: Bool, entries: ByteRange)
    case reportGroup(ConnectionID, requestIdentifier: UInt64, GroupReport)
}

/// The answers to packets with an identifier, which MRT does not have.
public enum MQTTEffect: BitwiseCopyable, Sendable {
    /// A step of the exchange about one publication, of either direction.
    case answerPacket(PacketAnswer)
    /// Tell what became of the filters of a SUBSCRIBE or an UNSUBSCRIBE.
    case answerFilters(FilterAnswer)
}

/// What a client is told when it is let in.
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
    /// What becomes of a refused publication: see ``AppPolicy/acknowledgesRefused``.
    public var acknowledgesRefused = false
    /// The authenticated user, in the event loop's bytes.
    public var user: ByteRange
    /// The device that the broker thought of, in the event loop's bytes; empty where the client
    /// named one.
    public var assignedDevice = ByteRange.empty
}

/// What a group is, and a page of its members. Ranges are in the event loop's bytes.
public struct GroupReport: Hashable, BitwiseCopyable, Sendable {
    public var hasAllowList: Bool
    /// Whether the asking user owns it.
    public var isOwn: Bool
    public var hasMoreMembers: Bool
    /// Members in all.
    public var memberCount: UInt32
    public var owner: ByteRange
    public var title: ByteRange
    public var meta: ByteRange
    /// Ids in a row, each one length byte and its bytes.
    public var members: ByteRange
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
    /// How it is put on the wire.
    public var dialect: SessionDialect
    /// In MQTT; 0 for a transient delivery.
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
}

/// What became of a send.
public struct SendResult: Hashable, BitwiseCopyable, Sendable {
    public var connection: ConnectionID
    /// The outbox number; 0 for a transient send that was refused.
    public var number: UInt64
    public var reason: ReasonCode
    /// The application's id, in the event loop's bytes; empty where none was given.
    public var messageIdentifier: ByteRange
    /// Receivers that were refused, named or only counted.
    public var refusedCount: UInt32
    /// ``Refusal`` values in the event loop's `refusals`.
    public var firstRefusal: UInt32
    public var namedRefusalCount: UInt32
}

/// What became of the filters of one packet (MQTT).
public struct FilterAnswer: Hashable, BitwiseCopyable, Sendable {
    /// What asked for it.
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
    /// Its place in the sender's list, from 0.
    public var index: UInt32
    public var reason: ReasonCode
}

/// Something an operator wants to read in the log.
public struct LogEvent: Hashable, BitwiseCopyable, Sendable {
    public enum Kind: UInt8, Hashable, BitwiseCopyable, Sendable {
        case connected
        case connectRefused
        case disconnected
        case takenOver
        /// A second device bears the name of a connected one and was not let in.
        case duplicateLogin
        case sendRefused
        case subscribeRefused
        case presenceRefused
        case sessionExpired
        /// A will that was due is not sent, or not to these receivers.
        case willRefused
        /// A queue at its limit: one receiver of a send does not get it.
        case receiverRefused
        /// A request about groups met a limit.
        case requestRefused
    }

    public var kind: Kind
    public var connection: ConnectionID
    public var reason: ReasonCode
    /// User and device, in the event loop's bytes.
    public var user: ByteRange
    public var device: ByteRange
    /// Whom or what it was about, in the event loop's bytes.
    public var subject: ByteRange
    /// Another connection it was about: the second of two that want one session.
    public var other: ConnectionID
    /// The limit that was reached, where one was.
    public var limit = LimitName.none

    /// Whether ``other`` means somebody.
    public var isAboutTwo: Bool { other != .none }
}

extension Effect {
    /// The connection it is about.
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
    /// The connection that asked.
    public var connection: ConnectionID {
        switch self {
        case .respond(let connection, _, _, _), .reportPresence(let connection, _, _, _, _, _),
            .reportGroups(let connection, _, _, _), .reportGroup(let connection, _, _):
            connection
        }
    }
}

extension MQTTEffect {
    /// The connection that asked.
    public var connection: ConnectionID {
        switch self {
        case .answerPacket(let answer): answer.connection
        case .answerFilters(let answer): answer.connection
        }
    }
}
