// Logs conditions of the broker as a whole: a full store, dropped messages, paused accepting. The
// caller passes counters and states.

/// The last logged state of each condition.
struct ConditionLog {
    private var isStoreFull = false
    private var dropped: UInt64 = 0
    private var acceptPauses: UInt64 = 0

    /// Logs once when the store becomes full, and once when it has space again.
    mutating func noteStore(isFull: Bool, in log: LogWriter) {
        guard isFull != isStoreFull else { return }
        isStoreFull = isFull
        log.write(
            isFull ? .error : .info, .storeFull, fields: ["state": isFull ? "full" : "has-room"])
    }

    /// Logs how much each total has grown since the last call, if it has grown.
    mutating func noteLosses(dropped: UInt64, acceptPauses: UInt64, in log: LogWriter) {
        if dropped > self.dropped {
            log.write(.warning, .queueFull, fields: ["dropped": .number(dropped - self.dropped)])
        }
        if acceptPauses > self.acceptPauses {
            log.write(
                .warning, .acceptPaused,
                fields: ["pauses": .number(acceptPauses - self.acceptPauses)])
        }
        self.dropped = dropped
        self.acceptPauses = acceptPauses
    }
}
