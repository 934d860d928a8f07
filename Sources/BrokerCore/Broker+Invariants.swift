// The invariants of the core between any two events. Tests and the simulation check them after
// every step. The checks walk over everything, so no running broker calls them.

import Primitives

extension Broker {
    /// Traps if a sum, a reference or a chain is inconsistent.
    package func checkInvariants() {
        checkUsers()
        checkKeys()
        checkConnectedSessions()
        routing.checkInvariants()
        checkAudiences()
        checkShareNumbers()
        checkQueues()
        checkMessages()
        checkGroups()
        checkWills()
        sendKeys.checkInvariants()
        tracking.checkInvariants()
        wakes.checkInvariants()
        wakeReports.checkInvariants()
        moderation.checkInvariants()
        checkConversations()
        checkCounts()
        for session in sessions.places where sessions.contains(session) {
            check(session: session)
        }
    }

    // MARK: - Keys

    private func checkKeys() {
        var count = 0
        for app in registry.apps.places where registry.apps.contains(app) {
            let keys = registry.apps[app].keys
            expect(keys.count, atMost: CoreLimits.appKeysMaximum, "keys of app \(app.place)")
            count += keys.count
            for handle in keys {
                guard let entry = registry.keys[handle] else {
                    preconditionFailure("app \(app.place) has a key that was revoked")
                }
                expect(entry.app.place, equals: app.place, "the app of key \(entry.key.name)")
                precondition(
                    registry.keys.find(entry.key.digest) == handle,
                    "key \(entry.key.name) is not found by its digest")
            }
        }
        expect(registry.keys.count, equals: count, "keys of all apps")
    }

    // MARK: - Sessions

    private func checkCounts() {
        var filterCount = 0
        var (sessionCounts, connectionCounts) = ([Index<App>: Int](), [Index<App>: Int]())
        for session in sessions.places where sessions.contains(session) {
            filterCount += Int(sessions[session].filterCount)
            let app = registry.users[sessions[session].user].app
            sessionCounts[app, default: 0] += 1
            if sessions[session].isConnected { connectionCounts[app, default: 0] += 1 }
        }
        expect(routing.filterCount, equals: filterCount, "filters of all sessions")
        for app in registry.apps.places where registry.apps.contains(app) {
            expect(
                registry.apps[app].sessionCount, equals: sessionCounts[app] ?? 0,
                "sessions of app \(app.place)")
            expect(
                registry.apps[app].connectionCount, equals: connectionCounts[app] ?? 0,
                "connected sessions of app \(app.place)")
        }
    }

    private func check(session: Index<Session>) {
        let isConnected = sessions[session].isConnected
        precondition(
            sessions[session].isPersistent || isConnected,
            "session \(session.place) is in memory only, and not connected")
        expect(
            sessions[session].expiryToken != .none,
            equals: !isConnected && sessions[session].expirySeconds != .max,
            "the deadline of session \(session.place), connected: \(isConnected)")
        expect(
            sessions[session].disconnected == .never, equals: isConnected,
            "session \(session.place) without a time of its disconnection")
        expect(
            sessions[session].inbox.nextNumber, above: sessions[session].inbox.acknowledgedThrough,
            "the next number of session \(session.place)")
        if sessions[session].isPersistent {
            expect(
                sessions[session].inbox.nextNumber,
                atMost: sessions[session].reservationRequested + 1,
                "the next number of session \(session.place)")
        }
        expect(
            sessions[session].reservedThrough, atMost: sessions[session].reservationRequested,
            "reserved numbers of session \(session.place)")
        checkOutbox(of: session)
        checkSubscriptions(of: session)
        let isListed = commits.pendingBatch.dirtySessions.contains(sessions.handle(session))
        expect(
            isListed, equals: !sessions[session].dirty.isEmpty,
            "session \(session.place) in the list of changed sessions")
    }

    private func checkOutbox(of session: Index<Session>) {
        var last = sessions[session].resultsSeenThrough
        var identifierCount = 0
        for position in 0..<sessions[session].outbox.count {
            let entry = sessions[session].outbox[position]
            expect(entry.number, above: last, "the outbox of session \(session.place)")
            last = entry.number
            checkPublication(entry, of: session)
            if entry.grade == .once && entry.packetIdentifier > 0 { identifierCount += 1 }
        }
        guard sessions[session].senderState.exists else { return }
        for entry in sessions[session].senderState.value.interrupted.all {
            expect(
                sessions[session].senderState.value.interrupted.number(of: entry.packetIdentifier),
                equals: entry.number, "interrupted publication \(entry.packetIdentifier)")
            precondition(
                !entry.isComplete, "publication \(entry.packetIdentifier) is complete, and kept")
            checkPublication(entry, of: session)
            identifierCount += 1
        }
        let identifiers = sessions[session].senderState.value.identifiers
        expect(
            identifiers.count, equals: identifierCount + identifiers.answeredCount,
            "packet identifiers in use by session \(session.place)")
    }

    private func checkPublication(_ entry: OutboxEntry, of session: Index<Session>) {
        guard entry.grade == .once && entry.packetIdentifier > 0 else { return }
        expect(
            sessions[session].senderState.value.identifiers[entry.packetIdentifier],
            equals: .underWay, "publication \(entry.packetIdentifier)")
    }

    private func checkSubscriptions(of session: Index<Session>) {
        var index = sessions[session].firstSubscription
        var filterCount: UInt32 = 0
        while let current = index {
            let subscription = routing.subscriptions[current]
            expect(
                subscription.session.place, equals: session.place,
                "the session of subscription \(current.place)")
            expect(
                routing.subscriber(of: current).subscription.place, equals: current.place,
                "the place of subscription \(current.place)")
            if !routing.audiences[subscription.audience].filter.isEmpty { filterCount += 1 }
            index = subscription.next
        }
        expect(
            sessions[session].filterCount, equals: filterCount,
            "filters of session \(session.place)")
    }

    private func checkUsers() {
        var chained = 0
        for user in registry.users.places where registry.users.contains(user) {
            forEachSession(of: user) { session in
                expect(
                    sessions[session].user.place, equals: user.place,
                    "the user of session \(session.place)")
                chained += 1
            }
            precondition(
                registry.users[user].offlineQueue == nil || !hasPersistentReceiver(user),
                "user \(user.place) has an offline queue and a session that inherits it")
        }
        expect(chained, equals: sessions.count, "sessions in the chains of their users")
    }

    // MARK: - Connections

    private func checkConnectedSessions() {
        expect(live.connectedSessions.count, equals: live.connections.count, "connected sessions")
        expect(live.accesses.count, equals: live.connectedSessions.count, "accesses")
        for index in live.connectedSessions.places where live.connectedSessions.contains(index) {
            let session = live.connectedSessions[index].session
            expect(
                sessions[session].connected?.place, equals: index.place,
                "the connected half of session \(session.place)")
            expect(
                live.connections[live.connectedSessions[index].connection]?.place,
                equals: session.place,
                "the session of \(live.connectedSessions[index].connection)")
            expect(
                live.accesses[access(of: session)].session?.place, equals: session.place,
                "the session of access \(access(of: session).place)")
            checkWindow(of: index, session)
        }
    }

    private func checkWindow(of connected: Index<ConnectedSession>, _ session: Index<Session>) {
        var last = sessions[session].inbox.acknowledgedThrough
        var byteCount = 0
        for position in 0..<live.connectedSessions[connected].window.count {
            let entry = live.connectedSessions[connected].window[position]
            expect(entry.number, above: last, "the window of session \(session.place)")
            precondition(
                memory.messages.contains(entry.message),
                "message \(entry.message.place) of a window is not in memory")
            last = entry.number
            byteCount += Int(entry.byteCount)
            if position == Int(live.connectedSessions[connected].sentCount) - 1 {
                expect(
                    entry.number, atMost: live.connectedSessions[connected].sentThrough,
                    "the last sent number of session \(session.place)")
            }
        }
        expect(
            last, atMost: live.connectedSessions[connected].loadedThrough,
            "the last number in the window of session \(session.place)")
        expect(
            byteCount, equals: live.connectedSessions[connected].windowByteCount,
            "bytes in the window of session \(session.place)")
        expect(
            live.connectedSessions[connected].sentCount,
            atMost: live.connectedSessions[connected].windowMaximum,
            "sent messages of session \(session.place)")
        expect(
            Int(live.connectedSessions[connected].sentCount),
            atMost: live.connectedSessions[connected].window.count,
            "sent messages of session \(session.place)")
        let backlogCount = live.connectedSessions[connected].backlogCount
        expect(
            live.connectedSessions[connected].window.count + Int(backlogCount),
            equals: Int(sessions[session].inbox.count),
            "messages in the window and the backlog of session \(session.place)")
        if !sessions[session].isPersistent {
            expect(backlogCount, equals: 0, "the backlog of session \(session.place) in memory")
        }
    }

    // MARK: - Audiences

    private func checkAudiences() {
        for subscription in routing.subscriptions.places
        where routing.subscriptions.contains(subscription) {
            let subscriber = routing.subscriber(of: subscription)
            expect(
                subscriber.connection, equals: liveConnection(of: subscriber.session),
                "the connection of subscription \(subscription.place)")
        }
    }

    /// No two shares of an app have the same number, unless both have it from a store of an earlier
    /// version, where it was a hash.
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
            expect(
                registry.apps[app].shareNumbers, equals: numbers.mapValues { UInt16($0.count) },
                "share numbers of app \(app.place)")
            for (number, holders) in numbers where holders.count > 1 {
                for audience in holders {
                    let preferred = routing.audiences[audience].filter.withUnsafeBytes {
                        SharedFilter($0)?.preferredNumber
                    }
                    expect(
                        number, equals: preferred ?? 0, "the number of \(holders.count) shares")
                }
            }
        }
    }

    // MARK: - Groups and wills

    private func checkGroups() {
        var (memberCount, openCount) = (0, 0)
        for group in groupTable.groups.places where groupTable.groups.contains(group) {
            let isOpen = groupTable.groups[group].allowed == nil
            precondition(
                groupTable.isOpen(group) == isOpen,
                "group \(group.place) is among the open ones: \(groupTable.isOpen(group))")
            openCount += isOpen ? 1 : 0
            precondition(
                !groupTable.groups[group].memberships.isEmpty,
                "group \(group.place) has no members")
            var previous: [UInt8] = []
            for index in groupTable.groups[group].memberships {
                let name = registry.users[groupTable.memberships[index].user].name
                expect(
                    groupTable.memberships[index].group.place, equals: group.place,
                    "the group of membership \(index.place)")
                precondition(
                    previous.lexicographicallyPrecedes(name),
                    "member \(Array(name)) follows \(previous)")
                check(membership: index)
                previous = Array(name)
                memberCount += 1
            }
        }
        expect(memberCount, equals: groupTable.memberships.count, "members of all groups")
        expect(openCount, equals: groupTable.openCount, "groups that everybody may join")
    }

    private func check(membership index: Index<Membership>) {
        let membership = groupTable.memberships[index]
        expect(
            self.membership(of: membership.user, in: membership.group)?.place,
            equals: index.place, "the membership of user \(membership.user.place)")
        let isWaiting = membership.waitingPosition != Membership.notWaiting
        expect(isWaiting, equals: self.isWaiting(index), "membership \(index.place) waits")
        if isWaiting {
            let position = Int(membership.waitingPosition)
            expect(
                groupTable.groups[membership.group].waiting[position].place, equals: index.place,
                "the member that waits at \(position)")
        }
        let address = self.audience(
            ofAddress: .group, groupTable.groups[membership.group].name,
            app: groupTable.groups[membership.group].app)
        var receiverCount: UInt32 = 0
        forEachSession(of: membership.user) { session in
            if let address, subscription(of: session, audience: address) != nil {
                receiverCount += 1
            }
        }
        expect(
            membership.receiverCount, equals: receiverCount,
            "sessions of membership \(index.place) that subscribe to the group")
        let audience = groupTable.groups[membership.group].audience
        forEachSession(of: membership.user) { session in
            var isListening = false
            forEachSubscription(of: session) {
                if routing.subscriptions[$0].audience == audience { isListening = true }
            }
            // A member's MRT sessions receive the messages of the group without a subscription.
            expect(
                isListening, equals: !sessions[session].dialect.isMQTT,
                "session \(session.place) in the audience of its group")
        }
    }

    private func checkWills() {
        for session in sessions.places
        where sessions.contains(session) {
            guard let index = sessions[session].will else { continue }
            let will = willTable.wills[index]
            precondition(
                will.user == sessions[session].user && will.device == sessions[session].device,
                "session \(session.place) has the will of another device")
            precondition(
                !sessions[session].isConnected || will.token == .none,
                "the delay of will \(index.place) runs while its device is connected")
        }
        for index in commits.pendingBatch.firedWills {
            precondition(
                willTable.wills.contains(index),
                "will \(index.place) ended before its message was stored")
        }
    }

    // MARK: - Queues

    private func checkQueues() {
        var (waiting, waitingBytes) = (UInt64(0), UInt64(0))
        var owners = 0
        for session in sessions.places
        where sessions.contains(session) && sessions[session].isPersistent {
            guard case .session(session)? = owner(of: sessions[session].inbox.queue) else {
                preconditionFailure("session \(session.place) does not own its queue")
            }
            waiting += UInt64(sessions[session].inbox.count)
            waitingBytes += sessions[session].inbox.byteCount
            owners += 1
        }
        for user in registry.users.places
        where registry.users.contains(user) {
            guard let offlineQueue = registry.users[user].offlineQueue else { continue }
            guard case .offlineQueue(user)? = owner(of: queues.offlineQueues[offlineQueue].queue)
            else {
                preconditionFailure("user \(user.place) does not own its offline queue")
            }
            waiting += UInt64(queues.offlineQueues[offlineQueue].count)
            waitingBytes += queues.offlineQueues[offlineQueue].byteCount
            owners += 1
        }
        for leftover in queues.leftovers.places where queues.leftovers.contains(leftover) {
            waiting += queues.leftovers[leftover].count
            waitingBytes += queues.leftovers[leftover].byteCount
            owners += 1
        }
        owners += conversationTable.conversations.count
        owners +=
            commits.pendingBatch.inheritedQueues.count + commits.inFlightBatch.inheritedQueues.count
        expect(
            queues.queueOwners.count + queues.sessionQueues.count, equals: owners,
            "queues with an owner")
        expect(queues.queuedCount, equals: waiting, "entries in all queues")
        expect(queues.queuedByteCount, equals: waitingBytes, "bytes of entries in all queues")
        var trimmed: [UInt64: UInt64] = [:]
        for trim in commits.pendingBatch.trims {
            trimmed[trim.queue.raw, default: 0] += trim.amount.count
        }
        if commits.isCommitting {
            for trim in commits.inFlightBatch.trims {
                trimmed[trim.queue.raw, default: 0] += trim.amount.count
            }
        }
        expect(queues.pendingTrims.mapValues(\.amount.count), equals: trimmed, "pending trims")
    }

    private func checkConversations() {
        conversationTable.checkInvariants()
        for reader in conversationTable.allReaders {
            precondition(
                mayRead(reader),
                "user \(reader.user.place) in conversation \(reader.conversation.place)")
        }
        for index in conversationTable.conversations.places
        where conversationTable.conversations.contains(index) {
            let conversation = conversationTable.conversations[index]
            guard case .conversation(index)? = owner(of: conversation.kept.queue) else {
                preconditionFailure("conversation \(index.place) does not own its queue")
            }
            expect(
                conversation.storedNumber, atMost: conversation.lastNumber,
                "the number in the row of conversation \(index.place)")
            precondition(
                conversation.kept.count > 0
                    || conversation.storedNumber == conversation.lastNumber,
                "conversation \(index.place) is empty, and its row has another last number")
        }
    }

    // MARK: - Messages

    /// The references to one message.
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
            }
        }
        note(commits.pendingBatch, isPending: true, &mentions)
        if commits.isCommitting { note(commits.inFlightBatch, isPending: false, &mentions) }
        for message in memory.messages.places where memory.messages.contains(message) {
            check(message: message, mentions[message] ?? Mentions())
        }
        var byteCount = 0
        for message in memory.messages.places
        where memory.messages.contains(message) && memory.messages[message].isInMemoryQueue {
            byteCount += memory.messages[message].blockByteCount
        }
        expect(memory.memoryQueueByteCount, equals: byteCount, "bytes in queues in memory")
        for (identifier, message) in memory.residentMessages {
            expect(
                memory.messages[message].identifier, equals: identifier,
                "resident message \(message.place)")
            expect(
                memory.messages[message].batch, equals: 0,
                "the batch of resident message \(message.place)")
        }
    }

    private func note(
        _ batch: borrowing PendingBatch, isPending: Bool,
        _ mentions: inout [Index<Message>: Mentions]
    ) {
        for message in batch.messages {
            expect(
                memory.messages[message].batch, equals: batch.sequence,
                "the batch of message \(message.place)")
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
        expect(
            memory.messages[message].references, equals: mentions.references,
            "references to message \(message.place)")
        expect(mentions.references, above: 0, "references to message \(message.place)")
        // A row of grade *once* that must be committed with the message counts like a receiver.
        let mayAwaitRow =
            memory.messages[message].grade == .once && memory.messages[message].batch != 0
        let rowCount =
            (memory.messages[message].awaitsRow ? 1 : 0)
            + (memory.messages[message].awaitsTracking ? 1 : 0)
        let rows = Int(memory.messages[message].unsettled) - Int(mentions.unsettled) - rowCount
        precondition(
            rows == 0 || (rows == 1 && mayAwaitRow),
            "message \(message.place) waits for \(rows) rows")
        let batch = memory.messages[message].batch
        precondition(
            batch == 0 || batch == commits.pendingSequence
                || (commits.isCommitting && batch == commits.inFlightBatch.sequence),
            "message \(message.place) is in batch \(batch), which does not exist")
        if batch == commits.pendingSequence {
            expect(
                memory.messages[message].pendingEntries, equals: mentions.entriesInPending,
                "entries of message \(message.place) in the pending batch")
        }
    }
}
