// The changes and queries of operators. Changes become durable with the batch whose number
// `pendingSequence` returns.

import Primitives

/// Summary of an app, for an operator.
public struct AppSummary: Hashable, Sendable {
    public var name: [UInt8]
    public var userCount: Int
    public var tokenCount: Int
    /// Its deletion has begun, and is not complete.
    public var isBeingDeleted: Bool
}

extension Broker {
    /// The number of the batch that makes the current changes durable.
    public var pendingSequence: UInt64 { commits.pendingSequence }

    /// Whether sends are refused because the store has no room.
    public var hasFullStore: Bool { commits.room.isFull }

    /// Why the store has no room, where it has none.
    public var storeLimit: LimitName { commits.room.limit }

    public func hasApp(_ name: [UInt8]) -> Bool { app(named: name) != nil }

    public func hasUser(_ name: [UInt8], app appName: [UInt8]) -> Bool {
        app(named: appName).flatMap { user(named: name, app: $0) } != nil
    }

    /// Whether an app has a password of this name.
    public func hasPassword(_ name: [UInt8], app: [UInt8]) -> Bool {
        self.app(named: app) != nil && registry.passwords.find(name, app: app) != nil
    }

    // Methods that make the store grow, or users, throw ``NoRoom`` if there is no room.

    /// Creates an app. Returns false if an app of this name exists, or is being deleted.
    ///
    /// - Parameters:
    ///   - keyDigest: of its first key, which has the name ``RegisteredKey/defaultName`` and the
    ///     role `operate`; nil for none.
    ///   - rights: the rights of its users whose credential has none.
    ///   - now: in Unix seconds, when the key is made.
    public mutating func addApp(
        _ name: [UInt8], keyDigest: Digest?, rights: Rights = .ordinary,
        unixSeconds now: UInt64 = 0
    ) throws(NoRoom) -> Bool {
        guard app(named: name) == nil, registry.appBeingDeleted(named: name) == nil else {
            return false
        }
        let key = keyDigest.map {
            RegisteredKey(
                name: RegisteredKey.defaultName, digest: $0, role: .operate, madeUnixSeconds: now)
        }
        let row = Records.app(name, keyDigest: nil, rights: rights)
        let keyRow = key.map { Records.appKey($0, app: name) }
        let growth = row.pageByteCount + (keyRow?.pageByteCount ?? 0)
        guard let permit = admitGrowth(of: growth) else { throw NoRoom() }
        let app = insertApp(name, rights: rights)
        commits.put(row, permit)
        if let key, let keyRow {
            registry.insert(key, app: app)
            commits.put(keyRow, permit)
        }
        return true
    }

    /// Replaces the rights of an app's users, including connected ones. Returns false if there is
    /// no such app.
    public mutating func setAppRights(
        _ name: [UInt8], rights: Rights, at moment: Moment, effects: inout Effects
    ) throws(NoRoom) -> Bool {
        var step = Step(at: moment, effects: effects)
        guard let app = app(named: name) else { return false }
        let old = row(ofApp: app)
        let row = Records.app(name, keyDigest: containedKeyDigest(of: app), rights: rights)
        let permit = admitGrowth(
            of: row.pageByteCount, replacing: old.pageByteCount, for: .upkeep)
        guard let permit else { throw NoRoom() }
        registry.setRights(rights, of: app)
        commits.put(row, permit)
        for access in live.accesses.places where live.accesses.contains(access) {
            let session = session(of: access)
            guard registry.users[sessions[session].user].app == app else { continue }
            // The rights of a gateway's sensors depend on the gateway's; they follow below.
            if case .gateway = live.accesses[access].source { continue }
            let new = ownRights(of: live.accesses[access].source) ?? rights
            guard live.change(new, of: access) else { continue }
            dropForbiddenSubscriptions(session, in: &step)
        }
        refreshSensors(of: nil, in: &step)
        return true
    }

    /// The rights that a credential contains; nil if it has those of the app.
    private func ownRights(of source: Access.Source) -> Rights? {
        switch source {
        case .token(let handle): registry.tokens[handle]?.rights
        case .verified(let identity): identity.rights
        case .appKey(let handle): registry.keys[handle]?.key.rights
        case .anonymous, .gateway: nil
        }
    }

    func row(ofApp app: Index<App>) -> RecordChange {
        Records.app(
            registry.apps[app].name, keyDigest: containedKeyDigest(of: app),
            rights: registry.apps[app].rights)
    }

    /// Throws unless there is room for ``addToken(_:)`` of all these tokens of an app.
    public mutating func checkRoom(
        for newTokens: [Token], ofApp name: [UInt8]
    ) throws(NoRoom) {
        guard let app = app(named: name) else { return }
        var (byteCount, newUsers) = (0, Set<[UInt8]>())
        for token in newTokens {
            byteCount += growth(ofToken: token, app: app)
            if user(named: token.user, app: app) == nil { newUsers.insert(token.user) }
        }
        try checkUsers(newUsers.count, app: app)
        guard hasRoom(for: byteCount) else { throw NoRoom() }
    }

    /// Throws, and counts the refusal, if so many new users would exceed a limit.
    mutating func checkUsers(_ newCount: Int, app: Index<App>) throws(NoRoom) {
        guard let limit = limit(ofNewUsers: newCount, app: app) else { return }
        counters.usersRefused += UInt64(newCount)
        throw NoRoom(limit: limit)
    }

    private func growth(ofToken token: Token, app: Index<App>) -> Int {
        Records.token(token).pageByteCount + growth(ofUser: token.user, app: app)
    }

    /// Adds a token, and its user if necessary. Returns false if its app is unknown or its
    /// identifier exists.
    public mutating func addToken(_ token: Token) throws(NoRoom) -> Bool {
        guard let app = app(named: token.app), !registry.tokens.contains(token.identifier) else {
            return false
        }
        try checkUsers(user(named: token.user, app: app) == nil ? 1 : 0, app: app)
        guard let permit = admitGrowth(of: growth(ofToken: token, app: app)) else {
            throw NoRoom()
        }
        let row = Records.token(token)
        registry.insert(token, of: knownUser(token.user, app: app, permit: permit))
        commits.put(row, permit)
        return true
    }

    /// Adds a user, so that messages can wait for it before its first login. Returns false if the
    /// user exists, and nil if the app does not.
    public mutating func addUser(
        _ name: [UInt8], app appName: [UInt8]
    ) throws(NoRoom) -> Bool? {
        guard let app = app(named: appName) else { return nil }
        if user(named: name, app: app) != nil { return false }
        try checkUsers(1, app: app)
        guard let permit = admitGrowth(of: growth(ofUser: name, app: app)) else {
            throw NoRoom()
        }
        _ = makeUser(name, app: app, permit: permit)
        return true
    }

    /// Current counts. The work grows with the apps, not with the sessions: a scrape of the
    /// metrics does not delay messages.
    public func gauges() -> Gauges {
        var sharedSubscriptions = 0
        var retainedBytes = 0
        for app in registry.apps.places where registry.apps.contains(app) {
            sharedSubscriptions += registry.apps[app].shareCount
            retainedBytes += retainedByteCount(ofApp: app)
        }
        return Gauges(
            apps: registry.appCount, users: registry.userCount, sessions: sessions.count,
            groups: groupTable.groups.count, wills: willTable.wills.count,
            connections: live.connections.count, subscriptions: routing.filterCount,
            sharedSubscriptions: sharedSubscriptions, retainedMessages: retention.retained.count,
            retainedBytes: retainedBytes, tokens: registry.tokens.count,
            sendKeys: sendKeys.count, trackedSends: tracking.count,
            wakeUsers: wakes.count, heldMessages: moderation.count,
            conversations: conversationTable.conversations.count,
            keptTopics: conversationTable.topicCount,
            keptMessages: conversationTable.keptCount,
            messagesInMemory: memory.messages.count, spareBytes: memory.spareByteCount,
            memoryQueueBytes: memory.memoryQueueByteCount,
            queuedMessages: queues.queuedCount, queuedBytes: queues.queuedByteCount,
            isStoreFull: commits.room.isFull,
            storeUsedBytes: commits.room.usedByteCount,
            storeLimitBytes: commits.room.limitByteCount)
    }

    /// All apps, in no order.
    public func appSummaries() -> [AppSummary] {
        var summaries: [AppSummary] = []
        for app in registry.apps.places
        where registry.apps.contains(app) && !registry.apps[app].isDeleted {
            summaries.append(summary(of: app))
        }
        return summaries
    }

    /// What is left of an app whose deletion has begun; nil for others.
    public func deletedApp(named name: [UInt8]) -> AppSummary? {
        guard let app = registry.appBeingDeleted(named: name) else { return nil }
        return summary(of: app)
    }

    private func summary(of app: Index<App>) -> AppSummary {
        AppSummary(
            name: registry.apps[app].name, userCount: registry.apps[app].users.count,
            tokenCount: registry.apps[app].tokens.count,
            isBeingDeleted: registry.apps[app].isBeingDeleted)
    }
}
