// The relay for wake-ups as a value: events of the broker, results of attempts and the time go in;
// attempts, entries of the record and acknowledgements come out. It opens no socket and writes no
// file. Two rules give its guarantee:
//
//   * An event is acknowledged to the broker when its wake-ups are in the record, and the record is
//     synced.
//   * A wake-up leaves the record when the destination took it, when nobody needs it any more, or
//     as a dead letter.
//
// A target has one wake-up at a time: a newer one replaces it, and waits while it is in flight.

import ClientProgram
import JSON5
import MartletClient
import Primitives
import Relay
import WakeTemplates

package struct WakeDispatcher {
    /// An attempt to make.
    package struct Attempt {
        package enum Phase {
            /// Ask the hook for the content.
            case hook
            /// Send, with the content that the hook gave.
            case send(WakeContent)
        }

        package let wake: Wake
        package let phase: Phase
        let destination: String
        /// When the request of this phase begins.
        let begun: Instant
    }

    struct Target {
        /// What is to be sent, or is being sent. ``replace(by:)`` sets it.
        private(set) var pending: Wake?
        /// The wake-up that follows the attempt under way.
        var next: Wake?
        var isInFlight = false
        /// The ticket of the only valid place in a queue.
        var ticket: UInt64 = 0
        var failureCount = 0
        var refusalCount = 0
        var datagramCount = 0
        /// The hook has answered for the pending wake-up.
        var isAsked = false
        var answer: JSON5Node?
        /// Nobody took what the sender gave for the pending wake-up: the template takes its place.
        var isSenderRefused = false

        /// Puts a newer wake-up in the place of the pending one, or none. What the hook and the
        /// destination said belongs to the older one.
        mutating func replace(by newer: Wake?) {
            pending = newer
            isAsked = false
            answer = nil
            isSenderRefused = false
            // It has attempts of its own; the circuit of the destination bounds all of them.
            failureCount = 0
            refusalCount = 0
            datagramCount = 0
        }

        /// Puts the next wake-up in the place of the pending one, or none if there is none.
        mutating func advance() {
            replace(by: next)
            next = nil
        }

        /// The newest wake-up, which is the one in the record; nil for none.
        var newest: Wake? { next ?? pending }

        /// Changes the wake-ups, which stay the same ones.
        mutating func change(_ body: (Wake) -> Wake) {
            pending = pending.map(body)
            next = next.map(body)
        }
    }

    let settings: PushSettings
    var targets: [WakeKey: Target] = [:]
    private var users: [ExactText: Set<UInt64>] = [:]
    var badges: [ExactText: [UInt64: UInt64]] = [:]
    var destinations: Destinations
    private var waiting = PriorityQueue<Instant, QueuePlace>()
    private var rate: RateLimit
    private var requests = UserRequests()
    var hookCircuit = Circuit()
    var jitter: SplitMix64
    private var nextTicket: UInt64 = 1
    var nextSequence: UInt64
    package var deadLetters: DeadLetterQueue<DeadLetter>
    package var log: WakeLog
    var gone: Set<WakeKey>
    var removals = Queue<WakeKey>()
    var reports = WakeReports()
    var templates: BrokerTemplates
    var refusedRemovals = PriorityQueue<Instant, WakeKey>()
    var removingCount = 0
    var progress: RecordProgress
    var isDraining = false
    private var nextSweep = Instant(milliseconds: 0)
    private var user = ""
    var brokerTime: BrokerTime
    var totals = PushTotals()
    var lines: [String] = []

    /// - Parameters:
    ///   - stored: the record of an earlier run.
    ///   - seed: a random number, which differs from run to run.
    package init(_ settings: PushSettings, stored: PushRecord, seed: UInt64, now: Moment) {
        self.settings = settings
        destinations = Destinations(concurrencyMaximum: settings.concurrency)
        rate = RateLimit(perSecond: settings.ratePerSecond)
        jitter = SplitMix64(seed: seed)
        brokerTime = BrokerTime(
            now.instant, atLeast: stored.wakes.reduce(0) { max($0, $1.time) })
        for (key, number) in stored.badges { badges[key.owner, default: [:]][key.id] = number }
        gone = stored.gone
        templates = BrokerTemplates(
            isContentAllowed: settings.hasContents, stored: stored.templates)
        log = WakeLog(
            perTargetMaximum: settings.logPerTargetMaximum, countMaximum: settings.logMaximum)
        nextSequence = stored.highestSequence + 1
        progress = RecordProgress(position: stored.position, nextSequence: nextSequence)
        deadLetters = DeadLetterQueue(
            countMaximum: settings.deadLettersMaximum,
            countOfOwnerMaximum: PushLimits.deadLettersOfUserMaximum)
        for entry in stored.log { log.add(entry) }
        for entry in stored.unreported { _ = reports.add(entry) }
        for letter in stored.deadLetters { keep(letter) }
        for key in stored.gone { removals.append(key) }
        for wake in stored.wakes {
            // The kind may have been taken out of the configuration.
            if settings.speaks(wake.target.kind) {
                place(wake, now: now)
            } else {
                progress.add(.settled(wake.key))
                addDeadLetter(wake, .notConfigured, reason: "", now: now)
            }
        }
        if progress.hasUnwritten { progress.needSync(now.instant) }
        if !stored.wakes.isEmpty || !stored.deadLetters.isEmpty {
            log(
                "recovery",
                "waiting=\(stored.wakes.count) dead_letters=\(stored.deadLetters.count)")
        }
    }

    // MARK: - Events of the broker

    /// - Parameter serverTime: the broker's clock, in Unix milliseconds.
    mutating func connected(as user: String, serverTime: UInt64, now: Instant) {
        self.user = user
        let expected = brokerTime.loggedIn(serverTime: serverTime, now: now)
        renewValidities(serverTime: serverTime, expected: expected)
    }

    /// Takes a message. Whatever is no event of the broker is acknowledged and changes nothing.
    package mutating func accept(_ message: IncomingMessage, now: Moment) {
        if let record = message.record {
            progress.receive(record, now: now.instant)
        }
        guard case .brokerEvent(let json) = message.kind else { return }
        switch WakeEvent(Array(json.utf8)) {
        case .request(let request): accept(request, record: message.record, now: now)
        case .withdrawn(let user, nil): withdraw(user, now: now)
        case .withdrawn(let user, let target?):
            remove(WakeKey(user: user, id: target), now: now)
        case nil:
            totals.malformed += 1
            log("event_malformed", "bytes=\(json.utf8.count)")
        }
    }

    private mutating func accept(_ request: WakeRequest, record: InboxRecord?, now: Moment) {
        totals.malformed += UInt64(request.unknownCount)
        let expiry = expiry(of: request, now: now)
        takeTemplates(of: request)
        for target in request.targets {
            totals.asked += 1
            let wake = Wake(
                sequence: nextSequence, user: request.user, target: target,
                identifier: EventIdentifier.of(
                    user: user, epoch: record?.epoch ?? 0, number: record?.number ?? 0,
                    receiver: target.id),
                from: request.from, group: request.group, time: request.time,
                count: request.count, expiry: expiry,
                reference: request.reference, push: request.push, text: request.text,
                isTest: request.isTest)
            nextSequence += 1
            note(wake, .asked, detail: wake.isTest ? "test" : "", now: now)
            accept(wake, now: now)
        }
    }

    /// Keeps a wake-up until it is sent, if it can be.
    mutating func accept(_ wake: Wake, now: Moment) {
        if gone.contains(wake.key) {
            note(wake, .dropped, detail: "gone", now: now)
        } else if settings.template(for: wake.target.kind) == nil {
            addDeadLetter(wake, .notConfigured, reason: "", now: now)
        } else if targets[wake.key] == nil, targets.count >= settings.waitingMaximum {
            addDeadLetter(wake, .queueFull, reason: "", now: now)
        } else {
            progress.add(.wake(wake))
            replace(wake, now: now)
        }
    }

    /// Puts a wake-up in the place of an older one of its target, if there is one.
    mutating func replace(_ wake: Wake, now: Moment) {
        guard let older = targets[wake.key]?.pending else { return place(wake, now: now) }
        totals.coalesced += 1
        if targets[wake.key]!.isInFlight {
            if let between = targets[wake.key]!.next {
                note(between, .coalesced, detail: "", now: now)
            }
            targets[wake.key]!.next = wake
        } else {
            note(older, .coalesced, detail: "", now: now)
            targets[wake.key]!.replace(by: wake)
        }
    }

    mutating func place(_ wake: Wake, now: Moment) {
        let key = wake.key
        var target = targets[key] ?? Target()
        target.replace(by: wake)
        targets[key] = target
        users[key.owner, default: []].insert(key.id)
        enqueue(key, at: nil, now: now.instant)
    }

    /// A device of the user came, or nothing waits any more. Tests are sent all the same.
    private mutating func withdraw(_ user: String, now: Moment) {
        let owner = ExactText(user)
        for id in badges[owner, default: [:]].keys { setBadge(WakeKey(user: user, id: id), 0) }
        for id in users[owner] ?? [] {
            let key = WakeKey(user: user, id: id)
            guard let target = targets[key] else { continue }
            for wake in [target.pending, target.next].compactMap({ $0 }) where !wake.isTest {
                totals.withdrawn += 1
                note(wake, .withdrawn, detail: "", now: now)
            }
            if target.next?.isTest != true { targets[key]!.next = nil }
            if target.pending?.isTest != true { targets[key]!.advance() }
            guard targets[key]!.pending == nil else { continue }
            progress.add(.settled(key))
            if !target.isInFlight { forget(key) }
        }
    }

    /// A target is removed: nothing is sent there any more, tests neither.
    private mutating func remove(_ key: WakeKey, now: Moment) {
        setBadge(key, 0)
        for letter in deadLetters.remove(of: key.owner, where: { $0.wake.key == key }) {
            progress.add(.deadLetterRemoved(sequence: letter.wake.sequence))
        }
        guard let target = targets[key] else { return }
        for wake in [target.pending, target.next].compactMap({ $0 }) {
            totals.withdrawn += 1
            note(wake, .withdrawn, detail: "", now: now)
        }
        targets[key]!.next = nil
        targets[key]!.advance()
        progress.add(.settled(key))
        if !target.isInFlight { forget(key) }
    }

    mutating func forget(_ key: WakeKey) {
        targets[key] = nil
        users[key.owner]?.remove(key.id)
        if users[key.owner]?.isEmpty == true { users[key.owner] = nil }
    }

    mutating func setBadge(_ key: WakeKey, _ number: UInt64) {
        guard badges[key.owner]?[key.id] ?? 0 != number else { return }
        badges[key.owner, default: [:]][key.id] = number == 0 ? nil : number
        if badges[key.owner]!.isEmpty { badges[key.owner] = nil }
        progress.add(.badge(key, number))
    }

    // MARK: - Attempts

    mutating func enqueue(_ key: WakeKey, at time: Instant?, now: Instant) {
        let ticket = nextTicket
        nextTicket += 1
        targets[key]!.ticket = ticket
        let place = QueuePlace(key: key, ticket: ticket)
        if let time, time > now {
            waiting.insert(place, rank: time)
        } else {
            destinations.add(place, to: destination(of: key))
        }
    }

    func destination(of key: WakeKey) -> String {
        settings.destination(of: targets[key]!.pending!.target)
    }

    private func isValid(_ place: QueuePlace) -> Bool {
        guard let target = targets[place.key] else { return false }
        return target.ticket == place.ticket && !target.isInFlight && target.pending != nil
    }

    /// The next attempt; nil if none may begin now. Call it until it returns nil.
    package mutating func nextAttempt(now: Moment) -> Attempt? {
        guard !isDraining else { return nil }
        while let rank = waiting.firstRank, rank <= now.instant {
            let place = waiting.popFirst()!
            if isValid(place) { destinations.add(place, to: destination(of: place.key)) }
        }
        while rate.mayBegin(now: now.instant) {
            guard let found = destinations.next(now: now.instant) else { return nil }
            guard isValid(found.place) else {
                destinations.cancel(found.name)
                continue
            }
            let key = found.place.key
            let wake = targets[key]!.pending!
            guard wake.expiry > brokerTime.agreed(now) else {
                destinations.cancel(found.name)
                expire(key, now: now)
                continue
            }
            if wake.target.kind.hasHostOfUser, !requests.begin(found.place) {
                destinations.cancel(found.name)
                continue
            }
            targets[key]!.isInFlight = true
            if let attempt = begin(wake, to: found.name, now: now) {
                rate.begin()
                return attempt
            }
        }
        return nil
    }

    mutating func sendAttempt(
        _ wake: Wake, to destination: String, now: Moment
    ) -> Attempt {
        totals.attempts += 1
        guard let template = template(for: wake.target.kind) else {
            preconditionFailure("a wake-up \(wake.sequence) of a kind that is not set")
        }
        let target = targets[wake.key]
        let content = WakeContents.make(
            wake, answer: target?.answer, isSenderHeard: target?.isSenderRefused != true,
            template: template, badge: badges[wake.key.owner]?[wake.target.id] ?? 0)
        return Attempt(
            wake: wake, phase: .send(content), destination: destination, begun: now.instant)
    }

    /// An attempt has ended: the user's next one may begin.
    mutating func endRequest(of wake: Wake) {
        guard wake.target.kind.hasHostOfUser else { return }
        for place in requests.end(of: wake.key.owner) where isValid(place) {
            destinations.add(place, to: destination(of: place.key))
        }
    }

    /// An attempt ends without a request to its destination.
    mutating func cancel(_ wake: Wake, to destination: String) {
        destinations.cancel(destination)
        endRequest(of: wake)
    }

    // MARK: - Time

    package mutating func timePassed(now: Moment) {
        guard now.instant >= nextSweep else { return }
        nextSweep = now.instant.advanced(byMilliseconds: RelayLimits.sweepMilliseconds)
        let time = brokerTime.agreed(now)
        let old = targets.filter { _, target in
            !target.isInFlight && target.pending.map { $0.expiry <= time } ?? false
        }
        for key in old.keys { expire(key, now: now) }
    }

    /// Begins no more attempts.
    mutating func drain() { isDraining = true }

    var inFlightCount: Int { destinations.inFlightCount }
    /// Whether a relay that stops waits for the broker to take what became of its wake-ups.
    package var hasReports: Bool { reports.isWorthWaiting }
    package var waitingCount: Int { targets.count }

    /// When something is due without a message or a result.
    func nextDeadline(now: Instant) -> Instant {
        var deadline = min(progress.deadline, reports.deadline)
        guard !isDraining else { return deadline }
        if !targets.isEmpty { deadline = min(deadline, nextSweep) }
        deadline = min(deadline, waiting.firstRank ?? .never)
        deadline = min(deadline, refusedRemovals.firstRank ?? .never)
        return min(deadline, max(destinations.nextDeadline(now: now), rate.nextBegin(now: now)))
    }
}
