// `martlet history` and `martlet conversations` as a user: what the user may read of its own
// conversations. For the operator, HistoryCommands.swift and ConversationsCommand.swift have the
// same commands.

import Administration
import CommandLineOptions
import MartletClient

extension ParsedOptions where Rules: ConnectionRules & AppRules {
    /// Whether a command acts as the operator: ``isOperator``, and where it names a user or an app,
    /// which a token does otherwise.
    func isOperator(naming user: Rules) -> Bool { has(user) || has(.app) || isOperator }
}

enum UserHistoryCommand {
    /// Messages that one page asks for.
    private static let pageCountMaximum = 100

    static func run(_ options: ParsedOptions<HistoryOption>) async throws {
        let party = try ConversationParty(
            user: options[.with], group: options[.group], topic: options[.topic])
        let before = try options.integer(.before, in: 1...Int.max).map(UInt64.init)
        let limit = PageLimit(try options.integer(.limit, in: 1...Int.max))
        var search = HistorySearch()
        search.text = options[.search] ?? ""
        search.sender = options[.from]
        let isSearch = options.has(.search) || options.has(.from)
        try await UserRequest.run(options, deviceDefault: "history") { client in
            var (before, pages) = (before, limit)
            var table = TextTable("NUMBER", "FROM", "TYPE", "SENT", "CONTENT")
            repeat {
                let count = pages.next(atMost: pageCountMaximum) ?? pageCountMaximum
                let page =
                    isSearch
                    ? try await client.search(search, with: party, before: before, count: count)
                    : try await client.history(with: party, before: before, count: count)
                for message in page.messages.map(Line.init) {
                    guard options.has(.json) else {
                        table.add(message.fields)
                        continue
                    }
                    guard StandardStream.output.print(jsonLine(message)) else { return }
                }
                if !options.has(.json) { guard table.printPage() else { return } }
                before = page.next
                pages.take(page.messages.count)
            } while before != nil && !pages.isOver
        }
    }

    /// A message with those names of an operator's list that a user is told.
    struct Line: Encodable {
        let number: UInt64
        let from: String
        /// Nil for bytes.
        let t: UInt8?
        let unixMilliseconds: UInt64
        let content: StoredContent
        let attributes: [String: String]?
        let isLate: Bool?
        let isDelivered: Bool?
        let reference: String?
        let receipts: [String]?

        init(_ message: KeptMessage) {
            (number, from) = (message.number, message.sender)
            t = message.payload == nil ? message.type : nil
            unixMilliseconds = message.time
            let bytes = message.payload ?? Array(message.text.utf8)
            content = StoredContent(bytes, of: bytes.count)
            attributes = message.attributes.isEmpty ? nil : message.attributes
            isLate = message.isLate ? true : nil
            isDelivered = message.isDelivered ? nil : false
            reference = message.reference.map { "\($0)" }
            receipts = message.receipts.isEmpty ? nil : message.receipts.words
        }

        var fields: [String] {
            [
                "\(number)", from, t.map { "\($0)" } ?? "",
                dateText(unixSeconds: unixMilliseconds / 1_000),
                QueueMessagesCommand.text(content),
            ]
        }
    }
}

enum UserConversationsCommand {
    private static let pageCountMaximum = 100

    static func run(_ options: ParsedOptions<ConversationsOption>) async throws {
        let limit = PageLimit(try options.integer(.limit, in: 1...Int.max))
        let hasMessages = options.has(.messages)
        try await UserRequest.run(options, deviceDefault: "conversations") { client in
            var pages = limit
            var table = ConversationsCommand.table(hasMessages: hasMessages)
            var place: UInt64?
            repeat {
                let list = try await client.conversations(
                    after: place, isUnreadOnly: options.has(.unread), hasMessages: hasMessages,
                    count: pages.next(atMost: pageCountMaximum) ?? pageCountMaximum)
                for line in list.conversations.map(Line.init) {
                    guard options.has(.json) else {
                        table.add(line.fields(hasMessages: hasMessages))
                        continue
                    }
                    guard StandardStream.output.print(jsonLine(line)) else { return }
                }
                if !options.has(.json) { guard table.printPage() else { return } }
                place = list.next
                pages.take(list.conversations.count)
            } while place != nil && !pages.isOver
        }
    }

    /// A conversation with the names of an operator's list.
    private struct Line: Encodable {
        var user: String?
        var groupid: String?
        let lastNumber: UInt64
        let readThrough: UInt64
        let unreadCount: UInt64
        let lastMessage: UserHistoryCommand.Line?

        init(_ conversation: Conversation) {
            switch conversation.party {
            case .user(let name): user = name
            case .group(let name): groupid = name
            case .topic(let name): preconditionFailure("the topic \(name) is in a list of a user")
            }
            lastNumber = conversation.lastNumber
            readThrough = conversation.readThrough
            unreadCount = conversation.unreadCount
            lastMessage = conversation.lastMessage.map(UserHistoryCommand.Line.init)
        }

        func fields(hasMessages: Bool) -> [String] {
            ConversationsCommand.fields(
                with: user ?? "group \(groupid ?? "")",
                numbers: [lastNumber, readThrough, unreadCount], hasMessages: hasMessages,
                from: lastMessage?.from, content: lastMessage?.content)
        }
    }
}

extension ConversationParty {
    /// The conversation that two options name.
    init(user: String?, group: String?) throws(UsageError) {
        switch (user, group) {
        case (let user?, nil): self = .user(user)
        case (nil, let group?): self = .group(group)
        case (nil, nil), (_?, _?):
            throw UsageError("missing conversation: one of --with USER and --group ID")
        }
    }

    /// The same, or a topic.
    init(user: String?, group: String?, topic: String?) throws(UsageError) {
        switch (user, group, topic) {
        case (nil, nil, let topic?): self = .topic(topic)
        case (_, _, nil) where user != nil || group != nil:
            try self.init(user: user, group: group)
        default:
            throw UsageError(
                "missing conversation: one of --with USER, --group ID and --topic TOPIC")
        }
    }
}
