// What an operator does to the broker, and what the operator may see. Changes become durable with
// the batch whose number `pendingSequence` gives at the time.

import Primitives

/// An app as an operator sees it.
public struct AppSummary: Hashable, Sendable {
    public var name: [UInt8]
    public var userCount: Int
    public var tokenCount: Int
}

extension Broker {
    /// The batch that changes made now become durable with.
    public var pendingSequence: UInt64 { commits.pendingSequence }

    /// Whether sends are refused because the store has no room for them.
    public var hasFullStore: Bool { commits.room.isFull }

    public func hasApp(_ name: [UInt8]) -> Bool { app(named: name) != nil }

    // What makes the store grow throws ``NoRoom`` where there is none.

    /// Makes an app; false when there is one of this name.
    ///
    /// - Parameter rights: what its users may do unless their credential says otherwise.
    public mutating func addApp(
        _ name: [UInt8], keyDigest: Digest?, rights: Rights = .ordinary
    ) throws(NoRoom) -> Bool {
        guard app(named: name) == nil else { return false }
        let row = Records.app(name, keyDigest: keyDigest, rights: rights)
        guard let permit = admitGrowth(of: row.pageByteCount) else { throw NoRoom() }
        insertApp(name, keyDigest: keyDigest, rights: rights)
        commits.put(row, permit)
        return true
    }

    /// Replaces an app's key, so that the old one lets nobody in any more; false when there is no
    /// such app.
    public mutating func setAppKey(_ name: [UInt8], keyDigest: Digest?) -> Bool {
        guard let app = app(named: name) else { return false }
        registry.setKey(keyDigest, of: app)
        // A row without a key has room for one.
        commits.renew(row(ofApp: app))
        return true
    }

    /// Replaces the rights of an app's users, connected ones included; false when there is no such
    /// app.
    public mutating func setAppRights(
        _ name: [UInt8], rights: Rights, at moment: Moment, effects: inout Effects
    ) throws(NoRoom) -> Bool {
        var step = Step(at: moment, effects: effects)
        guard let app = app(named: name) else { return false }
        let old = row(ofApp: app)
        let row = Records.app(name, keyDigest: registry.apps[app].keyDigest, rights: rights)
        let permit = admitGrowth(
            of: row.pageByteCount, replacing: old.pageByteCount, for: .upkeep)
        guard let permit else { throw NoRoom() }
        registry.setRights(rights, of: app)
        commits.put(row, permit)
        for access in live.accesses.places where live.accesses.contains(access) {
            let session = session(of: access)
            guard registry.users[sessions[session].user].app == app else { continue }
            // What a gateway's sensors may do follows from what the gateway may do, below.
            if case .gateway = live.accesses[access].source { continue }
            let new = ownRights(of: live.accesses[access].source) ?? rights
            guard live.change(new, of: access) else { continue }
            dropForbiddenSubscriptions(session, in: &step)
        }
        refreshSensors(of: nil, in: &step)
        return true
    }

    /// The rights that a credential itself names.
    private func ownRights(of source: Access.Source) -> Rights? {
        switch source {
        case .token(let handle): registry.tokens[handle]?.rights
        case .verified(let identity): identity.rights
        case .appKey, .anonymous, .gateway: nil
        }
    }

    private func row(ofApp app: Index<App>) -> RecordChange {
        Records.app(
            registry.apps[app].name, keyDigest: registry.apps[app].keyDigest,
            rights: registry.apps[app].rights)
    }

    /// Whether ``addToken(_:)`` would find room for all of these.
    public func hasRoom(for newTokens: [Token]) -> Bool {
        var byteCount = 0
        for token in newTokens {
            guard let app = app(named: token.app) else { continue }
            byteCount += growth(ofToken: token, app: app)
        }
        return hasRoom(for: byteCount)
    }

    private func growth(ofToken token: Token, app: Index<App>) -> Int {
        Records.token(token).pageByteCount + growth(ofUser: token.user, app: app)
    }

    /// Makes a token known, and its user with it; false when its app is unknown or its identifier
    /// is taken.
    public mutating func addToken(_ token: Token) throws(NoRoom) -> Bool {
        guard let app = app(named: token.app), !registry.tokens.contains(token.identifier) else {
            return false
        }
        guard let permit = admitGrowth(of: growth(ofToken: token, app: app)) else {
            throw NoRoom()
        }
        let row = Records.token(token)
        registry.insert(token)
        commits.put(row, permit)
        _ = knownUser(token.user, app: app, permit: permit)
        return true
    }

    /// Registers a user, so that messages wait for it before its first login; false when it is
    /// known already, nil when the app is not.
    public mutating func addUser(
        _ name: [UInt8], app appName: [UInt8]
    ) throws(NoRoom) -> Bool? {
        guard let app = app(named: appName) else { return nil }
        if user(named: name, app: app) != nil { return false }
        guard let permit = admitGrowth(of: growth(ofUser: name, app: app)) else {
            throw NoRoom()
        }
        _ = makeUser(name, app: app, permit: permit)
        return true
    }

    /// What there is at the moment. Walks over all sessions: for statistics, not for every message.
    public func gauges() -> Gauges {
        var queuedMessages: UInt64 = 0
        var queuedBytes: UInt64 = 0
        var subscriptionCount = 0
        for index in sessions.places where sessions.contains(index) {
            queuedMessages += UInt64(sessions[index].inbox.count)
            queuedBytes += sessions[index].inbox.byteCount
            subscriptionCount += Int(sessions[index].filterCount)
        }
        for index in queues.offlineQueues.places where queues.offlineQueues.contains(index) {
            queuedMessages += UInt64(queues.offlineQueues[index].count)
            queuedBytes += queues.offlineQueues[index].byteCount
        }
        for index in queues.leftovers.places where queues.leftovers.contains(index) {
            queuedMessages += queues.leftovers[index].count
            queuedBytes += queues.leftovers[index].byteCount
        }
        var sharedSubscriptions = 0
        var retainedBytes = 0
        for app in registry.apps.places where registry.apps.contains(app) {
            sharedSubscriptions += registry.apps[app].shareCount
            retainedBytes += retainedByteCount(ofApp: app)
        }
        return Gauges(
            apps: registry.apps.count, users: registry.users.count, sessions: sessions.count,
            groups: groupTable.groups.count, wills: willTable.wills.count,
            connections: live.connections.count, subscriptions: subscriptionCount,
            sharedSubscriptions: sharedSubscriptions, retainedMessages: retention.retained.count,
            retainedBytes: retainedBytes, tokens: registry.tokens.count,
            messagesInMemory: memory.messages.count, spareBytes: memory.spareByteCount,
            memoryQueueBytes: memory.memoryQueueByteCount, queuedMessages: queuedMessages,
            queuedBytes: queuedBytes, isStoreFull: commits.room.isFull,
            storeUsedBytes: commits.room.usedByteCount,
            storeLimitBytes: commits.room.limitByteCount)
    }

    /// All apps, in no particular order.
    public func appSummaries() -> [AppSummary] {
        var summaries: [AppSummary] = []
        for app in registry.apps.places where registry.apps.contains(app) {
            summaries.append(
                AppSummary(
                    name: registry.apps[app].name, userCount: registry.apps[app].users.count,
                    tokenCount: registry.tokens.count(ofApp: registry.apps[app].name)))
        }
        return summaries
    }
}
