// An operator's changes to sessions and queues: ends connections, ends sessions, deletes messages
// of queues. Every change returns how much it affected.

import Primitives

extension Broker {
    /// Closes the connections of the next slice of sessions with reason 0x98. The sessions remain
    /// and may connect again. Returns false when the search is over.
    ///
    /// - Parameters:
    ///   - search: for connected sessions.
    ///   - sendsWills: true sends wills as after any lost connection; false deletes them.
    public mutating func kickSessions(
        _ search: inout SessionSearch, sendsWills: Bool = true, at moment: Moment,
        effects: inout Effects
    ) -> Bool {
        var step = Step(at: moment, effects: effects)
        let fate: WillFate = sendsWills ? .starts : .removed
        return takeSlice(of: &search, at: moment) { broker, _, handle in
            broker.close(handle.index, .administrativeAction, willFate: fate, in: &step)
        }
    }

    /// Ends the next slice of sessions, connected ones with reason 0x98, as if each had expired:
    /// the user's messages in the queue of its last session wait offline, and its will is sent
    /// unless `sendsWills` is false. Returns false when the search is over.
    public mutating func deleteSessions(
        _ search: inout SessionSearch, sendsWills: Bool = true, at moment: Moment,
        effects: inout Effects
    ) -> Bool {
        var step = Step(at: moment, effects: effects)
        return takeSlice(of: &search, at: moment) { broker, _, handle in
            if !sendsWills { broker.removeWill(of: handle.index) }
            if broker.sessions[handle.index].isConnected {
                broker.close(handle.index, .administrativeAction, in: &step)
            }
            // A session that is not persistent has ended with its connection.
            if broker.sessions.contains(handle) {
                broker.destroy(handle.index, returnsUserMessages: true, in: &step)
            }
        }
    }

    /// Deletes the queues of the next slice of sessions without a connection. Connected sessions
    /// are omitted, because their messages are being delivered. Returns false when the search is
    /// over.
    public mutating func purgeQueues(_ search: inout SessionSearch, at moment: Moment) -> Bool {
        takeSlice(of: &search, at: moment) { broker, search, handle in
            let session = handle.index
            // The queue is empty, or its messages are being removed already.
            guard !broker.sessions[session].isConnected,
                broker.sessions[session].inbox.hasUnacknowledged
            else { return }
            search.countMessages(UInt64(broker.sessions[session].inbox.count))
            broker.sessions[session].inbox.acknowledgedThrough =
                broker.sessions[session].inbox.nextNumber - 1
            broker.discard(broker.sessions[session].inbox)
        }
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
