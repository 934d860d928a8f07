// The phases of a deletion. Each looks at the places of one table from where it stopped, or takes
// the last element of a list, so that a piece ends anywhere.

import BrokerTerms
import Primitives

extension Broker {
    // MARK: - Credentials

    /// Deletes keys and tokens. Their connections end with the sessions.
    mutating func deleteCredentials(
        of parts: DeletedParts, _ deletion: inout Deletion
    ) -> Bool {
        if parts.user == nil {
            while let handle = registry.apps[parts.app].keys.last {
                guard goesOn(deletion) else { return false }
                guard let entry = registry.keys[handle] else {
                    preconditionFailure("app \(parts.app.place) has a key that was revoked")
                }
                remove(key: handle, named: entry.key.name, of: parts.app)
                deletion.counts.credentials += 1
                deletion.units -= Deletion.unitsPerRow
            }
        }
        var removed: Set<[UInt8]> = []
        // Rows that wait for another batch are discarded together, because that reads all of them.
        defer { if !removed.isEmpty { commits.remove(.tokens, renewable: removed) } }
        while let token = parts.user.map({ registry.users[$0].firstToken })
            ?? registry.apps[parts.app].tokens.last
        {
            guard goesOn(deletion), removed.count < Revocation.revokedPerSlice else {
                return false
            }
            removed.insert(registry.remove(registry.tokens.handle(token)).identifier)
            deletion.counts.credentials += 1
            deletion.units -= 1
        }
        return true
    }

    mutating func deletePasswords(of parts: DeletedParts, _ deletion: inout Deletion) -> Bool {
        let app = registry.apps[parts.app].name
        var removed: Set<[UInt8]> = []
        defer { if !removed.isEmpty { commits.remove(.passwords, renewable: removed) } }
        if let user = parts.user, registry.passwordCount(of: user) == 0 { return true }
        for index in registry.passwords.places.after(deletion.place) {
            guard goesOn(deletion), removed.count < Revocation.revokedPerSlice else {
                return false
            }
            deletion.look(at: index.place)
            guard let entry = registry.passwords[index], entry.app == parts.app,
                parts.user.map({ registry.users[$0].name == entry.password.user }) ?? true
            else { continue }
            registry.removePassword(index, app: app)
            removed.insert(RecordKey.name(app: app, entry.password.name))
            deletion.counts.credentials += 1
        }
        return true
    }

    // MARK: - Sessions and wills

    mutating func deleteSessions(
        of parts: DeletedParts, _ deletion: inout Deletion, in step: inout Step
    ) -> Bool {
        if let user = parts.user {
            removeWakeTargets(of: user, in: &step)
            while let session = registry.users[user].firstSession {
                guard goesOn(deletion) else { return false }
                delete(session: session, &deletion, in: &step)
            }
            return true
        }
        for session in sessions.places.after(deletion.place) {
            guard goesOn(deletion) else { return false }
            deletion.look(at: session.place)
            guard sessions.contains(session),
                registry.users[sessions[session].user].app == parts.app
            else { continue }
            delete(session: session, &deletion, in: &step)
        }
        // A sensor may have got a place that was passed, before its gateway was disconnected.
        deletion.mustRepeat = registry.apps[parts.app].sessionCount > 0
        return true
    }

    private mutating func delete(
        session: Index<Session>, _ deletion: inout Deletion, in step: inout Step
    ) {
        let handle = sessions.handle(session)
        deletion.counts.sessions += 1
        deletion.units -= Deletion.unitsPerSession
        removeWill(of: session)
        if sessions[session].isConnected {
            close(session, .administrativeAction, willFate: .removed, in: &step)
        }
        // A session that is not persistent has ended with its connection, and its messages too.
        guard sessions.contains(handle) else { return }
        deletion.counts.queuedMessages += UInt64(sessions[session].inbox.count)
        destroy(session, returnsUserMessages: false, in: &step)
    }

    /// Deletes wills of devices without a session. One that is being sent ends with the commit.
    mutating func deleteWills(of parts: DeletedParts, _ deletion: inout Deletion) -> Bool {
        for index in willTable.wills.places.after(deletion.place) {
            guard goesOn(deletion) else { return false }
            deletion.look(at: index.place)
            guard willTable.wills.contains(index) else { continue }
            let owner = WillOwner(
                user: willTable.wills[index].user, device: willTable.wills[index].device)
            guard registry.users[owner.user].app == parts.app,
                parts.user == nil || parts.user == owner.user
            else { continue }
            deletion.units -= Deletion.unitsPerRow
            let isDetached = willTable.takeDetached(index, of: owner)
            if isDetached || willTable.wills[index].token != .none {
                forgetWill(index)
            } else {
                deletion.mustRepeat = true
            }
        }
        return true
    }

    // MARK: - Groups

    /// Deletes all groups of an app, or those that the user owns. Members of the latter are told.
    mutating func deleteGroups(
        of parts: DeletedParts, _ deletion: inout Deletion, in step: inout Step
    ) -> Bool {
        if let user = parts.user, groupTable.owned(by: user).count == 0 { return true }
        for group in groupTable.groups.places.after(deletion.place) {
            guard goesOn(deletion) else { return false }
            guard groupTable.groups.contains(group), groupTable.groups[group].app == parts.app,
                parts.user == nil || parts.user == groupTable.groups[group].owner
            else {
                deletion.look(at: group.place)
                continue
            }
            while groupTable.groups.contains(group),
                let membership = groupTable.groups[group].memberships.last
            {
                // The place is passed when the group has ended.
                guard goesOn(deletion) else { return false }
                deletion.units -= Deletion.unitsPerMember
                if let user = parts.user {
                    expel(membership, by: user, in: &step)
                } else {
                    remove(membership)
                }
            }
            deletion.counts.groups += 1
            deletion.look(at: group.place)
        }
        return true
    }

    /// Leaves the groups of which the user is a member, and tells the others.
    mutating func leaveGroups(
        of parts: DeletedParts, _ deletion: inout Deletion, in step: inout Step
    ) -> Bool {
        guard let user = parts.user else { return true }
        while let membership = registry.users[user].memberships.last {
            guard goesOn(deletion) else { return false }
            deletion.units -= Deletion.unitsPerMember
            let group = groupTable.memberships[membership].group
            _ = leaveGroup(group, GroupActor(user: user, session: nil), in: &step)
        }
        return true
    }

    /// Takes the user off the lists of groups: another user of that name is not who was allowed.
    mutating func leaveAllowLists(
        of parts: DeletedParts, _ deletion: inout Deletion, in step: inout Step
    ) -> Bool {
        guard let user = parts.user else { return true }
        let name = registry.users[user].name
        for group in groupTable.groups.places.after(deletion.place) {
            guard goesOn(deletion) else { return false }
            deletion.look(at: group.place)
            guard groupTable.groups.contains(group), groupTable.groups[group].app == parts.app,
                let allowed = groupTable.groups[group].allowed
            else { continue }
            deletion.units -= allowed.count / Deletion.unitsPerRow
            guard allowed.contains(where: { name == $0 }) else { continue }
            deletion.units -= Deletion.unitsPerMember
            // A full store takes a smaller row after the commit.
            if !disallow(name, in: group, in: &step) { deletion.mustRepeat = true }
        }
        return true
    }

    // MARK: - Messages

    mutating func deleteRetained(of app: Index<App>, _ deletion: inout Deletion) -> Bool {
        for index in retention.retained.places.after(deletion.place) {
            guard goesOn(deletion) else { return false }
            deletion.look(at: index.place)
            guard retention.retained.contains(index), retention.retained[index].app == app else {
                continue
            }
            _ = retention.retained[index].block.withUnsafeBytes {
                registry.removeRetained(topic: MessageBlock($0).address, app: app)
            }
            forgetRetained(index)
            deletion.counts.retainedMessages += 1
            deletion.units -= Deletion.unitsPerRow
        }
        return true
    }

    /// Deletes the conversations of an app, or those of the user with another one.
    mutating func deleteConversations(
        of parts: DeletedParts, _ deletion: inout Deletion
    ) -> Bool {
        if let user = parts.user {
            while let index = conversationTable.conversations(ofUser: user).last {
                guard goesOn(deletion) else { return false }
                delete(conversation: index, &deletion)
            }
            return true
        }
        for index in conversationTable.conversations.places.after(deletion.place) {
            guard goesOn(deletion) else { return false }
            deletion.look(at: index.place)
            guard conversationTable.conversations.contains(index),
                conversationTable.conversations[index].app == parts.app
            else { continue }
            delete(conversation: index, &deletion)
        }
        return true
    }

    private mutating func delete(
        conversation index: Index<KeptConversation>, _ deletion: inout Deletion
    ) {
        remove(conversation: index)
        deletion.counts.conversations += 1
        deletion.units -= Deletion.unitsPerRow
    }

    /// Empties the leftovers of an app without sessions: each of their messages finds no session of
    /// its share, and a leftover without messages ends.
    mutating func deleteLeftovers(of app: Index<App>, _ deletion: inout Deletion) -> Bool {
        for index in queues.leftovers.places.after(deletion.place) {
            guard goesOn(deletion) else { return false }
            deletion.look(at: index.place)
            guard queues.leftovers.contains(index), queues.leftovers[index].app == app else {
                continue
            }
            deletion.units -= Deletion.unitsPerRow
            deletion.mustRepeat = true
            if !queues.leftovers[index].isUnderWay { loadLeftover(index) }
        }
        return true
    }

    // MARK: - Sends

    /// Deletes the sends of an app, or those whose sender is the user: another user of that name
    /// would be told of them and might recall them.
    mutating func deleteTrackedSends(of parts: DeletedParts, _ deletion: inout Deletion) -> Bool {
        for index in tracking.sends.places.after(deletion.place) {
            guard goesOn(deletion) else { return false }
            guard tracking.sends.contains(index), tracking.sends[index].app == parts.app,
                parts.user == nil || parts.user == tracking.sends[index].sender
            else {
                deletion.look(at: index.place)
                continue
            }
            // A recall by an operator is completed first.
            guard parts.user == nil || tracking.sends[index].revision == nil else {
                deletion.mustRepeat = true
                deletion.look(at: index.place)
                continue
            }
            let members = tracking.takeMembers(
                of: index,
                countMaximum: min(CoreLimits.trackedMembersPerStepMaximum, deletion.units))
            for user in members {
                commits.remove(.trackedSends, key: memberKey(user, of: index))
            }
            deletion.units -= members.count
            // A send with more of them goes on in the next piece.
            guard tracking.sends[index].members.isEmpty else { return false }
            endTracking(of: index)
            deletion.units -= Deletion.unitsPerRow
            deletion.look(at: index.place)
        }
        return true
    }

    mutating func deleteSendKeys(of parts: DeletedParts, _ deletion: inout Deletion) -> Bool {
        let name = registry.apps[parts.app].name
        while keyCount(of: parts) > 0 {
            guard goesOn(deletion) else { return false }
            let units = deletion.units
            let removed = sendKeys.removeKeys(
                ofApp: parts.app, owner: parts.user, before: &deletion.keyPosition,
                countMaximum: units)
            for key in removed { commits.remove(.sendKeys, key: Records.key(of: key, app: name)) }
            deletion.units -= units
            guard deletion.keyPosition > 0 else {
                deletion.mustRepeat = keyCount(of: parts) > 0
                return true
            }
        }
        return true
    }

    private func keyCount(of parts: DeletedParts) -> Int {
        parts.user.map { sendKeys.count(ofUser: $0) } ?? sendKeys.counts(ofApp: parts.app).all
    }

    // MARK: - Users

    /// Deletes the users of an app, which has nothing else any more.
    mutating func deleteUsers(of app: Index<App>, _ deletion: inout Deletion) -> Bool {
        var next =
            deletion.place.map { registry.users[Index<User>(place: $0)].nextOfApp }
            ?? registry.apps[app].firstUser
        while let user = next {
            guard goesOn(deletion) else { return false }
            deletion.look(at: user.place)
            next = registry.users[user].nextOfApp
            // One that has got something meanwhile is for another round.
            guard !registry.isDeleted(user), isBare(user) else { continue }
            delete(user: user, &deletion)
        }
        return true
    }

    /// Whether a user has nothing but a queue.
    func isBare(_ user: Index<User>) -> Bool {
        registry.users[user].firstSession == nil && registry.users[user].tokenCount == 0
            && registry.passwordCount(of: user) == 0
            && registry.users[user].memberships.isEmpty
            && groupTable.owned(by: user).count == 0 && sendKeys.count(ofUser: user) == 0
            && conversationTable.conversations(ofUser: user).isEmpty
    }

    /// Deletes a user with its offline queue.
    mutating func delete(user: Index<User>, _ deletion: inout Deletion) {
        if let inbox = takeOfflineQueue(of: user) {
            deletion.counts.queuedMessages += UInt64(inbox.count)
            counters.discarded += UInt64(inbox.count)
            queues.countOut(UInt64(inbox.count), byteCount: inbox.byteCount)
            commits.delete(inbox.queue)
        }
        forgetWaking(of: user)
        wakeReports.removeAll(of: user)
        let row = row(ofUser: user)
        registry.delete(user)
        commits.remove(row.table, key: row.key)
        deletion.counts.users += 1
        deletion.units -= Deletion.unitsPerRow
    }
}
