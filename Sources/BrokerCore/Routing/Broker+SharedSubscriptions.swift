// Shared subscriptions: each message goes to one of the sessions that subscribe to
// `$share/name/filter` (MQTT 5.0 section 4.8.2). The session is chosen when the message is
// accepted. If that session disconnects, its unacknowledged messages move to another session in QoS
// 1; in QoS 2 they wait for their session and end with it [MQTT-4.8.2-4], [MQTT-4.8.2-5].

import Primitives

/// The shares of one filter: one audience for each name.
struct ShareSet {
    /// Audiences, first those with a connected subscriber. Their filters contain `$share` and the
    /// name.
    var audiences: [Index<Audience>] = []
    /// The number of audiences with a connected subscriber.
    var presentCount = 0
}

/// The filter of a shared subscription, parsed.
struct SharedFilter {
    let pattern: UnsafeRawBufferPointer
    /// The number of a share with this name and pattern, if no other share has it: FNV-1a of both,
    /// folded to 16 bits, never 0. A share that lost its members and gets new ones mostly gets the
    /// number of its old entries again.
    let preferredNumber: UInt16

    private static let prefix: StaticString = "$share/"

    /// Nil for a filter of another kind. The dialect has checked what follows the prefix.
    init?(_ filter: UnsafeRawBufferPointer) {
        let prefix = SharedFilter.prefix
        guard filter.count > prefix.utf8CodeUnitCount else { return nil }
        for index in 0..<prefix.utf8CodeUnitCount where filter[index] != prefix.utf8Start[index] {
            return nil
        }
        var end = prefix.utf8CodeUnitCount
        while end < filter.count, filter[end] != UInt8(ascii: "/") { end += 1 }
        guard end + 1 < filter.count else { return nil }
        pattern = UnsafeRawBufferPointer(rebasing: filter[(end + 1)...])
        var hash: UInt32 = 2_166_136_261
        for byte in filter[prefix.utf8CodeUnitCount...] {
            hash = (hash ^ UInt32(byte)) &* 16_777_619
        }
        preferredNumber = max(UInt16(truncatingIfNeeded: hash ^ hash >> 16), 1)
    }
}

extension Broker {
    /// Registers the audience of a shared subscription as a share; does nothing for any other
    /// filter.
    ///
    /// - Parameter stored: the share's number in the row of a restored subscription; nil for a new
    ///   share.
    mutating func addShare(
        _ audience: Index<Audience>, filter: [UInt8], app: Index<App>, stored: UInt16?
    ) {
        filter.withUnsafeBytes { filter in
            guard let shared = SharedFilter(filter) else { return }
            let known = registry.apps[app].shares.target(of: shared.pattern)
            let set = known ?? routing.makeShareSet()
            if known == nil { registry.insert(set, pattern: shared.pattern, app: app) }
            let number = stored ?? freeShareNumber(from: shared.preferredNumber, app: app)
            registry.takeShareNumber(number, app: app)
            routing.add(share: audience, number: number, to: set)
        }
    }

    /// The preferred number, or the next one that no share of the app has. There is one, because an
    /// app has at most 4,096 shares (``CoreLimits/sharesPerAppMaximum``).
    private mutating func freeShareNumber(from preferred: UInt16, app: Index<App>) -> UInt16 {
        var number = preferred
        var lookCount = 0
        while registry.apps[app].shareNumbers[number] != nil && lookCount < Int(UInt16.max) {
            number = number == .max ? 1 : number + 1
            lookCount += 1
        }
        workload.charge(lookCount / CoreLimits.looksPerWork)
        return number
    }

    /// Removes a share that has no members.
    mutating func removeShare(_ removed: Audience, app: Index<App>) {
        registry.giveBackShareNumber(removed.share, app: app)
        guard routing.remove(share: removed) else { return }
        removed.filter.withUnsafeBytes { filter in
            if let shared = SharedFilter(filter) {
                registry.removeShares(pattern: shared.pattern, app: app)
            }
        }
    }

    /// The subscribers that get a message by shared subscriptions: one of each share; nil if there
    /// are none.
    ///
    /// - Parameter message: the message that is queued; nil if none is.
    mutating func audience(
        ofSharesOf topic: UnsafeRawBufferPointer, _ app: Index<App>, grade: Grade,
        message: Index<Message>?
    ) -> Index<Audience>? {
        guard registry.apps[app].shareCount > 0 else { return nil }
        let byteCount = message.map { UInt32(memory.messages[$0].blockByteCount) } ?? 0
        var matched = ContiguousArray<Index<ShareSet>>()
        swap(&matched, &routing.matchedShareSets)
        defer { swap(&matched, &routing.matchedShareSets) }
        matched.removeAllKeepingCapacity()
        var visitedCount = registry.apps[app].shares.match(topic, into: &matched)
        var lookCount = 0
        routing.beginChoice()
        for set in matched {
            // A message that is not queued goes to connected sessions only.
            let count =
                grade == .transient
                ? routing.shareSets[set].presentCount : routing.shareSets[set].audiences.count
            visitedCount += count
            for position in 0..<count {
                let audience = routing.shareSets[set].audiences[position]
                if let chosen = choose(from: audience, grade: grade, byteCount, &lookCount) {
                    routing.choose(chosen)
                }
            }
        }
        workload.charge(
            visitedCount / CoreLimits.nodesPerWork + lookCount / CoreLimits.looksPerWork)
        return routing.audiences[routing.chosenAudience].subscribers.isEmpty
            ? nil : routing.chosenAudience
    }

    /// The next subscriber in turn among those of the lowest rank. A subscriber whose queue is full
    /// is chosen only if all queues are full.
    private mutating func choose(
        from audience: Index<Audience>, grade: Grade, _ byteCount: UInt32, _ lookCount: inout Int
    ) -> Subscriber? {
        let count = routing.audiences[audience].subscribers.count
        let start = Int(routing.audiences[audience].rotationPosition) % count
        var best: (rank: Int, position: Int)?
        for step in 0..<count {
            let position = (start + step) % count
            lookCount += 1
            guard
                let rank = rank(
                    routing.audiences[audience].subscribers[position], grade: grade, byteCount),
                rank < best?.rank ?? .max
            else { continue }
            best = (rank, position)
            if rank == 0 { break }
        }
        guard let best else { return nil }
        return routing.advanceRotation(of: audience, at: best.position)
    }

    /// The rank of a subscriber; the lowest is chosen. 0: connected, with room in its window. 1:
    /// connected. 2: not connected, but persistent. 3 more if its queue is full. Nil if it cannot
    /// take the message.
    private func rank(_ subscriber: Subscriber, grade: Grade, _ byteCount: UInt32) -> Int? {
        let isConnected = subscriber.connection != .none
        let isQueued = grade != .transient && subscriber.grade != .transient
        if !isQueued && !isConnected { return nil }
        if grade == .transient { return 0 }
        let isFull = isQueued && !hasRoom(subscriber.session, for: byteCount)
        let readiness = !isConnected ? 2 : hasRoomInWindow(subscriber.session) ? 0 : 1
        return readiness + (isFull ? 3 : 0)
    }

    // MARK: - Hand-over

    /// Moves the unacknowledged QoS 1 messages of a session's shares to other sessions when its
    /// connection ends. A stored message moves within the store, to a session that is stored and
    /// connected; if there is none, it stays. A message that is being stored moves after the
    /// commit. If a stored session ends, its queue is handled by Broker+Leftovers.swift.
    mutating func handOverShares(of session: Index<Session>, endsSession: Bool, in step: inout Step)
    {
        guard sessions[session].dialect.isMQTT,
            registry.apps[registry.users[sessions[session].user].app].shareCount > 0,
            !(endsSession && sessions[session].isPersistent)
        else { return }
        let connected = connectedIndex(of: session)
        var position = 0
        while position < live.connectedSessions[connected].window.count {
            let entry = live.connectedSessions[connected].window[position]
            guard entry.state.grade == .durable, entry.state.options.contains(.shared),
                !entry.isUnstored, memory.messages[entry.message].fate == .delivered,
                handOver(entry, of: session, in: &step)
            else {
                position += 1
                continue
            }
            _ = live.connectedSessions[connected].remove(at: position)
            countOut(session: session, count: 1, byteCount: UInt64(entry.byteCount))
            memory.release(entry.message)
        }
    }

    /// Moves one entry of a window into the queue of another session. Returns false if it stays.
    private mutating func handOver(
        _ entry: WindowEntry, of session: Index<Session>, in step: inout Step
    ) -> Bool {
        guard sessions[session].isPersistent else {
            return copy(entry, of: session, in: &step)
        }
        let batch = memory.messages[entry.message].batch
        if batch != 0 && batch != commits.pendingSequence {
            // The entry is being stored.
            memory.retain(entry.message)
            commits.handOver(entry, of: sessions.handle(session))
            return false
        }
        guard
            case .found(let other) = successor(
                for: entry.state, of: entry.message,
                app: registry.users[sessions[session].user].app, excluding: session,
                entry.byteCount,
                reaching: .storedAndConnected)
        else { return false }
        if batch == 0 {
            move(entry, from: sessions[session].inbox.queue, to: other, in: &step)
        } else {
            readdress(entry, to: other, in: &step)
        }
        return true
    }

    /// Moves the entries of disconnected sessions that the committed batch has stored.
    mutating func completeHandovers(isStored: Bool, in step: inout Step) {
        for (session, entry) in commits.inFlightBatch.handovers {
            // A session that has connected again keeps its entries.
            if isStored, sessions.contains(session), !sessions[session.index].isConnected,
                case .found(let other) = successor(
                    for: entry.state, of: entry.message,
                    app: registry.users[sessions[session.index].user].app, excluding: session.index,
                    entry.byteCount, reaching: .storedAndConnected)
            {
                let queue = sessions[session.index].inbox.queue
                move(entry, from: queue, to: other, in: &step)
                countOut(session: session.index, count: 1, byteCount: UInt64(entry.byteCount))
            }
            memory.release(entry.message)
        }
    }

    // MARK: - Successors

    /// The sessions that may take a message in place of another.
    enum SuccessorReach {
        /// Sessions that are stored and connected.
        case storedAndConnected
        /// All stored sessions and, if there are none, connected ones that are not stored.
        case everybody
    }

    enum Successor {
        case found(Subscriber)
        /// The queues of all possible sessions are full.
        case full
        case nobody
    }

    /// Another member of the share that an entry belongs to. Members take turns.
    mutating func successor(
        for state: EntryState, of message: Index<Message>, app: Index<App>,
        excluding excluded: Index<Session>?,
        _ byteCount: UInt32, reaching reach: SuccessorReach
    ) -> Successor {
        var matched = ContiguousArray<Index<ShareSet>>()
        var visitedCount = registry.apps[app].shares.match(
            MessageBlock(memory.messages[message].block).address, into: &matched)
        var lookCount = 0
        defer {
            workload.charge(
                visitedCount / CoreLimits.nodesPerWork + lookCount / CoreLimits.looksPerWork)
        }
        var isFull = false
        for set in matched {
            visitedCount += routing.shareSets[set].audiences.count
            for audience in routing.shareSets[set].audiences
            // Entries of earlier versions do not contain their share.
            where state.share == 0 || routing.audiences[audience].share == state.share {
                var best: (rank: Int, position: Int)?
                let count = routing.audiences[audience].subscribers.count
                lookCount += count
                for step in 0..<count {
                    let position =
                        (Int(routing.audiences[audience].rotationPosition) + step) % count
                    let subscriber = routing.audiences[audience].subscribers[position]
                    guard subscriber.session != excluded, subscriber.grade != .transient,
                        let rank = rank(subscriber, reaching: reach)
                    else { continue }
                    if !hasRoom(subscriber.session, for: byteCount) {
                        isFull = true
                    } else if rank < best?.rank ?? .max {
                        best = (rank, position)
                    }
                }
                if let best {
                    return .found(routing.advanceRotation(of: audience, at: best.position))
                }
            }
        }
        return isFull ? .full : .nobody
    }

    /// The rank of a subscriber; the lowest is chosen. Nil if it cannot take the message.
    private func rank(_ subscriber: Subscriber, reaching reach: SuccessorReach) -> Int? {
        let isConnected = subscriber.connection != .none
        if sessions[subscriber.session].isPersistent {
            if isConnected { return hasRoomInWindow(subscriber.session) ? 0 : 1 }
            return reach == .everybody ? 2 : nil
        }
        return reach == .everybody && isConnected ? 3 : nil
    }

    // MARK: - Moves

    /// Moves a stored entry into the queue of a stored session, in one transaction that needs no
    /// room.
    mutating func move(
        _ entry: WindowEntry, from queue: QueueID, to other: Subscriber, in step: inout Step
    ) {
        let session = other.session
        let (number, state) = countHandover(of: entry, to: other)
        commits.move(
            EntryMove(
                queue: queue, number: entry.number,
                destination: sessions[session].inbox.queue, destinationNumber: number,
                state: state),
            byteCount: entry.byteCount)
        appendToWindow(
            WindowEntry(
                number: number, message: entry.message, batchEntry: .max,
                byteCount: entry.byteCount, state: state), in: session, in: &step)
    }

    /// Gives an entry of the pending batch to another session.
    private mutating func readdress(_ entry: WindowEntry, to other: Subscriber, in step: inout Step)
    {
        let session = other.session
        let (number, state) = countHandover(of: entry, to: other)
        commits.readdress(
            entry: entry.batchEntry, to: sessions[session].inbox.queue, number: number,
            state: state)
        // The first session may have received it.
        memory.noteDoubt(about: entry.message)
        self.appendToWindow(
            WindowEntry(
                number: number, message: entry.message, batchEntry: entry.batchEntry,
                byteCount: entry.byteCount, state: state), in: session, in: &step)
    }

    /// Counts an entry into the queue of the session that it moves to. Returns its number and its
    /// state there.
    private mutating func countHandover(
        of entry: WindowEntry, to other: Subscriber
    ) -> (number: UInt64, state: EntryState) {
        counters.sharesHandedOver += 1
        let number = sessions[other.session].inbox.add(byteCount: entry.byteCount)
        queues.countIn(1, byteCount: UInt64(entry.byteCount))
        reserveNumbers(other.session)
        return (number, state(of: entry, for: other))
    }

    private func state(of entry: WindowEntry, for other: Subscriber) -> EntryState {
        EntryState(
            grade: .durable,
            options: entry.state.options.intersection([.shared, .retain, .ownOnly]),
            share: entry.state.share, subscriptionIdentifier: other.subscriptionIdentifier)
    }

    /// Copies an entry into the queue of another session, if the entry is not stored or no stored
    /// session could take it. Returns false if no session has room for it.
    mutating func copy(_ entry: WindowEntry, of session: Index<Session>, in step: inout Step)
        -> Bool
    {
        let app = registry.users[sessions[session].user].app
        guard
            case .found(let other) = successor(
                for: entry.state, of: entry.message, app: app, excluding: session,
                entry.byteCount, reaching: .everybody)
        else { return false }
        return copy(entry, to: other, in: &step)
    }

    mutating func copy(_ entry: WindowEntry, to other: Subscriber, in step: inout Step) -> Bool {
        // A message is stored once, so the other session gets a copy. The copy has no sender to be
        // told.
        let copy = memory.insert(
            copying: memory.messages[entry.message].block, stamp: makeUnmeasuredStamp(),
            deadline: memory.messages[entry.message].deadline)
        var tally = RoutingTally(stamp: memory.messages[copy].stamp)
        enqueue(
            copy, session: other.session, state: state(of: entry, for: other), tally: &tally,
            in: &step)
        memory.noteRouted(copy)
        memory.release(copy)
        guard tally.taken > 0 else { return false }
        counters.sharesHandedOver += 1
        return true
    }
}
