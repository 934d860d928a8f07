// What an attempt's result means for its wake-up, its target and its destination.

import ClientProgram
import Primitives
import Relay

extension WakeDispatcher {
    /// An attempt has its result.
    ///
    /// - Parameters:
    ///   - isLocal: no request was made, so nothing is known about the destination.
    ///   - isOfContent: whether a local refusal is one of the content.
    package mutating func finish(
        _ attempt: Attempt, with outcome: SendOutcome, isLocal: Bool = false,
        isOfContent: Bool = false, now: Moment
    ) {
        let wake = attempt.wake
        let key = wake.key
        if isLocal {
            cancel(wake, to: attempt.destination)
        } else {
            judge(attempt, by: outcome, now: now)
            endRequest(of: wake)
        }
        note(wake, outcome, now: now)
        if case .gone = outcome { return becomeGone(wake, now: now) }
        if case .delivered = outcome, case .send(let content) = attempt.phase,
            let badge = content.badge
        {
            setBadge(key, badge)
        }
        guard targets[key]?.pending?.sequence == wake.sequence else {
            return resume(key, now: now)
        }
        targets[key]!.isInFlight = false
        switch outcome {
        case .delivered:
            totals.delivered += 1
            settle(wake, now: now)
        case .sentOnce: sentOnce(wake, now: now)
        case .refused(let reason, let isFinal):
            targets[key]!.refusalCount += 1
            if !isFinal, targets[key]!.refusalCount < PushLimits.refusalsMaximum {
                retry(wake, advised: 0, now: now)
            } else if case .send(let content) = attempt.phase, content.isOfSender,
                !isLocal || isOfContent
            {
                // No sender suppresses the wake-ups of others: once more, with the template.
                targets[key]!.isSenderRefused = true
                retry(wake, advised: 0, now: now)
            } else {
                addDeadLetter(wake, .refused, reason: reason, now: now)
                settle(wake, now: now)
            }
        case .failed(_, let seconds, let isDestination):
            retry(
                wake,
                advised: isDestination
                    ? 0 : min(seconds, RelayLimits.retryAfterSecondsMaximum) * 1_000, now: now)
        case .hung: retry(wake, advised: 0, now: now)
        case .gone: break
        }
    }

    /// What an outcome means for the destination as a whole.
    private mutating func judge(_ attempt: Attempt, by outcome: SendOutcome, now: Moment) {
        let name = attempt.destination
        var isFault = false
        var advised: UInt64 = 0
        if case .failed(_, let seconds, let isDestination) = outcome, isDestination {
            isFault = true
            advised = min(seconds, RelayLimits.retryAfterSecondsMaximum) * 1_000
        }
        let random = jitter.next()
        let schedule = settings.relay.schedule
        let change = destinations.finish(
            name, isFault: isFault, isHang: outcome.isHang, advised: advised, begun: attempt.begun,
            now: now.instant
        ) { openings in schedule.milliseconds(afterFailures: openings, random: random) }
        switch change {
        case .opened(let wait):
            log(
                "destination_failing",
                "destination=\(quoted(name.utf8)) reason=\(quoted(outcome.reason.utf8)) "
                    + "retry_ms=\(wait)")
        case .closed: log("destination_recovered", "destination=\(quoted(name.utf8))")
        case nil: break
        }
    }

    /// One datagram is sent, and nobody answers: it is repeated until the device comes.
    private mutating func sentOnce(_ wake: Wake, now: Moment) {
        let key = wake.key
        targets[key]!.datagramCount += 1
        guard targets[key]!.datagramCount < settings.udp?.datagramCount ?? 1,
            targets[key]!.next == nil
        else {
            totals.delivered += 1
            return settle(wake, now: now)
        }
        let wait = settings.udp?.waitMilliseconds ?? 1_000
        enqueue(key, at: now.instant.advanced(byMilliseconds: wait), now: now.instant)
    }

    private mutating func retry(_ wake: Wake, advised: UInt64, now: Moment) {
        let key = wake.key
        totals.retried += 1
        if targets[key]!.next != nil {
            note(wake, .coalesced, detail: "", now: now)
            targets[key]!.advance()
        }
        // The wait is that of the wake-up that is tried next: a newer one begins with the first.
        targets[key]!.failureCount += 1
        // The circuit is the wait of a destination that is down; targets need none beside it.
        let isOpen = destinations.isOpen(destination(of: key))
        let wait =
            isOpen
            ? 0
            : settings.relay.schedule.milliseconds(
                afterFailures: targets[key]!.failureCount, random: jitter.next())
        enqueue(
            key, at: now.instant.advanced(byMilliseconds: max(wait, advised)), now: now.instant)
    }

    /// A wake-up needs nothing more; a newer one of its target may begin.
    mutating func settle(_ wake: Wake, now: Moment) {
        let key = wake.key
        if targets[key]?.next != nil {
            // It is in the record, where it has replaced the older one.
            targets[key]!.advance()
            enqueue(key, at: nil, now: now.instant)
        } else {
            progress.add(.settled(key))
            forget(key)
        }
    }

    /// An attempt ended whose wake-up was withdrawn or replaced meanwhile.
    mutating func resume(_ key: WakeKey, now: Moment) {
        guard targets[key] != nil else { return }
        targets[key]!.isInFlight = false
        if targets[key]!.pending == nil { targets[key]!.advance() }
        if targets[key]!.pending == nil {
            forget(key)
        } else {
            enqueue(key, at: nil, now: now.instant)
        }
    }

    mutating func expire(_ key: WakeKey, now: Moment) {
        let wake = targets[key]!.pending!
        totals.expired += 1
        addDeadLetter(wake, .expired, reason: "", now: now)
        settle(wake, now: now)
    }
}

extension SendOutcome {
    /// The reason of a failure; empty for a success.
    var reason: String {
        switch self {
        case .delivered, .sentOnce: ""
        case .gone(let reason), .refused(let reason, _), .failed(let reason, _, _),
            .hung(let reason):
            reason
        }
    }
}
