// Logs conditions of the broker as a whole: a full store, dropped messages, paused accepting. The
// caller passes counters and states.

import BrokerCore

/// The last logged state of each condition.
struct ConditionLog {
    private var isStoreFull = false
    private var dropped: UInt64 = 0
    private var acceptPauses: UInt64 = 0

    /// Logs once when the store becomes full, and once when it has space again.
    ///
    /// - Parameter limit: the cause.
    mutating func noteStore(isFull: Bool, because limit: LimitName, in log: LogWriter) {
        guard isFull != isStoreFull else { return }
        isStoreFull = isFull
        guard isFull else {
            log.write(.info, .storeFull, fields: ["state": "has-room"])
            return
        }
        log.write(
            .error, .storeFull,
            fields: ["state": "full", "detail": .text(limit.key.description)])
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
