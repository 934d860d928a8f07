// The last messages of topics, and the replays that send them to new subscriptions. The trees that
// find them belong to their apps. The values of `$SYS` are kept in memory only.
//
// It knows apps, sessions and subscriptions by their index.
//
// Invariants: a topic of an app has at most one retained message; a session has at most one replay,
// either with its connection or suspended without one.

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
