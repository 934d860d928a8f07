// `martlet wake`: where a relay reaches users of whom no device is connected.

import Administration
import CommandLineOptions

enum WakeOption: String, AppRules, ListRules {
    case data, server, ca, token, app, user, id, kind, address, device, environment, language
    case follow, count, file, template, json

    var shape: OptionShape { self == .follow || self == .json ? .flag : .value }

    var letter: Character? { followLetter }
}

extension ParsedOptions<WakeOption> {
    fileprivate func user() throws(UsageError) -> String {
        guard let user = self[.user] else { throw UsageError("missing --user USER") }
        return user
    }

    fileprivate func identifier() throws(UsageError) -> UInt64? {
        guard let text = self[.id] else { return nil }
        guard let identifier = UInt64(text), identifier > 0 else {
            throw UsageError("--id is the number of a target, not \"\(text)\"")
        }
        return identifier
    }

    func word<Word: RawRepresentable<String> & CaseIterable>(
        _ option: WakeOption, as type: Word.Type
    ) throws(UsageError) -> Word? {
        guard let text = self[option] else { return nil }
        guard let word = Word(rawValue: text) else {
            let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
            throw UsageError("--\(option.rawValue) is one of \(words), not \"\(text)\"")
        }
        return word
    }
}

/// `martlet wake set`
enum WakeSetCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<WakeOption>.options(
            arguments,
            accepting: [.app, .user, .kind, .address, .device, .environment, .language, .json])
        let app = try options.app()
        let user = try options.user()
        guard let kind = try options.word(.kind, as: WakeTargetKind.self) else {
            throw UsageError("missing --kind KIND")
        }
        guard let address = options[.address] else { throw UsageError("missing --address ADDRESS") }
        let environment = try options.word(.environment, as: WakeTargetEnvironment.self)
        let broker = try options.administration()
        let reply = try broker.send(
            SetWakeTarget(
                app: app, user: user, kind: kind, address: address, device: options[.device],
                environment: environment, language: options[.language]))
        if options.has(.json) {
            StandardStream.output.print(jsonLine(reply))
        } else {
            StandardStream.output.print("target \(reply.id) of \(user) is set")
        }
    }
}

/// `martlet wake list`
enum WakeListCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<WakeOption>.options(
            arguments, accepting: [.app, .user, .json])
        let app = try options.app()
        let user = try options.user()
        let broker = try options.administration()
        let reply = try broker.send(ListWakeTargets(app: app, user: user))
        var table = TextTable("ID", "DEVICE", "KIND", "ADDRESS", "ENVIRONMENT", "LANGUAGE", "STATE")
        for target in reply.targets {
            if options.has(.json) {
                guard StandardStream.output.print(jsonLine(target)) else { return }
            } else {
                table.add([
                    "\(target.id)", target.device ?? "any", target.kind.rawValue, target.address,
                    target.environment.rawValue, target.language ?? "",
                    target.isSilent ? "logged out" : "",
                ])
            }
        }
        if !options.has(.json) { _ = table.printPage() }
    }
}

/// `martlet wake remove`
enum WakeRemoveCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<WakeOption>.options(
            arguments, accepting: [.app, .user, .id, .json])
        let app = try options.app()
        let user = try options.user()
        guard let identifier = try options.identifier() else { throw UsageError("missing --id ID") }
        let broker = try options.administration()
        let reply = try broker.send(RemoveWakeTarget(app: app, user: user, id: identifier))
        if options.has(.json) {
            StandardStream.output.print(jsonLine(reply))
        } else {
            StandardStream.output.print(
                reply.isRemoved
                    ? "target \(identifier) of \(user) is removed"
                    : "\(user) has no target \(identifier)")
        }
    }
}

/// `martlet wake test`
enum WakeTestCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<WakeOption>.options(
            arguments, accepting: [.app, .user, .id, .json])
        let app = try options.app()
        let user = try options.user()
        let identifier = try options.identifier()
        let broker = try options.administration()
        let reply = try broker.send(TestWake(app: app, user: user, id: identifier))
        if options.has(.json) {
            StandardStream.output.print(jsonLine(reply))
        } else {
            StandardStream.output.print(
                "requested a wake-up of \(counted(UInt64(reply.targetCount), "target")) of \(user)")
        }
    }
}

/// `martlet wake log`
enum WakeLogCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<WakeOption>.options(
            arguments, accepting: [.app, .user, .count, .follow, .json])
        let app = try options.app()
        let user = try options.user()
        let broker = try options.administration()
        let isJSON = options.has(.json)
        try options.printList(
            count: ListWakeLog.countMaximum, maximum: ListWakeLog.countMaximum
        ) { after, limit in
            let reply = try broker.send(
                ListWakeLog(app: app, user: user, after: after, limit: limit))
            return (
                reply.entries.map { isJSON ? jsonLine($0) : text(of: $0) },
                reply.entries.last?.number ?? reply.last
            )
        }
    }

    /// One line: when, which target, what happened, and why.
    private static func text(of one: ListWakeLog.Entry) -> String {
        let words = [
            dateText(unixSeconds: one.unixMilliseconds / 1_000), "target \(one.id)",
            one.kind.rawValue, one.step, "wake-up \(one.wake)",
            counted(one.messageCount, "message"), one.detail,
        ]
        return words.compactMap { $0 }.map(printable).joined(separator: "  ")
    }
}
