// `martlet retained`: lists, shows and deletes retained messages.

import Administration
import CommandLineOptions

enum RetainedOption: String, AppRules {
    case data, server, ca, token, app, limit, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

enum RetainedListCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<RetainedOption>.options(arguments, positionalMaximum: 1)
        let app = try options.app()
        var pages = PageLimit(try options.integer(.limit, in: 1...Int.max))
        let broker = try options.administration()
        var table = TextTable("TOPIC", "FROM", "TYPE", "GRADE", "BYTES", "SENT", "EXPIRES")
        var after: UInt32?
        repeat {
            let reply = try broker.send(
                ListRetained(
                    app: app, filter: options.positionals.first, after: after,
                    limit: pages.next(atMost: ListRetained.countMaximum)))
            if options.has(.json) {
                for message in reply.messages {
                    guard StandardStream.output.print(jsonLine(message)) else { return }
                }
            } else {
                for message in reply.messages { table.add(fields(message)) }
                guard table.printPage() else { return }
            }
            after = reply.next
            pages.take(reply.messages.count)
        } while after != nil && !pages.isOver
    }

    private static func fields(_ message: ListRetained.Message) -> [String] {
        [
            message.topic, message.from, message.t.map { "\($0)" } ?? "", message.grade.rawValue,
            "\(message.byteCount)", dateText(unixSeconds: message.unixMilliseconds / 1_000),
            message.expiresUnixSeconds.map(dateText(unixSeconds:)) ?? "never",
        ]
    }
}

enum RetainedShowCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<RetainedOption>.options(
            arguments, positionalMaximum: 1, accepting: [.app, .json])
        guard let topic = options.positionals.first else {
            throw UsageError("missing TOPIC: martlet retained show TOPIC")
        }
        let broker = try options.administration()
        let reply = try broker.send(ShowRetained(app: try options.app(), topic: topic))
        if options.has(.json) {
            StandardStream.output.print(jsonLine(reply))
            return
        }
        let message = reply.message
        StandardStream.output.print(
            textSheet([
                "topic": message.topic, "from": message.from,
                "type": message.t.map { "\($0)" } ?? "bytes", "grade": message.grade.rawValue,
                "bytes": "\(message.byteCount)",
                "sent": dateText(unixSeconds: message.unixMilliseconds / 1_000),
                "expires": message.expiresUnixSeconds.map(dateText(unixSeconds:)) ?? "never",
                "content": QueueMessagesCommand.text(reply.content),
            ]))
    }
}

enum RetainedDeleteCommand {
    private struct Line: Encodable { let messageCount: UInt64 }

    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<RetainedOption>.options(
            arguments, positionalMaximum: 1, accepting: [.app, .json])
        guard let filter = options.positionals.first else {
            throw UsageError("missing FILTER: martlet retained delete FILTER")
        }
        let app = try options.app()
        let broker = try options.administration()
        let count = try ProgressBar.count("retained message") { (_: Void?) in
            let reply = try broker.send(DeleteRetained(app: app, filter: filter))
            // Messages that are retained meanwhile are not waited for.
            return (UInt64(reply.messageCount), reply.hasMore && reply.messageCount > 0 ? () : nil)
        }
        StandardStream.output.print(
            options.has(.json)
                ? jsonLine(Line(messageCount: count))
                : "\(counted(count, "retained message")) deleted")
    }
}
