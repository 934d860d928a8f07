// `martlet user list` and `martlet user show`: the users of an app, and the devices of one.

import Administration
import CommandLineOptions

enum UserOption: String, AppRules {
    case data, server, ca, token, app, limit, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

enum UserListCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<UserOption>.options(arguments)
        let app = try options.app()
        var pages = PageLimit(try options.integer(.limit, in: 1...Int.max))
        let broker = try options.administration()
        var table = TextTable("USER", "SESSIONS", "CONNECTED", "TOKENS", "LAST SEEN")
        var after: UInt32?
        repeat {
            let reply = try broker.send(
                ListUsers(
                    app: app, after: after, limit: pages.next(atMost: ListUsers.countMaximum)))
            if options.has(.json) {
                for user in reply.users {
                    guard StandardStream.output.print(jsonLine(user)) else { return }
                }
            } else {
                for user in reply.users { table.add(fields(user)) }
                guard table.printPage() else { return }
            }
            after = reply.next
            pages.take(reply.users.count)
        } while after != nil && !pages.isOver
    }

    private static func fields(_ user: ListUsers.User) -> [String] {
        [
            user.user, "\(user.sessionCount)", "\(user.connectionCount)", "\(user.tokenCount)",
            user.connectionCount > 0
                ? "now"
                : user.lastSeenUnixMilliseconds.map { dateText(unixSeconds: $0 / 1_000) } ?? "",
        ]
    }
}

enum UserShowCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<UserOption>.options(
            arguments, positionalMaximum: 1, accepting: [.app, .json])
        guard let user = options.positionals.first else {
            throw UsageError("missing USER: martlet user show USER")
        }
        let app = try options.app()
        let broker = try options.administration()
        let reply = try broker.send(ShowUser(app: app, user: user))
        if options.has(.json) {
            StandardStream.output.print(jsonLine(reply))
            return
        }
        StandardStream.output.print(
            textSheet([
                "user": reply.user,
                "connected": reply.connectionCount > 0
                    ? counted(reply.connectionCount, "device")
                    : reply.lastSeenUnixMilliseconds.map {
                        "no, since \(dateText(unixSeconds: $0 / 1_000))"
                    } ?? "no",
                "tokens": "\(reply.tokenCount)", "groups": "\(reply.groupCount)",
                "offline": "\(counted(reply.offlineQueue.messageCount, "message")), "
                    + counted(reply.offlineQueue.byteCount, "byte"),
                "sessions": "\(reply.sessionCount)",
            ]))
        guard !reply.devices.isEmpty else { return }
        var table = TextTable(
            "DEVICE", "DIALECT", "STATE", "FOR", "CREDENTIAL", "ADDRESS", "LISTENER", "WAITING",
            "BYTES", "UNDER WAY")
        for device in reply.devices { table.add(fields(device)) }
        StandardStream.output.print("")
        _ = table.printPage()
    }

    private static func fields(_ device: ShowUser.Device) -> [String] {
        let seconds =
            device.connectedUnixMilliseconds.map { secondsSince(unixMilliseconds: $0) }
            ?? device.awaySeconds ?? 0
        let credential = device.credential.map(text(of:))
        return [
            device.device, device.dialect,
            device.connectedUnixMilliseconds == nil ? "away" : "connected",
            duration(seconds: seconds), credential ?? "", device.address ?? "",
            device.listener ?? "", "\(device.queue.messageCount)", "\(device.queue.byteCount)",
            "\(device.underWayCount)",
        ]
    }
}

/// The kind of a credential and its name.
func text(of credential: ShowUser.Credential) -> String {
    credential.id.map { "\(credential.kind.rawValue) \($0)" } ?? credential.kind.rawValue
}
