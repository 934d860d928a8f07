// `martlet password`: the passwords with which MQTT clients log in by a user name.

import Administration
import CommandLineOptions
import Files

enum PasswordOption: String, AppRules {
    case data, server, ca, token, app, file, hash, user, device, right, expires, limit, json

    var shape: OptionShape {
        switch self {
        case .right: .repeated
        case .json: .flag
        case .data, .server, .ca, .token, .app, .file, .hash, .user, .device, .expires, .limit:
            .value
        }
    }
}

extension ParsedOptions<PasswordOption> {
    fileprivate func name(_ command: String) throws -> String {
        guard let name = positionals.first else {
            throw UsageError("missing NAME: martlet password \(command) NAME")
        }
        return name
    }
}

/// `martlet password set`
enum PasswordSetCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<PasswordOption>.options(
            arguments, positionalMaximum: 1,
            accepting: [.app, .file, .hash, .user, .device, .right, .expires, .json])
        let name = try options.name("set")
        let app = try options.app()
        let expiry = try options.duration(.expires)
        if options.has(.hash), options.has(.file) {
            throw UsageError("--hash and --file exclude each other")
        }
        let password = options.has(.hash) ? nil : try read(options[.file])
        let broker = try options.administration()
        let reply = try broker.send(
            SetPassword(
                app: app, name: name, password: password, hash: options[.hash],
                user: options[.user], device: options[.device],
                rights: options.has(.right) ? options.all(.right) : nil, expirySeconds: expiry,
                // A new secret alone takes away no restriction.
                keepsTerms: true))
        PasswordLine.print(
            "the password of \(name) is set", name: name, app: app,
            connectionCount: reply.connectionCount, by: options)
    }

    /// The password in a file that others may not read, or else in the first line of standard
    /// input.
    private static func read(_ path: String?) throws -> String {
        if let path {
            do throws(SecretFileFailure) {
                return try SecretFile.read(path)
            } catch {
                throw CommandFailure(error.description, .failure)
            }
        }
        guard let line = readLine(), !line.isEmpty else {
            throw CommandFailure("the first line of standard input has no password", .failure)
        }
        return line
    }
}

/// `martlet password list`
enum PasswordListCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<PasswordOption>.options(
            arguments, accepting: [.app, .user, .limit, .json])
        let app = try options.app()
        var pages = PageLimit(try options.integer(.limit, in: 1...Int.max))
        let broker = try options.administration()
        var table = TextTable("NAME", "USER", "DEVICE", "KIND", "EXPIRES", "LAST USE", "RIGHTS")
        var after: String?
        while true {
            let reply = try broker.send(
                ListPasswords(
                    app: app, user: options[.user], after: after,
                    limit: pages.next(atMost: ListPasswords.countMaximum)))
            for password in reply.passwords {
                if options.has(.json) {
                    guard StandardStream.output.print(jsonLine(password)) else { return }
                } else {
                    table.add(fields(password))
                }
            }
            if !options.has(.json) {
                guard table.printPage() else { return }
            }
            pages.take(reply.passwords.count)
            guard let next = reply.next, !pages.isOver else { return }
            after = next
        }
    }

    private static func fields(_ password: ListPasswords.Password) -> [String] {
        [
            password.name, password.user, password.device ?? "any", password.kind,
            password.expiresUnixSeconds.map(dateText(unixSeconds:)) ?? "never",
            password.lastUsedUnixSeconds.map(dateText(unixSeconds:)) ?? "never",
            password.rights.map { $0.joined(separator: " ") } ?? "the app's",
        ]
    }
}

/// `martlet password expire`
enum PasswordExpireCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<PasswordOption>.options(
            arguments, positionalMaximum: 1, accepting: [.app, .expires, .json])
        let name = try options.name("expire")
        let app = try options.app()
        let expiry = try options.duration(.expires)
        let broker = try options.administration()
        let reply = try broker.send(
            ExpirePassword(app: app, name: name, expirySeconds: expiry))
        PasswordLine.print(
            "the password of \(name) "
                + (expiry == nil ? "does not expire" : "expires in \(options[.expires] ?? "")"),
            name: name, app: app, connectionCount: reply.connectionCount, by: options)
    }
}

/// `martlet password revoke`
enum PasswordRevokeCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<PasswordOption>.options(
            arguments, positionalMaximum: 1, accepting: [.app, .json])
        let name = try options.name("revoke")
        let app = try options.app()
        let broker = try options.administration()
        let reply = try broker.send(RevokePassword(app: app, name: name))
        PasswordLine.print(
            "the password of \(name) is refused from now on", name: name, app: app,
            connectionCount: reply.connectionCount, by: options)
    }
}

/// The output of the commands that change a password.
private struct PasswordLine: Encodable {
    let app: String
    let name: String
    let connectionCount: Int

    static func print(
        _ text: String, name: String, app: String, connectionCount: Int,
        by options: ParsedOptions<PasswordOption>
    ) {
        StandardStream.output.print(
            options.has(.json)
                ? jsonLine(PasswordLine(app: app, name: name, connectionCount: connectionCount))
                : "\(text), \(counted(connectionCount, "connection")) ended")
    }
}
