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
        by requester: Requester
    ) -> (reason: ReasonCode, limit: LimitName) {
        // A transient message has no result that could tell a reference.
        guard request.grade != .transient else { return (.qosNotSupported, .none) }
        if !request.asks.isDisjoint(with: .receipts) {
            // Nobody gets a message that is only kept.
            guard !request.isUndelivered else { return (.topicNameInvalid, .none) }
            switch target.receivers {
            // Nobody knows how many there are.
            case .everybody, .topic: return (.topicNameInvalid, .none)
            case .user, .users, .group, .mentioned:
                guard mayAskReceipts(of: target, requester) else { return (.notAuthorized, .none) }
            }
        }
        let app = registry.users[user].app
        if tracking.count(ofApp: app) >= limits.trackedSendsPerAppMaximum {
            return (.quotaExceeded, .trackedSendsOfApp)
        }
        if tracking.count(ofUser: user) >= limits.trackedSendsPerUserMaximum {
            return (.quotaExceeded, .trackedSendsOfUser)
        }
        let byteCount = Records.trackedSendPageByteCount(
            app: registry.apps[app].name, receiverByteCount: receiverByteCount(of: target))
        return hasRoom(for: byteCount) ? (.success, .none) : (.quotaExceeded, .store)
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

    /// The section of fields and the properties of a message whose sender asks for something.
    func section(of request: SendRequest, in bytes: UnsafeRawBufferPointer) -> [UInt8] {
        var fields = MessageFields()
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
        // ``refusalToTrack(_:to:fromUser:by:)`` has checked the room in the same event.
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
        let index = tracking.insert(send)
        startExpiry(ofTracked: index)
        attachToBatch(message)
        memory.awaitTracking(of: message)
        tracking.noteChange(of: index)
        counters.sendsTracked += 1
    }

    /// The end of a tracked send: that of its message, and later if receivers may have to tell what
    /// they did with it.
    private func trackingDeadline(of message: Index<Message>, _ request: SendRequest) -> Instant {
        let deadline = memory.messages[message].deadline
        return request.asks.isDisjoint(with: .receipts)
            ? deadline : deadline.advanced(bySeconds: CoreLimits.receiptGraceSeconds)
    }

    private func addressTracked(
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

    private func takeReceivers(of target: AuthorizedTarget, into send: inout TrackedSend) {
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
            let memberships = groupTable.groups[group].memberships
            send.memberCount = UInt32(memberships.count)
            if memberships.contains(where: { groupTable.memberships[$0].user == sender }) {
                send.memberCount -= 1
            }
        case .mentioned(let group, let names):
            let sender = send.sender
            send.memberCount = UInt32(
                members(of: group, namedIn: names, app: send.app).count { $0 != sender })
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

    // MARK: - The end

    private mutating func startExpiry(ofTracked index: Index<TrackedSend>) {
        let deadline = tracking.sends[index].deadline
        tracking.sends[index].token = deadlines.insert(.tracked(index), at: deadline)
    }

    /// Ends a tracked send whose message has expired.
    mutating func expire(tracked index: Index<TrackedSend>) {
        tracking.sends[index].token = .none
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
        let send = tracking.remove(index)
        if send.token != .none { deadlines.cancel(send.token) }
        if send.paceToken != .none { deadlines.cancel(send.paceToken) }
        commits.remove(
            .trackedSends,
            key: Records.key(ofTracked: send.reference, app: registry.apps[send.app].name))
    }

    /// Ends the tracked send of a message that was taken back: nobody got it.
    mutating func untrack(takenBack message: Index<Message>) {
        guard let index = tracked(message) else { return }
        untrack(index)
    }

    /// The tracked send of a message in memory.
    func tracked(_ message: Index<Message>) -> Index<TrackedSend>? {
        guard memory.messages[message].hasFields else { return nil }
        let block = MessageBlock(memory.messages[message].block)
        let reference = MessageFields(of: block).reference
        return reference == 0 ? nil : tracking.find(reference)
    }

    // MARK: - Rows

    /// Puts the rows of changed sends into the pending batch.
    @inline(never)
    mutating func writeChangedTracked() {
        for index in tracking.takeChanged() {
            let (untold, underWay) = (tracking.sends[index].untold, tracking.sends[index].underWay)
            commits.renew(row(ofTracked: index, untold: underWay.map(\.receipt) + untold))
            // A store without room leaves out these receipts, and this row with them.
            if !underWay.isEmpty { commits.putWithSends(row(ofTracked: index, untold: untold)) }
        }
    }

    /// Continues the timers of restored sends, and the references of their results.
    mutating func resumeTracking(at moment: Moment) {
        for index in tracking.sends.places where tracking.sends.contains(index) {
            startExpiry(ofTracked: index)
            if !tracking.sends[index].untold.isEmpty
                || tracking.sends[index].counts != tracking.sends[index].toldCounts
                || tracking.sends[index].receivers.contains(where: {
                    $0.facts.contains(.postponed)
                })
            {
                startPace(of: index, at: moment)
            }
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
