// Requests about conversations and their kept messages.

/// Lists the conversations of a user that have kept messages, in the order in which they began.
public struct ListConversations: AdministrationRequest {
    public static let name = "conversation.list"
    public var app: String
    public var user: String
    /// Whether only conversations with unread messages are listed.
    public var isUnreadOnly: Bool?
    /// Continues after this place, the `next` of the previous reply.
    public var after: UInt64?
    /// Conversations of the reply; nil for ``countMaximum``.
    public var limit: Int?
    /// Whether the newest message of each is told too, of at most ``messagesMaximum``.
    public var hasMessages: Bool?

    /// Conversations of one reply.
    public static let countMaximum = 1_000
    /// Conversations of one reply with messages: the store reads them between two commits.
    public static let messagesMaximum = 100

    public init(
        app: String, user: String, isUnreadOnly: Bool? = nil, after: UInt64? = nil,
        limit: Int? = nil, hasMessages: Bool? = nil
    ) {
        self.app = app
        self.user = user
        self.isUnreadOnly = isUnreadOnly
        self.after = after
        self.limit = limit
        self.hasMessages = hasMessages
    }

    public struct Conversation: Codable, Hashable, Sendable {
        // The other party: a user, or a group.

        public var user: String?
        public var groupid: String?
        /// The number of the newest message.
        public var lastNumber: UInt64
        /// The user has read up to this number; 0 if nothing.
        public var readThrough: UInt64
        /// Unread messages of others.
        public var unreadCount: UInt64
        /// The newest message, if it was requested and there is one.
        public var lastMessage: ListHistory.Message?

        public init(
            user: String?, groupid: String?, lastNumber: UInt64, readThrough: UInt64,
            unreadCount: UInt64, lastMessage: ListHistory.Message? = nil
        ) {
            self.lastMessage = lastMessage
            self.user = user
            self.groupid = groupid
            self.lastNumber = lastNumber
            self.readThrough = readThrough
            self.unreadCount = unreadCount
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// There may be none although there are more, if none that were examined are selected.
        public var conversations: [Conversation]
        /// The place to continue after; nil at the end.
        public var next: UInt64?

        public init(conversations: [Conversation], next: UInt64?) {
            self.conversations = conversations
            self.next = next
        }
    }
}

/// Lists kept messages of a conversation, from newer ones to older ones.
public struct ListHistory: AdministrationRequest {
    public static let name = "history.list"
    public var app: String

    // The conversation: two users, a group, or a topic.

    public var user: String?
    /// The other user, or the same one for messages to oneself.
    public var with: String?
    public var groupid: String?
    /// A topic whose publications the app keeps.
    public var topic: String?

    /// Begins before this number, the `next` of the previous reply.
    public var before: UInt64?
    /// Messages that are read for the reply; nil for ``countMaximum``.
    public var limit: Int?
    /// Only messages whose content contains this text.
    public var search: String?
    /// Only messages that this user sent.
    public var from: String?
    /// Only messages of this time or later.
    public var sinceUnixMilliseconds: UInt64?
    /// Only messages before this time.
    public var untilUnixMilliseconds: UInt64?

    /// Messages that are read for one reply: the store reads them between two commits.
    public static let countMaximum = 100

    public init(
        app: String, user: String? = nil, with: String? = nil, groupid: String? = nil,
        topic: String? = nil, before: UInt64? = nil, limit: Int? = nil, search: String? = nil,
        from: String? = nil,
        sinceUnixMilliseconds: UInt64? = nil, untilUnixMilliseconds: UInt64? = nil
    ) {
        self.app = app
        self.user = user
        self.with = with
        self.groupid = groupid
        self.topic = topic
        self.before = before
        self.limit = limit
        self.search = search
        self.from = from
        self.sinceUnixMilliseconds = sinceUnixMilliseconds
        self.untilUnixMilliseconds = untilUnixMilliseconds
    }

    public struct Message: Codable, Hashable, Sendable {
        /// Its number in the conversation.
        public var number: UInt64
        /// The user who sent it.
        public var from: String
        public var t: UInt8?
        public var grade: SendMessage.Grade
        /// Bytes that count towards the limits of the history.
        public var byteCount: UInt32
        /// The time of the send.
        public var unixMilliseconds: UInt64
        /// When it leaves the history.
        public var expiresUnixSeconds: UInt64?
        /// At most ``ListQueueMessages/contentByteCountMaximum`` bytes.
        public var content: StoredContent
        /// Keys with values beside the content; nil for none.
        public var attributes: [String: String]?
        /// Whether its time is that of a reading which its sender could not send earlier; nil if
        /// not.
        public var isLate: Bool?
        /// False if its sender only wanted it kept: then it may have any time in the past.
        public var isDelivered: Bool?
        /// In 16 hexadecimal digits, if its sender asked for it or for receipts.
        public var reference: String?

        public init(
            number: UInt64, from: String, t: UInt8?, grade: SendMessage.Grade, byteCount: UInt32,
            unixMilliseconds: UInt64, expiresUnixSeconds: UInt64?, content: StoredContent
        ) {
            self.number = number
            self.from = from
            self.t = t
            self.grade = grade
            self.byteCount = byteCount
            self.unixMilliseconds = unixMilliseconds
            self.expiresUnixSeconds = expiresUnixSeconds
            self.content = content
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// There may be none although there are older ones, if none that were read are selected.
        public var messages: [Message]
        /// The number to continue before; nil at the oldest message.
        public var next: UInt64?

        public init(messages: [Message], next: UInt64?) {
            self.messages = messages
            self.next = next
        }
    }
}

/// Removes one kept message from a conversation, for all its readers. Inboxes that have it keep it.
public struct RemoveFromHistory: AdministrationRequest {
    public static let name = "history.remove"
    public var app: String

    // As for ``ListHistory``.

    public var user: String?
    public var with: String?
    public var groupid: String?
    public var topic: String?
    public var number: UInt64

    public init(
        app: String, user: String? = nil, with: String? = nil, groupid: String? = nil,
        topic: String? = nil, number: UInt64
    ) {
        self.app = app
        self.user = user
        self.with = with
        self.groupid = groupid
        self.topic = topic
        self.number = number
    }

    public struct Reply: Codable, Hashable, Sendable {
        public init() {}
    }
}

/// Lists the topics of an app that have kept messages, in the order in which their history began.
public struct ListKeptTopics: AdministrationRequest {
    public static let name = "history.topics"
    public var app: String
    /// Continues after this place, the `next` of the previous reply.
    public var after: UInt64?
    /// Topics of the reply; nil for ``countMaximum``.
    public var limit: Int?

    /// Topics of one reply.
    public static let countMaximum = 500

    public init(app: String, after: UInt64? = nil, limit: Int? = nil) {
        self.app = app
        self.after = after
        self.limit = limit
    }

    public struct Topic: Codable, Hashable, Sendable {
        public var topic: String
        /// The number of the newest message.
        public var lastNumber: UInt64
        /// Messages that are kept.
        public var messageCount: UInt64
        /// Bytes of these that count towards the limits of the history.
        public var byteCount: UInt64

        public init(topic: String, lastNumber: UInt64, messageCount: UInt64, byteCount: UInt64) {
            self.topic = topic
            self.lastNumber = lastNumber
            self.messageCount = messageCount
            self.byteCount = byteCount
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var topics: [Topic]
        /// The place to continue after; nil at the end.
        public var next: UInt64?

        public init(topics: [Topic], next: UInt64?) {
            self.topics = topics
            self.next = next
        }
    }
}

/// Notes for a user that it has read a conversation up to a number.
public struct MarkConversation: AdministrationRequest {
    public static let name = "conversation.mark"
    public var app: String
    /// The user who has read, one of the two users or a member of the group.
    public var user: String

    // The other party.

    public var with: String?
    public var groupid: String?

    /// All messages up to this number are read.
    public var number: UInt64
    /// Whether the user does not want to see them any more.
    public var isHidden: Bool?

    public init(
        app: String, user: String, with: String? = nil, groupid: String? = nil, number: UInt64,
        isHidden: Bool? = nil
    ) {
        self.app = app
        self.user = user
        self.with = with
        self.groupid = groupid
        self.number = number
        self.isHidden = isHidden
    }

    public struct Reply: Codable, Hashable, Sendable {
        public init() {}
    }
}

/// A conversation that a request names.
public enum ConversationName: Hashable, Sendable {
    case users(String, String)
    case group(String)
    case topic(String)

    /// - Throws: a refusal unless two users, a group or a topic are given.
    public init(
        user: String?, with: String?, groupid: String?, topic: String? = nil
    ) throws(AdministrationRefusal) {
        switch (user, with, groupid, topic) {
        case (let user?, let with?, nil, nil): self = .users(user, with)
        case (nil, nil, let group?, nil): self = .group(group)
        case (nil, nil, nil, let topic?): self = .topic(topic)
        default: throw .malformed("missing conversation: user and with, groupid, or topic")
        }
    }
}
