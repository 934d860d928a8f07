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
        var table = TextTable(
            ["WITH", "NEWEST", "READ", "UNREAD"] + (hasMessages ? ["FROM", "MESSAGE"] : []))
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
                    table.add(fields(conversation) + (hasMessages ? message(conversation) : []))
                }
                guard table.printPage() else { return }
            }
            place = reply.next
            pages.take(reply.conversations.count)
        } while place != nil && !pages.isOver
    }

    static func fields(_ conversation: ListConversations.Conversation) -> [String] {
        [
            conversation.user ?? "group \(conversation.groupid ?? "")",
            "\(conversation.lastNumber)", "\(conversation.readThrough)",
            "\(conversation.unreadCount)",
        ]
    }

    private static func message(_ conversation: ListConversations.Conversation) -> [String] {
        guard let message = conversation.lastMessage else { return ["", ""] }
        return [message.from, QueueMessagesCommand.text(message.content)]
    }
}
