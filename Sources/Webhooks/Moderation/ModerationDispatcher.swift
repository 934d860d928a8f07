// What the relay does as a moderator, as a value: questions of the broker, answers of endpoints and
// the time go in; requests and verdicts come out. Nothing of it is recorded or repeated: a question
// is worth nothing after its time, and the broker has a verdict for silence too.
//
// Each question is for the first endpoint that selects it. Endpoints have queues and circuits of
// their own, so a silent one delays no other's messages.

import ClientProgram
import MartletClient
import Primitives
import Relay

struct ModerationDispatcher {
    /// A request to make.
    struct Attempt {
        let decider: Int
        fileprivate let pending: PendingQuestion
        let identifier: String
        let body: [UInt8]
        /// The time for the answer.
        let milliseconds: Int
    }

    /// What the broker is told.
    struct Decision: Hashable {
        let number: UInt64
        /// The place of its decider.
        let decider: Int
        let verdict: EndpointVerdict
    }

    private(set) var queues: [DeciderQueue]
    private var decisions: [Decision] = []
    private var lines: [(event: String, fields: String)] = []
    private(set) var totals = ModerationTotals()
    private var isDraining = false

    init(_ deciders: [DeciderSettings], seed: UInt64) {
        queues = deciders.enumerated().map { DeciderQueue($1, seed: seed &+ UInt64($0)) }
    }

    // MARK: - Events

    /// Takes an event of the broker. Returns false for one that is no question.
    mutating func accept(_ message: IncomingMessage, now: Moment) -> Bool {
        guard case .brokerEvent(let json) = message.kind, MessageQuestion.isQuestion(json) else {
            return false
        }
        totals.questions += 1
        guard let question = MessageQuestion(json) else {
            totals.unmatched += 1
            return true
        }
        guard !isDraining,
            let index = queues.firstIndex(where: { $0.settings.selects(question) })
        else {
            totals.unmatched += 1
            return true
        }
        if let reason = queues[index].add(question, now: now.instant) {
            beSilent(question, of: index, reason, now: now.instant)
        }
        return true
    }

    /// The next request; nil if none may begin now.
    ///
    /// - Parameter user: the relay's own user.
    mutating func nextAttempt(user: String, now: Moment) -> Attempt? {
        guard !isDraining else { return nil }
        for index in queues.indices {
            timePassed(index, now: now.instant)
            guard let pending = queues[index].next(now: now.instant) else { continue }
            totals.requests += 1
            let left = pending.deadline.milliseconds(since: now.instant)
            // The same for two relays of the user that ask one endpoint.
            let identifier = EventIdentifier.of(
                user: user, epoch: 0, number: pending.question.number)
            return Attempt(
                decider: index, pending: pending, identifier: identifier,
                body: pending.question.body(
                    identifier: identifier, user: user, left: left,
                    unixMilliseconds: now.unixMilliseconds),
                milliseconds: Int(left))
        }
        return nil
    }

    /// A request has its result.
    mutating func finish(
        _ attempt: Attempt, with result: AttemptResult, answer: [UInt8], now: Instant
    ) {
        let question = attempt.pending.question
        let index = attempt.decider
        var silence: EndpointSilence?
        do throws(EndpointSilence) {
            let verdict = try EndpointVerdict(result, answer, isTyped: question.isTyped)
            count(verdict)
            decisions.append(
                Decision(number: question.number, decider: index, verdict: verdict))
        } catch {
            silence = error
        }
        let isRecovered = queues[index].finish(silence, now: now)
        if let silence { beSilent(question, of: index, silence.reason, now: now) }
        if isRecovered {
            log("decider_recovered", "decider=\(queues[index].settings.name)")
        }
        timePassed(index, now: now)
    }

    private mutating func count(_ verdict: EndpointVerdict) {
        switch verdict {
        case .accept: totals.accepted += 1
        case .refuse: totals.refused += 1
        case .rewrite: totals.rewritten += 1
        case .later: break
        }
    }

    /// Tells the broker the verdict of silence.
    private mutating func beSilent(
        _ question: MessageQuestion, of index: Int, _ reason: String, now: Instant
    ) {
        totals.silent += 1
        let settings = queues[index].settings
        decisions.append(
            Decision(number: question.number, decider: index, verdict: silence(of: index)))
        guard let count = queues[index].noteSilence(now: now) else { return }
        log(
            "decider_silent",
            "decider=\(settings.name) messages=\(count) reason=\(quoted(reason.utf8)) "
                + "verdict=\(settings.silent.rawValue)")
    }

    // MARK: - Time

    /// Answers what waits for too long.
    mutating func timePassed(now: Instant) {
        for index in queues.indices { timePassed(index, now: now) }
    }

    private mutating func timePassed(_ index: Int, now: Instant) {
        while let (question, reason) = queues[index].takeSilent(now: now) {
            beSilent(question, of: index, reason, now: now)
        }
    }

    /// Begins no more requests, and answers what waits.
    mutating func drain(now: Instant) {
        isDraining = true
        for index in queues.indices {
            while let question = queues[index].takeFirst() {
                beSilent(question, of: index, "stopping", now: now)
            }
        }
    }

    var inFlightCount: Int { queues.reduce(0) { $0 + $1.inFlightCount } }

    var nextDeadline: Instant {
        isDraining ? .never : queues.reduce(.never) { min($0, $1.nextDeadline) }
    }

    // MARK: - Results

    /// The verdicts since the last call.
    mutating func takeDecisions() -> [Decision] {
        defer { decisions = [] }
        return decisions
    }

    /// The broker did not take a verdict: a new content may be too long. The message still waits,
    /// for the verdict of silence.
    mutating func noteUntaken(about number: UInt64, of decider: Int) {
        totals.untaken += 1
        guard queues.indices.contains(decider) else { return }
        decisions.append(
            Decision(number: number, decider: decider, verdict: silence(of: decider)))
    }

    private func silence(of index: Int) -> EndpointVerdict {
        queues[index].settings.silent == .accept ? .accept : .later
    }

    private mutating func log(_ event: String, _ fields: String) { lines.append((event, fields)) }

    /// The lines for the log since the last call.
    mutating func takeLines() -> [(event: String, fields: String)] {
        defer { lines = [] }
        return lines
    }
}

/// The counters of the moderation since the start of the relay.
struct ModerationTotals: Hashable {
    /// Questions, and those that no endpoint selects.
    var questions: UInt64 = 0
    var unmatched: UInt64 = 0
    /// Requests to endpoints.
    var requests: UInt64 = 0
    /// Verdicts of endpoints.
    var accepted: UInt64 = 0
    var refused: UInt64 = 0
    var rewritten: UInt64 = 0
    /// Messages on which no endpoint decided.
    var silent: UInt64 = 0
    /// Verdicts that did not reach the broker, or that it refused.
    var untaken: UInt64 = 0

    var line: String {
        "questions=\(questions) questions_unmatched=\(unmatched) "
            + "question_requests=\(requests) accepted=\(accepted) refused=\(refused) "
            + "rewritten=\(rewritten) silent=\(silent) verdicts_untaken=\(untaken)"
    }
}
