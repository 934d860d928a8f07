// Groups: members, policy and texts. Members are users; a message to a group goes to all sessions
// of its members.

import Primitives

/// A group of users of one app.
struct Group: ~Copyable {
    /// Durable identifier, unique in the store.
    let identifier: UInt64
    let app: Index<App>
    /// The id for clients, which the broker assigned. It is unpredictable.
    let name: [UInt8]
    let title: [UInt8]
    let owner: Index<User>
    /// The number that the owner gave the request to create it; a repeated request creates no
    /// second group.
    let key: UInt64
    /// The users that may join; nil for all. The owner always may.
    private(set) var allowed: [[UInt8]]?
    private(set) var meta: [UInt8]
    /// What is kept of its messages, and what new members see of it.
    var history = GroupHistory()
    /// Its position among the open groups of its app; nil if not everybody may join.
    var openPosition: UInt32?
    /// Whether its messages wake members of whom no device is connected.
    var wakes = true
    /// Joins while its app has tracked sends, which the members are numbered by: who joined after a
    /// message is none of its receivers.
    var joinCount: UInt32 = 0
    /// Bytes of the list and the texts.
    @NarrowCount private(set) var byteCount = 0
    /// The sessions of members, for sends.
    let audience: Index<Audience>
    /// Memberships in the order of the bytes of the members' ids. An insertion moves the later
    /// ones, four bytes for each.
    var memberships: ContiguousArray<Index<Membership>> = []
    /// Memberships of users without a session that receives the group's messages, which wait in
    /// their offline queues.
    var waiting: ContiguousArray<Index<Membership>> = []

    init(
        identifier: UInt64, app: Index<App>, name: [UInt8], title: [UInt8], owner: Index<User>,
        key: UInt64, allowed: [[UInt8]]?, meta: [UInt8], audience: Index<Audience>
    ) {
        self.identifier = identifier
        self.app = app
        self.name = name
        self.title = title
        self.owner = owner
        self.key = key
        self.allowed = allowed
        self.meta = meta
        self.audience = audience
        byteCount = Self.byteCount(title: title, meta: meta, allowed: allowed)
    }

    mutating func replace(meta: [UInt8], allowed: [[UInt8]]?) {
        self.meta = meta
        self.allowed = allowed
        byteCount = Self.byteCount(title: title, meta: meta, allowed: allowed)
    }

    static func byteCount(title: [UInt8], meta: [UInt8], allowed: [[UInt8]]?) -> Int {
        (allowed ?? []).reduce(title.count + meta.count) {
            $0 + $1.count + CoreLimits.groupAllowedOverhead
        }
    }
}

/// What a group keeps of its messages, and what new members see of it.
public struct GroupHistory: Hashable, BitwiseCopyable, Sendable {
    /// Whether its messages are kept unless their senders say no.
    public var isKept = false
    /// How many of the newest kept messages a new member sees from before it joined.
    public var shownCount: UInt32 = 0

    public init(isKept: Bool = false, shownCount: UInt32 = 0) {
        self.isKept = isKept
        self.shownCount = shownCount
    }
}

/// The membership of one user in one group.
struct Membership {
    let group: Index<Group>
    let user: Index<User>
    static let notWaiting = UInt32.max

    /// Position in ``Group/waiting``; ``notWaiting`` while a session receives the user's messages.
    var waitingPosition = notWaiting
    /// Number of the user's sessions that subscribe to the group's address.
    var receiverCount: UInt32 = 0
    /// ``Group/joinCount`` with this join; 0 if the app had no tracked sends.
    var joinNumber: UInt32 = 0
    /// Whether its user is not woken by messages of the group.
    var isMuted = false
}

/// An event in a group, as its members are told. Raw values are on the wire.
enum GroupEvent: UInt8 {
    case joined = 1
    case left = 2
    case kicked = 3
    case allowListUpdated = 4
    case metaUpdated = 5
    case historyUpdated = 6
    /// The receiver has become a member.
    case added = 7
    /// The receiver has left, on another device or by an operator.
    case removed = 8
}

extension Records {
    static func group(_ group: borrowing Group, app: [UInt8], owner: [UInt8]) -> RecordChange {
        // A group without a policy has the row of the first version.
        let hasPolicy = group.history != GroupHistory() || !group.wakes
        var row = RecordWriter(version: !group.wakes ? 3 : hasPolicy ? 2 : 1)
        row.write(app)
        row.write(group.name)
        row.write(group.title)
        row.write(owner)
        row.write(group.key)
        row.write(UInt8(group.allowed == nil ? 0 : 1))
        row.write(UInt16(group.allowed?.count ?? 0))
        for user in group.allowed ?? [] { row.write(user) }
        row.write(group.meta)
        if hasPolicy {
            row.write(UInt8(group.history.isKept ? 1 : 0))
            row.write(group.history.shownCount)
        }
        if !group.wakes { row.write(UInt8(0)) }
        return RecordChange(
            table: .groups, key: RecordKey.number(group.identifier), value: row.bytes)
    }

    /// A member has a separate row, so that a join does not rewrite the group. One that joined
    /// while no send of its app was tracked has the row of the first version.
    static func member(
        group: UInt64, user: [UInt8], joinNumber: UInt32, isMuted: Bool = false
    ) -> RecordChange {
        var row = RecordWriter(version: isMuted ? 3 : joinNumber == 0 ? 1 : 2)
        if joinNumber != 0 || isMuted { row.write(joinNumber) }
        if isMuted { row.write(UInt8(1)) }
        return RecordChange(
            table: .members, key: RecordKey.number(group) + user, value: row.bytes)
    }
}
