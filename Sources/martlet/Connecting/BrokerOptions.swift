// The options by which commands find their broker, and the environment variables that replace them.

import CommandLineOptions
import Glibc
import MartletClient

/// Options of commands that are clients of a broker.
protocol ConnectionRules: OptionRules {
    static var server: Self { get }
    static var ca: Self { get }
    static var token: Self { get }
    static var device: Self { get }
    static var timeout: Self { get }
}

extension ParsedOptions where Rules: ConnectionRules {
    /// The settings from the options and the environment. The command fails after one attempt at
    /// each address: a person wants to know at once that the broker cannot be reached.
    func clientSettings(deviceDefault: String) throws -> ClientSettings {
        let server = try needed(
            .server, variable: "MARTLET_SERVER", meaning: "the broker's address")
        let token = try needed(.token, variable: "MARTLET_TOKEN", meaning: "the user's token")
        var settings = ClientSettings(
            servers: try ServerAddress.list(server), credential: .token(token))
        if let authority = self[.ca] ?? environment("MARTLET_CA") {
            settings.trust = .authorityFile(authority)
        }
        settings.device = self[.device] ?? deviceDefault
        settings.firstAttemptsMaximum = 1
        return settings
    }
}

/// Options of commands that administer a running broker.
protocol AdministrationRules: OptionRules {
    static var data: Self { get }
    static var server: Self { get }
    static var ca: Self { get }
    static var token: Self { get }
}

/// Options of commands that administer one app.
protocol AppRules: AdministrationRules {
    static var app: Self { get }
}

extension ParsedOptions where Rules: AppRules {
    /// The app, from its option or the environment.
    func app() throws(UsageError) -> String {
        try needed(.app, variable: "MARTLET_APP", meaning: "the app")
    }
}

extension ParsedOptions where Rules: ConnectionRules & AppRules {
    /// Whether a command for both acts as the operator: with `--data`, with the address of an HTTP
    /// API, or if there is no token but a data directory.
    var isOperator: Bool {
        if has(.data) { return true }
        if let server = self[.server] { return HTTPAdministrationClient.takes(server) }
        let hasToken = has(.token) || environment("MARTLET_TOKEN") != nil
        return httpServerOfEnvironment != nil || !hasToken && environment("MARTLET_DATA") != nil
    }
}

extension ParsedOptions {
    /// The value of an option, or of its variable.
    func needed(
        _ option: Rules, variable: String, meaning: String
    ) throws(UsageError) -> String {
        if let value = self[option] ?? environment(variable) { return value }
        throw UsageError("missing --\(option.rawValue) or \(variable): \(meaning)")
    }

    /// A time in whole seconds for a message or a session.
    func expirySeconds(_ option: Rules) throws(UsageError) -> UInt32? {
        guard let seconds = try duration(option) else { return nil }
        guard seconds > 0 else { throw UsageError("--\(option.rawValue) must be at least 1s") }
        return UInt32(clamping: seconds)
    }
}

extension OptionParser {
    /// Parses a command's words; `--help` ends the command.
    static func options(
        _ arguments: ArraySlice<String>, positionalMaximum: Int = 0
    ) throws -> ParsedOptions<Rules> {
        switch try parse(arguments, positionalMaximum: positionalMaximum) {
        case .help: throw HelpRequest()
        case .run(let options): return options
        }
    }
}

extension OptionParser where Rules: AdministrationRules {
    /// Parses the words of one of several commands with the same rules.
    ///
    /// - Parameter own: the options of the command, besides those that name the broker.
    static func options(
        _ arguments: ArraySlice<String>, positionalMaximum: Int = 0, accepting own: Set<Rules>
    ) throws -> ParsedOptions<Rules> {
        let outcome = try parse(
            arguments, positionalMaximum: positionalMaximum,
            accepting: own.union([.data, .server, .ca, .token]))
        switch outcome {
        case .help: throw HelpRequest()
        case .run(let options): return options
        }
    }
}

/// An environment variable; nil if it is absent or empty.
func environment(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
}

extension SendPriority {
    /// The word on the command line.
    init(word: String) throws(UsageError) {
        switch word {
        case "low": self = .low
        case "normal": self = .normal
        case "high": self = .high
        default: throw UsageError("--priority must be low, normal or high, not \"\(word)\"")
        }
    }
}

extension Grade {
    /// The word on the command line.
    init(word: String) throws(UsageError) {
        switch word {
        case "transient": self = .transient
        case "durable": self = .durable
        case "once": self = .once
        default:
            throw UsageError("--grade must be transient, durable or once, not \"\(word)\"")
        }
    }

    var word: String {
        switch self {
        case .transient: "transient"
        case .durable: "durable"
        case .once: "once"
        }
    }
}
