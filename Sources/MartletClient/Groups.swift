// The values of groups for applications.

import Primitives
import WireFormat

/// A group that the user is a member of.
public struct GroupSummary: Hashable, Sendable {
    /// The id, which the broker created.
    public var id: String
    /// The title, at most 128 bytes.
    public var title: String
    /// Whether this user owns it.
    public var isOwn: Bool
}

/// The description of a group, and some of its members.
public struct GroupDetails: Hashable, Sendable {
    /// The title, at most 128 bytes.
    public var title: String
    /// The user who owns the group.
    public var owner: String
    /// Whether this user owns it.
    public var isOwn: Bool
    /// Whether only the users on its allow list may join.
    public var hasAllowList: Bool
    /// Data of the group, at most 5,120 bytes; empty for none.
    public var meta: String
    /// The number of all members.
    public var memberCount: Int
    /// A page of the members, in the order of the bytes of their ids.
    public var members: [String]
    /// Whether there are more: ask again, after the last of these.
    public var hasMoreMembers: Bool
}

/// What a group keeps of its messages.
public struct GroupHistory: Hashable, Sendable {
    /// Whether messages are kept unless their senders say no.
    public var isKept: Bool
    /// How many of the newest kept messages a new member sees from before it joined.
    public var shownCount: UInt32
    /// The number of the newest kept message; 0 if there was none.
    public var lastNumber: UInt64
    /// The newest kept message, if it was asked for; nil if there is none.
    public var lastMessage: KeptMessage?

    /// Decodes a response; nil if it is invalid.
    init?(_ content: [UInt8]) {
        let history = content.withUnsafeBytes { try? MRT.GroupHistory($0.bytes) }
        guard let history else { return nil }
        (isKept, shownCount) = (history.isKept, history.shownCount)
        lastNumber = history.lastNumber
        lastMessage = history.newest?.message.map { KeptMessage($0, in: content) }
    }
}

/// A change in a group.
public enum GroupChange: Hashable, Sendable {
    /// A user is a member from now on.
    case joined(user: String)
    /// A member left.
    case left(user: String)
    /// The owner removed a member.
    case kicked(user: String)
    /// The users who may join from now on; nil for everybody.
    case allowListUpdated([String]?)
    /// The new meta.
    case metaUpdated(String)
    /// What is kept of its messages from now on, and how many of them new members see.
    case historyUpdated(isKept: Bool, shownCount: UInt32)
    /// This user is a member from now on: on another device, or because an operator added it.
    case added(GroupNotice)
    /// This user is a member no more: it left on another device, or an operator removed it. A kick
    /// is ``IncomingMessage/Kind/kickedOut(group:)``.
    case removed
    /// An event that this version does not know, by its number.
    case other(event: UInt8)

    init(_ event: MRT.GroupEvent, in body: UnsafeRawBufferPointer) {
        switch event {
        case .joined(let user): self = .joined(user: text(user, in: body))
        case .left(let user): self = .left(user: text(user, in: body))
        case .kicked(let user): self = .kicked(user: text(user, in: body))
        case .allowListUpdated(.everybody): self = .allowListUpdated(nil)
        case .allowListUpdated(.only(_, let ids)):
            self = .allowListUpdated(texts(ids, in: body))
        case .metaUpdated(let meta): self = .metaUpdated(text(meta, in: body))
        case .historyUpdated(let isKept, let shownCount):
            self = .historyUpdated(isKept: isKept, shownCount: shownCount)
        case .added(let notice):
            self = .added(
                GroupNotice(
                    owner: text(notice.owner, in: body), title: text(notice.title, in: body),
                    meta: text(notice.meta, in: body), memberCount: Int(notice.memberCount),
                    isCut: notice.isCut))
        case .removed: self = .removed
        }
    }
}

/// What a device of a new member learns of the group.
public struct GroupNotice: Hashable, Sendable {
    /// The user who owns the group.
    public var owner: String
    /// The title, at most 128 bytes.
    public var title: String
    /// Data of the group, at most 512 bytes; empty for none.
    public var meta: String
    /// The number of all members.
    public var memberCount: Int
    /// Whether texts are left out, because they are long:
    /// ``Client/describe(_:membersAfter:)`` tells them.
    public var isCut: Bool

    /// A notice for an application's own tests.
    public init(owner: String, title: String, meta: String, memberCount: Int, isCut: Bool = false) {
        self.owner = owner
        self.title = title
        self.meta = meta
        self.memberCount = memberCount
        self.isCut = isCut
    }
}

extension GroupDetails {
    /// Decodes a response; nil if it is invalid, or if it announces more members without a next
    /// one: otherwise reading page after page would never end.
    ///
    /// - Parameter user: the page begins after this member; nil for the first page.
    init?(_ content: [UInt8], after user: String?) {
        let details = content.withUnsafeBytes { bytes -> GroupDetails? in
            guard let group = try? MRT.GroupDescription(bytes.bytes) else { return nil }
            return GroupDetails(
                title: text(group.title, in: bytes), owner: text(group.owner, in: bytes),
                isOwn: group.isOwn, hasAllowList: group.hasAllowList,
                meta: text(group.meta, in: bytes), memberCount: Int(group.memberCount),
                members: texts(group.members, in: bytes), hasMoreMembers: group.hasMoreMembers)
        }
        guard let details else { return nil }
        if let user, details.hasMoreMembers {
            guard let last = details.members.last, last.isBehind(user) else { return nil }
        }
        self = details
    }
}

/// The groups of a user, page by page.
struct GroupListing {
    private(set) var groups: [GroupSummary] = []
    private(set) var isComplete = false

    /// Adds a page.
    ///
    /// - Throws: if it is invalid, or announces more groups without a next one.
    mutating func take(_ answer: ClientAnswer) throws(MartletError) {
        guard let page = GroupSummary.page(answer.content) else { throw .unreadableAnswer }
        if page.hasMore, let last = groups.last?.id {
            guard let next = page.groups.last?.id, next.isBehind(last) else {
                throw .unreadableAnswer
            }
        }
        groups += page.groups
        isComplete = !page.hasMore
    }
}

extension String {
    /// Whether it follows another id in the order of their bytes.
    fileprivate func isBehind(_ other: String) -> Bool {
        other.utf8.lexicographicallyPrecedes(utf8)
    }
}

extension GroupSummary {
    /// Decodes a page of a list; nil if it is invalid.
    static func page(_ content: [UInt8]) -> (groups: [GroupSummary], hasMore: Bool)? {
        content.withUnsafeBytes { bytes in
            guard let list = try? MRT.GroupList(bytes.bytes) else { return nil }
            var walk = MRT.GroupEntryList(list.entries, in: bytes.bytes)
            var groups: [GroupSummary] = []
            while let entry = walk.next() {
                groups.append(
                    GroupSummary(
                        id: text(entry.group, in: bytes), title: text(entry.title, in: bytes),
                        isOwn: entry.isOwn))
            }
            return (groups, list.hasMore)
        }
    }
}

private func text(_ range: ByteRange, in bytes: UnsafeRawBufferPointer) -> String {
    String(decoding: range.bytes(in: bytes), as: UTF8.self)
}

private func texts(_ range: ByteRange, in bytes: UnsafeRawBufferPointer) -> [String] {
    var list = MRT.IdentifierList(range, in: bytes.bytes)
    var texts: [String] = []
    while let next = list.next() { texts.append(text(next, in: bytes)) }
    return texts
}
