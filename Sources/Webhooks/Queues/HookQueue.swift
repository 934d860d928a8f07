// The undelivered events of one hook: a queue for each key, the order in which keys have their
// turn, and the circuit. It performs no I/O; the time is handed in.

import Primitives
import Relay

/// The events of one key.
private struct KeyQueue {
    var deliveries = Queue<Delivery>()
    /// Events of the request that is open or has failed; 0 if the next request is a new one.
    var batchCount = 0
    /// Attempts of it that failed, and how many of them were refusals.
    var failureCount = 0
    var refusalCount = 0
    /// A refused batch is sent in single events, so that one of them stands for itself.
    var isSingle = false
    var isInFlight = false

    mutating func beginAnew() {
        batchCount = 0
        failureCount = 0
        refusalCount = 0
    }
}

struct HookQueue {
    let settings: HookSettings
    private let schedule: RetrySchedule
    private var jitter: SplitMix64
    private var keys: [ExactText: KeyQueue] = [:]
    /// Keys whose turn it is, and keys that wait after a failure. A key is in one of them, or has
    /// an open request.
    private var ready = Queue<ExactText>()
    private var waiting = PriorityQueue<Instant, ExactText>()
    private(set) var circuit = Circuit()
    private(set) var inFlightCount = 0
    private(set) var count = 0
    private(set) var byteCount = 0
    /// The destination answered 410.
    private(set) var isDisabled = false

    init(_ settings: HookSettings, schedule: RetrySchedule, seed: UInt64) {
        self.settings = settings
        self.schedule = schedule
        jitter = SplitMix64(seed: seed)
    }

    private var concurrency: Int { settings.order == .hook ? 1 : settings.concurrency }

    /// The number of keys with undelivered events.
    var keyCount: Int { keys.count }

    /// Whether there is no room for one more event.
    func isFull(for delivery: Delivery) -> Bool {
        count >= settings.queueMaximum
            || byteCount + delivery.byteCount > settings.queueByteCountMaximum
    }

    private func queueKey(_ delivery: Delivery) -> ExactText {
        settings.order == .hook ? "" : ExactText(delivery.key)
    }

    mutating func add(_ delivery: Delivery) {
        let key = queueKey(delivery)
        if keys[key] == nil { ready.append(key) }
        keys[key, default: KeyQueue()].deliveries.append(delivery)
        count += 1
        byteCount += delivery.byteCount
    }

    // MARK: - Requests

    /// A request to make, whose result ``finish(_:with:now:)`` gets.
    struct Request {
        let key: ExactText
        /// At least one.
        let deliveries: [Delivery]
    }

    /// The next request; nil if none may begin now.
    ///
    /// - Parameters:
    ///   - time: Unix milliseconds.
    ///   - expired: gets events whose validity has ended.
    mutating func next(
        now: Instant, time: UInt64, expired: inout [Delivery]
    ) -> Request? {
        guard !isDisabled, inFlightCount < concurrency, circuit.mayBegin(now: now) else {
            return nil
        }
        while let rank = waiting.firstRank, rank <= now { ready.append(waiting.popFirst()!) }
        while let key = ready.popFirst() {
            while let first = keys[key]!.deliveries.first, first.expiry <= time {
                expired.append(remove(firstOf: key))
                keys[key]!.beginAnew()
            }
            guard !keys[key]!.deliveries.isEmpty else {
                keys[key] = nil
                continue
            }
            inFlightCount += 1
            circuit.begin()
            keys[key]!.isInFlight = true
            return Request(key: key, deliveries: batch(of: key))
        }
        return nil
    }

    private mutating func batch(of key: ExactText) -> [Delivery] {
        let queue = keys[key]!
        var deliveries = [queue.deliveries[0]]
        // An attempt that is repeated has the same events, and so the same id.
        let countMaximum =
            queue.batchCount > 0 ? queue.batchCount : queue.isSingle ? 1 : settings.batchMaximum
        var byteCount = deliveries[0].byteCount
        while deliveries.count < min(countMaximum, queue.deliveries.count) {
            let next = queue.deliveries[deliveries.count]
            byteCount += next.byteCount
            if byteCount > WebhookLimits.batchByteCountMaximum { break }
            deliveries.append(next)
        }
        keys[key]!.batchCount = deliveries.count
        return deliveries
    }

    private mutating func remove(firstOf key: ExactText) -> Delivery {
        let delivery = keys[key]!.deliveries.popFirst()!
        count -= 1
        byteCount -= delivery.byteCount
        return delivery
    }

    private mutating func remove(batchOf key: ExactText) -> [Delivery] {
        let count = keys[key]!.batchCount
        defer { keys[key]!.beginAnew() }
        return (0..<count).map { _ in remove(firstOf: key) }
    }

    /// What a result means.
    enum Outcome {
        case delivered([Delivery])
        case dead([Delivery], DeathCause)
        /// It is tried again.
        case retried
        /// The destination has refused it, for the `count`-th time, and it is tried again.
        case refused(count: Int)
    }

    /// What a result changed about the hook as a whole.
    enum Change {
        case opened(waitMilliseconds: UInt64)
        case closed
        case disabled
    }

    /// A request has its result.
    mutating func finish(
        _ request: Request, with result: AttemptResult, now: Instant
    ) -> (outcome: Outcome, change: Change?) {
        inFlightCount -= 1
        precondition(inFlightCount >= 0, "\(inFlightCount) open requests of \(settings.name)")
        let key = request.key
        keys[key]!.isInFlight = false
        switch result {
        case .answered(let status, _) where (200..<300).contains(status):
            let isClosed = circuit.succeeded()
            let delivered = remove(batchOf: key)
            keys[key]!.isSingle = false
            continueLater(key, at: nil)
            return (.delivered(delivered), isClosed ? .closed : nil)
        case .answered(410, _):
            // Its events wait until it is enabled. Open requests end as others do.
            let isFirst = !isDisabled
            isDisabled = true
            continueLater(key, at: nil)
            return (.retried, isFirst ? .disabled : nil)
        case .answered(_, let retryAfter) where result.isFault:
            return fail(key, advisedSeconds: retryAfter, now: now)
        case .answered: return refuse(key, now: now)
        case .failed: return fail(key, advisedSeconds: 0, now: now)
        }
    }

    private mutating func fail(
        _ key: ExactText, advisedSeconds: UInt64, now: Instant
    ) -> (Outcome, Change?) {
        let advised = min(advisedSeconds, RelayLimits.retryAfterSecondsMaximum) * 1_000
        let random = jitter.next()
        let schedule = schedule
        let isOpened = circuit.failed(advised: advised, now: now) { openings in
            schedule.milliseconds(afterFailures: openings, random: random)
        }
        keys[key]!.failureCount += 1
        // The circuit is the wait of a destination that is down; the keys need none beside it.
        let wait =
            circuit.openUntil != nil
            ? 0
            : schedule.milliseconds(
                afterFailures: keys[key]!.failureCount, random: jitter.next())
        continueLater(key, at: now.advanced(byMilliseconds: wait))
        let open = circuit.openUntil.map { $0.milliseconds(since: now) } ?? 0
        return (.retried, isOpened ? .opened(waitMilliseconds: open) : nil)
    }

    private mutating func refuse(_ key: ExactText, now: Instant) -> (Outcome, Change?) {
        // It answers, so it is well.
        let change: Change? = circuit.succeeded() ? .closed : nil
        keys[key]!.failureCount += 1
        keys[key]!.refusalCount += 1
        let count = keys[key]!.refusalCount
        let wait = schedule.milliseconds(
            afterFailures: keys[key]!.failureCount, random: jitter.next())
        if keys[key]!.batchCount > 1 {
            keys[key]!.beginAnew()
            keys[key]!.isSingle = true
        } else if count >= settings.refusalsMaximum {
            let dead = remove(batchOf: key)
            continueLater(key, at: nil)
            return (.dead(dead, .refused), change)
        }
        continueLater(key, at: now.advanced(byMilliseconds: wait))
        return (.refused(count: count), change)
    }

    /// Gives a key its next turn, if it has events.
    private mutating func continueLater(_ key: ExactText, at time: Instant?) {
        if keys[key]!.deliveries.isEmpty {
            keys[key] = nil
        } else if let time {
            waiting.insert(key, rank: time)
        } else {
            ready.append(key)
        }
    }

    // MARK: - The whole hook

    /// Takes out events at the front of their keys whose validity has ended.
    ///
    /// - Parameter time: Unix milliseconds.
    mutating func takeExpired(time: UInt64) -> [Delivery] {
        var expired: [Delivery] = []
        for key in Array(keys.keys) where !keys[key]!.isInFlight {
            // A key without events keeps its turn, which then ends it.
            while let first = keys[key]!.deliveries.first, first.expiry <= time {
                expired.append(remove(firstOf: key))
                keys[key]!.beginAnew()
            }
        }
        return expired
    }

    /// When ``next(now:time:expired:)`` may have a request without a result before; `never` if only
    /// a result or an event can change that.
    func nextDeadline(now: Instant) -> Instant {
        guard !isDisabled, count > 0, inFlightCount < concurrency else { return .never }
        let firstReady = ready.isEmpty ? waiting.firstRank ?? .never : now
        guard let openUntil = circuit.openUntil else { return firstReady }
        return circuit.isProbing ? .never : max(openUntil, firstReady)
    }

    /// Tries it again from now on.
    mutating func enable() {
        isDisabled = false
        circuit.close()
    }

    /// All events, in the order of their numbers.
    var all: [Delivery] {
        keys.values.flatMap(\.deliveries.all).sorted { $0.sequence < $1.sequence }
    }
}
