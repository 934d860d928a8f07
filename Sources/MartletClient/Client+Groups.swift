// Groups: made, joined, left, kept in order. Every change is confirmed when the broker has stored
// it. A call whose connection ends before the answer is asked again by the client; nothing is done
// twice by that.

import Primitives
import WireFormat

extension Client {
    /// Makes a group, with this user as its owner and first member.
    ///
    /// - Parameters:
    ///   - title: a name for people, at most 128 bytes.
    ///   - users: who may join, at most 1,000; nil for everybody. They need not be known yet.
    ///   - meta: the group's own data, at most 5,120 bytes; JSON by custom.
    /// - Returns: the group's id, which the broker makes.
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

    /// Joins a group. It is success to be in it already.
    ///
    /// - Throws: ``MartletError/refused(_:_:)`` with 0x87 where the user is not on its list.
    public func joinGroup(_ group: String) async throws(MartletError) {
        var bytes = ByteBuilder()
        _ = try await request(
            .groupJoin, part: MRT.GroupName(group: try bytes.append(identifier: group)),
            bytes: bytes)
    }

    /// Leaves a group.
    ///
    /// - Returns: whether the user was in it.
    @discardableResult
    public func leaveGroup(_ group: String) async throws(MartletError) -> Bool {
        var bytes = ByteBuilder()
        let part = MRT.GroupName(group: try bytes.append(identifier: group))
        return try await request(.groupLeave, part: part, bytes: bytes).reason
            != .noSubscriptionExisted
    }

    /// Removes a member from a group of this user's; the user may join again where
    /// the allow list lets them.
    ///
    /// - Returns: whether the user was in it.
    @discardableResult
    public func kick(_ user: String, from group: String) async throws(MartletError) -> Bool {
        try await remove(user, from: group, .groupKick)
    }

    /// Takes a user off the allow list of a group of this user's, and removes them from it.
    /// Where everybody might join, only its other members may from now on.
    ///
    /// - Returns: whether the user was in it.
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

    /// All groups that the user is in, in the order of the bytes of their ids.
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

    /// What a group is, and a page of its members; only its members and its owner may ask.
    ///
    /// - Parameters:
    ///   - group: its id.
    ///   - user: the page begins behind this member; nil for the first one.
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

    /// Replaces who may join a group; nil lets everybody. Who is taken off the list stays a
    /// member. Only the owner may.
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
    /// Adds an id. What one byte of length cannot say is no id of anybody.
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
