// `martlet conversations`: a user's conversations, and what is unread in each.

import Administration
import CommandLineOptions

enum ConversationsOption: String, ConnectionRules, AppRules {
    case data, server, ca, token, device, timeout, app, user, unread, messages, limit, json

    var shape: OptionShape {
        switch self {
        case .json, .unread, .messages: .flag
        case .data, .server, .ca, .token, .device, .timeout, .app, .user, .limit: .value
        }
    }

    var letter: Character? { self == .timeout ? "W" : nil }
}

enum ConversationsCommand {
    static func run(_ arguments: ArraySlice<String>) async throws {
        let options = try OptionParser<ConversationsOption>.options(
            arguments, positionalMaximum: 0)
        guard options.isOperator(naming: .user) else {
            return try await UserConversationsCommand.run(options)
        }
        let app = try options.app()
        guard let user = options[.user] else { throw UsageError("missing --user USER") }
        var pages = PageLimit(try options.integer(.limit, in: 1...Int.max))
        let broker = try options.administration()
        let hasMessages = options.has(.messages)
        var table = table(hasMessages: hasMessages)
        let countMaximum =
            hasMessages ? ListConversations.messagesMaximum : ListConversations.countMaximum
        var place: UInt64?
        repeat {
            let reply = try broker.send(
                ListConversations(
                    app: app, user: user, isUnreadOnly: options.has(.unread) ? true : nil,
                    after: place, limit: pages.next(atMost: countMaximum),
                    hasMessages: hasMessages ? true : nil))
            if options.has(.json) {
                for conversation in reply.conversations {
                    guard StandardStream.output.print(jsonLine(conversation)) else { return }
                }
            } else {
                for conversation in reply.conversations {
                    table.add(fields(conversation, hasMessages: hasMessages))
                }
                guard table.printPage() else { return }
            }
            place = reply.next
            pages.take(reply.conversations.count)
        } while place != nil && !pages.isOver
    }

    private static func fields(
        _ conversation: ListConversations.Conversation, hasMessages: Bool
    ) -> [String] {
        fields(
            with: conversation.user ?? "group \(conversation.groupid ?? "")",
            numbers: [
                conversation.lastNumber, conversation.readThrough, conversation.unreadCount,
            ], hasMessages: hasMessages, from: conversation.lastMessage?.from,
            content: conversation.lastMessage?.content)
    }

    static func table(hasMessages: Bool) -> TextTable {
        TextTable(
            ["WITH", "NEWEST", "READ", "UNREAD"] + (hasMessages ? ["FROM", "MESSAGE"] : []))
    }

    /// The fields of a conversation in ``table(hasMessages:)``.
    static func fields(
        with party: String, numbers: [UInt64], hasMessages: Bool, from sender: String?,
        content: StoredContent?
    ) -> [String] {
        let message = [sender ?? "", content.map(QueueMessagesCommand.text) ?? ""]
        return [party] + numbers.map { "\($0)" } + (hasMessages ? message : [])
    }
}
