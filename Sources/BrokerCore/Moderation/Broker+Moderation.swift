// Holds messages until a moderator has decided on them. The devices of the moderator are asked with
// a transient message that has a number, and answer with a publication (`Broker+Verdicts`):
//
//     sent ──asked──► held ──verdict, or the time is over──► accepted: as if sent now
//                       │                                    refused: the sender is told
//                       └── the connection ends ──► forgotten: nothing was acknowledged
//
// A held message has no number in an inbox, no row and no answer. All that its session sends later
// waits behind it, so that the order of a sender holds.
//
// Messages leave their queues by deadlines, one for each, so that a verdict that frees many obeys
// the bounds of turns and batches.

import BrokerTerms
import Primitives

extension Broker {
    /// The moderation of an app; nil if it has none.
    func moderation(ofApp app: Index<App>) -> ModerationPolicy? {
        limits.policy(ofApp: registry.apps[app].name).moderation
    }

    /// Whether a moderator of an app decides on messages to a target.
    ///
    /// - Parameter subject: its topic, if it has one.
    func covers(
        _ policy: ModerationPolicy, ofApp app: Index<App>, _ target: SendTarget, subject: RawSpan
    ) -> Bool {
        switch target {
        case .user, .users: policy.coversUsers
        case .group: policy.coversGroups
        case .everybody: policy.coversEverybody
        case .topic: registry.apps[app].moderatedTopics.matches(subject)
        }
    }

    /// Whether a moderator decides on messages to the receivers of a tracked send. A replacement
    /// of the moderator's own message may be another's: an app key acts for all users.
    func isModerated(_ send: Index<TrackedSend>, ofUser user: Index<User>) -> Bool {
        guard let policy = moderation(ofApp: registry.users[user].app) else { return false }
        return tracking.sends[send].targetKind == .group
            ? policy.coversGroups : policy.coversUsers
    }

    /// Whether a moderator would have to decide on a will. It cannot: its sender is gone when it is
    /// sent, and a program that may be silent would decide whether others learn of a loss. The
    /// moderator's own are no exception: what proved its user is not known any more.
    func isModerated(
        _ target: SendTarget, ofWillOf user: Index<User>, subject: RawSpan
    ) -> Bool {
        let app = registry.users[user].app
        guard let policy = moderation(ofApp: app) else { return false }
        return covers(policy, ofApp: app, target, subject: subject)
    }

    // MARK: - The moderator

    /// Refuses a login as the moderator of an app with a credential that is not the user's own:
    /// whoever may use it would decide on messages, and read them.
    func checkModerator(_ identity: Identity) throws(ConnectRefusal) {
        guard let policy = moderation(ofApp: identity.app), identity.user == policy.moderator,
            !identity.access.source.provesUser
        else { return }
        throw ConnectRefusal(reason: .notAuthorized, limit: .moderatorCredential)
    }

    private func provesUser(_ session: Index<Session>) -> Bool {
        live.accesses[access(of: session)].source.provesUser
    }

    /// Disconnects devices that have logged in as the moderator with credentials that do not prove
    /// it, before the app had this moderator.
    private mutating func closeUnproven(_ moderator: Index<User>, in step: inout Step) {
        var unproven: [Index<Session>] = []
        forEachSession(of: moderator) { session in
            if sessions[session].isConnected, !provesUser(session) { unproven.append(session) }
        }
        for session in unproven {
            close(session, .notAuthorized, willFate: .removed, in: &step)
        }
    }

    // MARK: - Holding

    /// Takes a verdict, or holds a message. Returns false for a message that is accepted or refused
    /// without a verdict.
    @inline(never)
    mutating func moderate(
        _ request: SendRequest, from sender: Index<Session>, in step: inout Step
    ) -> Bool {
        let user = sessions[sender].user
        let app = registry.users[user].app
        let policy = moderation(ofApp: app)
        let isModerator = policy.map { Array(registry.users[user].name) == $0.moderator } ?? false
        if isModerator, !provesUser(sender) {
            close(sender, .notAuthorized, willFate: .removed, in: &step)
            return true
        }
        if isModerator, isVerdict(request, in: step) {
            takeVerdict(request, from: sender, in: &step)
            return true
        }
        let queue = moderation.queue(of: sender)
        var isCovered = false
        if !isModerator, let policy {
            let subject = subject(of: request.target, in: step.bytes)
            isCovered = covers(policy, ofApp: app, request.target, subject: subject.bytes)
        }
        guard isCovered || queue != nil else { return false }
        // The moderator is asked about nothing that is refused anyway.
        if case .refused(let reason, let limit) = authorize(
            request, by: .session(sender), ofUser: user, in: step.bytes)
        {
            refuse(request, from: sender, reason, limit: limit, in: &step)
            return true
        }
        let limit = moderation.limit(of: user, app: app, adding: request.heldByteCount)
        guard limit == .none else {
            counters.heldOverLimit += 1
            refuse(request, from: sender, .quotaExceeded, limit: limit, in: &step)
            return true
        }
        var question: UInt64 = 0
        var verdict: Verdict? = .accepted
        if isCovered, let policy {
            question = moderation.makeQuestion(at: step.moment)
            guard
                let isAsked = ask(
                    policy, about: request, question, of: user,
                    device: sessions[sender].device, app: app, in: &step)
            else {
                refuse(request, from: sender, .packetTooLarge, limit: .questionBytes, in: &step)
                return true
            }
            verdict = isAsked ? nil : .silent
            if !isAsked { counters.moderatorSilences += 1 }
            if !isAsked, queue == nil {
                // Nothing waits for it, and it waits for nothing.
                if policy.acceptsWhenSilent { return false }
                refuse(request, from: sender, .quotaExceeded, limit: .moderatorSilent, in: &step)
                return true
            }
        }
        hold(
            HeldSend(
                request, in: step, question: question,
                deadline: step.moment.instant.advanced(
                    byMilliseconds: policy?.milliseconds ?? 0),
                acceptsWhenSilent: policy?.acceptsWhenSilent ?? true, verdict: verdict),
            of: sender, app: app, in: &step)
        return true
    }

    private mutating func hold(
        _ send: HeldSend, of sender: Index<Session>, app: Index<App>, in step: inout Step
    ) {
        let request = send.request
        workload.charge(send.byteCount / CoreLimits.bytesPerWork)
        let queue = moderation.hold(
            send, of: sender, user: sessions[sender].user, app: app)
        reserve(request, of: sender)
        if moderation[queue].count == 1 { arm(queue) }
        if moderation[queue].count >= CoreLimits.heldPauseCount,
            mayPause(sender, milliseconds: send.deadline.milliseconds(since: step.moment.instant))
        {
            counters.readingPauses += 1
            let connection = liveConnection(of: sender)
            step.effects[connection.loop].effects.append(.pauseReading(connection))
        }
    }

    /// Whether a client can stay unread for so long. One with a shorter keep-alive would get no
    /// answer to its ping in time, come again with the same messages, and never get further.
    private func mayPause(_ sender: Index<Session>, milliseconds: UInt64) -> Bool {
        guard let connected = sessions[sender].connected else { return false }
        let keepAlive = 1_000 * UInt64(live.connectedSessions[connected].keepAliveSeconds)
        return keepAlive == 0 || keepAlive > milliseconds
    }

    /// Takes the place of the message in the outbox: its answer comes in its turn, and a resend on
    /// the same connection is recognised.
    private mutating func reserve(_ request: SendRequest, of sender: Index<Session>) {
        guard request.packetIdentifier > 0 || request.number > 0 else { return }
        var entry = OutboxEntry(number: request.number, stamp: 0, grade: request.grade)
        entry.packetIdentifier = request.packetIdentifier
        entry.isStored = false
        if request.packetIdentifier > 0 {
            addPublication(entry, of: sender)
        } else {
            sessions[sender].outbox.insert(entry)
        }
    }

    /// Frees the place, before the message is sent or refused.
    private mutating func releasePlace(_ request: SendRequest, of sender: Index<Session>) {
        guard request.number > 0,
            let position = sessions[sender].outbox.position(of: request.number)
        else { return }
        sessions[sender].outbox.remove(at: position)
        if request.packetIdentifier > 0, request.grade == .once {
            sessions[sender].senderState.value.free(request.packetIdentifier)
        }
    }

    /// Sets the deadline of the first message of a queue: at once, if it is decided on.
    mutating func arm(_ queue: Index<HeldQueue>) {
        deadlines.cancel(moderation[queue].token)
        let first = moderation[queue].first
        moderation[queue].token = deadlines.insert(
            .held(queue), at: first.verdict == nil ? first.deadline : Instant(milliseconds: 0))
    }

    // MARK: - Asking

    /// Asks the connected devices of the moderator.
    ///
    /// - Returns: false if there is none; nil if the question is too long to be asked.
    mutating func ask(
        _ policy: ModerationPolicy, about request: SendRequest, _ number: UInt64,
        of user: Index<User>, device: Name, app: Index<App>, in step: inout Step
    ) -> Bool? {
        guard let moderator = self.user(named: policy.moderator, app: app) else { return false }
        closeUnproven(moderator, in: &step)
        var isPresent = false
        forEachSession(of: moderator) { isPresent = isPresent || sessions[$0].isConnected }
        guard isPresent else { return false }
        var text = BrokerEventText("MESSAGE_QUESTION", ofUser: Array(registry.users[user].name))
        text.write("number", number: number)
        text.write("left", number: policy.milliseconds)
        if !device.isEmpty { text.write("device", string: device) }
        text.write(request, in: step)
        text.write("time", number: step.moment.unixMilliseconds)
        let question = text.end()
        guard question.count <= CoreLimits.questionByteCountMaximum else { return nil }
        let before = counters.deliveries
        withText(question, for: moderator, in: &step) { broker, message, step in
            broker.deliver(message, toSessionsOf: moderator, in: &step)
            let name = broker.registry.users[moderator].name
            if let audience = broker.audience(ofAddress: .user, name, app: app) {
                broker.deliver(message, to: audience, in: &step)
            }
        }
        guard counters.deliveries > before else { return false }
        counters.questionsAsked += 1
        return true
    }

    /// Calls `body` with a transient text of the broker for a user.
    private mutating func withText(
        _ payload: [UInt8], for user: Index<User>, in step: inout Step,
        _ body: (inout Broker, TransientMessage, inout Step) -> Void
    ) {
        let name = Array(registry.users[user].name)
        workload.charge(payload.count / CoreLimits.bytesPerWork)
        name.withUnsafeBytes { name in
            payload.withUnsafeBytes { payload in
                let parts = MessageParts(
                    kind: .brokerEvent, marks: .high, grade: .transient,
                    time: step.moment.unixMilliseconds, sender: name,
                    address: ByteRange.empty.bytes(in: name),
                    properties: ByteRange.empty.bytes(in: name), payload: payload)
                let message = TransientMessage(
                    stamp: makeStamp(), parts: parts,
                    deadline: deadline(after: nil, at: step.moment), excluded: nil, sender: nil,
                    isRetained: false)
                body(&self, message, &step)
            }
        }
    }

    // MARK: - Letting go

    /// Accepts or refuses the first message of a queue, after its verdict or at the end of its
    /// time.
    mutating func releaseHeld(_ queue: Index<HeldQueue>, in step: inout Step) {
        moderation[queue].token = .none
        let sender = moderation[queue].sender
        let send = moderation.takeFirst(queue)
        if moderation[queue].count > 0 {
            arm(queue)
        } else {
            moderation.remove(queue)
        }
        if send.verdict == nil { counters.moderatorSilences += 1 }
        // A message that nobody has decided on is refused, or accepted as it is.
        let isSilent = send.verdict == nil || send.verdict == .silent
        let refusesSilence = send.verdict == .later || isSilent && !send.acceptsWhenSilent
        send.bytes.withUnsafeBytes { bytes in
            var step = Step(bytes: bytes, within: step)
            switch sender {
            case .session(let session):
                release(send, of: session, refusesSilence: refusesSilence, in: &step)
            case .principal(let principal):
                guard !refusesSilence, !send.isRefused else { return }
                _ = release(send, of: principal, key: nil, in: &step)
            case .request(let principal, let number, let key):
                release(
                    send, of: principal, key: key, number: number, refusesSilence: refusesSilence,
                    in: &step)
            }
        }
        if send.request.isUnusual { wakes.forgetPush() }
        guard case .session(let session) = sender else { return }
        let left = moderation.queue(of: session).map { moderation[$0].count } ?? 0
        let connection = liveConnection(of: session)
        if left == CoreLimits.heldPauseCount / 2, connection != .none {
            step.effects[connection.loop].effects.append(.resumeReading(connection))
        }
    }

    private mutating func release(
        _ send: HeldSend, of sender: Index<Session>, refusesSilence: Bool, in step: inout Step
    ) {
        let request = send.request
        releasePlace(request, of: sender)
        if refusesSilence {
            refuse(request, from: sender, .quotaExceeded, limit: .moderatorSilent, in: &step)
            return
        }
        var told: VerdictNote?
        if let note = send.note { told = tell(note, about: request, to: sender, in: &step) }
        if send.isRefused {
            counters.messagesRefusedByModerator += 1
            refuse(
                request, from: sender, .implementationSpecificError, limit: .moderatorRefused,
                verdict: told, in: &step)
        } else if let earlier = sentMeanwhile(request, by: sender, in: step) {
            repeatSend(earlier, request, from: sender, in: &step)
        } else {
            acceptOrRefuseNow(request, from: sender, in: &step)
            // Refused after all: its number may be another message's.
            if request.number > 0, sessions[sender].senderState.exists,
                sessions[sender].outbox.position(of: request.number) == nil
            {
                _ = sessions[sender].senderState.value.takeVerdict(of: request.number)
            }
        }
    }

    /// An earlier message with the application id of this one, which was held too (MQTT).
    private mutating func sentMeanwhile(
        _ request: SendRequest, by sender: Index<Session>, in step: borrowing Step
    ) -> RecentSend? {
        guard request.packetIdentifier > 0, !request.messageIdentifier.isEmpty,
            sessions[sender].senderState.exists
        else { return nil }
        return recentSend(Array(request.messageIdentifier.bytes(in: step.bytes)), of: sender)
    }

    /// Sends a message of a user without a session, if the user and the app are there.
    mutating func release(
        _ send: HeldSend, of principal: Principal, key: SendKey?, in step: inout Step
    ) -> OperatorSend {
        // Another user may have the place of one that was deleted meanwhile.
        guard let user = principal.user, registry.apps.contains(principal.app),
            registry.users.contains(user), registry.users[user].app == principal.app,
            registry.users[user].name == principal.names.user, !registry.isDeleted(user)
        else { return refused(.notAuthorized, .none) }
        // Another request with the key may have been held too.
        if let key, let answer = repeated(key, ofApp: principal.app, at: step.moment.instant) {
            return answer
        }
        return self.send(send.request, as: user, by: principal, key: key, in: &step)
    }

    /// Forgets the held messages of a session whose connection ends, but not the transient ones,
    /// whose clients have nothing to wait for. The moderator has the questions about them all the
    /// same, so they count for the user until they are decided or too old.
    @inline(never)
    mutating func forgetHeld(of session: Index<Session>) {
        guard let queue = moderation.queue(of: session) else { return }
        let forgotten = moderation.detach(session, as: principal(session))
        counters.heldForgotten += UInt64(forgotten.count)
        workload.charge(forgotten.count / CoreLimits.looksPerWork)
        for send in forgotten { releasePlace(send.request, of: session) }
        let user = sessions[session].user
        if let questions = moderation.keep(
            questionsAbout: forgotten, of: user, app: registry.users[user].app)
        {
            armForgotten(questions)
        }
        guard moderation[queue].count > 0 else {
            deadlines.cancel(moderation[queue].token)
            moderation[queue].token = .none
            moderation.remove(queue)
            return
        }
        arm(queue)
    }

    // MARK: - Forgotten questions

    private mutating func armForgotten(_ questions: Index<ForgottenQuestions>) {
        deadlines.cancel(moderation[questions].token)
        moderation[questions].token = deadlines.insert(
            .forgottenQuestions(questions), at: moderation[questions].deadline)
    }

    /// Some questions about forgotten messages are too old to be worth a decision.
    mutating func expireForgotten(_ questions: Index<ForgottenQuestions>, at moment: Moment) {
        moderation[questions].token = .none
        workload.charge(moderation[questions].count / CoreLimits.looksPerWork)
        let now = moment.instant
        if moderation.end(questions, where: { $1 <= now }) { armForgotten(questions) }
    }

    /// The moderator has decided on a message that is forgotten.
    mutating func settleForgotten(_ question: UInt64, ofApp app: Index<App>) {
        guard let questions = moderation.forgotten(ofQuestion: question),
            moderation[questions].app == app
        else { return }
        workload.charge(moderation[questions].count / CoreLimits.looksPerWork)
        let token = moderation[questions].token
        if moderation.end(questions, where: { number, _ in number == question }) {
            armForgotten(questions)
        } else {
            deadlines.cancel(token)
        }
    }

    // MARK: - The sender

    /// Notes what the sender is told with the result. MRT has no place in its results: its clients
    /// get a text of the broker before it.
    ///
    /// - Returns: what a result that is sent at once has; nil for nothing.
    private mutating func tell(
        _ note: VerdictNote, about request: SendRequest, to sender: Index<Session>,
        in step: inout Step
    ) -> VerdictNote? {
        if !note.isRefusal { counters.messagesRewritten += 1 }
        if sessions[sender].dialect == .mrt {
            tellMRT(note, about: request, to: sender, in: &step)
            return nil
        }
        if request.number > 0, request.packetIdentifier > 0 || !note.isRefusal {
            sessions[sender].senderState.value.setVerdict(note, of: request.number)
        }
        return note
    }

    private mutating func tellMRT(
        _ note: VerdictNote, about request: SendRequest, to sender: Index<Session>,
        in step: inout Step
    ) {
        let user = sessions[sender].user
        let name = Array(registry.users[user].name)
        let connection = liveConnection(of: sender)
        var text = BrokerEventText(
            note.isRefusal ? "MESSAGE_REFUSED" : "MESSAGE_REWRITTEN", ofUser: name)
        if request.number > 0 { text.write("number", number: request.number) }
        if !request.messageIdentifier.isEmpty {
            text.write("mid", string: request.messageIdentifier.bytes(in: step.bytes))
        }
        text.write("code", raw: Array("\(note.code)".utf8))
        if !note.text.isEmpty { text.write("reason", string: note.text) }
        withText(text.end(), for: user, in: &step) { _, message, step in
            step.effects[connection.loop].deliver(
                message, to: connection, .mrt, state: EntryState(grade: .transient))
        }
    }
}

extension SendRequest {
    /// Memory that it takes while it is held, about.
    var heldByteCount: Int {
        let target =
            switch target {
            case .user(let name), .group(let name), .topic(let name): Int(name.count)
            case .users(let names, _): Int(names.count)
            case .everybody: 0
            }
        let options = Int(attributes.count) + Int(mentions.names.count) + Int(push.count)
        return Int(payload.count) + Int(properties.count) + Int(messageIdentifier.count) + target
            + options + Int(collapseKey.count) + MemoryLayout<HeldSend>.stride
    }
}

extension HeldSend {
    /// Whether the moderator refused it.
    var isRefused: Bool {
        if case .refused? = verdict { return true }
        return false
    }

    /// What its sender is told besides the result.
    var note: VerdictNote? {
        switch verdict {
        case .refused(let note)?, .rewritten(_, let note)?: note
        case .accepted?, .silent?, .later?, nil: nil
        }
    }
}
