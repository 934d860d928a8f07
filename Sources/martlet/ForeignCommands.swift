// Commands that people know from other programs, and what to write instead.

/// Advice on words that are commands elsewhere.
enum ForeignCommands {
    private static let table = [
        "pub": "martlet send --topic TOPIC TEXT", "publish": "martlet send --topic TOPIC TEXT",
        "sub": "martlet listen --topic FILTER", "subscribe": "martlet listen --topic FILTER",
        "client": "martlet session list", "clients": "martlet session list",
        "connections": "martlet session list --connected",
        "subscriptions": "martlet session list --json, member filters",
        "topic": "martlet retained list, or martlet history topics",
        "topics": "martlet retained list, or martlet history topics",
        "users": "martlet user list", "kick": "martlet session kick USER",
        "ban": "martlet token revoke --user USER", "mint": "martlet token mint",
        "passwd": "martlet password set", "version": "martlet --version",
        "config": "martletd --print-config, or --check-config",
        "restore": "martletd --restore DIRECTORY --data NEW",
    ]

    /// - Parameter word: the first word of the command line.
    /// - Returns: nil for a word that is no command of another program.
    static func advice(on word: String?) -> String? {
        guard let word, let command = table[word] else { return nil }
        return "unknown command \"\(word)\"; did you mean: \(command)?"
    }
}
