// What users do with groups: create, join, leave, kick, ban, list, describe, change. Every change
// is answered when it is committed; members are told by system messages.

import Primitives

/// A request about groups. Ids in lists stand in a row, each one length byte and its bytes.
public enum GroupRequest: Sendable {
    /// `allowed` nil makes a group that everybody may join. `seed` is a fresh random number.
    case create(title: ByteRange, allowed: IdentifierRange?, meta: ByteRange, seed: UInt64)
    case join(ByteRange)
    case leave(ByteRange)
    case kick(ByteRange, user: ByteRange)
    /// Takes the user off the allow list and kicks, in one step (D28).
    case ban(ByteRange, user: ByteRange)
    /// The groups of the user, those that follow `after`; empty for the first.
    case list(after: ByteRange)
    /// What a group is and who is in it: the members that follow `after`; empty for the first.
    case describe(ByteRange, after: ByteRange)
    case setMeta(ByteRange, meta: ByteRange)
    case setAllowed(ByteRange, allowed: IdentifierRange?)
}

/// Ids in a row, each one length byte and its bytes.
public struct IdentifierRange: Hashable, Sendable {
    public var bytes: ByteRange
    public var count: Int

    public init(bytes: ByteRange, count: Int) {
        self.bytes = bytes
        self.count = count
    }
}

/// How a request about groups ended, before it is answered.
private enum GroupOutcome {
    /// Something changed: the answer waits for the commit.
    case changed(ReasonCode, body: [UInt8])
    /// Nothing changed: the answer leaves at once.
    case unchanged(ReasonCode, body: [UInt8])

    static func refused(_ reason: ReasonCode) -> GroupOutcome { .unchanged(reason, body: []) }
}

extension Broker {
    mutating func groupRequested(
        _ connection: ConnectionID, _ requestIdentifier: UInt64, _ request: GroupRequest,
        _ bytes: UnsafeRawBufferPointer, _ moment: Moment, _ effects: inout Effects
    ) {
        guard let session = session(of: connection) else { return }
        switch outcome(of: request, by: session, bytes, moment, &effects) {
        case .changed(let reason, let body):
            gathering.confirmations.append(
                .respond(connection, requestIdentifier: requestIdentifier, reason, body: body))
        case .unchanged(let reason, let body):
            if reason.isFailure { counters.groupRequestsRefused += 1 }
            effects[connection.lane].respond(connection, requestIdentifier, reason, body: body)
        }
    }

    private mutating func outcome(
        of request: GroupRequest, by session: UInt32, _ bytes: UnsafeRawBufferPointer,
        _ moment: Moment, _ effects: inout Effects
    ) -> GroupOutcome {
        switch request {
        case .create(let title, let allowed, let meta, let seed):
            return createGroup(
                by: session, Array(title.bytes(in: bytes)),
                allowed.map { identifiers($0, bytes) }, Array(meta.bytes(in: bytes)), seed)
        case .join(let name):
            return withGroup(name, of: session, bytes) { broker, group in
                broker.joinGroup(group, session, moment, &effects)
            }
        case .leave(let name):
            return withGroup(name, of: session, bytes) { broker, group in
                broker.leaveGroup(group, session, moment, &effects)
            }
        case .kick(let name, let user):
            return withOwnGroup(name, of: session, bytes) { broker, group in
                broker.kick(group, Array(user.bytes(in: bytes)), moment, &effects)
            }
        case .ban(let name, let user):
            return withOwnGroup(name, of: session, bytes) { broker, group in
                broker.ban(group, Array(user.bytes(in: bytes)), moment, &effects)
            }
        case .list(let after):
            return .unchanged(
                .success,
                body: groupList(of: sessions[session].user, after: after.bytes(in: bytes)))
        case .describe(let name, let after):
            return withGroup(name, of: session, bytes) { broker, group in
                broker.describe(group, session, after: after.bytes(in: bytes))
            }
        case .setMeta(let name, let meta):
            return withOwnGroup(name, of: session, bytes) { broker, group in
                broker.setMeta(group, Array(meta.bytes(in: bytes)), moment, &effects)
            }
        case .setAllowed(let name, let allowed):
            let list = allowed.map { identifiers($0, bytes) }
            return withOwnGroup(name, of: session, bytes) { broker, group in
                broker.setAllowed(group, list, moment, &effects)
            }
        }
    }

    private mutating func withGroup(
        _ name: ByteRange, of session: UInt32, _ bytes: UnsafeRawBufferPointer,
        _ body: (inout Broker, UInt32) -> GroupOutcome
    ) -> GroupOutcome {
        let app = users[sessions[session].user].app
        guard let group = apps[app].groups.value(for: name.bytes(in: bytes)) else {
            return .refused(.topicNameInvalid)
        }
        return body(&self, group)
    }

    /// As ``withGroup``, for what only the owner may do.
    private mutating func withOwnGroup(
        _ name: ByteRange, of session: UInt32, _ bytes: UnsafeRawBufferPointer,
        _ body: (inout Broker, UInt32) -> GroupOutcome
    ) -> GroupOutcome {
        let user = sessions[session].user
        return withGroup(name, of: session, bytes) { broker, group in
            guard broker.groups[group].owner == user else { return .refused(.notAuthorized) }
            return body(&broker, group)
        }
    }

    private func identifiers(
        _ range: IdentifierRange, _ bytes: UnsafeRawBufferPointer
    ) -> [[UInt8]] {
        let run = range.bytes.bytes(in: bytes)
        var offset = 0
        return (0..<range.count).map { _ in
            let end = offset + 1 + Int(run[offset])
            defer { offset = end }
            return Array(run[offset + 1..<end])
        }
    }

    // MARK: - Changes

    private mutating func createGroup(
        by session: UInt32, _ title: [UInt8], _ allowed: [[UInt8]]?, _ meta: [UInt8],
        _ seed: UInt64
    ) -> GroupOutcome {
        guard allows(.createGroup, session) else { return .refused(.notAuthorized) }
        let user = sessions[session].user
        let app = users[user].app
        guard meta.count <= CoreLimits.groupMetaMaximum else { return .refused(.packetTooLarge) }
        guard !isStoreFull, apps[app].groups.count < limits.groupsPerAppMaximum,
            users[user].memberships.count < limits.groupsPerUserMaximum,
            (allowed?.count ?? 0) <= CoreLimits.groupAllowedMaximum
        else { return .refused(.quotaExceeded) }
        let name = groupName(seed)
        guard name.withUnsafeBytes({ apps[app].groups.value(for: $0) }) == nil else {
            // Two random numbers of 64 bits alike: the client may simply ask again.
            return .refused(.serverBusy)
        }
        let group = insertGroup(
            identifier: makeIdentifier(), app: app, name: name, title: title, owner: user,
            allowed: allowed, meta: meta)
        writeGroup(group)
        addMember(user, to: group)
        writeMember(user, group, isMember: true)
        return .changed(.success, body: name)
    }

    /// 13 letters and digits for 64 random bits; without the ones that are read for each other.
    private func groupName(_ seed: UInt64) -> [UInt8] {
        let alphabet = Array("abcdefghjkmnpqrstuvwxyz23456789x".utf8)
        var rest = seed
        return (0..<13).map { _ in
            defer { rest >>= 5 }
            return alphabet[Int(rest & 31)]
        }
    }

    private mutating func joinGroup(
        _ group: UInt32, _ session: UInt32, _ moment: Moment, _ effects: inout Effects
    ) -> GroupOutcome {
        let user = sessions[session].user
        if membership(of: user, in: group) != nil { return .unchanged(.success, body: []) }
        if let allowed = groups[group].allowed, groups[group].owner != user,
            !allowed.contains(users[user].name)
        {
            return .refused(.notAuthorized)
        }
        guard !isStoreFull, groups[group].memberships.count < limits.groupMembersMaximum,
            users[user].memberships.count < limits.groupsPerUserMaximum
        else { return .refused(.quotaExceeded) }
        tell(group, .joined, users[user].name, by: user, moment, &effects)
        addMember(user, to: group)
        writeMember(user, group, isMember: true)
        return .changed(.success, body: [])
    }

    private mutating func leaveGroup(
        _ group: UInt32, _ session: UInt32, _ moment: Moment, _ effects: inout Effects
    ) -> GroupOutcome {
        let user = sessions[session].user
        guard let membership = membership(of: user, in: group) else {
            return .refused(.noSubscriptionExisted)
        }
        removeMember(membership)
        writeMember(user, group, isMember: false)
        tell(group, .left, users[user].name, by: user, moment, &effects)
        return .changed(.success, body: [])
    }

    /// The kicked one keeps the mail it has, is told (reason 6), and so are those who remain.
    private mutating func kick(
        _ group: UInt32, _ name: [UInt8], _ moment: Moment, _ effects: inout Effects
    ) -> GroupOutcome {
        let app = groups[group].app
        guard let user = name.withUnsafeBytes({ apps[app].users.value(for: $0) }),
            let membership = membership(of: user, in: group)
        else { return .refused(.topicNameInvalid) }
        guard user != groups[group].owner else { return .refused(.notAuthorized) }
        removeMember(membership)
        writeMember(user, group, isMember: false)
        let owner = groups[group].owner
        notify(user, ofKickFrom: group, by: owner, moment, &effects)
        tell(group, .kicked, name, by: owner, moment, &effects)
        return .changed(.kickedOut, body: [])
    }

    /// In a group that everybody may join, the allow list becomes all other members.
    private mutating func ban(
        _ group: UInt32, _ name: [UInt8], _ moment: Moment, _ effects: inout Effects
    ) -> GroupOutcome {
        let allowed: [[UInt8]]
        if let list = groups[group].allowed {
            allowed = list.filter { $0 != name }
        } else {
            guard groups[group].memberships.count <= CoreLimits.groupAllowedMaximum else {
                return .refused(.quotaExceeded)
            }
            allowed = groups[group].memberships
                .map { users[memberships[$0].user].name }.filter { $0 != name }
        }
        let kicked = kick(group, name, moment, &effects)
        guard case .changed = kicked else { return kicked }
        groups[group].allowed = allowed
        writeGroup(group)
        tellAllowed(group, moment, &effects)
        return kicked
    }

    private mutating func setMeta(
        _ group: UInt32, _ meta: [UInt8], _ moment: Moment, _ effects: inout Effects
    ) -> GroupOutcome {
        guard meta.count <= CoreLimits.groupMetaMaximum else { return .refused(.packetTooLarge) }
        groups[group].meta = meta
        writeGroup(group)
        tell(group, .metaUpdated, meta, by: groups[group].owner, moment, &effects)
        return .changed(.success, body: [])
    }

    /// Taking a member off the list does not kick (D27).
    private mutating func setAllowed(
        _ group: UInt32, _ allowed: [[UInt8]]?, _ moment: Moment, _ effects: inout Effects
    ) -> GroupOutcome {
        guard (allowed?.count ?? 0) <= CoreLimits.groupAllowedMaximum else {
            return .refused(.quotaExceeded)
        }
        groups[group].allowed = allowed
        writeGroup(group)
        tellAllowed(group, moment, &effects)
        return .changed(.success, body: [])
    }

    private mutating func tellAllowed(
        _ group: UInt32, _ moment: Moment, _ effects: inout Effects
    ) {
        var data: [UInt8] = [groups[group].allowed == nil ? 0 : 1]
        for name in groups[group].allowed ?? [] { data += [UInt8(name.count)] + name }
        tell(group, .allowListUpdated, data, by: groups[group].owner, moment, &effects)
    }

    // MARK: - Answers

    /// One byte that says whether there are more, then for each group its id, its title and one
    /// byte: 1 for the owner.
    private func groupList(of user: UInt32, after: UnsafeRawBufferPointer) -> [UInt8] {
        var list: [UInt8] = [0]
        var hasBegun = after.isEmpty
        for index in users[user].memberships {
            let group = memberships[index].group
            if !hasBegun {
                hasBegun = groups[group].name.elementsEqual(after)
                continue
            }
            if list.count + groups[group].name.count + groups[group].title.count + 3
                > CoreLimits.groupAnswerMaximum
            {
                list[0] = 1
                break
            }
            list += [UInt8(groups[group].name.count)] + groups[group].name
            list += [UInt8(groups[group].title.count)] + groups[group].title
            list.append(groups[group].owner == user ? 1 : 0)
        }
        return list
    }

    /// Flags (1 allow list, 2 own, 4 more members), owner, title, member count (32 bits), meta with
    /// 16 bits of length, and members. Only members may ask.
    private func describe(
        _ group: UInt32, _ session: UInt32, after: UnsafeRawBufferPointer
    ) -> GroupOutcome {
        let user = sessions[session].user
        guard membership(of: user, in: group) != nil else { return .refused(.notAuthorized) }
        let owner = users[groups[group].owner].name
        var body: [UInt8] = [
            (groups[group].allowed == nil ? 0 : 1) | (groups[group].owner == user ? 2 : 0)
        ]
        body += [UInt8(owner.count)] + owner
        body += [UInt8(groups[group].title.count)] + groups[group].title
        withUnsafeBytes(of: UInt32(groups[group].memberships.count).bigEndian) { body += $0 }
        withUnsafeBytes(of: UInt16(groups[group].meta.count).bigEndian) { body += $0 }
        body += groups[group].meta
        var hasBegun = after.isEmpty
        for index in groups[group].memberships {
            let name = users[memberships[index].user].name
            if !hasBegun {
                hasBegun = name.elementsEqual(after)
                continue
            }
            if body.count + name.count + 1 > CoreLimits.groupAnswerMaximum {
                body[0] |= 4
                break
            }
            body += [UInt8(name.count)] + name
        }
        return .unchanged(.success, body: body)
    }

    // MARK: - System messages

    /// Tells the members what happened. Past a number of members joins and leaves are not told:
    /// each would cost a message for every member, and all of them together the square.
    private mutating func tell(
        _ group: UInt32, _ event: GroupEvent, _ data: [UInt8], by user: UInt32,
        _ moment: Moment, _ effects: inout Effects
    ) {
        if event == .joined || event == .left,
            groups[group].memberships.count > CoreLimits.groupEventMembersMaximum
        {
            counters.groupEventsSkipped += 1
            return
        }
        sendSystemMessage(
            .groupEvent, about: groups[group].name, payload: [event.rawValue] + data,
            from: users[user].name, moment
        ) { broker, message, tally in
            broker.enqueue(message, group: group, excluding: .max, &tally, moment, &effects)
        }
    }

    private mutating func notify(
        _ user: UInt32, ofKickFrom group: UInt32, by owner: UInt32, _ moment: Moment,
        _ effects: inout Effects
    ) {
        sendSystemMessage(
            .kicked, about: groups[group].name, payload: [], from: users[owner].name, moment
        ) { broker, message, tally in
            if broker.users[user].firstSession == Slab<Session>.none {
                broker.enqueue(message, mailboxOf: user, &tally)
            } else {
                broker.enqueue(message, sessionsOf: user, &tally, moment, &effects)
            }
        }
    }

    // MARK: - Members

    /// Into the inboxes of a group's members, and the mailboxes of those whom no session receives.
    mutating func enqueue(
        _ message: UInt32, group: UInt32, excluding excluded: UInt32,
        _ tally: inout RoutingTally, _ moment: Moment, _ effects: inout Effects
    ) {
        enqueue(
            message, audience: groups[group].audience, excluding: excluded, &tally, moment,
            &effects)
        for position in 0..<groups[group].waiting.count {
            let membership = groups[group].waiting[position]
            enqueue(message, mailboxOf: memberships[membership].user, &tally)
        }
    }

    func membership(of user: UInt32, in group: UInt32) -> UInt32? {
        users[user].memberships.first { memberships[$0].group == group }
    }

    mutating func insertGroup(
        identifier: UInt64, app: UInt32, name: [UInt8], title: [UInt8], owner: UInt32,
        allowed: [[UInt8]]?, meta: [UInt8]
    ) -> UInt32 {
        let group = groups.insert(
            Group(
                identifier: identifier, app: app, name: name, title: title, owner: owner,
                allowed: allowed, meta: meta, audience: audiences.insert(Audience()).index)
        ).index
        name.withUnsafeBytes { apps[app].groups.insert(group, for: $0) }
        restoration?.groups[identifier] = group
        return group
    }

    mutating func addMember(_ user: UInt32, to group: UInt32) {
        let membership = memberships.insert(
            Membership(
                group: group, user: user, position: UInt32(groups[group].memberships.count),
                waitingPosition: Slab<Membership>.none)
        ).index
        groups[group].memberships.append(membership)
        users[user].memberships.append(membership)
        var session = users[user].firstSession
        while session != Slab<Session>.none {
            if receivesGroups(session) {
                join(session: session, audience: groups[group].audience, grade: .once)
            }
            session = sessions[session].nextOfUser
        }
        updateWaiting(of: user)
    }

    mutating func removeMember(_ index: UInt32) {
        setWaiting(index, false)
        let membership = memberships.remove(index)
        let (group, user) = (membership.group, membership.user)
        let last = groups[group].memberships.removeLast()
        if last != index {
            groups[group].memberships[Int(membership.position)] = last
            memberships[last].position = membership.position
        }
        users[user].memberships.removeAll { $0 == index }
        let audience = groups[group].audience
        var session = users[user].firstSession
        while session != Slab<Session>.none {
            leave(audience: audience, session)
            session = sessions[session].nextOfUser
        }
    }

    private mutating func leave(audience: UInt32, _ session: UInt32) {
        var index = sessions[session].firstSubscription
        while index != Slab<Subscription>.none {
            let next = subscriptions[index].next
            if subscriptions[index].audience == audience { leave(subscription: index) }
            index = next
        }
    }

    /// An MRT session hears its user's groups without asking.
    private func receivesGroups(_ session: UInt32) -> Bool {
        sessions[session].dialect == .mrt
    }

    /// A new session joins the audiences of its user's groups.
    mutating func joinGroupAudiences(_ session: UInt32) {
        guard receivesGroups(session) else { return }
        let user = sessions[session].user
        for index in users[user].memberships {
            join(
                session: session, audience: groups[memberships[index].group].audience,
                grade: .once)
        }
    }

    /// Notes in all groups of a user whether its mail has to wait: call whenever that may have
    /// changed.
    mutating func updateWaiting(of user: UInt32) {
        let isWaiting = users[user].firstSession == Slab<Session>.none
        for index in users[user].memberships { setWaiting(index, isWaiting) }
    }

    private mutating func setWaiting(_ index: UInt32, _ isWaiting: Bool) {
        let group = memberships[index].group
        let position = memberships[index].waitingPosition
        guard (position != Slab<Membership>.none) != isWaiting else { return }
        if isWaiting {
            memberships[index].waitingPosition = UInt32(groups[group].waiting.count)
            groups[group].waiting.append(index)
        } else {
            let last = groups[group].waiting.removeLast()
            if last != index {
                groups[group].waiting[Int(position)] = last
                memberships[last].waitingPosition = position
            }
            memberships[index].waitingPosition = Slab<Membership>.none
        }
    }

    // MARK: - Rows

    private mutating func writeGroup(_ group: UInt32) {
        gathering.records.append(
            Records.group(
                identifier: groups[group].identifier, app: apps[groups[group].app].name,
                name: groups[group].name, title: groups[group].title,
                owner: users[groups[group].owner].name, allowed: groups[group].allowed,
                meta: groups[group].meta))
    }

    private mutating func writeMember(_ user: UInt32, _ group: UInt32, isMember: Bool) {
        gathering.records.append(
            Records.member(
                group: groups[group].identifier, user: users[user].name, isMember: isMember))
    }

    mutating func restoreGroup(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        var row = try RecordReader(value, version: 1, table: .groups, key: key)
        let appName = try row.readString()
        let name = try row.readString()
        let title = try row.readString()
        let ownerName = try row.readString()
        guard key.count == 8, let app = app(named: appName),
            let owner = ownerName.withUnsafeBytes({ apps[app].users.value(for: $0) })
        else { throw .danglingRecord(.groups, key: key) }
        let isLimited = try row.read(UInt8.self) == 1
        var allowed: [[UInt8]] = []
        for _ in 0..<(try row.read(UInt16.self)) { allowed.append(try row.readString()) }
        _ = insertGroup(
            identifier: RecordKey.readNumber(key), app: app, name: name, title: title,
            owner: owner, allowed: isLimited ? allowed : nil, meta: try row.readString())
    }

    mutating func restoreMember(_ key: [UInt8]) throws(RestoreError) {
        guard key.count > 8, let group = restoration!.groups[RecordKey.readNumber(key)],
            let user = key[8...].withUnsafeBytes({
                apps[groups[group].app].users.value(for: $0)
            })
        else { throw .danglingRecord(.members, key: key) }
        addMember(user, to: group)
    }
}
