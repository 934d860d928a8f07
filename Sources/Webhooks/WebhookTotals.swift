// The counters of a relay since its start.

struct WebhookTotals: Hashable {
    /// Events that some hook is told, and those that none is.
    var events: UInt64 = 0
    var unmatched: UInt64 = 0
    /// For each hook: events that were delivered, and requests for that.
    var delivered: UInt64 = 0
    var requests: UInt64 = 0
    /// Requests that are repeated.
    var retried: UInt64 = 0
    /// Events that became dead letters, that were sent again by hand, and dead letters that were
    /// removed for newer ones.
    var died: UInt64 = 0
    var resent: UInt64 = 0
    var discarded: UInt64 = 0
    /// Transient messages that came faster than they could be taken.
    var dropped: UInt64 = 0
    /// Writes of the record that were synced.
    var recordWrites: UInt64 = 0
    /// At present: undelivered events, dead letters, circuits that are open, disabled hooks.
    var waiting: UInt64 = 0
    var deadLetters: UInt64 = 0
    var openCircuits: UInt64 = 0
    var disabled: UInt64 = 0

    var line: String {
        "events=\(events) unmatched=\(unmatched) delivered=\(delivered) requests=\(requests) "
            + "retried=\(retried) died=\(died) resent=\(resent) discarded=\(discarded) "
            + "dropped=\(dropped) record_writes=\(recordWrites) waiting=\(waiting) "
            + "dead_letters=\(deadLetters) open_circuits=\(openCircuits) disabled=\(disabled)"
    }
}
