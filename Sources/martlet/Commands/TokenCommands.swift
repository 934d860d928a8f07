// `martlet token list` and `martlet token revoke`.

import Administration
import CommandLineOptions

enum TokenOption: String, AppRules {
    case data, server, ca, token, app, id, user, device, batch, limit, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

extension ParsedOptions<TokenOption> {
    fileprivate func selection() throws -> TokenSelection {
        TokenSelection(
            app: try app(), id: self[.id], user: self[.user], device: self[.device],
            batch: self[.batch])
    }
}

enum TokenListCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<TokenOption>.options(arguments)
        let selection = try options.selection()
        var pages = PageLimit(try options.integer(.limit, in: 1...Int.max))
        let broker = try options.administration()
        var table = TextTable("ID", "USER", "DEVICE", "BATCH", "EXPIRES", "LAST USE", "RIGHTS")
        var after: String?
        var count = 0
        while true {
            let reply = try broker.send(
                ListTokens(
                    selection, after: after, limit: pages.next(atMost: ListTokens.countMaximum)))
            let tokens = reply.tokens
            if options.has(.json) {
                for token in tokens {
                    guard StandardStream.output.print(jsonLine(token)) else { return }
                }
            } else {
                for token in tokens { table.add(fields(token)) }
                guard table.printPage() else { return }
            }
            pages.take(tokens.count)
            count += tokens.count
            guard let next = reply.next, !pages.isOver else { break }
            after = next
        }
        if count == 0, selection.id != nil {
            StandardStream.error.print(
                "martlet: no token of app \(printable(selection.app)) has this id: it was revoked, "
                    + "or never minted")
        }
    }

    private static func fields(_ token: ListTokens.Token) -> [String] {
        [
            token.id, token.user, token.device ?? "any", token.batch ?? "",
            token.expiresUnixSeconds.map(dateText(unixSeconds:)) ?? "never",
            token.lastUsedUnixSeconds.map(dateText(unixSeconds:)) ?? "never",
            token.rights.map { $0.joined(separator: " ") } ?? "the app's",
        ]
    }
}

enum TokenRevokeCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<TokenOption>.options(
            arguments, accepting: [.app, .id, .user, .device, .batch, .json])
        let selection = try options.selection()
        guard selection != TokenSelection(app: selection.app) else {
            throw UsageError("missing selection: --id, --user, --device or --batch")
        }
        let broker = try options.administration()
        var reply = RevokeTokens.Reply(tokenCount: 0, connectionCount: 0)
        _ = try ProgressBar.count("token") { place in
            let part = try broker.send(RevokeTokens(selection, after: place))
            reply.tokenCount += part.tokenCount
            reply.connectionCount += part.connectionCount
            return (UInt64(part.tokenCount), part.next)
        }
        guard reply.tokenCount > 0 || options.has(.json) else {
            throw CommandFailure("no token matches the selection; see martlet token list", .failure)
        }
        StandardStream.output.print(
            options.has(.json)
                ? jsonLine(reply)
                : "\(counted(reply.tokenCount, "token")) revoked, "
                    + "\(counted(reply.connectionCount, "connection")) ended")
        // The object is printed in any case, for programs that read it.
        if reply.tokenCount == 0 {
            throw CommandFailure("no token matches the selection", .failure)
        }
    }
}
