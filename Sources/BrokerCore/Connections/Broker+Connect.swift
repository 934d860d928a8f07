// Logins: authenticates a connection, finds or creates its session, and accepts it when the session
// is durable.

import BrokerTerms
import Primitives

/// Why a connection is refused.
struct ConnectRefusal: Error {
    let reason: ReasonCode
    var retryAfterSeconds: UInt32 = 0
    var limit = LimitName.none
    /// The device that the credential is bound to, if the client's is another.
    var boundDevice: [UInt8] = []
    /// The user of the credential, or the name that the client gave; empty if not known yet.
    var user: [UInt8] = []
}

extension Broker {
    /// - Parameter hasWaited: whether the login has already waited for its time to take over.
    mutating func connect(
        _ connection: ConnectionID, _ request: ConnectRequest, identities: TurnIdentities,
        hasWaited: Bool = false, in step: inout Step
    ) {
        var provenUser: [UInt8]?
        var unnamedUser: Index<User>?
        do throws(ConnectRefusal) {
            let deviceName =
                request.assignsDevice
                ? assignedName(request.newEpoch) : Array(request.device.bytes(in: step.bytes))
            var identity = try authenticate(
                request.claim, device: deviceName, bytes: step.bytes, identities: identities,
                at: step.moment)
            if identity.access.source.provesUser { provenUser = identity.user }
            // A gateway that is still connected attaches its sensors by the app's index.
            if registry.apps[identity.app].isBeingDeleted {
                throw ConnectRefusal(reason: .notAuthorized)
            }
            if request.isOfLeanMessage,
                !limits.policy(ofApp: registry.apps[identity.app].name).opensLeanMessage
            {
                throw ConnectRefusal(reason: .notAuthorized)
            }
            if identity.user.isEmpty {
                // The listener admits clients without a name. Such a client gets its device name as
                // the user name, and the place of a user that nobody uses any more.
                unnamedUser = takeUnnamedUser(of: identity.app)
                identity.user = deviceName
            }
            if limits.hasModeration { try checkModerator(identity) }
            let device = Name(deviceName)
            let known = unnamedUser ?? user(named: identity.user, app: identity.app)
            let existing = known.flatMap { session(of: $0, device: device) }
            try checkLimits(app: identity.app, user: known, existing: existing, request)
            let permit = try admit(
                identity, existing: existing, device: deviceName, request: request)
            var takeovers = TakeoverCount()
            if let existing {
                // A clean start needs nothing of it.
                if sessions[existing].isBeingImported, !request.startsClean {
                    throw ConnectRefusal(reason: .serverBusy)
                }
                try checkResume(request, existing)
                if !hasWaited, request.dialect.isMQTT,
                    let time = try takeoverTime(of: existing, connection, in: &step)
                {
                    delay(
                        connection, request: request, until: time, access: identity.access,
                        bytes: step.bytes)
                    return
                }
                takeovers = try takeOver(existing, from: connection, request, in: &step)
            }
            if let unnamedUser { rename(unnamedUser, to: identity.user, permit: permit) }
            let user = knownUser(identity.user, app: identity.app, permit: permit)
            removeDetachedWill(ofUser: user, device: device)
            let attached = attach(
                connection, request: request, user: user, device: device, permit: permit,
                takeovers: takeovers, in: &step)
            grant(identity.access, to: attached, at: step.moment)
            dropForbiddenSubscriptions(attached, in: &step)
            acceptWhenCommitted(attached, in: &step)
            if let will = request.will {
                setWill(of: connection, identifier: Self.willOfLogin, will, in: &step)
            }
        } catch {
            if let unnamedUser { registry.giveBack(unnamedUser: unnamedUser) }
            var refusal = error
            if refusal.user.isEmpty {
                refusal.user =
                    provenUser
                    ?? nameOfClaim(request.claim, bytes: step.bytes, identities: identities)
            }
            refuseConnect(connection, refusal: refusal, request: request, in: &step)
        }
    }

    /// The connection that loses its session to a login; nil if there is none.
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

    // MARK: - Checks

    /// Refuses a login that would exceed a limit, before anything is created for it.
    private func checkLimits(
        app: Index<App>, user: Index<User>?, existing: Index<Session>?, _ request: ConnectRequest
    ) throws(ConnectRefusal) {
        guard existing == nil else { return }
        let limit = limit(ofNewSession: user, app: app)
        if limit != .none { throw ConnectRefusal(reason: .quotaExceeded, limit: limit) }
    }

    /// The limit that keeps a new session out; `none` if there is room for it.
    ///
    /// - Parameter user: nil for a new user.
    func limit(ofNewSession user: Index<User>?, app: Index<App>) -> LimitName {
        var count = 0
        if let user { forEachSession(of: user) { _ in count += 1 } }
        return if sessions.count >= limits.sessionsMaximum {
            .sessions
        } else if registry.apps[app].sessionCount >= limits.sessionsPerAppMaximum {
            .sessionsOfApp
        } else if count >= limits.sessionsPerUserMaximum {
            .sessionsOfUser
        } else {
            self.limit(ofNewUsers: user == nil ? 1 : 0, app: app) ?? .none
        }
    }

    /// Bytes of pages for the rows of a new session: its own, and one for what it sends, which is
    /// short, and of which a session has at most one.
    func growth(ofSession device: [UInt8], user: [UInt8], app: Index<App>) -> Int {
        let names = registry.apps[app].name.count + user.count + device.count
        return RecordChange.pageByteCount(key: 8, value: names + CoreLimits.sessionRowOverhead)
            + RecordChange.pageByteCount(key: 8, value: CoreLimits.sessionRowOverhead)
    }

    /// Admits the rows of a login. A session that is already stored is always admitted, also in a
    /// full store, because its client can drain its queue.
    private mutating func admit(
        _ identity: Identity, existing: Index<Session>?, device: [UInt8], request: ConnectRequest
    ) throws(ConnectRefusal) -> GrowthPermit {
        if let existing, sessions[existing].isPersistent { return commits.room.admitReplacement() }
        var growth = 0
        if user(named: identity.user, app: identity.app) == nil {
            growth += self.growth(ofUser: identity.user, app: identity.app)
        }
        if request.sessionExpirySeconds != 0 {
            growth += self.growth(ofSession: device, user: identity.user, app: identity.app)
        }
        guard let permit = admitGrowth(of: growth) else {
            throw ConnectRefusal(reason: .quotaExceeded, limit: commits.room.limit)
        }
        return permit
    }

    /// Refuses a device that resumes at a number that was never assigned: the state belongs to
    /// another session, or the device's flash is damaged. Accepting the number would acknowledge
    /// messages that the device has not received.
    private func checkResume(
        _ request: ConnectRequest, _ session: Index<Session>
    ) throws(ConnectRefusal) {
        guard let resume = request.resume, !request.startsClean,
            resume.epoch == sessions[session].epoch
        else { return }
        // Numbers that are reserved for a transfer have not been sent to any client.
        let queue = sessions[session].inbox.queue
        let bound = commits.firstArrival(in: queue) ?? sessions[session].inbox.nextNumber
        if resume.number >= bound {
            throw ConnectRefusal(reason: .protocolError)
        }
    }

    /// Handles a login on a device that is already connected. A client that presents the session's
    /// cookie replaces its own earlier connection. An explicit login takes the session over. An
    /// automatic login is refused, so that two devices with one name do not disconnect each other
    /// for ever. MQTT has neither cookies nor automatic logins, and requires the takeover
    /// [MQTT-3.1.4-3]; MQTT logins that come too often have waited for their turn
    /// (docs/decisions/0004-rival-logins.md).
    ///
    /// - Returns: the takeovers of this session so far, for the new connection.
    private mutating func takeOver(
        _ session: Index<Session>, from connection: ConnectionID, _ request: ConnectRequest,
        in step: inout Step
    ) throws(ConnectRefusal) -> TakeoverCount {
        guard let connected = sessions[session].connected else { return TakeoverCount() }
        var takeovers = live.connectedSessions[connected].takeovers
        if live.connectedSessions[connected].belongs(toOwnerOf: request.cookie) {
            // A clean start discards the session, and its will is not sent.
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

    /// The policy of the session's app.
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
        step.effects[loop].effects.append(
            .note(
                LogEvent(
                    kind: .connectRefused, connection: connection, reason: refusal.reason,
                    user: step.effects[loop].bytes.append(refusal.user),
                    device: step.effects[loop].bytes.append(request.device.bytes(in: step.bytes)),
                    subject: step.effects[loop].bytes.append(refusal.boundDevice),
                    other: .none, limit: refusal.limit)))
        step.effects[loop].effects.append(
            .refuse(
                connection, refusal.reason, retryAfterSeconds: refusal.retryAfterSeconds))
    }

    /// The name by which a claim is found in the log if it proves nobody: the public half of a
    /// token, the user that was verified when the key or certificate was still trusted, or the name
    /// that the client gave.
    private func nameOfClaim(
        _ claim: Claim, bytes: UnsafeRawBufferPointer, identities: TurnIdentities
    ) -> [UInt8] {
        switch claim {
        case .token(let identifier, _): Array(identifier.bytes(in: bytes))
        case .appKey(_, _, let user), .anonymous(let user), .attached(_, let user):
            Array(user.bytes(in: bytes))
        case .verified(let reference): identities[reference]?.user ?? []
        }
    }

    // MARK: - Sessions

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
            // MQTT and MRT cannot share a session: they receive different messages without a
            // subscription.
            let isForeign = sessions[old].dialect.isMQTT != request.dialect.isMQTT
            if request.startsClean || !sessions[old].isPersistent || isForeign {
                endsStored = sessions[old].isPersistent
                destroy(old, returnsUserMessages: isForeign && !request.startsClean, in: &step)
                existing = nil
            }
        }
        let session =
            existing
            ?? create(
                user: user, device: device, dialect: request.dialect, epoch: request.newEpoch,
                expirySeconds: expiry, permit: permit)
        // After a clean start no part of the old session may return, so the client is accepted
        // after the commit.
        if endsStored { sessions[session].decisiveBatch = commits.pendingSequence }
        cancelExpiry(session)
        if !tracking.ending.isEmpty { tracking.ending[session] = nil }
        stopWill(of: session)
        changeExpiry(session, expiry)
        if existing != nil { noteReturn(session, at: step.moment) }
        if request.dialect.isMQTT { replaceWill(of: session, request) }
        sessions[session].disconnected = .never
        sessions[session].isLossAssumed = false
        sessions[session].dialect = request.dialect
        changePulling(request.pulls, of: session)
        resumeInbox(session, request.resume)
        registry.countConnection(of: sessions[session].user, isNew: true)
        sessions[session].connected = addConnectedSession(
            connection, request: request, session: session, wasPresent: existing != nil,
            takeovers: takeovers)
        takeUpReplay(of: session)
        resumeOutbox(session, request.outbox, isNew: existing == nil)
        return session
    }

    /// Updates a stored session that has a connection again.
    private mutating func noteReturn(_ session: Index<Session>, at moment: Moment) {
        // The stored row still contains the time of the last disconnection. If the broker crashes
        // before it writes the new row, a restart counts the expiry from that time. A client whose
        // session could end by that is accepted after the commit.
        markDirty(session, .session, isUrgent: true)
        let margin = moment.instant.advanced(bySeconds: CoreLimits.safeExpirySeconds)
        if sessions[session].expirySeconds != .max && expiryDeadline(of: session) < margin {
            sessions[session].decisiveBatch = commits.pendingSequence
        }
        // After a restart no numbers are reserved. Reserving now keeps the first delivery from
        // waiting for a commit.
        reserveNumbers(session)
    }

    private mutating func addConnectedSession(
        _ connection: ConnectionID, request: ConnectRequest, session: Index<Session>,
        wasPresent: Bool, takeovers: TakeoverCount
    ) -> Index<ConnectedSession> {
        let keepAlive =
            switch request.dialect {
            case .mqtt3:
                // No packet of MQTT 3 can tell the client another value.
                request.keepAliveSeconds
            case .mrt, .json, .mqtt5:
                request.keepAliveSeconds == 0
                    ? limits.keepAliveSecondsMaximum
                    : min(request.keepAliveSeconds, limits.keepAliveSecondsMaximum)
            }
        return live.add(
            ConnectedSession(
                connection: connection, session: session, wasPresent: wasPresent,
                windowMaximum: max(1, min(request.inboxWindow, limits.inboxWindowMaximum)),
                start: sessions[session].inbox.acknowledgedThrough,
                receivedThrough: tracking.resumed.isEmpty ? 0 : tracking.resumed[session] ?? 0,
                backlogCount: sessions[session].inbox.count, cookie: request.newCookie,
                presentedCookie: request.cookie, keepAliveSeconds: keepAlive,
                publishWindow: limits.publishWindowMaximum,
                hasAssignedDevice: request.assignsDevice, takeovers: takeovers))
    }

    /// In MQTT a will belongs to its connection. The old will is deleted, and the client is
    /// accepted when the new one is committed.
    private mutating func replaceWill(of session: Index<Session>, _ request: ConnectRequest) {
        let hadWill = sessions[session].will != nil
        removeWill(of: session)
        if hadWill || request.will != nil {
            sessions[session].decisiveBatch = commits.pendingSequence
        }
    }

    /// Acknowledges what the receiver says it has; the rest of the queue is sent again.
    private mutating func resumeInbox(_ session: Index<Session>, _ resume: InboxPosition?) {
        guard let resume, resume.epoch == sessions[session].epoch,
            resume.number > sessions[session].inbox.acknowledgedThrough
        else { return }
        if sessions[session].inbox.count > 0,
            mayAwaitDelivery(to: sessions[session].user)
        {
            // Messages whose delivery is to be told are read before they are removed.
            tracking.resumed[session] = max(tracking.resumed[session] ?? 0, resume.number)
            return
        }
        if !tracking.resumed.isEmpty { tracking.resumed[session] = nil }
        sessions[session].inbox.acknowledgedThrough = resume.number
        guard sessions[session].inbox.count > 0 else { return }
        // The entries are on disk only. The result of the store tells how many they are.
        commits.clear(
            sessions[session].inbox.queue, through: resume.number,
            countMaximum: sessions[session].inbox.count)
    }

    private mutating func resumeOutbox(
        _ session: Index<Session>, _ position: OutboxPosition?, isNew: Bool
    ) {
        // In MQTT, identifiers of QoS 2 are kept until they are released.
        if sessions[session].dialect.isMQTT {
            if sessions[session].endImport() { markDirty(session, .outbox, isUrgent: false) }
            return
        }
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
            // A number up to here without a record may have been delivered.
            sessions[session].unknownThrough = position.highestUsed
            // Records of grade *once* survive a crash of the broker. They are void if the session
            // has ended, or if the sender counts by another epoch.
            if isNew || hadOther || !isFirst || sessions[session].isFromBackup {
                forget(session, through: position.highestUsed)
            } else if !isContinued {
                forget(session, through: 0)
            }
        }
        sessions[session].hasConnectedSinceStart = true
        if sessions[session].isFromBackup {
            // The same row contains the number up to which its sends are forgotten.
            sessions[session].isFromBackup = false
            markDirty(session, .session, isUrgent: true)
        }
        _ = forgetResults(session, completeThrough(session, position.resultsSeen))
    }

    /// Notes the number up to which a send of grade *once* may have been accepted without a record.
    /// The note must survive a crash, because the records do not return.
    private mutating func forget(_ session: Index<Session>, through number: UInt64) {
        guard number != sessions[session].unknownOnceThrough else { return }
        sessions[session].unknownOnceThrough = number
        if sessions[session].isPersistent { markDirty(session, .outbox, isUrgent: true) }
    }

    /// A sender that reconnects can only have seen results that were sent.
    private func completeThrough(_ session: Index<Session>, _ number: UInt64) -> UInt64 {
        for position in 0..<sessions[session].outbox.count {
            let entry = sessions[session].outbox[position]
            if !entry.isComplete && entry.number <= number { return entry.number - 1 }
        }
        return number
    }

    /// Creates a session without a connection.
    mutating func create(
        user: Index<User>, device: Name, dialect: SessionDialect, epoch: UInt64,
        expirySeconds expiry: UInt32, permit: borrowing GrowthPermit
    ) -> Index<Session> {
        let isPersistent = expiry > 0
        let identifier = isPersistent ? makeIdentifier() : 0
        var inbox = Inbox(queue: QueueID(raw: 0))
        if isPersistent {
            // The first persistent session that receives the user's messages inherits the offline
            // queue.
            let waiting = dialect.isMQTT ? nil : takeOfflineQueue(of: user)
            inbox = waiting ?? Inbox(queue: QueueID(raw: makeIdentifier()))
        }
        let session = insertSession(
            Session(
                identifier: identifier, user: user, device: device, dialect: dialect,
                epoch: epoch, inbox: inbox, expirySeconds: expiry))
        counters.sessionsCreated += 1
        if isPersistent {
            sessions[session].reservationRequested = inbox.nextNumber - 1
            sessions[session].decisiveBatch = commits.pendingSequence
            reserveNumbers(session)
            if sessions[session].receivesUserMessages { noteReceiver(session) }
            markDirty(session, .session, isUrgent: true)
        }
        return session
    }

    /// Inserts a session and links it to its user, its queue and the app's broadcasts.
    mutating func insertSession(_ new: consuming Session) -> Index<Session> {
        let user = new.user
        let queue = new.inbox.queue
        let isPersistent = new.isPersistent
        let session = sessions.insert(new).index
        // At the end of the chain, so that devices are served in the order of their creation.
        if let last = lastSession(of: user) {
            sessions[last].nextOfUser = session
        } else {
            registry.setFirstSession(session, of: user)
        }
        if isPersistent { queues.give(queue, to: session) }
        registry.countSession(of: user, isNew: true)
        // MRT sessions receive broadcasts and the messages of their user's groups without a
        // subscription; MQTT sessions subscribe to them.
        if !sessions[session].dialect.isMQTT {
            join(
                session: session,
                audience: registry.apps[registry.users[user].app].broadcastAudience, grade: .once)
            joinGroupAudiences(session)
        }
        updateWaiting(of: user)
        return session
    }

    /// Changes the expiry. A session that is persistent stays in the store until it ends, whatever
    /// the new expiry is.
    mutating func changeExpiry(_ session: Index<Session>, _ expiry: UInt32) {
        guard sessions[session].expirySeconds != expiry else { return }
        sessions[session].expirySeconds = expiry
        sessions[session].decisiveBatch = commits.pendingSequence
        markDirty(session, .session, isUrgent: true)
    }

    // MARK: - Acceptance

    /// Accepts the connection after the batch that created or changed its session.
    private mutating func acceptWhenCommitted(_ session: Index<Session>, in step: inout Step) {
        let confirmation = Confirmation.accept(
            live.connectedSessions[connectedIndex(of: session)].connection)
        if !commits.confirm(confirmation, after: sessions[session].decisiveBatch) {
            accept(session, in: &step)
        }
    }

    /// Tells the client that it is accepted, and begins to deliver.
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
                    unreadCount: sessions[session].pulls
                        ? unreadConversationCount(of: sessions[session].user) : nil,
                    user: step.effects[loop].bytes.append(
                        registry.users[sessions[session].user].name),
                    assignedDevice: live.connectedSessions[connected].hasAssignedDevice
                        ? step.effects[loop].bytes.append(sessions[session].device) : .empty)))
        note(
            .connected, session: session, reason: .connected, about: loginSubject(of: session),
            limit: .none, in: &step)
        announcePresence(of: session, isOnline: true, in: &step)
        if !wakes.isEmpty { noteBack(session, in: &step) }
        pump(session, in: &step)
    }
}
