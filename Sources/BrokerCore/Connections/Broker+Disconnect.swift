// The end of a connection, and the end of a session, which may come much later.

import BrokerTerms
import Primitives

extension Broker {
    // MARK: - The end of a connection

    /// Closes a connection with a reason, and detaches its session.
    mutating func close(
        _ session: Index<Session>, _ reason: ReasonCode, willFate: WillFate = .starts,
        in step: inout Step
    ) {
        let connection = live.connectedSessions[connectedIndex(of: session)].connection
        switch reason {
        case .malformedPacket, .protocolError, .receiveMaximumExceeded, .packetTooLarge:
            counters.protocolErrors += 1
        default: break
        }
        step.effects[connection.loop].effects.append(.close(connection, reason))
        note(.disconnected, session: session, reason: reason, in: &step)
        if willFate == .starts { reportLoss(of: session, reason, at: step.moment) }
        detach(session, willFate, in: &step)
    }

    mutating func connectionClosed(
        _ connection: ConnectionID, _ cause: CloseCause, in step: inout Step
    ) {
        guard let session = session(of: connection) else {
            forgetDelayedLogin(of: connection)
            return
        }
        let reason: ReasonCode =
            switch cause {
            case .lost, .closedByBroker: .unspecifiedError
            case .keepAliveTimeout: .keepAliveTimeout
            case .outgoingOverflow: .quotaExceeded
            }
        note(.disconnected, session: session, reason: reason, in: &step)
        reportLoss(of: session, reason, at: step.moment)
        detach(session, .starts, in: &step)
    }

    /// Closes a connection because of a fault of the peer, before or after the login.
    mutating func peerFaulted(_ connection: ConnectionID, _ reason: ReasonCode, in step: inout Step)
    {
        if let session = session(of: connection) {
            close(session, reason, in: &step)
        } else {
            forgetDelayedLogin(of: connection)
            counters.protocolErrors += 1
            step.effects[connection.loop].effects.append(.close(connection, reason))
        }
    }

    /// Handles a DISCONNECT. It is answered when the changes of the session are committed.
    mutating func disconnect(
        _ connection: ConnectionID, _ request: DisconnectRequest, in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        if sessions[session].dialect.isMQTT, sessions[session].expirySeconds == 0,
            request.sessionExpirySeconds ?? 0 > 0
        {
            // A session that ends with its connection cannot become persistent (MQTT 5.0 section
            // 3.14.2.2.2).
            close(session, .protocolError, in: &step)
            return
        }
        if let expiry = request.sessionExpirySeconds, sessions[session].isPersistent {
            changeExpiry(session, min(expiry, limits.sessionExpirySecondsMaximum))
        }
        let hasWill = sessions[session].will != nil
        let batch = hasWill ? commits.pendingSequence : sessions[session].decisiveBatch
        if !commits.confirm(.disconnect(connection), after: batch) {
            step.effects[connection.loop].effects.append(.confirmDisconnect(connection))
        }
        note(.disconnected, session: session, reason: .success, in: &step)
        let logout = wakes.isEmpty ? nil : wakeLogout(of: session, request)
        detach(session, request.sendsWill ? .starts : .removed, in: &step)
        if let logout { noteLogout(of: logout.user, device: logout.device) }
    }

    /// What happens to a session's will when the connection ends.
    enum WillFate {
        /// The will is sent, now or after its delay.
        case starts
        /// The will is deleted.
        case removed
        /// The will remains, for the connection that replaces this one.
        case kept
    }

    /// Detaches a session from its connection. Entries of the window return to the queue; they are
    /// in the store or in the pending batch.
    private mutating func detach(
        _ session: Index<Session>, _ willFate: WillFate, in step: inout Step
    ) {
        let connected = connectedIndex(of: session)
        let wasConfirmed = live.connectedSessions[connected].isConfirmed
        suspendReplay(of: connected)
        sessions[session].sentThrough = max(
            sessions[session].sentThrough, live.connectedSessions[connected].sentThrough)
        if moderation.isOn { forgetHeld(of: session) }
        forgetUnfinishedSends(of: session)
        let endsSession = !sessions[session].isPersistent || sessions[session].expirySeconds == 0
        handOverShares(of: session, endsSession: endsSession, in: &step)
        live.unbind(connected)
        let loss = wakes.isEmpty || willFate == .kept ? nil : newestWaiting(in: session)
        emptyWindow(session)
        withdrawAccess(of: session)
        live.remove(connected)
        sessions[session].connected = nil
        if let loss { noteAbsence(loss, at: step.moment) }
        registry.countConnection(of: sessions[session].user, isNew: false)
        if wasConfirmed {
            registry.noteSeen(
                sessions[session].user, unixMilliseconds: step.moment.unixMilliseconds)
            announceConnection(of: session)
            // `kept` means that the same client has connected again, so it was never offline.
            if willFate != .kept {
                announcePresence(of: session, isOnline: false, in: &step)
            }
        }
        // Most sessions never repeat a send after they have seen its answer, so the memory is
        // released.
        if sessions[session].outbox.isEmpty { sessions[session].outbox.removeAll() }
        if sessions[session].senderState.exists, sessions[session].senderState.value.isEmpty {
            sessions[session].senderState.reset()
        }
        let isEnding = endsSession && beginsEnding(session)
        if endsSession, !isEnding {
            // The end of the session sends the will.
            if willFate != .starts { removeWill(of: session) }
            destroy(session, returnsUserMessages: true, in: &step)
            return
        }
        markDirty(session, .session, isUrgent: false)
        sessions[session].disconnected = step.moment.instant
        startExpiry(
            session,
            notBefore: isEnding
                ? step.moment.instant.advanced(bySeconds: CoreLimits.endingReadSeconds) : nil)
        switch willFate {
        case .starts: startWill(of: session, in: &step)
        case .removed: removeWill(of: session)
        case .kept: break
        }
    }

    private mutating func emptyWindow(_ session: Index<Session>) {
        let connected = connectedIndex(of: session)
        let areSendsTracked = !tracking.isEmpty
        while !live.connectedSessions[connected].window.isEmpty {
            let isSent = live.connectedSessions[connected].sentCount > 0
            let entry = live.connectedSessions[connected].remove(at: 0)
            if entry.isUnstored {
                countOut(session: session, count: 1, byteCount: UInt64(entry.byteCount))
            }
            if areSendsTracked, isSent, memory.messages[entry.message].hasFields {
                noteSent(entry.message, to: sessions[session].user)
            }
            memory.release(entry.message)
        }
    }

    // MARK: - The end of a session

    /// Schedules the end of a session that has no connection.
    mutating func startExpiry(_ session: Index<Session>, notBefore earliest: Instant? = nil) {
        guard sessions[session].expirySeconds != .max else { return }
        sessions[session].expiryToken = deadlines.insert(
            .session(session),
            at: max(expiryDeadline(of: session), earliest ?? Instant(milliseconds: 0)))
    }

    /// The time at which a session without a connection ends.
    func expiryDeadline(of session: Index<Session>) -> Instant {
        sessions[session].disconnected.advanced(
            bySeconds: UInt64(sessions[session].expirySeconds))
    }

    mutating func cancelExpiry(_ session: Index<Session>) {
        deadlines.cancel(sessions[session].expiryToken)
        sessions[session].expiryToken = .none
    }

    mutating func expire(session: Index<Session>, in step: inout Step) {
        sessions[session].expiryToken = .none
        if tracking.ending.isEmpty || tracking.ending[session] == nil {
            counters.sessionsExpired += 1
            let count = sessions[session].isPersistent ? sessions[session].inbox.count : 0
            note(
                .sessionExpired, session: session, reason: .success, about: Array("\(count)".utf8),
                limit: .none, in: &step)
            reportSessionExpiry(of: session, in: &step)
            if beginsEnding(session) {
                return startExpiry(
                    session,
                    notBefore: step.moment.instant.advanced(
                        bySeconds: CoreLimits.endingReadSeconds))
            }
        }
        destroy(session, returnsUserMessages: true, in: &step)
    }

    /// Ends a session that has no connection. `returnsUserMessages` keeps what waits in its queue
    /// for the user, see ``leave(_:of:keepsUserMessages:sentThrough:)``.
    mutating func destroy(_ session: Index<Session>, returnsUserMessages: Bool, in step: inout Step)
    {
        precondition(
            !sessions[session].isConnected, "session \(session.place) ends, which is connected")
        cancelExpiry(session)
        endReplay(of: session)
        let receivedUserMessages = sessions[session].receivesUserMessages
        while let subscription = sessions[session].firstSubscription {
            forgetSubscription(subscription)
        }
        let user = sessions[session].user
        unlink(session, from: user)
        if sessions[session].isPersistent {
            let identifier = sessions[session].identifier
            for table in [RecordTable.sessions, .outboxes] {
                commits.remove(table, key: RecordKey.number(identifier))
            }
            deleteSends(of: session)
            if !tracking.resumed.isEmpty { clearResumed(session) }
            let inbox = sessions[session].inbox
            queues.take(inbox.queue, from: session)
            leave(
                inbox, of: user, keepsUserMessages: returnsUserMessages && receivedUserMessages,
                sentThrough: sessions[session].sentThrough)
        }
        // A will does not outlive its session.
        fireWill(of: session, in: &step)
        setPulling(false, of: session)
        sessions.remove(session)
        registry.countSession(of: user, isNew: false)
        updateWaiting(of: user)
        giveBackIfUnnamed(user)
    }

    private mutating func unlink(_ session: Index<Session>, from user: Index<User>) {
        let next = sessions[session].nextOfUser
        if registry.users[user].firstSession == session {
            registry.setFirstSession(next, of: user)
            return
        }
        var previous = registry.users[user].firstSession
        while let earlier = previous {
            previous = sessions[earlier].nextOfUser
            guard previous == session else { continue }
            sessions[earlier].nextOfUser = next
            return
        }
    }
}
