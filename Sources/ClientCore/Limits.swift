// The limits and times of a client that no configuration changes, each with its reason.

/// Limits of the client's half.
public enum ClientLimits {
    /// Until CONNACK: the broker closes after 15 s without a login, so
    /// waiting longer cannot help.
    static let loginMillisecondsMaximum: UInt64 = 15_000
    /// Until the broker confirms a normal end; after that the transport is closed anyway.
    static let disconnectMillisecondsMaximum: UInt64 = 5_000
    /// The longest wait before the first reconnect, doubled with each failure
    /// (PROTOCOL.md section 8, "Reconnecting").
    static let backoffMillisecondsMinimum: UInt64 = 1_000
    /// The longest wait before any reconnect.
    static let backoffMillisecondsMaximum: UInt64 = 120_000
    /// Addresses of one broker: a cluster has three nodes, and six while it moves. One byte has a
    /// bit for each.
    public static let serversMaximum = 8
    /// After a connection that lasted this long the backoff starts again.
    static let goodConnectionMilliseconds: UInt64 = 60_000

    /// Room for every packet that ``ClientMachine/transmit(into:now:)`` does not split, CONNECT and
    /// AUTH aside: an ACK of two numbers of nine bytes is the longest.
    static let controlPacketByteCountMaximum = 20
    /// Bytes of bookkeeping beside each packet in the outbox.
    static let entryHeaderByteCount = 16
}
