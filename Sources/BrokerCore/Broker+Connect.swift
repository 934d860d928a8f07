// Logging in, being replaced, going away: the life of connections and of the sessions behind them.

import Primitives

/// Why a claim lets nobody in.
struct ConnectRefusal: Error {
    let reason: ReasonCode
    var retryAfterSeconds: UInt32 = 0
}

extension Broker {
    // MARK: - In

    mutating func connect(
        _ connection: ConnectionID, _ request: ConnectRequest, _ bytes: UnsafeRawBufferPointer,
        _ moment: Moment, _ effects: inout Effects
    ) {
        let device = Array(request.device.bytes(in: bytes))
        let identity: Identity
        switch authenticate(request.claim, from: connection, device: device, bytes, moment) {
        case .success(let known): identity = known
        case .failure(let refusal):
            refuseConnect(connection, refusal.reason, request, bytes, &effects)
            return
        }
        let user = knownUser(identity.user, app: identity.app)
        let existing = users[user].sessions.first { sessions[$0].device == device }
        if existing == nil && users[user].sessions.count >= limits.sessionsPerUserMaximum {
            refuseConnect(connection, .quotaExceeded, request, bytes, &effects)
            return
        }
        if let existing, let resume = request.resume, !request.startsClean,
            resume.epoch == sessions[existing].epoch,
            resume.number > sessions[existing].reservationRequested
        {
            // It holds a number that was never given: it is not this session's device, or its flash
            // is not what it was.
            refuseConnect(connection, .protocolError, request, bytes, &effects)
            return
        }
        if let existing, sessions[existing].isConnected {
            if let refusal = takeOver(existing, from: connection, request, moment, &effects) {
                refuseConnect(
                    connection, refusal.reason, request, bytes,
                    retryAfterSeconds: refusal.retryAfterSeconds, &effects)
                return
            }
        }
        removeOrphanWill(ofUser: user, device: device)
        let (session, mustCommit) = attach(
            connection, request, identity.access, user: user, device: device, moment, &effects)
        if mustCommit {
            gathering.confirmations.append(.accept(connection))
        } else {
            accept(session, moment, &effects)
        }
    }

    /// Somebody logs in on a device that is connected. Whoever has the cookie replaces its own
    /// ghost; an explicit login takes the session over; an automatic one is refused, so that two
    /// devices with one name do not throw each other out for ever (L31–L33). Nil when the way is
    /// free.
    private mutating func takeOver(
        _ session: UInt32, from connection: ConnectionID, _ request: ConnectRequest,
        _ moment: Moment, _ effects: inout Effects
    ) -> ConnectRefusal? {
        if let cookie = request.cookie, cookie == sessions[session].cookie {
            close(session, .sessionTakenOver, willFate: .kept, moment, &effects)
            return nil
        }
        if request.isReconnect {
            note(.duplicateLogin, session, .sessionTakenOver, other: connection, &effects)
            return ConnectRefusal(reason: .sessionTakenOver)
        }
        if let seconds = sessions[session].takeovers.add(at: moment.instant) {
            note(.duplicateLogin, session, .connectionRateExceeded, other: connection, &effects)
            return ConnectRefusal(
                reason: .connectionRateExceeded, retryAfterSeconds: seconds)
        }
        counters.takeovers += 1
        note(.takenOver, session, .sessionTakenOver, other: connection, &effects)
        close(session, .sessionTakenOver, moment, &effects)
        return nil
    }

    private mutating func refuseConnect(
        _ connection: ConnectionID, _ reason: ReasonCode, _ request: ConnectRequest,
        _ bytes: UnsafeRawBufferPointer, retryAfterSeconds: UInt32 = 0,
        _ effects: inout Effects
    ) {
        counters.connectsRefused += 1
        let lane = connection.lane
        let claimed: UnsafeRawBufferPointer
        switch request.claim {
        case .token(let identifier, _): claimed = identifier.bytes(in: bytes)
        case .appKey(_, _, let user), .anonymous(let user): claimed = user.bytes(in: bytes)
        case .verified: claimed = UnsafeRawBufferPointer(start: nil, count: 0)
        }
        effects[lane].effects.append(
            .note(
                Note(
                    kind: .connectRefused, connection: connection, reason: reason,
                    user: effects[lane].bytes.append(claimed),
                    device: effects[lane].bytes.append(request.device.bytes(in: bytes)),
                    subject: .empty, other: .none)))
        effects[lane].effects.append(
            .refuse(connection, reason, retryAfterSeconds: retryAfterSeconds))
    }

    /// Binds a connection to its session, old or new; says whether the client must hear of it only
    /// after a commit.
    private mutating func attach(
        _ connection: ConnectionID, _ request: ConnectRequest, _ access: Access, user: UInt32,
        device: [UInt8], _ moment: Moment, _ effects: inout Effects
    ) -> (session: UInt32, mustCommit: Bool) {
        let expiry = min(
            request.sessionExpirySeconds ?? limits.sessionExpirySecondsDefault,
            limits.sessionExpirySecondsMaximum)
        var session = users[user].sessions.first { sessions[$0].device == device }
        if let old = session, request.startsClean || !sessions[old].isPersistent {
            destroy(old, returnsMail: false, moment, &effects)
            session = nil
        }
        let isNew = session == nil
        let index = session ?? create(request, user: user, device: device, expiry)
        sessions[index].isPresent = !isNew
        cancelExpiry(index)
        stopWill(of: index)
        let hasNewExpiry = !isNew && sessions[index].expirySeconds != expiry
        sessions[index].expirySeconds = expiry
        sessions[index].disconnected = .never
        // That it is connected is stored too: a session that was connected when the broker died
        // must not be taken for one that has been away since the last time it left.
        markDirty(index, .session, isUrgent: true)
        sessions[index].dialect = request.dialect
        sessions[index].connection = connection
        sessions[index].isConfirmed = false
        sessions[index].cookie = request.newCookie
        sessions[index].keepAliveSeconds = grantedKeepAlive(request)
        sessions[index].windowMaximum = Int(
            max(1, min(request.inboxWindow, limits.inboxWindowMaximum)))
        sessions[index].attachment &+= 1
        sessions[index].isLoading = false
        connections.insert(connection, session: index)
        grant(access, to: index, moment)
        dropForbiddenSubscriptions(index, &effects)
        resumeInbox(index, request.resume)
        resumeOutbox(index, request.outbox, isNew: isNew)
        return (index, sessions[index].isPersistent && (isNew || hasNewExpiry))
    }

    private func grantedKeepAlive(_ request: ConnectRequest) -> UInt32 {
        request.keepAliveSeconds == 0
            ? limits.keepAliveSecondsMaximum
            : min(request.keepAliveSeconds, limits.keepAliveSecondsMaximum)
    }

    /// What the receiver says it holds is acknowledged; the rest of the queue will be sent again.
    private mutating func resumeInbox(_ session: UInt32, _ resume: InboxPosition?) {
        var start = sessions[session].acknowledgedThrough
        if let resume, resume.epoch == sessions[session].epoch, resume.number > start {
            start = resume.number
            if sessions[session].inbox.count > 0 {
                removeUnseenFromStore(session, throughNumber: start)
            }
        }
        sessions[session].acknowledgedThrough = start
        sessions[session].loadedThrough = start
        sessions[session].sentThrough = start
        sessions[session].backlogCount = sessions[session].inbox.count
    }

    private mutating func resumeOutbox(
        _ session: UInt32, _ position: OutboxPosition?, isNew: Bool
    ) {
        let position = position ?? OutboxPosition(epoch: 0, resultsSeen: 0, highestUsed: 0)
        let isContinued =
            !isNew && position.epoch == sessions[session].outboxEpoch && position.epoch != 0
        if !isContinued {
            if !sessions[session].outbox.isEmpty {
                sessions[session].outbox = []
                markDirty(session, .outbox, isUrgent: false)
            }
            sessions[session].outboxEpoch = position.epoch
            sessions[session].resultsSeenThrough = 0
        }
        if !isContinued || !sessions[session].hasConnectedSinceStart {
            // Whatever was sent up to here and is not remembered may have been delivered by an
            // earlier broker.
            sessions[session].outboxDoubtfulThrough = position.highestUsed
        }
        sessions[session].hasConnectedSinceStart = true
        _ = forgetResults(session, completeThrough(session, position.resultsSeen))
    }

    /// A reconnecting sender can only have seen results that were given.
    private func completeThrough(_ session: UInt32, _ number: UInt64) -> UInt64 {
        for entry in sessions[session].outbox where !entry.isComplete && entry.number <= number {
            return entry.number - 1
        }
        return number
    }

    private mutating func create(
        _ request: ConnectRequest, user: UInt32, device: [UInt8], _ expiry: UInt32
    ) -> UInt32 {
        let isPersistent = expiry > 0
        let identifier = isPersistent ? makeIdentifier() : 0
        var inbox = Inbox(queue: QueueID(raw: 0))
        if isPersistent {
            if let mailbox = users[user].mailbox {
                // The first persistent session inherits what waits.
                inbox = mailbox
                users[user].mailbox = nil
                writeUser(user)
            } else {
                inbox.queue = QueueID(raw: makeIdentifier())
            }
        }
        var new = Session(
            identifier: identifier, user: user, device: device, dialect: request.dialect,
            epoch: request.newEpoch, queue: inbox.queue, expirySeconds: expiry)
        new.inbox = inbox
        new.reservationRequested = inbox.nextNumber - 1
        let session = sessions.insert(new).index
        users[user].sessions.append(session)
        counters.sessionsCreated += 1
        if isPersistent {
            queueOwners[inbox.queue.raw] = .session(session)
            sessionIdentifiers[identifier] = session
            reserveNumbers(session)
            markDirty(session, .session, isUrgent: true)
        }
        joinAddresses(session)
        updateWaiting(of: user)
        return session
    }

    /// Every MRT session receives its user's mail, its groups' and broadcasts without asking.
    mutating func joinAddresses(_ session: UInt32) {
        let user = sessions[session].user
        join(session: session, audience: users[user].audience, grade: .once)
        join(
            session: session, audience: apps[users[user].app].broadcastAudience, grade: .once)
        joinGroupAudiences(session)
    }

    private mutating func changeExpiry(_ session: UInt32, _ expiry: UInt32) {
        sessions[session].expirySeconds = expiry
        // A session that was persistent stays in the store until it ends, whatever it asks for now.
        markDirty(session, .session, isUrgent: true)
    }

    /// Tells a client that it is in, and begins to deliver.
    mutating func accept(_ session: UInt32, _ moment: Moment, _ effects: inout Effects) {
        counters.connectsAccepted += 1
        let connection = sessions[session].connection
        let lane = connection.lane
        sessions[session].isConfirmed = true
        sessions[session].connectedUnixMilliseconds = moment.unixMilliseconds
        announceConnection(of: session)
        effects[lane].effects.append(
            .accept(
                connection,
                Acceptance(
                    isSessionPresent: sessions[session].isPresent,
                    hasWill: sessions[session].will != Slab<Will>.none,
                    epoch: sessions[session].epoch, cookie: sessions[session].cookie,
                    unixMilliseconds: moment.unixMilliseconds,
                    keepAliveSeconds: sessions[session].keepAliveSeconds,
                    sessionExpirySeconds: sessions[session].expirySeconds,
                    sendWindow: limits.sendWindowMaximum,
                    inboxWindow: UInt16(sessions[session].windowMaximum),
                    messageMaximum: limits.messageMaximum,
                    payloadMaximum: limits.payloadMaximum,
                    user: effects[lane].bytes.append(users[sessions[session].user].name))))
        note(.connected, session, .connected, &effects)
        pump(session, moment, &effects)
    }

    // MARK: - Out

    /// The broker gives a connection up: tells why and lets go of it.
    mutating func close(
        _ session: UInt32, _ reason: ReasonCode, willFate: WillFate = .starts,
        _ moment: Moment, _ effects: inout Effects
    ) {
        let connection = sessions[session].connection
        switch reason {
        case .malformedPacket, .protocolError, .receiveMaximumExceeded, .packetTooLarge:
            counters.protocolErrors += 1
        default: break
        }
        effects[connection.lane].effects.append(.close(connection, reason))
        note(.disconnected, session, reason, &effects)
        detach(session, willFate, moment, &effects)
    }

    mutating func connectionClosed(
        _ connection: ConnectionID, _ cause: CloseCause, _ moment: Moment,
        _ effects: inout Effects
    ) {
        guard let session = session(of: connection) else { return }
        let reason: ReasonCode =
            switch cause {
            case .lost, .closedByBroker: .unspecifiedError
            case .keepAliveTimeout: .keepAliveTimeout
            case .outgoingOverflow: .quotaExceeded
            }
        note(.disconnected, session, reason, &effects)
        detach(session, .starts, moment, &effects)
    }

    /// A fault of the peer's ends its connection, before or after it was let in.
    mutating func peerFaulted(
        _ connection: ConnectionID, _ reason: ReasonCode, _ moment: Moment,
        _ effects: inout Effects
    ) {
        if let session = session(of: connection) {
            close(session, reason, moment, &effects)
        } else {
            counters.protocolErrors += 1
            effects[connection.lane].effects.append(.close(connection, reason))
        }
    }

    /// The client says good-bye.
    mutating func disconnect(
        _ connection: ConnectionID, _ request: DisconnectRequest, _ moment: Moment,
        _ effects: inout Effects
    ) {
        guard let session = session(of: connection) else { return }
        if let expiry = request.sessionExpirySeconds {
            let granted = min(expiry, limits.sessionExpirySecondsMaximum)
            if granted != sessions[session].expirySeconds { changeExpiry(session, granted) }
        }
        note(.disconnected, session, .success, &effects)
        let hadWill = sessions[session].will != Slab<Will>.none
        detach(session, request.sendsWill ? .starts : .removed, moment, &effects)
        if hadWill {
            gathering.confirmations.append(.disconnect(connection))
        } else {
            effects[connection.lane].effects.append(.confirmDisconnect(connection))
        }
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
        _ session: UInt32, _ willFate: WillFate, _ moment: Moment, _ effects: inout Effects
    ) {
        connections.remove(sessions[session].connection)
        withdrawAccess(of: session)
        users[sessions[session].user].lastSeenUnixMilliseconds = moment.unixMilliseconds
        sessions[session].connection = .none
        sessions[session].isConfirmed = false
        announceConnection(of: session)
        emptyWindow(session, &effects)
        switch willFate {
        case .starts: startWill(of: session, moment, &effects)
        case .removed: removeWill(of: session)
        case .kept: break
        }
        if !sessions[session].isPersistent || sessions[session].expirySeconds == 0 {
            destroy(session, returnsMail: true, moment, &effects)
            return
        }
        markDirty(session, .session, isUrgent: false)
        sessions[session].disconnected = moment.instant
        startExpiry(session, from: moment.instant)
    }

    private mutating func emptyWindow(_ session: UInt32, _ effects: inout Effects) {
        while !sessions[session].window.isEmpty {
            let entry = sessions[session].window.removeFirst()
            if entry.isUnstored {
                sessions[session].inbox.subtract(
                    count: 1, byteCount: UInt64(entry.byteCount))
                refuseReceiver(of: entry.message)
                if messages[entry.message].unsettled == 0 {
                    completeSend(entry.message, &effects)
                }
            }
            release(entry.message)
        }
        sessions[session].window.removeAll()
        sessions[session].windowByteCount = 0
        sessions[session].sentCount = 0
        sessions[session].isLoading = false
        sessions[session].attachment &+= 1
        sessions[session].backlogCount = sessions[session].inbox.count
        sessions[session].loadedThrough = sessions[session].acknowledgedThrough
    }

    // MARK: - The end of a session

    private mutating func startExpiry(_ session: UInt32, from start: Instant) {
        guard sessions[session].expirySeconds != .max else { return }
        let deadline = start.advanced(bySeconds: UInt64(sessions[session].expirySeconds))
        sessions[session].expiry = deadline
        sessions[session].expiryToken = deadlines.insert(
            deadline: deadline, payload: DeadlinePayload.session(session).raw)
    }

    mutating func resumeExpiry(_ session: UInt32) {
        startExpiry(session, from: sessions[session].disconnected)
    }

    private mutating func cancelExpiry(_ session: UInt32) {
        guard let token = sessions[session].expiryToken else { return }
        _ = deadlines.cancel(token)
        sessions[session].expiryToken = nil
        sessions[session].expiry = .never
    }

    mutating func expire(
        sessionIndex session: UInt32, _ moment: Moment, _ effects: inout Effects
    ) {
        sessions[session].expiryToken = nil
        counters.sessionsExpired += 1
        destroy(session, returnsMail: true, moment, &effects)
    }

    /// Ends a session that has no connection. What waits in its queue goes back to waiting for the
    /// user when it was the user's last one, unless the user wanted it gone.
    mutating func destroy(
        _ session: UInt32, returnsMail: Bool, _ moment: Moment, _ effects: inout Effects
    ) {
        precondition(!sessions[session].isConnected, "the end of a connected session")
        cancelExpiry(session)
        // A will outlives its session by no moment.
        if sessions[session].will != Slab<Will>.none {
            fireWill(sessions[session].will, moment, &effects)
        }
        while let subscription = sessions[session].subscriptions.last {
            forgetSubscription(subscription, of: session)
        }
        let user = sessions[session].user
        users[user].sessions.removeAll { $0 == session }
        if sessions[session].isPersistent {
            let identifier = sessions[session].identifier
            let inbox = sessions[session].inbox
            sessionIdentifiers[identifier] = nil
            for table in [RecordTable.sessions, .outboxes] {
                gathering.records.append(
                    Records.deletion(table, key: RecordKey.number(identifier)))
            }
            if returnsMail && inbox.count > 0 && users[user].mailbox == nil
                && audiences[users[user].audience].subscribers.isEmpty
            {
                users[user].mailbox = inbox
                queueOwners[inbox.queue.raw] = .user(user)
                writeUser(user)
            } else {
                counters.discarded += inbox.count
                gathering.deletedQueues.append(inbox.queue)
                queueOwners[inbox.queue.raw] = nil
            }
        }
        sessions.remove(session)
        updateWaiting(of: user)
    }

    // MARK: - Users and apps

    /// The user of an app by name; a user who logs in is known from then on.
    mutating func knownUser(_ name: [UInt8], app: UInt32) -> UInt32 {
        if let user = name.withUnsafeBytes({ apps[app].users.value(for: $0) }) { return user }
        let user = insertUser(name, app: app)
        writeUser(user)
        return user
    }

    mutating func writeUser(_ user: UInt32) {
        gathering.records.append(
            Records.user(
                app: apps[users[user].app].name, users[user].name,
                mailbox: users[user].mailbox?.queue))
    }

    func app(named name: [UInt8]) -> UInt32? {
        name.withUnsafeBytes { appNames.value(for: $0) }
    }

    // MARK: - Notes

    func note(
        _ kind: Note.Kind, _ session: UInt32, _ reason: ReasonCode,
        subject: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        other: ConnectionID = .none, _ effects: inout Effects
    ) {
        let connection = sessions[session].connection
        let lane = connection.lane
        effects[lane].effects.append(
            .note(
                Note(
                    kind: kind, connection: connection, reason: reason,
                    user: effects[lane].bytes.append(users[sessions[session].user].name),
                    device: effects[lane].bytes.append(sessions[session].device),
                    subject: effects[lane].bytes.append(subject), other: other)))
    }
}
