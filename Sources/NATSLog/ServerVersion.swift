// The version of a server, as it tells it.

/// Three numbers, such as 2.15.1. What follows them ("-beta") is ignored.
public struct ServerVersion: Hashable, Comparable, Sendable, CustomStringConvertible {
    private let parts: [UInt32]

    public init(major: UInt32, minor: UInt32, patch: UInt32) {
        parts = [major, minor, patch]
    }

    /// Nil if the text does not begin with three numbers with points between them.
    public init?(_ text: String) {
        let numbers = text.split(
            separator: ".", maxSplits: 2, omittingEmptySubsequences: false)
        guard numbers.count == 3 else { return nil }
        let parts = numbers.map { UInt32($0.prefix { $0.isASCII && $0.isNumber }) }
        guard let major = parts[0], let minor = parts[1], let patch = parts[2] else { return nil }
        self.init(major: major, minor: minor, patch: patch)
    }

    public static func < (left: ServerVersion, right: ServerVersion) -> Bool {
        left.parts.lexicographicallyPrecedes(right.parts)
    }

    public var description: String { parts.map { "\($0)" }.joined(separator: ".") }
}
