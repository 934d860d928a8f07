// An operator's changes to sessions and queues: ends connections, ends sessions, deletes messages
// of queues. Every change returns how much it affected.

import Primitives

extension Broker {
    /// Closes the connections of sessions with reason 0x98. The sessions remain and may connect
    /// again. Returns the number of connections.
    ///
    /// - Parameter sendsWills: true sends wills as after any lost connection; false deletes them.
    public mutating func kickSessions(
        matching filter: SessionFilter, sendsWills: Bool = true, at moment: Moment,
        effects: inout Effects
    ) -> Int {
        var step = Step(at: moment, effects: effects)
        var connected = filter
        connected.isConnected = true
        let indexes = sessionIndexes(
            matching: connected, after: nil, countMaximum: .max, at: step.moment)
        let fate: WillFate = sendsWills ? .starts : .removed
        for session in indexes {
            close(session, .administrativeAction, willFate: fate, in: &step)
        }
        return indexes.count
    }

    /// Ends sessions, connected ones with reason 0x98, as if each had expired: the user's messages
    /// in the queue of its last session wait offline, and its will is sent unless `sendsWills` is
    /// false. Returns the number of sessions.
    public mutating func deleteSessions(
        matching filter: SessionFilter, sendsWills: Bool = true, at moment: Moment,
        effects: inout Effects
    ) -> Int {
        var step = Step(at: moment, effects: effects)
        let handles = sessionIndexes(
            matching: filter, after: nil, countMaximum: .max, at: step.moment
        ).map { sessions.handle($0) }
        for handle in handles {
            if !sendsWills { removeWill(of: handle.index) }
            if sessions[handle.index].isConnected {
                close(handle.index, .administrativeAction, in: &step)
            }
            // A session that is not persistent has ended with its connection.
            if sessions.contains(handle) {
                destroy(handle.index, returnsUserMessages: true, in: &step)
            }
        }
        return handles.count
    }

    /// Deletes the queues of sessions without a connection. Connected sessions are omitted, because
    /// their messages are being delivered. Returns the number of messages.
    public mutating func purgeQueues(matching filter: SessionFilter, at moment: Moment) -> UInt64 {
        var away = filter
        away.isConnected = false
        var count: UInt64 = 0
        for session in sessionIndexes(matching: away, after: nil, countMaximum: .max, at: moment) {
            // The queue is empty, or its messages are being removed already.
            guard sessions[session].inbox.hasUnacknowledged else { continue }
            count += UInt64(sessions[session].inbox.count)
            sessions[session].inbox.acknowledgedThrough = sessions[session].inbox.nextNumber - 1
            discard(sessions[session].inbox)
        }
        return count
    }

    /// Deletes the offline queue of a user. Returns the number of messages; nil if there is no such
    /// user.
    public mutating func purgeOfflineQueue(app name: [UInt8], user: [UInt8]) -> UInt64? {
        guard let app = app(named: name),
            let user = self.user(named: user, app: app)
        else { return nil }
        guard let offlineQueue = registry.users[user].offlineQueue,
            queues.offlineQueues[offlineQueue].hasUnacknowledged
        else {
            return 0
        }
        queues.acknowledgeAll(ofOfflineQueue: offlineQueue)
        discard(queues.offlineQueues[offlineQueue])
        return UInt64(queues.offlineQueues[offlineQueue].count)
    }

    /// Removes all entries of a queue. They are counted out with the result of the store.
    private mutating func discard(_ inbox: Inbox) {
        counters.discarded += UInt64(inbox.count)
        commits.clear(inbox.queue, through: inbox.nextNumber - 1)
    }
}
