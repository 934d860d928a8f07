// What an operator does to the broker, and what the operator may see. Changes become durable with
// the batch whose number `gatheringSequence` gives at the time.

import Primitives

/// An app as an operator sees it.
public struct AppSummary: Hashable, Sendable {
    public var name: [UInt8]
    public var userCount: Int
    public var tokenCount: Int
}

extension Broker {
    /// The batch that changes made now become durable with.
    public var gatheringSequence: UInt64 { gathering.sequence }

    /// Whether sends are refused because the store has no room for them.
    public var hasFullStore: Bool { isStoreFull }

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
        gathering.put(row, permit)
        return true
    }

    /// Replaces an app's key, so that the old one lets nobody in any more; false when there is no
    /// such app.
    public mutating func setAppKey(_ name: [UInt8], keyDigest: Digest?) -> Bool {
        guard let app = app(named: name) else { return false }
        apps[app].keyDigest = keyDigest
        // A row without a key has room for one.
        gathering.renew(row(ofApp: app))
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
        let row = Records.app(name, keyDigest: apps[app].keyDigest, rights: rights)
        let permit = admitGrowth(
            of: row.pageByteCount, replacing: old.pageByteCount, for: .upkeep)
        guard let permit else { throw NoRoom() }
        apps[app].rights = rights
        gathering.put(row, permit)
        for access in accesses.places where accesses.contains(access) {
            let session = session(of: access)
            guard users[sessions[session].user].app == app else { continue }
            // What a gateway's sensors may do follows from what the gateway may do, below.
            if case .gateway = accesses[access].source { continue }
            let new = ownRights(of: accesses[access].source) ?? rights
            if new == accesses[access].rights { continue }
            accesses[access].rights = new
            dropForbiddenSubscriptions(session, in: &step)
        }
        refreshSensors(of: nil, in: &step)
        return true
    }

    /// The rights that a credential itself names.
    private func ownRights(of source: Access.Source) -> Rights? {
        switch source {
        case .token(let handle): tokens[handle]?.rights
        case .verified(let identity): identity.rights
        case .appKey, .anonymous, .gateway: nil
        }
    }

    private func row(ofApp app: Index<App>) -> RecordChange {
        Records.app(apps[app].name, keyDigest: apps[app].keyDigest, rights: apps[app].rights)
    }

    /// Whether ``addToken(_:)`` would find room for all of these.
    public func hasRoom(for tokens: [Token]) -> Bool {
        var byteCount = 0
        for token in tokens {
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
        guard let app = app(named: token.app), !tokens.contains(token.identifier) else {
            return false
        }
        guard let permit = admitGrowth(of: growth(ofToken: token, app: app)) else {
            throw NoRoom()
        }
        let row = Records.token(token)
        tokens.insert(token)
        gathering.put(row, permit)
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
        var subscriptions = 0
        for index in sessions.places where sessions.contains(index) {
            queuedMessages += UInt64(sessions[index].inbox.count)
            queuedBytes += sessions[index].inbox.byteCount
            subscriptions += Int(sessions[index].filterCount)
        }
        for index in mailboxes.places where mailboxes.contains(index) {
            queuedMessages += UInt64(mailboxes[index].count)
            queuedBytes += mailboxes[index].byteCount
        }
        for index in leftovers.places where leftovers.contains(index) {
            queuedMessages += leftovers[index].count
            queuedBytes += leftovers[index].byteCount
        }
        var sharedSubscriptions = 0
        var retainedBytes = 0
        for app in apps.places where apps.contains(app) {
            sharedSubscriptions += apps[app].shareCount
            retainedBytes += retainedByteCount(ofApp: app)
        }
        return Gauges(
            apps: apps.count, users: users.count, sessions: sessions.count,
            groups: groups.count, wills: wills.count,
            connections: connections.count, subscriptions: subscriptions,
            sharedSubscriptions: sharedSubscriptions, retainedMessages: retained.count,
            retainedBytes: retainedBytes, tokens: tokens.count,
            messagesInMemory: messages.count, spareBytes: blocks.byteCount,
            memoryQueueBytes: memoryQueueByteCount, queuedMessages: queuedMessages,
            queuedBytes: queuedBytes, isStoreFull: isStoreFull, storeUsedBytes: storeUsedBytes,
            storeLimitBytes: storeLimitBytes)
    }

    /// All apps, in no particular order.
    public func appSummaries() -> [AppSummary] {
        var summaries: [AppSummary] = []
        for app in apps.places where apps.contains(app) {
            summaries.append(
                AppSummary(
                    name: apps[app].name, userCount: apps[app].users.count,
                    tokenCount: tokens.count(ofApp: apps[app].name)))
        }
        return summaries
    }
}
