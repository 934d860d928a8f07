// The relay's thread: it takes inputs, makes requests, keeps the record, and acknowledges.

import ClientProgram
import CommandLineOptions
import MartletClient
import Primitives
import Relay

struct WebhookRelay: ~Copyable {
    private let settings: WebhookSettings
    private let inputs: InputQueue
    private let session: BrokerSession
    private let pool: TransferPool
    private var dispatcher: EventDispatcher
    private var moderation: ModerationDispatcher
    private var record: RecordFile<RecordContent>
    private let obsolete: [String]
    private var attempts: [UInt64: EventDispatcher.Attempt] = [:]
    private var questions: [UInt64: ModerationDispatcher.Attempt] = [:]
    private var lastTag: UInt64 = 0
    private var drainDeadline: Instant?
    private var nextTotals = Instant.never
    private var nextResendLook = Instant(milliseconds: 0)
    /// A request whose dead letters are events again, in the record with the next write.
    private var answeredRequest: ResendRequest?
    private var stopReason: String?

    init(
        _ settings: WebhookSettings, record: consuming RecordFile<RecordContent>,
        session: BrokerSession,
        inputs: InputQueue, waker: RelayWaker
    ) {
        self.settings = settings
        self.inputs = inputs
        self.session = session
        moderation = ModerationDispatcher(settings.deciders, seed: .random(in: 0...(.max)))
        pool = TransferPool(
            waker, rules: AddressRules(allowed: settings.relay.privateNetworks),
            requestsMaximum: settings.concurrency)
        dispatcher = EventDispatcher(
            settings, stored: record.stored, seed: .random(in: 0...(.max)),
            now: SystemClocks.now)
        self.record = record
        obsolete = dispatcher.replaceFilters(settings.filters)
    }

    /// Runs until the relay has stopped.
    mutating func run() throws(RecordFailure) -> WebhookProcess.End {
        let start = SystemClocks.now
        if settings.relay.totalsSeconds > 0 {
            nextTotals = start.instant.advanced(bySeconds: UInt64(settings.relay.totalsSeconds))
        }
        // The list of subscriptions is in the record before the session has them.
        try save(start.instant)
        session.start(
            wants: settings.filters.map { .filter($0) } + settings.groups.map { .group($0) },
            obsolete: obsolete)
        while true {
            let now = SystemClocks.now
            for input in inputs.takeAll() { take(input, now) }
            turn(now)
            publishVerdicts()
            try save(now.instant)
            if let position = dispatcher.takeAcknowledgement() { session.acknowledge(position) }
            print()
            if let stopReason { return .refused(stopReason) }
            let inFlightCount = dispatcher.inFlightCount + moderation.inFlightCount
            if let drainDeadline, inFlightCount == 0 || now.instant >= drainDeadline {
                try leave()
                return .stopped
            }
            wait()
        }
    }

    private mutating func take(_ input: RelayInput, _ now: Moment) {
        switch input {
        case .connected(let terms): dispatcher.connected(terms, now: now.instant)
        case .disconnected(let end):
            let reason = end.reason.map { " reason=\($0.name)" } ?? ""
            dispatcher.log(
                "disconnected",
                "detail=\(quoted(end.detail.utf8))\(reason) retry_ms=\(end.retryMilliseconds)")
        case .message(let message):
            // Those that come now are delivered again after the next login.
            guard drainDeadline == nil else { return }
            if !moderation.accept(message, now: now) { dispatcher.accept(message, now: now) }
        case .dropped(let count): dispatcher.totals.dropped += UInt64(clamping: count)
        case .subscribed(let count): dispatcher.log("subscribed", "count=\(count)")
        case .subscriptionRefused(let name, let reason):
            dispatcher.log("subscription_refused", "\(name) reason=\(reason.name)")
        case .unsubscribed: dispatcher.forgetObsoleteFilters()
        case .stopped(let reason): if drainDeadline == nil { stopReason = reason }
        case .drain:
            guard drainDeadline == nil else { return }
            drainDeadline = now.instant.advanced(byMilliseconds: RelayLimits.drainMilliseconds)
            dispatcher.drain()
            moderation.drain(now: now.instant)
        case .sendRefused(let id):
            if let id = id.flatMap(VerdictID.init) {
                moderation.noteUntaken(about: id.number, of: id.decider)
            }
        case .totals: logTotals()
        }
    }

    private mutating func logTotals() {
        dispatcher.logTotals()
        guard !settings.deciders.isEmpty else { return }
        dispatcher.log("moderation_totals", moderation.totals.line)
    }

    // MARK: - Verdicts

    /// Tells the broker what was decided. It knows no more of a question whose verdict is lost than
    /// that nobody answered.
    private mutating func publishVerdicts() {
        for decision in moderation.takeDecisions() {
            let (topic, payload) = decision.verdict.publication(about: decision.number)
            var message = OutgoingMessage(to: .topic(topic), .bytes(payload), grade: .transient)
            message.messageID = VerdictID(decision)?.text
            session.client.send(message) { _ in }
        }
        for line in moderation.takeLines() { dispatcher.log(line.event, line.fields) }
    }

    /// Makes requests until none may begin, and takes results.
    private mutating func turn(_ now: Moment) {
        dispatcher.timePassed(now: now)
        moderation.timePassed(now: now.instant)
        if now.instant >= nextTotals {
            logTotals()
            nextTotals = now.instant.advanced(bySeconds: UInt64(settings.relay.totalsSeconds))
        }
        lookForResends(now)
        begin(now)
        var completions = pool.perform()
        // A result may permit the next request of its key, whose bytes are sent in this turn too.
        var rounds = 0
        while !completions.isEmpty {
            for completion in completions { take(completion, now) }
            guard rounds < RelayLimits.roundsMaximum else { return }
            rounds += 1
            begin(now)
            completions = pool.perform()
        }
    }

    private mutating func take(_ completion: TransferPool.Completion, _ now: Moment) {
        if let question = questions.removeValue(forKey: completion.tag) {
            moderation.finish(
                question, with: completion.result, answer: completion.answer, now: now.instant)
            return
        }
        guard let attempt = attempts.removeValue(forKey: completion.tag) else {
            preconditionFailure("request \(completion.tag) has ended before")
        }
        dispatcher.finish(attempt, with: completion.result, now: now)
    }

    private mutating func begin(_ now: Moment) {
        beginQuestions(now)
        while let attempt = dispatcher.nextAttempt(now: now) {
            let hook = settings.hooks[attempt.hook]
            lastTag += 1
            attempts[lastTag] = attempt
            pool.begin(
                .signed(
                    hook.url, body: attempt.body, identifier: attempt.identifier,
                    seconds: now.unixSeconds, secrets: hook.secrets,
                    authorityFile: hook.authorityFile, timeoutSeconds: hook.timeoutSeconds),
                tag: lastTag)
        }
    }

    private mutating func beginQuestions(_ now: Moment) {
        while let attempt = moderation.nextAttempt(user: dispatcher.user, now: now) {
            let decider = settings.deciders[attempt.decider]
            lastTag += 1
            questions[lastTag] = attempt
            var request = TransferRequest.signed(
                decider.url, body: attempt.body, identifier: attempt.identifier,
                seconds: now.unixSeconds, secrets: decider.secrets,
                authorityFile: decider.authorityFile,
                timeoutSeconds: (attempt.milliseconds + 999) / 1_000)
            request.timeoutMilliseconds = max(1, attempt.milliseconds)
            pool.begin(request, tag: lastTag)
        }
    }

    private mutating func lookForResends(_ now: Moment) {
        guard dispatcher.mayResend, drainDeadline == nil, now.instant >= nextResendLook else {
            return
        }
        nextResendLook = now.instant.advanced(byMilliseconds: RelayLimits.resendMilliseconds)
        let request = ResendRequest(stateFile: settings.relay.stateFile)
        guard let sequences = request.read() else { return }
        dispatcher.resend(sequences, now: now)
        answeredRequest = request
    }

    // MARK: - The record

    private mutating func save(_ now: Instant) throws(RecordFailure) {
        guard let write = dispatcher.nextWrite(now: now) else {
            // No letter of the request was there any more.
            if !dispatcher.hasUnwritten {
                answeredRequest?.remove()
                answeredRequest = nil
            }
            return
        }
        do throws(RecordFailure) {
            try record.append(write.entries, isSynced: write.isSynced)
            dispatcher.written(write)
        } catch {
            guard case .noRoom(let reason) = error else { throw error }
            guard try record.makeRoom(for: &dispatcher) else {
                return dispatcher.notWritten(reason, now: now)
            }
        }
        // In the record, and synced.
        if write.isComplete, !dispatcher.hasUnwritten {
            answeredRequest?.remove()
            answeredRequest = nil
        }
        try record.compact(from: &dispatcher)
    }

    private mutating func leave() throws(RecordFailure) {
        dispatcher.requestRecord()
        try save(SystemClocks.now.instant)
        // A record that was cut on a full disk has nothing yet.
        if dispatcher.hasUnwritten { try save(SystemClocks.now.instant) }
        if let position = dispatcher.takeAcknowledgement() { session.acknowledge(position) }
        session.close()
        logTotals()
        print()
    }

    // MARK: - The end of a turn

    private mutating func print() {
        for line in dispatcher.takeLines() {
            StandardStream.error.print("\(LogTime.prefix())\(line)")
        }
    }

    private func wait() {
        let now = SystemClocks.now.instant
        var deadline = min(
            dispatcher.nextDeadline(now: now), moderation.nextDeadline, nextTotals)
        if let drainDeadline { deadline = min(deadline, drainDeadline) }
        if dispatcher.mayResend, drainDeadline == nil {
            deadline = min(deadline, nextResendLook)
        }
        pool.wait(
            milliseconds: min(deadline.milliseconds(since: now), RelayLimits.waitMilliseconds))
    }
}

/// The id of a verdict's message, by which a refusal is recognized.
private struct VerdictID {
    let number: UInt64
    let decider: Int

    /// Nil for a verdict that the broker takes whatever the message is.
    init?(_ decision: ModerationDispatcher.Decision) {
        switch decision.verdict {
        case .accept, .later: return nil
        case .refuse, .rewrite: (number, decider) = (decision.number, decision.decider)
        }
    }

    init?(_ text: String) {
        let parts = text.split(separator: "/")
        guard parts.count == 2, let number = UInt64(parts[0]), let decider = Int(parts[1]) else {
            return nil
        }
        (self.number, self.decider) = (number, decider)
    }

    var text: String { "\(number)/\(decider)" }
}
