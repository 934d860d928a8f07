// `martlet session` and `martlet queue`: who is there, who was, what waits, and to end it.

import Administration
import CommandLineOptions

enum SessionOption: String, AdministrationRules {
    case data, app, user, device, connected, away
    case olderThan = "older-than"
    case json

    var shape: OptionShape {
        switch self {
        case .connected, .away, .json: .flag
        case .data, .app, .user, .device, .olderThan: .value
        }
    }
}

extension ParsedOptions<SessionOption> {
    /// What the options mean; a word without dashes is the user.
    fileprivate func selection() throws -> SessionSelection {
        if has(.connected) && has(.away) {
            throw UsageError("--connected and --away together are nobody")
        }
        return SessionSelection(
            app: try needed(.app, "MARTLET_APP", "which app"),
            user: self[.user] ?? positionals.first, device: self[.device],
            isConnected: has(.connected) ? true : has(.away) ? false : nil,
            awaySeconds: try seconds(.olderThan))
    }

    /// The same for what cannot be undone: it must name more than the app.
    fileprivate func narrowSelection() throws -> SessionSelection {
        let selection = try selection()
        guard selection.namesMoreThanApp else {
            throw UsageError(
                "say which: a user, --device, --connected, --away or --older-than TIME")
        }
        return selection
    }

    fileprivate static func parse(_ arguments: ArraySlice<String>) throws -> Self {
        try OptionParser<SessionOption>.options(arguments, positionalMaximum: 1)
    }
}

enum SessionListCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try ParsedOptions<SessionOption>.parse(arguments)
        let selection = try options.selection()
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        var after: UInt32?
        repeat {
            let reply = try broker.send(ListSessions(selection, after: after))
            for session in reply.sessions {
                let line = options.has(.json) ? jsonLine(session) : text(session)
                guard StandardStream.output.print(line) else { return }
            }
            after = reply.next
        } while after != nil
    }

    private static func text(_ session: ListSessions.Session) -> String {
        let state =
            session.connectedUnixMilliseconds.map {
                "here since \(dateText(unixSeconds: $0 / 1000))"
            } ?? "away for \(session.awaySeconds ?? 0) s"
        return [
            session.user, session.device.isEmpty ? "-" : session.device, session.dialect, state,
            "\(session.queue.messageCount) waiting",
            "\(session.filters.count) subscriptions", "\(session.groupCount) groups",
        ].joined(separator: "\t")
    }
}

enum SessionShowCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try ParsedOptions<SessionOption>.parse(arguments)
        let selection = try options.narrowSelection()
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        for session in try broker.send(ListSessions(selection)).sessions {
            StandardStream.output.print(options.has(.json) ? jsonLine(session) : text(session))
        }
    }

    private static func text(_ session: ListSessions.Session) -> String {
        let expiry = session.expirySeconds.map { "\($0) s" } ?? "never"
        let rows: KeyValuePairs<String, String> = [
            "user": session.user, "device": session.device, "dialect": session.dialect,
            "connected": session.connectedUnixMilliseconds.map {
                dateText(unixSeconds: $0 / 1000)
            } ?? "no, away for \(session.awaySeconds ?? 0) s",
            "expires": session.isPersistent ? expiry : "with its connection",
            "keep-alive": "\(session.keepAliveSeconds) s",
            "waiting": "\(session.queue.messageCount) messages, \(session.queue.byteCount) bytes",
            "under way": "\(session.underWayCount)",
            "dropped": "\(session.queue.droppedCount)",
            "next number": "\(session.queue.nextNumber)",
            "subscriptions": session.filters.joined(separator: " "),
            "groups": "\(session.groupCount)", "will": session.hasWill ? "set" : "none",
        ]
        return rows.map { "\($0.key): \($0.value)" }.joined(separator: "\n") + "\n"
    }
}

enum SessionKickCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try ParsedOptions<SessionOption>.parse(arguments)
        let selection = try options.narrowSelection()
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        let count = try broker.send(KickSessions(selection)).sessionCount
        StandardStream.output.print("\(count) connections ended")
    }
}

enum SessionDeleteCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try ParsedOptions<SessionOption>.parse(arguments)
        let selection = try options.narrowSelection()
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        let count = try broker.send(DeleteSessions(selection)).sessionCount
        StandardStream.output.print("\(count) sessions deleted")
    }
}

enum QueueShowCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try ParsedOptions<SessionOption>.parse(arguments)
        let selection = try options.selection()
        guard let user = selection.user else { throw UsageError("say whose: queue show USER") }
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        let mailbox = try broker.send(ShowMailbox(app: selection.app, user: user))
        var queues = [("-", mailbox)]
        queues += try broker.send(ListSessions(selection)).sessions.map { ($0.device, $0.queue) }
        for (device, queue) in queues {
            StandardStream.output.print(
                options.has(.json)
                    ? #"{"device":\#(quoted(device)),"queue":\#(jsonLine(queue))}"#
                    : "\(device)\t\(queue.messageCount) waiting\t\(queue.byteCount) bytes\t"
                        + "\(queue.droppedCount) dropped")
        }
    }
}

enum QueuePurgeCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try ParsedOptions<SessionOption>.parse(arguments)
        let selection = try options.narrowSelection()
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        let count = try broker.send(PurgeQueues(selection)).messageCount
        StandardStream.output.print("\(count) messages thrown away")
    }
}
