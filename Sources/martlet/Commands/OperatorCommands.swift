// `martlet operator`: who may use the HTTP API.

import Administration
import CommandLineOptions

enum OperatorOption: String, AdministrationRules {
    case data, server, ca, token, role, expires, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

/// `martlet operator add`
enum OperatorAddCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<OperatorOption>.options(arguments, positionalMaximum: 1)
        guard let name = options.positionals.first else {
            throw UsageError("missing NAME: martlet operator add NAME --role ROLE")
        }
        let known = OperatorRole.allCases.map(\.rawValue).joined(separator: ", ")
        guard let word = options[.role] else { throw UsageError("missing --role: one of \(known)") }
        guard let role = OperatorRole(rawValue: word) else {
            throw UsageError("--role must be one of \(known), not \"\(word)\"")
        }
        let expiry = try options.duration(.expires)
        let broker = try options.administration()
        let reply = try broker.send(
            AddOperator(operator: name, role: role, expirySeconds: expiry))
        let line =
            options.has(.json)
            ? jsonLine(OperatorTokenLine(operator: name, token: reply.token))
            : "\(name)\t\(reply.token)"
        guard StandardStream.output.print(line) else {
            // Nobody has the token.
            _ = try broker.send(RevokeOperator(operator: name))
            throw CommandFailure(
                "\(CommandFailure.output.message); the operator \(name) is not added", .failure)
        }
        if !options.has(.json) {
            StandardStream.error.print(
                "martlet: that is the operator's token; it is shown only this once")
        }
    }
}

/// `martlet operator list`
enum OperatorListCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<OperatorOption>.options(arguments, accepting: [.json])
        let broker = try options.administration()
        let operators = try broker.send(ListOperators()).operators
        if options.has(.json) {
            for one in operators { StandardStream.output.print(jsonLine(one)) }
            return
        }
        var table = TextTable("OPERATOR", "ROLE", "MADE", "EXPIRES")
        for one in operators {
            table.add([
                one.operator, one.role.rawValue, dateText(unixSeconds: one.madeUnixSeconds),
                one.expiresUnixSeconds.map(dateText(unixSeconds:)) ?? "never",
            ])
        }
        _ = table.printPage()
    }
}

/// `martlet operator revoke`
enum OperatorRevokeCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<OperatorOption>.options(
            arguments, positionalMaximum: 1, accepting: [.json])
        guard let name = options.positionals.first else {
            throw UsageError("missing NAME: martlet operator revoke NAME")
        }
        let broker = try options.administration()
        _ = try broker.send(RevokeOperator(operator: name))
        StandardStream.output.print(
            options.has(.json)
                ? jsonLine(OperatorLine(operator: name))
                : "the token of \(name) is refused from now on")
    }
}

/// The JSON output of `martlet operator add`.
private struct OperatorTokenLine: Encodable {
    let `operator`: String
    let token: String
}

/// The JSON output of `martlet operator revoke`.
private struct OperatorLine: Encodable {
    let `operator`: String
}
