// Lists and changes groups for an operator. The operator acts for the owner and is not bound by the
// policy that decides who may join. Limits apply.

import BrokerTerms
import Primitives

/// A group, as an operator sees it.
public struct GroupDescription: Hashable, Sendable {
    /// Position in a list: the next page begins after it. It is valid until the broker ends.
    public var cursor: UInt32
    /// The id, which the broker assigned.
    public var name: [UInt8]
    public var title: [UInt8]
    public var owner: [UInt8]
    /// The users that may join; nil for all.
    public var allowed: [[UInt8]]?
    public var meta: [UInt8]
    public var memberCount: Int
    public var history: GroupHistory
    /// Whether its messages wake members.
    public var wakes: Bool
    /// The number of its newest kept message; 0 if there was none.
    public var lastNumber: UInt64
}

/// A change that an operator makes to a group.
public enum GroupAction: Hashable, Sendable {
    /// Adds a user, whatever the policy says. The user must exist. It sees `backlog` of the newest
    /// kept messages from before; nil for as many as the group shows.
    case join(user: [UInt8], backlog: UInt32? = nil)
    /// Removes a user, as if the user had left; also the owner.
    case leave(user: [UInt8])
    /// Removes a user with the notice of a kick; not the owner.
    case kick(user: [UInt8])
    /// Removes a user from the list of allowed users, and kicks the user.
    case ban(user: [UInt8])
    case setMeta([UInt8])
    /// Sets the list of allowed users; nil for all users.
    case setAllowed([[UInt8]]?)
    case setHistory(GroupHistory)
    /// Whether messages of the group wake its members.
    case setWaking(Bool)
    /// Whether a member is not woken by messages of the group.
    case mute(user: [UInt8], Bool)
}

/// What a slice of a group's deletion did.
public struct GroupDeletion: Hashable, Sendable {
    /// Members that the slice removed.
    public var memberCount: Int
    /// Whether the group remains, with its other members.
    public var hasMore: Bool
}

/// The result of an operator's request about groups.
public struct GroupResult: Hashable, Sendable {
    public var reason: ReasonCode
    /// The id of a new group; otherwise empty.
    public var group: [UInt8] = []
}

extension Broker {
    /// An app's groups, in an unspecified order.
    ///
    /// - Parameters:
    ///   - user: only groups of which this user is a member; nil for all.
    ///   - cursor: of the last group of the previous page; nil for the first page.
    ///   - countMaximum: the maximum number of groups.
    public func groupDescriptions(
        app appName: [UInt8], of user: [UInt8]?, after cursor: UInt32?, countMaximum: Int
    ) -> [GroupDescription] {
        guard let app = app(named: appName) else { return [] }
        var member: Index<User>?
        if let user {
            member = self.user(named: user, app: app)
            if member == nil { return [] }
        }
        var found: [GroupDescription] = []
        for group in groupTable.groups.places.after(cursor)
        where groupTable.groups.contains(group) && groupTable.groups[group].app == app {
            if found.count >= countMaximum { break }
            if let member, membership(of: member, in: group) == nil { continue }
            found.append(description(ofGroup: group))
        }
        return found
    }

    /// The groups that a user is a member of, in the order of their ids.
    public func groups(
        ofMember user: [UInt8], app appName: [UInt8], countMaximum: Int
    ) -> [GroupDescription] {
        guard let app = app(named: appName), let user = self.user(named: user, app: app) else {
            return []
        }
        return registry.users[user].memberships.prefix(countMaximum).map {
            description(ofGroup: groupTable.memberships[$0].group)
        }
    }

    /// Whether a user is a member of a group.
    public func isMember(_ user: [UInt8], ofGroup name: [UInt8], app appName: [UInt8]) -> Bool {
        guard let app = app(named: appName), let user = self.user(named: user, app: app),
            let group = group(named: name, app: appName)
        else { return false }
        return membership(of: user, in: group) != nil
    }

    /// Whether a user may be added to a group by another one: not in an app whose users only join
    /// by themselves. In others half of the groups that a user may be in are for those which the
    /// user makes or joins, and one owner has a tenth.
    public func takesMembership(
        of userName: [UInt8], by ownerName: [UInt8], app appName: [UInt8]
    ) -> Bool {
        guard let app = app(named: appName), let user = self.user(named: userName, app: app),
            let owner = self.user(named: ownerName, app: app),
            limits.policy(ofApp: appName).addsMembers
        else { return false }
        var (othersCount, ownerCount) = (0, 0)
        for membership in registry.users[user].memberships {
            let other = groupTable.groups[groupTable.memberships[membership].group].owner
            if other != user { othersCount += 1 }
            if other == owner { ownerCount += 1 }
        }
        return othersCount < max(1, limits.groupsPerUserMaximum / 2)
            && ownerCount < max(1, limits.groupsPerUserMaximum / 10)
    }

    /// Groups of an app that everybody may join, from the one that was opened first. If there are
    /// too many, each owner has about as many of them as the others, so that few owners do not hide
    /// the groups of the rest.
    ///
    /// - Parameters:
    ///   - countMaximum: how many of them; ten times as many are looked at.
    ///   - ownerCountMaximum: how many of one owner.
    public func openGroups(
        app appName: [UInt8], countMaximum: Int, ownerCountMaximum: Int
    ) -> [GroupDescription] {
        guard let app = app(named: appName) else { return [] }
        // Each with its place among the groups of its owner.
        var candidates: [(group: Index<Group>, place: Int)] = []
        var counts: [Index<User>: Int] = [:]
        var placeCounts = [Int](repeating: 0, count: ownerCountMaximum)
        for group in groupTable.openGroups(ofApp: app, countMaximum: 10 * countMaximum) {
            let place = counts[groupTable.groups[group].owner, default: 0]
            guard place < ownerCountMaximum else { continue }
            counts[groupTable.groups[group].owner] = place + 1
            placeCounts[place] += 1
            candidates.append((group, place))
        }
        // The first groups of all owners come before any second one.
        var (bound, rest) = (0, countMaximum)
        while bound < ownerCountMaximum, placeCounts[bound] <= rest {
            rest -= placeCounts[bound]
            bound += 1
        }
        var found: [GroupDescription] = []
        for (group, place) in candidates {
            if place == bound, rest > 0 {
                rest -= 1
            } else if place >= bound {
                continue
            }
            found.append(description(ofGroup: group))
        }
        return found
    }

    /// One group; nil if there is none with this id.
    public func groupDescription(app appName: [UInt8], _ name: [UInt8]) -> GroupDescription? {
        guard let group = group(named: name, app: appName) else { return nil }
        return description(ofGroup: group)
    }

    /// Ids of a group's members in the order of their bytes, beginning after `user`; empty if there
    /// is no such group.
    public func groupMembers(
        app appName: [UInt8], _ name: [UInt8], after user: [UInt8], countMaximum: Int
    ) -> [[UInt8]] {
        guard let group = group(named: name, app: appName) else { return [] }
        let start = user.isEmpty ? 0 : memberPosition(in: group, behind: user)
        return groupTable.groups[group].memberships[start...].prefix(countMaximum).map {
            Array(registry.users[groupTable.memberships[$0].user].name)
        }
    }

    /// Creates a group. Its owner must exist.
    ///
    /// - Parameters:
    ///   - key: a new random number, which identifies the request if it is repeated.
    ///   - seed: a new random number for the id.
    public mutating func createGroup(
        app appName: [UInt8], owner: [UInt8], title: [UInt8], meta: [UInt8],
        allowed: [[UInt8]]?, key: UInt64, seed: UInt64, at moment: Moment, effects: inout Effects
    ) -> GroupResult {
        var step = Step(at: moment, effects: effects)
        guard let app = app(named: appName) else { return GroupResult(reason: .notAuthorized) }
        guard let owner = user(named: owner, app: app) else {
            return GroupResult(reason: .topicNameInvalid)
        }
        let outcome = createGroup(
            owner: GroupActor(user: owner, session: nil), key: key, seed: seed, title: title,
            meta: meta, allowed: allowed, in: &step)
        return GroupResult(outcome)
    }

    /// Changes a group with the rights of its owner, and can add users. The change is durable with
    /// the pending batch.
    public mutating func changeGroup(
        app appName: [UInt8], _ name: [UInt8], _ action: GroupAction, at moment: Moment,
        effects: inout Effects
    ) -> GroupResult {
        var step = Step(at: moment, effects: effects)
        guard let app = app(named: appName), let group = group(named: name, app: appName) else {
            return GroupResult(reason: .topicNameInvalid)
        }
        let owner = GroupActor(user: groupTable.groups[group].owner, session: nil)
        switch action {
        case .join(let name, _), .leave(let name):
            guard let user = self.user(named: name, app: app) else {
                return GroupResult(reason: .topicNameInvalid)
            }
            let actor = GroupActor(user: user, session: nil)
            if case .join(_, let backlog) = action {
                return GroupResult(joinGroup(group, actor, backlog: backlog, in: &step))
            }
            return GroupResult(leaveGroup(group, actor, in: &step))
        case .kick(let user):
            return GroupResult(kick(from: group, user: user, by: owner, in: &step))
        case .ban(let user): return GroupResult(ban(from: group, user: user, by: owner, in: &step))
        case .setMeta(let meta):
            return GroupResult(setMeta(of: group, to: meta, by: owner, in: &step))
        case .setAllowed(let allowed):
            return GroupResult(setAllowed(of: group, to: allowed, by: owner, in: &step))
        case .setHistory(let history):
            return GroupResult(setHistory(of: group, to: history, by: owner, in: &step))
        case .setWaking(let wakes): return GroupResult(setWaking(of: group, to: wakes))
        case .mute(let name, let isMuted):
            guard let user = self.user(named: name, app: app) else {
                return GroupResult(reason: .topicNameInvalid)
            }
            return GroupResult(mute(group, isMuted, for: user))
        }
    }

    /// Removes the next slice of a group's members, also the owner, and tells each that it was
    /// removed. With its last member the group ends, and its history with it; messages in queues
    /// remain. Nil if there is no such group.
    public mutating func deleteGroup(
        app appName: [UInt8], _ name: [UInt8], at moment: Moment, effects: inout Effects
    ) -> GroupDeletion? {
        guard let group = group(named: name, app: appName) else { return nil }
        var step = Step(at: moment, effects: effects)
        let owner = groupTable.groups[group].owner
        let changeMaximum = commits.pendingBatch.changeCount + SessionSearch.changesPerSlice
        var deletion = GroupDeletion(memberCount: 0, hasMore: true)
        while deletion.hasMore, deletion.memberCount < CoreLimits.groupDeletionSliceCount,
            commits.pendingBatch.changeCount < changeMaximum,
            let membership = groupTable.groups[group].memberships.last
        {
            expel(membership, by: owner, in: &step)
            deletion.memberCount += 1
            deletion.hasMore = groupTable.groups.contains(group)
        }
        return deletion
    }

    func group(named name: [UInt8], app appName: [UInt8]) -> Index<Group>? {
        guard let app = app(named: appName) else { return nil }
        return name.withUnsafeBytes { registry.apps[app].groups.value(for: $0) }
    }

    private func description(ofGroup group: Index<Group>) -> GroupDescription {
        GroupDescription(
            cursor: group.place, name: groupTable.groups[group].name,
            title: groupTable.groups[group].title,
            owner: Array(registry.users[groupTable.groups[group].owner].name),
            allowed: groupTable.groups[group].allowed,
            meta: groupTable.groups[group].meta,
            memberCount: groupTable.groups[group].memberships.count,
            history: groupTable.groups[group].history, wakes: groupTable.groups[group].wakes,
            lastNumber: lastNumber(ofGroup: group))
    }
}

extension GroupResult {
    fileprivate init(_ outcome: GroupOutcome) {
        switch outcome {
        case .done(let reason, let body): self.init(reason: reason, group: body)
        case .refused(let reason, _): self.init(reason: reason)
        }
    }
}
