// `martlet dashboard`: a link that signs in to the dashboard once.

import Administration
import CommandLineOptions

enum DashboardOption: String, AdministrationRules {
    case data, server, ca, token, role, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

enum DashboardCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<DashboardOption>.options(arguments, positionalMaximum: 1)
        let name = options.positionals.first ?? environment("USER") ?? "operator"
        let known = OperatorRole.allCases.map(\.rawValue).joined(separator: ", ")
        let word = options[.role] ?? OperatorRole.own.rawValue
        guard let role = OperatorRole(rawValue: word) else {
            throw UsageError("--role must be one of \(known), not \"\(word)\"")
        }
        let broker = try options.administration()
        let reply = try broker.send(MakeLoginLink(operator: name, role: role))
        // The address that reached the broker reaches the dashboard too, if it serves it.
        let links = (broker.webAddress.map { [$0] } ?? reply.addresses).map(reply.link)
        guard !options.has(.json) else {
            StandardStream.output.print(
                jsonLine(
                    DashboardLine(
                        operator: name, role: role.rawValue, links: links,
                        expiresUnixSeconds: reply.expiresUnixSeconds)))
            return
        }
        StandardStream.output.print(printable(links.first ?? ""))
        StandardStream.error.print(
            "martlet: the link signs in once, as \(name) with the role \(role.rawValue), until "
                + dateText(unixSeconds: reply.expiresUnixSeconds))
    }
}

/// The JSON output of `martlet dashboard`.
private struct DashboardLine: Encodable {
    let `operator`: String
    let role: String
    var links: [String]
    let expiresUnixSeconds: UInt64
}
