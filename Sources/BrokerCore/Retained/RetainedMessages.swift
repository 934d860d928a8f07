// The last messages of topics, and the replays that send them to new subscriptions. The trees that
// find them belong to their apps. The values of `$SYS` are kept in memory only.

import Primitives

/// Retained messages and their replays.
struct RetainedMessages: ~Copyable {
    var retained = Slab<Retained>()
    /// Retained messages that are being sent to sessions.
    var replays = Slab<RetainedReplay>()
    /// Replays of sessions without a connection.
    var suspendedReplays: [Index<Session>: Index<RetainedReplay>] = [:]
    /// The broker's own values.
    var systemTopics = SystemTopics()
}
