// Sends with a reference: their admission, their rows, and their end at the message's expiry. The
// row of a send is committed with its message, and its result waits for that.

import BrokerTerms
import Primitives

extension Broker {
    // MARK: - Admission

    /// The reason for which a send that asks for a reference or for receipts is refused.
    ///
    /// - Returns: ``ReasonCode/success`` if it can be tracked.
    @inline(never)
    mutating func refusalToTrack(
        _ request: SendRequest, to target: AuthorizedTarget, fromUser user: Index<User>,
        by requester: Requester, collapseKey: [UInt8]
    ) -> (reason: ReasonCode, limit: LimitName) {
        // A transient message has no result that could tell a reference.
        guard request.grade != .transient else { return (.qosNotSupported, .asksOfTransient) }
        if !request.asks.isDisjoint(with: .receipts) {
            // Nobody gets a message that is only kept.
            guard !request.isUndelivered else { return (.topicNameInvalid, .receiptsOfKept) }
            switch target.receivers {
            // Nobody knows how many there are.
            case .everybody, .topic: return (.topicNameInvalid, .receiptsTarget)
            case .user, .users, .group, .mentioned:
                guard mayAskReceipts(of: target, requester) else {
                    return (.notAuthorized, .receiptsRight)
                }
            }
        }
        var hasPlace = false
        if !request.collapseKey.isEmpty {
            guard !request.isUndelivered, !request.isRetained else {
                return (.topicNameInvalid, .collapseTarget)
            }
            switch target.receivers {
            case .everybody, .topic: return (.topicNameInvalid, .collapseTarget)
            case .user, .users, .group, .mentioned: break
            }
            switch decideCollapse(request, to: target, fromUser: user, key: collapseKey) {
            case .refused(let reason, let limit): return (reason, limit)
            case .allowed(let givesPlace): hasPlace = givesPlace
            }
        }
        let app = registry.users[user].app
        let limit = hasPlace ? .none : limitOfTracking(fromUser: user, app: app)
        guard limit == .none else {
            counters.trackedRefused += 1
            return (.quotaExceeded, limit)
        }
        let byteCount = Records.trackedSendPageByteCount(
            app: registry.apps[app].name, receiverByteCount: receiverByteCount(of: target))
        return hasRoom(for: byteCount) ? (.success, .none) : (.quotaExceeded, commits.room.limit)
    }

    /// The limit because of which one more send of a user cannot be tracked. Those of which
    /// everything is told make room.
    private func limitOfTracking(fromUser user: Index<User>, app: Index<App>) -> LimitName {
        if tracking.count(ofUser: user) >= limits.trackedSendsPerUserMaximum {
            return tracking.oldestSettled(ofUser: user) == nil ? .trackedSendsOfUser : .none
        }
        // The last tenth is for those who have few.
        if tracking.unsettledCount(ofApp: app) >= limits.trackedSendsOfManyPerAppMaximum,
            tracking.unsettledCount(ofUser: user) >= limits.trackedSendsOfFewMaximum
        {
            return .trackedSendsOfApp
        }
        let isFull = tracking.count(ofApp: app) >= limits.trackedSendsPerAppMaximum
        return isFull && tracking.oldestSettled(ofApp: app) == nil ? .trackedSendsOfApp : .none
    }

    /// The limit because of which one more member of a group cannot be remembered. Users that the
    /// send named always are.
    func limitOfRemembering(memberOf index: Index<TrackedSend>) -> LimitName {
        guard tracking.sends[index].targetKind == .group else { return .none }
        let (app, sender) = (tracking.sends[index].app, tracking.sends[index].sender)
        let (count, senderCount) = (
            tracking.memberCount(ofApp: app), tracking.memberCount(ofUser: sender)
        )
        if senderCount >= limits.trackedMembersPerUserMaximum { return .trackedMembersOfUser }
        if count >= limits.trackedMembersPerAppMaximum
            || count >= limits.trackedMembersOfManyPerAppMaximum
                && senderCount >= limits.trackedMembersOfFewMaximum
        {
            return .trackedMembersOfApp
        }
        return .none
    }

    /// Whether a sender may ask all receivers of a target what they did with a message.
    private mutating func mayAskReceipts(
        of target: AuthorizedTarget, _ requester: Requester
    ) -> Bool {
        switch target.receivers {
        case .user(let name): return allows(.receipts(of: name), requester)
        case .users(let ids, let count, let refused):
            var list = ListReader(ids)
            for index in 0..<count {
                let name = list.next()
                guard refused.contains(index) || allows(.receipts(of: name), requester) else {
                    return false
                }
            }
            return true
        case .group(let group), .mentioned(let group, _):
            return groupTable.groups[group].name.withUnsafeBytes {
                allows(.receipts(of: $0), requester)
            }
        case .everybody, .topic: return false
        }
    }

    /// The most bytes that the receivers of a target take in a row.
    private func receiverByteCount(of target: AuthorizedTarget) -> Int {
        switch target.receivers {
        case .user(let name): name.count + 3
        case .users(let ids, let count, _): ids.count + 3 * count
        case .group(let group), .mentioned(let group, _): groupTable.groups[group].name.count
        case .topic(let name): name.count
        case .everybody: 0
        }
    }

    // MARK: - Tracking

    /// The section of fields and the properties of a message whose sender asks for something, or
    /// that is kept.
    func section(
        of request: SendRequest, keptNumber: UInt64, in bytes: UnsafeRawBufferPointer
    ) -> [UInt8] {
        guard request.hasFields || request.isUndelivered else {
            return MessageFields.section(ofKept: keptNumber, request.properties.bytes(in: bytes))
        }
        var fields = MessageFields()
        fields.keptNumber = keptNumber
        fields.isUndelivered = request.isUndelivered
        fields.reference = request.reference
        fields.receipts = request.asks.intersection(.receipts)
        fields.attributes = Array(request.attributes.bytes(in: bytes))
        fields.isLate = request.isLate
        take(
            request.mentions.options, names: Array(request.mentions.names.bytes(in: bytes)),
            into: &fields)
        return fields.section() + request.properties.bytes(in: bytes)
    }

    /// Tracks an accepted send. Its row is committed with its message, and the result waits for it.
    mutating func track(
        _ message: Index<Message>, _ request: SendRequest, sentTo target: AuthorizedTarget,
        fromUser user: Index<User>, session: Index<Session>?, in step: inout Step
    ) {
        let app = registry.users[user].app
        // ``refusalToTrack(_:to:fromUser:by:collapseKey:)`` has checked the room in the same event.
        _ = commits.room.admitAuthorized(
            Records.trackedSendPageByteCount(
                app: registry.apps[app].name, receiverByteCount: receiverByteCount(of: target)))
        let (kind, address) = addressTracked(by: target)
        var send = TrackedSend(
            reference: request.reference, app: app, sender: user,
            session: session.map { trackingKey(of: $0) } ?? 0, number: request.number,
            messageIdentifier: Array(request.messageIdentifier.bytes(in: step.bytes)),
            asks: request.asks, grade: request.grade, targetKind: kind, address: address,
            acceptedUnixMilliseconds: step.moment.unixMilliseconds,
            deadline: trackingDeadline(of: message, request))
        takeReceivers(of: target, into: &send)
        if !request.collapseKey.isEmpty {
            send.collapseKey = Array(request.collapseKey.bytes(in: step.bytes))
            send.entries = entriesInBatch(of: message)
        }
        let earlier = send.collapseKey.isEmpty ? nil : tracking.find(collapsedBy: send)
        makeRoomToTrack(fromUser: user, app: app, besides: earlier)
        send.batch = commits.pendingSequence
        send.message = message
        send.stamp = memory.messages[message].stamp
        if request.expirySeconds != nil { send.marks.insert(.expires) }
        if request.isLate { send.marks.insert(.isLate) }
        if request.isUndelivered { send.marks.insert(.isUndelivered) }
        let block = MessageBlock(memory.messages[message].block)
        send.keptNumber = MessageFields(of: block).keptNumber
        send.blockByteCount = UInt32(block.bytes.count)
        let index = tracking.insert(send)
        startExpiry(ofTracked: index)
        noteTransientReceivers(of: index)
        noteReceiversInMemory(of: index)
        attachToBatch(message)
        if let earlier { beginCollapse(of: earlier, by: index, in: &step) }
        memory.awaitTracking(of: message)
        tracking.noteChange(of: index)
        counters.sendsTracked += 1
        settleIfTold(index)
    }

    /// The entries of a message at the end of the pending batch.
    private func entriesInBatch(of message: Index<Message>) -> Range<Int> {
        let end = commits.pendingBatch.entries.count
        var start = end
        while start > 0, commits.pendingBatch.entries[start - 1].message == message { start -= 1 }
        return start..<end
    }

    /// Forgets the oldest settled sends, if a user or its app has as many as may be.
    ///
    /// - Parameter earlier: the send whose place the new one takes. It is forgotten when it has
    ///   given way, so that the others keep their places.
    private mutating func makeRoomToTrack(
        fromUser user: Index<User>, app: Index<App>, besides earlier: Index<TrackedSend>?
    ) {
        if let earlier, mayCollapse(earlier), tracking.sends[earlier].isSettled { return }
        // A limit that became lower is reached in steps.
        if tracking.count(ofUser: user) >= limits.trackedSendsPerUserMaximum,
            let oldest = tracking.oldestSettled(ofUser: user)
        {
            untrack(oldest)
        }
        if tracking.count(ofApp: app) >= limits.trackedSendsPerAppMaximum,
            let oldest = tracking.oldestSettled(ofApp: app)
        {
            untrack(oldest)
        }
    }

    /// Notes that a send may make room for others, if everything that it asks for is told. One
    /// whose members have rows ends in steps, and keeps its place until then.
    mutating func settleIfTold(_ index: Index<TrackedSend>) {
        guard tracking.sends[index].hasNothingToTell, tracking.sends[index].members.isEmpty else {
            return
        }
        tracking.settle(index)
    }

    /// The end of a tracked send: that of its message, and later if receivers may have to tell what
    /// they did with it.
    private func trackingDeadline(of message: Index<Message>, _ request: SendRequest) -> Instant {
        let deadline = memory.messages[message].deadline
        return request.asks.isDisjoint(with: .receipts)
            ? deadline : deadline.advanced(bySeconds: CoreLimits.receiptGraceSeconds)
    }

    func addressTracked(
        by target: AuthorizedTarget
    ) -> (kind: TrackedSend.TargetKind, address: [UInt8]) {
        switch target.receivers {
        case .user, .users: (.users, [])
        case .group(let group), .mentioned(let group, _):
            (.group, groupTable.groups[group].name)
        case .everybody: (.everybody, [])
        case .topic(let name): (.topic, Array(name))
        }
    }

    func takeReceivers(of target: AuthorizedTarget, into send: inout TrackedSend) {
        switch target.receivers {
        case .user(let name):
            if let user = user(named: name, app: send.app) {
                send.receivers = [TrackedSend.Receiver(user: user)]
            }
        case .users(let ids, let count, let refused):
            var list = ListReader(ids)
            for index in 0..<count {
                let name = list.next()
                guard !refused.contains(index), let user = user(named: name, app: send.app),
                    !send.receivers.contains(where: { $0.user == user })
                else { continue }
                send.receivers.append(TrackedSend.Receiver(user: user))
            }
        case .group(let group):
            let sender = send.sender
            send.memberCount = UInt32(groupTable.groups[group].memberships.count)
            send.joinedThrough = groupTable.groups[group].joinCount
            if membership(of: sender, in: group) != nil { send.memberCount -= 1 }
        case .mentioned(let group, let names):
            let sender = send.sender
            send.joinedThrough = groupTable.groups[group].joinCount
            let receivers = members(of: group, namedIn: names, app: send.app)
            send.memberCount = UInt32(receivers.count { $0 != sender })
            // Only they have it.
            send.receivers = receivers.map { TrackedSend.Receiver(user: $0) }
        case .everybody, .topic: break
        }
    }

    /// What identifies a sender's session: its durable identifier, or its place in memory while it
    /// has one.
    func trackingKey(of session: Index<Session>) -> UInt64 {
        let identifier = sessions[session].identifier
        guard identifier == 0 else { return identifier }
        let generation = UInt64(sessions.handle(session).generation)
        return TrackedSends.memorySessions | generation << 32 | UInt64(session.place)
    }

    /// A reference that no send has.
    func freeReference(_ random: UInt64) -> UInt64 {
        var reference = random
        while reference == 0 || tracking.find(reference) != nil { reference &+= 1 }
        return reference
    }

    // MARK: - Devices that have been sent it

    /// Notes that a device of a user has been sent a message, or may have been.
    @inline(never)
    mutating func noteSent(_ message: Index<Message>, to user: Index<User>) {
        if let index = tracked(message) { noteSent(index, to: user) }
    }

    mutating func noteSent(_ index: Index<TrackedSend>, to user: Index<User>) {
        guard tracking.sends[index].targetKind == .group,
            tracking.sends[index].receivers.isEmpty
        else {
            if tracking.noteSent(index, to: user) { tracking.noteChange(of: index) }
            return
        }
        guard
            tracking.remembers(user, of: index) || limitOfRemembering(memberOf: index) == .none
        else {
            // All members with several devices count as late.
            tracking.sends[index].marks.insert(.isSentUnknown)
            tracking.noteChange(of: index)
            return
        }
        if tracking.noteSent(index, to: user) { writeMember(user, of: index) }
    }

    /// Notes the receivers that have been sent a message by subscriptions of grade *transient*,
    /// which leave no trace.
    private mutating func noteTransientReceivers(of index: Index<TrackedSend>) {
        let (app, kind) = (tracking.sends[index].app, tracking.sends[index].targetKind)
        let audiences: [Index<Audience>?]
        if kind == .group {
            let name = tracking.sends[index].address
            audiences = [audience(ofAddress: .group, name, app: app)]
        } else {
            audiences = tracking.sends[index].receivers.map {
                audience(ofAddress: .user, registry.users[$0.user].name, app: app)
            }
        }
        for case let audience? in audiences {
            for subscriber in routing.audiences[audience].subscribers
            where subscriber.grade == .transient && subscriber.connection != .none {
                noteSent(index, to: sessions[subscriber.session].user)
            }
        }
    }

    /// Notes the receivers of whom a session in memory gets a message, beside other queues. After a
    /// failure of the broker nothing else tells that its device may have it.
    private mutating func noteReceiversInMemory(of index: Index<TrackedSend>) {
        guard tracking.sends[index].targetKind == .group,
            tracking.sends[index].receivers.isEmpty
        else {
            for position in tracking.sends[index].receivers.indices {
                let user = tracking.sends[index].receivers[position].user
                if isSentInMemory(index, to: user) { noteSent(index, to: user) }
            }
            return
        }
        let (app, name) = (tracking.sends[index].app, tracking.sends[index].address)
        let group = name.withUnsafeBytes { registry.apps[app].groups.value(for: $0) }
        let audiences = [
            group.map { groupTable.groups[$0].audience },
            audience(ofAddress: .group, name, app: app),
        ]
        var count = 0
        for case let audience? in audiences {
            workload.charge(routing.audiences[audience].subscribers.count / CoreLimits.looksPerWork)
            for position in 0..<routing.audiences[audience].subscribers.count {
                let subscriber = routing.audiences[audience].subscribers[position]
                guard subscriber.connection != .none,
                    isInMemoryBesideOthers(subscriber.session),
                    !isReadInstead(index, by: subscriber.session)
                else { continue }
                count += 1
                guard count <= CoreLimits.trackedMembersPerStepMaximum else {
                    tracking.sends[index].marks.insert(.isSentUnknown)
                    return
                }
                noteSent(index, to: sessions[subscriber.session].user)
            }
        }
    }

    /// Whether a session in memory of a user gets a message, and the user has other queues.
    private func isSentInMemory(_ index: Index<TrackedSend>, to user: Index<User>) -> Bool {
        var next = registry.users[user].firstSession
        while let session = next {
            next = sessions[session].nextOfUser
            if isInMemoryBesideOthers(session),
                !sessions[session].dialect.isMQTT || sessions[session].receivesUserMessages,
                !isReadInstead(index, by: session)
            {
                return true
            }
        }
        return false
    }

    private func isInMemoryBesideOthers(_ session: Index<Session>) -> Bool {
        let user = sessions[session].user
        return !sessions[session].isPersistent
            && (registry.users[user].firstSession != session
                || sessions[session].nextOfUser != nil
                || registry.users[user].offlineQueue != nil)
    }

    /// Whether a session gets no copy of a kept message, because its device reads the history.
    private func isReadInstead(_ index: Index<TrackedSend>, by session: Index<Session>) -> Bool {
        sessions[session].pulls && tracking.sends[index].keptNumber != 0
            && tracking.sends[index].asks.isDisjoint(with: .receipts)
    }

    /// Notes that a device of a user is given a message that is kept.
    mutating func noteRead(_ block: MessageBlock, by user: Index<User>) {
        guard !tracking.isEmpty, block.hasFields else { return }
        let reference = MessageFields(of: block).reference
        guard reference != 0, let index = tracking.find(reference),
            tracking.sends[index].sender != user
        else { return }
        noteSent(index, to: user)
        if tracking.sends[index].isChanged { commits.commitSoon() }
    }

    // MARK: - The end

    private mutating func startExpiry(ofTracked index: Index<TrackedSend>) {
        let deadline = tracking.sends[index].deadline
        tracking.sends[index].token = deadlines.insert(.tracked(index), at: deadline)
    }

    /// Ends a tracked send whose message has expired.
    mutating func expire(tracked index: Index<TrackedSend>, at moment: Moment) {
        tracking.sends[index].token = .none
        guard tracking.sends[index].revision == nil else {
            // The recall under way is completed first.
            let soon = moment.instant.advanced(byMilliseconds: CoreLimits.receiptMilliseconds)
            tracking.sends[index].token = deadlines.insert(.tracked(index), at: soon)
            return
        }
        for user in tracking.takeMembers(
            of: index, countMaximum: CoreLimits.trackedMembersPerStepMaximum)
        {
            commits.remove(.trackedSends, key: memberKey(user, of: index))
        }
        if tracking.sends[index].members.isEmpty {
            untrack(index)
        } else {
            // The rest follows at once.
            tracking.sends[index].token = deadlines.insert(
                .tracked(index), at: tracking.sends[index].deadline)
        }
    }

    /// Ends a tracked send, and removes its row.
    mutating func untrack(_ index: Index<TrackedSend>) {
        // Members may have told something of a message that was taken back.
        for user in tracking.sends[index].members.keys {
            commits.remove(.trackedSends, key: memberKey(user, of: index))
        }
        let send = tracking.remove(index)
        if send.token != .none { deadlines.cancel(send.token) }
        if send.paceToken != .none { deadlines.cancel(send.paceToken) }
        let app = registry.apps[send.app].name
        commits.remove(.trackedSends, key: Records.key(ofTracked: send.reference, app: app))
        if send.hasStateRow {
            commits.remove(
                .trackedSends, key: Records.key(ofTrackedState: send.reference, app: app))
        }
    }

    /// Ends the tracked send of a message that was taken back: nobody got it.
    mutating func untrack(takenBack message: Index<Message>) {
        if let index = tracked(message) { endTracking(of: index) }
    }

    /// Ends a tracked send, and what is being changed of it.
    mutating func endTracking(of index: Index<TrackedSend>) {
        if let revision = tracking.sends[index].revision {
            if case .collapse(let newer) = tracking.revisions[revision].kind,
                tracking.sends.contains(newer)
            {
                tracking.sends[newer.index].collapses = 0
                tracking.noteChange(of: newer.index)
            }
            // Nobody has the message, and its own result says so.
            end(revision, .topicNameInvalid)
        }
        untrack(index)
    }

    /// The tracked send of a message in memory.
    func tracked(_ message: Index<Message>) -> Index<TrackedSend>? {
        guard memory.messages[message].hasFields else { return nil }
        let block = MessageBlock(memory.messages[message].block)
        let reference = MessageFields.reference(of: block)
        return reference == 0 ? nil : tracking.find(reference)
    }

    // MARK: - Rows

    /// Puts the rows of changed sends into the pending batch.
    @inline(never)
    mutating func writeChangedTracked() {
        identifyMessages()
        for index in tracking.takeChanged() {
            let (untold, underWay) = (tracking.sends[index].untold, tracking.sends[index].underWay)
            identify(index)
            let states = revisionStates(of: index)
            commits.renew(
                row(
                    ofTracked: index, untold: underWay.map(\.receipt) + untold,
                    state: states.before))
            // A store without room leaves out these receipts, and this row with them.
            if !underWay.isEmpty || states.before != states.after {
                commits.putWithSends(row(ofTracked: index, untold: untold, state: states.after))
            }
            tracking.noteWritten(index)
        }
    }

    /// What the rows of a send say about its recall: without the messages of the batch, and with
    /// them. While late receivers are not told, the recall is not complete.
    private func revisionStates(
        of index: Index<TrackedSend>
    ) -> (before: TrackedSend.RevisionState, after: TrackedSend.RevisionState) {
        let state = tracking.sends[index].revisionState
        guard state == .recalled, let revision = tracking.sends[index].revision,
            !tracking.revisions[revision].late.isEmpty
        else { return (state, state) }
        return (.recalling, tracking.revisions[revision].phase == .telling ? state : .recalling)
    }

    /// Continues the timers of restored sends, and the references of their results.
    mutating func resumeTracking(at moment: Moment) {
        for index in tracking.sends.places where tracking.sends.contains(index) {
            startExpiry(ofTracked: index)
            settleIfTold(index)
            if !tracking.sends[index].untold.isEmpty
                || tracking.sends[index].counts != tracking.sends[index].toldCounts
                || tracking.sends[index].receivers.contains(where: {
                    $0.facts.contains(.postponed)
                })
            {
                startPace(of: index, at: moment)
            }
            resumeRevision(of: index, at: moment)
        }
        for session in sessions.places where sessions.contains(session) {
            for position in 0..<sessions[session].outbox.count {
                let number = sessions[session].outbox[position].number
                if tracking.reference(ofSession: trackingKey(of: session), number: number) != 0 {
                    sessions[session].outbox[position].isTracked = true
                }
            }
        }
    }
}
