// Retained messages, and the replays that send them to new subscriptions. The trees that find them
// belong to their apps. The values of `$SYS` are in memory only.
//
// It refers to apps, sessions and subscriptions by index.
//
// Invariants: a topic of an app has at most one retained message; a session has at most one replay,
// either with its connection or suspended without one.

import Primitives

/// Retained messages and their replays.
struct RetainedMessages: ~Copyable {
    private(set) var retained = Slab<Retained>()
    /// The replays that are under way or suspended.
    private(set) var replays = Slab<RetainedReplay>()
    /// Replays of sessions without a connection.
    private var suspendedReplays: [Index<Session>: Index<RetainedReplay>] = [:]
    /// The values of `$SYS`.
    var systemTopics = SystemTopics()

    // MARK: - Messages

    mutating func insert(_ message: Retained) -> Index<Retained> { retained.insert(message).index }

    /// Replaces a message. Returns the previous one.
    mutating func replace(_ message: Index<Retained>, with new: Retained) -> Retained {
        let old = retained[message]
        retained[message] = new
        return old
    }

    mutating func remove(_ message: Index<Retained>) -> Retained { retained.remove(message) }

    /// Sets the timer of a message's expiry; `.none` after it has fired.
    mutating func setTimer(_ token: TimerWheel.Token, of message: Index<Retained>) {
        retained[message].token = token
    }

    // MARK: - Replays

    mutating func begin(_ replay: RetainedReplay) -> Index<RetainedReplay> {
        replays.insert(replay).index
    }

    mutating func end(_ replay: Index<RetainedReplay>) -> RetainedReplay { replays.remove(replay) }

    mutating func note(awaitsWindow awaits: Bool, _ replay: Index<RetainedReplay>) {
        replays[replay].awaitsWindow = awaits
    }

    /// Stores the position of a replay.
    mutating func setWalk(_ walk: RetainedReplay.Walk, of replay: Index<RetainedReplay>) {
        replays[replay].walk = walk
    }

    /// Adds a subscription to those that wait in a replay.
    mutating func enqueue(
        _ subscription: Handle<Subscription>, in replay: Index<RetainedReplay>
    ) {
        replays[replay].waiting.append(subscription)
    }

    /// Replaces the list of waiting subscriptions; none of them has been served.
    mutating func setWaiting(
        _ waiting: [Handle<Subscription>], of replay: Index<RetainedReplay>
    ) {
        replays[replay].waiting = waiting
        replays[replay].servedCount = 0
    }

    /// Removes and returns the next waiting subscription; nil if there is none.
    mutating func takeNext(of replay: Index<RetainedReplay>) -> Handle<Subscription>? {
        let position = replays[replay].servedCount
        guard position < replays[replay].waiting.count else { return nil }
        replays[replay].servedCount += 1
        return replays[replay].waiting[position]
    }

    /// Makes a replay serve another subscription. Those that wait remain.
    mutating func replace(_ replay: Index<RetainedReplay>, with next: RetainedReplay) {
        replays[replay].subscription = next.subscription
        replays[replay].grade = next.grade
        replays[replay].subscriptionIdentifier = next.subscriptionIdentifier
        replays[replay].walk = next.walk
    }

    // MARK: - Without a connection

    /// The replay of a session without a connection.
    func suspendedReplay(of session: Index<Session>) -> Index<RetainedReplay>? {
        suspendedReplays.isEmpty ? nil : suspendedReplays[session]
    }

    /// Keeps a replay until its session connects again and its window has room.
    mutating func suspend(_ replay: Index<RetainedReplay>, of session: Index<Session>) {
        replays[replay].awaitsWindow = true
        suspendedReplays[session] = replay
    }

    mutating func takeSuspended(of session: Index<Session>) -> Index<RetainedReplay>? {
        suspendedReplays.isEmpty ? nil : suspendedReplays.removeValue(forKey: session)
    }
}
