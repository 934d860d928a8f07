// `martlet explain`: the right that allows an action of a client, or the login of a key, or that
// none does.

import Administration
import CommandLineOptions
import MartletClient

enum ExplainOption: String, AppRules {
    case data, server, ca, token, app, user, device, key, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

enum ExplainCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<ExplainOption>.options(arguments, positionalMaximum: 2)
        let actions = ExplainRights.Action.words.joined(separator: ", ")
        guard let word = options.positionals.first else {
            throw UsageError("missing ACTION, one of: \(actions)")
        }
        guard let action = ExplainRights.Action(word: word) else {
            throw UsageError("unknown ACTION \(word); one of: \(actions)")
        }
        let target = options.positionals.dropFirst().first
        if target == nil, action != .broadcast, action != .createGroup {
            throw UsageError("missing TARGET: martlet explain \(word) TARGET")
        }
        let key = options[.key]
        if key != nil, action != .attach || options.has(.user) || options.has(.device) {
            throw UsageError("--key asks whether a key logs in as USER: --key NAME attach USER")
        }
        let app = try options.app()
        let user = key == nil ? try options.required(.user) : nil
        let broker = try options.administration()
        let reply = try broker.send(
            ExplainRights(
                app: app, user: user, device: options[.device] ?? "", key: key, action: action,
                target: target ?? ""))
        guard !options.has(.json) else {
            StandardStream.output.print(jsonLine(reply))
            return
        }
        var connected: [String] = []
        if let user, !options.has(.device) {
            connected = try connectedDevices(of: user, app: app, broker)
        }
        StandardStream.output.print(text(reply, connected: connected))
    }

    /// The devices of a user that are connected; none if the user is not known.
    private static func connectedDevices(
        of user: String, app: String, _ broker: borrowing AdministrationConnection
    ) throws(AdministrationError) -> [String] {
        do throws(AdministrationError) {
            return try broker.send(ShowUser(app: app, user: user)).devices
                .filter { $0.connectedUnixMilliseconds != nil }.map(\.device)
        } catch {
            guard case .refused = error else { throw error }
            return []
        }
    }

    /// - Parameter connected: devices of the user, if no device was asked for.
    private static func text(_ reply: ExplainRights.Reply, connected: [String]) -> String {
        let rights = reply.rights.isEmpty ? "none" : reply.rights.joined(separator: " ")
        return """
            \(verdict(reply))
            the rights of \(reply.origin): \(rights)
            \(state(reply, connected))
            """
    }

    private static func state(_ reply: ExplainRights.Reply, _ connected: [String]) -> String {
        if reply.isConnected { return "it is connected" }
        guard let first = connected.first else { return "not connected; this holds at its login" }
        // Their credentials may have other rights.
        let others = connected.count > 1 ? " and \(connected.count - 1) more" : ""
        return "this holds at the next login; connected is \(printable(first))\(others): "
            + "ask with --device"
    }

    private static func verdict(_ reply: ExplainRights.Reply) -> String {
        switch reply.grounds {
        case .right: "allowed by \(reply.right ?? "")"
        case .own: "allowed: it is the user's own address"
        case .everybody: "allowed: broadcasts are for everybody"
        case .member: "allowed: the user is a member of the group"
        case .joins: "allowed: the user becomes a member of the group by it"
        case .key: "allowed: a key with the role operate and without rights logs in as any user"
        case .operation:
            "allowed: its operation decides; presence needs the right presence:USER"
        case .denied: "denied by \(reply.right ?? "")"
        case .refused:
            switch reply.reason.flatMap({ ReasonCode(rawValue: $0) }) {
            case nil, .notAuthorized: "refused: no right allows it"
            case .implementationSpecificError?: "refused: there is no such operation"
            case let reason?: "refused: \(reason.rawValue) \(reason.name)"
            }
        }
    }
}
