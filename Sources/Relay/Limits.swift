// Limits that all relays have, each with its reason.

/// Limits of a relay, and the defaults of those that its configuration sets.
package enum RelayLimits {
    /// Requests at a time: each has a descriptor, and the usual limit is 1,024.
    package static let requestsMaximum = 512
    /// Handles of requests that are kept for further ones.
    package static let idleTransfersMaximum = 64
    /// The time for a connection, in milliseconds, within the time for the request.
    package static let connectMillisecondsMaximum = 5_000
    /// How long what was sent may be without an acknowledgement of TCP before the kernel closes the
    /// connection, in milliseconds: far above round trips, below the quarter of an hour of its
    /// repetitions (tcp(7), TCP_USER_TIMEOUT).
    package static let unacknowledgedMilliseconds: UInt32 = 30_000
    /// Sockets of connections with several requests whose last answer is remembered: as many as
    /// there may be descriptors. Beyond it all are forgotten, and a connection that is slow may be
    /// closed.
    package static let connectionsRememberedMaximum = 1_024
    /// Failures in a row that open the circuit of a destination.
    package static let circuitFailuresMaximum = 5
    /// Between two attempts: the first wait in milliseconds, and the longest in seconds.
    package static let retryMillisecondsDefault = 1_000
    package static let retrySecondsDefault = 300
    package static let retrySecondsMaximum = 86_400
    /// The longest `Retry-After` that is heeded, in seconds: a wrong one must not disable a
    /// destination.
    package static let retryAfterSecondsMaximum: UInt64 = 3_600
    /// Unacknowledged messages of the broker.
    package static let inFlightDefault = 256
    package static let inFlightMaximum = 1_000
    /// Transient messages that wait for the relay's thread; more are dropped and counted.
    package static let transientWaitingMaximum = 10_000
    /// Between two attempts to write to a full disk, in milliseconds.
    package static let fullDiskMilliseconds: UInt64 = 1_000
    /// Bytes of the record beyond twice what is alive, before it is written anew.
    package static let recordSlackByteCount = 1 << 20
    /// Places of removed dead letters beyond those of others, before they are removed together: a
    /// few hundred bytes for each owner.
    package static let deadLetterSlackCount = 32
    /// One entry of the record: the largest event with room for its names.
    package static let recordEntryByteCountMaximum = 64 << 20
    /// Bytes of an answer that are read: tokens and reasons are far shorter.
    package static let answerByteCountMaximum = 64 << 10
    /// Bytes of all fields of an answer, with those behind its content (RFC 9112, 7.1.2). libcurl
    /// keeps them, and bounds only the length of one.
    package static let answerFieldsByteCountMaximum = 64 << 10
    /// Between two looks for requests of `dead-letters --resend`, in milliseconds, while there are
    /// dead letters.
    package static let resendMilliseconds: UInt64 = 1_000
    /// Turns of results and new attempts, after which the record has its turn: acknowledgements
    /// must not wait for a storm.
    package static let roundsMaximum = 16
    /// The longest wait of the relay's thread, in milliseconds: clocks may jump.
    package static let waitMilliseconds: UInt64 = 3_600_000
    /// Between two looks for what has expired, in milliseconds.
    package static let sweepMilliseconds: UInt64 = 60_000
    /// A login that finds the broker's clock ahead by more than this, in milliseconds, has found
    /// that it was set: far above what a login takes, and what clocks drift apart between two.
    package static let clockStepMilliseconds: UInt64 = 60_000
    /// No clock that was set is before this time, in Unix milliseconds: the beginning of 2024, when
    /// no relay existed. Without a battery, clocks start in 1970.
    package static let clockMinimum: UInt64 = 1_704_067_200_000
    /// How long open requests may take after SIGTERM, in milliseconds: below systemd's 90 s.
    package static let drainMilliseconds: UInt64 = 10_000
    /// Between two attempts of a subscription or a group that was refused, in seconds: the first
    /// and the longest. A missing right is granted by people, within minutes.
    package static let subscriptionRetrySecondsMinimum = 1
    package static let subscriptionRetrySecondsMaximum = 300
    /// A secret of Standard Webhooks has 24 to 64 bytes.
    package static let secretByteCounts = 24...64
    /// The longest URL.
    package static let urlByteCountMaximum = 2_048
    /// The largest packet of the broker: twice its own default. Its buffer is allocated.
    package static let packetByteCountDefault = 1 << 20
    /// The most that may be set: JSON makes up to six times as many bytes of it, which fit in one
    /// entry of the record.
    package static let packetByteCountMaximum = 8 << 20
    /// Room for the longest topic and the names beside the content of a message, as the broker's
    /// own limits have it.
    package static let packetOverheadByteCount = 66_000
}
