// `martlet app key`: the keys with which back ends log in as any user of an app and use the HTTP
// API.

import Administration
import CommandLineOptions

enum AppKeyOption: String, AppRules {
    case data, server, ca, token, app, role, right, expires, json

    var shape: OptionShape {
        switch self {
        case .right: .repeated
        case .json: .flag
        case .data, .server, .ca, .token, .app, .role, .expires: .value
        }
    }
}

/// `martlet app key add`
enum AppKeyAddCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<AppKeyOption>.options(arguments, positionalMaximum: 1)
        guard let name = options.positionals.first else {
            throw UsageError("missing NAME: martlet app key add NAME --role ROLE")
        }
        let app = try options.app()
        let known = AddAppKey.roles.map(\.rawValue).joined(separator: ", ")
        guard let word = options[.role] else { throw UsageError("missing --role: one of \(known)") }
        guard let role = AddAppKey.roles.first(where: { $0.rawValue == word }) else {
            throw UsageError("--role must be one of \(known), not \"\(word)\"")
        }
        let expiry = try options.duration(.expires)
        let broker = try options.administration()
        let reply = try broker.send(
            AddAppKey(
                app: app, name: name, role: role,
                rights: options.has(.right) ? options.all(.right) : nil, expirySeconds: expiry))
        let line =
            options.has(.json)
            ? jsonLine(AppKeyLine(app: app, name: name, key: reply.key))
            : "\(name)\t\(reply.key)"
        guard StandardStream.output.print(line) else {
            // Nobody has the key.
            _ = try broker.send(RevokeAppKey(app: app, name: name))
            throw CommandFailure(
                "\(CommandFailure.output.message); the key \(name) is not added", .failure)
        }
        if !options.has(.json) {
            StandardStream.error.print("martlet: that is the key; it is shown only this once")
        }
    }
}

/// `martlet app key list`
enum AppKeyListCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<AppKeyOption>.options(arguments, accepting: [.app, .json])
        let app = try options.app()
        let broker = try options.administration()
        let keys = try broker.send(ListAppKeys(app: app)).keys
        if options.has(.json) {
            for key in keys { StandardStream.output.print(jsonLine(key)) }
            return
        }
        var table = TextTable("NAME", "ROLE", "MADE", "EXPIRES", "LAST USE", "RIGHTS")
        for key in keys {
            table.add([
                key.name, key.role.rawValue,
                key.madeUnixSeconds.map(dateText(unixSeconds:)) ?? "unknown",
                key.expiresUnixSeconds.map(dateText(unixSeconds:)) ?? "never",
                key.lastUsedUnixSeconds.map(dateText(unixSeconds:)) ?? "never",
                key.rights.map { $0.joined(separator: " ") } ?? "the app's",
            ])
        }
        _ = table.printPage()
    }
}

/// `martlet app key revoke`
enum AppKeyRevokeCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<AppKeyOption>.options(
            arguments, positionalMaximum: 1, accepting: [.app, .json])
        guard let name = options.positionals.first else {
            throw UsageError("missing NAME: martlet app key revoke NAME")
        }
        let app = try options.app()
        let broker = try options.administration()
        let count = try broker.send(RevokeAppKey(app: app, name: name)).connectionCount
        StandardStream.output.print(
            options.has(.json)
                ? jsonLine(AppKeyRevokedLine(app: app, name: name, connectionCount: count))
                : "the key \(name) is refused from now on, "
                    + "\(count) connection\(count == 1 ? "" : "s") ended")
    }
}

/// The JSON output of `martlet app key add`.
private struct AppKeyLine: Encodable {
    let app: String
    let name: String
    let key: String
}

/// The JSON output of `martlet app key revoke`.
private struct AppKeyRevokedLine: Encodable {
    let app: String
    let name: String
    let connectionCount: Int
}
