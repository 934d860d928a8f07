// The limits of the event loop, each with the reason for its number. Those that an operator or a
// caller may want otherwise are defaults of EventLoop.Configuration.

/// Named limits of the transport.
public enum TransportLimits {
    /// A connection that has not authenticated this long after its accept is closed, TLS handshake
    /// included (15 seconds).
    public static let authenticationMilliseconds: UInt64 = 15_000

    /// How long a closing connection may take to accept what is still to be sent, and then to close
    /// its own side. Longer than a lost packet's retransmissions, short enough that peers which
    /// never answer do not collect.
    public static let lingerMilliseconds: UInt64 = 5_000

    /// How long an outgoing connect and its TLS handshake may take together.
    public static let connectMilliseconds: UInt64 = 10_000

    /// How long a listener rests after the process ran out of descriptors or memory. Accepting is
    /// then impossible until something closes; asking more often would only burn the processor.
    public static let acceptPauseMilliseconds: UInt64 = 200

    /// How long a connection that has not logged in may be silent while others wait for its place.
    /// Longer than a lost packet on a slow mobile link takes to be sent again; a client has
    /// something to say as soon as it is connected.
    public static let crowdedSilenceMilliseconds: UInt64 = 3_000

    /// A connection without a keep-alive, whose peer may be silent for ever, is probed by the
    /// kernel after an hour and a half of silence, the default of the longest keep-alive, and is
    /// dead when five probes in five minutes go unanswered.
    static let probeIdleSeconds: Int32 = 5_400
    static let probeIntervalSeconds: Int32 = 60
    static let probeCount: Int32 = 5

    /// Connections the kernel keeps ready for us while the loop is busy: a fleet that comes back
    /// after a power cut connects all at once. Linux lowers it to net.core.somaxconn (4096).
    public static let listenBacklog: Int32 = 4096

    /// Connections accepted from one listener in one turn: about a millisecond of accepts, so that
    /// a storm of connects does not delay those who are already in.
    public static let acceptsPerTurnMaximum = 64

    /// TLS handshake steps in one turn. A full handshake costs 0.2 to 1 ms of signatures and key
    /// exchange; sixteen keep a turn below about 10 ms.
    public static let handshakesPerTurnMaximum = 16

    /// Kernel events taken in one turn. More would coalesce better and answer the first later.
    static let eventsPerTurnMaximum = 1024

    /// Connections that a turn sends to of those that have had bytes since the last one, and again
    /// of those that have waited longer. A send over the loopback takes 10 microseconds, so a
    /// message for ten thousand connections would hold up all others for 100 ms if it left at once.
    public static let sendsPerTurnMaximum = 1024

    /// Bytes taken from one connection in one turn, so that a fast sender does not starve the rest.
    static let burstMaximum = 64 * 1024

    /// Bytes that a handler may add to the arena for each burst it is shown.
    public static let arenaAdditionMaximum = 4 * 1024

    /// The turn's arena for incoming bytes. It holds sixteen full bursts, or the short bursts of a
    /// thousand connections, before the turn must be ended early.
    static let arenaMinimum = 1024 * 1024

    /// The largest packet a connection may be allowed (`setPacketMaximum`), where the configuration
    /// says nothing else: MQTT's own 256 MiB is nothing that a broker of this kind wants to buffer.
    public static let packetMaximum = 1024 * 1024

    /// What a new connection may send as one packet before anybody has set its own maximum: a
    /// CONNECT with a long token and a will fits.
    public static let firstPacketMaximum = 16 * 1024

    /// Bytes waiting for one connection beyond which droppable traffic is refused.
    public static let outgoingMaximum = 1024 * 1024

    /// Bytes waiting for one connection beyond which it is closed.
    public static let outgoingHardMaximum = 8 * 1024 * 1024

    /// Blocks of bytes that wait, for all connections of a loop together: half a gigabyte is what
    /// 2,000 slow readers with a full window hold.
    public static let outgoingTotalMaximum = 512 * 1024 * 1024

    /// What a connection may hold whatever the others do: who keeps up has no more, and one record
    /// of TLS is as large.
    static let outgoingShare = 16 * 1024

    /// Connections of one loop, where the configuration says nothing else. The table is reserved
    /// address space; only the part in use costs memory.
    public static let connectionsMaximum = 100_000

    /// The largest file of authorities or revocation lists: a list of a million certificates.
    static let trustFileBytesMaximum = 64 * 1024 * 1024

    /// Free buffers the pool keeps, per size, and fewer where little may wait. What is not used
    /// between two trims goes back to the allocator, at most eight seconds after a burst.
    static let pooledBytesPerSizeMaximum = 32 * 1024 * 1024
    static let poolTrimMilliseconds: UInt64 = 4_000

    /// Bytes given back to the allocator at once from which it is asked to return them to the
    /// system.
    static let heapTrimMinimum = 4 * 1024 * 1024
}
