// The limits of replication, each with its reason.

/// Limits of records and of the state machine.
public enum ReplicationLimits {
    /// Bytes of an encoded record. A batch is bounded by the core's limits; JetStream's servers
    /// accept 64 MiB, if `max_payload` is set to it, and 8 MiB are recommended at most. The owner
    /// of a node decides a larger batch again without its sends, which the record then lacks.
    public static let recordByteCountMaximum = 8 << 20
    /// Bytes of the name of a node: that of other ids.
    public static let nameByteCountMaximum = 64
    /// Bytes of an address in a report: a URL with a host name [RFC 1123: at most 255].
    public static let addressByteCountMaximum = 320
    /// The lease, in milliseconds: shorter ones end with every slow sync, longer ones delay a
    /// takeover by minutes.
    public static let leaseMilliseconds: ClosedRange<UInt64> = 500...60_000
    /// Milliseconds until the first repetition of a try, and between later ones at most: a leader
    /// of the log is elected in 4 to 7 seconds.
    public static let retryMilliseconds: ClosedRange<UInt64> = 20...500
    /// Reads that find nothing at a position before the node asks for a copy: a server that lags
    /// behind answers so too.
    public static let emptyReadMaximum = 5
    /// Milliseconds of a time in a record, of either clock: 8,900 years. Sums of two such times and
    /// of any age of a message stay far from the end of a signed number.
    public static let momentMillisecondsMaximum: UInt64 = 1 << 48
    /// Tries of one record whose late outcomes are still recognised.
    public static let rememberedTryMaximum = 64
    /// Bytes of one part of a store's copy. Records of the log that follow a part on the same
    /// connection wait for it, some milliseconds in a network of 1 Gbit/s.
    public static let copyPartByteCount = 512 << 10
    /// Bytes of the words with which a node refuses a copy.
    public static let copyTextByteCountMaximum = 1_024
}
