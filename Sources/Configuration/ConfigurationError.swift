// What is wrong with a configuration: every complaint of one reading at once, each with its place.

import JSON5

/// Why a configuration was not taken. Nothing of it is in effect.
public struct ConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// One complaint.
    public struct Complaint: Hashable, Sendable, CustomStringConvertible {
        /// Where the value was written; nil for what follows from several values together.
        public let origin: SettingOrigin?
        /// The key path, as in `limits.connections`; nil where the syntax is wrong.
        public let key: String?
        /// A sentence without its subject, where there is a key.
        public let message: String

        public var description: String {
            let place = origin.map { "\($0): " } ?? ""
            return place + (key.map { "\($0) " } ?? "") + message
        }
    }

    /// At least one, in the order of the text.
    public let complaints: [Complaint]

    /// One line for each complaint.
    public var description: String {
        complaints.map(\.description).joined(separator: "\n")
    }
}

/// Where a value comes from.
public enum SettingOrigin: Hashable, Sendable, CustomStringConvertible {
    /// Nobody wrote it.
    case standard
    case file(path: String, position: TextPosition)
    /// The option that carries it, such as `--set` or `--dev`.
    case commandLine(option: String)

    public var description: String {
        switch self {
        case .standard: "default"
        case .file(let path, let position): "\(path):\(position.line):\(position.column)"
        case .commandLine(let option): option
        }
    }
}
