// Requests about the messages of one queue.

import FoundationEssentials

/// Lists messages that wait in a queue, in the order of their numbers. Expired messages are not
/// listed, although the queue counts them until the broker has removed them.
public struct ListQueueMessages: AdministrationRequest {
    public static let name = "queue.messages"
    public var app: String
    public var user: String
    /// The device whose session has the queue; nil for the user's offline queue.
    public var device: String?
    /// Whether the reply has the contents of the messages.
    public var hasContents: Bool
    /// Begins after this number, the `next` of the previous reply.
    public var after: UInt64?
    /// Messages in the reply; nil for ``countMaximum``.
    public var limit: Int?

    /// Messages in one reply: the store reads them between two commits.
    public static let countMaximum = 100
    /// Bytes of each message's content. With escapes and base64 the contents of a reply remain
    /// below ``AdministrationLine/replyByteCountMaximum``, because the store reads at most 256 KiB
    /// for it, or one message.
    public static let contentByteCountMaximum = 16 << 10

    public init(
        app: String, user: String, device: String? = nil, hasContents: Bool, after: UInt64? = nil,
        limit: Int? = nil
    ) {
        self.app = app
        self.user = user
        self.device = device
        self.hasContents = hasContents
        self.after = after
        self.limit = limit
    }

    public struct Message: Codable, Hashable, Sendable {
        /// Its number in the queue.
        public var number: UInt64
        /// The user who sent it.
        public var from: String
        public var kind: Kind
        public var topic: String?
        public var groupid: String?
        /// The type; nil for bytes of a topic and for events.
        public var t: UInt8?
        public var grade: SendMessage.Grade
        /// Bytes that count towards the limit of the queue.
        public var byteCount: UInt32
        /// The time of the send.
        public var unixMilliseconds: UInt64
        /// Nil for a message that does not expire.
        public var expiresUnixSeconds: UInt64?
        /// Whether its delivery has begun and is not acknowledged: it cannot be dropped.
        public var isUnderWay: Bool
        /// Nil if the request has no ``ListQueueMessages/hasContents``.
        public var content: StoredContent?

        public init(
            number: UInt64, from: String, kind: Kind, topic: String?, groupid: String?, t: UInt8?,
            grade: SendMessage.Grade, byteCount: UInt32, unixMilliseconds: UInt64,
            expiresUnixSeconds: UInt64?, isUnderWay: Bool, content: StoredContent?
        ) {
            self.number = number
            self.from = from
            self.kind = kind
            self.topic = topic
            self.groupid = groupid
            self.t = t
            self.grade = grade
            self.byteCount = byteCount
            self.unixMilliseconds = unixMilliseconds
            self.expiresUnixSeconds = expiresUnixSeconds
            self.isUnderWay = isUnderWay
            self.content = content
        }
    }

    /// How a message was addressed, or what it reports.
    public enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
        case topic, user, group, everybody
        /// The receiver was kicked out of the group.
        case kicked
        case groupEvent, presence
        /// What receivers did with a message of the user.
        case receipt
        /// A message that the receiver may have was recalled or changed.
        case recall, update
        /// An event of the broker for a relay.
        case brokerEvent
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// There may be none although the queue has more, if all that were read have expired.
        public var messages: [Message]
        /// The number to continue with; nil at the end.
        public var next: UInt64?

        public init(messages: [Message], next: UInt64?) {
            self.messages = messages
            self.next = next
        }
    }
}

/// The content of a message, without its type.
public struct StoredContent: Codable, Hashable, Sendable {
    /// In base64 (RFC 4648, section 4).
    public var base64: String
    /// The same as text; nil if it is not UTF-8.
    public var text: String?
    /// The size of the whole content.
    public var byteCount: Int
    /// Whether only the first bytes are here.
    public var isCut: Bool

    /// - Parameter bytes: the whole content of `byteCount` bytes, or its first bytes.
    public init(_ bytes: [UInt8], of byteCount: Int) {
        base64 = Data(bytes).base64EncodedString()
        isCut = bytes.count < byteCount
        self.byteCount = byteCount
        // The cut may be within a character, which has at most four bytes.
        for missing in 0...(isCut ? min(3, bytes.count) : 0) {
            text = String(validating: bytes.dropLast(missing), as: UTF8.self)
            if text != nil { return }
        }
    }
}

/// Removes one message from a queue. Its receiver sees a gap in the numbers, as if it had expired.
/// Refused for a message whose delivery has begun; a session that is disconnected may be sent it
/// again, and then it can be dropped.
public struct DropQueueMessage: AdministrationRequest {
    public static let name = "queue.drop"
    public var app: String
    public var user: String
    /// As for ``ListQueueMessages/device``.
    public var device: String?
    public var number: UInt64

    public init(app: String, user: String, device: String? = nil, number: UInt64) {
        self.app = app
        self.user = user
        self.device = device
        self.number = number
    }

    public struct Reply: Codable, Hashable, Sendable {
        public init() {}
    }
}
