// `martlet history` and `martlet history remove`: the kept messages of one conversation.
// `martlet history topics`: the topics that have some.

import Administration
import CommandLineOptions

enum HistoryOption: String, ConnectionRules, AppRules {
    case data, server, ca, token, device, timeout
    case app, user, with, group, topic, before, limit, search, from, json

    var shape: OptionShape {
        switch self {
        case .json: .flag
        case .data, .server, .ca, .token, .device, .timeout, .app, .user, .with, .group, .topic,
            .before, .limit, .search, .from:
            .value
        }
    }

    var letter: Character? { self == .timeout ? "W" : nil }
}

extension ParsedOptions<HistoryOption> {
    fileprivate func checkConversation() throws {
        let isPair = has(.user) && has(.with) && !has(.group) && !has(.topic)
        let isGroup = has(.group) && !has(.user) && !has(.with) && !has(.topic)
        let isTopic = has(.topic) && !has(.user) && !has(.with) && !has(.group)
        guard isPair || isGroup || isTopic else {
            throw UsageError(
                "missing conversation: --user USER --with USER, --group ID, or --topic TOPIC")
        }
    }
}

enum HistoryCommand {
    static func run(_ arguments: ArraySlice<String>) async throws {
        let options = try OptionParser<HistoryOption>.options(arguments, positionalMaximum: 0)
        guard options.isOperator(naming: .user) else {
            return try await UserHistoryCommand.run(options)
        }
        try options.checkConversation()
        let app = try options.app()
        var before = try options.integer(.before, in: 1...Int.max).map(UInt64.init)
        var pages = PageLimit(try options.integer(.limit, in: 1...Int.max))
        let broker = try options.administration()
        var table = TextTable("NUMBER", "FROM", "TYPE", "SENT", "CONTENT")
        repeat {
            let reply = try broker.send(
                ListHistory(
                    app: app, user: options[.user], with: options[.with],
                    groupid: options[.group], topic: options[.topic], before: before,
                    limit: pages.next(atMost: ListHistory.countMaximum),
                    search: options[.search], from: options[.from]))
            if options.has(.json) {
                for message in reply.messages {
                    guard StandardStream.output.print(jsonLine(message)) else { return }
                }
            } else {
                for message in reply.messages { table.add(fields(message)) }
                guard table.printPage() else { return }
            }
            before = reply.next
            pages.take(reply.messages.count)
        } while before != nil && !pages.isOver
    }

    private static func fields(_ message: ListHistory.Message) -> [String] {
        [
            "\(message.number)", message.from, message.t.map { "\($0)" } ?? "",
            dateText(unixSeconds: message.unixMilliseconds / 1_000),
            QueueMessagesCommand.text(message.content),
        ]
    }
}

enum HistoryRemoveCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<HistoryOption>.options(
            arguments, positionalMaximum: 1, accepting: [.app, .user, .with, .group, .topic, .json])
        try options.checkConversation()
        guard let text = options.positionals.first, let number = UInt64(text), number > 0 else {
            throw UsageError("missing NUMBER, a positive whole number: see martlet history")
        }
        let broker = try options.administration()
        _ = try broker.send(
            RemoveFromHistory(
                app: try options.app(), user: options[.user], with: options[.with],
                groupid: options[.group], topic: options[.topic], number: number))
        StandardStream.output.print(
            options.has(.json) ? "{}" : "message \(number) is removed")
    }
}

enum HistoryTopicsCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<HistoryOption>.options(
            arguments, positionalMaximum: 0, accepting: [.app, .limit, .json])
        let app = try options.app()
        var pages = PageLimit(try options.integer(.limit, in: 1...Int.max))
        let broker = try options.administration()
        var table = TextTable("TOPIC", "NEWEST", "MESSAGES", "BYTES")
        var after: UInt64?
        repeat {
            let reply = try broker.send(
                ListKeptTopics(
                    app: app, after: after, limit: pages.next(atMost: ListKeptTopics.countMaximum)))
            if options.has(.json) {
                for topic in reply.topics {
                    guard StandardStream.output.print(jsonLine(topic)) else { return }
                }
            } else {
                for topic in reply.topics {
                    table.add([
                        topic.topic, "\(topic.lastNumber)", "\(topic.messageCount)",
                        "\(topic.byteCount)",
                    ])
                }
                guard table.printPage() else { return }
            }
            after = reply.next
            pages.take(reply.topics.count)
        } while after != nil && !pages.isOver
    }
}
