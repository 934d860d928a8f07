// Requests of users about groups: create, join, leave, kick, ban, change. Every change is answered
// after its commit, also a repeated request whose change was made before. System messages tell the
// members.

import BrokerTerms
import Primitives

/// The result of a request that changes a group.
enum GroupOutcome {
    /// The group is as requested. The answer waits until everything so far is committed.
    case done(ReasonCode, body: [UInt8] = [])
    case refused(ReasonCode, LimitName = .none)
}

/// The user and the session that change a group.
struct GroupActor {
    let user: Index<User>
    /// The session that asked. It gets the answer and needs no notice; nil if an operator acts for
    /// the user.
    let session: Index<Session>?
}

extension Broker {
    mutating func groupRequested(
        by connection: ConnectionID, identifier requestIdentifier: UInt64, _ request: GroupRequest,
        in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        let outcome: GroupOutcome
        switch request {
        case .list(let after, let byteCountMaximum):
            reportGroups(
                to: connection, request: requestIdentifier, of: sessions[session].user,
                after: Array(after.bytes(in: step.bytes)), byteCountMaximum: byteCountMaximum,
                in: &step)
            return
        case .describe(let name, let after, let byteCountMaximum):
            reportGroup(
                to: connection, request: requestIdentifier,
                group: group(named: name, of: session, in: step.bytes),
                user: sessions[session].user, after: Array(after.bytes(in: step.bytes)),
                byteCountMaximum: byteCountMaximum, in: &step)
            return
        case .describeHistory(let name, let wantsMessage, let byteCountMaximum):
            reportHistory(
                to: connection, request: requestIdentifier,
                ofGroup: group(named: name, of: session, in: step.bytes),
                user: sessions[session].user, wantsMessage: wantsMessage,
                byteCountMaximum: byteCountMaximum, in: &step)
            return
        case .create(let creation):
            outcome = createGroup(creation, by: session, in: &step)
        case .join(let name, _), .leave(let name), .kick(let name, _), .ban(let name, _),
            .setMeta(let name, _), .setAllowed(let name, _), .setHistory(let name, _),
            .setWaking(let name, _), .mute(let name, _):
            let actor = GroupActor(user: sessions[session].user, session: session)
            if let group = group(named: name, of: session, in: step.bytes) {
                outcome = change(group, request, by: actor, in: &step)
            } else {
                outcome = .refused(.topicNameInvalid)
            }
        }
        switch outcome {
        case .done(let reason, let body):
            respondAtCommit(to: connection, request: requestIdentifier, reason: reason, body: body)
        case .refused(let reason, let limit):
            counters.requestsRefused += 1
            if limit != .none {
                note(.requestRefused, session: session, reason: reason, limit: limit, in: &step)
            }
            if reason == .quotaExceeded { counters.requestsOverQuota += 1 }
            step.effects[connection.loop].respond(
                to: connection, request: requestIdentifier, reason: reason, body: limit.text)
        }
    }

    private func group(
        named name: ByteRange, of session: Index<Session>, in bytes: UnsafeRawBufferPointer
    ) -> Index<Group>? {
        registry.apps[registry.users[sessions[session].user].app].groups.value(
            for: name.bytes(in: bytes))
    }

    private mutating func change(
        _ group: Index<Group>, _ request: GroupRequest, by actor: GroupActor, in step: inout Step
    ) -> GroupOutcome {
        switch request {
        case .join(_, let backlog):
            guard mayJoin(group, actor.user) else {
                return .refused(.notAuthorized, .joinNotAllowed)
            }
            return joinGroup(group, actor, backlog: backlog, in: &step)
        case .leave: return leaveGroup(group, actor, in: &step)
        case .create, .list, .describe, .describeHistory:
            preconditionFailure("\(request) does not change a group")
        case .mute(_, let isMuted): return mute(group, isMuted, for: actor.user)
        case .kick, .ban, .setMeta, .setAllowed, .setHistory, .setWaking: break
        }
        guard groupTable.groups[group].owner == actor.user else {
            return .refused(.notAuthorized, .ownerOnly)
        }
        switch request {
        case .kick(_, let user):
            return kick(from: group, user: Array(user.bytes(in: step.bytes)), by: actor, in: &step)
        case .ban(_, let user):
            return ban(from: group, user: Array(user.bytes(in: step.bytes)), by: actor, in: &step)
        case .setMeta(_, let meta):
            return setMeta(of: group, to: Array(meta.bytes(in: step.bytes)), by: actor, in: &step)
        case .setAllowed(_, let allowed):
            return setAllowed(
                of: group, to: allowed.map { identifiers($0, in: step.bytes) }, by: actor, in: &step
            )
        case .setHistory(_, let history):
            return setHistory(of: group, to: history, by: actor, in: &step)
        case .setWaking(_, let wakes): return setWaking(of: group, to: wakes)
        case .create, .join, .leave, .mute, .list, .describe, .describeHistory:
            preconditionFailure("\(request) is not reserved for the owner")
        }
    }

    private func identifiers(_ range: IdentifierRange, in bytes: UnsafeRawBufferPointer)
        -> [[UInt8]]
    {
        let run = range.bytes.bytes(in: bytes)
        var offset = 0
        return (0..<range.count).map { _ in
            let end = offset + 1 + Int(run[offset])
            defer { offset = end }
            return Array(run[offset + 1..<end])
        }
    }

    // MARK: - Join and leave

    private mutating func createGroup(
        _ creation: GroupCreation, by session: Index<Session>, in step: inout Step
    ) -> GroupOutcome {
        guard allows(.createGroup, session) else { return .refused(.notAuthorized) }
        let user = sessions[session].user
        if let group = ownGroup(of: user, key: creation.key) {
            return .done(.success, body: groupTable.groups[group].name)
        }
        return createGroup(
            owner: GroupActor(user: user, session: session), key: creation.key,
            seed: creation.seed, title: Array(creation.title.bytes(in: step.bytes)),
            meta: Array(creation.meta.bytes(in: step.bytes)),
            allowed: creation.allowed.map { identifiers($0, in: step.bytes) }, in: &step)
    }

    /// Creates a group if its owner may have one more. The body of the answer is its id.
    mutating func createGroup(
        owner actor: GroupActor, key: UInt64, seed: UInt64, title: [UInt8], meta: [UInt8],
        allowed: [[UInt8]]?, in step: inout Step
    ) -> GroupOutcome {
        let owner = actor.user
        let app = registry.users[owner].app
        guard meta.count <= CoreLimits.groupMetaMaximum,
            title.count <= CoreLimits.groupTitleMaximum
        else { return .refused(.packetTooLarge) }
        if registry.apps[app].groups.count >= limits.groupsPerAppMaximum {
            return .refused(.quotaExceeded, .groupsOfApp)
        }
        if registry.users[owner].memberships.count >= limits.groupsPerUserMaximum
            || groupTable.owned(by: owner).count >= limits.groupsPerUserMaximum
        {
            return .refused(.quotaExceeded, .groupsOfUser)
        }
        if allowed?.count ?? 0 > CoreLimits.groupAllowedMaximum {
            return .refused(.quotaExceeded, .groupAllowed)
        }
        let byteCount = Group.byteCount(title: title, meta: meta, allowed: allowed)
        if let limit = groupLimitReached(by: owner, growingTo: byteCount, from: 0) {
            return .refused(.quotaExceeded, limit)
        }
        let permit = admitGrowth(
            of: growth(ofMember: owner)
                + growth(ofGroupOwnedBy: owner, title: title, meta: meta, allowed: allowed))
        guard let permit else { return .refused(.quotaExceeded, commits.room.limit) }
        var seed = seed
        var name = unpredictableName(seed)
        while name.withUnsafeBytes({ registry.apps[app].groups.value(for: $0) }) != nil {
            seed &+= 1
            name = unpredictableName(seed)
        }
        let group = insertGroup(
            Group(
                identifier: makeIdentifier(), app: app, name: name, title: title, owner: owner,
                key: key, allowed: allowed, meta: meta,
                audience: routing.makeAudience()))
        writeGroup(group, permit: permit)
        addMember(owner, to: group)
        writeMember(owner, of: group, permit: permit)
        tellAdded(actor, to: group, in: &step)
        return .done(.success, body: name)
    }

    /// The group that the same request created before.
    private func ownGroup(of user: Index<User>, key: UInt64) -> Index<Group>? {
        for membership in registry.users[user].memberships {
            let group = groupTable.memberships[membership].group
            if groupTable.groups[group].owner == user && groupTable.groups[group].key == key {
                return group
            }
        }
        return nil
    }

    /// 13 digits of Crockford's base 32 for 64 random bits. Its letters cannot be mistaken for each
    /// other.
    func unpredictableName(_ seed: UInt64) -> [UInt8] {
        let digits = Array("0123456789abcdefghjkmnpqrstvwxyz".utf8)
        return (0..<13).map { digits[Int(truncatingIfNeeded: seed >> ($0 * 5)) & 31] }
    }

    /// Whether the group's policy admits a user, or the user is already a member.
    func mayJoin(_ group: Index<Group>, _ user: Index<User>) -> Bool {
        mayJoin(group, named: registry.users[user].name) || membership(of: user, in: group) != nil
    }

    /// Whether the group's policy admits a user with this name.
    func mayJoin(_ group: Index<Group>, named name: Name) -> Bool {
        guard let allowed = groupTable.groups[group].allowed,
            registry.users[groupTable.groups[group].owner].name != name
        else {
            return true
        }
        return allowed.contains { name == $0 }
    }

    /// - Parameter backlog: as in ``GroupRequest/join(_:backlog:)``.
    mutating func joinGroup(
        _ group: Index<Group>, _ actor: GroupActor, backlog: UInt32? = nil, in step: inout Step
    ) -> GroupOutcome {
        let user = actor.user
        if membership(of: user, in: group) != nil { return .done(.success) }
        if groupTable.groups[group].memberships.count >= limits.groupMembersMaximum {
            return .refused(.quotaExceeded, .groupMembers)
        }
        if registry.users[user].memberships.count >= limits.groupsPerUserMaximum {
            return .refused(.quotaExceeded, .groupsOfUser)
        }
        guard let permit = admitGrowth(of: growth(ofMember: user)) else {
            return .refused(.quotaExceeded, commits.room.limit)
        }
        addMember(user, to: group)
        writeMember(user, of: group, permit: permit)
        beginReading(user, group, shownCount: shownCount(of: group, to: actor, backlog: backlog))
        tellAdded(actor, to: group, in: &step)
        tell(group, of: .joined, data: Array(registry.users[user].name), by: actor, in: &step)
        return .done(.success)
    }

    mutating func leaveGroup(_ group: Index<Group>, _ actor: GroupActor, in step: inout Step)
        -> GroupOutcome
    {
        let user = actor.user
        guard let membership = membership(of: user, in: group) else {
            return .done(.noSubscriptionExisted)
        }
        // The user is still a member here, so that its other devices receive the notice.
        tell(group, of: .left, data: Array(registry.users[user].name), by: actor, in: &step)
        let name = groupTable.groups[group].name
        remove(membership)
        tellRemoved(actor, from: name, in: &step)
        return .done(.success)
    }

    /// Ends a membership, in memory and in the store. The last membership ends the group: no user
    /// could find it again, and unused groups must not accumulate.
    mutating func remove(_ index: Index<Membership>) {
        let (group, user) = (
            groupTable.memberships[index].group, groupTable.memberships[index].user
        )
        removeMember(index)
        let key = RecordKey.number(groupTable.groups[group].identifier)
        commits.remove(.members, key: key + Array(registry.users[user].name))
        guard groupTable.groups[group].memberships.isEmpty else { return }
        commits.remove(.groups, key: key)
        removeGroup(group)
    }

    // MARK: - The owner's requests

    /// Removes a member. The user keeps the messages that it has, and is told with reason 6; the
    /// other members are told too.
    mutating func kick(
        from group: Index<Group>, user name: [UInt8], by actor: GroupActor, in step: inout Step
    ) -> GroupOutcome {
        let app = groupTable.groups[group].app
        guard let user = self.user(named: name, app: app) else {
            return .refused(.topicNameInvalid)
        }
        guard user != groupTable.groups[group].owner else {
            return .refused(.notAuthorized, .ownerStays)
        }
        guard let membership = membership(of: user, in: group) else {
            return .done(.noSubscriptionExisted)
        }
        expel(membership, by: actor.user, in: &step)
        if groupTable.groups.contains(group) {
            tell(group, of: .kicked, data: name, by: actor, in: &step)
        }
        return .done(.kickedOut)
    }

    /// Ends a membership and tells the user, who keeps the messages that it has.
    mutating func expel(
        _ membership: Index<Membership>, by owner: Index<User>, in step: inout Step
    ) {
        let user = groupTable.memberships[membership].user
        let groupName = groupTable.groups[groupTable.memberships[membership].group].name
        remove(membership)
        sendSystemMessage(
            .kicked, about: groupName, payload: [], from: Array(registry.users[owner].name),
            at: step.moment
        ) { broker, message, tally in
            broker.enqueue(message, devicesOf: user, excluding: nil, tally: &tally, in: &step)
        }
    }

    /// Removes a user from the list of allowed users, member or not, and kicks. In a group that
    /// everybody may join, the list becomes all other members.
    mutating func ban(
        from group: Index<Group>, user name: [UInt8], by actor: GroupActor, in step: inout Step
    ) -> GroupOutcome {
        if registry.users[groupTable.groups[group].owner].name == name {
            return .refused(.notAuthorized, .ownerStays)
        }
        var allowed: [[UInt8]]
        if let list = groupTable.groups[group].allowed {
            allowed = list
        } else {
            guard groupTable.groups[group].memberships.count <= CoreLimits.groupAllowedMaximum
            else {
                return .refused(.quotaExceeded, .groupAllowed)
            }
            allowed = groupTable.groups[group].memberships.map {
                Array(registry.users[groupTable.memberships[$0].user].name)
            }
        }
        allowed.removeAll { $0 == name }
        if let limit = replaceAllowed(of: group, to: allowed, by: actor, in: &step) {
            return .refused(.quotaExceeded, limit)
        }
        let kicked = kick(from: group, user: name, by: actor, in: &step)
        // The ban also applies to a user that does not exist yet.
        guard case .refused = kicked else { return kicked }
        return .done(.noSubscriptionExisted)
    }

    mutating func setMeta(
        of group: Index<Group>, to meta: [UInt8], by actor: GroupActor, in step: inout Step
    ) -> GroupOutcome {
        guard meta.count <= CoreLimits.groupMetaMaximum else { return .refused(.packetTooLarge) }
        guard meta != groupTable.groups[group].meta else { return .done(.success) }
        let allowed = groupTable.groups[group].allowed
        if let limit = rewrite(group, meta: meta, allowed: allowed) {
            return .refused(.quotaExceeded, limit)
        }
        tell(group, of: .metaUpdated, data: meta, by: actor, in: &step)
        return .done(.success)
    }

    /// Sets what a group keeps, and what new members see of it. What is kept already stays.
    mutating func setHistory(
        of group: Index<Group>, to history: GroupHistory, by actor: GroupActor,
        in step: inout Step
    ) -> GroupOutcome {
        guard history != groupTable.groups[group].history else { return .done(.success) }
        groupTable.replace(group, history: history)
        // Five bytes more at most.
        commits.renew(row(ofGroup: group))
        var data: [UInt8] = [history.isKept ? 1 : 0]
        withUnsafeBytes(of: history.shownCount.littleEndian) { data.append(contentsOf: $0) }
        tell(group, of: .historyUpdated, data: data, by: actor, in: &step)
        return .done(.success)
    }

    /// Sets whether the messages of a group wake its members.
    mutating func setWaking(of group: Index<Group>, to wakes: Bool) -> GroupOutcome {
        guard wakes != groupTable.groups[group].wakes else { return .done(.success) }
        groupTable.setWaking(wakes, of: group)
        // Six bytes more at most.
        commits.renew(row(ofGroup: group))
        commits.commitSoon()
        return .done(.success)
    }

    /// Sets whether a member is not woken by messages of the group.
    mutating func mute(
        _ group: Index<Group>, _ isMuted: Bool, for user: Index<User>
    ) -> GroupOutcome {
        guard let membership = membership(of: user, in: group) else {
            return .refused(.notAuthorized, .memberOnly)
        }
        guard isMuted != groupTable.memberships[membership].isMuted else { return .done(.success) }
        groupTable.setMuted(isMuted, of: membership)
        // Five bytes more at most.
        commits.renew(row(ofMember: membership))
        commits.commitSoon()
        return .done(.success)
    }

    /// Removing a member from the list does not kick the member.
    mutating func setAllowed(
        of group: Index<Group>, to allowed: [[UInt8]]?, by actor: GroupActor, in step: inout Step
    ) -> GroupOutcome {
        guard (allowed?.count ?? 0) <= CoreLimits.groupAllowedMaximum else {
            return .refused(.quotaExceeded, .groupAllowed)
        }
        if let limit = replaceAllowed(of: group, to: allowed, by: actor, in: &step) {
            return .refused(.quotaExceeded, limit)
        }
        return .done(.success)
    }

    /// Replaces a group's text or list, in memory and in the store. Returns the limit that forbids
    /// it; nil if none does.
    private mutating func rewrite(
        _ group: Index<Group>, meta: [UInt8], allowed: [[UInt8]]?
    ) -> LimitName? {
        let byteCount = Group.byteCount(
            title: groupTable.groups[group].title, meta: meta, allowed: allowed)
        let limit = groupLimitReached(
            by: groupTable.groups[group].owner, growingTo: byteCount,
            from: groupTable.groups[group].byteCount)
        if let limit { return limit }
        let permit = admitGrowth(
            of: growth(of: group, meta: meta, allowed: allowed),
            replacing: growth(ofGroup: group))
        guard let permit else { return commits.room.limit }
        replace(group, meta: meta, allowed: allowed)
        writeGroup(group, permit: permit)
        return nil
    }

    /// Takes a name off the list of allowed users. Returns false if the store has no room.
    mutating func disallow(_ name: Name, in group: Index<Group>, in step: inout Step) -> Bool {
        let allowed = groupTable.groups[group].allowed?.filter { !(name == $0) }
        let owner = GroupActor(user: groupTable.groups[group].owner, session: nil)
        return replaceAllowed(of: group, to: allowed, by: owner, in: &step) == nil
    }

    /// - Returns: the limit that forbids a list of this length; nil if none does.
    private mutating func replaceAllowed(
        of group: Index<Group>, to allowed: [[UInt8]]?, by actor: GroupActor, in step: inout Step
    ) -> LimitName? {
        guard allowed != groupTable.groups[group].allowed else { return nil }
        let meta = groupTable.groups[group].meta
        if let limit = rewrite(group, meta: meta, allowed: allowed) { return limit }
        var data: [UInt8] = [allowed == nil ? 0 : 1]
        for name in allowed ?? [] { data += [UInt8(name.count)] + name }
        tell(group, of: .allowListUpdated, data: data, by: actor, in: &step)
        return nil
    }

    // MARK: - System messages

    /// Tells the members about a change, except for the session that made it, which gets an answer.
    /// Joins and leaves are not told in a group with many members: each would cost one message per
    /// member, and all of them together the square of that.
    private mutating func tell(
        _ group: Index<Group>, of event: GroupEvent, data: [UInt8], by actor: GroupActor,
        in step: inout Step
    ) {
        if event == .joined || event == .left,
            groupTable.groups[group].memberships.count > CoreLimits.groupEventMembersMaximum
        {
            counters.groupEventsSkipped += 1
            return
        }
        sendSystemMessage(
            .groupEvent, about: groupTable.groups[group].name, payload: [event.rawValue] + data,
            from: Array(registry.users[actor.user].name), at: step.moment
        ) { broker, message, tally in
            broker.enqueue(
                message, group: group, excluding: actor.session, tally: &tally, in: &step)
            let (name, app) = (
                broker.groupTable.groups[group].name, broker.groupTable.groups[group].app
            )
            if let audience = broker.audience(ofAddress: .group, name, app: app) {
                broker.enqueue(
                    message, audience: audience, excluding: actor.session, tally: &tally, in: &step)
            }
        }
    }
}
