// Says in the log when the broker as a whole is in trouble, which no client's line tells: no room
// in the store, messages dropped, nobody let in. It is told counters and states, and asks nobody.

/// What was last said of each condition.
struct ConditionLog {
    private var isStoreFull = false
    private var dropped: UInt64 = 0
    private var acceptPauses: UInt64 = 0

    /// Tells once that the store is full, and once that it has room again.
    mutating func noteStore(isFull: Bool, _ log: LogWriter) {
        guard isFull != isStoreFull else { return }
        isStoreFull = isFull
        log.write(
            isFull ? .error : .info, .storeFull, ["state": isFull ? "full" : "has-room"])
    }

    /// Tells how much has come to the totals since the last time, where it is anything.
    mutating func noteLosses(dropped: UInt64, acceptPauses: UInt64, _ log: LogWriter) {
        if dropped > self.dropped {
            log.write(.warning, .queueFull, ["dropped": .number(dropped - self.dropped)])
        }
        if acceptPauses > self.acceptPauses {
            log.write(
                .warning, .acceptPaused, ["pauses": .number(acceptPauses - self.acceptPauses)])
        }
        self.dropped = dropped
        self.acceptPauses = acceptPauses
    }
}
