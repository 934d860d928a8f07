// The restore: reads the rows and the sums of queues from the store into sessions, users and
// tokens, before the first event.

import BrokerTerms
import Primitives

/// State that exists only during the restore.
struct Restoration {
    /// Sessions and groups by their durable names, which other rows contain.
    var sessions: [UInt64: Index<Session>] = [:]
    var groups: [UInt64: Index<Group>] = [:]
    /// Sessions that were connected when the broker ended.
    var returningSessions: Set<Index<Session>> = []
    /// Users that were deleted and that rows still name, by the app and the name.
    var deletedUsers: [[UInt8]: Index<User>] = [:]
    /// Rows that belong to nothing; they are removed.
    var strays: [(table: RecordTable, key: [UInt8])] = []
    /// The identity of the store when the rows were written; nil in a new store.
    var identity: StoreIdentity?
    /// The first invalid row.
    var failure: RestoreError?
    /// The rows are only examined, and no broker starts with them.
    var isExamination = false
    var examination = RestoreExamination()
}

/// A store passes its contents to a broker: give the broker to the store's restore, then call
/// ``finishRestoring(_:newEpochSeed:at:)``.
extension Broker: StoreVisitor {
    public mutating func visitRecord(
        table: RecordTable, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer
    ) {
        precondition(commits.restoration != nil, "a row of \(table) after the start")
        guard commits.restoration!.failure == nil else { return }
        do throws(RestoreError) {
            try restore(table: table, key: Array(key), value: Array(value))
        } catch {
            commits.fail(error)
        }
    }

    public mutating func visitQueue(_ outline: QueueOutline) {
        precondition(commits.restoration != nil, "queue \(outline.tally.queue.raw) after the start")
        let queue = outline.tally.queue
        switch owner(of: queue) {
        case .session(let session)?:
            sessions[session].inbox.restore(outline.tally, lastNumber: outline.lastNumber)
            queues.countIn(outline.tally.count, byteCount: outline.tally.byteCount)
        case .offlineQueue(let user)?:
            queues.restore(outline, ofOfflineQueue: offlineQueueIndex(of: user))
        case .leftover(let leftover)?:
            queues.restore(outline.tally, of: leftover)
        case .conversation(let conversation)?:
            conversationTable.restore(outline, of: conversation)
        case .inherited, nil:
            // The queue has no owner, because its row is lost: queues whose deletion is under way
            // are not visited.
            commits.noteRestored(ownerless: outline.tally)
            commits.delete(queue)
        }
    }

    /// Ends the restore. The broker accepts events from then on.
    ///
    /// - Parameters:
    ///   - state: what the store reported besides rows and queues.
    ///   - newEpochSeed: an unpredictable number. If the store is a restored backup, devices may
    ///     have numbers that it has not assigned. Every session gets a new epoch, derived from this
    ///     number, and its device resumes at 0.
    /// - Throws: for an invalid row. The broker must not be used then.
    public mutating func finishRestoring(
        _ state: RestoredState, newEpochSeed: UInt64, at moment: Moment
    ) throws(RestoreError) {
        guard let restored = commits.restoration else {
            preconditionFailure("restored twice, then to message \(state.nextMessage.raw)")
        }
        if let failure = restored.failure { throw failure }
        commits.endRestoration()
        commits.identifiers.restore(nextMessageIdentifier: state.nextMessage.raw)
        commits.room.restore(state)
        for tally in state.damaged { counters.damagedEntries += tally.count }
        if restored.identity != state.identity {
            commits.renew(Records.identity(state.identity))
        }
        for (table, key) in restored.strays {
            counters.rowsRepaired += 1
            commits.remove(table, key: key)
        }
        let isBackup = restored.identity != nil && restored.identity != state.identity
        for session in sessions.places where sessions.contains(session) {
            if isBackup { takeForBackup(session, seed: newEpochSeed) }
            resumeExpiry(session, at: moment)
        }
        countRestoredReceivers()
        sendKeys.endRestoration()
        if !tracking.isEmpty { resumeTracking(at: moment) }
        if !wakes.isEmpty { resumeWaking(at: moment) }
        for user in registry.users.places where registry.users.contains(user) {
            updateWaiting(of: user)
        }
        for index in queues.leftovers.places where queues.leftovers.contains(index) {
            loadLeftover(index)
        }
        moveContainedKeys()
        scheduleRestoredWills(returning: restored.returningSessions, at: moment)
        scheduleHousekeeping(at: moment)
    }

    /// Marks a session of a restored backup, which does not contain what was received and sent
    /// after it was made. The receiver learns it at once by the new epoch. The sender learns it at
    /// its next login, so the session's row keeps the mark until then. An epoch is never 0.
    private mutating func takeForBackup(_ session: Index<Session>, seed: UInt64) {
        sessions[session].isFromBackup = !sessions[session].dialect.isMQTT
        let identifier = sessions[session].identifier
        sessions[session].epoch = max(
            SplitMix64.mixed(seed &+ identifier &* SplitMix64.increment), 1)
        markDirty(session, .session, isUrgent: true)
        forgetUnreleasedSends(of: session)
    }

    /// Continues the expiry. A session that was connected when the broker ended is without a
    /// connection from now on; any other one since its disconnection, including the downtime.
    private mutating func resumeExpiry(_ session: Index<Session>, at moment: Moment) {
        if sessions[session].disconnected > moment.instant {
            sessions[session].disconnected = moment.instant
            sessions[session].isLossAssumed = true
            markDirty(session, .session, isUrgent: false)
        }
        startExpiry(session)
    }

    /// A user that was deleted, and that the row of a send still names.
    mutating func deletedUser(named name: [UInt8], app: Index<App>) -> Index<User> {
        let key = RecordKey.name(app: registry.apps[app].name, name)
        if let known = commits.restoration?.deletedUsers[key] { return known }
        let user = registry.insertDeletedUser(name, app: app)
        commits.noteRestored(deletedUser: user, key: key)
        return user
    }

    // MARK: - Rows

    /// Restores one row. Tables come in the order of their raw values, so that the rows that a row
    /// refers to come first.
    private mutating func restore(
        table: RecordTable, key: [UInt8], value: [UInt8]
    ) throws(RestoreError) {
        switch table {
        case .counters:
            try restoreCounter(key, value)
        case .apps:
            try restoreApp(key, value)
        case .users:
            try restoreUser(key, value)
        case .tokens:
            try restoreToken(key, value)
        case .sessions:
            try restoreSession(key, value)
        case .subscriptions:
            try restoreSubscription(key, value)
        case .outboxes:
            try restoreOutbox(key, value)
        case .groups:
            try restoreGroup(key, value)
        case .members:
            try restoreMember(key, value)
        case .wills:
            try restoreWill(key, value)
        case .retained:
            try restoreRetained(key, value)
        case .leftovers:
            try restoreLeftover(key, value)
        case .sendKeys:
            try restoreSendKey(key, value)
        case .appKeys:
            try restoreAppKey(key, value)
        case .conversations:
            try restoreConversation(key, value)
        case .readers:
            try restoreReader(key, value)
        case .trackedSends:
            try restoreTracked(key, value)
        case .passwords:
            try restorePassword(key, value)
        case .wakeTargets:
            try restoreWakeTarget(key, value)
        case .wakeTemplates:
            try restoreWakeTemplate(key, value)
        }
    }

    private mutating func restoreCounter(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        var row = try RecordReader(value, version: 1, table: .counters, key: key)
        switch key.first.flatMap(CounterName.init) {
        case .identifiers:
            commits.identifiers.restore(identifiersReservedThrough: try row.readCounter())
        case .storeIdentity:
            commits.noteRestored(
                identity: StoreIdentity(
                    high: try row.read(UInt64.self), low: try row.read(UInt64.self)))
        case nil:
            throw .unreadableRecord(.counters, key: key)
        }
    }

    private mutating func restoreUser(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        guard let appCount = key.first, key.count > 1 + Int(appCount),
            let app = app(named: Array(key[1..<1 + Int(appCount)]))
        else { throw .danglingRecord(.users, key: key) }
        let name = Array(key[(1 + Int(appCount))...])
        var row = try RecordReader(value, version: 1, table: .users, key: key)
        let offlineQueue = try row.read(UInt64.self)
        let user = insertUser(name, app: app)
        guard offlineQueue != 0 else { return }
        let inbox = Inbox(queue: QueueID(raw: offlineQueue))
        insertOfflineQueue(inbox, of: user)
        // Rows of earlier versions, and of queues of which nothing was sent, do not tell it.
        if !row.isAtEnd { queues.note(sentThrough: try row.read(UInt64.self), in: inbox) }
    }

    private mutating func restoreToken(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        let token = try Records.readToken(key: key, value: value)
        // Every version has written both in one batch, and a user is deleted after its tokens.
        guard let app = app(named: token.app), let user = user(named: token.user, app: app) else {
            throw .danglingRecord(.tokens, key: key)
        }
        registry.insert(token, of: user)
    }

    private mutating func restoreSession(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        // Rows of version 1 contain neither the mark of a backup nor `receivesSince`, and those of
        // version 2 not whether the session pulls.
        let version: UInt8 = value.first == 3 ? 3 : value.first == 1 ? 1 : 2
        var row = try RecordReader(value, version: version, table: .sessions, key: key)
        let appName = try row.readString()
        let userName = try row.readString()
        guard key.count == 8, let app = app(named: appName),
            let user = self.user(named: userName, app: app)
        else { throw .danglingRecord(.sessions, key: key) }
        let device = try row.readString()
        let identifier = RecordKey.readNumber(key)
        guard let dialect = SessionDialect(rawValue: try row.read(UInt8.self)), identifier != 0
        else { throw .unreadableRecord(.sessions, key: key) }
        let epoch = try row.read(UInt64.self)
        var inbox = Inbox(queue: QueueID(raw: try row.read(UInt64.self)))
        let reserved = try row.readCounter()
        // Numbers up to the reservation may have been seen and are not used again.
        inbox.nextNumber = reserved + 1
        let expirySeconds = try row.read(UInt32.self)
        let session = insertSession(
            Session(
                identifier: identifier, user: user, device: Name(device), dialect: dialect,
                epoch: epoch, inbox: inbox, expirySeconds: expirySeconds))
        sessions[session].disconnectedRow = try row.read(UInt64.self)
        // For a session that was connected, the last number sent is not known.
        let sentThrough = try row.read(UInt64.self)
        let wasConnected = sessions[session].disconnected == .never
        sessions[session].sentThrough = wasConnected ? reserved : sentThrough
        sessions[session].reservationRequested = reserved
        sessions[session].reservedThrough = reserved
        if version > 1 {
            sessions[session].isFromBackup = try row.read(UInt8.self) == 1
            sessions[session].receivesSince = try row.readCounter()
        }
        if version > 2 { setPulling(try row.read(UInt8.self) == 1, of: session) }
        commits.noteRestored(
            session, identifier: identifier,
            hasTimeToReturn: wasConnected || sessions[session].isLossAssumed)
    }

    private mutating func restoreSubscription(
        _ key: [UInt8], _ value: [UInt8]
    ) throws(RestoreError) {
        // Rows of version 1 do not contain the number of the share; it is the preferred one.
        let version: UInt8 = value.first == 1 ? 1 : 2
        var row = try RecordReader(value, version: version, table: .subscriptions, key: key)
        let filter = try row.readString()
        guard let grade = Grade(rawValue: try row.read(UInt8.self)), key.count == 16,
            let session = commits.restoration!.sessions[RecordKey.readNumber(key)]
        else { throw .danglingRecord(.subscriptions, key: key) }
        let options = SubscriptionOptions(rawValue: try row.read(UInt8.self))
        let subscriptionIdentifier = try row.read(UInt32.self)
        var share = filter.withUnsafeBytes { SharedFilter($0)?.preferredNumber }
        if version > 1 {
            let stored = try row.read(UInt16.self)
            guard share != nil, stored != 0 else {
                throw .unreadableRecord(.subscriptions, key: key)
            }
            share = stored
        }
        let subscription = addSubscription(
            of: session, filter: AuthorizedFilter(restored: filter), grade: grade,
            identifier: RecordKey.readNumber(key, at: 8), options: options,
            subscriptionIdentifier: subscriptionIdentifier, storedShare: share)
        if options.contains(.awaitsReplay) { restoreReplay(of: subscription) }
    }

    private mutating func restoreOutbox(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        guard key.count == 8 || key.count == 10 else {
            throw .danglingRecord(.outboxes, key: key)
        }
        guard let session = commits.restoration!.sessions[RecordKey.readNumber(key)] else {
            // The row belongs to a session that has ended; no client can ask for it any more.
            repair(.outboxes, key)
            return
        }
        if key.count == 10 {
            try restoreSend(of: session, key: key, value: value)
            return
        }
        // Rows of version 1 do not contain `unknownOnceThrough`.
        let version: UInt8 = value.first == 1 ? 1 : 2
        var row = try RecordReader(value, version: version, table: .outboxes, key: key)
        sessions[session].outboxEpoch = try row.read(UInt64.self)
        sessions[session].resultsSeenThrough = try row.read(UInt64.self)
        if version > 1 { sessions[session].unknownOnceThrough = try row.read(UInt64.self) }
        for _ in 0..<(try row.read(UInt16.self)) {
            var entry = OutboxEntry(number: try row.read(UInt64.self), stamp: 0, grade: .once)
            entry.isComplete = true
            entry.reason = try row.readReason()
            entry.refusedCount = try row.read(UInt32.self)
            var refusals: [Refusal] = []
            for _ in 0..<(try row.read(UInt16.self)) {
                let index = try row.read(UInt16.self)
                refusals.append(Refusal(index: UInt32(index), reason: try row.readReason()))
            }
            guard sessions[session].outbox.position(of: entry.number) == nil else {
                throw .unreadableRecord(.outboxes, key: key)
            }
            storeRefusals(refusals, in: &entry, of: session)
            sessions[session].outbox.insert(entry)
        }
    }

    /// Deletes a row that has no meaning any more and that an earlier version left.
    private mutating func repair(_ table: RecordTable, _ key: [UInt8]) {
        counters.rowsRepaired += 1
        commits.remove(table, key: key)
    }
}
