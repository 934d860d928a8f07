// Logging in: who a connection belongs to, which session it gets, and when it is told so.

import BrokerTerms
import Primitives

/// Why a connection is refused.
struct ConnectRefusal: Error {
    let reason: ReasonCode
    var retryAfterSeconds: UInt32 = 0
    var limit = LimitName.none
}

extension Broker {
    /// - Parameter isInTurn: it has waited long enough to take a session over.
    mutating func connect(
        _ connection: ConnectionID, _ request: ConnectRequest, identities: TurnIdentities,
        isInTurn: Bool = false, in step: inout Step
    ) {
        do throws(ConnectRefusal) {
            let deviceName =
                request.assignsDevice
                ? assignedName(request.newEpoch) : Array(request.device.bytes(in: step.bytes))
            var identity = try authenticate(
                request.claim, device: deviceName, bytes: step.bytes, identities: identities,
                at: step.moment)
            if identity.user.isEmpty {
                // The listener vouches for a client without a name: it is known by the broker's.
                identity.user = deviceName
            }
            let device = Name(deviceName)
            let known = user(named: identity.user, app: identity.app)
            let existing = known.flatMap { session(of: $0, device: device) }
            try checkLimits(app: identity.app, user: known, existing: existing, request)
            let permit = try admit(
                identity, existing: existing, device: deviceName, request: request)
            var takeovers = TakeoverCount()
            if let existing {
                try checkResume(request, existing)
                if !isInTurn, request.dialect.isMQTT,
                    let turn = try turn(toTakeOver: existing, connection, in: &step)
                {
                    hold(
                        connection, request: request, until: turn, access: identity.access,
                        bytes: step.bytes)
                    return
                }
                takeovers = try takeOver(existing, from: connection, request, in: &step)
            }
            let user = knownUser(identity.user, app: identity.app, permit: permit)
            removeOrphanWill(ofUser: user, device: device)
            let attached = attach(
                connection, request: request, user: user, device: device, permit: permit,
                takeovers: takeovers, in: &step)
            grant(identity.access, to: attached, at: step.moment)
            dropForbiddenSubscriptions(attached, in: &step)
            acceptWhenCommitted(attached, in: &step)
            if let will = request.will {
                setWill(of: connection, identifier: 0, will, in: &step)
            }
        } catch {
            refuseConnect(connection, refusal: error, request: request, in: &step)
        }
    }

    /// The connection that loses its session to a login; nil where none does.
    public mutating func predecessor(
        of login: Event, bytes: UnsafeRawBufferPointer, identities: TurnIdentities,
        at moment: Moment
    ) -> ConnectionID? {
        guard case .connectReceived(_, let request) = login, !request.assignsDevice else {
            return nil
        }
        let device = Array(request.device.bytes(in: bytes))
        guard
            let identity = try? authenticate(
                request.claim, device: device, bytes: bytes, identities: identities, at: moment),
            let user = user(
                named: identity.user.isEmpty ? device : identity.user, app: identity.app),
            let session = session(of: user, device: Name(device)),
            let connected = sessions[session].connected
        else { return nil }
        return live.connectedSessions[connected].connection
    }

    // MARK: - Whether it may

    /// Refuses what would grow past a limit: nobody is made known for a login that fails.
    private func checkLimits(
        app: Index<App>, user: Index<User>?, existing: Index<Session>?, _ request: ConnectRequest
    ) throws(ConnectRefusal) {
        guard existing == nil else { return }
        var count = 0
        if let user { forEachSession(of: user) { _ in count += 1 } }
        let limit: LimitName =
            if sessions.count >= limits.sessionsMaximum {
                .sessions
            } else if registry.apps[app].sessionCount >= limits.sessionsPerAppMaximum {
                .sessionsOfApp
            } else if count >= limits.sessionsPerUserMaximum {
                .sessionsOfUser
            } else {
                user == nil && registry.users.count >= limits.usersMaximum ? .users : .none
            }
        if limit != .none { throw ConnectRefusal(reason: .quotaExceeded, limit: limit) }
    }

    /// Admits the rows of a login. What is left of a full store is for what makes room: a session
    /// that is stored already is always let in.
    private mutating func admit(
        _ identity: Identity, existing: Index<Session>?, device: [UInt8], request: ConnectRequest
    ) throws(ConnectRefusal) -> GrowthPermit {
        if let existing, sessions[existing].isPersistent { return commits.room.admitReplacement() }
        var growth = 0
        if user(named: identity.user, app: identity.app) == nil {
            growth += self.growth(ofUser: identity.user, app: identity.app)
        }
        if request.sessionExpirySeconds != 0 {
            let names = registry.apps[identity.app].name.count + identity.user.count + device.count
            // The row of what it sends, which every session has at most one of, is short.
            growth +=
                RecordChange.pageByteCount(key: 8, value: names + CoreLimits.sessionRowOverhead)
                + RecordChange.pageByteCount(key: 8, value: CoreLimits.sessionRowOverhead)
        }
        guard let permit = admitGrowth(of: growth) else {
            throw ConnectRefusal(reason: .quotaExceeded, limit: .store)
        }
        return permit
    }

    /// Refuses a device that holds a number which was never given: it is not this session's, or its
    /// flash is not what it was. Taken at its word, it would acknowledge messages it will never
    /// see.
    private func checkResume(
        _ request: ConnectRequest, _ session: Index<Session>
    ) throws(ConnectRefusal) {
        guard let resume = request.resume, !request.startsClean,
            resume.epoch == sessions[session].epoch
        else { return }
        // Nobody has seen the numbers that are kept for what a transfer may bring.
        let queue = sessions[session].inbox.queue
        let bound = commits.firstArrival(in: queue) ?? sessions[session].inbox.nextNumber
        if resume.number >= bound {
            throw ConnectRefusal(reason: .protocolError)
        }
    }

    /// Somebody logs in on a device that is connected. Whoever has the cookie replaces its own
    /// ghost; an explicit login takes the session over; an automatic one is refused, so that two
    /// devices with one name do not throw each other out for ever. MQTT knows neither
    /// cookies nor automatic logins, and demands the takeover [MQTT-3.1.4-3]: there a login that
    /// comes too often has waited for its turn (docs/decisions/0004-rival-logins.md).
    ///
    /// - Returns: how often that has happened, for the connection that comes.
    private mutating func takeOver(
        _ session: Index<Session>, from connection: ConnectionID, _ request: ConnectRequest,
        in step: inout Step
    ) throws(ConnectRefusal) -> TakeoverCount {
        guard let connected = sessions[session].connected else { return TakeoverCount() }
        var takeovers = live.connectedSessions[connected].takeovers
        if live.connectedSessions[connected].belongs(toHolderOf: request.cookie) {
            // Its will goes with what it does not want any more, and is not sent.
            let fate: WillFate = request.startsClean ? .removed : .kept
            close(session, .sessionTakenOver, willFate: fate, in: &step)
            return takeovers
        }
        if request.isReconnect {
            note(
                .duplicateLogin, session: session, reason: .sessionTakenOver, other: connection,
                in: &step)
            throw ConnectRefusal(reason: .sessionTakenOver)
        }
        let maximum = policy(of: session).takeoversPerMinute
        if request.dialect.isMQTT {
            takeovers.add(at: step.moment.instant, keeping: maximum)
        } else if let seconds = takeovers.secondsToWait(at: step.moment.instant, maximum: maximum) {
            note(
                .duplicateLogin, session: session, reason: .connectionRateExceeded,
                other: connection, in: &step)
            throw ConnectRefusal(reason: .connectionRateExceeded, retryAfterSeconds: seconds)
        } else {
            takeovers.add(at: step.moment.instant, keeping: maximum)
        }
        counters.takeovers += 1
        note(.takenOver, session: session, reason: .sessionTakenOver, other: connection, in: &step)
        close(session, .sessionTakenOver, in: &step)
        return takeovers
    }

    /// What holds for a session's app.
    func policy(of session: Index<Session>) -> AppPolicy {
        limits.policy(ofApp: registry.apps[registry.users[sessions[session].user].app].name)
    }

    private mutating func refuseConnect(
        _ connection: ConnectionID, refusal: ConnectRefusal, request: ConnectRequest,
        in step: inout Step
    ) {
        counters.connectsRefused += 1
        if refusal.reason == .quotaExceeded { counters.connectsOverQuota += 1 }
        if refusal.reason == .connectionRateExceeded { counters.connectsDamped += 1 }
        let loop = connection.loop
        let claimed: UnsafeRawBufferPointer
        switch request.claim {
        case .token(let identifier, _): claimed = identifier.bytes(in: step.bytes)
        case .appKey(_, _, let user), .anonymous(let user), .attached(_, let user):
            claimed = user.bytes(in: step.bytes)
        case .verified: claimed = UnsafeRawBufferPointer(start: nil, count: 0)
        }
        step.effects[loop].effects.append(
            .note(
                LogEvent(
                    kind: .connectRefused, connection: connection, reason: refusal.reason,
                    user: step.effects[loop].bytes.append(claimed),
                    device: step.effects[loop].bytes.append(request.device.bytes(in: step.bytes)),
                    subject: .empty, other: .none, limit: refusal.limit)))
        step.effects[loop].effects.append(
            .refuse(
                connection, refusal.reason, retryAfterSeconds: refusal.retryAfterSeconds))
    }

    // MARK: - Which session it gets

    /// Binds a connection to its session, old or new.
    private mutating func attach(
        _ connection: ConnectionID, request: ConnectRequest, user: Index<User>, device: Name,
        permit: borrowing GrowthPermit, takeovers: TakeoverCount, in step: inout Step
    ) -> Index<Session> {
        let expiry = min(
            request.sessionExpirySeconds ?? limits.sessionExpirySecondsDefault,
            limits.sessionExpirySecondsMaximum)
        var existing = self.session(of: user, device: device)
        var endsStored = false
        if let old = existing {
            // The protocols do not share a session: each hears other things without asking.
            let isForeign = sessions[old].dialect.isMQTT != request.dialect.isMQTT
            if request.startsClean || !sessions[old].isPersistent || isForeign {
                endsStored = sessions[old].isPersistent
                destroy(old, returnsUserMessages: isForeign && !request.startsClean, in: &step)
                existing = nil
            }
        }
        let session =
            existing
            ?? create(request, user: user, device: device, expirySeconds: expiry, permit: permit)
        // A clean start is a promise that nothing of the old session comes back.
        if endsStored { sessions[session].decisiveBatch = commits.pendingSequence }
        cancelExpiry(session)
        stopWill(of: session)
        changeExpiry(session, expiry)
        if existing != nil { noteReturn(session, at: step.moment) }
        if request.dialect.isMQTT { replaceWill(of: session, request) }
        sessions[session].disconnected = .never
        sessions[session].dialect = request.dialect
        resumeInbox(session, request.resume)
        sessions[session].connected = makeConnectedSession(
            connection, request: request, session: session, wasPresent: existing != nil,
            takeovers: takeovers)
        live.bind(connection, to: session)
        takeUpReplay(of: session)
        resumeOutbox(session, request.outbox, isNew: existing == nil)
        return session
    }

    /// A session of the store is used again.
    private mutating func noteReturn(_ session: Index<Session>, at moment: Moment) {
        // The row says since when nobody was there; now somebody is. A broker that dies before it
        // is written would go on from then: the client waits where that could cost the session.
        markDirty(session, .session, isUrgent: true)
        let margin = moment.instant.advanced(bySeconds: CoreLimits.safeExpirySeconds)
        if sessions[session].expirySeconds != .max && expiryDeadline(of: session) < margin {
            sessions[session].decisiveBatch = commits.pendingSequence
        }
        // After a restart no number is left; the first delivery should not wait for some.
        reserveNumbers(session)
    }

    private mutating func makeConnectedSession(
        _ connection: ConnectionID, request: ConnectRequest, session: Index<Session>,
        wasPresent: Bool, takeovers: TakeoverCount
    ) -> Index<ConnectedSession> {
        let keepAlive =
            switch request.dialect {
            case .mqtt3:
                // It cannot be told of another one.
                request.keepAliveSeconds
            case .mrt, .mqtt5:
                request.keepAliveSeconds == 0
                    ? limits.keepAliveSecondsMaximum
                    : min(request.keepAliveSeconds, limits.keepAliveSecondsMaximum)
            }
        return live.connectedSessions.insert(
            ConnectedSession(
                connection: connection, session: session, wasPresent: wasPresent,
                windowMaximum: max(1, min(request.inboxWindow, limits.inboxWindowMaximum)),
                start: sessions[session].inbox.acknowledgedThrough,
                backlogCount: sessions[session].inbox.count, cookie: request.newCookie,
                presentedCookie: request.cookie, keepAliveSeconds: keepAlive,
                publishWindow: limits.publishWindowMaximum,
                hasAssignedDevice: request.assignsDevice, takeovers: takeovers)
        ).index
    }

    /// In MQTT a will belongs to its connection: the one there is goes, and the client is let in
    /// when the new one is committed.
    private mutating func replaceWill(of session: Index<Session>, _ request: ConnectRequest) {
        let hadWill = sessions[session].will != nil
        removeWill(of: session)
        if hadWill || request.will != nil {
            sessions[session].decisiveBatch = commits.pendingSequence
        }
    }

    /// What the receiver says it holds is acknowledged; the rest of the queue will be sent again.
    private mutating func resumeInbox(_ session: Index<Session>, _ resume: InboxPosition?) {
        guard let resume, resume.epoch == sessions[session].epoch,
            resume.number > sessions[session].inbox.acknowledgedThrough
        else { return }
        sessions[session].inbox.acknowledgedThrough = resume.number
        guard sessions[session].inbox.count > 0 else { return }
        // The queue is on disk only: what this is, is counted out when the store tells.
        commits.clear(
            sessions[session].inbox.queue, through: resume.number,
            countMaximum: sessions[session].inbox.count)
    }

    private mutating func resumeOutbox(
        _ session: Index<Session>, _ position: OutboxPosition?, isNew: Bool
    ) {
        // In MQTT the identifiers of QoS 2 are kept until they are released.
        if sessions[session].dialect.isMQTT { return }
        let position = position ?? OutboxPosition(epoch: 0, resultsSeen: 0, highestUsed: 0)
        let isContinued =
            !isNew && position.epoch == sessions[session].outboxEpoch && position.epoch != 0
        let isFirst = !sessions[session].hasConnectedSinceStart
        let hadOther = !isContinued && sessions[session].outboxEpoch != 0
        if !isContinued {
            if !sessions[session].outbox.isEmpty {
                sessions[session].outbox.removeAll()
                sessions[session].senderState.reset()
                markDirty(session, .outbox, isUrgent: false)
            }
            sessions[session].outboxEpoch = position.epoch
            sessions[session].resultsSeenThrough = 0
        }
        if !isContinued || isFirst {
            // Whatever was sent up to here and is not remembered may have been delivered.
            sessions[session].doubtfulThrough = position.highestUsed
            // Records of grade *once* survive the broker, but neither their session nor a sender
            // with another numbering.
            if isNew || hadOther || !isFirst || sessions[session].isFromBackup {
                forget(session, through: position.highestUsed)
            } else if !isContinued {
                forget(session, through: 0)
            }
        }
        sessions[session].hasConnectedSinceStart = true
        if sessions[session].isFromBackup {
            // With the number up to which its sends are forgotten, or not at all.
            sessions[session].isFromBackup = false
            markDirty(session, .session, isUrgent: true)
        }
        _ = forgetResults(session, completeThrough(session, position.resultsSeen))
    }

    /// Notes up to which number a send of grade *once* may have been accepted without a record of
    /// it. That must outlive a crash: the record that it stands for does not come back.
    private mutating func forget(_ session: Index<Session>, through number: UInt64) {
        guard number != sessions[session].forgottenThrough else { return }
        sessions[session].forgottenThrough = number
        if sessions[session].isPersistent { markDirty(session, .outbox, isUrgent: true) }
    }

    /// A reconnecting sender can only have seen results that were given.
    private func completeThrough(_ session: Index<Session>, _ number: UInt64) -> UInt64 {
        for position in 0..<sessions[session].outbox.count {
            let entry = sessions[session].outbox[position]
            if !entry.isComplete && entry.number <= number { return entry.number - 1 }
        }
        return number
    }

    private mutating func create(
        _ request: ConnectRequest, user: Index<User>, device: Name, expirySeconds expiry: UInt32,
        permit: borrowing GrowthPermit
    ) -> Index<Session> {
        let isPersistent = expiry > 0
        let identifier = isPersistent ? makeIdentifier() : 0
        var inbox = Inbox(queue: QueueID(raw: 0))
        if isPersistent {
            // The first persistent session that hears the user's messages inherits what waits.
            let waiting = request.dialect.isMQTT ? nil : takeOfflineQueue(of: user)
            inbox = waiting ?? Inbox(queue: QueueID(raw: makeIdentifier()))
        }
        let session = insertSession(
            Session(
                identifier: identifier, user: user, device: device, dialect: request.dialect,
                epoch: request.newEpoch, inbox: inbox, expirySeconds: expiry))
        counters.sessionsCreated += 1
        if isPersistent {
            sessions[session].reservationRequested = inbox.nextNumber - 1
            sessions[session].decisiveBatch = commits.pendingSequence
            reserveNumbers(session)
            if sessions[session].receivesUserMessages { noteListener(session) }
            markDirty(session, .session, isUrgent: true)
        }
        return session
    }

    /// Gives a session its place among its user's, in its queue and in the app's broadcasts.
    mutating func insertSession(_ new: consuming Session) -> Index<Session> {
        let user = new.user
        let queue = new.inbox.queue
        let isPersistent = new.isPersistent
        let session = sessions.insert(new).index
        // Behind the others, so that devices are served in the order in which they came.
        if let last = lastSession(of: user) {
            sessions[last].nextOfUser = session
        } else {
            registry.setFirstSession(session, of: user)
        }
        if isPersistent { queues.give(queue, to: session) }
        registry.countSession(of: user, isNew: true)
        // An MRT session hears broadcasts and its user's groups without asking; an MQTT session
        // subscribes to them.
        if !sessions[session].dialect.isMQTT {
            join(
                session: session,
                audience: registry.apps[registry.users[user].app].broadcastAudience, grade: .once)
            joinGroupAudiences(session)
        }
        updateWaiting(of: user)
        return session
    }

    /// Notes a new expiry. A session that was persistent stays in the store until it ends, whatever
    /// it asks for.
    mutating func changeExpiry(_ session: Index<Session>, _ expiry: UInt32) {
        guard sessions[session].expirySeconds != expiry else { return }
        sessions[session].expirySeconds = expiry
        sessions[session].decisiveBatch = commits.pendingSequence
        markDirty(session, .session, isUrgent: true)
    }

    // MARK: - When it is told

    /// Accepts the session's connection, with the batch that made or changed the session.
    private mutating func acceptWhenCommitted(_ session: Index<Session>, in step: inout Step) {
        let confirmation = Confirmation.accept(
            live.connectedSessions[connectedIndex(of: session)].connection)
        if !commits.confirm(confirmation, after: sessions[session].decisiveBatch) {
            accept(session, in: &step)
        }
    }

    /// A device name that nobody else has, from an unpredictable number.
    private func assignedName(_ seed: UInt64) -> [UInt8] {
        Array("auto-".utf8) + unpredictableName(seed)
    }

    /// Tells a client that it is in, and begins to deliver.
    mutating func accept(_ session: Index<Session>, in step: inout Step) {
        counters.connectsAccepted += 1
        let connected = connectedIndex(of: session)
        let connection = live.connectedSessions[connected].connection
        let loop = connection.loop
        live.connectedSessions[connected].confirm(at: step.moment)
        announceConnection(of: session)
        step.effects[loop].effects.append(
            .accept(
                connection,
                Acceptance(
                    isSessionPresent: live.connectedSessions[connected].wasPresent,
                    hasWill: sessions[session].will != nil,
                    epoch: sessions[session].epoch,
                    cookie: live.connectedSessions[connected].cookie,
                    unixMilliseconds: step.moment.unixMilliseconds,
                    keepAliveSeconds: live.connectedSessions[connected].keepAliveSeconds,
                    sessionExpirySeconds: sessions[session].expirySeconds,
                    sendWindow: sessions[session].dialect.isMQTT
                        ? live.connectedSessions[connected].publishWindow
                        : limits.sendWindowMaximum,
                    inboxWindow: UInt16(live.connectedSessions[connected].windowMaximum),
                    messageMaximum: limits.messageMaximum,
                    payloadMaximum: limits.payloadMaximum,
                    acknowledgesRefused: policy(of: session).acknowledgesRefused,
                    user: step.effects[loop].bytes.append(
                        registry.users[sessions[session].user].name),
                    assignedDevice: live.connectedSessions[connected].hasAssignedDevice
                        ? step.effects[loop].bytes.append(sessions[session].device) : .empty)))
        note(.connected, session: session, reason: .connected, in: &step)
        announcePresence(of: session, isOnline: true, in: &step)
        pump(session, in: &step)
    }
}
