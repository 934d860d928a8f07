// The user's conversations: their kept messages, and what the user has read of them.

import Primitives
import WireFormat

/// The other party of a conversation of this user.
public enum ConversationParty: Hashable, Sendable {
    /// Another user, or this user for messages to oneself.
    case user(String)
    /// A group of which this user is a member.
    case group(String)
    /// A topic whose publications the app keeps (`historyTopics` of `apps`), and to which this user
    /// may subscribe. It has no read marks, and no list of conversations has it.
    case topic(String)
}

/// A kept message.
public struct KeptMessage: Hashable, Sendable {
    /// Its number in the conversation: higher for later messages, with gaps.
    public var number: UInt64
    /// The user who sent it, as the broker authenticated it.
    public var sender: String
    /// Unix milliseconds.
    public var time: UInt64
    /// The type, 0 for text; also 0 for ``payload``.
    public var type: UInt8
    /// The text, or for the types 1 to 4 a URL; of ``payload`` the text that it is, if it is UTF-8.
    public var text: String
    /// What was published on a topic as bytes, as MQTT clients do; nil for a message with a type.
    public var payload: [UInt8]?
    /// Keys with values that the sender gave the message beside its content.
    public var attributes: [String: String] = [:]
    /// How a message to a group mentions this user; nil if it does not.
    public var mention: IncomingMessage.Mention?
    /// The time is that of a reading which its sender could not send earlier.
    public var isLate = false
    /// Whether it was delivered; a message that its sender only wanted kept was not, and may have
    /// any time in the past.
    public var isDelivered = true
    /// The message's reference, if its sender asked for one or for receipts.
    public var reference: MessageReference?
    /// The receipts that its sender asked for.
    public var receipts: Receipts = []
}

/// Kept messages of a conversation, the newest first.
public struct HistoryPage: Hashable, Sendable {
    /// At most 100; there may be none although there is a next page.
    public var messages: [KeptMessage]
    /// Where the next page begins; nil at the oldest message. A page may be empty and have a next
    /// one.
    public var next: UInt64?
}

/// A conversation of this user that has kept messages.
public struct Conversation: Hashable, Sendable {
    /// The other user, or the group.
    public var party: ConversationParty
    /// The number of the newest message.
    public var lastNumber: UInt64
    /// The user has read up to this number; 0 if nothing.
    public var readThrough: UInt64
    /// Messages of others that the user has not read.
    public var unreadCount: UInt64
    /// The newest message, if it was asked for; nil if there is none.
    public var lastMessage: KeptMessage?
}

/// Conversations of this user, in the order in which they began.
public struct ConversationList: Hashable, Sendable {
    /// At most 100; there may be none although there is a next page.
    public var conversations: [Conversation]
    /// Where the next page begins; nil at the end. A page may be empty and have a next one.
    public var next: UInt64?
}

/// What to find in a conversation. A message has to meet all conditions that are given.
public struct HistorySearch: Hashable, Sendable {
    /// Messages that contain this text, of at most 128 bytes.
    public var text = ""
    /// Messages of this user.
    public var sender: String?
    /// Messages of this time or later, in Unix milliseconds.
    public var since: UInt64?
    /// Messages before this time, in Unix milliseconds.
    public var until: UInt64?

    /// Finds every message.
    public init() {}
}

extension Client {
    /// The messages of a conversation that their senders wanted kept
    /// (``OutgoingMessage/isKept``), from the newest to older ones.
    ///
    /// - Parameters:
    ///   - party: the user or the group of the conversation, or the topic.
    ///   - number: the page begins before this number, the ``HistoryPage/next`` of another page;
    ///     nil for the newest message.
    ///   - count: 1...100; a page may have fewer, because it is one packet.
    /// - Throws: ``MartletError/refused(_:_:)`` if there is no such user or group, if the user is
    ///   not a member, if it may not subscribe to the topic, or if the topic has no history.
    public func history(
        with party: ConversationParty, before number: UInt64? = nil, count: Int = 100
    ) async throws(MartletError) -> HistoryPage {
        guard (1...Int(WireLimits.historyCountMaximum)).contains(count) else {
            throw .invalid("a page of history has 1 to \(WireLimits.historyCountMaximum) messages")
        }
        var bytes = ByteBuilder()
        let wire = try bytes.append(party)
        let answer = try await request(
            .history,
            part: MRT.HistoryQuery(
                party: wire, before: number ?? 0, count: UInt8(count), wantsFields: true),
            bytes: bytes)
        guard let page = HistoryPage(answer.content, of: party) else { throw .unreadableAnswer }
        return page
    }

    /// Those messages of a page of ``history(with:before:count:)`` that a search finds. A page may
    /// have none and a next one: each call looks at `count` messages.
    public func search(
        _ search: HistorySearch, with party: ConversationParty, before number: UInt64? = nil,
        count: Int = 100
    ) async throws(MartletError) -> HistoryPage {
        guard (1...Int(WireLimits.historyCountMaximum)).contains(count) else {
            throw .invalid("a page of history has 1 to \(WireLimits.historyCountMaximum) messages")
        }
        guard search.text.utf8.count <= WireLimits.searchByteCountMaximum else {
            throw .invalid(
                "the text of a search has at most \(WireLimits.searchByteCountMaximum) bytes")
        }
        var bytes = ByteBuilder()
        let wire = try bytes.append(party)
        var part = MRT.HistorySearchQuery(
            query: MRT.HistoryQuery(
                party: wire, before: number ?? 0, count: UInt8(count), wantsFields: true))
        if let sender = search.sender { part.from = try bytes.append(identifier: sender) }
        part.since = min(search.since ?? 0, WireLimits.varIntMaximum)
        part.until = min(search.until ?? 0, WireLimits.varIntMaximum)
        part.text = bytes.append(search.text)
        let answer = try await request(.searchHistory, part: part, bytes: bytes)
        guard let page = HistoryPage(answer.content, of: party) else { throw .unreadableAnswer }
        return page
    }

    /// The conversations of this user that have kept messages, with what is unread in each.
    ///
    /// - Parameters:
    ///   - place: the page begins after this place, the ``ConversationList/next`` of another page;
    ///     nil for the first page.
    ///   - isUnreadOnly: whether only conversations with unread messages are listed.
    ///   - hasMessages: whether the newest message of each is told too.
    ///   - count: 1...100; a page may have fewer.
    /// - Throws: ``MartletError/refused(_:_:)`` if the broker refuses the request.
    public func conversations(
        after place: UInt64? = nil, isUnreadOnly: Bool = false, hasMessages: Bool = false,
        count: Int = 100
    ) async throws(MartletError) -> ConversationList {
        guard (1...Int(WireLimits.historyCountMaximum)).contains(count) else {
            throw .invalid("a page has 1 to \(WireLimits.historyCountMaximum) conversations")
        }
        let answer = try await request(
            .conversations,
            part: MRT.ConversationQuery(
                after: place ?? 0, isUnreadOnly: isUnreadOnly, wantsMessages: hasMessages,
                count: UInt8(count)),
            bytes: ByteBuilder())
        guard let list = ConversationList(answer.content, hasMessages: hasMessages) else {
            throw .unreadableAnswer
        }
        return list
    }

    /// Tells the broker that this user has read a conversation, on whatever device. Nothing else
    /// does: a message is unread also if it was delivered, acknowledged or looked at.
    ///
    /// - Parameters:
    ///   - party: the user or the group of the conversation.
    ///   - number: all messages up to this ``KeptMessage/number`` are read. A lower number than
    ///     before changes nothing.
    /// - Throws: ``MartletError/refused(_:_:)`` if there is no such user, group or message, or if
    ///   the user is not a member.
    public func markRead(
        _ party: ConversationParty, through number: UInt64
    ) async throws(MartletError) {
        try await mark(party, through: number, .markRead)
    }

    /// Hides all messages of a conversation up to a number from this user, on all its devices, for
    /// ever. They count as read. The other readers keep them.
    ///
    /// - Throws: as ``markRead(_:through:)``.
    public func hideHistory(
        _ party: ConversationParty, through number: UInt64
    ) async throws(MartletError) {
        try await mark(party, through: number, .hideHistory)
    }

    private func mark(
        _ party: ConversationParty, through number: UInt64, _ operation: MRT.Operation
    ) async throws(MartletError) {
        if case .topic = party { throw .invalid("a topic has no read marks") }
        guard (1...WireLimits.varIntMaximum).contains(number) else {
            throw .invalid("messages have numbers from 1 to \(WireLimits.varIntMaximum)")
        }
        var bytes = ByteBuilder()
        let wire = try bytes.append(party)
        _ = try await request(
            operation, part: MRT.ReadMark(party: wire, number: number), bytes: bytes)
    }
}

extension Conversation {
    /// What this user has read on another device: a message on `$unread/` and the user's id, to
    /// which a device of the user can subscribe. Nil for every other message.
    public init?(_ message: IncomingMessage) {
        guard case .topic(let topic) = message.kind, topic == "$unread/" + message.from,
            case .bytes(let text) = message.content,
            let object = try? JSONObject(text.span.bytes)
        else { return nil }
        var numbers: [String: UInt64] = [:]
        var named: ConversationParty?
        for member in object.members {
            let name = String(decoding: object.text[member.name.offsets], as: UTF8.self)
            switch (name, member.value) {
            case (_, .number(let number)): numbers[name] = number
            case ("user", .string(let user)):
                named = .user(String(decoding: object.text[user.offsets], as: UTF8.self))
            case ("group", .string(let group)):
                named = .group(String(decoding: object.text[group.offsets], as: UTF8.self))
            default: break
            }
        }
        guard let named, let last = numbers["last"], let read = numbers["read"],
            let unread = numbers["unread"]
        else { return nil }
        self.init(party: named, lastNumber: last, readThrough: read, unreadCount: unread)
    }
}

extension ByteBuilder {
    fileprivate mutating func append(
        _ party: ConversationParty
    ) throws(MartletError) -> MRT.ConversationParty {
        switch party {
        case .user(let user): .user(try append(identifier: user))
        case .group(let group): .group(try append(identifier: group))
        case .topic(let topic) where topic.utf8.count > WireLimits.topicByteCountMaximum:
            throw .refused(.topicNameInvalid, "")
        case .topic(let topic): .topic(append(topic))
        }
    }
}

extension ConversationList {
    init?(_ content: [UInt8], hasMessages: Bool = false) {
        let bytes = content.span.bytes
        guard let list = try? MRT.ConversationList(bytes, hasMessages: hasMessages) else {
            return nil
        }
        conversations = []
        next = list.next == 0 ? nil : list.next
        var walk = MRT.ConversationEntryList(list.entries, in: bytes, hasMessages: hasMessages)
        while let entry = walk.next() {
            let name = String(decoding: content[entry.party.name.offsets], as: UTF8.self)
            let party: ConversationParty =
                switch entry.party {
                case .user: .user(name)
                case .group: .group(name)
                case .topic: .topic(name)
                }
            conversations.append(
                Conversation(
                    party: party, lastNumber: entry.lastNumber, readThrough: entry.readThrough,
                    unreadCount: entry.unreadCount,
                    lastMessage: entry.newest?.message.map { KeptMessage($0, in: content) }))
        }
    }
}

extension HistoryPage {
    init?(_ content: [UInt8], of party: ConversationParty) {
        let bytes = content.span.bytes
        guard let page = try? MRT.HistoryPage(bytes, hasFields: true) else { return nil }
        messages = []
        next = page.next == 0 ? nil : page.next
        var isTopic = false
        if case .topic = party { isTopic = true }
        var walk = MRT.HistoryEntryList(page, in: bytes)
        while let entry = walk.next() {
            guard isTopic else {
                messages.append(KeptMessage(entry, in: content))
                continue
            }
            guard let message = KeptMessage(ofTopic: entry, in: content) else { return nil }
            messages.append(message)
        }
    }
}

extension KeptMessage {
    /// A message of a topic; nil if it has no form.
    fileprivate init?(ofTopic entry: MRT.HistoryEntry, in content: [UInt8]) {
        let payload = content[entry.payload.offsets]
        guard let form = payload.first.flatMap({ MRT.KeptForm(rawValue: $0) }) else { return nil }
        // What follows the form is a payload as of any other message.
        var inner = entry
        inner.payload = ByteRange(
            offset: Int(entry.payload.offset) + 1, count: Int(entry.payload.count) - 1)
        guard form == .raw || !inner.payload.isEmpty else { return nil }
        self.init(inner, isRaw: form == .raw, in: content)
    }

    /// A message of an answer.
    init(_ entry: MRT.HistoryEntry, isRaw: Bool = false, in content: [UInt8]) {
        let payload = content[entry.payload.offsets]
        self.init(
            number: entry.number,
            sender: String(decoding: content[entry.from.offsets], as: UTF8.self),
            time: entry.time, type: isRaw ? 0 : payload[payload.startIndex],
            text: String(decoding: payload.dropFirst(isRaw ? 0 : 1), as: UTF8.self))
        if isRaw { self.payload = Array(payload) }
        let bytes = content.span.bytes
        guard let fields = entry.fields, let told = try? MRT.DeliverFields(fields, in: bytes)
        else { return }
        attributes = told.attributes(in: bytes)
        mention = IncomingMessage.Mention(rawValue: told.mentioned)
        isLate = told.isLate
        isDelivered = !told.isUndelivered
        reference = MessageReference(told.reference)
        receipts = Receipts(rawValue: told.asks.rawValue & 6)
    }
}
