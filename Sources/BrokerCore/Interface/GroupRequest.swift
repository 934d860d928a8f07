// Requests about groups, as plain data. Ranges point into the buffer of the event.

import Primitives

/// A request about groups. The ids of a list follow each other, each as one length byte and its
/// bytes.
public enum GroupRequest: Sendable {
    case create(GroupCreation)
    /// `backlog`: how many of the newest kept messages the user wants to see from before it joins;
    /// nil for as many as the group shows.
    case join(ByteRange, backlog: UInt32? = nil)
    case leave(ByteRange)
    case kick(ByteRange, user: ByteRange)
    /// Removes the user from the allow list and from the members, in one step.
    case ban(ByteRange, user: ByteRange)
    /// A page of the user's groups: those after `after`, which is empty for the first page, up to
    /// `byteCountMaximum` bytes.
    case list(after: ByteRange, byteCountMaximum: Int)
    /// The description of a group and a page of its members: those after `after`.
    case describe(ByteRange, after: ByteRange, byteCountMaximum: Int)
    case setMeta(ByteRange, meta: ByteRange)
    case setAllowed(ByteRange, allowed: IdentifierRange?)
    case setHistory(ByteRange, GroupHistory)
    /// Whether messages of the group wake its members.
    case setWaking(ByteRange, Bool)
    /// Whether the user is not woken by messages of the group.
    case mute(ByteRange, Bool)
    /// What the group keeps, and the number of its newest kept message; with `wantsMessage` also
    /// that message, in an answer of up to `byteCountMaximum` bytes.
    case describeHistory(ByteRange, wantsMessage: Bool = false, byteCountMaximum: Int = .max)
}

/// The parameters of a new group.
public struct GroupCreation: Sendable {
    /// A random number of the client. A repeated request has the same number and creates no second
    /// group.
    public var key: UInt64
    public var title: ByteRange
    public var meta: ByteRange
    /// The users who may join; nil for all users.
    public var allowed: IdentifierRange?
    /// A new random number, for the id.
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

/// Ids, each as one length byte and its bytes.
public struct IdentifierRange: Hashable, Sendable {
    public var bytes: ByteRange
    public var count: Int

    public init(bytes: ByteRange, count: Int) {
        self.bytes = bytes
        self.count = count
    }
}
