// Groups and their members. The messages of a group go to its audience, which is part of the
// routing, and to the offline queues of members without a session.
//
// The table refers to users and audiences by index. A user has the list of its memberships.
//
// Invariants: a group ends with its last member; members are in the order of their ids; a
// membership counts the sessions of its user that subscribe to the address of the group; a member
// that waits has its position among the group's waiting members; the groups and bytes of an owner
// are counted, also if the owner has left the group; a group is among the open ones of its app, at
// its position, while everybody may join it.

import Primitives

/// The groups of all apps.
struct GroupTable: ~Copyable {
    private(set) var groups = Slab<Group>()
    private(set) var memberships = Slab<Membership>()
    /// What users own, whether they are members or not.
    private var owned: [Index<User>: OwnedGroups] = [:]

    /// Groups that keep their messages by default, which is all that a send tests.
    private(set) var keepingCount = 0

    /// The groups of each app that everybody may join.
    private var open: [Index<App>: OpenGroups] = [:]

    /// The number of groups that a user owns, and the bytes of their lists and texts.
    struct OwnedGroups {
        var count = 0
        var byteCount = 0
    }

    func owned(by user: Index<User>) -> OwnedGroups { owned[user] ?? OwnedGroups() }

    mutating func insert(_ group: consuming Group) -> Index<Group> {
        owned[group.owner, default: OwnedGroups()].count += 1
        owned[group.owner, default: OwnedGroups()].byteCount += group.byteCount
        if group.history.isKept { keepingCount += 1 }
        let index = groups.insert(group).index
        if groups[index].allowed == nil { open(index) }
        return index
    }

    /// The groups of an app that everybody may join, from the one that was opened first.
    func openGroups(ofApp app: Index<App>, countMaximum: Int) -> [Index<Group>] {
        open[app]?.prefix(countMaximum) ?? []
    }

    /// The number of groups that everybody may join.
    var openCount: Int { open.values.reduce(0) { $0 + $1.count } }

    /// Whether a group is where it should be among the open ones of its app.
    func isOpen(_ group: Index<Group>) -> Bool {
        guard let position = groups[group].openPosition else { return false }
        return open[groups[group].app]?.group(at: Int(position)) == group
    }

    private mutating func open(_ group: Index<Group>) {
        let position = open[groups[group].app, default: OpenGroups()].append(group)
        groups[group].openPosition = UInt32(position)
    }

    private mutating func close(_ group: Index<Group>) {
        let app = groups[group].app
        guard let position = groups[group].openPosition else {
            preconditionFailure("group \(group.place) closes, which is not open")
        }
        groups[group].openPosition = nil
        open[app]?.remove(at: Int(position))
        if open[app]?.count == 0 { open[app] = nil }
        guard open[app]?.isSparse == true, let moved = open[app]?.compact() else { return }
        for (position, group) in moved.enumerated() {
            groups[group].openPosition = UInt32(position)
        }
    }

    /// Removes a group that has no members.
    mutating func remove(_ group: Index<Group>) {
        let count = groups[group].memberships.count
        precondition(count == 0, "a group with \(count) members ends")
        let owner = groups[group].owner
        owned[owner, default: OwnedGroups()].count -= 1
        owned[owner, default: OwnedGroups()].byteCount -= groups[group].byteCount
        if owned[owner, default: OwnedGroups()].count == 0 { owned[owner] = nil }
        if groups[group].history.isKept { keepingCount -= 1 }
        if groups[group].allowed == nil { close(group) }
        groups.remove(group)
    }

    /// Replaces a group's text or list. Returns the difference in bytes, which may be negative.
    mutating func replace(_ group: Index<Group>, meta: [UInt8], allowed: [[UInt8]]?) -> Int {
        let old = groups[group].byteCount
        switch (groups[group].allowed == nil, allowed == nil) {
        case (true, false): close(group)
        case (false, true): open(group)
        case (true, true), (false, false): break
        }
        groups[group].replace(meta: meta, allowed: allowed)
        let growth = groups[group].byteCount - old
        owned[groups[group].owner, default: OwnedGroups()].byteCount += growth
        return growth
    }

    /// Replaces what a group keeps.
    mutating func replace(_ group: Index<Group>, history: GroupHistory) {
        keepingCount += (history.isKept ? 1 : 0) - (groups[group].history.isKept ? 1 : 0)
        groups[group].history = history
    }

    /// Sets whether the messages of a group wake its members.
    mutating func setWaking(_ wakes: Bool, of group: Index<Group>) { groups[group].wakes = wakes }

    /// Sets whether a member is not woken by messages of the group.
    mutating func setMuted(_ isMuted: Bool, of membership: Index<Membership>) {
        memberships[membership].isMuted = isMuted
    }

    // MARK: - Members

    /// Adds a member.
    ///
    /// - Parameter position: the position in the order of the members' ids.
    mutating func insertMember(
        _ user: Index<User>, of group: Index<Group>, at position: Int
    ) -> Index<Membership> {
        let membership = memberships.insert(Membership(group: group, user: user)).index
        groups[group].memberships.insert(membership, at: position)
        return membership
    }

    /// Numbers the join of a member, or takes the number of its row.
    mutating func setJoinNumber(_ number: UInt32, of membership: Index<Membership>) {
        memberships[membership].joinNumber = number
        noteJoins(through: number, of: memberships[membership].group)
    }

    /// Continues the numbers of joins after one that is known.
    mutating func noteJoins(through number: UInt32, of group: Index<Group>) {
        groups[group].joinCount = max(groups[group].joinCount, number)
    }

    /// Removes a member that does not wait, from its position in the order of the members' ids.
    mutating func removeMember(_ membership: Index<Membership>, at position: Int) {
        groups[memberships[membership].group].memberships.remove(at: position)
        memberships.remove(membership)
    }

    /// Counts a member's session that began or ended a subscription to the address of the group.
    mutating func countReceiver(of membership: Index<Membership>, isNew: Bool) {
        if isNew {
            memberships[membership].receiverCount += 1
        } else {
            memberships[membership].receiverCount -= 1
        }
    }

    mutating func setReceiverCount(_ count: UInt32, of membership: Index<Membership>) {
        memberships[membership].receiverCount = count
    }

    /// Adds a member to those of its group whose messages wait offline, or removes it. After a
    /// removal the last one takes its position.
    mutating func setWaiting(_ membership: Index<Membership>, _ isWaiting: Bool) {
        let group = memberships[membership].group
        let position = memberships[membership].waitingPosition
        guard (position != Membership.notWaiting) != isWaiting else { return }
        if isWaiting {
            memberships[membership].waitingPosition = UInt32(groups[group].waiting.count)
            groups[group].waiting.append(membership)
        } else {
            let last = groups[group].waiting.removeLast()
            if last != membership {
                groups[group].waiting[Int(position)] = last
                memberships[last].waitingPosition = position
            }
            memberships[membership].waitingPosition = Membership.notWaiting
        }
    }
}
