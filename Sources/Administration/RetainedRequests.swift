// Requests about retained messages.

/// Lists the retained messages of an app that match a topic filter, in no particular order. A topic
/// that has a retained message all the time is listed once.
public struct ListRetained: AdministrationRequest {
    public static let name = "retained.list"
    public var app: String
    /// A topic filter; nil for `#`.
    public var filter: String?
    /// Begins after this message, the `next` of the previous reply.
    public var after: UInt32?
    /// Messages in the reply; nil for ``countMaximum``.
    public var limit: Int?

    /// Messages in one reply, and fewer where topics are long.
    public static let countMaximum = 1_000

    public init(app: String, filter: String? = nil, after: UInt32? = nil, limit: Int? = nil) {
        self.app = app
        self.filter = filter
        self.after = after
        self.limit = limit
    }

    public struct Message: Codable, Hashable, Sendable {
        public var topic: String
        /// The user who published it.
        public var from: String
        /// The type; nil for bytes.
        public var t: UInt8?
        public var grade: SendMessage.Grade
        /// Bytes that count towards `limits.retainedBytesPerApp`, besides those of the topic tree.
        public var byteCount: Int
        /// The time of the publication.
        public var unixMilliseconds: UInt64
        /// Nil for a message that does not expire.
        public var expiresUnixSeconds: UInt64?

        public init(
            topic: String, from: String, t: UInt8?, grade: SendMessage.Grade, byteCount: Int,
            unixMilliseconds: UInt64, expiresUnixSeconds: UInt64?
        ) {
            self.topic = topic
            self.from = from
            self.t = t
            self.grade = grade
            self.byteCount = byteCount
            self.unixMilliseconds = unixMilliseconds
            self.expiresUnixSeconds = expiresUnixSeconds
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var messages: [Message]
        /// The message to continue with; nil at the end.
        public var next: UInt32?

        public init(messages: [Message], next: UInt32?) {
            self.messages = messages
            self.next = next
        }
    }
}

/// Shows the retained message of a topic with its content.
public struct ShowRetained: AdministrationRequest {
    public static let name = "retained.show"
    public var app: String
    public var topic: String

    /// Bytes of the content: as many as `limits.payloadMaximum` allows by default.
    public static let contentByteCountMaximum = 256 << 10

    public init(app: String, topic: String) {
        self.app = app
        self.topic = topic
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var message: ListRetained.Message
        public var content: StoredContent

        public init(message: ListRetained.Message, content: StoredContent) {
            self.message = message
            self.content = content
        }
    }
}

/// Deletes the retained messages that match a topic filter, at most ``countMaximum``. Subscribers
/// are sent nothing.
public struct DeleteRetained: AdministrationRequest {
    public static let name = "retained.delete"
    public var app: String
    public var filter: String

    /// Messages that one request deletes, with a commit for every thousand.
    public static let countMaximum = 10_000

    public init(app: String, filter: String) {
        self.app = app
        self.filter = filter
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var messageCount: Int
        /// Whether more match: the request is to be repeated.
        public var hasMore: Bool

        public init(messageCount: Int, hasMore: Bool) {
            self.messageCount = messageCount
            self.hasMore = hasMore
        }
    }
}
