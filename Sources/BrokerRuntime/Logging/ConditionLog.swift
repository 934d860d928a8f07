// Logs conditions of the broker as a whole: a full store, dropped messages, paused accepting. The
// caller passes counters and states.

import BrokerCore

/// The last logged state of each condition.
struct ConditionLog {
    /// The shards whose stores are full; nil for the only one.
    private var fullStores: Set<String?> = []
    private var dropped: UInt64 = 0
    private var acceptPauses: UInt64 = 0

    /// Logs once when the store becomes full, and once when it has space again.
    ///
    /// - Parameters:
    ///   - limit: the cause.
    ///   - shard: whose store it is; nil for the only one.
    mutating func noteStore(
        isFull: Bool, because limit: LimitName, of shard: String?, in log: LogWriter
    ) {
        guard isFull != fullStores.contains(shard) else { return }
        if isFull { fullStores.insert(shard) } else { fullStores.remove(shard) }
        log.write(
            isFull ? .error : .info, .storeFull,
            fields: [
                "state": isFull ? "full" : "has-room",
                "detail": isFull ? .text(limit.key.description) : .absent,
                "shard": .optional(shard),
            ])
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
