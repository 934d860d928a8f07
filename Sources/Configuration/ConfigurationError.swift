// The errors of a configuration: all errors of one reading, each with its place.

import JSON5

/// The reason why a configuration was refused. No part of it takes effect.
public struct ConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// One error.
    public struct Complaint: Hashable, Sendable, CustomStringConvertible {
        /// The place of the value; nil for errors that concern several values.
        public let origin: SettingOrigin?
        /// The key path, as in `limits.connections`; nil for a syntax error.
        public let key: String?
        /// A sentence without its subject if there is a key.
        public let message: String

        public var description: String {
            let place = origin.map { "\($0): " } ?? ""
            return place + (key.map { "\($0) " } ?? "") + message
        }
    }

    /// At least one, in the order of the text.
    public let complaints: [Complaint]

    /// One line for each error.
    public var description: String {
        complaints.map(\.description).joined(separator: "\n")
    }
}

/// The origin of a value.
public enum SettingOrigin: Hashable, Sendable, CustomStringConvertible {
    /// The default.
    case standard
    case file(path: String, position: TextPosition)
    /// The option that sets it, such as `--set` or `--dev`.
    case commandLine(option: String)

    public var description: String {
        switch self {
        case .standard: "default"
        case .file(let path, let position): "\(path):\(position.line):\(position.column)"
        case .commandLine(let option): option
        }
    }
}
