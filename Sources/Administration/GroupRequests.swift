// Requests about groups, as an operator makes them: past the policy that decides who joins, and in
// the name of each group's owner. Users with a token ask the broker itself. A group's id is called
// `groupid`, as in the JSON that receivers of its messages are given.

/// Makes a group for an owner, who becomes known and its first member.
public struct CreateGroup: AdministrationRequest {
    public static let name = "group.create"
    public var app: String
    public var owner: String
    /// Its name for people, at most 128 bytes.
    public var title: String
    /// Who may join; nil for everybody.
    public var allowed: [String]?
    /// The group's own data, at most 5120 bytes.
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
    /// Only those that this user is in; nil for all.
    public var user: String?
    /// Begins behind this one, the `next` of the reply before.
    public var after: UInt32?

    /// Groups in one reply: a title of full length may be all escapes.
    public static let countMaximum = 1_000

    public init(app: String, user: String? = nil, after: UInt32? = nil) {
        self.app = app
        self.user = user
        self.after = after
    }

    public struct Group: Codable, Hashable, Sendable {
        /// Its id, made by the broker.
        public var groupid: String
        public var title: String
        public var owner: String
        public var memberCount: Int
        /// Whether only those on a list may join.
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
        /// What to ask for next; nil at the end.
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
    /// Members begin behind this user, the last one of the reply before.
    public var after: String?

    /// Members in one reply.
    public static let memberCountMaximum = 10_000

    public init(app: String, groupid: String, after: String? = nil) {
        self.app = app
        self.groupid = groupid
        self.after = after
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var groupid: String
        public var title: String
        public var owner: String
        public var memberCount: Int
        /// Who may join; nil for everybody.
        public var allowed: [String]?
        public var meta: String
        /// Full where there may be more: ask again, after the last.
        public var members: [String]

        public init(
            groupid: String, title: String, owner: String, memberCount: Int, allowed: [String]?,
            meta: String, members: [String]
        ) {
            self.groupid = groupid
            self.title = title
            self.owner = owner
            self.memberCount = memberCount
            self.allowed = allowed
            self.meta = meta
            self.members = members
        }
    }
}

/// Moves one user in or out of a group.
public struct ChangeMember: AdministrationRequest {
    public static let name = "group.member"

    public enum Action: String, Codable, Hashable, Sendable {
        case join, leave, kick, ban
    }

    public var app: String
    public var groupid: String
    public var user: String
    public var action: Action

    public init(app: String, groupid: String, user: String, action: Action) {
        self.app = app
        self.groupid = groupid
        self.user = user
        self.action = action
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// False where it was so already: a user who leaves was not in it. A ban holds all the
        /// same.
        public var isChanged: Bool

        public init(isChanged: Bool) {
            self.isChanged = isChanged
        }
    }
}

/// Replaces a group's own data, or who may join it.
public struct ChangeGroup: AdministrationRequest {
    public static let name = "group.change"

    public enum Change: Codable, Hashable, Sendable {
        case meta(String)
        /// These alone may join.
        case allowed([String])
        /// Everybody may join.
        case everybodyAllowed
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
