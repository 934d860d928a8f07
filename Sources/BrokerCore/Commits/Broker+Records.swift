// Writes the rows of sessions: once per batch, however often they change.

import Primitives

extension Broker {
    /// Marks rows of a session that differ from the stored ones. If `isUrgent` is false, no client
    /// waits for them, and they are written with the next batch that has another reason, or by
    /// housekeeping.
    mutating func markDirty(_ session: Index<Session>, _ rows: DirtyRecords, isUrgent: Bool) {
        guard sessions[session].isPersistent else { return }
        if sessions[session].dirty.isEmpty {
            commits.note(dirty: sessions.handle(session))
        }
        sessions[session].dirty.formUnion(rows)
        if isUrgent { commits.commitSoon() }
    }

    /// Writes the marked rows into the pending batch.
    mutating func writeDirtySessions() {
        for handle in commits.pendingBatch.dirtySessions where sessions.contains(handle) {
            let rows = sessions[handle.index].dirty
            sessions[handle.index].dirty = []
            if rows.contains(.session) {
                commits.renew(sessionRow(handle.index))
            }
            if rows.contains(.send) {
                commits.putWithSends(outboxRow(handle.index))
            } else if rows.contains(.outbox) {
                commits.renew(outboxRow(handle.index))
            }
        }
    }

    private func sessionRow(_ session: Index<Session>) -> RecordChange {
        let user = sessions[session].user
        let isShort = !sessions[session].isFromBackup && sessions[session].receivesSince == 0
        // A session that does not pull has the row of an earlier version.
        let pulls = sessions[session].pulls
        var row = RecordWriter(version: pulls ? 3 : isShort ? 1 : 2)
        row.write(registry.apps[registry.users[user].app].name)
        row.write(Array(registry.users[user].name))
        row.write(Array(sessions[session].device))
        row.write(sessions[session].dialect.rawValue)
        row.write(sessions[session].epoch)
        row.write(sessions[session].inbox.queue.raw)
        row.write(sessions[session].reservationRequested)
        row.write(sessions[session].expirySeconds)
        row.write(sessions[session].disconnectedRow)
        row.write(sessions[session].sentThrough)
        if !isShort || pulls {
            row.write(UInt8(sessions[session].isFromBackup ? 1 : 0))
            row.write(sessions[session].receivesSince)
        }
        if pulls { row.write(UInt8(1)) }
        return RecordChange(
            table: .sessions, key: RecordKey.number(sessions[session].identifier), value: row.bytes)
    }

    /// Stores the results of durable sends too, before the broker stops and when it accepts no more
    /// events. A crash loses them. A sender that did not see a result sends again after the restart
    /// and gets it. If the store has no room for them, such a send is delivered again as a possible
    /// duplicate.
    public mutating func prepareToStop() {
        for session in sessions.places
        where sessions.contains(session) && !sessions[session].dialect.isMQTT {
            let news = (0..<sessions[session].outbox.count).filter {
                sessions[session].outbox[$0].isComplete
                    && !sessions[session].outbox[$0].isStored
            }
            if news.isEmpty { continue }
            for position in news { sessions[session].outbox[position].isStored = true }
            let growth = outboxRow(session).pageByteCount
            if sessions[session].isPersistent, admitGrowth(of: growth) == nil {
                for position in news { sessions[session].outbox[position].isStored = false }
                continue
            }
            markDirty(session, .outbox, isUrgent: true)
        }
    }

    /// The accepted sends that must survive a crash: those of grade *once*, and those that an
    /// earlier stop stored. All of them are committed, or will be with this row.
    private func outboxRow(_ session: Index<Session>) -> RecordChange {
        var kept: [OutboxEntry] = []
        for position in 0..<sessions[session].outbox.count
        where sessions[session].outbox[position].isStored {
            kept.append(sessions[session].outbox[position])
        }
        var row = RecordWriter(version: 2)
        row.write(sessions[session].outboxEpoch)
        row.write(sessions[session].resultsSeenThrough)
        row.write(sessions[session].unknownOnceThrough)
        row.write(UInt16(kept.count))
        for entry in kept {
            row.write(entry.number)
            row.write(entry.reason.rawValue)
            row.write(entry.refusedCount)
            let refusals = self.refusals(of: entry, session)
            row.write(UInt16(refusals.count))
            for refusal in refusals {
                row.write(UInt16(refusal.index))
                row.write(refusal.reason.rawValue)
            }
        }
        return RecordChange(
            table: .outboxes, key: RecordKey.number(sessions[session].identifier), value: row.bytes)
    }
}
