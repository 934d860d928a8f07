// `martlet conversations`: a user's conversations, and what is unread in each.

import Administration
import CommandLineOptions

enum ConversationsOption: String, AppRules {
    case data, server, ca, token, app, user, unread, limit, json

    var shape: OptionShape {
        switch self {
        case .json, .unread: .flag
        case .data, .server, .ca, .token, .app, .user, .limit: .value
        }
    }
}

enum ConversationsCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<ConversationsOption>.options(
            arguments, positionalMaximum: 0)
        let app = try options.app()
        guard let user = options[.user] else { throw UsageError("missing --user USER") }
        var pages = PageLimit(try options.integer(.limit, in: 1...Int.max))
        let broker = try options.administration()
        var table = TextTable("WITH", "NEWEST", "READ", "UNREAD")
        var place: UInt64?
        repeat {
            let reply = try broker.send(
                ListConversations(
                    app: app, user: user, isUnreadOnly: options.has(.unread) ? true : nil,
                    after: place,
                    limit: pages.next(atMost: ListConversations.countMaximum)))
            if options.has(.json) {
                for conversation in reply.conversations {
                    guard StandardStream.output.print(jsonLine(conversation)) else { return }
                }
            } else {
                for conversation in reply.conversations { table.add(fields(conversation)) }
                guard table.printPage() else { return }
            }
            place = reply.next
            pages.take(reply.conversations.count)
        } while place != nil && !pages.isOver
    }

    private static func fields(_ conversation: ListConversations.Conversation) -> [String] {
        [
            conversation.user ?? "group \(conversation.groupid ?? "")",
            "\(conversation.lastNumber)", "\(conversation.readThrough)",
            "\(conversation.unreadCount)",
        ]
    }
}
