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

    /// Traps where a property of something does not hold.
    private func require<Subject>(
        _ holds: Bool, of subject: @autoclosure () -> Subject, _ property: StaticString
    ) {
        precondition(holds, "\(property): \(subject())")
    }

    /// Traps where what was found is not what a property says.
    private func expect<Value: Equatable>(
        _ found: Value, equals expected: Value, _ property: StaticString
    ) {
        precondition(found == expected, "\(property): \(found), not \(expected)")
    }

    // MARK: - Sessions

    private func check(session: Index<Session>) {
        let isConnected = sessions[session].isConnected
        require(
            sessions[session].isPersistent || isConnected, of: sessions.handle(session),
            "a session in memory is connected")
        expect(
            (sessions[session].expiryToken != .none),
            equals: (!isConnected && sessions[session].expirySeconds != .max),
            "who is away ends in time, who is here does not")
        expect(
            isConnected, equals: (sessions[session].disconnected == .never),
            "a session knows since when nobody is there")
        require(
            sessions[session].inbox.acknowledgedThrough < sessions[session].inbox.nextNumber,
            of: sessions.handle(session), "an acknowledged number was given")
        require(
            !sessions[session].isPersistent
                || sessions[session].inbox.nextNumber <= sessions[session].reservationRequested + 1,
            of: sessions.handle(session), "a number is reserved when it is given")
        require(
            sessions[session].reservedThrough <= sessions[session].reservationRequested,
            of: sessions.handle(session), "a reservation was asked for")
        checkOutbox(of: session)
        checkSubscriptions(of: session)
        let isListed = commits.pendingBatch.dirtySessions.contains(sessions.handle(session))
        expect(
            isListed, equals: !sessions[session].dirty.isEmpty, "a dirty session is written once")
    }

    private func checkOutbox(of session: Index<Session>) {
        var last = sessions[session].resultsSeenThrough
        var identifierCount = 0
        for position in 0..<sessions[session].outbox.count {
            let entry = sessions[session].outbox[position]
            require(
                entry.number > last, of: sessions.handle(session),
                "an outbox is in order, and behind what was seen")
            last = entry.number
            checkPublication(entry, of: session)
            if entry.grade == .once && entry.packetIdentifier > 0 { identifierCount += 1 }
        }
        guard sessions[session].senderState.exists else { return }
        for position in 0..<sessions[session].senderState.value.interrupted.count {
            let entry = sessions[session].senderState.value.interrupted[position]
            require(
                sessions[session].senderState.value.interruptedNumbers[entry.packetIdentifier]
                    == entry.number && !entry.isComplete, of: sessions.handle(session),
                "what was interrupted is found by its identifier until its fate is known")
            checkPublication(entry, of: session)
            identifierCount += 1
        }
        let identifiers = sessions[session].senderState.value.identifiers
        expect(
            identifiers.count, equals: identifierCount + identifiers.answeredCount,
            "an identifier in use names one publication")
    }

    private func checkPublication(_ entry: OutboxEntry, of session: Index<Session>) {
        guard entry.grade == .once && entry.packetIdentifier > 0 else { return }
        expect(
            sessions[session].senderState.value.identifiers[entry.packetIdentifier],
            equals: .underWay, "a publication under way has its identifier")
    }

    private func checkSubscriptions(of session: Index<Session>) {
        var index = sessions[session].firstSubscription
        var filters: UInt32 = 0
        while let current = index {
            let subscription = routing.subscriptions[current]
            expect(subscription.session, equals: session, "a chain holds its own subscriptions")
            let subscriber = routing.audiences[subscription.audience].subscribers[
                Int(subscription.position)]
            expect(subscriber.subscription, equals: index, "a subscription knows its place")
            if !routing.audiences[subscription.audience].filter.isEmpty { filters += 1 }
            index = subscription.next
        }
        expect(sessions[session].filterCount, equals: filters, "a session counts its filters")
    }

    private func checkUsers() {
        var chained = 0
        for user in registry.users.places where registry.users.contains(user) {
            forEachSession(of: user) { session in
                expect(sessions[session].user, equals: user, "a chain holds its own sessions")
                chained += 1
            }
            require(
                registry.users[user].offlineQueue == nil || !hasPersistentListener(user), of: user,
                "messages wait only where no session inherits it")
        }
        expect(chained, equals: sessions.count, "every session is in its user's chain")
    }

    // MARK: - Connections

    private func checkConnectedSessions() {
        expect(
            live.connectedSessions.count, equals: live.connections.count,
            "a connection has one session")
        expect(
            live.accesses.count, equals: live.connectedSessions.count, "a connection has one access"
        )
        for index in live.connectedSessions.places where live.connectedSessions.contains(index) {
            let session = live.connectedSessions[index].session
            expect(
                sessions[session].connected, equals: index, "a connected session has its session")
            expect(
                live.connections[live.connectedSessions[index].connection], equals: session,
                "a connection leads to its session")
            expect(
                live.accesses[access(of: session)].session, equals: session,
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
            require(
                entry.number > last, of: sessions.handle(session),
                "a window is in order, and unacknowledged")
            require(
                memory.messages.contains(entry.message), of: sessions.handle(session),
                "a window holds messages")
            last = entry.number
            byteCount += Int(entry.byteCount)
            if position == Int(live.connectedSessions[connected].sentCount) - 1 {
                require(
                    entry.number <= live.connectedSessions[connected].sentThrough,
                    of: sessions.handle(session), "what was sent is counted")
            }
        }
        require(
            last <= live.connectedSessions[connected].loadedThrough, of: sessions.handle(session),
            "a window ends where the backlog begins")
        expect(
            byteCount, equals: live.connectedSessions[connected].windowByteCount,
            "a window knows its size")
        require(
            live.connectedSessions[connected].sentCount
                <= live.connectedSessions[connected].windowMaximum
                && Int(live.connectedSessions[connected].sentCount)
                    <= live.connectedSessions[connected].window.count,
            of: sessions.handle(session), "no more is sent than the client takes")
        expect(
            live.connectedSessions[connected].window.count
                + Int(live.connectedSessions[connected].backlogCount),
            equals: Int(sessions[session].inbox.count), "what waits is in the window or behind it")
        require(
            sessions[session].isPersistent || live.connectedSessions[connected].backlogCount == 0,
            of: sessions.handle(session), "a session in memory has nothing on disk")
    }

    private func checkShares() {
        var count = 0
        for set in routing.shareSets.places where routing.shareSets.contains(set) {
            for (position, audience) in routing.shareSets[set].audiences.enumerated() {
                require(
                    routing.audiences[audience].shareSet == set
                        && routing.audiences[audience].sharePosition == position, of: audience,
                    "a share knows its place")
                let isPresent = routing.audiences[audience].subscribers.contains {
                    $0.connection != .none
                }
                expect(
                    isPresent, equals: (position < routing.shareSets[set].presentCount),
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
                expect(
                    routing.subscriptions[subscriber.subscription].audience, equals: audience,
                    "a subscriber has its subscription")
                expect(
                    subscriber.connection, equals: liveConnection(of: subscriber.session),
                    "an audience knows who is online")
                places += 1
            }
        }
        expect(places, equals: routing.subscriptions.count, "a subscription has one place")
        checkShares()
        require(
            routing.mergePlaces.allSatisfy { $0 == 0 }, of: routing.mergePlaces.count,
            "no session stands where audiences are merged")
    }

    // MARK: - Groups and wills

    private func checkGroups() {
        var places = 0
        for group in groupTable.groups.places where groupTable.groups.contains(group) {
            require(
                !groupTable.groups[group].memberships.isEmpty, of: group,
                "a group ends with its last member")
            var previous: [UInt8] = []
            for index in groupTable.groups[group].memberships {
                let name = registry.users[groupTable.memberships[index].user].name
                expect(
                    groupTable.memberships[index].group, equals: group,
                    "a list holds its own members")
                require(
                    previous.lexicographicallyPrecedes(name), of: group,
                    "members are in the order of ids")
                check(membership: index)
                previous = Array(name)
                places += 1
            }
        }
        expect(places, equals: groupTable.memberships.count, "a membership has one place")
    }

    private func check(membership index: Index<Membership>) {
        let membership = groupTable.memberships[index]
        expect(
            self.membership(of: membership.user, in: membership.group), equals: index,
            "a user finds its groups")
        let isWaiting = membership.waitingPosition != Membership.notWaiting
        expect(
            isWaiting, equals: self.isWaiting(index),
            "group messages wait for whom no session receives")
        require(
            !isWaiting
                || groupTable.groups[membership.group].waiting[Int(membership.waitingPosition)]
                    == index,
            of: membership, "who waits knows its place")
        let address = self.audience(
            ofAddress: .group, groupTable.groups[membership.group].name,
            app: groupTable.groups[membership.group].app)
        var hearerCount: UInt32 = 0
        forEachSession(of: membership.user) { session in
            if let address, subscription(of: session, audience: address) != nil {
                hearerCount += 1
            }
        }
        expect(
            hearerCount, equals: membership.hearerCount,
            "a membership counts the sessions that subscribe to its group")
        let audience = groupTable.groups[membership.group].audience
        forEachSession(of: membership.user) { session in
            var isListening = false
            forEachSubscription(of: session) {
                if routing.subscriptions[$0].audience == audience { isListening = true }
            }
            require(
                isListening != sessions[session].dialect.isMQTT, of: membership,
                "a member's MRT sessions hear the group without asking")
        }
    }

    private func checkWills() {
        for session in sessions.places
        where sessions.contains(session) {
            guard let index = sessions[session].will else { continue }
            let will = willTable.wills[index]
            require(
                will.user == sessions[session].user && will.device == sessions[session].device,
                of: index, "a session has its own will")
            require(
                !sessions[session].isConnected || will.token == .none, of: index,
                "no will runs while its device is there")
        }
        for index in commits.pendingBatch.firedWills {
            require(
                willTable.wills.contains(index), of: index,
                "a will is kept until its message is stored")
        }
    }

    // MARK: - Queues

    private func checkQueues() {
        var waiting: UInt64 = 0
        var owners = 0
        for session in sessions.places
        where sessions.contains(session) && sessions[session].isPersistent {
            guard case .session(session)? = owner(of: sessions[session].inbox.queue) else {
                preconditionFailure("session \(session.place) does not own its queue")
            }
            waiting += UInt64(sessions[session].inbox.count)
            owners += 1
        }
        for user in registry.users.places
        where registry.users.contains(user) {
            guard let offlineQueue = registry.users[user].offlineQueue else { continue }
            guard case .offlineQueue(user)? = owner(of: queues.offlineQueues[offlineQueue].queue)
            else {
                preconditionFailure("offline queue \(offlineQueue.place) does not own its queue")
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
        expect(
            owners, equals: queues.queueOwners.count + queues.sessionQueues.count,
            "a queue has one owner")
        expect(waiting, equals: queues.queuedCount, "all that waits is counted")
        var trimmed: [UInt64: UInt64] = [:]
        for trim in commits.pendingBatch.trims {
            trimmed[trim.queue.raw, default: 0] += trim.amount.count
        }
        if commits.isCommitting {
            for trim in commits.inFlightBatch.trims {
                trimmed[trim.queue.raw, default: 0] += trim.amount.count
            }
        }
        expect(
            queues.pendingTrims.mapValues(\.amount.count), equals: trimmed,
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
        expect(inMemoryQueue, equals: memory.memoryQueueByteCount, "what sessions hold is counted")
        for (identifier, message) in memory.residentMessages {
            require(
                memory.messages[message].identifier == identifier
                    && memory.messages[message].batch == 0, of: message,
                "a resident message is in the store")
        }
    }

    private func note(
        _ batch: borrowing PendingBatch, isPending: Bool,
        _ mentions: inout [Index<Message>: Mentions]
    ) {
        for message in batch.messages {
            expect(
                memory.messages[message].batch, equals: batch.sequence, "a message knows its batch")
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
        require(
            memory.messages[message].references == mentions.references && mentions.references > 0,
            of: message, "a message lives as long as it is needed")
        // An outbox row of grade *once* that must be committed with it is waited for like a
        // receiver.
        let mayAwaitRow =
            memory.messages[message].grade == .once && memory.messages[message].batch != 0
        let rowCount = memory.messages[message].awaitsRow ? 1 : 0
        let rows = Int(memory.messages[message].unsettled) - Int(mentions.unsettled) - rowCount
        require(
            rows == 0 || (rows == 1 && mayAwaitRow), of: message, "a send waits for its receivers")
        let batch = memory.messages[message].batch
        require(
            batch == 0 || batch == commits.pendingSequence
                || (commits.isCommitting && batch == commits.inFlightBatch.sequence), of: message,
            "a message is in a batch that there is")
        if batch == commits.pendingSequence {
            expect(
                memory.messages[message].pendingEntries, equals: mentions.entriesInPending,
                "a message knows how many entries will point at it")
        }
    }
}
