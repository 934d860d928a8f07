// What must be true of the core between any two events, checked by tests and by the simulation
// after every step. It walks over everything, so no running broker calls it.

import Primitives

extension Broker {
    /// Traps where a sum, a reference or a chain does not hold.
    package func checkInvariants() {
        checkUsers()
        checkConnectedSessions()
        checkAudiences()
        checkQueues()
        checkMessages()
        checkGroups()
        checkWills()
        for session in sessions.places where sessions.contains(session) {
            check(session: session)
        }
    }

    // MARK: - Sessions

    private func check(session: Index<Session>) {
        let isConnected = sessions[session].isConnected
        precondition(
            sessions[session].isPersistent || isConnected, "a session in memory is connected")
        precondition(
            (sessions[session].expiryToken != .none)
                == (!isConnected && sessions[session].expirySeconds != .max),
            "who is away ends in time, who is here does not")
        precondition(
            isConnected == (sessions[session].disconnected == .never),
            "a session knows since when nobody is there")
        precondition(
            sessions[session].inbox.acknowledgedThrough < sessions[session].inbox.nextNumber,
            "an acknowledged number was given")
        precondition(
            !sessions[session].isPersistent
                || sessions[session].inbox.nextNumber <= sessions[session].reservationRequested + 1,
            "a number is reserved when it is given")
        precondition(
            sessions[session].reservedThrough <= sessions[session].reservationRequested,
            "a reservation was asked for")
        checkOutbox(of: session)
        checkSubscriptions(of: session)
        let isListed = commits.pendingBatch.dirtySessions.contains(sessions.handle(session))
        precondition(
            isListed == !sessions[session].dirty.isEmpty, "a dirty session is written once")
    }

    private func checkOutbox(of session: Index<Session>) {
        var last = sessions[session].resultsSeenThrough
        var identifierCount = 0
        for position in 0..<sessions[session].outbox.count {
            let entry = sessions[session].outbox[position]
            precondition(entry.number > last, "an outbox is in order, and behind what was seen")
            last = entry.number
            checkPublication(entry, of: session)
            if entry.grade == .once && entry.packetIdentifier > 0 { identifierCount += 1 }
        }
        guard sessions[session].senderState.exists else { return }
        for position in 0..<sessions[session].senderState.value.interrupted.count {
            let entry = sessions[session].senderState.value.interrupted[position]
            precondition(
                sessions[session].senderState.value.interruptedNumbers[entry.packetIdentifier]
                    == entry.number && !entry.isComplete,
                "what was interrupted is found by its identifier until its fate is known")
            checkPublication(entry, of: session)
            identifierCount += 1
        }
        let identifiers = sessions[session].senderState.value.identifiers
        precondition(
            identifiers.count == identifierCount + identifiers.answeredCount,
            "an identifier in use names one publication")
    }

    private func checkPublication(_ entry: OutboxEntry, of session: Index<Session>) {
        guard entry.grade == .once && entry.packetIdentifier > 0 else { return }
        precondition(
            sessions[session].senderState.value.identifiers[entry.packetIdentifier] == .underWay,
            "a publication under way has its identifier")
    }

    private func checkSubscriptions(of session: Index<Session>) {
        var index = sessions[session].firstSubscription
        var filters: UInt32 = 0
        while let current = index {
            let subscription = routing.subscriptions[current]
            precondition(subscription.session == session, "a chain holds its own subscriptions")
            let subscriber = routing.audiences[subscription.audience].subscribers[
                Int(subscription.position)]
            precondition(subscriber.subscription == index, "a subscription knows its place")
            if !routing.audiences[subscription.audience].filter.isEmpty { filters += 1 }
            index = subscription.next
        }
        precondition(sessions[session].filterCount == filters, "a session counts its filters")
    }

    private func checkUsers() {
        var chained = 0
        for user in registry.users.places where registry.users.contains(user) {
            forEachSession(of: user) { session in
                precondition(sessions[session].user == user, "a chain holds its own sessions")
                chained += 1
            }
            precondition(
                registry.users[user].offlineQueue == nil || !hasPersistentListener(user),
                "messages wait only where no session inherits it")
        }
        precondition(chained == sessions.count, "every session is in its user's chain")
    }

    // MARK: - Connections

    private func checkConnectedSessions() {
        precondition(
            live.connectedSessions.count == live.connections.count, "a connection has one session")
        precondition(
            live.accesses.count == live.connectedSessions.count, "a connection has one access")
        for index in live.connectedSessions.places where live.connectedSessions.contains(index) {
            let session = live.connectedSessions[index].session
            precondition(
                sessions[session].connected == index, "a connected session has its session")
            precondition(
                live.connections[live.connectedSessions[index].connection] == session,
                "a connection leads to its session")
            precondition(
                live.accesses[access(of: session)].session == session,
                "an access has its session")
            checkWindow(of: index, session)
        }
    }

    private func checkWindow(of connected: Index<ConnectedSession>, _ session: Index<Session>) {
        let acknowledged = sessions[session].inbox.acknowledgedThrough
        var last = acknowledged
        var byteCount = 0
        for position in 0..<live.connectedSessions[connected].window.count {
            let entry = live.connectedSessions[connected].window[position]
            precondition(entry.number > last, "a window is in order, and unacknowledged")
            precondition(memory.messages.contains(entry.message), "a window holds messages")
            last = entry.number
            byteCount += Int(entry.byteCount)
            if position == Int(live.connectedSessions[connected].sentCount) - 1 {
                precondition(
                    entry.number <= live.connectedSessions[connected].sentThrough,
                    "what was sent is counted")
            }
        }
        precondition(
            last <= live.connectedSessions[connected].loadedThrough,
            "a window ends where the backlog begins")
        precondition(
            byteCount == live.connectedSessions[connected].windowByteCount,
            "a window knows its size")
        precondition(
            live.connectedSessions[connected].sentCount
                <= live.connectedSessions[connected].windowMaximum
                && Int(live.connectedSessions[connected].sentCount)
                    <= live.connectedSessions[connected].window.count,
            "no more is sent than the client takes")
        precondition(
            live.connectedSessions[connected].window.count
                + Int(live.connectedSessions[connected].backlogCount)
                == Int(sessions[session].inbox.count),
            "what waits is in the window or behind it")
        precondition(
            sessions[session].isPersistent || live.connectedSessions[connected].backlogCount == 0,
            "a session in memory has nothing on disk")
    }

    private func checkShares() {
        var count = 0
        for set in routing.shareSets.places where routing.shareSets.contains(set) {
            for (position, audience) in routing.shareSets[set].audiences.enumerated() {
                precondition(
                    routing.audiences[audience].shareSet == set
                        && routing.audiences[audience].sharePosition == position,
                    "a share knows its place")
                let isPresent = routing.audiences[audience].subscribers.contains {
                    $0.connection != .none
                }
                precondition(
                    isPresent == (position < routing.shareSets[set].presentCount),
                    "shares whose members are there come first")
                count += 1
            }
        }
        var shareCount = 0
        for audience in routing.audiences.places
        where routing.audiences.contains(audience) && routing.audiences[audience].share != 0 {
            shareCount += 1
        }
        precondition(
            count == shareCount,
            "\(shareCount) shares, of which \(count) are among those of their filters")
        checkShareNumbers()
    }

    /// No two shares of an app have a number in common, unless both brought it from a store of an
    /// earlier version, where it was a hash.
    private func checkShareNumbers() {
        var shares: [Index<App>: [UInt16: [Index<Audience>]]] = [:]
        for audience in routing.audiences.places
        where routing.audiences.contains(audience) && routing.audiences[audience].share != 0 {
            let user = sessions[routing.audiences[audience].subscribers[0].session].user
            shares[registry.users[user].app, default: [:]][
                routing.audiences[audience].share, default: []
            ]
            .append(audience)
        }
        for app in registry.apps.places where registry.apps.contains(app) {
            let numbers = shares[app] ?? [:]
            precondition(
                numbers.mapValues { UInt16($0.count) } == registry.apps[app].shareNumbers,
                "an app counts \(registry.apps[app].shareNumbers), its shares have \(numbers)")
            for (number, holders) in numbers where holders.count > 1 {
                for audience in holders {
                    let preferred = routing.audiences[audience].filter.withUnsafeBytes {
                        SharedFilter($0)?.preferredNumber
                    }
                    precondition(
                        preferred == number, "\(holders.count) shares have number \(number)")
                }
            }
        }
    }

    private func checkAudiences() {
        var places = 0
        for audience in routing.audiences.places
        where routing.audiences.contains(audience) && audience != routing.mergedAudience
            && audience != routing.chosenAudience
        {
            for subscriber in routing.audiences[audience].subscribers {
                precondition(
                    routing.subscriptions[subscriber.subscription].audience == audience,
                    "a subscriber has its subscription")
                precondition(
                    subscriber.connection == liveConnection(of: subscriber.session),
                    "an audience knows who is online")
                places += 1
            }
        }
        precondition(places == routing.subscriptions.count, "a subscription has one place")
        checkShares()
        precondition(
            routing.mergePlaces.allSatisfy { $0 == 0 },
            "no session stands where audiences are merged")
    }

    // MARK: - Groups and wills

    private func checkGroups() {
        var places = 0
        for group in groupTable.groups.places where groupTable.groups.contains(group) {
            precondition(
                !groupTable.groups[group].memberships.isEmpty, "a group ends with its last member")
            var previous: [UInt8] = []
            for index in groupTable.groups[group].memberships {
                let name = registry.users[groupTable.memberships[index].user].name
                precondition(
                    groupTable.memberships[index].group == group, "a list holds its own members")
                precondition(
                    previous.lexicographicallyPrecedes(name), "members are in the order of ids")
                check(membership: index)
                previous = Array(name)
                places += 1
            }
        }
        precondition(places == groupTable.memberships.count, "a membership has one place")
    }

    private func check(membership index: Index<Membership>) {
        let membership = groupTable.memberships[index]
        precondition(
            self.membership(of: membership.user, in: membership.group) == index,
            "a user finds its groups")
        let isWaiting = membership.waitingPosition != Membership.notWaiting
        precondition(
            isWaiting == self.isWaiting(index),
            "group messages wait for whom no session receives")
        precondition(
            !isWaiting
                || groupTable.groups[membership.group].waiting[Int(membership.waitingPosition)]
                    == index,
            "who waits knows its place")
        let address = self.audience(
            ofAddress: .group, groupTable.groups[membership.group].name,
            app: groupTable.groups[membership.group].app)
        var hearerCount: UInt32 = 0
        forEachSession(of: membership.user) { session in
            if let address, subscription(of: session, audience: address) != nil {
                hearerCount += 1
            }
        }
        precondition(
            hearerCount == membership.hearerCount,
            "a membership counts the sessions that subscribe to its group")
        let audience = groupTable.groups[membership.group].audience
        forEachSession(of: membership.user) { session in
            var isListening = false
            forEachSubscription(of: session) {
                if routing.subscriptions[$0].audience == audience { isListening = true }
            }
            precondition(
                isListening != sessions[session].dialect.isMQTT,
                "a member's MRT sessions hear the group without asking")
        }
    }

    private func checkWills() {
        for session in sessions.places
        where sessions.contains(session) {
            guard let index = sessions[session].will else { continue }
            let will = willTable.wills[index]
            precondition(
                will.user == sessions[session].user && will.device == sessions[session].device,
                "a session has its own will")
            precondition(
                !sessions[session].isConnected || will.token == .none,
                "no will runs while its device is there")
        }
        for index in commits.pendingBatch.firedWills {
            precondition(
                willTable.wills.contains(index), "a will is kept until its message is stored")
        }
    }

    // MARK: - Queues

    private func checkQueues() {
        var waiting: UInt64 = 0
        var owners = 0
        for session in sessions.places
        where sessions.contains(session) && sessions[session].isPersistent {
            guard case .session(session)? = owner(of: sessions[session].inbox.queue) else {
                preconditionFailure("a session owns its queue")
            }
            waiting += UInt64(sessions[session].inbox.count)
            owners += 1
        }
        for user in registry.users.places
        where registry.users.contains(user) {
            guard let offlineQueue = registry.users[user].offlineQueue else { continue }
            guard case .offlineQueue(user)? = owner(of: queues.offlineQueues[offlineQueue].queue)
            else {
                preconditionFailure("an offline queue owns its queue")
            }
            waiting += UInt64(queues.offlineQueues[offlineQueue].count)
            owners += 1
        }
        for leftover in queues.leftovers.places where queues.leftovers.contains(leftover) {
            waiting += queues.leftovers[leftover].count
            owners += 1
        }
        owners +=
            commits.pendingBatch.inheritedQueues.count + commits.inFlightBatch.inheritedQueues.count
        precondition(
            owners == queues.queueOwners.count + queues.sessionQueues.count, "a queue has one owner"
        )
        precondition(waiting == queues.queuedCount, "all that waits is counted")
        var trimmed: [UInt64: UInt64] = [:]
        for trim in commits.pendingBatch.trims {
            trimmed[trim.queue.raw, default: 0] += trim.amount.count
        }
        if commits.isCommitting {
            for trim in commits.inFlightBatch.trims {
                trimmed[trim.queue.raw, default: 0] += trim.amount.count
            }
        }
        precondition(
            queues.pendingTrims.mapValues(\.amount.count) == trimmed,
            "a trim is pending until it is answered")
    }

    // MARK: - Messages

    /// What is known of one message from the places that point at it.
    private struct Mentions {
        var references: UInt32 = 0
        var unsettled: UInt32 = 0
        var entriesInPending: UInt32 = 0
    }

    private func checkMessages() {
        var mentions: [Index<Message>: Mentions] = [:]
        for connected in live.connectedSessions.places
        where live.connectedSessions.contains(connected) {
            for position in 0..<live.connectedSessions[connected].window.count {
                let entry = live.connectedSessions[connected].window[position]
                mentions[entry.message, default: Mentions()].references += 1
                if entry.isUnstored { mentions[entry.message]!.unsettled += 1 }
            }
        }
        note(commits.pendingBatch, isPending: true, &mentions)
        if commits.isCommitting { note(commits.inFlightBatch, isPending: false, &mentions) }
        for message in memory.messages.places where memory.messages.contains(message) {
            check(message: message, mentions[message] ?? Mentions())
        }
        var inMemoryQueue = 0
        for message in memory.messages.places
        where memory.messages.contains(message) && memory.messages[message].isInMemoryQueue {
            inMemoryQueue += memory.messages[message].blockByteCount
        }
        precondition(inMemoryQueue == memory.memoryQueueByteCount, "what sessions hold is counted")
        for (identifier, message) in memory.residentMessages {
            precondition(
                memory.messages[message].identifier == identifier
                    && memory.messages[message].batch == 0,
                "a resident message is in the store")
        }
    }

    private func note(
        _ batch: borrowing PendingBatch, isPending: Bool,
        _ mentions: inout [Index<Message>: Mentions]
    ) {
        for message in batch.messages {
            precondition(
                memory.messages[message].batch == batch.sequence, "a message knows its batch")
            mentions[message, default: Mentions()].references += 1
        }
        for (_, entry) in batch.handovers {
            mentions[entry.message, default: Mentions()].references += 1
        }
        for entry in batch.entries where !entry.isSettled {
            mentions[entry.message, default: Mentions()].unsettled += 1
            if isPending { mentions[entry.message]!.entriesInPending += 1 }
        }
    }

    private func check(message: Index<Message>, _ mentions: Mentions) {
        precondition(
            memory.messages[message].references == mentions.references && mentions.references > 0,
            "a message lives as long as it is needed")
        // An outbox row of grade *once* that must be committed with it is waited for like a
        // receiver.
        let mayAwaitRow =
            memory.messages[message].grade == .once && memory.messages[message].batch != 0
        let rowCount = memory.messages[message].awaitsRow ? 1 : 0
        let rows = Int(memory.messages[message].unsettled) - Int(mentions.unsettled) - rowCount
        precondition(rows == 0 || (rows == 1 && mayAwaitRow), "a send waits for its receivers")
        let batch = memory.messages[message].batch
        precondition(
            batch == 0 || batch == commits.pendingSequence
                || (commits.isCommitting && batch == commits.inFlightBatch.sequence),
            "a message is in a batch that there is")
        if batch == commits.pendingSequence {
            precondition(
                memory.messages[message].pendingEntries == mentions.entriesInPending,
                "a message knows how many entries will point at it")
        }
    }
}
