// What clients ask about groups, as the core is told: plain data, with ranges in the buffer that
// comes with the event.

import Primitives

/// A request about groups. Ids in lists stand in a row, each one length byte and its bytes.
public enum GroupRequest: Sendable {
    case create(GroupCreation)
    case join(ByteRange)
    case leave(ByteRange)
    case kick(ByteRange, user: ByteRange)
    /// Takes the user off the allow list and kicks, in one step.
    case ban(ByteRange, user: ByteRange)
    /// A page of the user's groups: those behind `after`, which is empty for the first page, as far
    /// as they fit into an answer of `byteCountMaximum`.
    case list(after: ByteRange, byteCountMaximum: Int)
    /// What a group is, and a page of its members: those behind `after`, as in a list.
    case describe(ByteRange, after: ByteRange, byteCountMaximum: Int)
    case setMeta(ByteRange, meta: ByteRange)
    case setAllowed(ByteRange, allowed: IdentifierRange?)
}

/// A group that somebody wants.
public struct GroupCreation: Sendable {
    /// The client's own random number: the same again asks for the same group.
    public var key: UInt64
    public var title: ByteRange
    public var meta: ByteRange
    /// Who may join; nil for everybody.
    public var allowed: IdentifierRange?
    /// A fresh random number, for the id.
    public var seed: UInt64

    public init(
        key: UInt64, title: ByteRange, meta: ByteRange, allowed: IdentifierRange?, seed: UInt64
    ) {
        self.key = key
        self.title = title
        self.meta = meta
        self.allowed = allowed
        self.seed = seed
    }
}

/// Ids in a row, each one length byte and its bytes.
public struct IdentifierRange: Hashable, Sendable {
    public var bytes: ByteRange
    public var count: Int

    public init(bytes: ByteRange, count: Int) {
        self.bytes = bytes
        self.count = count
    }
}
