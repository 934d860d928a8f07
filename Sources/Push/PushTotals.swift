// The counters of a relay for wake-ups since its start.

struct PushTotals: Hashable {
    /// Wake-ups that the broker asked for, one for each target.
    var asked: UInt64 = 0
    /// Events that are not of the form that the broker gives them.
    var malformed: UInt64 = 0
    /// Wake-ups that a newer one of their target replaced, that a device of the user made
    /// needless, and that were too old.
    var coalesced: UInt64 = 0
    var withdrawn: UInt64 = 0
    var expired: UInt64 = 0
    /// Targets whose wake-ups got a later end, because the broker's clock was set.
    var renewed: UInt64 = 0
    /// Wake-ups that the destination took, or whose last datagram was sent; and attempts.
    var delivered: UInt64 = 0
    var attempts: UInt64 = 0
    /// Attempts that failed and are repeated.
    var retried: UInt64 = 0
    /// Targets that the destination calls gone, and those that the broker removed for it.
    var gone: UInt64 = 0
    var removed: UInt64 = 0
    /// Requests to the hook, and wake-ups without its answer, whether it was asked or not.
    var hookAsked: UInt64 = 0
    var hookSilent: UInt64 = 0
    /// Wake-ups that the hook did not want.
    var suppressed: UInt64 = 0
    /// Wake-ups that became dead letters, that were sent again by hand, and dead letters that were
    /// removed for newer ones.
    var died: UInt64 = 0
    var resent: UInt64 = 0
    var discarded: UInt64 = 0
    /// Transient messages that came faster than they could be taken.
    var dropped: UInt64 = 0
    /// Entries of the log that a full disk lost.
    var logLost: UInt64 = 0
    /// Entries of the log that the broker did not get.
    var unreported: UInt64 = 0
    /// Writes of the record that were synced.
    var recordWrites: UInt64 = 0
    /// At present: wake-ups that wait, dead letters, circuits that are open.
    var waiting: UInt64 = 0
    var deadLetters: UInt64 = 0
    var openCircuits: UInt64 = 0

    var line: String {
        "asked=\(asked) malformed=\(malformed) coalesced=\(coalesced) withdrawn=\(withdrawn) "
            + "expired=\(expired) renewed=\(renewed) delivered=\(delivered) "
            + "attempts=\(attempts) retried=\(retried) gone=\(gone) removed=\(removed) "
            + "hook_asked=\(hookAsked) hook_silent=\(hookSilent) suppressed=\(suppressed) "
            + "died=\(died) resent=\(resent) "
            + "discarded=\(discarded) dropped=\(dropped) log_lost=\(logLost) "
            + "unreported=\(unreported) record_writes=\(recordWrites) waiting=\(waiting) "
            + "dead_letters=\(deadLetters) open_circuits=\(openCircuits)"
    }
}
