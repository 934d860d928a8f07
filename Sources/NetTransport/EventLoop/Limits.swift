// The limits of the event loop, each with the reason for its number. Those that an operator or a
// caller may change are defaults of EventLoop.Configuration.

/// Named limits of the transport.
public enum TransportLimits {
    /// A connection that has not authenticated this long after its accept, including the TLS
    /// handshake, is closed (15 seconds).
    public static let authenticationMilliseconds: UInt64 = 15_000

    /// How long a closing connection may take to accept its unsent bytes, and then to close its own
    /// side. Longer than the retransmission of a lost packet, and short enough that unresponsive
    /// peers do not accumulate.
    public static let lingerMilliseconds: UInt64 = 5_000

    /// How long an outgoing connect and its TLS handshake may take together.
    public static let connectMilliseconds: UInt64 = 10_000

    /// How long a listener pauses after the process ran out of descriptors or memory. Accepting is
    /// impossible until a connection closes; earlier attempts would only waste processor time.
    public static let acceptPauseMilliseconds: UInt64 = 200

    /// How long a connection that has not logged in may be silent while others wait to be accepted.
    /// Longer than the retransmission of a lost packet on a slow mobile link; a client sends its
    /// first packet as soon as it is connected.
    public static let crowdedSilenceMilliseconds: UInt64 = 3_000

    /// A connection without a keep-alive, whose peer may be silent forever, is probed by the kernel
    /// after an hour and a half of silence, the default of the longest keep-alive, and closed when
    /// five probes in five minutes are unanswered.
    static let probeIdleSeconds: Int32 = 5_400
    static let probeIntervalSeconds: Int32 = 60
    static let probeCount: Int32 = 5

    /// Connections that the kernel queues while the loop is busy: a fleet that reconnects after a
    /// power cut connects all at once. Linux lowers it to net.core.somaxconn (4096).
    public static let listenBacklog: Int32 = 4096

    /// Connections accepted from one listener in one turn: about a millisecond of accepts, so that
    /// a burst of connects does not delay connected clients.
    public static let acceptsPerTurnMaximum = 64

    /// TLS handshake steps in one turn. A full handshake costs 0.2 to 1 ms of signatures and key
    /// exchange; sixteen keep a turn below about 10 ms.
    public static let handshakesPerTurnMaximum = 16

    /// Kernel events handled in one turn. More would coalesce better and delay the first answer.
    static let eventsPerTurnMaximum = 1024

    /// Connections that a turn sends to among those with new bytes, and again among those that have
    /// waited longer. A send over the loopback takes 10 microseconds, so a message for ten thousand
    /// connections would delay all others by 100 ms if it were sent at once.
    public static let sendsPerTurnMaximum = 1024

    /// Bytes read from one connection in one turn, so that a fast sender does not starve the
    /// others.
    static let burstMaximum = 64 * 1024

    /// Bytes that a handler may add to the arena for each burst.
    public static let arenaAdditionMaximum = 4 * 1024

    /// The turn's arena for incoming bytes. It holds sixteen full bursts, or the short bursts of a
    /// thousand connections, before the turn must be ended early.
    static let arenaMinimum = 1024 * 1024

    /// The largest packet that a connection may be allowed (`setPacketMaximum`), by default: a
    /// broker should not buffer MQTT's own maximum of 256 MiB.
    public static let packetMaximum = 1024 * 1024

    /// The largest packet of a new connection until its own maximum is set: a CONNECT with a long
    /// token and a will fits.
    public static let firstPacketMaximum = 16 * 1024

    /// Bytes waiting for one connection above which droppable traffic is refused.
    public static let outgoingMaximum = 1024 * 1024

    /// What `outgoingMaximum` is divided by for traffic that is dropped first: while it is
    /// refused, three quarters are left for the rest.
    @usableFromInline static var droppedFirstDivisor: Int { 4 }

    /// What `outgoingMaximum` is multiplied by for traffic that is dropped last. Its second half
    /// is beyond the reach of the rest, whose maximum is the same as without classes.
    @usableFromInline static var droppedLastFactor: Int { 2 }

    /// Bytes waiting for one connection above which it is closed.
    public static let outgoingHardMaximum = 8 * 1024 * 1024

    /// Blocks of waiting bytes of all connections of a loop together: half a gigabyte is what 2,000
    /// slow readers with a full window hold.
    public static let outgoingTotalMaximum = 512 * 1024 * 1024

    /// The size that a connection may hold regardless of the others: a client that reads has no
    /// more, and one TLS record is as large.
    static let outgoingShare = 16 * 1024

    /// Connections of one loop, by default. The table is reserved address space; only the part in
    /// use costs memory.
    public static let connectionsMaximum = 100_000

    /// The largest file of authorities or revocation lists: a list of a million certificates.
    static let trustFileBytesMaximum = 64 * 1024 * 1024

    /// Free buffers in the pool, per size; fewer where little may wait. Buffers that are not used
    /// between two trims return to the allocator, at most eight seconds after a burst.
    static let pooledBytesPerSizeMaximum = 32 * 1024 * 1024
    static let poolTrimMilliseconds: UInt64 = 4_000

    /// Bytes returned to the allocator at once above which it is asked to return them to the
    /// system.
    static let heapTrimMinimum = 4 * 1024 * 1024
}
