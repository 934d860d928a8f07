// Limits of a webhook relay, each with its reason.

/// Limits that no configuration exceeds, and the defaults of those that it sets.
public enum WebhookLimits {
    /// Hooks of one file: each has a request at a time, of those that all may have.
    static let hooksMaximum = 500
    /// Requests of one hook at a time: more than a receiver with a few processes answers.
    static let concurrencyMaximum = 64
    static let concurrencyDefault = 4
    /// Events in one request.
    static let batchMaximum = 100
    /// Bytes of the events in one request; a single event may have more.
    static let batchByteCountMaximum = 512 << 10
    /// The time for one request, in seconds. Standard Webhooks advises 15 to 30.
    static let timeoutSecondsDefault = 15
    static let timeoutSecondsMaximum = 120
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
    /// The time between two lines about refusals of one hook: a receiver that refuses all events
    /// must not fill the log.
    static let refusalLineMilliseconds: UInt64 = 10_000
    /// An event that is not delivered after this time is written to the record, so that those
    /// behind it can be acknowledged.
    static let recordMilliseconds: UInt64 = 500
    /// Bytes of unacknowledged events that are written before that time: half of the broker's
    /// default of `limits.inboxWindowBytes`, so that it continues to send.
    static let recordByteCount = 128 << 10
    /// Endpoints of one file that decide on messages: an app has a few kinds of messages.
    static let decidersMaximum = 16
    /// Questions to one of them at a time: more than a receiver with some processes answers.
    static let deciderConcurrencyMaximum = 128
    static let deciderConcurrencyDefault = 16
    /// The time for a decision, in milliseconds: within the two seconds that brokers give by
    /// default, and the ten that they give at most.
    static let decisionMillisecondsDefault = 1_500
    static let decisionMilliseconds = 50...10_000
    /// Of the broker's time for a verdict, what its way back takes, in milliseconds.
    static let verdictMilliseconds: UInt64 = 100
    /// Questions that wait for their turn: as many as the broker holds of one app.
    static let questionsWaitingMaximum = 10_000
    /// The same of one sender: a tenth, so that a few of them do not take the room of others. In
    /// the default time for a decision, an endpoint answers fewer questions of one sender than
    /// that.
    static let questionsOfSenderMaximum = 1_000
    /// Between two attempts while the circuit of such an endpoint is open, in milliseconds: the
    /// first and the longest. People wait for their messages.
    static let deciderRetryMilliseconds: UInt64 = 500
    static let deciderRetryMillisecondsMaximum: UInt64 = 10_000
    /// Between two lines about the silence of an endpoint, in milliseconds.
    static let silenceLineMilliseconds: UInt64 = 10_000
    /// Bytes of a text for the sender of a refused message, as the broker takes them.
    static let reasonByteCountMaximum = 128
    /// Topic filters, groups and users of one hook.
    static let namesMaximum = 1_000
}
