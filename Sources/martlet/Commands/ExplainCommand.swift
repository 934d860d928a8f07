// `martlet explain`: the right that allows an action of a client, or that none does.

import Administration
import CommandLineOptions
import MartletClient

enum ExplainOption: String, AppRules {
    case data, server, ca, token, app, user, device, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

enum ExplainCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<ExplainOption>.options(arguments, positionalMaximum: 2)
        let actions = ExplainRights.Action.allCases.map(\.rawValue).joined(separator: ", ")
        guard let word = options.positionals.first,
            let action = ExplainRights.Action(rawValue: word)
        else { throw UsageError("missing ACTION, one of: \(actions)") }
        let target = options.positionals.dropFirst().first
        if target == nil, action != .broadcast, action != .createGroup {
            throw UsageError("missing TARGET: martlet explain \(word) TARGET")
        }
        let app = try options.app()
        let broker = try options.administration()
        let reply = try broker.send(
            ExplainRights(
                app: app, user: try options.required(.user), device: options[.device] ?? "",
                action: action, target: target ?? ""))
        StandardStream.output.print(options.has(.json) ? jsonLine(reply) : text(reply))
    }

    private static func text(_ reply: ExplainRights.Reply) -> String {
        let rights = reply.rights.isEmpty ? "none" : reply.rights.joined(separator: " ")
        return """
            \(verdict(reply))
            the rights of \(reply.origin): \(rights)
            \(reply.isConnected ? "it is connected" : "not connected; this holds at its login")
            """
    }

    private static func verdict(_ reply: ExplainRights.Reply) -> String {
        switch reply.grounds {
        case .right: "allowed by \(reply.right ?? "")"
        case .own: "allowed: it is the user's own address"
        case .everybody: "allowed: broadcasts are for everybody"
        case .member: "allowed: the user is a member of the group"
        case .joins: "allowed: the user becomes a member of the group by it"
        case .refused:
            switch reply.reason.flatMap({ ReasonCode(rawValue: $0) }) {
            case nil, .notAuthorized: "refused: no right allows it"
            case let reason?: "refused: \(reason.rawValue) \(reason.name)"
            }
        }
    }
}
