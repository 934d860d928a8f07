// `martlet queue messages` and `martlet queue drop`: the messages of one queue.

import Administration
import CommandLineOptions

enum QueueOption: String, AppRules {
    case data, server, ca, token, app, device, contents, after, limit, json

    var shape: OptionShape {
        switch self {
        case .contents, .json: .flag
        case .data, .server, .ca, .token, .app, .device, .after, .limit: .value
        }
    }
}

enum QueueMessagesCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<QueueOption>.options(arguments, positionalMaximum: 1)
        guard let user = options.positionals.first else {
            throw UsageError("missing USER: martlet queue messages USER [--device NAME]")
        }
        let app = try options.app()
        let hasContents = options.has(.contents)
        var after = try options.integer(.after, in: 0...Int.max).map(UInt64.init)
        var pages = PageLimit(try options.integer(.limit, in: 1...Int.max))
        let broker = try options.administration()
        var table = TextTable(
            "NUMBER", "FROM", "TO", "TYPE", "GRADE", "BYTES", "SENT", "EXPIRES", "STATE", "CONTENT")
        repeat {
            let reply = try broker.send(
                ListQueueMessages(
                    app: app, user: user, device: options[.device], hasContents: hasContents,
                    after: after, limit: pages.next(atMost: ListQueueMessages.countMaximum)))
            if options.has(.json) {
                for message in reply.messages {
                    guard StandardStream.output.print(jsonLine(message)) else { return }
                }
            } else {
                for message in reply.messages { table.add(fields(message)) }
                guard table.printPage() else { return }
            }
            if reply.messages.isEmpty, after == nil, options[.device] == nil, !options.has(.json) {
                tellOtherQueues(of: user, app, broker)
            }
            after = reply.next
            pages.take(reply.messages.count)
        } while after != nil && !pages.isOver
    }

    /// Names devices whose queues have messages while the offline queue has none.
    private static func tellOtherQueues(
        of user: String, _ app: String, _ broker: borrowing AdministrationConnection
    ) {
        let selection = SessionSelection(app: app, user: user)
        guard let sessions = try? broker.send(ListSessions(selection)).sessions else { return }
        let queues = sessions.filter { $0.queue.messageCount > 0 }
        guard let first = queues.max(by: { $0.queue.messageCount < $1.queue.messageCount }) else {
            return
        }
        let name = first.device.isEmpty ? "\"\"" : printable(first.device)
        let others = queues.count == 1 ? "" : ", and those of \(queues.count - 1) others have some"
        StandardStream.error.print(
            "martlet: the offline queue is empty; that of device \(name) has "
                + "\(counted(first.queue.messageCount, "message"))\(others): --device \(name)")
    }

    private static func fields(_ message: ListQueueMessages.Message) -> [String] {
        let address: String =
            switch message.kind {
            case .topic: message.topic ?? ""
            case .group, .kicked, .groupEvent:
                "\(message.kind.rawValue) \(message.groupid ?? "")"
            case .user, .everybody, .presence, .receipt, .recall, .update, .brokerEvent:
                message.kind.rawValue
            }
        return [
            "\(message.number)", message.from, address, message.t.map { "\($0)" } ?? "",
            message.grade.rawValue, "\(message.byteCount)",
            dateText(unixSeconds: message.unixMilliseconds / 1_000),
            message.expiresUnixSeconds.map(dateText(unixSeconds:)) ?? "never",
            message.isUnderWay ? "under way" : "waiting", message.content.map(text) ?? "",
        ]
    }

    /// The content of a message on one line.
    static func text(_ content: StoredContent) -> String {
        let shown = content.text ?? "base64 \(content.base64)"
        return content.isCut ? "\(shown)... (\(content.byteCount) bytes)" : shown
    }
}

enum QueueDropCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<QueueOption>.options(
            arguments, positionalMaximum: 2, accepting: [.app, .device, .json])
        guard options.positionals.count == 2 else {
            throw UsageError("missing USER or NUMBER: martlet queue drop USER NUMBER")
        }
        guard let number = UInt64(options.positionals[1]) else {
            throw UsageError(
                "NUMBER must be the number of a message, not \"\(options.positionals[1])\"; see "
                    + "martlet queue messages \(options.positionals[0])")
        }
        let broker = try options.administration()
        _ = try broker.send(
            DropQueueMessage(
                app: try options.app(), user: options.positionals[0], device: options[.device],
                number: number))
        StandardStream.output.print(
            options.has(.json) ? "{}" : "message \(number) is removed")
    }
}

/// How many things of a list are still to be shown.
struct PageLimit {
    private var rest: Int?

    /// - Parameter limit: nil for all.
    init(_ limit: Int?) { rest = limit }

    /// The limit of the next page; nil for the broker's.
    func next(atMost maximum: Int) -> Int? { rest.map { min($0, maximum) } }

    /// Counts things of a page.
    mutating func take(_ count: Int) { rest = rest.map { max($0 - count, 0) } }

    /// Whether everything that was asked for has been shown.
    var isOver: Bool { rest == 0 }
}
