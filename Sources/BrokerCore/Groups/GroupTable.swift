// Groups and their members. A group's messages go to its audience, which is part of the routing,
// and to the offline queues of members without a session.
//
// It knows users and audiences by their index. A user lists its memberships.
//
// Invariants: a group ends with its last member; members are in the order of their ids; a
// membership counts the sessions of its user that subscribe to the address of the group; a member
// that waits knows its place among those of the group that wait; what a user owns is counted, also
// where the user has left the group.

import Primitives

/// The groups of all apps.
struct GroupTable: ~Copyable {
    private(set) var groups = Slab<Group>()
    private(set) var memberships = Slab<Membership>()
    /// What users own, whether they are members or not.
    private var owned: [Index<User>: OwnedGroups] = [:]

    /// How many groups one user owns, and the memory of their lists and texts.
    struct OwnedGroups {
        var count = 0
        var byteCount = 0
    }

    func owned(by user: Index<User>) -> OwnedGroups { owned[user] ?? OwnedGroups() }

    mutating func insert(_ group: consuming Group) -> Index<Group> {
        owned[group.owner, default: OwnedGroups()].count += 1
        owned[group.owner, default: OwnedGroups()].byteCount += group.byteCount
        return groups.insert(group).index
    }

    /// Removes a group, which has no members.
    mutating func remove(_ group: Index<Group>) {
        let count = groups[group].memberships.count
        precondition(count == 0, "a group with \(count) members ends")
        let owner = groups[group].owner
        owned[owner, default: OwnedGroups()].count -= 1
        owned[owner, default: OwnedGroups()].byteCount -= groups[group].byteCount
        if owned[owner, default: OwnedGroups()].count == 0 { owned[owner] = nil }
        groups.remove(group)
    }

    /// Gives a group another text or list. Returns by how many bytes it has grown, negative where
    /// it has shrunk.
    mutating func replace(_ group: Index<Group>, meta: [UInt8], allowed: [[UInt8]]?) -> Int {
        let old = groups[group].byteCount
        groups[group].replace(meta: meta, allowed: allowed)
        let growth = groups[group].byteCount - old
        owned[groups[group].owner, default: OwnedGroups()].byteCount += growth
        return growth
    }

    // MARK: - Members

    /// Makes a user a member.
    ///
    /// - Parameter position: its place in the order of the members' ids.
    mutating func insertMember(
        _ user: Index<User>, of group: Index<Group>, at position: Int
    ) -> Index<Membership> {
        let membership = memberships.insert(Membership(group: group, user: user)).index
        groups[group].memberships.insert(membership, at: position)
        return membership
    }

    /// Removes a member that does not wait, from its place in the order of the members' ids.
    mutating func removeMember(_ membership: Index<Membership>, at position: Int) {
        groups[memberships[membership].group].memberships.remove(at: position)
        memberships.remove(membership)
    }

    /// A session of the member subscribes to the address of the group, or does not any more.
    mutating func countHearer(of membership: Index<Membership>, isNew: Bool) {
        if isNew {
            memberships[membership].hearerCount += 1
        } else {
            memberships[membership].hearerCount -= 1
        }
    }

    mutating func setHearerCount(_ count: UInt32, of membership: Index<Membership>) {
        memberships[membership].hearerCount = count
    }

    /// Puts a member among those of its group whose messages wait in their offline queues, or takes
    /// it out, where the last one takes its place.
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
