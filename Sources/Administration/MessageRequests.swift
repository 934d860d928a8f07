// An operator's request to send a message, and its reply.

import FoundationEssentials

/// Sends a message as a user. The reply follows when every receiver with a persistent session has
/// acknowledged it, or has it on disk.
public struct SendMessage: AdministrationRequest {
    public static let name = "message.send"
    public var app: String
    /// The user whom receivers see as the sender. The user exists, and need not be connected.
    public var from: String

    // One of these is given.

    /// All devices of these users, at most 256.
    public var users: [String]?
    /// The members of a group that `from` is in.
    public var group: String?
    public var topic: String?
    /// True for every session of the app.
    public var everybody: Bool?

    // One of these is given.

    /// A text, which receivers get with the type ``t``.
    public var b: String?
    /// Bytes as text; only to a topic.
    public var payload: String?
    /// Bytes in base64 (RFC 4648, section 4); only to a topic.
    public var base64: String?
    /// The media type of ``payload`` or ``base64``, which receivers of MQTT 5 see; nil for none.
    /// At most ``contentTypeByteCountMaximum`` bytes.
    public var contentType: String?

    /// The type of ``b``; 0 if absent.
    public var t: UInt8?
    /// ``Grade/durable`` if absent.
    public var grade: Grade?
    /// Seconds after which the message is discarded; nil for as long as queues keep messages.
    public var expirySeconds: UInt64?
    /// The application's own id, which the reply repeats: 1 to ``identifierByteCountMaximum``
    /// bytes.
    public var mid: String?
    /// Whether it becomes the retained message of its topic.
    public var isRetained: Bool?
    /// Whether it is kept in the conversation of `from` and its receivers; to users or a group.
    public var isKept: Bool?
    /// False for a message that is only kept, and delivered to nobody.
    public var isDelivered: Bool?
    /// When the message was made. The broker uses it if it is at most 5 s from its own clock, and
    /// for a message that is late or only kept also if it is older.
    public var unixMilliseconds: UInt64?
    /// Whether ``unixMilliseconds`` is that of a reading which could not be sent earlier; used up
    /// to the age that messages may have.
    public var isLate: Bool?
    /// Keys with values beside the content: at most 16, and 512 bytes of all keys and values.
    public var attributes: [String: String]?
    /// Members of ``group`` whom the message mentions, at most 256; whoever is no member is
    /// ignored.
    public var mentions: [String]?
    /// Whether the message mentions all members.
    public var mentionsAll: Bool?
    /// Whether only those members get the message whom it mentions.
    public var onlyMentioned: Bool?
    /// When a message of grade transient is dropped for a client that reads slowly.
    public var priority: Priority?
    /// False for a message that wakes nobody of whom no device is connected.
    public var wakes: Bool?
    /// The text of a JSON object for the relay that wakes receivers, at most 4,096 bytes.
    public var push: String?
    /// The receipts that `from` gets as messages: `delivered` when a device of a receiver has
    /// acknowledged it, `applied` when a receiver tells that it applied it.
    public var receipts: [String]?
    /// Whether the reply has the message's reference, as it does with ``receipts``.
    public var asksReference: Bool?
    /// A key, 1 to ``identifierByteCountMaximum`` bytes: an earlier message of `from` with it to
    /// the same receivers is removed from the queues that still have it. The message has a
    /// reference.
    public var collapse: String?

    /// Maximum bytes of ``contentType``: a type and a subtype of 127 bytes each (RFC 6838, 4.2)
    /// and the slash; those in use have fewer than 100 with their parameters. Each stored message
    /// keeps it.
    public static let contentTypeByteCountMaximum = 255

    /// Maximum bytes of ``mid``, as over MRT and MQTT.
    public static let identifierByteCountMaximum = 64

    /// How often a message arrives.
    public enum Grade: String, Codable, Hashable, Sendable, CaseIterable {
        /// At most once, at the receivers that are connected.
        case transient
        /// At least once.
        case durable
        /// Exactly once.
        case once
    }

    /// The order in which messages of grade transient are dropped for a client that reads slowly.
    public enum Priority: String, Codable, Hashable, Sendable, CaseIterable {
        case low, normal, high
    }

    public init(
        app: String, from: String, users: [String]? = nil, group: String? = nil,
        topic: String? = nil, everybody: Bool? = nil, b: String? = nil, payload: String? = nil,
        base64: String? = nil, contentType: String? = nil, t: UInt8? = nil, grade: Grade? = nil,
        expirySeconds: UInt64? = nil, mid: String? = nil, isRetained: Bool? = nil,
        isKept: Bool? = nil, isDelivered: Bool? = nil, unixMilliseconds: UInt64? = nil,
        receipts: [String]? = nil, asksReference: Bool? = nil
    ) {
        self.app = app
        self.from = from
        self.users = users
        self.group = group
        self.topic = topic
        self.everybody = everybody
        self.b = b
        self.payload = payload
        self.base64 = base64
        self.contentType = contentType
        self.t = t
        self.grade = grade
        self.expirySeconds = expirySeconds
        self.mid = mid
        self.isRetained = isRetained
        self.isKept = isKept
        self.isDelivered = isDelivered
        self.unixMilliseconds = unixMilliseconds
        self.receipts = receipts
        self.asksReference = asksReference
    }

    /// Who receives the message.
    public enum Receivers: Hashable, Sendable {
        case users([String])
        case group(String)
        case topic(String)
        case everybody
    }

    /// Who receives the message.
    ///
    /// - Throws: a refusal unless exactly one kind of receiver is given.
    public func receivers() throws(AdministrationRefusal) -> Receivers {
        let given: [Receivers?] = [
            users.map { .users($0) }, group.map { .group($0) }, topic.map { .topic($0) },
            everybody == true ? .everybody : nil,
        ]
        let receivers = given.compactMap { $0 }
        guard receivers.count == 1 else {
            throw .malformed(
                "\(receivers.isEmpty ? "missing receiver" : "several kinds of receivers"): exactly "
                    + "one of users, group, topic and everybody")
        }
        if isKept == true {
            guard users != nil || group != nil else {
                throw .malformed("isKept: only messages to users and groups are kept")
            }
            guard grade != .transient else {
                throw .malformed("isKept: a message of grade transient is not kept")
            }
        }
        return receivers[0]
    }

    /// The payload.
    public enum Content: Hashable, Sendable {
        case message(type: UInt8, text: String)
        case bytes([UInt8])
    }

    /// The payload.
    ///
    /// - Throws: a refusal unless exactly one kind of payload is given, which fits the receivers.
    public func content() throws(AdministrationRefusal) -> Content {
        guard [b, payload, base64].count(where: { $0 != nil }) == 1 else {
            throw .malformed("missing content: one of b, payload and base64")
        }
        if let contentType {
            guard b == nil else {
                throw .malformed("contentType is the one of payload or base64, which are absent")
            }
            guard (1...Self.contentTypeByteCountMaximum).contains(contentType.utf8.count) else {
                throw .malformed(
                    "contentType has 1 to \(Self.contentTypeByteCountMaximum) bytes")
            }
        }
        if let b { return .message(type: t ?? 0, text: b) }
        if t != nil { throw .malformed("t is the type of b, which is absent") }
        guard topic != nil else {
            throw .malformed("payload and base64 need a topic; users and groups receive b")
        }
        if let payload { return .bytes(Array(payload.utf8)) }
        guard let bytes = Data(base64Encoded: base64 ?? "") else {
            throw .malformed("base64 is not base64: RFC 4648, section 4")
        }
        return .bytes(Array(bytes))
    }

    /// A receiver of a list that did not get the message.
    public struct Refusal: Codable, Hashable, Sendable {
        public var user: String
        /// A reason code, 0x80 or higher.
        public var reason: UInt8

        public init(user: String, reason: UInt8) {
            self.user = user
            self.reason = reason
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// Sessions and offline queues that took the message; 0 if nobody listens.
        public var receiverCount: Int
        /// Sessions and offline queues that refused it, for example because they are full.
        public var refusedCount: Int
        /// The refused users of `users`.
        public var refused: [Refusal]
        /// The application's id of the message; nil if it has none.
        public var mid: String?
        /// 16 hexadecimal digits by which receipts and a recall name the message; nil if it asked
        /// for none and has no ``SendMessage/collapse``.
        public var reference: String?
        /// The number of the kept message in its only conversation; nil if it is not kept. It is
        /// not in the line.
        public var keptNumber: UInt64?
        /// The code of a moderator that changed the message, from 0; nil for a message as it was
        /// sent.
        public var verdict: UInt32?

        private enum CodingKeys: String, CodingKey {
            case receiverCount, refusedCount, refused, mid, reference, verdict
        }

        public init(
            receiverCount: Int, refusedCount: Int, refused: [Refusal], mid: String? = nil,
            reference: String? = nil
        ) {
            self.reference = reference
            self.receiverCount = receiverCount
            self.refusedCount = refusedCount
            self.refused = refused
            self.mid = mid
        }
    }
}
