// The commands that talk to a running broker through the socket in its data directory: apps, users,
// tokens.

import Administration
import CommandLineOptions

enum AppOption: String, AdministrationRules {
    case data, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

/// `martlet app create`
enum AppCreateCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<AppOption>.options(arguments, positionalMaximum: .max)
        guard let app = options.positionals.first else {
            throw UsageError("say how it is called: martlet app create NAME")
        }
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        let rights = Array(options.positionals.dropFirst())
        let reply = try broker.send(CreateApp(app: app, rights: rights.isEmpty ? nil : rights))
        if options.has(.json) {
            StandardStream.output.print(
                #"{"app":\#(quoted(app)),"key":\#(quoted(reply.key))}"#)
        } else {
            StandardStream.output.print("\(app)\t\(reply.key)")
            StandardStream.error.print(
                "martlet: that is the app's key; it is shown only this once")
        }
    }
}

/// `martlet app list`
enum AppListCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<AppOption>.options(arguments)
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        for app in try broker.send(ListApps()).apps {
            StandardStream.output.print(
                options.has(.json)
                    ? #"{"app":\#(quoted(app.app)),"users":\#(app.userCount),"#
                        + #""tokens":\#(app.tokenCount)}"#
                    : "\(app.app)\t\(app.userCount) users\t\(app.tokenCount) tokens")
        }
    }
}

enum UserAddOption: String, AdministrationRules {
    case data, app

    var shape: OptionShape { .value }
}

/// `martlet user add`
enum UserAddCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<UserAddOption>.options(
            arguments, positionalMaximum: .max)
        guard !options.positionals.isEmpty else {
            throw UsageError("say who: martlet user add USER...")
        }
        let app = try options.needed(.app, "MARTLET_APP", "which app")
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        for user in options.positionals {
            let reply = try broker.send(AddUser(app: app, user: user))
            if !reply.isNew { StandardStream.error.print("martlet: \(user) was known already") }
        }
    }
}

enum TokenMintOption: String, AdministrationRules {
    case data, app, user, device, expiry, batch, right, json

    var shape: OptionShape {
        switch self {
        case .user, .right: .repeated
        case .json: .flag
        case .data, .app, .device, .expiry, .batch: .value
        }
    }
}

/// `martlet token mint`: the token alone on its line for one user, with the user before it for
/// more.
enum TokenMintCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<TokenMintOption>.options(arguments)
        let users = options.all(.user)
        guard !users.isEmpty else { throw UsageError("say whose token: --user USER") }
        let app = try options.needed(.app, "MARTLET_APP", "which app")
        let expiry = try options.seconds(.expiry)
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        let reply = try broker.send(
            MintTokens(
                app: app, users: users, device: options[.device], expirySeconds: expiry,
                batch: options[.batch], rights: options.has(.right) ? options.all(.right) : nil))
        for token in reply.tokens {
            let line =
                if options.has(.json) {
                    #"{"user":\#(quoted(token.user)),"id":\#(quoted(token.id)),"#
                        + #""token":\#(quoted(token.token))}"#
                } else {
                    users.count == 1 ? token.token : "\(token.user)\t\(token.token)"
                }
            StandardStream.output.print(line)
        }
    }
}
