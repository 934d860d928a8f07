// Limits of a webhook relay, each with its reason.

/// Limits that no configuration exceeds, and the defaults of those that it sets.
public enum WebhookLimits {
    /// Hooks of one file: each has a request at a time, of those that all may have.
    static let hooksMaximum = 500
    /// Requests of one hook at a time: more than a receiver with a few processes answers.
    static let concurrencyMaximum = 64
    static let concurrencyDefault = 4
    /// Requests of all hooks at a time: each has a descriptor, and the usual limit is 1,024.
    static let requestsMaximum = 512
    /// Events in one request.
    static let batchMaximum = 100
    /// Bytes of the events in one request; a single event may have more.
    static let batchByteCountMaximum = 512 << 10
    /// The time for one request, in seconds. Standard Webhooks advises 15 to 30.
    static let timeoutSecondsDefault = 15
    static let timeoutSecondsMaximum = 120
    /// The time for a connection, in milliseconds, within the time for the request.
    static let connectMillisecondsMaximum = 5_000
    /// How long an event may wait for its delivery: a week, as sessions by default.
    static let validitySecondsDefault = 604_800
    static let validitySecondsMaximum = 31_536_000
    /// Undelivered events of one hook, and their bytes: they are in memory and in the record.
    static let queueDefault = 10_000
    static let queueMaximum = 1_000_000
    static let queueByteCountDefault = 16 << 20
    static let queueByteCountMaximum = 1 << 30
    /// Dead letters of all hooks, and their bytes: people look at them.
    static let deadLettersDefault = 1_000
    static let deadLettersMaximum = 100_000
    static let deadLetterByteCountMaximum = 16 << 20
    /// Refusals of one event, by an answer of 3xx or 4xx, until it is a dead letter: with the
    /// default waits this lasts about four minutes.
    static let refusalsDefault = 8
    static let refusalsMaximum = 100
    /// Failures in a row, over all keys, that open the circuit of a hook.
    static let circuitFailuresMaximum = 5
    /// Between two attempts: the first wait in milliseconds, and the longest in seconds.
    static let retryMillisecondsDefault = 1_000
    static let retrySecondsDefault = 300
    static let retrySecondsMaximum = 86_400
    /// The longest `Retry-After` that is heeded, in seconds: a wrong one must not end a hook.
    static let retryAfterSecondsMaximum: UInt64 = 3_600
    /// Unacknowledged messages of the broker.
    static let inFlightDefault = 256
    static let inFlightMaximum = 1_000
    /// Transient messages that wait for the relay's thread; more are dropped and counted.
    static let transientWaitingMaximum = 10_000
    /// An event that is not delivered after this time is written to the record, so that those
    /// behind it can be acknowledged.
    static let recordMilliseconds: UInt64 = 500
    /// Between two attempts to write to a full disk, in milliseconds.
    static let fullDiskMilliseconds: UInt64 = 1_000
    /// Bytes of the record beyond twice what is alive, before it is written anew.
    static let recordSlackByteCount = 1 << 20
    /// One entry of the record: the largest event with room for its names.
    static let recordEntryByteCountMaximum = 16 << 20
    /// Bytes of an answer that are read; nothing in them is used.
    static let answerByteCountMaximum = 64 << 10
    /// Between two looks for requests of `dead-letters --resend`, in milliseconds, while there are
    /// dead letters.
    static let resendMilliseconds: UInt64 = 1_000
    /// Between two looks for events whose validity has ended, in milliseconds.
    static let sweepMilliseconds: UInt64 = 60_000
    /// How long open requests may take after SIGTERM, in milliseconds: below systemd's 90 s.
    static let drainMilliseconds: UInt64 = 10_000
    /// Between two attempts of a subscription or a group that was refused, in seconds: the first
    /// and the longest. A missing right is granted by people, within minutes.
    static let subscriptionRetrySecondsMinimum = 1
    static let subscriptionRetrySecondsMaximum = 300
    /// Topic filters, groups and users of one hook.
    static let namesMaximum = 1_000
    /// A secret of Standard Webhooks has 24 to 64 bytes.
    static let secretByteCounts = 24...64
    /// The longest URL.
    static let urlByteCountMaximum = 2_048
    /// The largest packet of the broker: twice its own default.
    static let packetByteCountMaximum = 1 << 20
}
