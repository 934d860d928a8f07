// A webhook relay, as its loop runs it: requests to hooks and deciders, the record, and verdicts.

import ClientProgram
import MartletClient
import Primitives
import Relay

struct WebhookRelay: RelayWork, ~Copyable {
    typealias Content = RecordContent

    private let settings: WebhookSettings
    let session: BrokerSession?
    let pool: TransferPool
    private var dispatcher: EventDispatcher
    private var moderation: ModerationDispatcher
    private var record: RecordFile<RecordContent>
    private let obsolete: [String]
    private var attempts: [UInt64: EventDispatcher.Attempt] = [:]
    private var questions: [UInt64: ModerationDispatcher.Attempt] = [:]
    private var lastTag: UInt64 = 0

    init(
        _ settings: WebhookSettings, record: consuming RecordFile<RecordContent>,
        session: BrokerSession?, waker: RelayWaker
    ) {
        self.settings = settings
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

    mutating func start(now: Instant) throws(RelayFailure) {
        do throws(RecordFailure) {
            // The list of subscriptions is in the record before the session has them.
            try save(now: now, isForced: false)
        } catch {
            throw .record(error)
        }
        session?.start(
            wants: settings.filters.map { .filter($0) } + settings.groups.map { .group($0) },
            obsolete: obsolete)
    }

    // MARK: - Inputs and time

    mutating func take(_ input: RelayInput, now: Moment) {
        switch input {
        case .connected(let terms): dispatcher.connected(terms, now: now.instant)
        case .message(let message):
            if !moderation.accept(message, now: now) { dispatcher.accept(message, now: now) }
        case .subscribed(let count): dispatcher.log("subscribed", "count=\(count)")
        case .subscriptionRefused(let name, let reason):
            dispatcher.log("subscription_refused", "\(name) reason=\(reason.name)")
        case .unsubscribed: dispatcher.forgetObsoleteFilters()
        case .sendRefused(let id):
            if let id = id.flatMap(VerdictID.init) {
                moderation.noteUntaken(about: id.number, of: id.decider)
            }
        default: break
        }
    }

    mutating func countDropped(_ count: Int) {
        dispatcher.totals.dropped += UInt64(clamping: count)
    }

    mutating func timePassed(now: Moment) {
        dispatcher.timePassed(now: now)
        moderation.timePassed(now: now.instant)
    }

    func nextDeadline(now: Instant) -> Instant {
        min(dispatcher.nextDeadline(now: now), moderation.nextDeadline)
    }

    var isQuiet: Bool { dispatcher.inFlightCount + moderation.inFlightCount == 0 }

    mutating func drain(now: Instant) {
        dispatcher.drain()
        moderation.drain(now: now)
    }

    // MARK: - Requests

    mutating func take(_ completion: TransferPool.Completion, now: Moment) {
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

    mutating func begin(now: Moment) {
        beginQuestions(now)
        while let attempt = dispatcher.nextAttempt(now: now) {
            let hook = settings.hooks[attempt.hook]
            lastTag += 1
            attempts[lastTag] = attempt
            pool.begin(
                .signed(
                    hook.url, body: attempt.body, identifier: attempt.identifier,
                    seconds: now.unixSeconds, secrets: hook.secrets,
                    authorityFile: hook.authorityFile,
                    timeoutMilliseconds: 1_000 * hook.timeoutSeconds),
                tag: lastTag)
        }
    }

    private mutating func beginQuestions(_ now: Moment) {
        while let attempt = moderation.nextAttempt(user: dispatcher.user, now: now) {
            let decider = settings.deciders[attempt.decider]
            lastTag += 1
            questions[lastTag] = attempt
            pool.begin(
                .signed(
                    decider.url, body: attempt.body, identifier: attempt.identifier,
                    seconds: now.unixSeconds, secrets: decider.secrets,
                    authorityFile: decider.authorityFile,
                    timeoutMilliseconds: max(1, attempt.milliseconds)),
                tag: lastTag)
        }
    }

    // MARK: - Verdicts

    /// Tells the broker what was decided. It knows no more of a question whose verdict is lost than
    /// that nobody answered.
    mutating func turnEnded() {
        for decision in moderation.takeDecisions() {
            let (topic, payload) = decision.verdict.publication(about: decision.number)
            var message = OutgoingMessage(to: .topic(topic), .bytes(payload), grade: .transient)
            message.messageID = VerdictID(decision)?.text
            session?.client.send(message) { _ in }
        }
        for line in moderation.takeLines() { dispatcher.log(line.event, line.fields) }
    }

    // MARK: - The record

    var mayResend: Bool { dispatcher.mayResend }

    mutating func resend(_ sequences: [UInt64], now: Moment) {
        dispatcher.resend(sequences, now: now)
    }

    var hasUnwritten: Bool { dispatcher.hasUnwritten }

    mutating func save(now: Instant, isForced: Bool) throws(RecordFailure) {
        if isForced { dispatcher.requestRecord() }
        guard let write = dispatcher.nextWrite(now: now) else { return }
        do throws(RecordFailure) {
            try record.append(write.entries, isSynced: write.isSynced)
            dispatcher.written(write)
        } catch {
            guard case .noRoom(let reason) = error else { throw error }
            guard try record.makeRoom(for: &dispatcher) else {
                return dispatcher.notWritten(reason, now: now)
            }
        }
        try record.compact(from: &dispatcher)
    }

    mutating func takeAcknowledgement() -> InboxRecord? { dispatcher.takeAcknowledgement() }

    // MARK: - The log

    mutating func log(_ event: String, _ fields: String) { dispatcher.log(event, fields) }

    mutating func logTotals() {
        dispatcher.logTotals()
        guard !settings.deciders.isEmpty else { return }
        dispatcher.log("moderation_totals", moderation.totals.line)
    }

    mutating func takeLines() -> [String] { dispatcher.takeLines() }
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
