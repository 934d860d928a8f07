// Keeps and sends wills: messages that the broker sends when it loses a device. The broker commits
// a will before it confirms it. Sending deletes the will and enqueues its message in one batch, so
// a crash cannot send it twice or lose it. The rights of its credential are checked when it is set,
// and again when it is sent; a will whose credential was withdrawn is not sent.
//
//     set ──lost──► delay runs ──over──► sent, with the batch under way ──committed──► gone
//      ▲                │                          │
//      └────── back ────┘      store full: again ◄─┘

import BrokerTerms
import Primitives

extension Broker {
    // MARK: - Set and clear

    /// Stands for the number of a request: the will is part of a login (MQTT).
    static let willOfLogin: UInt64 = 0

    /// Stores a will. It replaces the will that the session has.
    mutating func setWill(
        of connection: ConnectionID, identifier requestIdentifier: UInt64, _ request: WillRequest,
        in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        // The login waits for the batch of its will, and its answer is the answer to the will.
        let isPartOfLogin = requestIdentifier == Self.willOfLogin
        if let (reason, limit) = refusal(of: request, from: session, in: step.bytes) {
            refuseWill(
                of: session, identifier: requestIdentifier, request: request, reason: reason,
                limit: limit, in: &step)
            return
        }
        let owner = WillOwner(user: sessions[session].user, device: sessions[session].device)
        let will = Will(
            identifier: makeIdentifier(), owner: owner,
            keepAliveSeconds: live.connectedSessions[connectedIndex(of: session)].keepAliveSeconds,
            authority: authority(of: session), request, step.bytes)
        let row = row(of: will)
        let old = sessions[session].will
        let permit = admitGrowth(
            of: row.pageByteCount,
            replacing: old.map { self.row(of: willTable.wills[$0]).pageByteCount } ?? 0,
            for: isPartOfLogin ? .upkeep : .request)
        guard let permit else {
            refuseWill(
                of: session, identifier: requestIdentifier, request: request,
                reason: .quotaExceeded, limit: commits.room.limit, in: &step)
            return
        }
        // The new row takes over the part of the reserve that the old row had.
        removeWill(of: session, isReplaced: true)
        sessions[session].will = willTable.insert(will)
        sessions[session].decisiveBatch = commits.pendingSequence
        commits.put(row, permit)
        if isPartOfLogin { return }
        respondAtCommit(to: connection, request: requestIdentifier, reason: .success, body: [])
    }

    private mutating func refuseWill(
        of session: Index<Session>, identifier requestIdentifier: UInt64, request: WillRequest,
        reason: ReasonCode, limit: LimitName, in step: inout Step
    ) {
        counters.requestsRefused += 1
        if limit.isOfStore { counters.requestsOverQuota += 1 }
        let isPartOfLogin = requestIdentifier == Self.willOfLogin
        note(
            .sendRefused, session: session, reason: reason,
            subject: subject(of: request.message.target, in: step.bytes),
            limit: isPartOfLogin && limit == .none ? .willOfLogin : limit, in: &step)
        if isPartOfLogin {
            close(session, reason, in: &step)
            return
        }
        let connection = liveConnection(of: session)
        step.effects[connection.loop].respond(
            to: connection, request: requestIdentifier, reason: reason)
    }

    /// Deletes the will. If there is none, the answer still waits for a commit: the store may still
    /// have a will that an earlier request cleared.
    mutating func clearWill(_ connection: ConnectionID, _ requestIdentifier: UInt64) {
        guard let session = session(of: connection) else { return }
        removeWill(of: session)
        respondAtCommit(to: connection, request: requestIdentifier, reason: .success, body: [])
    }

    /// Why a will cannot be stored. Its receivers are checked now, while a client can still be told
    /// the reason, and again when it is sent.
    private mutating func refusal(
        of request: WillRequest, from session: Index<Session>, in bytes: UnsafeRawBufferPointer
    ) -> (ReasonCode, LimitName)? {
        let target: AuthorizedTarget
        let user = sessions[session].user
        switch authorize(request.message, by: .session(session), ofUser: user, in: bytes) {
        case .refused(let reason, let limit): return (reason, limit)
        case .allowed(let allowed): target = allowed
        }
        if moderation.isOn,
            isModerated(
                request.message.target, ofWillOf: user,
                subject: subject(of: request.message.target, in: bytes).bytes)
        {
            return (.notAuthorized, .moderatedWill)
        }
        if request.message.isKept,
            case .refused(let reason, let limit) = planHistory(
                of: request.message, sentTo: target, fromUser: user)
        {
            return (reason, limit)
        }
        // When the will is sent, no client can be told which receivers of a list were refused.
        if target.hasRefusals { return (.notAuthorized, .none) }
        guard request.message.payload.count <= CoreLimits.willPayloadMaximum else {
            return (.packetTooLarge, .willBytes)
        }
        var tally = RoutingTally(stamp: makeStamp())
        forEachDestination(
            of: target, grade: request.message.grade, from: session, user: sessions[session].user,
            tally: &tally
        ) { _, _, tally in tally.taken += 1 }
        return tally.taken == 0 && tally.refusedCount > 0 ? (tally.reason, .none) : nil
    }

    // MARK: - Credentials

    /// The credential of a connected session, in the form that its will stores.
    private func authority(of session: Index<Session>) -> WillAuthority {
        switch live.accesses[access(of: session)].source {
        case .token(let handle):
            // A token that is being revoked grants nothing.
            return WillAuthority(credential: .token(registry.tokens[handle]?.identifier ?? []))
        case .verified(let identity): return WillAuthority(credential: .verified(identity))
        case .appKey(let handle):
            // A key that is being revoked grants nothing.
            guard let key = registry.keys[handle]?.key else {
                return WillAuthority(credential: .token([]))
            }
            return WillAuthority(credential: .appKey(key.digest))
        case .anonymous: return WillAuthority(credential: .app)
        case .gateway(let gateway):
            guard let gatewaySession = self.session(of: gateway) else {
                return WillAuthority(credential: .token([]), isAttached: true)
            }
            var authority = self.authority(of: gatewaySession)
            authority.isAttached = true
            return authority
        }
    }

    /// Binds the will of a session to the session's new access. If a full store has no room for a
    /// longer row, the old row remains, and after a restart the broker checks the will by the old
    /// credential.
    mutating func renewAuthority(of session: Index<Session>) {
        guard let will = sessions[session].will else { return }
        let authority = authority(of: session)
        guard willTable.wills[will].authority != authority else { return }
        let old = row(of: willTable.wills[will]).pageByteCount
        willTable.setAuthority(authority, of: will)
        let row = row(of: willTable.wills[will])
        guard let permit = admitGrowth(of: row.pageByteCount, replacing: old, for: .upkeep) else {
            return
        }
        commits.put(row, permit)
    }

    /// The sender of a will that is due; nil if the credential was withdrawn, or if the gateway or
    /// the key may not attach the user any more.
    private func principal(of will: borrowing Will) -> Principal? {
        let app = registry.users[will.user].app
        if registry.isDeleted(will.user) || registry.apps[app].isBeingDeleted { return nil }
        let rights: Rights
        switch will.authority.credential {
        case .unknown:
            // The row of an earlier version.
            let user = Array(registry.users[will.user].name)
            rights =
                self.rights(
                    app: app, user: user, device: Array(will.device),
                    tokens: tokens(of: will.user)
                ).rights
        case .app: rights = registry.apps[app].rights
        case .token(let identifier):
            guard let token = registry.tokens.find(identifier) else { return nil }
            rights = token.rights ?? registry.apps[app].rights
        case .appKey(let digest):
            // Earlier versions let any key log in.
            guard let key = registry.keys.find(digest).flatMap({ registry.keys[$0] }),
                will.authority.isAttached
                    ? key.key.role == .operate : isAttached(will.user, by: key)
            else { return nil }
            rights = key.key.rights ?? registry.apps[app].rights
        case .verified(let identity):
            guard registry.believes(identity) else { return nil }
            rights = identity.rights ?? registry.apps[app].rights
        }
        let principal = Principal(
            app: app, user: will.user,
            names: PrincipalNames(user: registry.users[will.user].name, device: will.device),
            rights: rights, isMQTT: false)
        guard will.authority.isAttached else { return principal }
        let isAttached = registry.users[will.user].name.withUnsafeBytes {
            decision(.attach(user: $0), principal).isAllowed
        }
        return isAttached ? principal : nil
    }

    private func isAttached(_ user: Index<User>, by key: AppKeyTable.Entry) -> Bool {
        var ignored = 0
        let name = Array(registry.users[user].name)
        return decision(attaching: name, by: key, comparisons: &ignored).isAllowed
    }

    /// Checks a will that is due by the rights of this moment. If all receivers are refused, the
    /// will is deleted, counted and logged.
    private mutating func authorize(
        will index: Index<Will>, bytes: UnsafeRawBufferPointer, in step: inout Step
    ) -> AuthorizedTarget? {
        let request = willTable.wills[index].request
        var reason = ReasonCode.notAuthorized
        if moderation.isOn,
            isModerated(
                request.target, ofWillOf: willTable.wills[index].user,
                subject: subject(of: request.target, in: bytes).bytes)
        {
            // It was set before the app was moderated.
        } else if let principal = principal(of: willTable.wills[index]) {
            switch authorize(request.target, by: .principal(principal), in: bytes) {
            case .allowed(let target):
                if target.hasRefusals {
                    target.refusedNames.withUnsafeBytes {
                        noteWill(index, .notAuthorized, subject: $0, in: &step)
                    }
                }
                return target
            case .refused(let refused, _): reason = refused
            }
        }
        counters.willsRefused += 1
        noteWill(index, reason, subject: bytes, in: &step)
        forgetWill(index)
        return nil
    }

    private func noteWill(
        _ index: Index<Will>, _ reason: ReasonCode, subject: UnsafeRawBufferPointer,
        in step: inout Step
    ) {
        step.effects[0].effects.append(
            .note(
                LogEvent(
                    kind: .willRefused, connection: .none, reason: reason,
                    user: step.effects[0].bytes.append(
                        registry.users[willTable.wills[index].user].name),
                    device: step.effects[0].bytes.append(willTable.wills[index].device),
                    subject: step.effects[0].bytes.append(subject), other: .none)))
    }

    /// Deletes a session's will from memory and from the store.
    mutating func removeWill(of session: Index<Session>, isReplaced: Bool = false) {
        guard let will = sessions[session].will else { return }
        sessions[session].will = nil
        sessions[session].decisiveBatch = commits.pendingSequence
        forgetWill(will, isReplaced: isReplaced)
    }

    mutating func forgetWill(_ index: Index<Will>, isReplaced: Bool = false) {
        let will = willTable.remove(index)
        deadlines.cancel(will.token)
        if !isReplaced { commits.room.giveBack(row(of: will).pageByteCount) }
        commits.remove(.wills, key: will.key)
    }

    // MARK: - Delay

    /// Starts the delay of the will of a session whose connection was lost without a DISCONNECT.
    mutating func startWill(of session: Index<Session>, in step: inout Step) {
        guard let will = sessions[session].will else { return }
        // If the session ends before the delay, its end sends the will.
        if willTable.wills[will].delaySeconds == 0 {
            fireWill(of: session, in: &step)
        } else {
            scheduleWill(
                will, afterSeconds: UInt64(willTable.wills[will].delaySeconds), at: step.moment)
            // The session's row contains the time of the loss, so a restart continues the delay.
            markDirty(session, .session, isUrgent: true)
        }
    }

    private mutating func scheduleWill(
        _ index: Index<Will>, afterSeconds seconds: UInt64, at moment: Moment
    ) {
        let token = deadlines.insert(
            .will(index), at: moment.instant.advanced(bySeconds: seconds))
        willTable.setTimer(token, of: index)
    }

    /// Stops the delay: the device has connected again.
    mutating func stopWill(of session: Index<Session>) {
        guard let will = sessions[session].will else { return }
        stopTimer(of: will)
    }

    private mutating func stopTimer(of will: Index<Will>) {
        deadlines.cancel(willTable.wills[will].token)
        willTable.setTimer(.none, of: will)
    }

    /// Deletes a will that an earlier process stored, for a device that returns with a new session.
    mutating func removeDetachedWill(ofUser user: Index<User>, device: Name) {
        guard let will = willTable.takeDetached(of: WillOwner(user: user, device: device)) else {
            return
        }
        forgetWill(will)
    }

    // MARK: - Sending

    /// Sends a will whose delay has ended.
    mutating func willDue(_ index: Index<Will>, in step: inout Step) {
        willTable.setTimer(.none, of: index)
        let owner = WillOwner(
            user: willTable.wills[index].user, device: willTable.wills[index].device)
        if !willTable.takeDetached(index, of: owner),
            let session = session(of: owner.user, device: owner.device),
            sessions[session].will == index
        {
            fireWill(of: session, in: &step)
            return
        }
        send(will: index, excluding: nil, in: &step)
    }

    /// Sends a session's will and removes it from the session.
    mutating func fireWill(of session: Index<Session>, in step: inout Step) {
        guard let will = sessions[session].will else { return }
        sessions[session].will = nil
        stopTimer(of: will)
        send(will: will, excluding: session, in: &step)
    }

    /// Sends a will that belongs to no session any more. Its row is deleted and its message is
    /// added in the same batch. If the store has no room, the broker tries again later; a device
    /// that returns meanwhile does not stop it.
    private mutating func send(
        will index: Index<Will>, excluding session: Index<Session>?, in step: inout Step
    ) {
        let isRetained =
            willTable.wills[index].isRetained && !willTable.wills[index].payload.isEmpty
        if willTable.wills[index].grade != .transient && commits.room.isFull
            || isRetained && !hasRoom(toRetain: blockByteCount(ofWill: index))
        {
            scheduleWill(index, afterSeconds: CoreLimits.willRetrySeconds, at: step.moment)
            return
        }
        let address = willTable.wills[index].address
        address.withUnsafeBytes { bytes in
            guard let target = authorize(will: index, bytes: bytes, in: &step) else { return }
            // Only the log tells that the message will not be retained; the will is sent in any
            // case.
            if isRetained {
                let app = registry.users[willTable.wills[index].user].app
                let limit = retainLimit(
                    bytes, byteCount: blockByteCount(ofWill: index), app: app)
                if limit != .none { noteWill(index, .quotaExceeded, subject: bytes, in: &step) }
            }
            if willTable.wills[index].grade == .transient {
                sendTransient(will: index, to: target, bytes: bytes, excluding: session, in: &step)
            } else {
                sendDurable(will: index, to: target, bytes: bytes, excluding: session, in: &step)
            }
        }
    }

    private func blockByteCount(ofWill index: Index<Will>) -> Int {
        MessageBlock.headerByteCount + registry.users[willTable.wills[index].user].name.count
            + willTable.wills[index].address.count + willTable.wills[index].properties.count
            + willTable.wills[index].payload.count
    }

    private mutating func sendDurable(
        will index: Index<Will>, to target: AuthorizedTarget, bytes: UnsafeRawBufferPointer,
        excluding session: Index<Session>?, in step: inout Step
    ) {
        let will = willTable.wills[index]
        let request = will.request
        sendSystemMessage(
            request.target.kind, about: request.target.address(in: bytes), payload: will.payload,
            properties: will.properties, from: Array(registry.users[will.user].name),
            grade: will.grade,
            marks: wakesForWills(will.user) ? will.marks : will.marks.union(.noWake),
            expirySeconds: will.expirySeconds, at: step.moment
        ) { broker, message, tally in
            if will.isRetained {
                broker.retain(message, ofUser: will.user, request, at: step.moment)
            }
            broker.route(
                message, to: target, grade: will.grade, fromUser: will.user,
                excluding: broker.excludedSession(request, session), tally: &tally, in: &step)
        }
        commits.fire(index, key: will.key)
    }

    /// Whether a will wakes its receivers.
    private func wakesForWills(_ user: Index<User>) -> Bool {
        let app = registry.apps[registry.users[user].app].name
        return limits.policy(ofApp: app).wake?.wakesForWills == true
    }

    /// Sends a will of QoS 0 to the receivers that are connected, and deletes it.
    private mutating func sendTransient(
        will index: Index<Will>, to target: AuthorizedTarget, bytes: UnsafeRawBufferPointer,
        excluding session: Index<Session>?, in step: inout Step
    ) {
        let will = willTable.wills[index]
        counters.willsSent += 1
        forgetWill(index)
        let request = will.request
        will.payload.withUnsafeBytes { payload in
            will.properties.withUnsafeBytes { properties in
                scratch.removeAll()
                let name = scratch.append(registry.users[will.user].name)
                let parts = MessageParts(
                    kind: request.target.kind, marks: will.marks.union(.noWake), grade: .transient,
                    time: step.moment.unixMilliseconds, sender: name.bytes(in: scratch.bytes),
                    address: request.target.address(in: bytes), properties: properties,
                    payload: payload)
                _ = sendTransient(
                    request, parts, to: target, from: session, ofUser: will.user, in: &step)
            }
        }
    }

    /// Takes the result of the batch that contains the messages of wills.
    mutating func settleWills(isStored: Bool, at moment: Moment) {
        for will in commits.inFlightBatch.firedWills {
            if isStored {
                counters.willsSent += 1
                willTable.remove(will)
            } else {
                // The row is still in the store: the deletion was refused together with the
                // message.
                scheduleWill(will, afterSeconds: CoreLimits.willRetrySeconds, at: moment)
            }
        }
    }

    // MARK: - Restart

    private func row(of will: borrowing Will) -> RecordChange {
        will.row(
            app: registry.apps[registry.users[will.user].app].name,
            user: Array(registry.users[will.user].name))
    }

    mutating func restoreWill(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        let version = value.first.map { (2...3).contains($0) ? $0 : 1 } ?? 1
        var row = try RecordReader(value, version: version, table: .wills, key: key)
        let dangling = RestoreError.danglingRecord(.wills, key: key)
        let appName = try row.readString()
        let userName = try row.readString()
        guard key.count == 8, let app = app(named: appName) else { throw dangling }
        // The store was full when the will was due, and its user was deleted since.
        guard let user = self.user(named: userName, app: app) else {
            return commits.noteStray(.wills, key: key)
        }
        let will = try Will(
            identifier: RecordKey.readNumber(key), user: user, app: appName, version: version,
            &row, else: dangling)
        let index = willTable.insert(will)
        if let session = session(of: user, device: will.device) {
            sessions[session].will = index
        } else {
            willTable.insertDetached(index)
        }
    }

    /// Starts the delays of wills after a restart. The time at which a connected device was lost is
    /// not known, so the device gets time to return, after each restart until it is back: the
    /// longest of the will's delay, 1.5 times its keep-alive, and 60 s from now. For a device that
    /// was lost before, the delay includes the downtime.
    mutating func scheduleRestoredWills(returning: Set<Index<Session>>, at moment: Moment) {
        for index in willTable.wills.places where willTable.wills.contains(index) {
            let session = session(
                of: willTable.wills[index].user, device: willTable.wills[index].device)
            let delay = UInt64(willTable.wills[index].delaySeconds)
            if let session, !returning.contains(session) {
                let lost = sessions[session].disconnected
                let token = deadlines.insert(
                    .will(index), at: max(lost.advanced(bySeconds: delay), moment.instant))
                willTable.setTimer(token, of: index)
                continue
            }
            let silence = UInt64(willTable.wills[index].keepAliveSeconds) * 3 / 2
            let grace = max(delay, silence, CoreLimits.restartGraceSeconds)
            scheduleWill(index, afterSeconds: grace, at: moment)
            // The session must not end earlier, because its end would send the will.
            guard let session else { continue }
            cancelExpiry(session)
            startExpiry(session, notBefore: moment.instant.advanced(bySeconds: grace))
        }
    }
}
