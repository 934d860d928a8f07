// What is done now and then, without an event to do it for: sweeping expired messages out of the
// store, writing rows that nobody waits for, asking a full store whether it has room again.

import Primitives

extension Broker {
    /// Makes sure that housekeeping comes as long as there is something to keep.
    @inline(__always)
    mutating func scheduleHousekeeping(at moment: Moment) {
        guard !isHousekeepingDue,
            queuedCount > 0 || isStoreFull || gathering.hasLazyRows || hasAppsOverQuota
                || leftovers.count > 0
        else { return }
        setHousekeepingDeadline(at: moment)
    }

    @inline(never)
    private mutating func setHousekeepingDeadline(at moment: Moment) {
        isHousekeepingDue = true
        _ = deadlines.insert(
            deadline: moment.instant.advanced(
                byMilliseconds: CoreLimits.housekeepingMilliseconds),
            payload: DeadlinePayload.housekeeping.raw)
    }

    mutating func keepHouse(at moment: Moment) {
        isHousekeepingDue = false
        if gathering.hasLazyRows { gathering.isUrgent = true }
        // Only a write can tell whether there is room again: one that changes nothing.
        if isStoreFull { writeIdentifierReservation() }
        if queuedCount > 0 {
            let share = Int(queuedCount / CoreLimits.sweepRounds)
            gathering.sweepMaximum = min(
                max(share, CoreLimits.sweepCountMinimum), CoreLimits.sweepCountMaximum)
        }
        checkAppQuotas()
        for index in leftovers.places where leftovers.contains(index) {
            // Whose queues were full may have room.
            if leftovers[index].isDue() { loadLeftover(index) }
        }
        scheduleHousekeeping(at: moment)
    }

    /// Whether the app of a sender has more waiting than it may.
    @inline(__always)
    func isAppOverQuota(of session: Index<Session>) -> Bool {
        hasAppsOverQuota && apps[users[sessions[session].user].app].isOverQuota
    }

    /// Sums up what waits for the users of each app. A walk over all sessions, and only where there
    /// is a limit: keeping the sums with every message would cost each delivery.
    private mutating func checkAppQuotas() {
        let maximum = limits.queueBytesPerAppMaximum
        guard maximum != .max, queuedCount > 0 || hasAppsOverQuota else { return }
        var sums = [UInt64](repeating: 0, count: apps.places.count)
        for session in sessions.places where sessions.contains(session) {
            sums[Int(users[sessions[session].user].app.place)] += sessions[session].inbox.byteCount
        }
        for user in users.places where users.contains(user) {
            guard let mailbox = users[user].mailbox else { continue }
            sums[Int(users[user].app.place)] += mailboxes[mailbox].byteCount
        }
        for leftover in leftovers.places where leftovers.contains(leftover) {
            sums[Int(leftovers[leftover].app.place)] += leftovers[leftover].byteCount
        }
        hasAppsOverQuota = false
        for app in apps.places where apps.contains(app) {
            apps[app].isOverQuota = sums[Int(app.place)] >= maximum
            hasAppsOverQuota = hasAppsOverQuota || apps[app].isOverQuota
        }
    }

    /// Removes what a sweep found expired. The store only looks: of what is in a window or on its
    /// way out it cannot know, and each entry must be counted out once.
    mutating func remove(expired entries: [ExpiredEntry]) {
        if entries.isEmpty { return }
        // What left a window while the store was looking is counted out already, and is still in
        // the store until the next batch.
        var leaving = Set(gathering.removals)
        for move in gathering.moves {
            leaving.insert(EntryRemoval(queue: move.queue, number: move.number))
        }
        for entry in entries
        where !leaving.contains(EntryRemoval(queue: entry.queue, number: entry.number)) {
            switch owner(of: entry.queue) {
            case .session(let session)?:
                guard entry.number > frontier(of: session),
                    !entry.state.lasts(
                        entry.number, sentThrough: numberSentThrough(by: session))
                else { continue }
                countOutBacklog(session: session, count: 1, byteCount: UInt64(entry.byteCount))
            case .mailbox(let user)?:
                let mailbox = mailboxIndex(of: user)
                guard entry.number > mailboxes[mailbox].acknowledgedThrough else { continue }
                countOut(mailbox: mailbox, count: 1, byteCount: UInt64(entry.byteCount))
            case .inherited, .leftover, nil:
                // A queue on the move: the next sweep finds it where it has come to.
                continue
            }
            counters.expired += 1
            gathering.removals.append(EntryRemoval(queue: entry.queue, number: entry.number))
        }
    }

    /// The number behind which a session's entries are on disk only, and nothing about them is on
    /// its way to the store.
    func frontier(of session: Index<Session>) -> UInt64 {
        guard let attachment = sessions[session].attachment else {
            return sessions[session].inbox.acknowledgedThrough
        }
        return attachments[attachment].loadedThrough
    }
}
