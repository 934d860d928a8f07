// Wake-ups: for each user of whom no device is connected, and for whom a message waits, the relay
// is asked at once and then once for each interval; it is told when that is over. Removed targets
// and those of devices that have logged out are not woken.

import BrokerTerms
import Primitives
import WireFormat

/// A target that a user has set, as its client knows it.
struct TargetFact {
    let user: Int
    /// Nil for any device of the user.
    let device: Int?
    /// A client has asked to remove it, and the answer.
    var isEnding = false
    var removedAt = Instant.never
    /// Its device may have logged out since it was last connected.
    var maySilent = false
    /// It has logged out, which is stored once a commit with this number has ended.
    var silentSince: (at: Instant, commit: Int)?
    /// The device has ever logged out: a crash may bring that back.
    var wasSilent = false
}

/// A message to a user of whom no device was connected: the relay must be told.
struct WakeExpectation {
    let user: Int
    let message: Int
    /// Targets that a request must name.
    let targets: [UInt64]
    /// The user was there until then, at the latest.
    let absentSince: Instant
    /// The message has its result.
    var acceptedAt: Instant?
    var fullTimes = 0
    /// A device of the user has connected.
    var endedAt = Instant.never
    /// The absence lasted for so long that an interval has ended behind the message.
    var needsNewer = false
}

/// What the relay was told, in the order of its inbox.
struct WakeEvent {
    let user: Int
    let targets: [UInt64]
    /// A request; otherwise the end of one.
    let isRequest: Bool
    /// For all targets of the user.
    let isOfAll: Bool
    /// When the newest message came, or when the request was made.
    let time: Instant
    let takenAt: Instant
    let deaths: Int
}

/// A template that was set, by its version.
struct TemplateFact {
    let version: Int
    let kind: UInt8
    /// It is stored once a commit with this number has ended.
    var commit: Int
    var storedAt: Instant?
}

struct WakeFacts {
    var targets: [UInt64: TargetFact] = [:]
    var expectations: [WakeExpectation] = []
    var events: [WakeEvent] = []
    var templates: [TemplateFact] = []
    /// When each user was last seen to be connected, and when a device last connected.
    var presentAt: [Int: Instant] = [:]
    var openedAt: [Int: Instant] = [:]
    /// Messages that wake nobody.
    var withoutWake: Set<Int> = []
    /// Batches that the store has taken, and committed.
    var takenCount = 0
    var storedCount = 0
}

extension Oracle {
    /// How long the broker may take to notice an absence and to make a request.
    private static let wakeSlackSeconds: UInt64 = 30
    /// The time that devices have to come back after a restart.
    private static let wakeGraceSeconds: UInt64 = 60

    // MARK: The store

    func batchTaken() { wakeFacts.takenCount += 1 }

    /// The batch in flight is committed.
    func batchStored() {
        wakeFacts.storedCount = wakeFacts.takenCount
        for index in wakeFacts.templates.indices
        where wakeFacts.templates[index].storedAt == nil
            && wakeFacts.templates[index].commit <= wakeFacts.storedCount
        {
            wakeFacts.templates[index].storedAt = now
        }
    }

    /// What was not stored when the broker died is uncertain.
    func wakesAreUncertain() {
        for (target, fact) in wakeFacts.targets {
            if let silent = fact.silentSince, silent.commit > wakeFacts.storedCount {
                wakeFacts.targets[target]?.silentSince = nil
            }
            if fact.wasSilent { wakeFacts.targets[target]?.maySilent = true }
        }
        wakeFacts.takenCount = wakeFacts.storedCount
        // Nobody knows any more when these are stored.
        for index in wakeFacts.templates.indices where wakeFacts.templates[index].storedAt == nil {
            wakeFacts.templates[index].commit = .max
        }
    }

    // MARK: Targets

    /// - Parameter isLoggingOut: whether the client has asked to end its session meanwhile.
    func targetSet(
        _ target: UInt64, kind: UInt8, client: Int, isOwn: Bool, isLoggingOut: Bool
    ) {
        let habits = profile.clients[client]
        history.note(.client(client), "has target \(target), kind \(kind)")
        guard wakeFacts.targets[target] == nil else { return }
        var fact = TargetFact(user: habits.user, device: isOwn ? habits.device : nil)
        fact.maySilent = isLoggingOut
        fact.wasSilent = isLoggingOut
        wakeFacts.targets[target] = fact
    }

    func removingTarget(_ target: UInt64) { wakeFacts.targets[target]?.isEnding = true }

    func targetRemoved(_ target: UInt64, _ reason: ReasonCode) {
        guard !reason.isFailure else {
            // The user of the target may not be known to the relay's right.
            return fail(.wakesAreAsked, "a target cannot be removed: \(reason.name)")
        }
        history.note(.broker, "target \(target) is removed")
        wakeFacts.targets[target]?.removedAt = now
    }

    /// The targets of a user that no client has asked to remove.
    func lastingTargets(of user: Int) -> [UInt64] {
        wakeFacts.targets.filter { $0.value.user == user && !$0.value.isEnding }.keys.sorted()
    }

    /// A device asks to end its session.
    func loggingOut(_ client: Int) {
        forEachTarget(of: profile.clients[client].device) {
            $0.maySilent = true
            $0.wasSilent = true
        }
    }

    /// The broker has confirmed that.
    func loggedOut(_ client: Int) {
        let device = profile.clients[client].device
        let commit = wakeFacts.takenCount + 1
        let now = now
        forEachTarget(of: device) {
            // Another device may have a session, and the targets of any device wake it.
            if $0.device == device { $0.silentSince = (now, commit) }
        }
    }

    /// The broker has accepted the connection of a device, which may log in.
    func wakesOpen(_ client: Int) {
        let habits = profile.clients[client]
        wakeFacts.openedAt[habits.user] = now
        forEachTarget(of: habits.device) { $0.silentSince = nil }
        for index in wakeFacts.expectations.indices
        where wakeFacts.expectations[index].user == habits.user
            && wakeFacts.expectations[index].endedAt == .never
        {
            end(index)
        }
    }

    /// A device is logged in, and nothing ended its session before.
    func wakesBack(_ client: Int) {
        forEachTarget(of: profile.clients[client].device) { $0.maySilent = false }
    }

    private func forEachTarget(of device: Int, _ body: (inout TargetFact) -> Void) {
        let user = devices[device].user
        for (target, known) in wakeFacts.targets
        where known.user == user && (known.device == nil || known.device == device) {
            var fact = known
            body(&fact)
            wakeFacts.targets[target] = fact
        }
    }

    // MARK: Expectations

    /// A message is about to be sent to a user of whom no device is connected.
    func expectWake(of user: Int, for message: Int) {
        let targets = lastingTargets(of: user).filter { !wakeFacts.targets[$0]!.maySilent }
        guard !targets.isEmpty else { return }
        let begin = Instant(milliseconds: 0)
        wakeFacts.expectations.append(
            WakeExpectation(
                user: user, message: message, targets: targets,
                absentSince: max(
                    wakeFacts.presentAt[user] ?? begin, wakeFacts.openedAt[user] ?? begin)))
    }

    /// A message has its result.
    func wakesResolve(_ message: Int) {
        guard
            let index = wakeFacts.expectations.lastIndex(where: {
                $0.message == message && $0.acceptedAt == nil
            })
        else { return }
        let (send, fact) = (sends[message], wakeFacts.expectations[index])
        guard let outcome = send.outcome, outcome.reason == .sent, outcome.refusedCount == 0,
            !mayHaveLackedRoom(send), fact.endedAt == .never
        else {
            wakeFacts.expectations.remove(at: index)
            return
        }
        wakeFacts.expectations[index].acceptedAt = now
        wakeFacts.expectations[index].fullTimes = fullTimes
    }

    private func end(_ index: Int) {
        let fact = wakeFacts.expectations[index]
        wakeFacts.expectations[index].endedAt = now
        guard let accepted = fact.acceptedAt, let interval = profile.wakePolicy?.intervalSeconds,
            fact.fullTimes == fullTimes, !isStoreFull
        else { return }
        let seconds = 2 * interval + Oracle.wakeGraceSeconds + Oracle.wakeSlackSeconds
        let begin = max(accepted, brokerUpSince).advanced(bySeconds: seconds)
        // A recalled message leaves nothing that waits.
        wakeFacts.expectations[index].needsNewer =
            now >= begin && !mayBeRevised(fact.message) && profile.revisionInterval == nil
            && fact.targets.allSatisfy { target in
                let known = wakeFacts.targets[target]
                return known?.isEnding == false && known?.maySilent == false
            }
    }

    // MARK: The relay

    private func userIndex(_ name: String) -> Int? { Int(name.dropFirst("user".count)) }

    func wakeRequested(_ event: EventText, user name: String, targets: [UInt64]) {
        guard let user = userIndex(name), let unix = event.number("time"),
            UInt64(unix) >= SimulationContext.unixStart
        else { return fail(.wakesAreAsked, "a request for \(name) that cannot be read") }
        let time = Instant(milliseconds: UInt64(unix) - SimulationContext.unixStart)
        let taken = WakeEvent(
            user: user, targets: targets, isRequest: true, isOfAll: false, time: time,
            takenAt: now, deaths: deaths)
        for target in targets { checkTarget(target, user: user, time: time) }
        checkInterval(taken)
        checkTemplates(event, time: time)
        if let message = event.message { checkCause(message, user: user) }
        wakeFacts.events.append(taken)
    }

    private func checkTarget(_ target: UInt64, user: Int, time: Instant) {
        // A client that lost its power does not know what it has set.
        guard let fact = wakeFacts.targets[target] else { return }
        if fact.user != user {
            fail(.sleepersAreSpared, "target \(target) of user \(fact.user), not of user \(user)")
        }
        if time > fact.removedAt {
            fail(.sleepersAreSpared, "target \(target) was removed before the request was made")
        }
        if let silent = fact.silentSince, time > silent.at {
            fail(.sleepersAreSpared, "the device of target \(target) has logged out before")
        }
    }

    /// Two requests without an end between them are an interval apart.
    private func checkInterval(_ event: WakeEvent) {
        guard let interval = profile.wakePolicy?.intervalSeconds, fullTimes == 0,
            let last = wakeFacts.events.last(where: { $0.user == event.user }), last.isRequest,
            last.deaths == deaths, deaths == 0 || last.time > brokerUpSince
        else { return }
        // The time between is at most this one.
        guard now.milliseconds(since: last.time) < interval * 1_000 else { return }
        fail(
            .wakesAreCoalesced,
            "user \(event.user) is asked for again after \(now.milliseconds(since: last.time)) ms")
    }

    private func checkTemplates(_ event: EventText, time: Instant) {
        for (number, kind) in [(1, "webhook"), (2, "apns"), (3, "fcm")] as [(UInt8, String)]
        where event.has(kind: kind) {
            let version = event.template(kind)
            let least = wakeFacts.templates.last {
                $0.kind == number && ($0.storedAt ?? .never) <= time
            }
            if let least, version < least.version {
                fail(
                    .templatesAreKept,
                    "a request with template \(version) for \(kind), \(least.version) was stored")
            }
        }
    }

    /// Only numbered messages to the user wake it.
    private func checkCause(_ message: Int, user: Int) {
        guard message < sends.count else {
            return fail(.sleepersAreSpared, "woken for a message that nobody sent")
        }
        let send = sends[message]
        if send.grade == .transient || send.isWill || wakeFacts.withoutWake.contains(message) {
            fail(
                .sleepersAreSpared, "user \(user) is woken for a message that wakes nobody",
                message: message)
        }
        if case .users(let users, _) = send.receivers, !users.contains(user) {
            fail(.sleepersAreSpared, "user \(user) is woken for it", message: message)
        }
    }

    func wakeWithdrawn(user name: String, target: UInt64?) {
        guard let user = userIndex(name) else { return }
        wakeFacts.events.append(
            WakeEvent(
                user: user, targets: target.map { [$0] } ?? [], isRequest: false,
                isOfAll: target == nil, time: now, takenAt: now, deaths: deaths))
    }

    // MARK: At the end

    /// Checks that each expected request has reached the relay, and each end of one.
    func checkWakes() {
        guard let interval = profile.wakePolicy?.intervalSeconds else { return }
        for fact in wakeFacts.expectations where fact.acceptedAt != nil {
            for target in fact.targets where !isTold(target, fact) {
                fail(
                    .wakesAreAsked,
                    "user \(fact.user) was not there, and target \(target) was not woken"
                        + (fact.needsNewer ? " again after \(interval) s" : ""),
                    message: fact.message)
            }
        }
        // A full store refuses what the relay is told.
        guard fullTimes == 0 else { return }
        for (index, event) in wakeFacts.events.enumerated() where event.isRequest {
            let later = wakeFacts.events[(index + 1)...]
            for target in event.targets
            where !later.contains(where: {
                $0.user == event.user && !$0.isRequest
                    && ($0.isOfAll || $0.targets.contains(target))
            }) {
                fail(
                    .wakesAreWithdrawn,
                    "user \(event.user) is there, and target \(target) is still to be woken")
            }
        }
    }

    private func isTold(_ target: UInt64, _ fact: WakeExpectation) -> Bool {
        let least = fact.needsNewer ? sends[fact.message].issuedAt : Instant(milliseconds: 0)
        let known = wakeFacts.targets[target]
        // Removed before the request was made; or the broker died before it had stored that the
        // device was back.
        if known?.isEnding == true { return true }
        if known?.wasSilent == true, deaths > sends[fact.message].deathsBefore { return true }
        return wakeFacts.events.contains {
            $0.isRequest && $0.user == fact.user && $0.targets.contains(target)
                && $0.takenAt >= fact.absentSince && $0.time <= fact.endedAt && $0.time >= least
        }
    }
}
