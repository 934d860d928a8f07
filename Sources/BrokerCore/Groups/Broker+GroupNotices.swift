// Tells the devices of a user that the user is a member of a group now, or is one no more. A device
// learns its groups from these notices without asking for the list. A kick has a notice of its own.

import Primitives

extension Broker {
    /// Tells the devices of a new member about its group. The session that asked gets an answer
    /// instead.
    mutating func tellAdded(_ actor: GroupActor, to group: Index<Group>, in step: inout Step) {
        let owner = Array(registry.users[groupTable.groups[group].owner].name)
        let (title, meta) = (groupTable.groups[group].title, groupTable.groups[group].meta)
        let isWhole = meta.count <= CoreLimits.groupNoticeMetaMaximum
        let memberCount = UInt32(groupTable.groups[group].memberships.count)
        var data: [UInt8] = [isWhole ? 0 : GroupNotice.isCut]
        withUnsafeBytes(of: memberCount.littleEndian) { data.append(contentsOf: $0) }
        data += [UInt8(owner.count)] + owner + [UInt8(title.count)] + title
        if isWhole { data += meta }
        tell(actor, about: groupTable.groups[group].name, .added, data: data, in: &step)
    }

    /// Tells the devices of a user that has left a group. The session that asked gets an answer
    /// instead.
    mutating func tellRemoved(_ actor: GroupActor, from group: [UInt8], in step: inout Step) {
        tell(actor, about: group, .removed, data: [], in: &step)
    }

    private mutating func tell(
        _ actor: GroupActor, about group: [UInt8], _ event: GroupEvent, data: [UInt8],
        in step: inout Step
    ) {
        // A user whose only devices ask has no other device to tell.
        guard actor.session == nil || hasReceiver(actor.user) else { return }
        sendSystemMessage(
            .groupEvent, about: group, payload: [event.rawValue] + data,
            from: Array(registry.users[actor.user].name), at: step.moment
        ) { broker, message, tally in
            broker.enqueue(
                message, devicesOf: actor.user, excluding: actor.session, tally: &tally, in: &step)
            broker.counters.groupNotices += UInt64(tally.taken)
        }
    }

    /// Puts a message into the inboxes of a user's devices, or into the offline queue if none of
    /// them receives the user's messages.
    mutating func enqueue(
        _ message: Index<Message>, devicesOf user: Index<User>, excluding excluded: Index<Session>?,
        tally: inout RoutingTally, in step: inout Step
    ) {
        guard hasReceiver(user) else {
            enqueue(message, offlineQueueOf: user, tally: &tally, in: &step)
            return
        }
        enqueue(message, sessionsOf: user, excluding: excluded, tally: &tally, in: &step)
        let (name, app) = (Array(registry.users[user].name), registry.users[user].app)
        if let audience = audience(ofAddress: .user, name, app: app) {
            enqueue(message, audience: audience, excluding: excluded, tally: &tally, in: &step)
        }
    }

    /// How many of the newest kept messages a new member sees from before it joined: as many as it
    /// wants, and more than the group shows only if it is the owner or an operator adds it.
    func shownCount(of group: Index<Group>, to actor: GroupActor, backlog: UInt32?) -> UInt32 {
        let shown = groupTable.groups[group].history.shownCount
        guard let backlog else { return shown }
        let isTrusted = actor.session == nil || groupTable.groups[group].owner == actor.user
        return isTrusted ? min(backlog, CoreLimits.backlogMaximum) : min(backlog, shown)
    }
}

/// The notice of a new member: what follows the number of the event.
///
///     | u8 1: the meta is left out | u32 members, least significant byte first |
///     | string8 owner | string8 title | rest: meta |
public enum GroupNotice {
    /// The event of a group that is this notice.
    public static let added = GroupEvent.added.rawValue
    /// The event of a group that tells its receiver that it is no member any more.
    public static let removed = GroupEvent.removed.rawValue
    /// The flag of a notice that does not contain everything.
    public static let isCut: UInt8 = 1
}
