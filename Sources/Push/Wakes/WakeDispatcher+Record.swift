// What outlives an attempt: targets that are gone, dead letters, the record, and the log.

import ClientProgram
import MartletClient
import Primitives
import Relay

extension WakeDispatcher {
    // MARK: - Targets that are gone

    mutating func becomeGone(_ wake: Wake, now: Moment) {
        let key = wake.key
        totals.gone += 1
        log(
            "target_gone",
            "user=\(quoted(key.user.utf8)) id=\(key.id) kind=\(wake.target.kind.rawValue)")
        if let next = targets[key]?.next { note(next, .dropped, detail: "gone", now: now) }
        if targets[key] != nil {
            progress.add(.settled(key))
            forget(key)
        }
        if gone.insert(key).inserted {
            progress.add(.gone(key))
            removals.append(key)
        }
    }

    /// The next target that the broker should remove; nil if none is to be asked for now.
    package mutating func nextRemoval(now: Instant) -> WakeKey? {
        while let rank = refusedRemovals.firstRank, rank <= now {
            removals.append(refusedRemovals.popFirst()!)
        }
        guard !isDraining, removingCount < PushLimits.removalsMaximum,
            let key = removals.popFirst()
        else { return nil }
        removingCount += 1
        return key
    }

    /// The broker has answered.
    ///
    /// - Parameter refusal: its reason; nil if the target is gone there too.
    package mutating func finish(removal key: WakeKey, refusal: String?, now: Moment) {
        removingCount -= 1
        if let refusal {
            log(
                "removal_refused",
                "user=\(quoted(key.user.utf8)) id=\(key.id) reason=\(quoted(refusal.utf8))")
            refusedRemovals.insert(
                key, rank: now.instant.advanced(byMilliseconds: PushLimits.removalMilliseconds))
            return
        }
        totals.removed += 1
        gone.remove(key)
        setBadge(key, 0)
        progress.add(.removed(key))
        log("target_removed", "user=\(quoted(key.user.utf8)) id=\(key.id)")
    }

    // MARK: - Dead letters

    mutating func addDeadLetter(
        _ wake: Wake, _ cause: WakeEnd, reason: String, now: Moment
    ) {
        totals.died += 1
        let letter = DeadLetter(
            wake: wake, cause: cause, reason: reason, time: now.unixMilliseconds)
        note(wake, .dropped, detail: cause.name, now: now)
        progress.add(.deadLetter(letter))
        log(
            "dead_letter",
            "user=\(quoted(wake.user.utf8)) id=\(wake.target.id) "
                + "kind=\(wake.target.kind.rawValue) number=\(wake.sequence) cause=\(cause.name)")
        keep(letter)
    }

    /// Keeps a dead letter that is in the record, or will be.
    mutating func keep(_ letter: DeadLetter) {
        for removed in deadLetters.add(letter) {
            totals.discarded += 1
            progress.add(.deadLetterRemoved(sequence: removed.wake.sequence))
            log("dead_letter_discarded", "number=\(removed.wake.sequence)")
        }
    }

    /// Sends dead letters again, with a new validity. Where a newer wake-up of the target waits,
    /// that one tells all that the letter would.
    package mutating func resend(_ sequences: [UInt64], now: Moment) {
        let wanted = Set(sequences)
        for letter in deadLetters.remove(where: { wanted.contains($0.wake.sequence) }) {
            var wake = letter.wake
            totals.resent += 1
            progress.addResent(sequence: wake.sequence)
            log("dead_letter_resent", "number=\(wake.sequence)")
            note(wake, .resent, detail: "", now: now)
            wake.sequence = nextSequence
            nextSequence += 1
            wake.expiry = brokerTime.end(
                afterMilliseconds: PushLimits.validityMilliseconds, now: now)
            if targets[wake.key]?.pending != nil {
                totals.coalesced += 1
                note(wake, .coalesced, detail: "", now: now)
            } else {
                accept(wake, now: now)
            }
        }
        progress.needSync(now.instant)
    }

    // MARK: - The record

    var hasUnwritten: Bool { progress.hasUnwritten }

    /// What to write now; nil for nothing. ``recordWritten()`` or ``notWritten(_:now:)``
    /// follows.
    package func nextWrite(now: Instant, isForced: Bool = false) -> [PushEntry]? {
        progress.nextWrite(now: now, isForced: isForced)
    }

    /// A write is done, and synced.
    package mutating func recordWritten() {
        progress.recordWritten(nextSequence: nextSequence)
        totals.recordWrites += 1
    }

    /// The disk is full: events stay with the broker.
    mutating func notWritten(_ reason: String, now: Instant) {
        if progress.notWritten(now: now) { log("record_full", "reason=\(quoted(reason.utf8))") }
    }

    /// What the broker may forget; nil for nothing new.
    package mutating func takeAcknowledgement() -> InboxRecord? { progress.takeAcknowledgement() }

    // MARK: - The log

    mutating func note(
        _ wake: Wake, _ step: LogStep, detail: String, now: Moment
    ) {
        let entry = LogEntry(
            time: now.unixMilliseconds, key: wake.key, kind: wake.target.kind, step: step,
            sequence: wake.sequence, count: wake.count, detail: detail)
        log.add(entry)
        if !reports.add(entry) { totals.unreported += 1 }
        guard progress.changes.count < PushLimits.changesMaximum else {
            totals.logLost += 1
            return
        }
        progress.add(.log(entry))
        // Nobody waits for it.
        progress.needSync(now.instant, within: PushLimits.resultMilliseconds)
    }

    mutating func note(_ wake: Wake, _ outcome: SendOutcome, now: Moment) {
        switch outcome {
        case .delivered, .sentOnce: note(wake, .sent, detail: "", now: now)
        case .gone(let reason): note(wake, .gone, detail: reason, now: now)
        case .refused(let reason, _): note(wake, .refused, detail: reason, now: now)
        case .failed(let reason, _, _), .hung(let reason):
            note(wake, .failed, detail: reason, now: now)
        }
    }

    mutating func log(_ event: String, _ fields: String) {
        lines.append(fields.isEmpty ? "event=\(event)" : "event=\(event) \(fields)")
    }

    mutating func logTotals() {
        totals.waiting = UInt64(targets.count)
        totals.deadLetters = UInt64(deadLetters.count)
        totals.openCircuits = UInt64(destinations.openCount)
        log("totals", totals.line)
    }

    mutating func takeLines() -> [String] {
        defer { lines = [] }
        return lines
    }
}
