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
            changes.append(.settled(key))
            forget(key)
        }
        if gone.insert(key).inserted {
            changes.append(.gone(key))
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
        changes.append(.removed(key))
        log("target_removed", "user=\(quoted(key.user.utf8)) id=\(key.id)")
    }

    // MARK: - Dead letters

    mutating func bury(_ wake: Wake, _ cause: WakeEnd, reason: String, now: Moment) {
        totals.died += 1
        let letter = LostWake(
            wake: wake, cause: cause, reason: reason, time: now.unixMilliseconds)
        note(wake, .dropped, detail: cause.name, now: now)
        changes.append(.lost(letter))
        deadLetters.append(letter)
        log(
            "dead_letter",
            "user=\(quoted(wake.user.utf8)) id=\(wake.target.id) "
                + "kind=\(wake.target.kind.rawValue) number=\(wake.sequence) cause=\(cause.name)")
        let own = deadLetters.lazy.filter { $0.wake.user == wake.user }.count
        if own > PushLimits.deadLettersOfUserMaximum,
            let oldest = deadLetters.firstIndex(where: { $0.wake.user == wake.user })
        {
            discard(oldest)
        }
        while deadLetters.count > settings.deadLettersMaximum { discard(0) }
    }

    private mutating func discard(_ position: Int) {
        let removed = deadLetters.remove(at: position)
        totals.discarded += 1
        changes.append(.found(sequence: removed.wake.sequence))
        log("dead_letter_discarded", "number=\(removed.wake.sequence)")
    }

    /// Sends dead letters again, with a new validity. Where a newer wake-up of the target waits,
    /// that one tells all that the letter would.
    package mutating func resend(_ sequences: [UInt64], now: Moment) {
        let wanted = Set(sequences)
        let found = deadLetters.filter { wanted.contains($0.wake.sequence) }
        deadLetters.removeAll { wanted.contains($0.wake.sequence) }
        for letter in found {
            var wake = letter.wake
            totals.resent += 1
            isResendUnwritten = true
            changes.append(.found(sequence: wake.sequence))
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
        needSync(now.instant)
    }

    // MARK: - The record

    mutating func needSync(
        _ now: Instant, within milliseconds: UInt64 = PushLimits.syncMilliseconds
    ) {
        let deadline = now.advanced(byMilliseconds: milliseconds)
        syncDeadline = min(syncDeadline ?? .never, deadline)
    }

    var hasUnwritten: Bool { !changes.isEmpty || syncDeadline != nil }

    /// What to write now; nil for nothing. ``recordWritten()`` or ``notWritten(_:now:)``
    /// follows.
    package mutating func nextWrite(now: Instant, isForced: Bool = false) -> [PushEntry]? {
        guard now >= recordPause else { return nil }
        let isDue = syncDeadline.map { now >= $0 } ?? false
        guard isDue || isForced && hasUnwritten else { return nil }
        var entries = changes
        if let received, received != written { entries.append(.position(received)) }
        return entries
    }

    /// A write is done, and synced.
    package mutating func recordWritten() {
        isDiskFull = false
        changes = []
        written = received
        firstUnwritten = nextSequence
        isResendUnwritten = false
        syncDeadline = nil
        totals.recordWrites += 1
    }

    /// The disk is full: events stay with the broker.
    mutating func notWritten(_ reason: String, now: Instant) {
        if !isDiskFull { log("record_full", "reason=\(quoted(reason.utf8))") }
        isDiskFull = true
        recordPause = now.advanced(byMilliseconds: RelayLimits.fullDiskMilliseconds)
    }

    /// What the broker may forget; nil for nothing new.
    package mutating func takeAcknowledgement() -> InboxRecord? {
        guard let written, written != told else { return nil }
        told = written
        return written
    }

    // MARK: - The log

    mutating func note(
        _ wake: Wake, _ step: LogStep, detail: String, now: Moment
    ) {
        let entry = LogEntry(
            time: now.unixMilliseconds, key: wake.key, kind: wake.target.kind, step: step,
            sequence: wake.sequence, count: wake.count, detail: detail)
        log.add(entry)
        if !reports.add(entry) { totals.unreported += 1 }
        guard changes.count < PushLimits.changesMaximum else {
            totals.logLost += 1
            return
        }
        changes.append(.log(entry))
        // Nobody waits for it.
        needSync(now.instant, within: PushLimits.resultMilliseconds)
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
