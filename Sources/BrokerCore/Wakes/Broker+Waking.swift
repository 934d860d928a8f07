// Asks the relay to wake users. A message that goes to the queue of a user of whom no device is
// connected makes a request: at once, then at most one for each interval. A request is a message to
// the user of the relay, in the batch of the message that it is about:
//
//     idle ──message──► asked, until the interval ends ──message──► due ──end──► asked again
//       ▲                          │
//       └── a device connects, or nothing waits any more: the relay is told
//
// A row says that the relay was asked, and whether a message waits for the next request, so that a
// failure of the broker loses none. A device gets time to come back when its connection is lost and
// when the broker starts.

import BrokerTerms
import Primitives

extension Broker {
    /// The wake-ups of a user's app; nil if it has none.
    private func wakePolicy(of user: Index<User>) -> WakePolicy? {
        limits.policy(ofApp: registry.apps[registry.users[user].app].name).wake
    }

    /// Whether a device of a user is connected.
    private func isPresent(_ user: Index<User>) -> Bool {
        var isFound = false
        forEachSession(of: user) { isFound = isFound || sessions[$0].isConnected }
        return isFound
    }

    /// Messages that wait for a user: those of the longest queue of its devices, because each of
    /// them gets what the user gets.
    private func waitingCount(of user: Index<User>) -> UInt64 {
        var count: UInt32 = 0
        forEachSession(of: user) { count = max(count, sessions[$0].inbox.count) }
        if let offlineQueue = registry.users[user].offlineQueue {
            count += queues.offlineQueues[offlineQueue].count
        }
        return UInt64(count)
    }

    // MARK: - Messages

    /// Notes a message that has gone to the queue of a user's device without a connection, or to
    /// the user's offline queue.
    ///
    /// - Parameter isPulled: whether the device finds it in the history instead.
    @inline(never)
    mutating func noteWaiting(
        _ message: Index<Message>, for user: Index<User>, isPulled: Bool = false,
        in step: inout Step
    ) {
        guard let index = wakes.index(of: user),
            wakes[index].stamp != memory.messages[message].stamp
        else { return }
        let stamp = memory.messages[message].stamp
        wakes[index].stamp = stamp
        let block = MessageBlock(memory.messages[message].block)
        guard let policy = wakePolicy(of: user), !isPresent(user), wakes(block, user) else {
            return
        }
        if isPulled { wakes[index].unqueuedCount += 1 }
        let deadline = memory.messages[message].deadline
        wakes.noteDeadline(deadline, of: index)
        let push = block.hasFields ? wakes.push : []
        let news = wakes.news(ofMessage: stamp) {
            WakeNews(block, deadline: deadline, push: push, hasContents: policy.hasContents)
        }
        if wakes[index].isGrace { endToken(of: index) }
        guard wakes[index].token == .none else { return postpone(index, news: news) }
        if wakes.takesWake() {
            ask(for: index, news, policy, in: &step)
        } else {
            // A message to a large group: the other members follow in their own turns.
            postpone(index, news: news)
            wakes[index].token = deadlines.insert(.wake(index), at: step.moment.instant)
        }
    }

    /// Notes a transient message to a user without a connected device.
    @inline(never)
    mutating func noteTransient(_ parts: MessageParts, for user: Index<User>, in step: inout Step) {
        guard let index = wakes.index(of: user), let policy = wakePolicy(of: user),
            policy.wakesForTransient, !isPresent(user), wakes[index].token == .none,
            !parts.marks.contains(.noWake)
        else { return }
        let push = parts.marks.contains(.fields) ? wakes.push : []
        let stamp = makeUnmeasuredStamp()
        let deadline = deadline(after: nil, at: step.moment)
        let message = memory.insert(
            parts, messageIdentifier: ByteRange.empty.bytes(in: step.bytes), stamp: stamp,
            deadline: deadline, sender: .none, senderNumber: 0)
        let news = WakeNews(
            MessageBlock(memory.messages[message].block), deadline: deadline, push: push,
            hasContents: policy.hasContents)
        memory.release(message)
        // Nothing of it waits, so that what recalls and expiries leave says nothing about it.
        wakes[index].unqueuedCount += 1
        ask(for: index, news, policy, in: &step)
    }

    /// Whether a message wakes a user.
    private func wakes(_ block: MessageBlock, _ user: Index<User>) -> Bool {
        guard !block.marks.contains(.noWake) else { return false }
        switch block.kind {
        case .unicast, .broadcast, .topic: return true
        case .group:
            let app = registry.users[user].app
            guard let group = registry.apps[app].groups.value(for: block.address) else {
                return false
            }
            guard groupTable.groups[group].wakes else { return false }
            return membership(of: user, in: group).map { !groupTable.memberships[$0].isMuted }
                ?? true
        case .kicked, .groupEvent, .presence, .receipt, .recall, .update, .brokerEvent:
            return false
        }
    }

    private mutating func endToken(of index: Index<WakeUser>) {
        deadlines.cancel(wakes[index].token)
        wakes[index].token = .none
        wakes[index].isGrace = false
    }

    /// Waits for the end of the interval. The row is in the batch of the message.
    private mutating func postpone(_ index: Index<WakeUser>, news: WakeNews) {
        counters.wakesJoined += 1
        if wakes.holdsNews(of: index) || wakes.takesNews {
            wakes.hold(news, of: index)
        } else {
            counters.wakesShortened += 1
        }
        wakes[index].isDue = true
        storeMarks(of: index)
    }

    // MARK: - Requests

    /// Asks the relay to wake a user.
    private mutating func ask(
        for index: Index<WakeUser>, _ news: WakeNews?, _ policy: WakePolicy, in step: inout Step
    ) {
        let user = wakes[index].user
        let targets = wakes[index].awakeTargets
        wakes.hold(nil, of: index)
        wakes[index].isDue = false
        if !targets.isEmpty {
            let (payload, seconds) = request(
                for: user, targets, news, isTest: false, at: step.moment)
            if tell(policy.relay, payload, about: user, expirySeconds: seconds, in: &step) {
                wakes[index].wasAsked = true
                wakes[index].name(targets)
                counters.wakesRequested += 1
            } else {
                counters.wakesLost += 1
            }
        }
        wakes[index].token = deadlines.insert(
            .wake(index), at: step.moment.instant.advanced(bySeconds: policy.intervalSeconds))
        storeMarks(of: index)
    }

    /// The text of a request, and the seconds for which it is valid.
    private func request(
        for user: Index<User>, _ targets: [WakeTarget], _ news: WakeNews?, isTest: Bool,
        at moment: Moment
    ) -> (payload: [UInt8], expirySeconds: UInt64) {
        let time = news?.time ?? moment.unixMilliseconds
        let index = wakes.index(of: user)
        var expires = time &+ CoreLimits.wakeValiditySeconds * 1_000
        // Other messages may wait for longer than the newest one. A test is about none of them.
        if !isTest,
            let deadline = [news?.deadline, index.flatMap { wakes[$0].deadline }]
                .compactMap(\.self).max()
        {
            let rest =
                deadline > moment.instant ? deadline.milliseconds(since: moment.instant) : 0
            expires = min(expires, moment.unixMilliseconds &+ rest)
        }
        var text = BrokerEventText("WAKE_REQUEST", ofUser: Array(registry.users[user].name))
        text.write(targets)
        text.write("time", number: time)
        let pulled = index.map { UInt64(wakes[$0].unqueuedCount) } ?? 0
        text.write("count", number: max(waitingCount(of: user) + pulled, isTest ? 0 : 1))
        text.write("expires", number: expires)
        if isTest { text.write("test", raw: "true".utf8) }
        let app = registry.users[user].app
        if let templates = wakeTemplates(of: app, for: targets) {
            text.write("templates", raw: templates)
        }
        let left = expires > moment.unixMilliseconds ? expires - moment.unixMilliseconds : 0
        return (text.end(news?.members ?? []), max(left / 1_000, 1))
    }

    /// Puts a message into the queues of the relay's user. Returns false if no queue takes it.
    private mutating func tell(
        _ relay: [UInt8], _ payload: [UInt8], about user: Index<User>, expirySeconds: UInt64,
        in step: inout Step
    ) -> Bool {
        guard let receiver = self.user(named: relay, app: registry.users[user].app) else {
            return false
        }
        var isTaken = false
        sendSystemMessage(
            .brokerEvent, about: [], payload: payload, from: Array(registry.users[user].name),
            expirySeconds: expirySeconds, at: step.moment
        ) { broker, message, tally in
            broker.enqueue(
                message, devicesOf: receiver, excluding: nil, tally: &tally, in: &step)
            isTaken = tally.taken > 0
        }
        workload.charge(1)
        return isTaken
    }

    /// Tells the relay that a user need not be woken any more.
    private mutating func withdraw(_ index: Index<WakeUser>, in step: inout Step) {
        guard wakes[index].wasAsked else { return }
        wakes[index].wasAsked = false
        tellWithdrawn(index, target: nil, in: &step)
    }

    /// - Parameter target: the only one that it is about, with its tests; nil for all.
    private mutating func tellWithdrawn(
        _ index: Index<WakeUser>, target: UInt64?, in step: inout Step
    ) {
        let user = wakes[index].user
        guard let policy = wakePolicy(of: user) else { return }
        var text = BrokerEventText("WAKE_WITHDRAWN", ofUser: Array(registry.users[user].name))
        if let target { text.write("target", number: target) }
        text.write("time", number: step.moment.unixMilliseconds)
        if tell(
            policy.relay, text.end(), about: user, expirySeconds: CoreLimits.wakeValiditySeconds,
            in: &step)
        {
            counters.wakesWithdrawn += 1
        } else {
            counters.wakesLost += 1
        }
    }

    /// Asks the relay to wake a user by way of a test, whether it is there or not.
    ///
    /// - Parameter identifier: one of the user's targets; nil for all of them.
    /// - Returns: the number of targets; nil if no request could be made: there is no such user or
    ///   target, the app has no wake-ups, or the relay's user is not known or its queue is full.
    public mutating func testWake(
        app appName: [UInt8], user userName: [UInt8], target identifier: UInt64?,
        at moment: Moment, effects: inout Effects
    ) -> Int? {
        guard let app = app(named: appName), let user = user(named: userName, app: app),
            let policy = wakePolicy(of: user), let index = wakes.index(of: user)
        else { return nil }
        let targets = wakes[index].targets.filter {
            identifier == nil || $0.identifier == identifier
        }
        guard !targets.isEmpty else { return nil }
        var step = Step(at: moment, effects: effects)
        let (payload, seconds) = request(for: user, targets, nil, isTest: true, at: moment)
        let isTold = tell(policy.relay, payload, about: user, expirySeconds: seconds, in: &step)
        if isTold { wakes[index].name(targets) }
        commits.commitSoon()
        return isTold ? targets.count : nil
    }

    // MARK: - Deadlines

    /// The interval after a request has ended, or the time for a device to come back.
    mutating func wakeDue(_ index: Index<WakeUser>, in step: inout Step) {
        wakes[index].token = .none
        wakes[index].isGrace = false
        if wakes[index].isResting { return wakes.remove(index) }
        guard wakes[index].isDue else { return }
        let user = wakes[index].user
        let isWaiting = waitingCount(of: user) > 0 || wakes[index].unqueuedCount > 0
        guard !isPresent(user), isWaiting, let policy = wakePolicy(of: user) else {
            wakes[index].isDue = false
            wakes.hold(nil, of: index)
            if !isWaiting {
                wakes.forgetDeadline(of: index)
                withdraw(index, in: &step)
            }
            storeMarks(of: index)
            return
        }
        let news = wakes.currentNews(of: index, at: step.moment.instant)
        ask(for: index, news, policy, in: &step)
    }

    /// Looks soon whether something still waits for a user: messages were recalled or expired.
    @inline(never)
    mutating func noteFewerWaiting(for user: Index<User>) {
        guard let index = wakes.index(of: user), wakes[index].wasAsked, !wakes[index].isCheckDue
        else { return }
        wakes[index].isCheckDue = true
        _ = deadlines.insert(.wakeCheck(index), at: Instant(milliseconds: 0))
    }

    /// The same for the user whose queue it is.
    @inline(never)
    mutating func noteFewerWaiting(in queue: QueueID) {
        switch owner(of: queue) {
        case .session(let session)?: noteFewerWaiting(for: sessions[session].user)
        case .offlineQueue(let user)?: noteFewerWaiting(for: user)
        case .inherited, .leftover, .conversation, nil: break
        }
    }

    /// Withdraws a request if nothing waits any more.
    mutating func checkWake(_ index: Index<WakeUser>, in step: inout Step) {
        // Another user may have the place.
        guard wakes.users.contains(index) else { return }
        wakes[index].isCheckDue = false
        guard waitingCount(of: wakes[index].user) == 0, wakes[index].unqueuedCount == 0 else {
            return
        }
        wakes[index].isDue = false
        wakes.hold(nil, of: index)
        wakes.forgetDeadline(of: index)
        withdraw(index, in: &step)
        storeMarks(of: index)
    }

    // MARK: - Devices

    /// A device of a user has connected.
    @inline(never)
    mutating func noteBack(_ session: Index<Session>, in step: inout Step) {
        let user = sessions[session].user
        if let resting = wakes.restingIndex(of: user) {
            endToken(of: resting)
            wakes.remove(resting)
        }
        guard let index = wakes.index(of: user) else { return }
        let device = Array(sessions[session].device)
        setSilent(false, index) { $0.device.isEmpty || $0.device == device }
        endToken(of: index)
        settle(index, in: &step)
    }

    /// Ends what was asked for a user and what waits for a request. The interval remains.
    private mutating func settle(_ index: Index<WakeUser>, in step: inout Step) {
        wakes[index].isDue = false
        wakes[index].unqueuedCount = 0
        wakes.hold(nil, of: index)
        wakes.forgetDeadline(of: index)
        withdraw(index, in: &step)
        storeMarks(of: index)
    }

    /// Ends what waits for a target that is removed, and what waits for the user with the last one.
    mutating func endWaking(
        _ index: Index<WakeUser>, removed target: UInt64, in step: inout Step
    ) {
        if wakes[index].forgetNamed(target) {
            tellWithdrawn(index, target: target, in: &step)
        }
        guard wakes[index].targets.isEmpty else { return }
        // Each of the targets that were asked for was told when it was removed.
        wakes[index].wasAsked = false
        if wakes[index].isGrace { endToken(of: index) }
        settle(index, in: &step)
    }

    /// Removes the targets of a user who is deleted. The relay was told before, or is deleted too.
    mutating func forgetWaking(of user: Index<User>) {
        guard let index = wakes.index(of: user) ?? wakes.restingIndex(of: user) else { return }
        endToken(of: index)
        wakes.hold(nil, of: index)
        for target in wakes[index].targets {
            _ = wakes.remove(target.identifier, of: index)
            commits.remove(
                .wakeTargets,
                renewable: [wakeKey(ofUser: user) + RecordKey.number(target.identifier)])
        }
        wakes[index].wasAsked = false
        wakes[index].isDue = false
        storeMarks(of: index)
        wakes.remove(index)
    }

    /// The newest message in the window of a session whose connection ends, if it wakes the user.
    @inline(never)
    func newestWaiting(in session: Index<Session>) -> WakeLoss? {
        let user = sessions[session].user
        guard wakes.index(of: user) != nil, let policy = wakePolicy(of: user) else { return nil }
        let connected = connectedIndex(of: session)
        var loss = WakeLoss(
            user: user, hasMore: live.connectedSessions[connected].backlogCount > 0)
        for position in (0..<live.connectedSessions[connected].window.count).reversed() {
            let message = live.connectedSessions[connected].window[position].message
            let block = MessageBlock(memory.messages[message].block)
            guard wakes(block, user) else { continue }
            loss.news = WakeNews(
                block, deadline: memory.messages[message].deadline, push: [],
                hasContents: policy.hasContents)
            break
        }
        return loss
    }

    /// The connection of a device was lost, with messages that it has not acknowledged. It has time
    /// to connect again.
    @inline(never)
    mutating func noteAbsence(_ loss: WakeLoss, at moment: Moment) {
        guard let index = wakes.index(of: loss.user), let policy = wakePolicy(of: loss.user),
            !isPresent(loss.user), loss.news != nil || loss.hasMore
        else { return }
        if let news = loss.news {
            wakes.noteDeadline(news.deadline, of: index)
            if wakes.takesNews { wakes.hold(news, of: index) }
        }
        if loss.hasMore { noteUnknownDeadlines(of: index, at: moment) }
        wakes[index].isDue = true
        // Otherwise the row says nothing, and messages that wait say that it is due.
        if wakes[index].wasAsked { storeMarks(of: index) }
        guard wakes[index].token == .none else { return }
        wakes[index].isGrace = true
        let seconds = min(policy.intervalSeconds, CoreLimits.wakeGraceSeconds)
        wakes[index].token = deadlines.insert(
            .wake(index), at: moment.instant.advanced(bySeconds: seconds))
    }

    /// Messages wait on disk: a request for them may hold for as long as one can.
    private mutating func noteUnknownDeadlines(of index: Index<WakeUser>, at moment: Moment) {
        wakes.noteDeadline(
            moment.instant.advanced(bySeconds: CoreLimits.wakeValiditySeconds), of: index)
    }

    /// The user and the device of a session that its own DISCONNECT ends; nil if it lasts.
    @inline(never)
    func wakeLogout(
        of session: Index<Session>, _ request: DisconnectRequest
    ) -> (user: Index<User>, device: [UInt8])? {
        guard !sessions[session].isPersistent || sessions[session].expirySeconds == 0,
            !request.sendsWill
        else { return nil }
        return (sessions[session].user, Array(sessions[session].device))
    }

    /// A device has disconnected and ended its session: its targets are silent until it is back.
    /// Those of no device are silent when the user has no session any more.
    @inline(never)
    mutating func noteLogout(of user: Index<User>, device: [UInt8]) {
        guard let index = wakes.index(of: user) else { return }
        let isLast = registry.users[user].firstSession == nil
        setSilent(true, index) { $0.device.isEmpty ? isLast : $0.device == device }
    }

    private mutating func setSilent(
        _ isSilent: Bool, _ index: Index<WakeUser>, where matches: (WakeTarget) -> Bool
    ) {
        let user = wakes[index].user
        for position in wakes[index].targets.indices {
            let target = wakes[index].targets[position]
            guard target.isSilent != isSilent, matches(target) else { continue }
            wakes.setSilent(isSilent, targetAt: position, of: index)
            commits.renew(wakeTargetRow(wakes[index].targets[position], of: user))
            commits.commitSoon()
        }
    }

    // MARK: - Rows

    /// Writes whether the relay was asked, with the messages of the pending batch.
    private mutating func storeMarks(of index: Index<WakeUser>) {
        var marks: WakeMarks = wakes[index].wasAsked ? .asked : []
        if wakes[index].isDue { marks.insert(.due) }
        guard marks != wakes[index].stored ?? [] || wakes[index].isRowRefused else { return }
        let key = wakeKey(ofUser: wakes[index].user) + RecordKey.number(0)
        guard !marks.isEmpty else {
            wakes.noteNoRow(of: index)
            commits.remove(.wakeTargets, renewable: [key])
            return
        }
        var row = RecordWriter(version: 1)
        row.write(marks.rawValue)
        let change = RecordChange(table: .wakeTargets, key: key, value: row.bytes)
        // A store without room refuses messages, and with them what they ask for.
        if wakes[index].stored == nil || wakes[index].isRowRefused,
            admitGrowth(of: change.pageByteCount) == nil
        {
            return
        }
        wakes.noteRow(marks, of: index, batch: commits.pendingSequence)
        commits.putWithSends(change)
    }

    mutating func restoreWakeMarks(_ marks: WakeMarks, of user: Index<User>) {
        let index = wakes.entry(of: user)
        wakes[index].wasAsked = marks.contains(.asked)
        wakes[index].isDue = marks.contains(.due)
        wakes[index].stored = marks
    }

    /// Asks again, some time after the start, for users for whom messages wait and no request was
    /// made. Users without targets are forgotten: only a store that was edited has some.
    mutating func resumeWaking(at moment: Moment) {
        for index in wakes.users.places where wakes.users.contains(index) {
            guard !wakes[index].targets.isEmpty else {
                wakes[index].wasAsked = false
                wakes[index].isDue = false
                storeMarks(of: index)
                wakes.remove(index)
                continue
            }
            let user = wakes[index].user
            // No row says of which targets the relay was told: tests write none.
            wakes[index].name(wakes[index].targets)
            guard let policy = wakePolicy(of: user) else { continue }
            let isWaiting = waitingCount(of: user) > 0
            if isWaiting { noteUnknownDeadlines(of: index, at: moment) }
            if wakes[index].wasAsked, !wakes[index].isDue {
                // The request may be for a message that the history has, or for a transient one.
                if !isWaiting { wakes[index].unqueuedCount = 1 }
                continue
            }
            guard isWaiting || wakes[index].isDue else { continue }
            wakes[index].isDue = true
            // Those that were due may be for messages that the history has.
            if !isWaiting { wakes[index].unqueuedCount = 1 }
            wakes[index].isGrace = true
            let seconds = min(policy.intervalSeconds, CoreLimits.restartGraceSeconds)
            wakes[index].token = deadlines.insert(
                .wake(index), at: moment.instant.advanced(bySeconds: seconds))
        }
    }
}

/// What a device that lost its connection has not acknowledged.
struct WakeLoss {
    let user: Index<User>
    /// Whether more waits on disk.
    var hasMore: Bool
    var news: WakeNews?
}
