// An operator's requests about groups. They bypass the policy that decides who may join, and act in
// the name of each group's owner. Users with a token send requests to the broker themselves. A
// group's id is called `groupid`, as in the JSON of its messages.

/// Creates a group for an owner, who becomes known and its first member.
public struct CreateGroup: AdministrationRequest {
    public static let name = "group.create"
    public var app: String
    public var owner: String
    /// Its title, at most 128 bytes.
    public var title: String
    /// The users who may join; nil for everybody.
    public var allowed: [String]?
    /// Data of the group, at most 5120 bytes.
    public var meta: String

    public init(
        app: String, owner: String, title: String, allowed: [String]? = nil, meta: String = ""
    ) {
        self.app = app
        self.owner = owner
        self.title = title
        self.allowed = allowed
        self.meta = meta
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// The new group's id.
        public var groupid: String

        public init(groupid: String) {
            self.groupid = groupid
        }
    }
}

/// Lists groups.
public struct ListGroups: AdministrationRequest {
    public static let name = "group.list"
    public var app: String
    /// Only groups that this user is a member of; nil for all.
    public var user: String?
    /// Begins after this group, the `next` of the previous reply.
    public var after: UInt32?
    /// Groups in the reply; nil for ``countMaximum``.
    public var limit: Int?

    /// Groups in one reply: a title of the maximum length may consist of escapes only.
    public static let countMaximum = 1_000

    public init(app: String, user: String? = nil, after: UInt32? = nil, limit: Int? = nil) {
        self.app = app
        self.user = user
        self.after = after
        self.limit = limit
    }

    public struct Group: Codable, Hashable, Sendable {
        /// Its id, which the broker creates.
        public var groupid: String
        public var title: String
        public var owner: String
        public var memberCount: Int
        /// Whether only the users on a list may join.
        public var isLimited: Bool

        public init(
            groupid: String, title: String, owner: String, memberCount: Int, isLimited: Bool
        ) {
            self.groupid = groupid
            self.title = title
            self.owner = owner
            self.memberCount = memberCount
            self.isLimited = isLimited
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var groups: [Group]
        /// The id to continue with; nil at the end.
        public var next: UInt32?

        public init(groups: [Group], next: UInt32?) {
            self.groups = groups
            self.next = next
        }
    }
}

/// Shows one group and a page of its members.
public struct ShowGroup: AdministrationRequest {
    public static let name = "group.show"
    public var app: String
    public var groupid: String
    /// Members begin after this user, the last one of the previous reply.
    public var after: String?
    /// Members in the reply; nil for ``memberCountMaximum``.
    public var limit: Int?
    /// Whether the newest kept message is told too.
    public var hasMessage: Bool?

    /// Members in one reply.
    public static let memberCountMaximum = 10_000

    public init(
        app: String, groupid: String, after: String? = nil, limit: Int? = nil,
        hasMessage: Bool? = nil
    ) {
        self.app = app
        self.groupid = groupid
        self.after = after
        self.limit = limit
        self.hasMessage = hasMessage
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var groupid: String
        public var title: String
        public var owner: String
        public var memberCount: Int
        /// The users who may join; nil for everybody.
        public var allowed: [String]?
        public var meta: String
        /// Whether messages are kept unless their senders say no.
        public var isKept: Bool?
        /// How many of the newest kept messages a new member sees from before it joined.
        public var shownCount: UInt32?
        /// The number of the newest kept message; 0 if there was none.
        public var lastNumber: UInt64?
        /// The newest kept message, if it was requested and there is one.
        public var lastMessage: ListHistory.Message?
        /// If the list has the maximum length there may be more: request again, after the last.
        public var members: [String]

        public init(
            groupid: String, title: String, owner: String, memberCount: Int, allowed: [String]?,
            meta: String, isKept: Bool? = nil, shownCount: UInt32? = nil,
            lastNumber: UInt64? = nil, lastMessage: ListHistory.Message? = nil,
            members: [String]
        ) {
            self.lastMessage = lastMessage
            self.groupid = groupid
            self.title = title
            self.owner = owner
            self.memberCount = memberCount
            self.allowed = allowed
            self.meta = meta
            self.isKept = isKept
            self.shownCount = shownCount
            self.lastNumber = lastNumber
            self.members = members
        }
    }
}

/// Adds one user to a group, or removes one.
public struct ChangeMember: AdministrationRequest {
    public static let name = "group.member"

    public enum Action: String, Codable, Hashable, Sendable {
        case join, leave, kick, ban
        /// The member is not woken by messages of the group, or is again.
        case mute, unmute
    }

    public var app: String
    public var groupid: String
    public var user: String
    public var action: Action
    /// How many of the newest kept messages a new member sees from before, at most
    /// ``backlogMaximum``; nil for as many as the group shows.
    public var backlog: UInt32?

    /// Kept messages from before that a new member can see.
    public static let backlogMaximum: UInt32 = 1_000_000

    public init(
        app: String, groupid: String, user: String, action: Action, backlog: UInt32? = nil
    ) {
        self.app = app
        self.groupid = groupid
        self.user = user
        self.action = action
        self.backlog = backlog
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// False if the request changed nothing: a user who leaves was not a member. A ban is
        /// effective in any case.
        public var isChanged: Bool

        public init(isChanged: Bool) {
            self.isChanged = isChanged
        }
    }
}

/// Deletes a group: removes its members, each of whom is told, and its history. A reply follows at
/// most ``memberCountMaximum`` members.
public struct DeleteGroup: AdministrationRequest {
    public static let name = "group.delete"
    public var app: String
    public var groupid: String

    /// Members that one request removes: a few seconds.
    public static let memberCountMaximum = 10_000

    public init(app: String, groupid: String) {
        self.app = app
        self.groupid = groupid
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// Members that were removed.
        public var memberCount: Int
        /// Whether the group remains with its other members; then repeat the request.
        public var hasMore: Bool

        public init(memberCount: Int, hasMore: Bool) {
            self.memberCount = memberCount
            self.hasMore = hasMore
        }
    }
}

/// Changes a group: its data, who may join, its history, or whether its messages wake.
public struct ChangeGroup: AdministrationRequest {
    public static let name = "group.change"

    public enum Change: Codable, Hashable, Sendable {
        case meta(String)
        /// Only these users may join.
        case allowed([String])
        /// Everybody may join.
        case everybodyAllowed
        /// Whether messages are kept by default, and how many of them new members see.
        case history(isKept: Bool, shownCount: UInt32)
        /// Whether messages wake members of whom no device is connected.
        case wake(isOn: Bool)
    }

    public var app: String
    public var groupid: String
    public var change: Change

    public init(app: String, groupid: String, change: Change) {
        self.app = app
        self.groupid = groupid
        self.change = change
    }

    public struct Reply: Codable, Hashable, Sendable {
        public init() {}
    }
}
