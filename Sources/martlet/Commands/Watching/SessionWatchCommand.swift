// `martlet session watch`: what happens to the sessions of one user, as it happens.

import Administration
import CommandLineOptions
import Glibc

/// `martlet session watch`
enum SessionWatchCommand {
    /// One line of `--json`: a line of the log, or a session that has changed.
    private struct Line: Encodable {
        var event: ListLogLines.Line?
        var session: ListSessions.Session?
        /// A session that is no more.
        var endedDevice: String?
    }

    /// Seconds between two looks.
    private static let interval: UInt32 = 1

    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<SessionOption>.options(
            arguments, positionalMaximum: 1, accepting: [.app, .user, .device, .json])
        guard let user = options[.user] ?? options.positionals.first else {
            throw UsageError("missing USER: martlet session watch USER")
        }
        let selection = SessionSelection(
            app: try options.app(), user: user, device: options[.device])
        let broker = try options.administration()
        var known: [String: ListSessions.Session] = [:]
        var last = try broker.send(ListLogLines(limit: 1)).last
        while true {
            let page = try broker.send(
                ListLogLines(after: last, limit: ListLogLines.countMaximum))
            let sessions = try sessions(selection, broker)
            var lines = page.lines.filter { isAbout($0, selection) }.map { Line(event: $0) }
            for session in sessions {
                if known[session.device].map({ !hasChanged($0, session) }) != true {
                    lines.append(Line(session: session))
                }
            }
            let devices = Set(sessions.map(\.device))
            for device in known.keys.sorted() where !devices.contains(device) {
                lines.append(Line(endedDevice: device))
            }
            known = Dictionary(sessions.map { ($0.device, $0) }) { $1 }
            for line in lines {
                let text = options.has(.json) ? jsonLine(line) : text(of: line)
                guard StandardStream.output.print(text) else { return }
            }
            last = page.lines.last?.number ?? page.last
            if page.lines.count < ListLogLines.countMaximum { sleep(interval) }
        }
    }

    /// All pages of the sessions: one that is not on the first page has not ended.
    private static func sessions(
        _ selection: SessionSelection, _ broker: borrowing AdministrationConnection
    ) throws -> [ListSessions.Session] {
        var page = try broker.send(ListSessions(selection))
        var sessions = page.sessions
        while let next = page.next {
            page = try broker.send(ListSessions(selection, after: next))
            sessions += page.sessions
        }
        return sessions
    }

    /// Whether a line of the log names the user, the device if one is chosen, and no other app.
    private static func isAbout(_ line: ListLogLines.Line, _ selection: SessionSelection) -> Bool {
        func field(_ name: String) -> String? { line.fields.first { $0.name == name }?.value }
        guard field("user") == selection.user, field("app") ?? selection.app == selection.app else {
            return false
        }
        return selection.device.map { field("device") == $0 } ?? true
    }

    /// Whether more has changed than the time since the last bytes.
    private static func hasChanged(
        _ earlier: ListSessions.Session, _ later: ListSessions.Session
    ) -> Bool {
        var (earlier, later) = (earlier, later)
        for keyPath in [\ListSessions.Session.silentSeconds, \.awaySeconds] {
            earlier[keyPath: keyPath] = nil
            later[keyPath: keyPath] = nil
        }
        return earlier != later
    }

    private static func text(of line: Line) -> String {
        if let event = line.event {
            let fields = event.fields.filter { !$0.value.isEmpty && $0.name != "user" }
                .map { "\($0.name)=\($0.value)" }
            return
                ([dateText(unixSeconds: event.unixMilliseconds / 1_000), event.event] + fields)
                .map(printable).joined(separator: "  ")
        }
        let now = dateText(unixSeconds: UInt64(max(0, time(nil))))
        guard let session = line.session else {
            return "\(now)  session ended  device=\(printable(line.endedDevice ?? ""))"
        }
        let state =
            session.connectedUnixMilliseconds.map {
                "connected for \(duration(seconds: secondsSince(unixMilliseconds: $0)))"
            } ?? "away for \(duration(seconds: session.awaySeconds ?? 0))"
        return [
            now, "session", "device=\(session.device)", state,
            "waiting=\(session.queue.messageCount)", "bytes=\(session.queue.byteCount)",
            "under way=\(session.underWayCount)",
            session.silentSeconds.map { "last bytes \(duration(seconds: $0)) ago" } ?? "",
        ].filter { !$0.isEmpty }.map(printable).joined(separator: "  ")
    }
}
