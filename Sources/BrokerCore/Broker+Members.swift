// Who is in which group, kept consistent from all sides: the group's list, the user's list, the
// audience of sessions, and the members whose mail has to wait.

import Primitives

extension Broker {
    // MARK: - Groups

    mutating func insertGroup(_ new: consuming Group) -> Index<Group> {
        let (app, name, identifier) = (new.app, new.name, new.identifier)
        apps[app].groupByteCount += new.byteCount
        let group = groups.insert(new).index
        name.withUnsafeBytes { apps[app].groups.insert(group, for: $0) }
        restoration?.groups[identifier] = group
        return group
    }

    /// Forgets a group without members.
    mutating func removeGroup(_ group: Index<Group>) {
        precondition(groups[group].memberships.isEmpty, "the end of a group with members")
        let app = groups[group].app
        apps[app].groupByteCount -= groups[group].byteCount
        groups[group].name.withUnsafeBytes { name in _ = apps[app].groups.remove(name) }
        audiences.remove(groups[group].audience)
        groups.remove(group)
    }

    /// Gives a group another text or list.
    mutating func replace(_ group: Index<Group>, meta: [UInt8], allowed: [[UInt8]]?) {
        let app = groups[group].app
        apps[app].groupByteCount -= groups[group].byteCount
        groups[group].replace(meta: meta, allowed: allowed)
        apps[app].groupByteCount += groups[group].byteCount
    }

    /// The limit that keeps a list or a text of an owner's groups from growing to so many bytes;
    /// nil where none does. What gets shorter always may.
    mutating func groupLimitReached(
        by owner: Index<User>, growingTo byteCount: Int, from old: Int
    ) -> LimitName? {
        guard byteCount > old else { return nil }
        let added = byteCount - old
        if apps[users[owner].app].groupByteCount + added > limits.groupBytesPerAppMaximum {
            return .groupBytesOfApp
        }
        work += users[owner].memberships.count / CoreLimits.looksPerWork
        var own = added
        for membership in users[owner].memberships {
            let group = memberships[membership].group
            if groups[group].owner == owner { own += groups[group].byteCount }
        }
        return own > limits.groupBytesPerUserMaximum ? .groupBytesOfUser : nil
    }

    // MARK: - Members

    /// A user's place in a group; nil for one who is not in it.
    func membership(of user: Index<User>, in group: Index<Group>) -> Index<Membership>? {
        let position = groupPosition(of: user, notBefore: groups[group].name)
        guard position < users[user].memberships.count else { return nil }
        let membership = users[user].memberships[position]
        return memberships[membership].group == group ? membership : nil
    }

    mutating func addMember(_ user: Index<User>, to group: Index<Group>) {
        let place = memberPosition(in: group, notBefore: users[user].name)
        let ownPlace = groupPosition(of: user, notBefore: groups[group].name)
        let membership = memberships.insert(
            Membership(group: group, user: user)
        ).index
        groups[group].memberships.insert(membership, at: place)
        users[user].memberships.insert(membership, at: ownPlace)
        var next = users[user].firstSession
        while let session = next {
            if receivesGroups(session) {
                join(session: session, audience: groups[group].audience, grade: .once)
            }
            next = sessions[session].nextOfUser
        }
        // While a store is read back, all are counted at the end.
        if restoration == nil { countHearers(of: membership) }
        setWaiting(membership, isWaiting(membership))
    }

    mutating func removeMember(_ index: Index<Membership>) {
        setWaiting(index, false)
        let (group, user) = (memberships[index].group, memberships[index].user)
        var next = users[user].firstSession
        while let session = next {
            leave(audience: groups[group].audience, session)
            next = sessions[session].nextOfUser
        }
        groups[group].memberships.remove(
            at: memberPosition(in: group, notBefore: users[user].name))
        users[user].memberships.remove(
            at: groupPosition(of: user, notBefore: groups[group].name))
        memberships.remove(index)
        forgetSubscriptions(of: user, to: group)
    }

    /// Who is not a member any more hears no more of the group in MQTT either.
    private mutating func forgetSubscriptions(of user: Index<User>, to group: Index<Group>) {
        var next = users[user].firstSession
        // With its last subscription the audience itself ends.
        while let session = next,
            let audience = audience(
                ofAddress: .group, groups[group].name, app: groups[group].app)
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
            next = subscriptions[index].next
            if subscriptions[index].audience == audience { leave(subscription: index) }
        }
    }

    /// An MRT session hears its user's groups without asking.
    private func receivesGroups(_ session: Index<Session>) -> Bool {
        sessions[session].dialect == .mrt
    }

    /// A new session joins the audiences of its user's groups.
    mutating func joinGroupAudiences(_ session: Index<Session>) {
        guard receivesGroups(session) else { return }
        for membership in users[sessions[session].user].memberships {
            join(
                session: session, audience: groups[memberships[membership].group].audience,
                grade: .once)
        }
    }

    // MARK: - Order

    /// The first place of a user's list of groups whose id does not come before `name`.
    private func groupPosition(of user: Index<User>, notBefore name: [UInt8]) -> Int {
        firstPosition(in: users[user].memberships.count) { position in
            let group = memberships[users[user].memberships[position]].group
            return !groups[group].name.lexicographicallyPrecedes(name)
        }
    }

    /// The first place of a user's list of groups whose id comes behind `name`.
    func groupPosition(of user: Index<User>, behind name: [UInt8]) -> Int {
        firstPosition(in: users[user].memberships.count) { position in
            let group = memberships[users[user].memberships[position]].group
            return name.lexicographicallyPrecedes(groups[group].name)
        }
    }

    /// The first place of a group's list of members whose id does not come before `name`.
    private func memberPosition(in group: Index<Group>, notBefore name: Name) -> Int {
        firstPosition(in: groups[group].memberships.count) { position in
            let user = memberships[groups[group].memberships[position]].user
            return !users[user].name.lexicographicallyPrecedes(name)
        }
    }

    /// The first place of a group's list of members whose id comes behind `name`.
    func memberPosition(in group: Index<Group>, behind name: [UInt8]) -> Int {
        firstPosition(in: groups[group].memberships.count) { position in
            let user = memberships[groups[group].memberships[position]].user
            return name.lexicographicallyPrecedes(users[user].name)
        }
    }

    /// The first position that `isThere` says yes to, in a list where all behind it would too.
    private func firstPosition(in count: Int, where isThere: (Int) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if isThere(middle) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    // MARK: - Mail

    /// Into the inboxes of a group's members, and the offline queues of those whom no session receives.
    mutating func enqueue(
        _ message: Index<Message>, group: Index<Group>, excluding excluded: Index<Session>?,
        tally: inout RoutingTally, in step: inout Step
    ) {
        enqueue(
            message, audience: groups[group].audience, excluding: excluded, tally: &tally, in: &step
        )
        for position in 0..<groups[group].waiting.count {
            let membership = groups[group].waiting[position]
            enqueue(message, offlineQueueOf: memberships[membership].user, tally: &tally, in: &step)
        }
    }

    /// Whether what is sent to a group waits in a member's offline queue, since no session receives it:
    /// neither the user's mail at all, nor, in MQTT, just what the group is sent.
    func isWaiting(_ membership: Index<Membership>) -> Bool {
        memberships[membership].hearerCount == 0 && !hasListener(memberships[membership].user)
    }

    /// Notes in all groups of a user whether its mail has to wait: call whenever it may have got
    /// its first session that hears all of it, or lost the last.
    mutating func updateWaiting(of user: Index<User>) {
        let isListening = hasListener(user)
        work += users[user].memberships.count / CoreLimits.looksPerWork
        for index in users[user].memberships {
            setWaiting(index, !isListening && memberships[index].hearerCount == 0)
        }
    }

    /// A session of a member subscribes to the address of a group, or does not any more.
    mutating func countHearer(_ user: Index<User>, _ group: Index<Group>, isNew: Bool) {
        // Whoever is not a member any more has been forgotten.
        guard let membership = membership(of: user, in: group) else { return }
        if isNew {
            memberships[membership].hearerCount += 1
        } else {
            memberships[membership].hearerCount -= 1
        }
        setWaiting(membership, isWaiting(membership))
    }

    /// Counts the sessions of a new member that subscribe to the address of the group.
    private mutating func countHearers(of membership: Index<Membership>) {
        let (group, user) = (memberships[membership].group, memberships[membership].user)
        guard
            let audience = audience(
                ofAddress: .group, groups[group].name, app: groups[group].app)
        else { return }
        var (count, lookCount) = (UInt32(0), 0)
        forEachSession(of: user) { session in
            lookCount += Int(sessions[session].filterCount)
            if subscription(of: session, audience: audience) != nil { count += 1 }
        }
        work += lookCount / CoreLimits.looksPerWork
        memberships[membership].hearerCount = count
    }

    /// What was read back says who hears which groups: counts all of it, each subscription once.
    mutating func countRestoredHearers() {
        for session in sessions.places where sessions.contains(session) {
            guard sessions[session].dialect.isMQTT else { continue }
            let user = sessions[session].user
            guard !users[user].memberships.isEmpty else { continue }
            var next = sessions[session].firstSubscription
            while let index = next {
                if let group = addressedGroup(
                    by: audiences[subscriptions[index].audience].filter, users[user].app),
                    let membership = membership(of: user, in: group)
                {
                    memberships[membership].hearerCount += 1
                }
                next = subscriptions[index].next
            }
        }
    }

    private mutating func setWaiting(_ index: Index<Membership>, _ isWaiting: Bool) {
        let group = memberships[index].group
        let position = memberships[index].waitingPosition
        guard (position != Membership.notWaiting) != isWaiting else { return }
        if isWaiting {
            memberships[index].waitingPosition = UInt32(groups[group].waiting.count)
            groups[group].waiting.append(index)
        } else {
            let last = groups[group].waiting.removeLast()
            if last != index {
                groups[group].waiting[Int(position)] = last
                memberships[last].waitingPosition = position
            }
            memberships[index].waitingPosition = Membership.notWaiting
        }
    }

    // MARK: - Rows

    mutating func writeGroup(_ group: Index<Group>, permit: borrowing GrowthPermit) {
        let row = Records.group(
            groups[group], app: apps[groups[group].app].name,
            owner: Array(users[groups[group].owner].name))
        pendingBatch.put(row, permit)
    }

    /// What a group's row has to be admitted for if its list and its text are these.
    func growth(
        ofGroupOwnedBy owner: Index<User>, title: [UInt8], meta: [UInt8], allowed: [[UInt8]]?
    ) -> Int {
        let names = apps[users[owner].app].name.count + Array(users[owner].name).count
        let list = (allowed ?? []).reduce(0) { $0 + 2 + $1.count }
        return RecordChange.pageByteCount(
            key: 8, value: names + title.count + meta.count + list + 48)
    }

    func growth(of group: Index<Group>, meta: [UInt8], allowed: [[UInt8]]?) -> Int {
        growth(
            ofGroupOwnedBy: groups[group].owner, title: groups[group].title, meta: meta,
            allowed: allowed)
    }

    func growth(ofGroup group: Index<Group>) -> Int {
        growth(of: group, meta: groups[group].meta, allowed: groups[group].allowed)
    }

    mutating func writeMember(
        _ user: Index<User>, of group: Index<Group>, permit: borrowing GrowthPermit
    ) {
        pendingBatch.put(
            Records.member(group: groups[group].identifier, user: Array(users[user].name)),
            permit)
    }

    func growth(ofMember user: Index<User>) -> Int {
        Records.member(group: 0, user: Array(users[user].name)).pageByteCount
    }

    mutating func restoreGroup(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        var row = try RecordReader(value, version: 1, table: .groups, key: key)
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
        _ = insertGroup(
            Group(
                identifier: RecordKey.readNumber(key), app: app, name: name, title: title,
                owner: owner, key: creationKey, allowed: isLimited ? allowed : nil,
                meta: try row.readString(), audience: audiences.insert(Audience()).index))
    }

    mutating func restoreMember(_ key: [UInt8]) throws(RestoreError) {
        guard key.count > 8, let group = restoration!.groups[RecordKey.readNumber(key)],
            let user = user(named: Array(key[8...]), app: groups[group].app)
        else { throw .danglingRecord(.members, key: key) }
        addMember(user, to: group)
    }
}
