// The loop of a relay's thread, the same for all relays: inputs, requests and their results, the
// record, acknowledgements, the log, and the end.

import ClientProgram
import CommandLineOptions
import MartletClient
import Primitives

/// What one kind of relay does in the loop.
package protocol RelayWork: ~Copyable {
    associatedtype Content: RecordedContent

    /// Nil without a broker, for tests.
    var session: BrokerSession? { get }
    var pool: TransferPool { get }
    /// Whether nothing is under way that a stop has to wait for.
    var isQuiet: Bool { get }
    /// Whether a request to send dead letters again may find something.
    var mayResend: Bool { get }
    /// Whether something is not in the record yet.
    var hasUnwritten: Bool { get }
    /// When something is due without an input or a result.
    func nextDeadline(now: Instant) -> Instant

    /// Logs in, after what the record must have before that is in it.
    mutating func start(now: Instant) throws(RelayFailure)
    /// Takes an input that the loop does not know.
    mutating func take(_ input: RelayInput, now: Moment)
    /// Takes what is due, and what other threads gave back.
    mutating func timePassed(now: Moment)
    /// Makes requests until none may begin.
    mutating func begin(now: Moment)
    mutating func take(_ completion: TransferPool.Completion, now: Moment)
    /// All results of a turn are taken.
    mutating func turnEnded()
    /// Begins no more requests.
    mutating func drain(now: Instant)
    mutating func resend(_ sequences: [UInt64], now: Moment)
    mutating func countDropped(_ count: Int)

    /// Writes to the record.
    ///
    /// - Parameter isForced: whether all that is not in it is written, and not only what is due.
    mutating func save(now: Instant, isForced: Bool) throws(RecordFailure)
    /// What the broker may forget; nil for nothing new.
    mutating func takeAcknowledgement() -> InboxRecord?

    mutating func log(_ event: String, _ fields: String)
    mutating func logTotals()
    mutating func takeLines() -> [String]
}

struct RelayLoop<Work: RelayWork & ~Copyable>: ~Copyable {
    private var work: Work
    private let inputs: InputQueue
    private let totalsSeconds: UInt64
    private let resendRequest: ResendRequest
    /// Whether the dead letters of the request wait again. It is removed when the record has that.
    private var isResent = false
    private var nextTotals = Instant.never
    private var nextResendLook = Instant(milliseconds: 0)
    private var drainDeadline: Instant?
    private var stopReason: String?

    init(_ settings: RelaySettings, inputs: InputQueue, work: consuming Work) {
        self.work = work
        self.inputs = inputs
        totalsSeconds = UInt64(settings.totalsSeconds)
        resendRequest = ResendRequest(stateFile: settings.stateFile)
    }

    /// Runs until the relay has stopped.
    mutating func run() throws(RelayFailure) -> RelayEnd {
        let start = SystemClocks.now.instant
        if totalsSeconds > 0 { nextTotals = start.advanced(bySeconds: totalsSeconds) }
        try work.start(now: start)
        while true {
            let now = SystemClocks.now
            for input in inputs.takeAll() { take(input, now) }
            turn(now)
            try save(now.instant)
            acknowledge()
            print()
            if let stopReason { return .refused(stopReason) }
            if let drainDeadline, work.isQuiet || now.instant >= drainDeadline {
                try leave()
                return .stopped
            }
            wait()
        }
    }

    private mutating func take(_ input: RelayInput, _ now: Moment) {
        switch input {
        // Messages that come now are delivered again after the next login.
        case .message where drainDeadline != nil: break
        case .connected, .message, .subscribed, .subscriptionRefused, .unsubscribed, .sendRefused:
            work.take(input, now: now)
        case .disconnected(let end):
            work.take(input, now: now)
            let reason = end.reason.map { " reason=\($0.name)" } ?? ""
            work.log(
                "disconnected",
                "detail=\(quoted(end.detail.utf8))\(reason) retry_ms=\(end.retryMilliseconds)")
        case .dropped(let count): work.countDropped(count)
        case .stopped(let reason): if drainDeadline == nil { stopReason = reason }
        case .drain:
            guard drainDeadline == nil else { return }
            drainDeadline = now.instant.advanced(byMilliseconds: RelayLimits.drainMilliseconds)
            work.drain(now: now.instant)
        case .totals: work.logTotals()
        }
    }

    /// Makes requests until none may begin, and takes results.
    private mutating func turn(_ now: Moment) {
        work.timePassed(now: now)
        if now.instant >= nextTotals {
            work.logTotals()
            nextTotals = now.instant.advanced(bySeconds: totalsSeconds)
        }
        lookForResends(now)
        work.begin(now: now)
        var completions = work.pool.perform()
        // A result may permit the next request, whose bytes are sent in this turn too.
        var rounds = 0
        while !completions.isEmpty {
            for completion in completions { work.take(completion, now: now) }
            guard rounds < RelayLimits.roundsMaximum else { break }
            rounds += 1
            work.begin(now: now)
            completions = work.pool.perform()
        }
        work.turnEnded()
    }

    private mutating func lookForResends(_ now: Moment) {
        guard work.mayResend, drainDeadline == nil, now.instant >= nextResendLook else { return }
        nextResendLook = now.instant.advanced(byMilliseconds: RelayLimits.resendMilliseconds)
        guard let sequences = resendRequest.read() else { return }
        work.resend(sequences, now: now)
        isResent = true
    }

    private mutating func save(_ now: Instant, isForced: Bool = false) throws(RelayFailure) {
        do throws(RecordFailure) {
            try work.save(now: now, isForced: isForced)
        } catch {
            throw .record(error)
        }
        if isResent, !work.hasUnwritten {
            resendRequest.remove()
            isResent = false
        }
    }

    private mutating func acknowledge() {
        if let position = work.takeAcknowledgement() { work.session?.acknowledge(position) }
    }

    private mutating func leave() throws(RelayFailure) {
        try save(SystemClocks.now.instant, isForced: true)
        // A record that was cut on a full disk has nothing yet.
        if work.hasUnwritten { try save(SystemClocks.now.instant, isForced: true) }
        acknowledge()
        work.session?.close()
        work.logTotals()
        print()
    }

    private mutating func print() {
        for line in work.takeLines() {
            StandardStream.error.print("\(LogTime.prefix())\(line)")
        }
    }

    private func wait() {
        let now = SystemClocks.now.instant
        var deadline = min(work.nextDeadline(now: now), nextTotals)
        if let drainDeadline {
            deadline = min(deadline, drainDeadline)
        } else if work.mayResend {
            deadline = min(deadline, nextResendLook)
        }
        work.pool.wait(
            milliseconds: min(deadline.milliseconds(since: now), RelayLimits.waitMilliseconds))
    }
}
