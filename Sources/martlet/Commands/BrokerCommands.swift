// Commands about the broker itself: `martlet listeners`, `refusals`, `reload` and `log-level`.

import Administration
import CommandLineOptions
import Glibc

enum ListenersOption: String, AdministrationRules {
    case data, server, ca, token, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

/// `martlet listeners`
enum ListenersCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<ListenersOption>.options(arguments)
        let broker = try options.administration()
        let listeners = try broker.send(ListListeners()).listeners
        if options.has(.json) {
            for one in listeners { StandardStream.output.print(jsonLine(one)) }
            return
        }
        var table = TextTable("LISTENER", "SERVES", "CONNECTIONS", "CERTIFICATE", "DAYS LEFT")
        for one in listeners {
            table.add([
                "\(one.scheme)://\(one.address)", one.parts.joined(separator: ","),
                "\(one.connectionCount)", one.certificateSubject ?? "",
                one.certificateDays.map { "\($0)" } ?? "",
            ])
        }
        _ = table.printPage()
    }
}

enum RefusalsOption: String, ListRules {
    case data, server, ca, token, follow, count, json

    var shape: OptionShape { self == .follow || self == .json ? .flag : .value }

    var letter: Character? { followLetter }
}

/// `martlet refusals`
enum RefusalsCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<RefusalsOption>.options(arguments)
        let broker = try options.administration()
        try options.printList(
            count: ListRefusals.countDefault, maximum: ListRefusals.countMaximum
        ) { after, limit in
            let reply = try broker.send(ListRefusals(after: after, limit: limit))
            let isJSON = options.has(.json)
            return (
                reply.refusals.map { isJSON ? jsonLine($0) : text(of: $0) },
                reply.refusals.last?.number ?? reply.last
            )
        }
    }

    /// One line: when, who, what and why.
    private static func text(of one: ListRefusals.Refusal) -> String {
        let who = [one.user, one.device].compactMap { $0 }.joined(separator: "/")
        let why = [one.reason, one.code.map { "(\($0))" }, one.subject, one.detail]
        return
            ([
                dateText(unixSeconds: one.unixMilliseconds / 1_000), one.event, one.address ?? "-",
                who.isEmpty ? "-" : who,
            ] + why.compactMap { $0 }).map(printable).joined(separator: "  ")
    }
}

/// `martlet log`
enum LogCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<RefusalsOption>.options(arguments)
        let broker = try options.administration()
        try options.printList(
            count: ListLogLines.countDefault, maximum: ListLogLines.countMaximum
        ) { after, limit in
            let reply = try broker.send(ListLogLines(after: after, limit: limit))
            let isJSON = options.has(.json)
            return (
                reply.lines.map { isJSON ? jsonLine($0) : text(of: $0) },
                reply.lines.last?.number ?? reply.last
            )
        }
    }

    /// One line: when, how serious, what, and the fields.
    private static func text(of line: ListLogLines.Line) -> String {
        let fields = line.fields.filter { !$0.value.isEmpty }.map { "\($0.name)=\($0.value)" }
        return
            ([dateText(unixSeconds: line.unixMilliseconds / 1_000), line.level, line.event]
            + fields).map(printable).joined(separator: "  ")
    }
}

enum ReloadOption: String, AdministrationRules {
    case data, server, ca, token, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

/// `martlet reload`
enum ReloadCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<ReloadOption>.options(arguments)
        let reply = try options.administration().send(ReloadConfiguration())
        if options.has(.json) {
            StandardStream.output.print(jsonLine(reply))
            return
        }
        let changed = reply.changed + reply.files.map(printable)
        StandardStream.output.print(
            "reloaded; changed: " + (changed.isEmpty ? "nothing" : changed.joined(separator: ", ")))
        guard !reply.needsRestart.isEmpty else { return }
        StandardStream.error.print(
            "martlet: a restart is needed for \(reply.needsRestart.joined(separator: ", "))")
    }
}

/// `martlet log-level`
enum LogLevelCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<ReloadOption>.options(arguments, positionalMaximum: 1)
        let known = SetLogLevel.levels.joined(separator: ", ")
        guard let level = options.positionals.first else {
            throw UsageError("missing LEVEL: one of \(known)")
        }
        guard SetLogLevel.levels.contains(level) else {
            throw UsageError("LEVEL must be one of \(known), not \"\(level)\"")
        }
        let reply = try options.administration().send(SetLogLevel(level: level))
        StandardStream.output.print(
            options.has(.json)
                ? jsonLine(reply)
                : "the level of the log is \(level), until the next reload or restart; it was "
                    + printable(reply.previous))
    }
}
