// Answers about groups: the groups of a user, the properties of a group, and its members. Both
// lists are in the order of the bytes of the ids. A page begins after an id that need not exist any
// more, so no entry is missed while members join and leave.

import BrokerTerms
import Primitives

extension Broker {
    /// A page of a user's groups.
    mutating func reportGroups(
        to connection: ConnectionID, request requestIdentifier: UInt64, of user: Index<User>,
        after: [UInt8], byteCountMaximum: Int, in step: inout Step
    ) {
        // One byte tells whether there are more.
        let room = min(byteCountMaximum, CoreLimits.groupAnswerMaximum) - 1
        let loop = connection.loop
        let start = step.effects[loop].bytes.count
        var hasMore = false
        var position = after.isEmpty ? 0 : groupPosition(of: user, behind: after)
        while position < registry.users[user].memberships.count {
            let group = groupTable.memberships[registry.users[user].memberships[position]].group
            let size =
                groupTable.groups[group].name.count + groupTable.groups[group].title.count + 3
            if step.effects[loop].bytes.count - start + size > room {
                hasMore = true
                break
            }
            step.effects[loop].bytes.appendCounted(groupTable.groups[group].name)
            step.effects[loop].bytes.appendCounted(groupTable.groups[group].title)
            step.effects[loop].bytes.append(byte: groupTable.groups[group].owner == user ? 1 : 0)
            position += 1
        }
        let entries = ByteRange(offset: start, count: step.effects[loop].bytes.count - start)
        workload.charge(Int(entries.count) / CoreLimits.answerBytesPerWork)
        if hasMore && entries.isEmpty {
            // An answer without an entry would make the client request the same page for ever.
            step.effects[loop].respond(
                to: connection, request: requestIdentifier, reason: .packetTooLarge)
            return
        }
        step.effects[loop].effects.append(
            .mrt(
                .reportGroups(
                    connection, requestIdentifier: requestIdentifier, hasMore: hasMore,
                    entries: entries)))
    }

    /// The properties of a group and a page of its members; for members, and for an owner who has
    /// left.
    mutating func reportGroup(
        to connection: ConnectionID, request requestIdentifier: UInt64, group: Index<Group>?,
        user: Index<User>, after: [UInt8], byteCountMaximum: Int, in step: inout Step
    ) {
        let loop = connection.loop
        guard let group,
            groupTable.groups[group].owner == user || membership(of: user, in: group) != nil
        else {
            return refuse(
                connection, request: requestIdentifier,
                group == nil ? .topicNameInvalid : .notAuthorized,
                cause: group == nil ? .none : .memberOnly, in: &step)
        }
        let owner = registry.users[groupTable.groups[group].owner].name
        let fixed =
            owner.count + groupTable.groups[group].title.count + groupTable.groups[group].meta.count
        let room =
            min(byteCountMaximum, CoreLimits.groupAnswerMaximum)
            - fixed - CoreLimits.groupAnswerOverhead
        let page = members(
            of: group, after: after, byteCountMaximum: room, &step.effects[loop].bytes)
        workload.charge((fixed + Int(page.members.count)) / CoreLimits.answerBytesPerWork)
        if page.hasMore && page.members.isEmpty {
            step.effects[loop].respond(
                to: connection, request: requestIdentifier, reason: .packetTooLarge)
            return
        }
        step.effects[loop].effects.append(
            .mrt(
                .reportGroup(
                    connection, requestIdentifier: requestIdentifier,
                    GroupReport(
                        hasAllowList: groupTable.groups[group].allowed != nil,
                        isOwn: groupTable.groups[group].owner == user, hasMoreMembers: page.hasMore,
                        memberCount: UInt32(groupTable.groups[group].memberships.count),
                        owner: step.effects[loop].bytes.append(owner),
                        title: step.effects[loop].bytes.append(groupTable.groups[group].title),
                        meta: step.effects[loop].bytes.append(groupTable.groups[group].meta),
                        members: page.members))))
    }

    /// What a group keeps; for members, and for an owner who has left.
    mutating func reportHistory(
        to connection: ConnectionID, request identifier: UInt64, ofGroup group: Index<Group>?,
        user: Index<User>, wantsMessage: Bool, byteCountMaximum: Int, in step: inout Step
    ) {
        guard let group else {
            return refuse(connection, request: identifier, .topicNameInvalid, in: &step)
        }
        guard groupTable.groups[group].owner == user || membership(of: user, in: group) != nil
        else {
            return refuse(
                connection, request: identifier, .notAuthorized, cause: .memberOnly, in: &step)
        }
        if wantsMessage, let index = conversationTable.find(.group(group)) {
            guard membership(of: user, in: group) != nil else {
                // An owner who has left may not read.
                return refuse(
                    connection, request: identifier, .notAuthorized, cause: .memberOnly, in: &step)
            }
            return readNewest(
                NewestRead(
                    connection: connection, requestIdentifier: identifier, user: user,
                    byteCountMaximum: byteCountMaximum, answer: .group(group),
                    queues: [conversationTable.conversations[index].kept.queue]), in: &step)
        }
        step.effects[connection.loop].effects.append(
            .mrt(
                .reportGroupHistory(
                    connection, requestIdentifier: identifier,
                    GroupHistoryReport(
                        history: groupTable.groups[group].history,
                        lastNumber: lastNumber(ofGroup: group), wantsMessage: wantsMessage))))
    }

    /// The number of a group's newest kept message; 0 if there was none.
    func lastNumber(ofGroup group: Index<Group>) -> UInt64 {
        conversationTable.find(.group(group)).map {
            conversationTable.conversations[$0].lastNumber
        } ?? 0
    }

    private func members(
        of group: Index<Group>, after: [UInt8], byteCountMaximum: Int, _ answer: inout ByteArena
    ) -> (members: ByteRange, hasMore: Bool) {
        let start = answer.count
        var hasMore = false
        var position = after.isEmpty ? 0 : memberPosition(in: group, behind: after)
        while position < groupTable.groups[group].memberships.count {
            let name = registry.users[
                groupTable.memberships[groupTable.groups[group].memberships[position]].user
            ].name
            if answer.count - start + name.count + 1 > byteCountMaximum {
                hasMore = true
                break
            }
            answer.append(byte: UInt8(name.count))
            _ = answer.append(name)
            position += 1
        }
        return (ByteRange(offset: start, count: answer.count - start), hasMore)
    }
}

extension ByteArena {
    fileprivate mutating func append(byte: UInt8) {
        let range = reserve(1)
        mutableBytes(range)[0] = byte
    }

    /// Appends a name after one byte with its length.
    fileprivate mutating func appendCounted(_ name: borrowing [UInt8]) {
        append(byte: UInt8(name.count))
        _ = append(name)
    }
}
