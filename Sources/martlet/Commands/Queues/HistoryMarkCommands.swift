// `martlet read` (also `martlet history read`) and `martlet history hide`: a user has read a
// conversation up to a number, or does not want to see it up to there.

import CommandLineOptions
import MartletClient

enum HistoryMarkOption: String, ConnectionRules {
    case server, ca, token, device, timeout, with, group, json

    var shape: OptionShape { self == .json ? .flag : .value }
    var letter: Character? { self == .timeout ? "W" : nil }
}

enum HistoryMarkCommand {
    /// - Parameter hides: whether the messages are hidden as well.
    static func run(_ arguments: ArraySlice<String>, hides: Bool) async throws {
        let options = try OptionParser<HistoryMarkOption>.options(
            arguments, positionalMaximum: 1)
        let party = try ConversationParty(user: options[.with], group: options[.group])
        guard let text = options.positionals.first, let number = UInt64(text), number > 0 else {
            throw UsageError("missing NUMBER, a positive whole number: see martlet history")
        }
        try await UserRequest.run(options, deviceDefault: "history") { client in
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
