// The destinations of wake-ups: for each one a queue, its circuit, and how many requests it has.
// Those whose last request failed, or that answer slowly, share a quarter of all requests, and
// those that were never tried a half, so that they do not delay the others.
//
// A target that hangs on a host that takes connections says nothing of other targets of that host,
// which other users have named: it has one request at a time, and waits by itself. Where all of
// them hang, the host is slow.

import Primitives
import Relay

/// A place in a queue. It is invalid once the target has another ticket.
struct QueuePlace {
    let key: WakeKey
    let ticket: UInt64
}

struct Destinations {
    /// What the requests to a destination say.
    private enum Health: Int, CaseIterable {
        case answering
        case untried
        /// The last one failed, or the time to an answer is too long on average.
        case slow
    }

    private struct Destination {
        var circuit = Circuit()
        var ready = Queue<QueuePlace>()
        var inFlightCount = 0
        /// It is in one of the lists of destinations.
        var isListed = false
        var health = Health.untried
        /// The moving average of the time to an answer, in milliseconds; nil before the first one.
        var answerMilliseconds: UInt64?
        /// Requests in a row that hung after they were connected.
        var hangCount = 0

        mutating func noteAnswer(after milliseconds: UInt64) {
            answerMilliseconds =
                answerMilliseconds.map { $0 - $0 / 4 + milliseconds / 4 } ?? milliseconds
            hangCount = 0
        }

        /// - Parameter isFault: whether the last request failed because of the destination.
        func health(after isFault: Bool) -> Health {
            if isFault || hangCount >= RelayLimits.circuitFailuresMaximum { return .slow }
            guard let answerMilliseconds else { return health }
            return answerMilliseconds > PushLimits.answerMillisecondsMaximum ? .slow : .answering
        }
    }

    private var destinations: [String: Destination] = [:]
    /// How many of them there are before those without requests are forgotten: to look for them
    /// takes time, so they are looked for again at twice the number that was left.
    private(set) var countMaximum = PushLimits.destinationsMaximum
    /// Destinations whose turn it is; those whose circuit is open, by the end of the wait; and, by
    /// health, those that wait while others like them have their share of the requests.
    private var turns = Queue<String>()
    private var open = PriorityQueue<Instant, String>()
    private var held: [Queue<String>]
    private(set) var inFlightCount = 0
    /// By health: requests under way, and how many there may be.
    private var counts: [Int]
    private let shares: [Int]
    private let concurrencyMaximum: Int

    init(concurrencyMaximum: Int) {
        self.concurrencyMaximum = concurrencyMaximum
        shares = [
            concurrencyMaximum, max(1, concurrencyMaximum / 2), max(1, concurrencyMaximum / 4),
        ]
        held = Health.allCases.map { _ in Queue() }
        counts = Health.allCases.map { _ in 0 }
    }

    var count: Int { destinations.count }
    var openCount: Int { destinations.values.count { $0.circuit.openUntil != nil } }

    /// Whether all requests are under way that may be.
    var isFull: Bool { inFlightCount >= concurrencyMaximum }

    mutating func add(_ place: QueuePlace, to name: String) {
        if destinations[name] == nil, destinations.count >= countMaximum { forgetIdle() }
        destinations[name, default: Destination()].ready.append(place)
        list(name)
    }

    private mutating func forgetIdle() {
        destinations = destinations.filter {
            $0.value.inFlightCount > 0 || !$0.value.ready.isEmpty || $0.value.isListed
        }
        countMaximum = max(PushLimits.destinationsMaximum, 2 * destinations.count)
    }

    private mutating func list(_ name: String) {
        guard let destination = destinations[name], !destination.isListed,
            !destination.ready.isEmpty,
            destination.inFlightCount < PushLimits.destinationConcurrencyMaximum
        else { return }
        destinations[name]!.isListed = true
        turns.append(name)
    }

    /// The next place whose request may begin; it counts as begun.
    mutating func next(now: Instant) -> (name: String, place: QueuePlace)? {
        guard !isFull else { return nil }
        while let rank = open.firstRank, rank <= now { turns.append(open.popFirst()!) }
        while let name = turns.popFirst() {
            destinations[name]!.isListed = false
            guard destinations[name]!.circuit.mayBegin(now: now) else {
                // The result of the probe lists it again.
                guard !destinations[name]!.circuit.isProbing else { continue }
                destinations[name]!.isListed = true
                open.insert(name, rank: destinations[name]!.circuit.openUntil!)
                continue
            }
            let health = destinations[name]!.health.rawValue
            guard counts[health] < shares[health] else {
                destinations[name]!.isListed = true
                held[health].append(name)
                continue
            }
            guard let place = destinations[name]!.ready.popFirst() else { continue }
            begin(name)
            return (name, place)
        }
        return nil
    }

    private mutating func begin(_ name: String) {
        destinations[name]!.inFlightCount += 1
        destinations[name]!.circuit.begin()
        inFlightCount += 1
        counts[destinations[name]!.health.rawValue] += 1
        list(name)
    }

    /// What a result changed about the destination.
    enum Change {
        case opened(waitMilliseconds: UInt64)
        case closed
    }

    /// A request has its result.
    ///
    /// - Parameters:
    ///   - isFault: whether the destination as a whole failed.
    ///   - isHang: whether the target did not answer, after the destination took the connection.
    ///   - advised: the wait that it asked for, in milliseconds; 0 for none.
    ///   - begun: when the request began.
    ///   - wait: the wait after so many openings of the circuit, in milliseconds.
    mutating func finish(
        _ name: String, isFault: Bool, isHang: Bool, advised: UInt64, begun: Instant, now: Instant,
        wait: (Int) -> UInt64
    ) -> Change? {
        end(name)
        let change: Change?
        if isFault {
            let isOpened = destinations[name]!.circuit.failed(
                advised: advised, now: now, wait: wait)
            let until = destinations[name]!.circuit.openUntil
            change =
                isOpened ? .opened(waitMilliseconds: until!.milliseconds(since: now)) : nil
        } else {
            change = destinations[name]!.circuit.succeeded() ? .closed : nil
        }
        if isHang {
            destinations[name]!.hangCount += 1
        } else if !isFault {
            destinations[name]!.noteAnswer(after: now.milliseconds(since: begun))
        }
        setHealth(name, destinations[name]!.health(after: isFault))
        continueLists(name)
        return change
    }

    /// A request that counts as begun is not made after all.
    mutating func cancel(_ name: String) {
        end(name)
        destinations[name]!.circuit.cancel()
        continueLists(name)
    }

    private mutating func end(_ name: String) {
        inFlightCount -= 1
        precondition(inFlightCount >= 0, "\(inFlightCount) open requests after one to \(name)")
        destinations[name]!.inFlightCount -= 1
        counts[destinations[name]!.health.rawValue] -= 1
    }

    private mutating func continueLists(_ name: String) {
        list(name)
        for health in Health.allCases.map(\.rawValue) {
            for _ in 0..<max(0, shares[health] - counts[health]) {
                guard let next = held[health].popFirst() else { break }
                turns.append(next)
            }
        }
    }

    /// Requests that are under way count as what the destination is now.
    private mutating func setHealth(_ name: String, _ health: Health) {
        let former = destinations[name]!.health
        destinations[name]!.health = health
        counts[former.rawValue] -= destinations[name]!.inFlightCount
        counts[health.rawValue] += destinations[name]!.inFlightCount
    }

    /// Whether its circuit is open.
    func isOpen(_ name: String) -> Bool { destinations[name]?.circuit.openUntil != nil }

    /// When ``next(now:)`` may have something without a result before.
    func nextDeadline(now: Instant) -> Instant {
        if isFull { return .never }
        if !turns.isEmpty { return now }
        return open.firstRank ?? .never
    }
}
