// `martlet app delete` and `martlet user delete`: removes an app or a user with all that it has, in
// requests that each remove a part.

import Administration
import CommandLineOptions

enum DeletionOption: String, AppRules {
    case data, server, ca, token, app, force, json

    var shape: OptionShape { [.json, .force].contains(self) ? .flag : .value }
}

/// `martlet app delete`
enum AppDeleteCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<DeletionOption>.options(
            arguments, positionalMaximum: 1, accepting: [.force, .json])
        // The name is written out: MARTLET_APP must not delete what it names.
        guard let app = options.positionals.first else {
            throw UsageError("missing NAME: martlet app delete NAME")
        }
        let broker = try options.administration()
        let request = DeleteApp(app: app, force: options.has(.force))
        try options.delete(request, "app \(app)", from: broker)
    }
}

/// `martlet user delete`
enum UserDeleteCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<DeletionOption>.options(
            arguments, positionalMaximum: 1, accepting: [.app, .force, .json])
        guard let user = options.positionals.first else {
            throw UsageError("missing USER: martlet user delete USER")
        }
        let app = try options.app()
        let broker = try options.administration()
        let request = DeleteUser(app: app, user: user, force: options.has(.force))
        try options.delete(request, "user \(user)", from: broker)
    }
}

extension ParsedOptions where Rules == DeletionOption {
    fileprivate func delete<Request: AdministrationRequest>(
        _ request: Request, _ what: String, from broker: borrowing AdministrationConnection
    ) throws where Request.Reply == DeletionReply {
        var sum = DeletionReply()
        var bar = ProgressBar()
        defer { bar.clear() }
        repeat {
            sum.add(try broker.send(request))
            bar.show(
                "\(counted(sum.sum, "thing")) of \(printable(what)) deleted so far, "
                    + counted(sum.userCount, "user") + " among them")
        } while sum.hasMore
        bar.clear()
        StandardStream.output.print(
            has(.json) ? jsonLine(sum) : "\(printable(what)) is deleted: \(Self.text(sum))")
    }

    private static func text(_ reply: DeletionReply) -> String {
        [
            counted(reply.userCount, "user"), counted(reply.sessionCount, "session"),
            counted(reply.credentialCount, "credential"), counted(reply.groupCount, "group"),
            counted(reply.retainedCount, "retained message"),
            counted(reply.conversationCount, "conversation"),
            counted(reply.messageCount, "queued message"),
        ].joined(separator: ", ")
    }
}
