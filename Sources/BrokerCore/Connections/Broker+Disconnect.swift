// Going away: the end of a connection, and the end of a session some time after it.

import BrokerTerms
import Primitives

extension Broker {
    // MARK: - The end of a connection

    /// The broker gives a connection up: tells why and lets go of it.
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
        detach(session, willFate, in: &step)
    }

    mutating func connectionClosed(
        _ connection: ConnectionID, _ cause: CloseCause, in step: inout Step
    ) {
        guard let session = session(of: connection) else {
            forgetHeldLogin(of: connection)
            return
        }
        let reason: ReasonCode =
            switch cause {
            case .lost, .closedByBroker: .unspecifiedError
            case .keepAliveTimeout: .keepAliveTimeout
            case .outgoingOverflow: .quotaExceeded
            }
        note(.disconnected, session: session, reason: reason, in: &step)
        detach(session, .starts, in: &step)
    }

    /// A fault of the peer's ends its connection, before or after it was let in.
    mutating func peerFaulted(_ connection: ConnectionID, _ reason: ReasonCode, in step: inout Step)
    {
        if let session = session(of: connection) {
            close(session, reason, in: &step)
        } else {
            forgetHeldLogin(of: connection)
            counters.protocolErrors += 1
            step.effects[connection.loop].effects.append(.close(connection, reason))
        }
    }

    /// The client says good-bye; it is answered when what it changed is committed.
    mutating func disconnect(
        _ connection: ConnectionID, _ request: DisconnectRequest, in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        if sessions[session].dialect.isMQTT, sessions[session].expirySeconds == 0,
            request.sessionExpirySeconds ?? 0 > 0
        {
            // What ends with its connection cannot be kept after all (MQTT 5.0 section 3.14.2.2.2).
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
        detach(session, request.sendsWill ? .starts : .removed, in: &step)
    }

    /// What becomes of a session's will when its connection ends.
    enum WillFate {
        /// It is sent, now or after its delay.
        case starts
        /// It is forgotten.
        case removed
        /// It stays as it is, for the connection that takes the place of this one.
        case kept
    }

    /// Parts a session from its connection. What is under way goes back behind the window: it is in
    /// the store, or on its way there.
    private mutating func detach(
        _ session: Index<Session>, _ willFate: WillFate, in step: inout Step
    ) {
        let connected = connectedIndex(of: session)
        let wasConfirmed = live.connectedSessions[connected].isConfirmed
        suspendReplay(of: connected)
        sessions[session].sentThrough = max(
            sessions[session].sentThrough, live.connectedSessions[connected].sentThrough)
        forgetUnfinishedSends(of: session)
        let endsSession = !sessions[session].isPersistent || sessions[session].expirySeconds == 0
        handOverShares(of: session, endsSession: endsSession, in: &step)
        live.unbind(connected)
        emptyWindow(session)
        withdrawAccess(of: session)
        live.connectedSessions.remove(connected)
        sessions[session].connected = nil
        if wasConfirmed {
            registry.noteSeen(
                sessions[session].user, unixMilliseconds: step.moment.unixMilliseconds)
            announceConnection(of: session)
            // Where it is back already, it was never away.
            if willFate != .kept {
                announcePresence(of: session, isOnline: false, in: &step)
            }
        }
        // Most sessions never send again what they have seen answered: give the memory back.
        if sessions[session].outbox.isEmpty { sessions[session].outbox.removeAll() }
        if sessions[session].senderState.exists, sessions[session].senderState.value.isEmpty {
            sessions[session].senderState.reset()
        }
        if endsSession {
            // A session that ends here sends its will itself.
            if willFate != .starts { removeWill(of: session) }
            destroy(session, returnsUserMessages: true, in: &step)
            return
        }
        markDirty(session, .session, isUrgent: false)
        sessions[session].disconnected = step.moment.instant
        startExpiry(session)
        switch willFate {
        case .starts: startWill(of: session, in: &step)
        case .removed: removeWill(of: session)
        case .kept: break
        }
    }

    private mutating func emptyWindow(_ session: Index<Session>) {
        let connected = connectedIndex(of: session)
        while !live.connectedSessions[connected].window.isEmpty {
            let entry = live.connectedSessions[connected].remove(at: 0)
            if entry.isUnstored {
                countOut(session: session, count: 1, byteCount: UInt64(entry.byteCount))
            }
            memory.release(entry.message)
        }
    }

    // MARK: - The end of a session

    /// Ends a session that has no connection when its time comes.
    mutating func startExpiry(_ session: Index<Session>, notBefore earliest: Instant? = nil) {
        guard sessions[session].expirySeconds != .max else { return }
        sessions[session].expiryToken = deadlines.insert(
            .session(session),
            at: max(expiryDeadline(of: session), earliest ?? Instant(milliseconds: 0)))
    }

    /// When a session ends that is away.
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
        counters.sessionsExpired += 1
        note(.sessionExpired, session: session, reason: .success, in: &step)
        destroy(session, returnsUserMessages: true, in: &step)
    }

    /// Ends a session that has no connection. What waits in its queue goes back to waiting for the
    /// user when it was the user's last one, unless the user wanted it gone.
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
            let inbox = sessions[session].inbox
            queues.take(inbox.queue, from: session)
            leave(inbox, of: user, keepsUserMessages: returnsUserMessages && receivedUserMessages)
        }
        // A will does not outlive its session: its message is not for the session any more.
        fireWill(of: session, in: &step)
        sessions.remove(session)
        registry.countSession(of: user, isNew: false)
        updateWaiting(of: user)
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
