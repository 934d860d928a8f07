// What users are told of groups: which ones they are in, what a group is and who is in it. Both
// lists stand in the order of the bytes of their ids, and a page begins behind an id that need not
// be there any more, so that paging loses nothing while members come and go.

import Primitives

extension Broker {
    /// A page of a user's groups.
    func reportGroups(
        _ connection: ConnectionID, _ requestIdentifier: UInt64, of user: UInt32,
        after: [UInt8], _ byteCountMaximum: Int, _ effects: inout Effects
    ) {
        // One byte says whether there are more.
        let room = min(byteCountMaximum, CoreLimits.groupAnswerMaximum) - 1
        var entries: [UInt8] = []
        var hasMore = false
        var position = after.isEmpty ? 0 : groupPosition(of: user, behind: after)
        while position < users[user].memberships.count {
            let group = memberships[users[user].memberships[position]].group
            let (name, title) = (groups[group].name, groups[group].title)
            if entries.count + name.count + title.count + 3 > room {
                hasMore = true
                break
            }
            entries += [UInt8(name.count)] + name
            entries += [UInt8(title.count)] + title
            entries.append(groups[group].owner == user ? 1 : 0)
            position += 1
        }
        let lane = connection.lane
        if hasMore && entries.isEmpty {
            // Not one fits: the client would ask for the same page for ever.
            effects[lane].respond(connection, requestIdentifier, .packetTooLarge)
            return
        }
        effects[lane].effects.append(
            .reportGroups(
                connection, requestIdentifier: requestIdentifier, hasMore: hasMore,
                entries: effects[lane].bytes.append(entries)))
    }

    /// What a group is, and a page of its members: for members, and for the owner who has left.
    mutating func reportGroup(
        _ connection: ConnectionID, _ requestIdentifier: UInt64, _ group: UInt32?,
        to user: UInt32, after: [UInt8], _ byteCountMaximum: Int, _ effects: inout Effects
    ) {
        let lane = connection.lane
        guard let group, groups[group].owner == user || membership(of: user, in: group) != nil
        else {
            counters.requestsRefused += 1
            effects[lane].respond(
                connection, requestIdentifier, group == nil ? .topicNameInvalid : .notAuthorized)
            return
        }
        let owner = users[groups[group].owner].name
        let fixed = owner.count + groups[group].title.count + groups[group].meta.count
        let room =
            min(byteCountMaximum, CoreLimits.groupAnswerMaximum)
            - fixed - CoreLimits.groupAnswerOverhead
        let page = members(of: group, after: after, byteCountMaximum: room)
        if page.hasMore && page.members.isEmpty {
            effects[lane].respond(connection, requestIdentifier, .packetTooLarge)
            return
        }
        effects[lane].effects.append(
            .reportGroup(
                connection, requestIdentifier: requestIdentifier,
                GroupReport(
                    hasAllowList: groups[group].allowed != nil,
                    isOwn: groups[group].owner == user, hasMoreMembers: page.hasMore,
                    memberCount: UInt32(groups[group].memberships.count),
                    owner: effects[lane].bytes.append(owner),
                    title: effects[lane].bytes.append(groups[group].title),
                    meta: effects[lane].bytes.append(groups[group].meta),
                    members: effects[lane].bytes.append(page.members))))
    }

    private func members(
        of group: UInt32, after: [UInt8], byteCountMaximum: Int
    ) -> (members: [UInt8], hasMore: Bool) {
        var members: [UInt8] = []
        var position = after.isEmpty ? 0 : memberPosition(in: group, behind: after)
        while position < groups[group].memberships.count {
            let name = users[memberships[groups[group].memberships[position]].user].name
            if members.count + name.count + 1 > byteCountMaximum { return (members, true) }
            members += [UInt8(name.count)] + name
            position += 1
        }
        return (members, false)
    }
}
