// What is done now and then, without an event to do it for: sweeping expired messages out of the
// store, writing rows that nobody waits for, asking a full store whether it has room again.

import Primitives

extension Broker {
    /// Makes sure that housekeeping comes as long as there is something to keep.
    @inline(__always)
    mutating func scheduleHousekeeping(at moment: Moment) {
        guard !deadlines.isHousekeepingDue,
            queues.queuedCount > 0 || commits.room.isFull || commits.pendingBatch.hasLazyRows
                || queues.hasAppsOverQuota
                || queues.leftovers.count > 0
        else { return }
        setHousekeepingDeadline(at: moment)
    }

    @inline(never)
    private mutating func setHousekeepingDeadline(at moment: Moment) {
        deadlines.insertHousekeeping(
            at: moment.instant.advanced(byMilliseconds: CoreLimits.housekeepingMilliseconds))
    }

    mutating func runHousekeeping(at moment: Moment) {
        if commits.pendingBatch.hasLazyRows { commits.commitSoon() }
        // Only a write can tell whether there is room again: one that changes nothing.
        if commits.room.isFull { writeIdentifierReservation() }
        if queues.queuedCount > 0 {
            let share = Int(queues.queuedCount / CoreLimits.sweepRounds)
            commits.sweep(
                countMaximum: min(
                    max(share, CoreLimits.sweepCountMinimum), CoreLimits.sweepCountMaximum))
        }
        checkAppQuotas()
        for index in queues.leftovers.places where queues.leftovers.contains(index) {
            // Whose queues were full may have room.
            if queues.isDue(index) { loadLeftover(index) }
        }
        scheduleHousekeeping(at: moment)
    }

    /// Whether the app of a sender has more waiting than it may.
    @inline(__always)
    func isAppOverQuota(ofUser user: Index<User>) -> Bool {
        queues.hasAppsOverQuota && registry.apps[registry.users[user].app].isOverQuota
    }

    /// Sums up what waits for the users of each app. A walk over all sessions, and only where there
    /// is a limit: keeping the sums with every message would cost each delivery.
    private mutating func checkAppQuotas() {
        let maximum = limits.queueBytesPerAppMaximum
        guard maximum != .max, queues.queuedCount > 0 || queues.hasAppsOverQuota else { return }
        var sums = [UInt64](repeating: 0, count: registry.apps.places.count)
        for session in sessions.places where sessions.contains(session) {
            sums[Int(registry.users[sessions[session].user].app.place)] +=
                sessions[session].inbox.byteCount
        }
        for user in registry.users.places where registry.users.contains(user) {
            guard let offlineQueue = registry.users[user].offlineQueue else { continue }
            sums[Int(registry.users[user].app.place)] +=
                queues.offlineQueues[offlineQueue].byteCount
        }
        for leftover in queues.leftovers.places where queues.leftovers.contains(leftover) {
            sums[Int(queues.leftovers[leftover].app.place)] += queues.leftovers[leftover].byteCount
        }
        var isAbove = false
        for app in registry.apps.places where registry.apps.contains(app) {
            let isOverQuota = sums[Int(app.place)] >= maximum
            registry.note(isOverQuota: isOverQuota, app)
            isAbove = isAbove || isOverQuota
        }
        queues.note(hasAppsOverQuota: isAbove)
    }

    /// Removes what a sweep found expired. The store only looks: of what is in a window or on its
    /// way out it cannot know, and each entry must be counted out once.
    mutating func remove(expired entries: [ExpiredEntry]) {
        if entries.isEmpty { return }
        // What left a window while the store was looking is counted out already, and is still in
        // the store until the next batch.
        var leaving = Set(commits.pendingBatch.removals)
        for move in commits.pendingBatch.moves {
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
            case .offlineQueue(let user)?:
                let offlineQueue = offlineQueueIndex(of: user)
                guard entry.number > queues.offlineQueues[offlineQueue].acknowledgedThrough else {
                    continue
                }
                queues.countOut(
                    offlineQueue: offlineQueue, count: 1, byteCount: UInt64(entry.byteCount))
            case .inherited, .leftover, nil:
                // A queue on the move: the next sweep finds it where it has come to.
                continue
            }
            counters.expired += 1
            commits.remove(entry.number, from: entry.queue)
        }
    }

    /// The number behind which a session's entries are on disk only, and nothing about them is on
    /// its way to the store.
    func frontier(of session: Index<Session>) -> UInt64 {
        guard let connected = sessions[session].connected else {
            return sessions[session].inbox.acknowledgedThrough
        }
        return live.connectedSessions[connected].loadedThrough
    }
}
