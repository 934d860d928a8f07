// The queues that the store mirrors: which queue belongs to whom, the offline queues of users
// without a session, and the queues that ended sessions left to others. The entries of a connected
// session that are in memory belong to its window (ConnectedSession); the store holds the rest.

import Primitives

/// The stored queues and their owners.
struct Queues: ~Copyable {
    /// Sessions by their queues.
    var sessionQueues = IndexTable<Session>()
    /// The owners of queues that belong to no session.
    var queueOwners: [UInt64: QueueOwner] = [:]
    /// Messages that wait for users without a persistent session.
    var offlineQueues = Slab<Inbox>()
    /// Entries of shared subscriptions whose sessions have ended.
    var leftovers = Slab<Leftover>()
    /// The same by the user of the session.
    var leftoversOfUsers: [Index<User>?: [Index<Leftover>]] = [:]
    /// Entries in all queues.
    var queuedCount: UInt64 = 0
    /// Trims that the policy `oldest` has requested and the store has not confirmed, by queue.
    var pendingTrims: [UInt64: PendingTrim] = [:]
    /// Connected sessions that wait for more entries of their queues, in order.
    var waitingLoads = Ring<LoadOwner>()
    /// Whether the queues of some app exceed its limit.
    var hasAppsOverQuota = false
}
