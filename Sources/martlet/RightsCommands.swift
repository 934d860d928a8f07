// `martlet app show`, `martlet app rights` and `martlet explain`: what clients may do, and why.
// `martlet backup` stands here too, as the last of the operator's commands.

import Administration
import CommandLineOptions

enum RightsOption: String, AdministrationRules {
    case data, app, user, device, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

enum AppShowCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<RightsOption>.options(arguments, positionalMaximum: 1)
        let app = try options.positionals.first ?? options.needed(.app, "MARTLET_APP", "which app")
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        let reply = try broker.send(ShowApp(app: app))
        StandardStream.output.print(options.has(.json) ? jsonLine(reply) : text(reply))
    }

    private static func text(_ app: ShowApp.Reply) -> String {
        """
        app: \(app.app)
        key: \(app.hasKey ? "lets clients in" : "none")
        rights: \(app.rights.joined(separator: " "))
        users: \(app.userCount)
        groups: \(app.groupCount)
        sessions: \(app.sessionCount), \(app.connectionCount) connected
        tokens: \(app.tokenCount)
        """
    }
}

enum AppRightsCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<RightsOption>.options(arguments, positionalMaximum: .max)
        let app = try options.needed(.app, "MARTLET_APP", "which app")
        guard !options.positionals.isEmpty else {
            throw UsageError(
                "say which rights: martlet app rights --app NAME 'send:*' 'publish:#' ...")
        }
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        _ = try broker.send(SetAppRights(app: app, rights: options.positionals))
    }
}

enum ExplainCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<RightsOption>.options(arguments, positionalMaximum: 2)
        let actions = ExplainRights.Action.allCases.map(\.rawValue).joined(separator: ", ")
        guard let word = options.positionals.first,
            let action = ExplainRights.Action(rawValue: word)
        else { throw UsageError("say what it wants to do, one of: \(actions)") }
        let target = options.positionals.dropFirst().first
        if target == nil, action != .broadcast, action != .createGroup {
            throw UsageError("say with what: martlet explain \(word) TARGET")
        }
        let app = try options.needed(.app, "MARTLET_APP", "which app")
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        let reply = try broker.send(
            ExplainRights(
                app: app, user: try options.required(.user), device: options[.device] ?? "",
                action: action, target: target ?? ""))
        StandardStream.output.print(options.has(.json) ? jsonLine(reply) : text(reply))
    }

    private static func text(_ reply: ExplainRights.Reply) -> String {
        let rights = reply.rights.isEmpty ? "none" : reply.rights.joined(separator: " ")
        return """
            \(reply.right.map { "allowed by \($0)" } ?? "refused: no right allows it")
            the rights of \(reply.origin): \(rights)
            \(reply.isConnected ? "it is connected" : "not connected; this holds at its login")
            """
    }
}

enum BackupCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<RightsOption>.options(arguments, positionalMaximum: 1)
        guard let directory = options.positionals.first else {
            throw UsageError("say where to: martlet backup DIRECTORY")
        }
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        let reply = try broker.send(BackUpStore(directory: directory))
        StandardStream.output.print("\(directory): \(reply.byteCount) bytes")
    }
}
