// Moves the queue of a session that ends. Messages for the user go to the user's offline queue, or
// to another session of the user that did not receive them. Messages from shared subscriptions go
// to other sessions of the share.
//
//     queue of the session ──shared, QoS 1──► leftover ──one by one──► queues of the share
//          └──what the user was sent──► the user's offline queue, or another session's queue
//
// Each arrow is one transaction or a part of one, so that an entry is in exactly one place after a
// crash. None of them needs room in the store.

import Primitives

/// A queue with the entries that an ended session had from shared subscriptions. It lasts until
/// each entry has moved to another session of its share, or until the shares have no sessions.
struct Leftover {
    let queue: QueueID
    let app: Index<App>
    /// The user of the session; nil if the row of an earlier version does not contain it.
    let user: Index<User>?
    private(set) var count: UInt64 = 0
    private(set) var byteCount: UInt64 = 0
    /// The maximum that the transfer under way brings.
    private(set) var expected = TrimAmount()
    /// Entries up to this number have been examined.
    var lookedThrough: UInt64 = 0
    /// Whether a request to the store is open that loads or creates it.
    var isUnderWay = true
    /// Whether the current walk has given away an entry.
    private var isMoving = false
    /// Rounds of housekeeping between two walks. It grows after each walk that gave nothing away.
    private var roundsBetween = 0
    private var roundsLeft = 0

    init(queue: QueueID, app: Index<App>, user: Index<User>?, expected: TrimAmount = TrimAmount()) {
        self.queue = queue
        self.app = app
        self.user = user
        self.expected = expected
    }

    /// Sets the counts that the store has read.
    mutating func restore(_ tally: QueueTally) {
        count = tally.count
        byteCount = tally.byteCount
        expected = TrimAmount()
    }

    mutating func subtract(count: UInt64, byteCount: UInt64) {
        precondition(count <= self.count, "\(count) messages of a leftover that has \(self.count)")
        self.count -= count
        // The size of a damaged entry is not known.
        self.byteCount = self.count == 0 ? 0 : self.byteCount - min(byteCount, self.byteCount)
        isMoving = true
    }

    /// Ends a walk. A later walk examines again the entries for which no session had room.
    mutating func endWalk() {
        roundsBetween =
            isMoving ? 0 : min(2 * roundsBetween + 1, CoreLimits.leftoverRoundsMaximum)
        roundsLeft = roundsBetween
        isMoving = false
        lookedThrough = 0
        isUnderWay = false
    }

    /// Whether this round of housekeeping examines it.
    mutating func isDue() -> Bool {
        guard !isUnderWay else { return false }
        if roundsLeft == 0 { return true }
        roundsLeft -= 1
        return false
    }
}

extension Broker {
    // MARK: - The end of a queue

    /// Disposes of the queue of a session that has ended.
    ///
    /// - Parameters:
    ///   - keepsUserMessages: whether the messages of its user are kept.
    ///   - sentThrough: the last number that its devices may have been sent.
    mutating func leave(
        _ inbox: Inbox, of user: Index<User>, keepsUserMessages: Bool, sentThrough: UInt64
    ) {
        var amount = commits.expectedArrivals(in: inbox.queue)
        amount += TrimAmount(count: UInt64(inbox.count), byteCount: inbox.byteCount)
        if registry.apps[registry.users[user].app].shareCount > 0, amount.count > 0 {
            makeLeftover(of: inbox.queue, amount, user)
        }
        if keepsUserMessages, amount.count > 0 {
            guard let successor = oldestReceiver(of: user) else {
                queues.note(sentThrough: sentThrough, in: inbox)
                giveOfflineQueue(inbox, to: user)
                return
            }
            transferToSuccessor(inbox.queue, amount, to: successor, sentThrough: sentThrough)
        }
        counters.discarded += UInt64(inbox.count)
        queues.countOut(UInt64(inbox.count), byteCount: inbox.byteCount)
        commits.delete(inbox.queue)
    }

    /// The persistent session that has received its user's messages for the longest time.
    private func oldestReceiver(of user: Index<User>) -> Index<Session>? {
        var oldest: Index<Session>? = nil
        forEachSession(of: user) { session in
            guard sessions[session].isPersistent, sessions[session].receivesUserMessages else {
                return
            }
            if let oldest, sessions[oldest].receivesSince <= sessions[session].receivesSince {
                return
            }
            oldest = session
        }
        return oldest
    }

    /// Moves the user's messages from before the other sessions listened into the queue of one of
    /// them, as far as it has room. Only the store knows how many these are: it moves no more than
    /// the reserved numbers.
    private mutating func transferToSuccessor(
        _ queue: QueueID, _ amount: TrimAmount, to successor: Index<Session>, sentThrough: UInt64
    ) {
        guard sessions[successor].receivesSince > 0 else { return }
        let inbox = sessions[successor].inbox
        let waiting = commits.expectedArrivals(in: inbox.queue)
        let room = TrimAmount(
            count: limits.inheritedCountMaximum.missing(
                from: waiting.count + UInt64(inbox.count)),
            byteCount: limits.inheritedBytesMaximum.missing(
                from: waiting.byteCount + inbox.byteCount))
        let arriving = TrimAmount(
            count: min(amount.count, room.count), byteCount: min(amount.byteCount, room.byteCount))
        guard arriving.count > 0 else { return }
        commits.transfer(
            QueueTransfer(
                source: queue, destination: inbox.queue, firstNumber: inbox.nextNumber,
                countMaximum: arriving.count, byteMaximum: room.byteCount,
                scope: .userMessages(
                    before: StoredMessageID(raw: sessions[successor].receivesSince)),
                sentThrough: sentThrough),
            to: sessions.handle(successor), arriving: arriving)
        sessions[successor].inbox.nextNumber += arriving.count
        reserveNumbers(successor)
    }

    // MARK: - New receivers

    /// Notes that a stored session receives the messages of its user from now on.
    mutating func noteReceiver(_ session: Index<Session>) {
        guard commits.restoration == nil else { return }
        // Messages get their ids when the batch is handed over.
        sessions[session].receivesSince = .max
        commits.note(receiver: sessions.handle(session))
    }

    /// Sets `receivesSince` of the new receivers just before the hand-over gives its
    /// messages their ids.
    mutating func settleReceivers() {
        var next = commits.identifiers.nextMessageIdentifier
        var position = 0
        for (session, messageCount) in commits.pendingBatch.newReceivers {
            while position < messageCount {
                if memory.messages[commits.pendingBatch.messages[position]].pendingEntries > 0 {
                    next += 1
                }
                position += 1
            }
            // A session that exists before the first message cannot have missed any.
            let bound = next == 1 ? 0 : next
            // A session that ends in this batch inherits no more than one that stays, because it
            // passes on what it has.
            commits.narrowSuccessorTransfers(to: session, before: StoredMessageID(raw: bound))
            guard sessions.contains(session) else { continue }
            sessions[session.index].receivesSince = bound
            markDirty(session.index, .session, isUrgent: true)
        }
    }

    // MARK: - Results

    /// Counts out entries that were to be moved and could not be read.
    mutating func settleMoves(_ result: borrowing StoreResult) {
        for index in result.missedMoves {
            let move = commits.inFlightBatch.moves[index]
            let byteCount = UInt64(commits.inFlightBatch.moveByteCounts[index])
            let tally = QueueTally(queue: move.destination, count: 1, byteCount: byteCount)
            guard case .session(let session)? = owner(of: move.destination) else {
                // The session has ended, and its entries are counted in another queue.
                countOut(tally)
                continue
            }
            if let connected = sessions[session].connected,
                let position = live.connectedSessions[connected].position(
                    of: move.destinationNumber)
            {
                let entry = live.connectedSessions[connected].remove(at: position)
                countOut(session: session, count: 1, byteCount: byteCount)
                memory.release(entry.message)
            } else if move.destinationNumber > sessions[session].inbox.acknowledgedThrough {
                countOut(tally)
            }
        }
    }

    /// Takes the counts of transfers. Entries that came are counted in before entries that left are
    /// counted out, because a queue may have had both.
    mutating func settleTransfers(_ result: borrowing StoreResult) {
        for (index, _) in commits.inFlightBatch.successorTransfers {
            let tally = result.transferred[index]
            if countIn(tally) { counters.discarded -= min(tally.count, counters.discarded) }
        }
        for (index, leftover) in commits.inFlightBatch.leftovers {
            let tally = result.transferred[index]
            let source = commits.inFlightBatch.transfers[index].source
            if counter(of: source) != nil {
                countOut(
                    QueueTally(queue: source, count: tally.count, byteCount: tally.byteCount))
            } else {
                counters.discarded -= min(tally.count, counters.discarded)
            }
            queues.restore(tally, of: leftover.index)
            loadLeftover(leftover.index)
        }
    }

    /// Counts in entries that the store has moved into a queue. Returns false if the queue has
    /// ended meanwhile: it may have passed the entries on, and then that transfer counts them.
    private mutating func countIn(_ tally: QueueTally) -> Bool {
        let session: Index<Session>
        switch counter(of: tally.queue) {
        case .session(let owner)?: session = owner
        case .offlineQueue(let user)?:
            queues.countIn(tally, toOfflineQueue: offlineQueueIndex(of: user))
            return true
        case .inherited, .leftover, .conversation, nil: return false
        }
        sessions[session].inbox.countIn(tally)
        queues.countIn(tally.count, byteCount: tally.byteCount)
        guard let connected = sessions[session].connected else { return true }
        live.connectedSessions[connected].addToBacklog(UInt32(tally.count))
        commits.deliverWithResult(to: live.connectedSessions.handle(connected))
        return true
    }

    // MARK: - Shares

    /// Keeps the entries of shared subscriptions for other sessions of the share, up to the limit
    /// of one user's sessions. The rest is treated like the queue.
    private mutating func makeLeftover(of queue: QueueID, _ amount: TrimAmount, _ user: Index<User>)
    {
        guard queues.leftoversOfUsers[user]?.count ?? 0 < CoreLimits.leftoversPerUserMaximum else {
            return
        }
        let kept = queues.amount(inLeftoversOf: user)
        let room = TrimAmount(
            count: limits.leftoverCountMaximum.missing(from: kept.count),
            byteCount: limits.leftoverBytesMaximum.missing(from: kept.byteCount))
        let arriving = TrimAmount(
            count: min(amount.count, room.count), byteCount: min(amount.byteCount, room.byteCount))
        guard arriving.count > 0 else { return }
        let app = registry.users[user].app
        let new = queues.insert(
            Leftover(
                queue: QueueID(raw: makeIdentifier()), app: app, user: user, expected: arriving))
        commits.transfer(
            QueueTransfer(
                source: queue, destination: queues.leftovers[new].queue, firstNumber: 1,
                countMaximum: arriving.count, byteMaximum: room.byteCount, scope: .shared),
            to: queues.leftovers.handle(new))
        commits.renew(
            Records.leftover(
                queues.leftovers[new].queue, app: registry.apps[app].name,
                user: Array(registry.users[user].name)))
    }

    /// Requests the next entries of a leftover, or ends it if it is empty.
    mutating func loadLeftover(_ index: Index<Leftover>) {
        guard queues.leftovers[index].count > 0 else { return endLeftover(index) }
        queues.awaitLoad(of: index)
        requestWaitingLoads()
    }

    /// Loads the next entries of a leftover.
    mutating func load(leftover owner: Handle<Leftover>) {
        commits.load(
            LoadRequest(
                queue: queues.leftovers[owner.index].queue,
                afterNumber: queues.leftovers[owner.index].lookedThrough,
                countMaximum: CoreLimits.loadCountMaximum,
                byteMaximum: CoreLimits.loadBytesMaximum),
            for: .leftover(owner), expecting: CoreLimits.loadCountMaximum,
            byteCount: CoreLimits.loadBytesMaximum)
    }

    /// Gives each of the loaded entries to a session of its share.
    mutating func handOn(
        _ load: LoadedQueue, of index: Index<Leftover>, _ bytes: UnsafeRawBufferPointer,
        in step: inout Step
    ) {
        for loaded in load.entries {
            let message = memory.resident(loaded, in: bytes) {
                commits.identifiers.makeUnmeasuredStamp()
            }
            memory.retain(message)
            let entry = WindowEntry(
                number: loaded.number, message: message, batchEntry: .max,
                byteCount: loaded.byteCount, state: loaded.state)
            handOn(entry, of: index, in: &step)
            queues.noteLooked(through: loaded.number, at: index)
            memory.release(message)
        }
        if !load.reachedEnd { return loadLeftover(index) }
        queues.endWalk(over: index)
        if queues.leftovers[index].count == 0 { endLeftover(index) }
    }

    private mutating func handOn(
        _ entry: WindowEntry, of index: Index<Leftover>, in step: inout Step
    ) {
        let leftover = queues.leftovers[index]
        var isOver = true
        switch successor(
            for: entry.state, of: entry.message, app: leftover.app,
            excluding: nil, entry.byteCount, reaching: .everybody)
        {
        case .full: return
        case .nobody: counters.discarded += 1
        case .found(let other) where sessions[other.session].isPersistent:
            move(entry, from: leftover.queue, to: other, in: &step)
            isOver = false
        case .found(let other):
            guard copy(entry, to: other, in: &step) else { return }
        }
        if isOver {
            commits.remove(entry.number, from: leftover.queue)
        }
        queues.countOut(leftover: index, count: 1, byteCount: UInt64(entry.byteCount))
    }

    private mutating func endLeftover(_ index: Index<Leftover>) {
        let queue = queues.remove(index)
        commits.remove(.leftovers, key: RecordKey.number(queue.raw))
    }

    mutating func restoreLeftover(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        // Rows of version 1 do not contain the user.
        let version: UInt8 = value.first == 1 ? 1 : 2
        var row = try RecordReader(value, version: version, table: .leftovers, key: key)
        guard key.count == 8, let app = app(named: try row.readString()) else {
            throw .danglingRecord(.leftovers, key: key)
        }
        var user: Index<User>? = nil
        if version > 1 {
            // The user may have been deleted; the share has its messages.
            user = self.user(named: try row.readString(), app: app)
        }
        _ = queues.insert(
            Leftover(queue: QueueID(raw: RecordKey.readNumber(key)), app: app, user: user))
    }
}

extension Records {
    static func leftover(_ queue: QueueID, app: [UInt8], user: [UInt8]) -> RecordChange {
        var row = RecordWriter(version: 2)
        row.write(app)
        row.write(user)
        return RecordChange(
            table: .leftovers, key: RecordKey.number(queue.raw), value: row.bytes)
    }
}
