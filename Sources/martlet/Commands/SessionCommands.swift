// `martlet session` and `martlet queue`: list, show and end sessions, and purge queues.

import Administration
import CommandLineOptions

enum SessionOption: String, AppRules {
    case data, server, ca, token, app, user, device, connected, away
    case olderThan = "older-than"
    case will
    case noWill = "no-will"
    case limit, json

    var shape: OptionShape {
        switch self {
        case .connected, .away, .will, .noWill, .json: .flag
        case .data, .server, .ca, .token, .app, .user, .device, .olderThan, .limit: .value
        }
    }
}

extension ParsedOptions<SessionOption> {
    /// The selection of the options; a word without dashes is the user.
    fileprivate func selection() throws -> SessionSelection {
        if has(.connected) && has(.away) {
            throw UsageError("--connected and --away exclude each other")
        }
        return SessionSelection(
            app: try app(),
            user: self[.user] ?? positionals.first, device: self[.device],
            isConnected: has(.connected) ? true : has(.away) ? false : nil,
            awaySeconds: try duration(.olderThan))
    }

    /// The same for commands that cannot be undone: it must name more than the app.
    fileprivate func narrowSelection() throws -> SessionSelection {
        let selection = try selection()
        guard selection.namesMoreThanApp else {
            throw UsageError(
                "missing selection: USER, --device, --connected, --away or --older-than TIME")
        }
        return selection
    }

    /// Whether the wills of the ended sessions are sent; nil for the default.
    fileprivate func sendsWills() throws(UsageError) -> Bool? {
        if has(.will) && has(.noWill) {
            throw UsageError("--will and --no-will exclude each other")
        }
        return has(.will) ? true : has(.noWill) ? false : nil
    }

    /// - Parameters:
    ///   - endsSessions: the command ends sessions, so it decides on their wills.
    ///   - isList: the command lists sessions, so it may list only some.
    fileprivate static func parse(
        _ arguments: ArraySlice<String>, endsSessions: Bool = false, isList: Bool = false
    ) throws -> Self {
        var own: Set<SessionOption> = [
            .app, .user, .device, .connected, .away, .olderThan, .json,
        ]
        if endsSessions { own.formUnion([.will, .noWill]) }
        if isList { own.insert(.limit) }
        return try OptionParser<SessionOption>.options(
            arguments, positionalMaximum: 1, accepting: own)
    }
}

enum SessionListCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try ParsedOptions<SessionOption>.parse(arguments, isList: true)
        let selection = try options.selection()
        var pages = PageLimit(try options.integer(.limit, in: 1...Int.max))
        let broker = try options.administration()
        var table = TextTable(
            "USER", "DEVICE", "DIALECT", "STATE", "FOR", "WAITING", "BYTES", "FILTERS", "GROUPS")
        var after: UInt32?
        repeat {
            let reply = try broker.send(
                ListSessions(
                    selection, after: after, limit: pages.next(atMost: ListSessions.countMaximum)))
            if options.has(.json) {
                for session in reply.sessions {
                    guard StandardStream.output.print(jsonLine(session)) else { return }
                }
            } else {
                for session in reply.sessions { table.add(fields(session)) }
                guard table.printPage() else { return }
            }
            after = reply.next
            pages.take(reply.sessions.count)
        } while after != nil && !pages.isOver
    }

    private static func fields(_ session: ListSessions.Session) -> [String] {
        let seconds =
            session.connectedUnixMilliseconds.map { secondsSince(unixMilliseconds: $0) }
            ?? session.awaySeconds ?? 0
        return [
            session.user, session.device, session.dialect,
            session.connectedUnixMilliseconds == nil ? "away" : "connected",
            duration(seconds: seconds), "\(session.queue.messageCount)",
            "\(session.queue.byteCount)", "\(session.filterCount)", "\(session.groupCount)",
        ]
    }
}

enum SessionShowCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try ParsedOptions<SessionOption>.parse(arguments)
        let selection = try options.narrowSelection()
        let broker = try options.administration()
        let sessions = try broker.send(ListSessions(selection)).sessions
        guard !sessions.isEmpty else {
            throw CommandFailure(
                "no session matches the selection; see martlet session list", .failure)
        }
        for (index, session) in sessions.enumerated() {
            if options.has(.json) {
                StandardStream.output.print(jsonLine(session))
            } else {
                StandardStream.output.print((index > 0 ? "\n" : "") + text(session))
            }
        }
    }

    private static func text(_ session: ListSessions.Session) -> String {
        let expiry = session.expirySeconds.map { "\(duration(seconds: UInt64($0))) after it left" }
        return textSheet([
            "user": session.user, "device": session.device, "dialect": session.dialect,
            "connected": session.connectedUnixMilliseconds.map {
                "since \(dateText(unixSeconds: $0 / 1000))"
            } ?? "no, away for \(duration(seconds: session.awaySeconds ?? 0))",
            "expires": session.isPersistent ? expiry ?? "never" : "with its connection",
            "credential": session.credential.map(text(of:)) ?? "",
            "address": session.address ?? "", "listener": session.listener ?? "",
            "last bytes": session.silentSeconds.map { "\(duration(seconds: $0)) ago" } ?? "",
            "keep-alive": "\(session.keepAliveSeconds) s",
            "waiting": "\(counted(session.queue.messageCount, "message")), "
                + counted(session.queue.byteCount, "byte"),
            "under way": "\(session.underWayCount)",
            "overflow": "\(session.queue.overflowCount)",
            "next number": "\(session.queue.nextNumber)",
            "subscriptions": session.filters.joined(separator: " "),
            "groups": "\(session.groupCount)", "will": session.hasWill ? "set" : "none",
        ])
    }
}

private struct SessionCountLine: Encodable { let sessionCount: UInt64 }

enum SessionKickCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try ParsedOptions<SessionOption>.parse(arguments, endsSessions: true)
        let selection = try options.narrowSelection()
        let broker = try options.administration()
        let sendsWills = try options.sendsWills()
        let count = try ProgressBar.count("connection") { place in
            let reply = try broker.send(
                KickSessions(selection, sendsWills: sendsWills, after: place))
            return (UInt64(reply.sessionCount), reply.next)
        }
        StandardStream.output.print(
            options.has(.json)
                ? jsonLine(SessionCountLine(sessionCount: count))
                : "\(counted(count, "connection")) ended")
    }
}

enum SessionDeleteCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try ParsedOptions<SessionOption>.parse(arguments, endsSessions: true)
        let selection = try options.narrowSelection()
        let broker = try options.administration()
        let sendsWills = try options.sendsWills()
        let count = try ProgressBar.count("session") { place in
            let reply = try broker.send(
                DeleteSessions(selection, sendsWills: sendsWills, after: place))
            return (UInt64(reply.sessionCount), reply.next)
        }
        StandardStream.output.print(
            options.has(.json)
                ? jsonLine(SessionCountLine(sessionCount: count))
                : "\(counted(count, "session")) deleted")
    }
}

/// The queues of each of a user's sessions, and, without a device, the user's offline queue.
enum QueueShowCommand {
    private struct Line: Encodable {
        /// Nil for the offline queue.
        var device: String?
        var queue: Queue
    }

    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try ParsedOptions<SessionOption>.parse(arguments)
        let selection = try options.selection()
        guard let user = selection.user else {
            throw UsageError("missing USER: martlet queue show USER")
        }
        let broker = try options.administration()
        let offlineQueue = try broker.send(ShowOfflineQueue(app: selection.app, user: user))
        var lines = selection.device == nil ? [Line(device: nil, queue: offlineQueue)] : []
        lines += try broker.send(ListSessions(selection)).sessions.map {
            Line(device: $0.device, queue: $0.queue)
        }
        if options.has(.json) {
            for line in lines { StandardStream.output.print(jsonLine(line)) }
            return
        }
        var table = TextTable("QUEUE", "WAITING", "BYTES", "OVERFLOW", "NEXT NUMBER")
        for line in lines {
            let name = line.device.map { $0.isEmpty ? "device without name" : "device \($0)" }
            table.add([
                name ?? "offline", "\(line.queue.messageCount)", "\(line.queue.byteCount)",
                "\(line.queue.overflowCount)", "\(line.queue.nextNumber)",
            ])
        }
        _ = table.printPage()
    }
}

enum QueuePurgeCommand {
    private struct Line: Encodable { let messageCount: UInt64 }

    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try ParsedOptions<SessionOption>.parse(arguments)
        let selection = try options.narrowSelection()
        let broker = try options.administration()
        let count = try ProgressBar.count("message") { place in
            let reply = try broker.send(PurgeQueues(selection, after: place))
            return (reply.messageCount, reply.next)
        }
        StandardStream.output.print(
            options.has(.json)
                ? jsonLine(Line(messageCount: count))
                : "\(counted(count, "message")) discarded")
    }
}
