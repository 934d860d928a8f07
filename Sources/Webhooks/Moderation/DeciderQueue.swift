// The questions to one endpoint: those that wait for their turn, how many requests are open, and
// the circuit. It performs no I/O; the time is handed in. A question is answered by its deadline,
// whatever the endpoint does.
//
// Senders take turns, so that the messages of one, however many they are, delay those of another by
// one question each.

import Primitives
import Relay

/// A question with its deadline.
struct PendingQuestion {
    let question: MessageQuestion
    let deadline: Instant
}

struct DeciderQueue {
    let settings: DeciderSettings
    private var jitter: SplitMix64
    private var waiting = WaitingQuestions()
    private(set) var inFlightCount = 0
    private(set) var circuit = Circuit()
    /// Silences since the last line of the log about them, and when the next one may be written.
    private var untoldCount: UInt64 = 0
    private var nextLine = Instant(milliseconds: 0)

    private static let schedule = RetrySchedule(
        firstMilliseconds: WebhookLimits.deciderRetryMilliseconds,
        longestMilliseconds: WebhookLimits.deciderRetryMillisecondsMaximum)

    init(_ settings: DeciderSettings, seed: UInt64) {
        self.settings = settings
        jitter = SplitMix64(seed: seed)
    }

    var waitingCount: Int { waiting.count }

    /// Adds a question. Returns why nobody can be asked; nil if it waits for its turn.
    mutating func add(_ question: MessageQuestion, now: Instant) -> String? {
        guard circuit.mayBegin(now: now) else { return "circuit-open" }
        guard waiting.count < WebhookLimits.questionsWaitingMaximum,
            waiting.count(of: question.sender) < WebhookLimits.questionsOfSenderMaximum
        else { return "too-many" }
        // The verdict has to reach the broker in its time.
        let most =
            max(
                question.milliseconds, 2 * WebhookLimits.verdictMilliseconds)
            - WebhookLimits.verdictMilliseconds
        let milliseconds = min(UInt64(settings.timeoutMilliseconds), most)
        waiting.append(
            PendingQuestion(
                question: question, deadline: now.advanced(byMilliseconds: milliseconds)))
        return nil
    }

    /// Removes a question whose time is over, or that cannot be asked any more.
    mutating func takeSilent(now: Instant) -> (MessageQuestion, String)? {
        if let expired = waiting.popExpired(now: now) { return (expired.question, "no-turn") }
        guard !circuit.mayBegin(now: now), let next = waiting.popNext() else { return nil }
        return (next.question, "circuit-open")
    }

    /// Removes a question that nobody is asked any more.
    mutating func takeFirst() -> MessageQuestion? { waiting.popNext()?.question }

    /// The next question to ask: the oldest one of the sender whose turn it is. Those whose time is
    /// over were taken before (``takeSilent(now:)``).
    mutating func next(now: Instant) -> PendingQuestion? {
        guard inFlightCount < settings.concurrency, circuit.mayBegin(now: now),
            let next = waiting.popNext()
        else { return nil }
        inFlightCount += 1
        circuit.begin()
        return next
    }

    /// A request has ended.
    ///
    /// - Parameter silence: nil for a decision.
    /// - Returns: whether the circuit was open and is closed now.
    mutating func finish(_ silence: EndpointSilence?, now: Instant) -> Bool {
        inFlightCount -= 1
        precondition(inFlightCount >= 0, "\(inFlightCount) open questions to \(settings.name)")
        guard silence?.isFault == true else { return circuit.succeeded() }
        let random = jitter.next()
        _ = circuit.failed(advised: 0, now: now) {
            Self.schedule.milliseconds(afterFailures: $0, random: random)
        }
        return false
    }

    /// Counts a silence. Returns how many a line of the log is to tell; nil for no line now.
    mutating func noteSilence(now: Instant) -> UInt64? {
        untoldCount += 1
        guard now >= nextLine else { return nil }
        nextLine = now.advanced(byMilliseconds: WebhookLimits.silenceLineMilliseconds)
        defer { untoldCount = 0 }
        return untoldCount
    }

    /// When ``takeSilent(now:)`` has something without a result before.
    var nextDeadline: Instant { waiting.firstDeadline ?? .never }
}
