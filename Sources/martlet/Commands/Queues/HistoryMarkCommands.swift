// `martlet history read` and `martlet history hide`: a user has read a conversation up to a number,
// or does not want to see it up to there.

import CommandLineOptions
import Glibc
import MartletClient

enum HistoryMarkOption: String, ConnectionRules {
    case server, ca, token, device, timeout, with, group, json

    var shape: OptionShape { self == .json ? .flag : .value }
    var letter: Character? { self == .timeout ? "W" : nil }
}

enum HistoryMarkCommand {
    private static let timeoutSecondsDefault: UInt64 = 60

    /// - Parameter hides: whether the messages are hidden as well.
    static func run(_ arguments: ArraySlice<String>, hides: Bool) async throws {
        let options = try OptionParser<HistoryMarkOption>.options(
            arguments, positionalMaximum: 1)
        let party: ConversationParty
        switch (options[.with], options[.group]) {
        case (let user?, nil): party = .user(user)
        case (nil, let group?): party = .group(group)
        case (nil, nil), (_?, _?):
            throw UsageError("missing conversation: one of --with USER and --group ID")
        }
        guard let text = options.positionals.first, let number = UInt64(text), number > 0 else {
            throw UsageError("missing NUMBER, a positive whole number: see martlet history")
        }
        var settings = try options.clientSettings(deviceDefault: "history-\(getpid())")
        settings.sessionExpirySeconds = 0
        settings.inboxWindow = 1
        let seconds = try options.seconds(.timeout) ?? timeoutSecondsDefault
        try await CommandStop.run(settings, seconds: seconds) { client, _ in
            try await client.connect()
            if hides {
                try await client.hideHistory(party, through: number)
            } else {
                try await client.markRead(party, through: number)
            }
        }
        StandardStream.output.print(
            options.has(.json)
                ? "{}" : "\(hides ? "hidden" : "read") up to message \(number)")
    }
}
