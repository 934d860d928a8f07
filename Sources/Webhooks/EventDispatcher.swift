// The relay as a value: messages, results of requests and the time go in; requests, entries of the
// record and acknowledgements come out. It opens no socket and writes no file. Two rules give its
// guarantee:
//
//   * A message is acknowledged to the broker when every hook that wants it has it, or when each
//     delivery that is left is in the record, and the record is synced.
//   * What is in the record leaves it by a successful answer, or becomes a dead letter, which
//     stays there.
//
// An event that is delivered at once is never written. Slow ones are written together.

import ClientProgram
import MartletClient
import Primitives
import Relay

package struct EventDispatcher: RecordSource {
    /// A request to make.
    struct Attempt {
        let hook: Int
        fileprivate let request: HookQueue.Request
        /// The id of the request.
        let identifier: String
        let body: [UInt8]
    }

    /// What is to be written.
    struct RecordWrite {
        var entries: [RecordEntry] = []
        /// Whether acknowledgements depend on it.
        var isSynced = false
        /// It has all deliveries that were not in the record.
        var isComplete = false
    }

    private struct FreshDelivery {
        var delivery: Delivery
        /// Its message; nil for a transient one.
        var record: InboxRecord?
        /// It is among the dead letters already.
        var death: RecordEntry?
    }

    let settings: WebhookSettings
    private(set) var hooks: [HookQueue]
    private(set) var deadLetters: DeadLetterQueue<DeadLetter>
    private var window: InboxWindow
    /// Unacknowledged messages that the broker sends: what was asked for, then what it granted.
    private var windowMaximum: Int
    private var writtenPosition: InboxRecord?
    /// Deliveries that are not in the record, by their numbers.
    private var fresh: [UInt64: FreshDelivery] = [:]
    /// Changes of what is in the record.
    private var changes: [RecordEntry] = []
    /// Subscriptions that the session may have, and those that hooks need.
    private var filters: [String]
    private var wantedFilters: [String]
    private var needsRecord = false
    private var isDraining = false
    /// After a write to a full disk.
    private var recordPause = Instant(milliseconds: 0)
    /// That write was the last one.
    private var isDiskFull = false
    private var nextSequence: UInt64
    private let run: UInt64
    private var transientCount: UInt64 = 0
    private var nextSweep = Instant(milliseconds: 0)
    /// When a refusal is logged again, of each hook.
    private var nextRefusalLines: [Instant]
    /// The relay's own user.
    private(set) var user = ""
    private var brokerTime: BrokerTime
    var totals = WebhookTotals()
    private var lines: [String] = []

    /// - Parameters:
    ///   - stored: the record of an earlier run.
    ///   - seed: a random number, which differs from run to run.
    init(_ settings: WebhookSettings, stored: RecordContent, seed: UInt64, now: Moment) {
        self.settings = settings
        let schedule = settings.relay.schedule
        hooks = settings.hooks.enumerated().map { index, hook in
            HookQueue(hook, schedule: schedule, seed: seed &+ UInt64(index))
        }
        nextRefusalLines = settings.hooks.map { _ in Instant(milliseconds: 0) }
        deadLetters = DeadLetterQueue(
            countMaximum: settings.deadLettersMaximum,
            byteCountMaximum: WebhookLimits.deadLetterByteCountMaximum)
        window = InboxWindow(position: stored.position)
        windowMaximum = settings.relay.inFlightMaximum
        writtenPosition = stored.position
        filters = stored.filters
        wantedFilters = stored.filters
        nextSequence = stored.highestSequence + 1
        run = seed
        brokerTime = BrokerTime(now.instant, atLeast: 0)
        for letter in stored.deadLetters { keep(letter) }
        for delivery in stored.deliveries {
            if let index = hookIndex(delivery.hook) {
                hooks[index].add(delivery)
            } else {
                addDeadLetter(delivery, cause: .hookRemoved, status: 0, time: now.unixMilliseconds)
            }
        }
        if !stored.deliveries.isEmpty || !stored.deadLetters.isEmpty {
            log(
                "recovery",
                "waiting=\(stored.deliveries.count) dead_letters=\(stored.deadLetters.count)")
        }
    }

    private func hookIndex(_ name: String) -> Int? {
        settings.hooks.firstIndex { $0.name == name }
    }

    // MARK: - Events

    /// Logged in.
    mutating func connected(_ terms: ConnectionTerms, now: Instant) {
        user = terms.user
        brokerTime.loggedIn(serverTime: terms.serverTime, now: now)
        windowMaximum = min(settings.relay.inFlightMaximum, Int(terms.inboxWindow))
        // A relay that never wrote a position finds each inbox new; the broker may have had it.
        let isLost =
            !terms.isSessionPresent || (window.position != nil && terms.isNewInbox)
        log(
            "connected",
            "server=\(terms.server) user=\(quoted(user.utf8)) "
                + "session=\(isLost ? "new" : "present")")
        let largest = Int(max(terms.payloadMaximum, terms.messageMaximum))
        let packet = settings.relay.packetByteCountMaximum
        if largest + RelayLimits.packetOverheadByteCount > packet {
            log("packets_too_large", "broker_maximum=\(largest) packet_maximum=\(packet)")
        }
    }

    /// Takes a message.
    mutating func accept(_ message: IncomingMessage, now: Moment) {
        let event = WebhookEvent(message)
        let chosen = settings.hooks.indices.filter { settings.hooks[$0].selects(event) }
        guard !chosen.isEmpty else {
            totals.unmatched += 1
            if let record = message.record {
                window.add(record, pendingCount: 0, now: now.instant)
            }
            return
        }
        totals.events += 1
        let identifier = makeIdentifier(message)
        let body = EventBody.encode(event, identifier: identifier, user: user)
        if let record = message.record {
            window.add(
                record, byteCount: body.count, pendingCount: chosen.count, now: now.instant)
        }
        for index in chosen {
            let hook = settings.hooks[index]
            let delivery = Delivery(
                sequence: nextSequence, hook: hook.name, identifier: identifier, key: event.key,
                expiry: brokerTime.end(
                    afterMilliseconds: UInt64(hook.validitySeconds) * 1_000, now: now),
                body: body)
            nextSequence += 1
            fresh[delivery.sequence] = FreshDelivery(delivery: delivery, record: message.record)
            if hooks[index].isFull(for: delivery) {
                addDeadLetter(delivery, cause: .queueFull, status: 0, time: now.unixMilliseconds)
            } else {
                hooks[index].add(delivery)
            }
        }
    }

    private mutating func makeIdentifier(_ message: IncomingMessage) -> String {
        if let record = message.record {
            return EventIdentifier.of(user: user, epoch: record.epoch, number: record.number)
        }
        transientCount += 1
        return EventIdentifier.ofTransient(run: run, count: transientCount)
    }

    /// Makes an event a dead letter, which is in the record with the next write.
    private mutating func addDeadLetter(
        _ delivery: Delivery, cause: DeathCause, status: UInt16, time: UInt64
    ) {
        totals.died += 1
        let death = RecordEntry.dead(
            sequence: delivery.sequence, cause: cause, status: status, time: time)
        if fresh[delivery.sequence] != nil {
            fresh[delivery.sequence]!.death = death
        } else {
            changes.append(death)
        }
        needsRecord = true
        log(
            "dead_letter",
            "hook=\(delivery.hook) id=\(delivery.identifier) number=\(delivery.sequence) "
                + "cause=\(cause.name)" + (status == 0 ? "" : " status=\(status)"))
        keep(DeadLetter(delivery: delivery, cause: cause, status: status, time: time))
    }

    private mutating func keep(_ letter: DeadLetter) {
        for removed in deadLetters.add(letter) {
            totals.discarded += 1
            log(
                "dead_letter_discarded",
                "hook=\(removed.delivery.hook) id=\(removed.delivery.identifier)")
            end(removed.delivery)
        }
    }

    /// A delivery needs nothing more, in the window or in the record.
    private mutating func end(_ delivery: Delivery) {
        if let former = fresh.removeValue(forKey: delivery.sequence) {
            if let record = former.record { window.settle(record) }
        } else {
            changes.append(.done(sequence: delivery.sequence))
        }
    }

    // MARK: - Requests

    /// The next request; nil if none may begin now. Call it until it returns nil.
    mutating func nextAttempt(now: Moment) -> Attempt? {
        guard !isDraining else { return nil }
        for index in hooks.indices {
            var expired: [Delivery] = []
            let request = hooks[index].next(
                now: now.instant, time: brokerTime.agreed(now), expired: &expired)
            for delivery in expired {
                addDeadLetter(delivery, cause: .expired, status: 0, time: now.unixMilliseconds)
            }
            guard let request else { continue }
            totals.requests += 1
            let deliveries = request.deliveries
            return Attempt(
                hook: index, request: request,
                identifier: EventIdentifier.ofBatch(deliveries.map(\.identifier)),
                body: deliveries.count == 1
                    ? deliveries[0].body
                    : EventBody.encode(
                        batch: deliveries.map(\.body), unixMilliseconds: now.unixMilliseconds))
        }
        return nil
    }

    /// A request has its result.
    mutating func finish(_ attempt: Attempt, with result: AttemptResult, now: Moment) {
        let hook = attempt.hook
        let name = settings.hooks[hook].name
        let (outcome, change) = hooks[hook].finish(
            attempt.request, with: result, now: now.instant)
        var status: UInt16 = 0
        if case .answered(let answer, _) = result { status = UInt16(clamping: answer) }
        switch outcome {
        case .delivered(let deliveries):
            totals.delivered += UInt64(deliveries.count)
            for delivery in deliveries { end(delivery) }
        case .dead(let deliveries, let cause):
            for delivery in deliveries {
                addDeadLetter(delivery, cause: cause, status: status, time: now.unixMilliseconds)
            }
        case .retried: totals.retried += 1
        case .refused(let count):
            totals.retried += 1
            if count == 1 { logRefusal(attempt, status: status, now: now.instant) }
        }
        switch change {
        case .opened(let wait):
            log("hook_failing", "hook=\(name) \(Self.reason(result)) retry_ms=\(wait)")
        case .closed: log("hook_recovered", "hook=\(name)")
        case .disabled:
            log("hook_disabled", "hook=\(name) status=410 waiting=\(hooks[hook].count)")
        case nil: break
        }
    }

    /// Logs the first refusal of an event, unless it was one of the same hook a moment ago.
    private mutating func logRefusal(_ attempt: Attempt, status: UInt16, now: Instant) {
        guard now >= nextRefusalLines[attempt.hook] else { return }
        nextRefusalLines[attempt.hook] = now.advanced(
            byMilliseconds: WebhookLimits.refusalLineMilliseconds)
        let hook = settings.hooks[attempt.hook]
        log(
            "refused",
            "hook=\(hook.name) id=\(attempt.identifier) status=\(status) attempt=1 "
                + "attempts_maximum=\(hook.refusalsMaximum)")
    }

    private static func reason(_ result: AttemptResult) -> String {
        switch result {
        case .answered(let status, _): "status=\(status)"
        case .failed(let text): "reason=\(quoted(text.utf8))"
        }
    }

    // MARK: - Dead letters

    /// The number of no dead letter: it asks for all hooks that are disabled.
    static let everyHook: UInt64 = 0

    /// Sends dead letters again. A hook that was disabled is tried again for that.
    mutating func resend(_ sequences: [UInt64], now: Moment) {
        if sequences.contains(Self.everyHook) {
            for index in hooks.indices { enable(index) }
        }
        // One that is not in the record yet is later.
        let wanted = Set(sequences).subtracting(fresh.keys)
        let names = Set(settings.hooks.map(\.name))
        let letters = deadLetters.remove {
            wanted.contains($0.delivery.sequence) && names.contains($0.delivery.hook)
        }
        for letter in letters {
            var delivery = letter.delivery
            let sequence = delivery.sequence
            guard let index = hookIndex(delivery.hook) else {
                preconditionFailure("dead letter \(sequence) of no hook: \(delivery.hook)")
            }
            totals.resent += 1
            delivery.sequence = nextSequence
            nextSequence += 1
            let validity = UInt64(settings.hooks[index].validitySeconds) * 1_000
            delivery.expiry = brokerTime.end(afterMilliseconds: validity, now: now)
            changes.append(
                .resent(
                    sequence: sequence, newSequence: delivery.sequence, expiry: delivery.expiry))
            enable(index)
            hooks[index].add(delivery)
            log("dead_letter_resent", "hook=\(delivery.hook) id=\(delivery.identifier)")
        }
        needsRecord = true
    }

    private mutating func enable(_ index: Int) {
        guard hooks[index].isDisabled else { return }
        hooks[index].enable()
        log("hook_enabled", "hook=\(hooks[index].settings.name)")
    }

    /// Whether a request to send again may find something.
    var mayResend: Bool {
        !deadLetters.isEmpty || hooks.contains { $0.isDisabled || $0.count > 0 }
    }

    // MARK: - The record

    /// The subscriptions that the session may have from now on.
    ///
    /// - Returns: those of an earlier run that no hook needs any more.
    mutating func replaceFilters(_ wanted: [String]) -> [String] {
        let obsolete = filters.filter { !wanted.contains($0) }
        wantedFilters = wanted
        if filters != wanted + obsolete {
            filters = wanted + obsolete
            changes.append(.filters(filters))
            needsRecord = true
        }
        return obsolete
    }

    /// The subscriptions of an earlier run are gone.
    mutating func forgetObsoleteFilters() {
        filters = wantedFilters
        changes.append(.filters(filters))
    }

    /// Whether something is not in the record yet.
    var hasUnwritten: Bool { !fresh.isEmpty || !changes.isEmpty }

    /// What to write now; nil for nothing. ``written(_:)`` or ``notWritten(_:now:)`` follows.
    mutating func nextWrite(now: Instant) -> RecordWrite? {
        guard now >= recordPause else { return nil }
        var write = RecordWrite()
        let isSlow =
            window.oldestArrival.map {
                now.milliseconds(since: $0) >= WebhookLimits.recordMilliseconds
            } ?? false
        let isLong =
            2 * window.unsettledCount >= windowMaximum
            || window.unsettledByteCount >= WebhookLimits.recordByteCount
        if needsRecord || isSlow || isLong {
            for sequence in fresh.keys.sorted() {
                write.entries.append(.event(fresh[sequence]!.delivery))
                if let death = fresh[sequence]!.death { write.entries.append(death) }
            }
            if let position = window.position, position != writtenPosition {
                write.entries.append(.position(position))
            }
            write.isComplete = true
            write.isSynced = true
        }
        write.entries += changes
        guard write.entries.isEmpty else { return write }
        needsRecord = false
        return nil
    }

    /// A write is done.
    mutating func written(_ write: RecordWrite) {
        isDiskFull = false
        changes = []
        if write.isSynced { totals.recordWrites += 1 }
        guard write.isComplete else { return }
        writtenPosition = window.position
        fresh = [:]
        window.recorded()
        needsRecord = false
    }

    /// The disk is full: messages stay with the broker, and are delivered as far as they fit.
    mutating func notWritten(_ reason: String, now: Instant) {
        if !isDiskFull { log("record_full", "reason=\(quoted(reason.utf8))") }
        isDiskFull = true
        recordPause = now.advanced(byMilliseconds: RelayLimits.fullDiskMilliseconds)
    }

    /// Bytes of the record that are needed, about.
    package var liveByteCount: Int { hooks.reduce(deadLetters.byteCount) { $0 + $1.byteCount } }

    /// The shortest record of the present state, with all that is not written yet.
    package var snapshot: [RecordEntry] {
        var entries: [RecordEntry] = window.position.map { [.position($0)] } ?? []
        entries.append(.filters(filters))
        for letter in deadLetters.all {
            entries.append(.event(letter.delivery))
            entries.append(
                .dead(
                    sequence: letter.delivery.sequence, cause: letter.cause, status: letter.status,
                    time: letter.time))
        }
        // A key's turn does not follow the numbers, which are the order of the record.
        let deliveries = hooks.flatMap(\.all).sorted { $0.sequence < $1.sequence }
        return entries + deliveries.map { .event($0) }
    }

    /// What the record needs if nothing in it is alive: all events are with the broker yet. Nil if
    /// it has events.
    package var emptyRecord: [RecordEntry]? {
        let count = hooks.reduce(deadLetters.count) { $0 + $1.count }
        guard count == fresh.count else { return nil }
        return (writtenPosition.map { [.position($0)] } ?? []) + [.filters(filters)]
    }

    /// The record has ``snapshot``.
    package mutating func rewritten() { written(RecordWrite(isSynced: true, isComplete: true)) }

    /// The record has ``emptyRecord`` only.
    package mutating func emptied() {
        changes = [.filters(filters)]
        needsRecord = true
    }

    /// Makes the next write complete.
    mutating func requestRecord() { needsRecord = true }

    /// What the broker may forget; nil for nothing new.
    mutating func takeAcknowledgement() -> InboxRecord? { window.takeAcknowledgement() }

    // MARK: - Time

    mutating func timePassed(now: Moment) {
        guard now.instant >= nextSweep else { return }
        nextSweep = now.instant.advanced(byMilliseconds: RelayLimits.sweepMilliseconds)
        for index in hooks.indices {
            for delivery in hooks[index].takeExpired(time: brokerTime.agreed(now)) {
                addDeadLetter(delivery, cause: .expired, status: 0, time: now.unixMilliseconds)
            }
        }
    }

    /// Begins no more requests.
    mutating func drain() { isDraining = true }

    var inFlightCount: Int { hooks.reduce(0) { $0 + $1.inFlightCount } }

    /// When something is due without a message or a result.
    func nextDeadline(now: Instant) -> Instant {
        var deadline = Instant.never
        if let arrival = window.oldestArrival {
            deadline = arrival.advanced(byMilliseconds: WebhookLimits.recordMilliseconds)
        }
        if needsRecord || !changes.isEmpty { deadline = now }
        if deadline < .never { deadline = max(deadline, recordPause) }
        guard !isDraining else { return deadline }
        for hook in hooks {
            if hook.count > 0 { deadline = min(deadline, nextSweep) }
            deadline = min(deadline, hook.nextDeadline(now: now))
        }
        return deadline
    }

    // MARK: - The log

    mutating func log(_ event: String, _ fields: String) {
        lines.append("event=\(event) \(fields)")
    }

    mutating func logTotals() {
        totals.waiting = UInt64(hooks.reduce(0) { $0 + $1.count })
        totals.deadLetters = UInt64(deadLetters.count)
        totals.openCircuits = UInt64(hooks.count { $0.circuit.openUntil != nil })
        totals.disabled = UInt64(hooks.count { $0.isDisabled })
        log("totals", totals.line)
    }

    mutating func takeLines() -> [String] {
        defer { lines = [] }
        return lines
    }
}
