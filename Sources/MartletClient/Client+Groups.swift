// Groups: create, join, leave, administer. The broker confirms every change when it is stored. If a
// connection ends before the answer, the client repeats the request, and no change is made twice.

import Primitives
import WireFormat

extension Client {
    /// Creates a group, with this user as its owner and first member.
    ///
    /// - Parameters:
    ///   - title: the name that people see, at most 128 bytes.
    ///   - users: who may join, at most 1,000; nil for everybody. They need not be known yet.
    ///   - meta: data of the group, at most 5,120 bytes; JSON by convention.
    /// - Returns: the group's id, which the broker creates.
    public func createGroup(
        title: String, allowing users: [String]? = nil, meta: String = ""
    ) async throws(MartletError) -> String {
        guard title.utf8.count <= WireLimits.groupTitleByteCountMaximum else {
            throw .refused(.packetTooLarge, "")
        }
        var bytes = ByteBuilder()
        let part = MRT.GroupCreate(
            key: .random(in: .min ... .max), title: bytes.append(title), meta: bytes.append(meta),
            allowList: try bytes.append(allowList: users))
        let answer = try await request(.groupCreate, part: part, bytes: bytes)
        return String(decoding: answer.content, as: UTF8.self)
    }

    /// Joins a group. It is a success if the user is a member already.
    ///
    /// - Parameters:
    ///   - group: its id.
    ///   - backlog: how many of the newest kept messages from before the user wants to see, at most
    ///     1,000,000, and at most as many as the group shows unless the user owns it; nil for as
    ///     many as the group shows.
    /// - Throws: ``MartletError/refused(_:_:)`` with 0x87 if the user is not on its allow list.
    public func joinGroup(
        _ group: String, backlog: UInt32? = nil
    ) async throws(MartletError) {
        guard (backlog ?? 0) <= WireLimits.backlogMaximum else {
            throw .invalid("a backlog has at most \(WireLimits.backlogMaximum) messages")
        }
        var bytes = ByteBuilder()
        _ = try await request(
            .groupJoin,
            part: MRT.GroupJoin(group: try bytes.append(identifier: group), backlog: backlog),
            bytes: bytes)
    }

    /// Leaves a group.
    ///
    /// - Returns: whether the user was a member.
    @discardableResult
    public func leaveGroup(_ group: String) async throws(MartletError) -> Bool {
        var bytes = ByteBuilder()
        let part = MRT.GroupName(group: try bytes.append(identifier: group))
        return try await request(.groupLeave, part: part, bytes: bytes).reason
            != .noSubscriptionExisted
    }

    /// Removes a member from a group that this user owns. The user may join again if the allow list
    /// permits it.
    ///
    /// - Returns: whether the user was a member.
    @discardableResult
    public func kick(_ user: String, from group: String) async throws(MartletError) -> Bool {
        try await remove(user, from: group, .groupKick)
    }

    /// Removes a user from the allow list of a group that this user owns, and from the group. If
    /// everybody could join, only the other present members can from now on.
    ///
    /// - Returns: whether the user was a member.
    @discardableResult
    public func ban(_ user: String, from group: String) async throws(MartletError) -> Bool {
        try await remove(user, from: group, .groupBan)
    }

    private func remove(
        _ user: String, from group: String, _ operation: MRT.Operation
    ) async throws(MartletError) -> Bool {
        var bytes = ByteBuilder()
        let part = MRT.GroupMember(
            group: try bytes.append(identifier: group), user: try bytes.append(identifier: user))
        return try await request(operation, part: part, bytes: bytes).reason == .kickedOut
    }

    /// All groups that the user is a member of, in the order of the bytes of their ids.
    public func groups() async throws(MartletError) -> [GroupSummary] {
        var listing = GroupListing()
        while !listing.isComplete {
            var bytes = ByteBuilder()
            let last = listing.groups.last?.id ?? ""
            let part = MRT.GroupListQuery(after: try bytes.append(identifier: last))
            try listing.take(try await request(.groupList, part: part, bytes: bytes))
        }
        return listing.groups
    }

    /// The description of a group, and a page of its members; only its members and its owner may
    /// ask.
    ///
    /// - Parameters:
    ///   - group: its id.
    ///   - user: the page begins after this member; nil for the first page.
    public func describe(
        _ group: String, membersAfter user: String? = nil
    ) async throws(MartletError) -> GroupDetails {
        var bytes = ByteBuilder()
        let part = MRT.GroupQuery(
            group: try bytes.append(identifier: group),
            after: try bytes.append(identifier: user ?? ""))
        let answer = try await request(.groupDescribe, part: part, bytes: bytes)
        guard let details = GroupDetails(answer.content, after: user) else {
            throw .unreadableAnswer
        }
        return details
    }

    /// Replaces all of a group's meta; only its owner may.
    public func setMeta(_ meta: String, of group: String) async throws(MartletError) {
        var bytes = ByteBuilder()
        let part = MRT.GroupSetMeta(
            group: try bytes.append(identifier: group), meta: bytes.append(meta))
        _ = try await request(.groupSetMeta, part: part, bytes: bytes)
    }

    /// Sets whether the messages of a group are kept unless their senders say no, and how many of
    /// the newest ones new members see; only its owner may. What is kept already stays.
    public func setHistory(
        of group: String, isKept: Bool, shownCount: UInt32 = 0
    ) async throws(MartletError) {
        var bytes = ByteBuilder()
        let part = MRT.GroupSetHistory(
            group: try bytes.append(identifier: group), isKept: isKept, shownCount: shownCount)
        _ = try await request(.groupSetHistory, part: part, bytes: bytes)
    }

    /// What a group keeps of its messages; only its members and its owner may ask.
    ///
    /// - Parameters:
    ///   - group: its id.
    ///   - hasMessage: whether the newest kept message is told too; only to members.
    public func historySettings(
        of group: String, hasMessage: Bool = false
    ) async throws(MartletError) -> GroupHistory {
        var bytes = ByteBuilder()
        let part = MRT.GroupHistoryQuery(
            group: try bytes.append(identifier: group), wantsMessage: hasMessage)
        let answer = try await request(.groupHistory, part: part, bytes: bytes)
        guard let history = GroupHistory(answer.content) else { throw .unreadableAnswer }
        return history
    }

    /// Replaces the allow list of a group; nil permits everybody to join. A member who is not on
    /// the new list stays a member. Only the owner may.
    public func setAllowList(
        _ users: [String]?, of group: String
    ) async throws(MartletError) {
        var bytes = ByteBuilder()
        let part = MRT.GroupSetAllowList(
            group: try bytes.append(identifier: group),
            allowList: try bytes.append(allowList: users))
        _ = try await request(.groupSetAllowList, part: part, bytes: bytes)
    }
}

extension ByteBuilder {
    /// Adds an id. A name that exceeds one byte of length is no valid id.
    mutating func append(identifier: String) throws(MartletError) -> ByteRange {
        guard identifier.utf8.count <= Int(UInt8.max) else {
            throw .refused(.topicNameInvalid, "")
        }
        return append(identifier)
    }

    fileprivate mutating func append(
        allowList users: [String]?
    ) throws(MartletError) -> MRT.AllowList {
        guard let users else { return .everybody }
        for user in users where user.utf8.count > Int(UInt8.max) {
            throw .refused(.topicNameInvalid, "")
        }
        return .only(count: users.count, ids: append(identifiers: users))
    }
}
