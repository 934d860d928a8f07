// Periodic work: sweeps expired messages, writes rows that no client waits for, and checks whether
// a full store has space again.

import Primitives

extension Broker {
    /// Schedules the next round while there is work for it.
    @inline(__always)
    mutating func scheduleHousekeeping(at moment: Moment) {
        guard !deadlines.isHousekeepingDue,
            queues.queuedCount > 0 || conversationTable.keptCount > 0 || commits.room.isFull
                || commits.pendingBatch.hasLazyRows
                || queues.hasAppsOverQuota
                || queues.leftovers.count > 0 || sendKeys.count > 0
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
        // Only a write shows whether the store has space again. This one changes nothing.
        if commits.room.isFull { writeIdentifierReservation() }
        let storedCount = queues.queuedCount + conversationTable.keptCount
        if storedCount > 0 {
            let share = Int(storedCount / CoreLimits.sweepRounds)
            commits.sweep(
                countMaximum: min(
                    max(share, CoreLimits.sweepCountMinimum), CoreLimits.sweepCountMaximum))
        }
        checkAppQuotas()
        removeExpiredKeys(
            at: moment.instant, countMaximum: CoreLimits.expiredKeysPerRoundMaximum)
        for index in queues.leftovers.places where queues.leftovers.contains(index) {
            // Queues that were full may have space.
            if queues.isDue(index) { loadLeftover(index) }
        }
        scheduleHousekeeping(at: moment)
    }

    /// Whether the queues of a sender's app exceed their limit.
    @inline(__always)
    func isAppOverQuota(ofUser user: Index<User>) -> Bool {
        queues.hasAppsOverQuota && registry.apps[registry.users[user].app].isOverQuota
    }

    /// Sums up the queued bytes of each app. It visits all sessions, and only if there is a limit:
    /// sums that every message updates would slow each delivery down.
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

    /// Removes the expired entries that a sweep found. The store only reads them: it does not know
    /// which are in a window or are being removed, and each entry must be subtracted once.
    mutating func remove(expired entries: [ExpiredEntry]) {
        if entries.isEmpty { return }
        // Entries that left a window during the sweep have been subtracted, and are in the store
        // until the next batch.
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
            case .conversation(let conversation)?:
                countOut(
                    conversation: conversation,
                    QueueTally(queue: entry.queue, count: 1, byteCount: UInt64(entry.byteCount)))
                counters.historyExpired += 1
                commits.remove(entry.number, from: entry.queue)
                continue
            case .inherited, .leftover, nil:
                // The queue is being moved: the next sweep finds its entries in their new queue.
                continue
            }
            counters.expired += 1
            commits.remove(entry.number, from: entry.queue)
            if !wakes.isEmpty { noteFewerWaiting(in: entry.queue) }
        }
    }

    /// Entries after this number are on disk only, and the pending batches do not change them.
    func frontier(of session: Index<Session>) -> UInt64 {
        guard let connected = sessions[session].connected else {
            return sessions[session].inbox.acknowledgedThrough
        }
        return live.connectedSessions[connected].loadedThrough
    }
}
