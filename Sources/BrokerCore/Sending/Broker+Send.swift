// A send, from the sender's packet to the inboxes of its receivers. It is recognised if it is a
// resend, refused with a reason, or accepted for a set of receivers that does not change later.

import BrokerTerms
import Primitives

/// The results of routing one send.
struct RoutingTally {
    /// The position of the receiver, while a list is being routed.
    var listIndex: UInt32?
    var taken: UInt32 = 0
    var refusedCount: UInt32 = 0
    /// The reason of the first refusal, for a send that no receiver took.
    var reason = ReasonCode.noMatchingSubscribers
    /// The limit that caused it.
    var limit = LimitName.none
    /// Refused receivers of a list, by position.
    var refusals: [Refusal] = []
    /// The stamp of the send, for ``User/routedStamp``.
    let stamp: UInt64
    /// The message that is put into queues; nil for a send that is not queued.
    @Packed var message: Index<Message>? = nil
    /// Whether history keeps the message for some receivers, so that their devices that pull need
    /// no copy: ``ConversationTable/pull`` has these receivers.
    var isPullable = false
    /// Those of `taken` that got no copy.
    var pulledCount: UInt32 = 0

    init(stamp: UInt64) { self.stamp = stamp }

    mutating func refuse(_ reason: ReasonCode, _ limit: LimitName = .none) {
        if refusedCount == 0 { (self.reason, self.limit) = (reason, limit) }
        refusedCount += 1
        if let listIndex, refusals.last?.index != listIndex {
            refusals.append(Refusal(index: listIndex, reason: reason))
        }
    }
}

/// A destination of a message: the receivers of an address or a topic, the sessions of a user, or
/// the offline queue of a user without sessions.
enum Destination {
    case audience(Index<Audience>)
    case sessions(ofUser: Index<User>)
    case offlineQueue(ofUser: Index<User>)
    case group(Index<Group>)
}

extension Broker {
    mutating func send(_ connection: ConnectionID, _ request: SendRequest, in step: inout Step) {
        guard let sender = session(of: connection) else { return }
        if request.packetIdentifier > 0 {
            publish(request, from: sender, in: &step)
            return
        }
        if request.number > 0
            && !isNewSend(sender, request, in: &step)
        {
            return
        }
        acceptOrRefuse(request, from: sender, in: &step)
    }

    /// Checks a send, and routes or refuses it.
    mutating func acceptOrRefuse(
        _ request: SendRequest, from sender: Index<Session>, in step: inout Step
    ) {
        if request.isUnusual, let (reason, cause) = fault(ofUnusual: request, at: step.moment) {
            refuse(request, from: sender, reason, limit: cause, in: &step)
            return
        }
        if moderation.isOn, moderate(request, from: sender, in: &step) { return }
        acceptOrRefuseNow(request, from: sender, in: &step)
    }

    /// The same for a send that is not held, or not any more.
    @inline(__always)
    mutating func acceptOrRefuseNow(
        _ request: SendRequest, from sender: Index<Session>, in step: inout Step
    ) {
        let user = sessions[sender].user
        switch authorize(request, by: .session(sender), ofUser: user, in: step.bytes) {
        case .refused(let reason, let limit):
            refuse(request, from: sender, reason, limit: limit, in: &step)
        case .allowed(let target):
            if request.reference == 0 {
                route(request, to: target, from: sender, in: &step)
            } else {
                routeTracked(request, to: target, from: sender, in: &step)
            }
        }
    }

    /// Routes a send that has a reference.
    @inline(never)
    private mutating func routeTracked(
        _ request: SendRequest, to target: AuthorizedTarget, from sender: Index<Session>,
        in step: inout Step
    ) {
        var request = request
        request.reference = freeReference(request.reference)
        untakenReceivers.begin(isNoting: !request.collapseKey.isEmpty)
        route(request, to: target, from: sender, in: &step)
        untakenReceivers.end()
    }

    @inline(__always)
    private mutating func route(
        _ request: SendRequest, to target: AuthorizedTarget, from sender: Index<Session>,
        in step: inout Step
    ) {
        if mayBeKept(request) { return routeKept(request, to: target, from: sender, in: &step) }
        let parts = self.parts(
            of: request, keptNumber: 0, from: sender, in: step.bytes, at: step.moment)
        if request.grade == .transient {
            routeTransient(request, parts, to: target, from: sender, in: &step)
        } else {
            routeDurable(request, parts, to: target, keptBy: nil, from: sender, in: &step)
        }
    }

    /// Routes a send that may be kept.
    @inline(never)
    private mutating func routeKept(
        _ request: SendRequest, to target: AuthorizedTarget, from sender: Index<Session>,
        in step: inout Step
    ) {
        var plan: HistoryPlan?
        switch planHistory(of: request, sentTo: target, fromUser: sessions[sender].user) {
        case .notKept: break
        case .kept(let decided): plan = decided
        case .refused(let reason, let limit):
            return refuse(request, from: sender, reason, limit: limit, in: &step)
        }
        let parts = self.parts(
            of: request, keptNumber: plan?.number ?? 0, from: sender, in: step.bytes,
            at: step.moment)
        if request.grade == .transient {
            routeTransient(request, parts, to: target, from: sender, in: &step)
        } else {
            routeDurable(request, parts, to: target, keptBy: plan, from: sender, in: &step)
        }
    }

    // MARK: - Resends

    /// Whether a numbered send must be routed. A resend of an accepted one is answered with its
    /// result when there is one; a number outside the window ends the connection.
    private mutating func isNewSend(
        _ sender: Index<Session>, _ request: SendRequest, in step: inout Step
    ) -> Bool {
        if request.number <= sessions[sender].resultsSeenThrough {
            close(sender, .protocolError, in: &step)
            return false
        }
        if let position = sessions[sender].outbox.position(of: request.number) {
            counters.sendsRepeated += 1
            if sessions[sender].outbox[position].isComplete {
                reportResult(
                    sender, position,
                    messageIdentifier: request.messageIdentifier.bytes(in: step.bytes), in: &step)
            } else {
                sessions[sender].outbox[position].isToldOnRepeat = false
            }
            return false
        }
        if sessions[sender].outbox.count >= Int(limits.sendWindowMaximum) {
            close(sender, .receiveMaximumExceeded, in: &step)
            return false
        }
        return true
    }

    /// Removes the results up to a number, because the sender has seen them.
    mutating func resultsSeen(
        _ connection: ConnectionID, _ throughNumber: UInt64, in step: inout Step
    ) {
        guard let sender = session(of: connection) else { return }
        guard forgetResults(sender, throughNumber) else {
            close(sender, .protocolError, in: &step)
            return
        }
    }

    /// Removes the results up to a number. Returns false if one of them has not been sent yet.
    mutating func forgetResults(_ sender: Index<Session>, _ throughNumber: UInt64) -> Bool {
        guard throughNumber > sessions[sender].resultsSeenThrough else { return true }
        var seen = 0
        var hadStored = false
        while seen < sessions[sender].outbox.count {
            let entry = sessions[sender].outbox[seen]
            guard entry.number <= throughNumber else { break }
            guard entry.isComplete else { return false }
            hadStored = hadStored || entry.isStored
            if entry.namesRefusals { sessions[sender].senderState.value.takeNames(of: entry) }
            seen += 1
        }
        sessions[sender].outbox.removeFirst(seen)
        sessions[sender].resultsSeenThrough = throughNumber
        if hadStored { markDirty(sender, .outbox, isUrgent: false) }
        return true
    }

    // MARK: - Checks

    /// The receivers that a send may go to, or the reason for which it is refused for all
    /// receivers.
    @inline(__always)
    mutating func authorize(
        _ request: SendRequest, by requester: Requester, ofUser user: Index<User>,
        in bytes: UnsafeRawBufferPointer
    ) -> SendDecision {
        if let fault = request.fault { return .refused(fault, request.faultCause) }
        if registry.isDeletingApps, registry.apps[registry.users[user].app].isBeingDeleted {
            return .refused(.notAuthorized)
        }
        if request.isRaw {
            if request.payload.count > limits.payloadMaximum {
                return .refused(.packetTooLarge, .payloadBytes)
            }
        } else if request.messageByteCount > limits.messageMaximum {
            return .refused(.packetTooLarge, .messageBytes)
        }
        let decision = authorize(request.target, by: requester, in: bytes)
        if case .refused = decision { return decision }
        if request.grade != .transient {
            if commits.room.isFull { return .refused(.quotaExceeded, commits.room.limit) }
            if isAppOverQuota(ofUser: user) { return .refused(.quotaExceeded, .appBytes) }
        }
        // Messages that wait for the disk are in memory until then, whoever receives them.
        if request.grade != .transient
            && commits.pendingBatch.memoryByteCount >= limits.uncommittedBytesMaximum
        {
            counters.sendsOverUncommitted += 1
            return .refused(.quotaExceeded, .uncommittedBytes)
        }
        if request.isRetained {
            let limit = retainLimit(request, ofUser: user, in: bytes)
            guard limit == .none else { return .refused(.quotaExceeded, limit) }
        }
        guard request.isUnusual, case .allowed(let target) = decision else { return decision }
        let receivers = restricted(
            target, by: request.mentions.options,
            names: ListReader(request.mentions.names.bytes(in: bytes)))
        if request.isTracked {
            let refusal = refusalToTrack(
                request, to: receivers, fromUser: user, by: requester,
                collapseKey: Array(request.collapseKey.bytes(in: bytes)))
            if refusal.reason != .success { return .refused(refusal.reason, refusal.limit) }
        }
        return .allowed(receivers)
    }

    /// Answers a refused send. The refusal is not remembered: the same number may be sent again as
    /// a new send.
    mutating func refuse(
        _ request: SendRequest, from sender: Index<Session>, _ reason: ReasonCode,
        limit: LimitName = .none, verdict: VerdictNote? = nil, in step: inout Step
    ) {
        counters.sendsRefused += 1
        // The log has the code that the client gets: no acknowledgement of MQTT 5.0 has
        // packetTooLarge (section 3.4.2.1).
        let hasCodes = sessions[sender].dialect == .mqtt5
        let noted = hasCodes && reason == .packetTooLarge ? .quotaExceeded : reason
        if request.packetIdentifier > 0 {
            note(
                .sendRefused, session: sender, reason: noted,
                subject: subject(of: request.target, in: step.bytes), limit: limit, in: &step)
            rememberRefusal(request, reason, cause: limit, from: sender, in: &step)
            return
        }
        let connection = live.connectedSessions[connectedIndex(of: sender)].connection
        let identifier = request.messageIdentifier.bytes(in: step.bytes)
        step.effects[connection.loop].appendResult(
            connection, number: request.number, reason: reason, messageIdentifier: identifier,
            cause: limit, verdict: verdict)
        note(
            .sendRefused, session: sender, reason: noted,
            subject: subject(of: request.target, in: step.bytes), limit: limit, in: &step)
    }

    func subject(of target: SendTarget, in bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer
    {
        switch target {
        case .user(let name), .group(let name), .topic(let name): name.bytes(in: bytes)
        case .users(let ids, _): ids.bytes(in: bytes)
        case .everybody: UnsafeRawBufferPointer(start: nil, count: 0)
        }
    }

    /// The parts of the message: the authenticated sender, and the sender's time if it is
    /// plausible.
    private mutating func parts(
        of request: SendRequest, keptNumber: UInt64, from sender: Index<Session>,
        in bytes: UnsafeRawBufferPointer, at moment: Moment
    ) -> MessageParts {
        let time =
            request.senderUnixMilliseconds == 0
            ? moment.unixMilliseconds : self.time(of: request, at: moment)
        var marks = self.marks(of: request)
        let isUncertain =
            switch request.grade {
            case .transient: false
            case .durable: request.number <= sessions[sender].unknownThrough
            case .once: request.number <= sessions[sender].unknownOnceThrough
            }
        if isUncertain {
            marks.insert(.possibleDuplicate)
            counters.possibleDuplicates += 1
        }
        scratch.removeAll()
        let name = scratch.append(registry.users[sessions[sender].user].name)
        if request.hasFields || keptNumber != 0 || request.isUndelivered {
            if !wakes.isEmpty { wakes.push = Array(request.push.bytes(in: bytes)) }
            let section = scratch.append(
                self.section(of: request, keptNumber: keptNumber, in: bytes))
            return MessageParts(
                kind: request.target.kind, marks: marks.union(.fields), grade: request.grade,
                time: time, sender: name.bytes(in: scratch.bytes),
                address: request.target.address(in: bytes),
                properties: section.bytes(in: scratch.bytes),
                payload: request.payload.bytes(in: bytes))
        }
        return MessageParts(
            kind: request.target.kind, marks: marks, grade: request.grade, time: time,
            sender: name.bytes(in: scratch.bytes), address: request.target.address(in: bytes),
            properties: request.properties.bytes(in: bytes),
            payload: request.payload.bytes(in: bytes))
    }

    /// The marks that a send asks for.
    @inline(__always)
    func marks(of request: SendRequest) -> MessageMarks {
        var marks: MessageMarks = request.isRaw ? .raw : []
        if request.isRetained { marks.insert(.retain) }
        if request.expirySeconds != nil { marks.insert(.expires) }
        guard request.isUnusual else { return marks }
        switch request.priority {
        case .normal: break
        case .low: marks.insert(.low)
        case .high: marks.insert(.high)
        }
        if request.isWithoutWake { marks.insert(.noWake) }
        return marks
    }

    // MARK: - Routing

    /// Routes a send at most once, to receivers that are connected, without storing it in memory or
    /// on disk.
    private mutating func routeTransient(
        _ request: SendRequest, _ parts: MessageParts, to target: AuthorizedTarget,
        from sender: Index<Session>, in step: inout Step
    ) {
        let user = sessions[sender].user
        let tally = sendTransient(request, parts, to: target, from: sender, ofUser: user, in: &step)
        if tally.taken == 0 && tally.refusedCount > 0 {
            refuse(request, from: sender, tally.reason, limit: tally.limit, in: &step)
        } else {
            counters.sendsAccepted += 1
            noteForbidden(target, from: sender, in: &step)
        }
    }

    /// The same for a message of a user, whose session need not exist.
    mutating func sendTransient(
        _ request: SendRequest, _ parts: MessageParts, to target: AuthorizedTarget,
        from sender: Index<Session>?, ofUser user: Index<User>, in step: inout Step
    ) -> RoutingTally {
        let message = TransientMessage(
            stamp: makeStamp(), parts: parts, deadline: deadline(of: request, at: step.moment),
            excluded: excludedSession(request, sender), sender: sender,
            isRetained: request.isRetained)
        var tally = RoutingTally(stamp: message.stamp)
        forEachDestination(
            of: target, grade: request.grade, from: sender, user: user, tally: &tally
        ) {
            broker, destination, tally in
            tally.taken += 1
            switch destination {
            case .audience(let audience):
                broker.deliver(message, to: audience, in: &step)
            case .sessions(let user):
                broker.deliver(message, toSessionsOf: user, in: &step)
            case .group(let group):
                broker.deliver(message, to: broker.groupTable.groups[group].audience, in: &step)
            case .offlineQueue(let user):
                if !broker.wakes.isEmpty {
                    broker.noteTransient(message.parts, for: user, in: &step)
                }
            }
        }
        if request.isRetained, tally.taken > 0 || tally.refusedCount == 0 {
            retain(
                parts, app: registry.users[user].app, expirySeconds: request.expirySeconds,
                at: step.moment)
        }
        return tally
    }

    /// Routes a durable send or one of grade once: into the inboxes of all receivers, and into the
    /// batch.
    private mutating func routeDurable(
        _ request: SendRequest, _ parts: MessageParts, to target: AuthorizedTarget,
        keptBy plan: HistoryPlan?, from sender: Index<Session>, in step: inout Step
    ) {
        let stamp = makeStamp()
        // Held until it is routed and remembered.
        let message = memory.insert(
            parts, messageIdentifier: request.messageIdentifier.bytes(in: step.bytes),
            stamp: stamp, deadline: deadline(of: request, at: step.moment),
            sender: sessions.handle(sender), senderNumber: request.number)
        defer { memory.release(message) }
        let excluded = excludedSession(request, sender)
        var tally = RoutingTally(stamp: stamp)
        if let plan, conversationTable.pullingCount > 0 {
            notePullable(
                plan, request, sentTo: target, fromUser: sessions[sender].user, tally: &tally)
        }
        if request.isUndelivered {
            routeNowhere(
                target, grade: request.grade, fromUser: sessions[sender].user, tally: &tally)
        } else {
            route(
                message, to: target, grade: request.grade, fromUser: sessions[sender].user,
                excluding: excluded, tally: &tally, in: &step)
        }
        if tally.taken == 0 && tally.refusedCount > 0 {
            refuse(request, from: sender, tally.reason, limit: tally.limit, in: &step)
            return
        }
        counters.sendsAccepted += 1
        counters.receiversRefused += UInt64(tally.refusedCount)
        noteForbidden(target, from: sender, in: &step)
        // Receivers that need no acknowledgement have it: sessions that are not persistent, and QoS
        // 0 subscriptions.
        memory.noteTaken(
            request.isUndelivered ? 0 : tally.taken - tally.pulledCount, of: message)
        remember(request, tally: tally, from: sender, message: message)
        if request.isRetained {
            retain(message, ofUser: sessions[sender].user, request, at: step.moment)
        }
        if let plan {
            keep(
                message, by: plan, fromUser: sessions[sender].user,
                news: tally.isPullable ? conversationTable.pull.newsUsers : [])
        }
        if request.isTracked {
            track(
                message, request, sentTo: target, fromUser: sessions[sender].user, session: sender,
                in: &step)
        }
        memory.noteRouted(message)
        completeIfSettled(message, in: &step)
    }

    /// Puts a message into the inboxes of all receivers of a send.
    mutating func route(
        _ message: Index<Message>, to target: AuthorizedTarget, grade: Grade,
        fromUser user: Index<User>, excluding excluded: Index<Session>?, tally: inout RoutingTally,
        in step: inout Step
    ) {
        let sender = senderSession(of: message)
        tally.message = message
        forEachDestination(of: target, grade: grade, from: sender, user: user, tally: &tally) {
            broker, destination, tally in
            switch destination {
            case .audience(let audience):
                broker.enqueue(
                    message, audience: audience, excluding: excluded, tally: &tally, in: &step)
            case .sessions(let user):
                broker.enqueue(message, sessionsOf: user, tally: &tally, in: &step)
            case .offlineQueue(let user):
                broker.enqueue(message, offlineQueueOf: user, tally: &tally, in: &step)
            case .group(let group):
                broker.enqueue(message, group: group, excluding: excluded, tally: &tally, in: &step)
            }
        }
    }

    /// Stores the result of an accepted send until the sender has seen it; for grade *once* also on
    /// disk, in the same batch as the message.
    private mutating func remember(
        _ request: SendRequest, tally: RoutingTally, from sender: Index<Session>,
        message: Index<Message>
    ) {
        var entry = OutboxEntry(
            number: request.number, stamp: tally.stamp, grade: request.grade)
        entry.packetIdentifier = request.packetIdentifier
        if tally.taken == 0 { entry.reason = .noMatchingSubscribers }
        entry.refusedCount = tally.refusedCount
        storeRefusals(tally.refusals, in: &entry, of: sender)
        entry.isTracked = request.isTracked
        if request.packetIdentifier > 0 {
            addRecentSend(request, tally, from: sender)
            addPublication(entry, of: sender)
        } else {
            sessions[sender].outbox.insert(entry)
        }
        guard request.grade == .once && sessions[sender].isPersistent else { return }
        attachToBatch(message)
        memory.awaitSendRow(of: message)
        if request.packetIdentifier > 0 {
            writeSend(entry, of: sender)
        } else {
            markDirty(sender, .send, isUrgent: true)
        }
    }

    /// Calls `body` with each destination of a send. Refuses receivers that do not exist.
    mutating func forEachDestination(
        of target: AuthorizedTarget, grade: Grade, from sender: Index<Session>?, user: Index<User>,
        tally: inout RoutingTally, _ body: (inout Broker, Destination, inout RoutingTally) -> Void
    ) {
        let app = registry.users[user].app
        switch target.receivers {
        case .user(let name):
            forEachDestination(
                ofUser: receiver(named: name, app, from: sender), app: app, tally: &tally, body)
        case .users(let ids, let count, let refused):
            var list = ListReader(ids)
            for index in 0..<count {
                let name = list.next()
                tally.listIndex = UInt32(index)
                if refused.contains(index) {
                    tally.refuse(.notAuthorized)
                } else {
                    forEachDestination(
                        ofUser: self.user(named: name, app: app), app: app, tally: &tally, body)
                }
            }
        case .everybody:
            body(&self, .audience(registry.apps[app].broadcastAudience), &tally)
            if let audience = audience(ofAddress: .everybody, [], app: app) {
                body(&self, .audience(audience), &tally)
            }
        case .group(let group):
            body(&self, .group(group), &tally)
            if let audience = audience(ofAddress: .group, groupTable.groups[group].name, app: app) {
                body(&self, .audience(audience), &tally)
            }
        case .mentioned(let group, let names):
            forEachDestination(
                mentionedIn: names, of: group, app: app, isQueued: tally.message != nil,
                tally: &tally, body)
        case .topic(let name):
            if let audience = audience(ofTopic: name, app, from: sender) {
                body(&self, .audience(audience), &tally)
            }
            if let audience = audience(
                ofSharesOf: name, app, grade: grade, message: tally.message)
            {
                body(&self, .audience(audience), &tally)
            }
        }
    }

    /// The user of an app by name. Most devices send to one user only, so the last one is tried
    /// before the table.
    private mutating func receiver(
        named name: UnsafeRawBufferPointer, _ app: Index<App>, from sender: Index<Session>?
    ) -> Index<User>? {
        guard let sender, let connected = sessions[sender].connected else {
            return user(named: name, app: app)
        }
        if let last = live.connectedSessions[connected].lastReceiver,
            registry.users[last].app == app, !registry.isDeleted(last),
            registry.users[last].name == name
        {
            return last
        }
        let user = user(named: name, app: app)
        live.connectedSessions[connected].noteReceiver(user)
        return user
    }

    /// The destination of messages to a user. Refuses a user that does not exist.
    private mutating func forEachDestination(
        ofUser user: Index<User>?, app: Index<App>, tally: inout RoutingTally,
        _ body: (inout Broker, Destination, inout RoutingTally) -> Void
    ) {
        guard let user else {
            tally.refuse(.topicNameInvalid)
            return
        }
        // A user that a list names twice gets the message once.
        guard registry.noteRouted(to: user, stamp: tally.stamp) else { return }
        guard hasReceiver(user) else {
            body(&self, .offlineQueue(ofUser: user), &tally)
            return
        }
        body(&self, .sessions(ofUser: user), &tally)
        if let audience = audience(ofAddress: .user, registry.users[user].name, app: app) {
            body(&self, .audience(audience), &tally)
        }
    }

    /// The receivers of a plain topic. If several filters match, their audiences are merged, so
    /// that a session gets the message once, in the highest grade of its matching filters.
    mutating func audience(
        ofTopic topic: UnsafeRawBufferPointer, _ app: Index<App>, from sender: Index<Session>?
    ) -> Index<Audience>? {
        if let recent = registry.apps[app].topics.recentMatch(of: topic) { return recent.target }
        // Moved out of the broker while it is filled: the tree is a part of the same broker.
        var matched = ContiguousArray<Index<Audience>>()
        swap(&matched, &routing.matchedAudiences)
        defer { swap(&matched, &routing.matchedAudiences) }
        matched.removeAllKeepingCapacity()
        workload.charge(
            registry.apps[app].topics.match(topic, into: &matched) / CoreLimits.nodesPerWork)
        if matched.count <= 1 {
            registry.noteMatch(of: topic, target: matched.first, app: app)
            return matched.first
        }
        if merge(matched, from: sender) { routing.mark(matched, topic: topic, app: app) }
        return routing.mergedAudience
    }

    /// The session that does not receive its own send.
    func excludedSession(_ request: SendRequest, _ sender: Index<Session>?) -> Index<Session>? {
        switch request.target {
        case .group, .everybody: sender
        case .user, .users, .topic: nil
        }
    }

    /// Expiry of a message: its own, or the maximum age in queues.
    private func deadline(of request: SendRequest, at moment: Moment) -> Instant {
        deadline(after: request.expirySeconds, at: moment)
    }

    func deadline(after expirySeconds: UInt64?, at moment: Moment) -> Instant {
        let oldest = moment.instant.advanced(bySeconds: limits.queueAgeSecondsMaximum)
        guard let seconds = expirySeconds else { return oldest }
        return min(oldest, moment.instant.advanced(bySeconds: seconds))
    }
}
