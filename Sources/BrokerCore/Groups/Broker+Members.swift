// Memberships. They are kept consistent in four places: the group's list, the user's list, the
// audience of sessions, and the members whose messages wait offline.

import Primitives

extension Broker {
    // MARK: - Groups

    mutating func insertGroup(_ new: consuming Group) -> Index<Group> {
        let (app, name, identifier) = (new.app, new.name, new.identifier)
        let byteCount = new.byteCount
        let group = groupTable.insert(new)
        registry.insert(group, named: name, byteCount: byteCount, app: app)
        commits.noteRestored(group, identifier: identifier)
        return group
    }

    /// Removes a group that has no members.
    mutating func removeGroup(_ group: Index<Group>) {
        registry.removeGroup(
            named: groupTable.groups[group].name, byteCount: groupTable.groups[group].byteCount,
            app: groupTable.groups[group].app)
        removeConversation(ofGroup: group)
        routing.remove(groupTable.groups[group].audience)
        groupTable.remove(group)
    }

    /// Replaces a group's text or list.
    mutating func replace(_ group: Index<Group>, meta: [UInt8], allowed: [[UInt8]]?) {
        let growth = groupTable.replace(group, meta: meta, allowed: allowed)
        registry.changeGroupBytes(by: growth, app: groupTable.groups[group].app)
    }

    /// The limit that forbids a list or text of an owner's groups to grow to so many bytes; nil if
    /// none does. A shorter one is always allowed.
    func groupLimitReached(
        by owner: Index<User>, growingTo byteCount: Int, from old: Int
    ) -> LimitName? {
        guard byteCount > old else { return nil }
        let added = byteCount - old
        if registry.apps[registry.users[owner].app].groupByteCount + added
            > limits.groupBytesPerAppMaximum
        {
            return .groupBytesOfApp
        }
        let own = groupTable.owned(by: owner).byteCount + added
        return own > limits.groupBytesPerUserMaximum ? .groupBytesOfUser : nil
    }

    // MARK: - Members

    /// The membership of a user in a group; nil if the user is not a member.
    func membership(of user: Index<User>, in group: Index<Group>) -> Index<Membership>? {
        let position = groupPosition(of: user, notBefore: groupTable.groups[group].name)
        guard position < registry.users[user].memberships.count else { return nil }
        let membership = registry.users[user].memberships[position]
        return groupTable.memberships[membership].group == group ? membership : nil
    }

    /// - Parameter joinNumber: that of its row; nil for a user who joins now.
    mutating func addMember(
        _ user: Index<User>, to group: Index<Group>, joinNumber: UInt32? = nil
    ) {
        let position = memberPosition(in: group, notBefore: registry.users[user].name)
        let ownPlace = groupPosition(of: user, notBefore: groupTable.groups[group].name)
        let membership = groupTable.insertMember(user, of: group, at: position)
        registry.insert(membership, at: ownPlace, of: user)
        groupTable.setJoinNumber(joinNumber ?? nextJoinNumber(of: group), of: membership)
        var next = registry.users[user].firstSession
        while let session = next {
            if receivesGroups(session) {
                join(session: session, audience: groupTable.groups[group].audience, grade: .once)
            }
            next = sessions[session].nextOfUser
        }
        // During a restore, all subscriptions are counted at the end.
        if commits.restoration == nil { countReceivers(of: membership) }
        groupTable.setWaiting(membership, isWaiting(membership))
    }

    /// The number of a join: only messages that are tracked already need it.
    private func nextJoinNumber(of group: Index<Group>) -> UInt32 {
        guard tracking.count(ofApp: groupTable.groups[group].app) > 0 else { return 0 }
        let last = groupTable.groups[group].joinCount
        return last < .max ? last + 1 : last
    }

    mutating func removeMember(_ index: Index<Membership>) {
        groupTable.setWaiting(index, false)
        endReading(groupTable.memberships[index].user, groupTable.memberships[index].group)
        let (group, user) = (
            groupTable.memberships[index].group, groupTable.memberships[index].user
        )
        var next = registry.users[user].firstSession
        while let session = next {
            leave(audience: groupTable.groups[group].audience, session)
            next = sessions[session].nextOfUser
        }
        let ownPlace = groupPosition(of: user, notBefore: groupTable.groups[group].name)
        groupTable.removeMember(
            index, at: memberPosition(in: group, notBefore: registry.users[user].name))
        registry.removeMembership(at: ownPlace, of: user)
        forgetSubscriptions(of: user, to: group)
    }

    /// Ends the MQTT subscriptions of a user that is not a member any more.
    private mutating func forgetSubscriptions(of user: Index<User>, to group: Index<Group>) {
        var next = registry.users[user].firstSession
        // The audience ends with its last subscription.
        while let session = next,
            let audience = audience(
                ofAddress: .group, groupTable.groups[group].name, app: groupTable.groups[group].app)
        {
            if let index = subscription(of: session, audience: audience) {
                forgetSubscription(index)
            }
            next = sessions[session].nextOfUser
        }
    }

    private mutating func leave(audience: Index<Audience>, _ session: Index<Session>) {
        var next = sessions[session].firstSubscription
        while let index = next {
            next = routing.subscriptions[index].next
            if routing.subscriptions[index].audience == audience { leave(subscription: index) }
        }
    }

    /// Whether the session receives its user's groups without a subscription, as MRT sessions do.
    private func receivesGroups(_ session: Index<Session>) -> Bool {
        !sessions[session].dialect.isMQTT
    }

    /// Adds a new session to the audiences of its user's groups.
    mutating func joinGroupAudiences(_ session: Index<Session>) {
        guard receivesGroups(session) else { return }
        for membership in registry.users[sessions[session].user].memberships {
            join(
                session: session,
                audience: groupTable.groups[groupTable.memberships[membership].group].audience,
                grade: .once)
        }
    }

    // MARK: - Order

    /// The first position in a user's list of groups whose id is not less than `name`.
    private func groupPosition(of user: Index<User>, notBefore name: [UInt8]) -> Int {
        firstPosition(in: registry.users[user].memberships.count) { position in
            let group = groupTable.memberships[registry.users[user].memberships[position]].group
            return !groupTable.groups[group].name.lexicographicallyPrecedes(name)
        }
    }

    /// The first position in a user's list of groups whose id is greater than `name`.
    func groupPosition(of user: Index<User>, behind name: [UInt8]) -> Int {
        firstPosition(in: registry.users[user].memberships.count) { position in
            let group = groupTable.memberships[registry.users[user].memberships[position]].group
            return name.lexicographicallyPrecedes(groupTable.groups[group].name)
        }
    }

    /// The first position in a group's list of members whose id is not less than `name`.
    private func memberPosition(in group: Index<Group>, notBefore name: Name) -> Int {
        firstPosition(in: groupTable.groups[group].memberships.count) { position in
            let user = groupTable.memberships[groupTable.groups[group].memberships[position]].user
            return !registry.users[user].name.lexicographicallyPrecedes(name)
        }
    }

    /// The first position in a group's list of members whose id is greater than `name`.
    func memberPosition(in group: Index<Group>, behind name: [UInt8]) -> Int {
        firstPosition(in: groupTable.groups[group].memberships.count) { position in
            let user = groupTable.memberships[groupTable.groups[group].memberships[position]].user
            return name.lexicographicallyPrecedes(registry.users[user].name)
        }
    }

    /// The first position for which `isThere` is true, in a list where it is true for all later
    /// ones.
    private func firstPosition(in count: Int, where isThere: (Int) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if isThere(middle) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    // MARK: - Messages

    /// Puts a message into the inboxes of a group's members, and into the offline queues of members
    /// without a session that receives it.
    mutating func enqueue(
        _ message: Index<Message>, group: Index<Group>, excluding excluded: Index<Session>?,
        tally: inout RoutingTally, in step: inout Step
    ) {
        enqueue(
            message, audience: groupTable.groups[group].audience, excluding: excluded,
            tally: &tally, in: &step
        )
        for position in 0..<groupTable.groups[group].waiting.count {
            let membership = groupTable.groups[group].waiting[position]
            enqueue(
                message, offlineQueueOf: groupTable.memberships[membership].user, tally: &tally,
                in: &step)
        }
    }

    /// Whether a member's messages from the group wait in the offline queue: no session receives
    /// the user's messages, and no MQTT session subscribes to the group's address.
    func isWaiting(_ membership: Index<Membership>) -> Bool {
        groupTable.memberships[membership].receiverCount == 0
            && !hasReceiver(groupTable.memberships[membership].user)
    }

    /// Updates, in all groups of a user, whether its messages wait offline. Call it when the user
    /// may have got its first session that receives its messages, or lost the last.
    mutating func updateWaiting(of user: Index<User>) {
        let hasReceiver = hasReceiver(user)
        workload.charge(registry.users[user].memberships.count / CoreLimits.looksPerWork)
        for index in registry.users[user].memberships {
            let receives = hasReceiver || groupTable.memberships[index].receiverCount > 0
            groupTable.setWaiting(index, !receives)
        }
    }

    /// Counts a member's session that began or ended a subscription to the address of a group.
    mutating func countReceiver(_ user: Index<User>, _ group: Index<Group>, isNew: Bool) {
        // The subscriptions of a user that left the group have been removed already.
        guard let membership = membership(of: user, in: group) else { return }
        groupTable.countReceiver(of: membership, isNew: isNew)
        groupTable.setWaiting(membership, isWaiting(membership))
    }

    /// Counts a new member's sessions that subscribe to the address of the group.
    private mutating func countReceivers(of membership: Index<Membership>) {
        let (group, user) = (
            groupTable.memberships[membership].group, groupTable.memberships[membership].user
        )
        guard
            let audience = audience(
                ofAddress: .group, groupTable.groups[group].name, app: groupTable.groups[group].app)
        else { return }
        var (count, lookCount) = (UInt32(0), 0)
        forEachSession(of: user) { session in
            lookCount += Int(sessions[session].filterCount)
            if subscription(of: session, audience: audience) != nil { count += 1 }
        }
        workload.charge(lookCount / CoreLimits.looksPerWork)
        groupTable.setReceiverCount(count, of: membership)
    }

    /// Counts the subscriptions to group addresses after a restore, each once.
    mutating func countRestoredReceivers() {
        for session in sessions.places where sessions.contains(session) {
            guard sessions[session].dialect.isMQTT else { continue }
            let user = sessions[session].user
            guard !registry.users[user].memberships.isEmpty else { continue }
            var next = sessions[session].firstSubscription
            while let index = next {
                if let group = addressedGroup(
                    by: routing.audiences[routing.subscriptions[index].audience].filter,
                    registry.users[user].app),
                    let membership = membership(of: user, in: group)
                {
                    groupTable.countReceiver(of: membership, isNew: true)
                }
                next = routing.subscriptions[index].next
            }
        }
    }

    // MARK: - Rows

    mutating func writeGroup(_ group: Index<Group>, permit: borrowing GrowthPermit) {
        commits.put(row(ofGroup: group), permit)
    }

    func row(ofGroup group: Index<Group>) -> RecordChange {
        Records.group(
            groupTable.groups[group], app: registry.apps[groupTable.groups[group].app].name,
            owner: Array(registry.users[groupTable.groups[group].owner].name))
    }

    /// The growth that a group's row must be admitted for, with this list and text.
    func growth(
        ofGroupOwnedBy owner: Index<User>, title: [UInt8], meta: [UInt8], allowed: [[UInt8]]?
    ) -> Int {
        let names =
            registry.apps[registry.users[owner].app].name.count
            + Array(registry.users[owner].name).count
        let list = (allowed ?? []).reduce(0) { $0 + 2 + $1.count }
        return RecordChange.pageByteCount(
            key: 8, value: names + title.count + meta.count + list + 48)
    }

    func growth(of group: Index<Group>, meta: [UInt8], allowed: [[UInt8]]?) -> Int {
        growth(
            ofGroupOwnedBy: groupTable.groups[group].owner, title: groupTable.groups[group].title,
            meta: meta,
            allowed: allowed)
    }

    func growth(ofGroup group: Index<Group>) -> Int {
        growth(
            of: group, meta: groupTable.groups[group].meta,
            allowed: groupTable.groups[group].allowed)
    }

    mutating func writeMember(
        _ user: Index<User>, of group: Index<Group>, permit: borrowing GrowthPermit
    ) {
        commits.put(
            Records.member(
                group: groupTable.groups[group].identifier, user: Array(registry.users[user].name),
                joinNumber: membership(of: user, in: group).map {
                    groupTable.memberships[$0].joinNumber
                } ?? 0),
            permit)
    }

    /// Writes the row of a member again, which is one byte longer if it is muted.
    func row(ofMember membership: Index<Membership>) -> RecordChange {
        let member = groupTable.memberships[membership]
        return Records.member(
            group: groupTable.groups[member.group].identifier,
            user: Array(registry.users[member.user].name), joinNumber: member.joinNumber,
            isMuted: member.isMuted)
    }

    func growth(ofMember user: Index<User>) -> Int {
        Records.member(
            group: 0, user: Array(registry.users[user].name), joinNumber: .max, isMuted: true
        ).pageByteCount
    }

    mutating func restoreGroup(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        let version = value.first.map { (2...3).contains($0) ? $0 : 1 } ?? 1
        var row = try RecordReader(value, version: version, table: .groups, key: key)
        let appName = try row.readString()
        let name = try row.readString()
        let title = try row.readString()
        let ownerName = try row.readString()
        guard key.count == 8, let app = app(named: appName),
            let owner = user(named: ownerName, app: app)
        else { throw .danglingRecord(.groups, key: key) }
        let creationKey = try row.read(UInt64.self)
        let isLimited = try row.read(UInt8.self) == 1
        var allowed: [[UInt8]] = []
        for _ in 0..<(try row.read(UInt16.self)) { allowed.append(try row.readString()) }
        let meta = try row.readString()
        var history = GroupHistory()
        if version > 1 {
            history.isKept = try row.read(UInt8.self) == 1
            history.shownCount = try row.read(UInt32.self)
        }
        let group = insertGroup(
            Group(
                identifier: RecordKey.readNumber(key), app: app, name: name, title: title,
                owner: owner, key: creationKey, allowed: isLimited ? allowed : nil,
                meta: meta, audience: routing.makeAudience()))
        groupTable.replace(group, history: history)
    }

    mutating func restoreMember(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        let version = value.first.map { (2...3).contains($0) ? $0 : 1 } ?? 1
        var row = try RecordReader(value, version: version, table: .members, key: key)
        let joinNumber = version > 1 ? try row.read(UInt32.self) : 0
        let isMuted = version > 2 ? try row.read(UInt8.self) == 1 : false
        guard key.count > 8, let group = commits.restoration!.groups[RecordKey.readNumber(key)],
            let user = user(named: Array(key[8...]), app: groupTable.groups[group].app)
        else { throw .danglingRecord(.members, key: key) }
        addMember(user, to: group, joinNumber: joinNumber)
        if isMuted, let membership = membership(of: user, in: group) {
            groupTable.setMuted(true, of: membership)
        }
    }
}
