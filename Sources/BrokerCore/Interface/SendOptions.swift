// What few sends ask for: a class of transient messages, and users whom a message to a group
// mentions.

import Primitives

/// The order in which transient messages are dropped for a client that reads slowly. Raw values are
/// on the wire.
public enum SendPriority: UInt8, Hashable, Sendable, CaseIterable {
    /// Dropped while there is room for the rest.
    case low = 0
    case normal = 1
    /// Kept while there is no room for the rest.
    case high = 2
}

/// Whom a message to a group mentions.
public struct Mentions: Hashable, Sendable {
    /// Raw values are on the wire.
    public struct Options: OptionSet, Hashable, Sendable {
        public let rawValue: UInt8

        @inlinable
        public init(rawValue: UInt8) { self.rawValue = rawValue }

        /// All members.
        @inlinable
        public static var all: Options { Options(rawValue: 1 << 0) }
        /// Only those whom it mentions get it.
        @inlinable
        public static var only: Options { Options(rawValue: 1 << 1) }
    }

    public var options: Options = []
    /// Names of users, each as one length byte and its bytes. Whoever is no member of the group is
    /// ignored.
    public var names = ByteRange.empty

    @inlinable
    public init(options: Options = [], names: ByteRange = .empty) {
        self.options = options
        self.names = names
    }

    /// Whether the message mentions nobody.
    @inlinable
    public var isEmpty: Bool { options.isEmpty && names.isEmpty }
}

/// How a receiver of a message is mentioned. Raw values are on the wire.
public enum Mention: UInt8, Hashable, Sendable {
    case byName = 1
    case all = 2

    /// How a user is mentioned; nil if it is not.
    ///
    /// - Parameter names: each as one length byte and its bytes.
    public init?(of user: [UInt8], names: [UInt8], options: Mentions.Options) {
        var rest = names[...]
        while let count = rest.first.map(Int.init) {
            if rest.dropFirst().prefix(count).elementsEqual(user) {
                self = .byName
                return
            }
            rest = rest.dropFirst(count + 1)
        }
        guard options.contains(.all) else { return nil }
        self = .all
    }
}
