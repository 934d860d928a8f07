// `martlet token mint`: tokens for one user, for a list of users, or for thousands of numbered
// devices, into a file that the tools of a factory can read.

import Administration
import CommandLineOptions
import Files
import Glibc
import JSON5

enum TokenMintOption: String, AppRules {
    case data, server, ca, token, app, user, users, count, prefix, first, device, expires
    case batch, right, output, json

    var shape: OptionShape {
        switch self {
        case .user, .right: .repeated
        case .json: .flag
        case .data, .server, .ca, .token, .app, .users, .count, .prefix, .first, .device, .expires,
            .batch, .output:
            .value
        }
    }
}

/// One token for each user: a single one alone on its line, several with the user before each.
enum TokenMintCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<TokenMintOption>.options(arguments)
        let users = try Self.users(options)
        let app = try options.app()
        let expiry = try options.duration(.expires)
        let broker = try options.administration()
        // Checked before any token is minted: a token that cannot be written is lost.
        let file = try options[.output].map { try TokenFile(path: $0) }
        var bar = ProgressBar()
        defer { bar.clear() }
        var rest = users[...]
        while !rest.isEmpty {
            // Without a file, the tokens themselves show how far it is.
            if file != nil {
                let count = users.count - rest.count
                bar.show(
                    UInt64(count), of: UInt64(users.count), "\(count) of \(users.count) tokens")
            }
            let part = rest.prefix(broker.mintCount(of: rest))
            rest = rest.dropFirst(part.count)
            let reply = try broker.send(
                MintTokens(
                    app: app, users: Array(part), device: options[.device], expirySeconds: expiry,
                    batch: options[.batch],
                    rights: options.has(.right) ? options.all(.right) : nil))
            if let file {
                do throws(CommandFailure) {
                    try file.append(reply.tokens, app: app, device: options[.device])
                } catch {
                    let rest = lost(
                        reply.tokens[...], app: app, broker: broker, after: error, bar: bar)
                    throw CommandFailure("\(rest.message); \(file.rest())", rest.code)
                }
            } else {
                try print(reply.tokens, options, isOne: users.count == 1) { lostTokens in
                    lost(lostTokens, app: app, broker: broker, after: .output)
                }
            }
        }
        guard let file else { return }
        try file.finish()
        bar.clear()
        StandardStream.output.print(
            options.has(.json)
                ? #"{"tokenCount":\#(users.count),"file":\#(JSONText.quoted(file.path))}"#
                : "\(counted(users.count, "token")) in \(file.path), shown nowhere else: "
                    + "keep it as you keep keys")
    }

    /// One line each. If a line was not written completely, its token and all later ones are lost.
    private static func print(
        _ tokens: [MintTokens.Token], _ options: ParsedOptions<TokenMintOption>, isOne: Bool,
        lost: (ArraySlice<MintTokens.Token>) -> CommandFailure
    ) throws(CommandFailure) {
        for (index, token) in tokens.enumerated() {
            let line =
                options.has(.json)
                ? jsonLine(token) : isOne ? token.token : "\(token.user)\t\(token.token)"
            guard StandardStream.output.print(line) else { throw lost(tokens[index...]) }
        }
    }

    /// Revokes tokens that were not printed, because the broker keeps no copy to print again.
    private static func lost(
        _ tokens: ArraySlice<MintTokens.Token>, app: String,
        broker: borrowing AdministrationConnection, after failure: CommandFailure,
        bar: ProgressBar? = nil
    ) -> CommandFailure {
        var left: [String] = []
        var bar = bar
        for (count, token) in tokens.enumerated() {
            // Each is a commit of its own.
            bar?.show(
                UInt64(count), of: UInt64(tokens.count),
                "\(count) of \(tokens.count) tokens revoked again")
            do throws(AdministrationError) {
                _ = try broker.send(RevokeTokens(TokenSelection(app: app, id: token.id)))
            } catch {
                left.append(token.id)
            }
        }
        bar?.clear()
        var text = "\(failure.message); \(counted(tokens.count, "token")) that nobody has seen "
        if left.isEmpty {
            text += tokens.count == 1 ? "is revoked again" : "are revoked again"
        } else {
            text += "could not be revoked: do it with martlet token revoke --id, for "
            text += left.prefix(namedMaximum).joined(separator: ", ")
            if left.count > namedMaximum { text += " and \(left.count - namedMaximum) more" }
        }
        return CommandFailure(text, failure.code)
    }

    /// The maximum of ids in a message.
    private static let namedMaximum = 20

    /// The users: named one by one, listed in a file, or numbered.
    private static func users(
        _ options: ParsedOptions<TokenMintOption>
    ) throws -> [String] {
        let ways = [options.has(.user), options.has(.users), options.has(.count)].count { $0 }
        guard ways == 1 else {
            throw UsageError(
                "missing users: exactly one of --user USER, --users FILE, and --count N "
                    + "--prefix TEXT")
        }
        if options.has(.user) { return options.all(.user) }
        if let path = options[.users] { return try listedUsers(path) }
        guard let count = try options.integer(.count, in: 1...10_000_000) else { return [] }
        let prefix = try options.required(.prefix)
        let first = try options.integer(.first, in: 0...Int(UInt32.max)) ?? 1
        return (first..<first + count).map { "\(prefix)\($0)" }
    }

    /// One id on each line; empty lines are ignored.
    private static func listedUsers(_ path: String) throws -> [String] {
        let stream = fopen(path == "-" ? "/dev/stdin" : path, "re")
        guard let stream else {
            throw CommandFailure(
                "cannot read \(path): \(String(cString: strerror(errno)))", .failure)
        }
        defer { fclose(stream) }
        var users: [String] = []
        var line: UnsafeMutablePointer<CChar>?
        var capacity = 0
        defer { free(line) }
        while getline(&line, &capacity, stream) >= 0, let bytes = line {
            let text = String(cString: bytes).trimmingLineEnd
            if !text.isEmpty { users.append(text) }
        }
        guard !users.isEmpty else { throw UsageError("\(path) contains no user") }
        return users
    }
}

extension String {
    /// Without the line feed, and without the carriage return of files from other systems.
    fileprivate var trimmingLineEnd: String {
        var text = self[...]
        while text.unicodeScalars.last == "\n" || text.unicodeScalars.last == "\r" {
            text.unicodeScalars.removeLast()
        }
        return String(text)
    }
}

/// A file of tokens as comma-separated values, quoted as in RFC 4180 but with Unix line ends, for
/// shells; readable by its owner only.
final class TokenFile {
    let path: String
    private let descriptor: Int32
    private var isFinished = false
    /// What is in it completely.
    private var tokenCount = 0
    private var byteCount = 0

    /// Creates the file with its header line.
    ///
    /// - Throws: if the file exists: it may be the only copy of its tokens.
    init(path: String) throws(CommandFailure) {
        self.path = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CommandFailure(
                errno == EEXIST
                    ? "\(path) is there already, and may hold the only copy of its tokens: "
                        + "choose another file"
                    : "cannot write \(path): \(String(cString: strerror(errno)))", .failure)
        }
        try write("app,user,device,id,token\n")
    }

    deinit { if !isFinished { close(descriptor) } }

    func append(
        _ tokens: [MintTokens.Token], app: String, device: String?
    ) throws(CommandFailure) {
        var text = ""
        for token in tokens {
            let fields = [app, token.user, device ?? "", token.id, token.token]
            text += fields.map(Self.field).joined(separator: ",") + "\n"
        }
        try write(text)
        tokenCount += tokens.count
    }

    /// Cuts off what was not written completely, and says what is left.
    func rest() -> String {
        let isCut = ftruncate(descriptor, off_t(byteCount)) == 0
        guard tokenCount > 0 else { return "\(path) has no valid token" }
        return "\(path) has \(counted(tokenCount, "valid token")) in its first "
            + "\(tokenCount + 1) lines" + (isCut ? "" : ", and behind them tokens that are not")
    }

    /// Returns when the file is on disk and closed: some file systems report errors only then.
    func finish() throws(CommandFailure) {
        var fault: SystemError?
        if fsync(descriptor) != 0 { fault = .last }
        isFinished = true
        if close(descriptor) != 0, fault == nil { fault = .last }
        if let fault { throw failure(fault, isFinal: true) }
    }

    /// A field that contains a separator is quoted.
    private static func field(_ text: String) -> String {
        guard text.contains(where: { $0 == "," || $0 == "\"" }) else { return text }
        let parts = text.split(separator: "\"", omittingEmptySubsequences: false)
        return "\"\(parts.joined(separator: "\"\""))\""
    }

    private func write(_ text: String) throws(CommandFailure) {
        do throws(SystemError) {
            try DescriptorIO.write(text.utf8, to: descriptor)
            byteCount += text.utf8.count
        } catch {
            throw failure(error, isFinal: false)
        }
    }

    /// - Parameter isFinal: whether the file was written, and may lack any of its tokens.
    private func failure(_ error: SystemError, isFinal: Bool) -> CommandFailure {
        CommandFailure(
            "cannot write \(path): \(error)"
                + (isFinal
                    ? "; tokens that are not in it are lost: revoke them with martlet token revoke"
                    : ""),
            .failure)
    }
}
