// `martlet token list` and `martlet token revoke`: which tokens there are, and to take them back.

import Administration
import CommandLineOptions

enum TokenOption: String, AdministrationRules {
    case data, app, id, user, device, batch, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

extension ParsedOptions<TokenOption> {
    fileprivate func selection() throws -> TokenSelection {
        TokenSelection(
            app: try needed(.app, "MARTLET_APP", "which app"), id: self[.id], user: self[.user],
            device: self[.device], batch: self[.batch])
    }
}

enum TokenListCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<TokenOption>.options(arguments)
        let selection = try options.selection()
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        var after: String?
        while true {
            let tokens = try broker.send(ListTokens(selection, after: after)).tokens
            for token in tokens {
                let line = options.has(.json) ? jsonLine(token) : text(token)
                guard StandardStream.output.print(line) else { return }
            }
            guard tokens.count == ListTokens.countMaximum else { return }
            after = tokens.last?.id
        }
    }

    private static func text(_ token: ListTokens.Token) -> String {
        [
            token.id, token.user, token.device ?? "any device", token.batch ?? "-",
            token.expiresUnixSeconds.map { "expires \(dateText(unixSeconds: $0))" }
                ?? "for ever",
            token.lastUsedUnixSeconds.map { "used \(dateText(unixSeconds: $0))" } ?? "never used",
            token.rights.map { $0.joined(separator: " ") } ?? "the app's rights",
        ].joined(separator: "\t")
    }
}

enum TokenRevokeCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<TokenOption>.options(arguments)
        let selection = try options.selection()
        guard selection != TokenSelection(app: selection.app) else {
            throw UsageError("say which tokens: --id, --user, --device or --batch")
        }
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        let reply = try broker.send(RevokeTokens(selection))
        StandardStream.output.print(
            options.has(.json)
                ? jsonLine(reply)
                : "\(reply.tokenCount) tokens revoked, \(reply.connectionCount) connections ended")
    }
}
