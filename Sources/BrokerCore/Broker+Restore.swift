// The way back: rows and queue sums from the store become sessions, users and tokens again, before
// the first event is taken.

import Primitives

extension Broker {
    /// Takes one stored row. Tables come in the order of their raw values, so that what a row
    /// points at is there before it.
    public mutating func restore(
        table: RecordTable, key: [UInt8], value: [UInt8]
    ) throws(RestoreError) {
        precondition(!isRestored, "a stored row after the start")
        switch table {
        case .counters:
            var row = try RecordReader(value, version: 1, table: table, key: key)
            identifiersReservedThrough = try row.read(UInt64.self)
            nextIdentifier = identifiersReservedThrough + 1
        case .apps:
            var row = try RecordReader(value, version: 2, table: table, key: key)
            let hasKey = try row.read(UInt8.self) == 1
            let digest = try row.readDigest()
            insertApp(key, keyDigest: hasKey ? digest : nil, rights: try row.readRights())
        case .users:
            try restoreUser(key, value)
        case .tokens:
            tokens.insert(try Records.readToken(key: key, value: value))
        case .sessions:
            try restoreSession(key, value)
        case .subscriptions:
            try restoreSubscription(key, value)
        case .outboxes:
            try restoreOutbox(key, value)
        case .groups:
            try restoreGroup(key, value)
        case .members:
            try restoreMember(key)
        case .wills:
            try restoreWill(key, value)
        case .retained:
            throw .unreadableRecord(table, key: key)
        }
    }

    /// Takes the sums of one stored queue.
    ///
    /// - Parameter lastNumber: the highest number in it.
    public mutating func restore(queue tally: QueueTally, lastNumber: UInt64) {
        switch queueOwners[tally.queue.raw] {
        case .session(let session)?:
            sessions[session].inbox.count = tally.count
            sessions[session].inbox.byteCount = tally.byteCount
            sessions[session].backlogCount = tally.count
        case .user(let user)?:
            users[user].mailbox!.count = tally.count
            users[user].mailbox!.byteCount = tally.byteCount
            users[user].mailbox!.nextNumber = lastNumber + 1
        case nil:
            // A queue without an owner: its deletion was under way. Finish it.
            gathering.deletedQueues.append(tally.queue)
        }
    }

    /// Ends the restoration; from here on events are taken.
    ///
    /// - Parameter nextMessage: above every message id in the store.
    public mutating func finishRestoring(nextMessage: MessageID, at moment: Moment) {
        precondition(!isRestored, "restored twice")
        nextMessageIdentifier = max(nextMessage.raw, 1)
        isRestored = true
        for index in 0..<sessions.endIndex where sessions.contains(index) {
            // One that was connected when the broker ended has been away since now.
            sessions[index].disconnected = min(sessions[index].disconnected, moment.instant)
            resumeExpiry(index)
        }
        for index in 0..<users.endIndex where users.contains(index) { updateWaiting(of: index) }
        scheduleRestoredWills(moment)
    }

    // MARK: - Rows

    private mutating func restoreUser(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        let dangling = RestoreError.danglingRecord(.users, key: key)
        guard let appCount = key.first, key.count > 1 + Int(appCount),
            let app = app(named: Array(key[1..<1 + Int(appCount)]))
        else { throw dangling }
        let name = Array(key[(1 + Int(appCount))...])
        var row = try RecordReader(value, version: 1, table: .users, key: key)
        let mailbox = try row.read(UInt64.self)
        let user = insertUser(name, app: app)
        if mailbox != 0 {
            users[user].mailbox = Inbox(queue: QueueID(raw: mailbox))
            queueOwners[mailbox] = .user(user)
        }
    }

    private mutating func restoreSession(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        let dangling = RestoreError.danglingRecord(.sessions, key: key)
        var row = try RecordReader(value, version: 1, table: .sessions, key: key)
        let appName = try row.readString()
        let userName = try row.readString()
        guard key.count == 8, let app = app(named: appName),
            let user = userName.withUnsafeBytes({ apps[app].users.value(for: $0) })
        else { throw dangling }
        let device = try row.readString()
        guard let dialect = SessionDialect(rawValue: try row.read(UInt8.self)) else {
            throw dangling
        }
        let identifier = RecordKey.readNumber(key)
        let epoch = try row.read(UInt64.self)
        let queue = try row.read(UInt64.self)
        let reserved = try row.read(UInt64.self)
        var session = Session(
            identifier: identifier, user: user, device: device, dialect: dialect, epoch: epoch,
            queue: QueueID(raw: queue), expirySeconds: try row.read(UInt32.self))
        session.disconnected = Instant(milliseconds: try row.read(UInt64.self))
        session.isPersistent = true
        // Numbers up to the reservation may have been seen: they are not used again.
        session.inbox.nextNumber = reserved + 1
        session.reservationRequested = reserved
        session.reservedThrough = reserved
        let index = sessions.insert(session).index
        users[user].sessions.append(index)
        sessionIdentifiers[identifier] = index
        queueOwners[queue] = .session(index)
        joinAddresses(index)
    }

    private mutating func restoreSubscription(
        _ key: [UInt8], _ value: [UInt8]
    ) throws(RestoreError) {
        var row = try RecordReader(value, version: 1, table: .subscriptions, key: key)
        let filter = try row.readString()
        guard let grade = Grade(rawValue: try row.read(UInt8.self)), key.count == 16,
            let session = sessionIdentifiers[RecordKey.readNumber(key)]
        else { throw .danglingRecord(.subscriptions, key: key) }
        addSubscription(
            session, filter, grade, identifier: RecordKey.readNumber(key, at: 8))
    }

    private mutating func restoreOutbox(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        var row = try RecordReader(value, version: 1, table: .outboxes, key: key)
        guard key.count == 8, let session = sessionIdentifiers[RecordKey.readNumber(key)] else {
            throw .danglingRecord(.outboxes, key: key)
        }
        sessions[session].outboxEpoch = try row.read(UInt64.self)
        sessions[session].resultsSeenThrough = try row.read(UInt64.self)
        for _ in 0..<(try row.read(UInt16.self)) {
            var entry = OutboxEntry(number: try row.read(UInt64.self), grade: .once)
            entry.isComplete = true
            entry.reason = try reason(&row, key)
            entry.refusedCount = try row.read(UInt32.self)
            for _ in 0..<(try row.read(UInt16.self)) {
                let index = try row.read(UInt16.self)
                entry.refusals.append(
                    Refusal(index: UInt32(index), reason: try reason(&row, key)))
            }
            sessions[session].outbox.append(entry)
        }
    }

    private func reason(
        _ row: inout RecordReader, _ key: [UInt8]
    ) throws(RestoreError) -> ReasonCode {
        guard let reason = ReasonCode(rawValue: try row.read(UInt8.self)) else {
            throw .unreadableRecord(.outboxes, key: key)
        }
        return reason
    }
}
