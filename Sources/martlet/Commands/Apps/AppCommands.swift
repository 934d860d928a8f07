// `martlet app` and `martlet user`: apps, the rights of their users, and users who are known before
// their first login.

import Administration
import CommandLineOptions

enum AppOption: String, AppRules {
    case data, server, ca, token, app, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

/// `martlet app create`
enum AppCreateCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<AppOption>.options(
            arguments, positionalMaximum: .max, accepting: [.json])
        guard let app = options.positionals.first else {
            throw UsageError("missing NAME: martlet app create NAME")
        }
        let broker = try options.administration()
        let rights = Array(options.positionals.dropFirst())
        let reply = try broker.send(CreateApp(app: app, rights: rights.isEmpty ? nil : rights))
        let line =
            options.has(.json)
            ? jsonLine(AppKeyLine(app: app, key: reply.key)) : "\(app)\t\(reply.key)"
        guard StandardStream.output.print(line) else {
            // The broker keeps only a hash, and an app remains once it is created.
            throw CommandFailure(
                "\(CommandFailure.output.message); the app \(app) is made, and its key is lost: "
                    + "nobody can log in with it. Revoke the key default and add another one "
                    + "(martlet app key)", .failure)
        }
        if !options.has(.json) {
            StandardStream.error.print(
                "martlet: that is the app's key; it is shown only this once")
        }
    }
}

/// `martlet app list`
enum AppListCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<AppOption>.options(arguments, accepting: [.json])
        let broker = try options.administration()
        let reply = try broker.send(ListApps())
        let apps = reply.apps
        if let missing = reply.missingShards {
            StandardStream.error.print(
                "martlet: the apps of these shards are missing, because this node does not lead "
                    + "them: " + missing.joined(separator: ", ")
                    + " (martlet cluster status names the nodes that do)")
        }
        if options.has(.json) {
            for app in apps { StandardStream.output.print(jsonLine(app)) }
            return
        }
        // A broker without shards names none.
        let hasShards = apps.contains { $0.shard != nil }
        var table =
            hasShards
            ? TextTable("APP", "USERS", "TOKENS", "SHARD") : TextTable("APP", "USERS", "TOKENS")
        for app in apps {
            let shard = hasShards ? [app.shard ?? ""] : []
            table.add([app.app, "\(app.userCount)", "\(app.tokenCount)"] + shard)
        }
        _ = table.printPage()
        for app in apps where app.isBeingDeleted == true {
            StandardStream.error.print(
                "martlet: the app \(app.app) is being deleted; continue with: "
                    + "martlet app delete \(app.app)")
        }
    }
}

/// `martlet app show`
enum AppShowCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<AppOption>.options(
            arguments, positionalMaximum: 1, accepting: [.app, .json])
        let app = try options.positionals.first ?? options.app()
        let broker = try options.administration()
        let reply = try broker.send(ShowApp(app: app))
        StandardStream.output.print(options.has(.json) ? jsonLine(reply) : text(reply))
    }

    private static func text(_ app: ShowApp.Reply) -> String {
        textSheet([
            "app": app.app, "key": app.hasKey ? "enabled" : "none",
            "rights": app.rights.joined(separator: " "), "users": "\(app.userCount)",
            "groups": "\(app.groupCount)",
            "sessions": "\(app.sessionCount), \(app.connectionCount) connected",
            "tokens": "\(app.tokenCount)",
        ])
    }
}

/// `martlet app rights`
enum AppRightsCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<AppOption>.options(
            arguments, positionalMaximum: .max, accepting: [.app, .json])
        let app = try options.app()
        let rights = options.positionals
        guard !rights.isEmpty else {
            throw UsageError(
                "missing RIGHT: martlet app rights --app NAME 'send:*' 'publish:#' ...")
        }
        let broker = try options.administration()
        _ = try broker.send(SetAppRights(app: app, rights: rights))
        StandardStream.output.print(
            options.has(.json)
                ? jsonLine(AppRightsLine(app: app, rights: rights))
                : "the users of \(app) may: \(rights.joined(separator: " "))")
    }
}

/// `martlet user add`
enum UserAddCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<AppOption>.options(
            arguments, positionalMaximum: .max, accepting: [.app, .json])
        guard !options.positionals.isEmpty else {
            throw UsageError("missing USER: martlet user add USER...")
        }
        let app = try options.app()
        let broker = try options.administration()
        for user in options.positionals {
            let reply = try broker.send(AddUser(app: app, user: user))
            StandardStream.output.print(
                options.has(.json)
                    ? jsonLine(UserLine(user: user, isNew: reply.isNew))
                    : "\(user) \(reply.isNew ? "is known now" : "was known already")")
        }
    }
}

/// The JSON output of `martlet app create`.
private struct AppKeyLine: Encodable {
    let app: String
    let key: String
}

/// The JSON output of `martlet app rights`.
private struct AppRightsLine: Encodable {
    let app: String
    let rights: [String]
}

/// The JSON output of `martlet user add`.
private struct UserLine: Encodable {
    let user: String
    let isNew: Bool
}
