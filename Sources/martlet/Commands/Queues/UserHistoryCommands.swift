// `martlet history` and `martlet conversations` as a user: what the user may read of its own
// conversations. For the operator, HistoryCommands.swift and ConversationsCommand.swift have the
// same commands.

import Administration
import CommandLineOptions
import Glibc
import MartletClient

/// A request of a user, who logs in for it and disconnects.
enum UserRequest {
    private static let timeoutSecondsDefault: UInt64 = 60

    static func run<Rules: ConnectionRules, Value>(
        _ options: ParsedOptions<Rules>, deviceDefault: String,
        _ body: (Client) async throws -> Value
    ) async throws -> Value {
        var settings = try options.clientSettings(deviceDefault: "\(deviceDefault)-\(getpid())")
        // A transient session, which receives none of the user's waiting messages.
        settings.sessionExpirySeconds = 0
        settings.inboxWindow = 1
        let seconds = try options.seconds(.timeout) ?? timeoutSecondsDefault
        return try await CommandStop.run(settings, seconds: seconds) { client, _ in
            try await client.connect()
            return try await body(client)
        }
    }
}

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
    private struct Line: Encodable {
        let number: UInt64
        let from: String
        /// Nil for bytes.
        let t: UInt8?
        let unixMilliseconds: UInt64
        let content: StoredContent

        init(_ message: KeptMessage) {
            (number, from) = (message.number, message.sender)
            t = message.payload == nil ? message.type : nil
            unixMilliseconds = message.time
            let bytes = message.payload ?? Array(message.text.utf8)
            content = StoredContent(bytes, of: bytes.count)
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
        try await UserRequest.run(options, deviceDefault: "conversations") { client in
            var pages = limit
            var table = TextTable("WITH", "NEWEST", "READ", "UNREAD")
            var place: UInt64?
            repeat {
                let list = try await client.conversations(
                    after: place, isUnreadOnly: options.has(.unread),
                    count: pages.next(atMost: pageCountMaximum) ?? pageCountMaximum)
                for conversation in list.conversations.map(line) {
                    guard options.has(.json) else {
                        table.add(ConversationsCommand.fields(conversation))
                        continue
                    }
                    guard StandardStream.output.print(jsonLine(conversation)) else { return }
                }
                if !options.has(.json) { guard table.printPage() else { return } }
                place = list.next
                pages.take(list.conversations.count)
            } while place != nil && !pages.isOver
        }
    }

    /// As an operator's list has it.
    private static func line(
        _ conversation: Conversation
    ) -> ListConversations.Conversation {
        var (user, group): (String?, String?)
        switch conversation.party {
        case .user(let name): user = name
        case .group(let name): group = name
        case .topic(let name): preconditionFailure("the topic \(name) is in a list of a user")
        }
        return ListConversations.Conversation(
            user: user, groupid: group, lastNumber: conversation.lastNumber,
            readThrough: conversation.readThrough, unreadCount: conversation.unreadCount)
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
