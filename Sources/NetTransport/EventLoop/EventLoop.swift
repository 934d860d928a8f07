// The event loop: epoll, the table of connections, and the steps of a turn. Extensions contain the
// operations on one connection: accepting, connecting, reading, writing, closing, deadlines. The
// loop transports bytes; its handler interprets them.
import BrokerTerms
import CLinuxShims
import Glibc
import Primitives

/// The connections of one thread. Create it on the thread that runs it, add listeners, and call
/// ``run(_:)``. Other threads may only use its ``LoopHandle``.
///
/// A turn: wait; report closed connections; read; deadlines; `turnEnded`; send. All bytes that were
/// appended during a turn are sent at its end with one `send` or `SSL_write` per connection: this
/// coalescing gives a factor of 13 and costs no latency (docs/PERFORMANCE.md).
public struct EventLoop: ~Copyable {
    /// The options of a loop. The defaults are ``TransportLimits``.
    public struct Configuration: Sendable {
        /// The loop's number, which is part of its connections' ids.
        public var loopIndex: UInt8 = 0
        /// At most `ConnectionID.slotsMaximum`.
        public var connectionsMaximum = TransportLimits.connectionsMaximum
        /// The maximum of accepted connections that have not logged in. At this number listeners
        /// pause, and further connections wait in the kernel.
        public var pendingMaximum = TransportLimits.connectionsMaximum
        /// The maximum of TLS handshakes of accepted connections. At this number TLS listeners
        /// pause.
        public var handshakesMaximum = TransportLimits.connectionsMaximum
        /// A connection that has not logged in and is silent for this long is closed while others
        /// wait to be accepted.
        public var crowdedSilenceMilliseconds = TransportLimits.crowdedSilenceMilliseconds
        /// Limits connections, in total and per address; nil for no such limits.
        public var connectionLimiter: ConnectionLimiter?
        /// The largest value that `setPacketMaximum` will be given.
        public var packetMaximum = TransportLimits.packetMaximum
        /// The largest packet of a connection until `setPacketMaximum`.
        public var firstPacketMaximum = TransportLimits.firstPacketMaximum
        /// Waiting bytes above which droppable traffic is refused, until `setOutgoingMaximum`.
        public var outgoingMaximum = TransportLimits.outgoingMaximum
        /// Waiting bytes above which a connection is closed; at least `outgoingMaximum`, at most 2
        /// GiB.
        public var outgoingHardMaximum = TransportLimits.outgoingHardMaximum
        /// Memory of bytes that wait for all connections. Above it, the connections that hold the
        /// most are closed.
        public var outgoingTotalMaximum = TransportLimits.outgoingTotalMaximum
        public var authenticationMilliseconds = TransportLimits.authenticationMilliseconds
        public var lingerMilliseconds = TransportLimits.lingerMilliseconds
        public var connectMilliseconds = TransportLimits.connectMilliseconds
        public var acceptPauseMilliseconds = TransportLimits.acceptPauseMilliseconds
        public var acceptsPerTurn = TransportLimits.acceptsPerTurnMaximum
        public var handshakesPerTurn = TransportLimits.handshakesPerTurnMaximum
        public var sendsPerTurn = TransportLimits.sendsPerTurnMaximum
        /// SO_SNDBUF of every connection; nil leaves it to the kernel's tuning.
        public var kernelSendBufferBytes: Int32?
        /// The offset of the broker's time to the monotonic clock; may be negative.
        public var clockOffsetMilliseconds: Int64 = 0
        /// Whether pings of WebSocket may be answered now; until they may, they are held. Nil for
        /// always.
        public var mayAnswerPings: (@Sendable () -> Bool)?

        public init() {}
    }

    /// The connections. The first property, for the reason that `Step.effects` in BrokerCore is.
    @usableFromInline let slots: UnsafeMutablePointer<ConnectionSlot>

    public let configuration: Configuration

    /// The handle for other threads.
    public let handle: LoopHandle

    /// The time, read once per turn: CLOCK_MONOTONIC and the configured offset.
    public internal(set) var now: Instant

    /// The time of the next turn even if no event occurs. `turnEnded` compares it with ``now``. It
    /// keeps its value until it is changed.
    public var nextWake = Instant.never

    /// Totals so far; `handle.counters` is the same for other threads.
    public internal(set) var counters = LoopCounters()

    /// The bytes that were passed to `received` since the last `turnEnded`.
    public var arena: UnsafeRawBufferPointer { UnsafeRawBufferPointer(arenaMemory) }

    /// The same bytes, for a handler that rewrites the bytes it received; nobody else reads them.
    public var mutableArena: UnsafeMutableRawBufferPointer { arenaMemory }

    /// The number of connections, including those that are being set up or closed.
    public internal(set) var connectionCount = 0

    /// Accepted connections that have not logged in: the handler has not set a deadline of its own
    /// for them.
    public internal(set) var pendingCount = 0

    /// Those of them with a TLS handshake in progress, or with a PROXY header awaited before it.
    public internal(set) var handshakingCount = 0

    let details: UnsafeMutablePointer<ConnectionDetails>
    /// Of connections with the flag `framed`; the others' are not touched.
    let frames: UnsafeMutablePointer<FrameState>
    /// Slots that were used before and are free now.
    var freeSlots: SlotList
    /// Slots below this one have been used.
    var slotsTouched = 0
    @usableFromInline var toSend: SlotList
    /// Connections that earlier turns had no time for, from `lateSent` on.
    @usableFromInline var toSendLate: SlotList
    @usableFromInline var lateSent = 0
    /// Whether this turn is the first one after every ready connection was read and sent to.
    public internal(set) var beginsRound = true
    /// Turns since the last such turn.
    private var turnsOfRound = 0
    /// When this turn began, in nanoseconds.
    private var turnBegin: UInt64 = 0
    private var acceptanceTimes = AcceptanceTimes()
    /// Connections to read without epoll: OpenSSL holds their bytes, or kept bytes must be passed
    /// on.
    var toRead: SlotList
    var readingNow: SlotList
    /// Closed connections for which the handler's `closed` was not called yet.
    var dead: SlotList
    /// The pre-shared identities of handshakes that have failed, by the slot, until it is free.
    var failedIdentities: [Int: PresentedIdentity] = [:]

    let controlRecords = ControlRecordBound()
    let epoll: Int32
    let events: UnsafeMutablePointer<epoll_event>
    let arenaMemory: UnsafeMutableRawBufferPointer
    var arenaUsed = 0
    var pool: BufferPool
    /// Bytes of the blocks with unsent bytes of all connections.
    var outgoingHeld = 0
    /// Of these, the blocks above the share of connections that have not logged in.
    var pendingHeld = 0
    var poolTrim = Instant.never
    var wheel: TimerWheel
    var listeners: [ListenerState] = []
    /// Pings that were held, the last one of each slot, with the connection that it had.
    var heldPings: [Int: (connection: ConnectionID, payload: [UInt8])] = [:]
    var handshakesLeft = 0
    var isStopping = false

    public init(
        _ configuration: Configuration = Configuration(), handle: LoopHandle
    ) throws(TransportError) {
        let connections = configuration.connectionsMaximum
        precondition(
            connections > 0 && connections <= ConnectionID.slotsMaximum,
            "connectionsMaximum is \(connections)")
        precondition(
            configuration.outgoingHardMaximum <= Int(Int32.max),
            "outgoingHardMaximum is \(configuration.outgoingHardMaximum)")
        precondition(
            configuration.outgoingMaximum <= configuration.outgoingHardMaximum,
            "outgoingMaximum is \(configuration.outgoingMaximum)")
        precondition(
            configuration.firstPacketMaximum <= configuration.packetMaximum,
            "firstPacketMaximum is \(configuration.firstPacketMaximum)")

        let epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard epoll >= 0 else {
            throw .system(call: "epoll_create1", subject: "", errno: errno)
        }
        guard
            linux_epoll_set(
                epoll, EPOLL_CTL_ADD, handle.eventDescriptor, EPOLLIN.rawValue,
                EventLoop.wakeEvent) == 0
        else {
            let error = errno
            Glibc.close(epoll)
            throw .system(call: "epoll_ctl", subject: "eventfd", errno: error)
        }
        self.epoll = epoll
        self.configuration = configuration
        self.handle = handle
        now = EventLoop.readClock(offset: configuration.clockOffsetMilliseconds)
        wheel = TimerWheel(start: now)
        pool = BufferPool(
            byteCountPerSizeMaximum: min(
                TransportLimits.pooledBytesPerSizeMaximum, configuration.outgoingTotalMaximum / 4))
        slots = reserveZeroed(connections, of: ConnectionSlot.self)
        details = reserveZeroed(connections, of: ConnectionDetails.self)
        frames = reserveZeroed(connections, of: FrameState.self)
        freeSlots = SlotList(capacity: connections)
        toSend = SlotList(capacity: connections)
        toSendLate = SlotList(capacity: connections)
        toRead = SlotList(capacity: connections)
        readingNow = SlotList(capacity: connections)
        dead = SlotList(capacity: connections)
        events = .allocate(capacity: TransportLimits.eventsPerTurnMaximum)
        arenaMemory = .allocate(
            byteCount: max(
                TransportLimits.arenaMinimum,
                configuration.packetMaximum + 3 * TransportLimits.burstMaximum),
            alignment: 64)
    }

    deinit {
        // Connections that are left, because the owner gave up before `run` returned, are closed.
        for slot in 0..<slotsTouched where slots[slot].phase != .free {
            if slots[slot].descriptor >= 0 { Glibc.close(slots[slot].descriptor) }
            EventLoop.freeSession(slots[slot].tls)
            free(slots[slot].outgoing)
            free(slots[slot].kept)
        }
        let connections = configuration.connectionsMaximum
        releaseReserved(slots, connections)
        releaseReserved(details, connections)
        releaseReserved(frames, connections)
        for list in [freeSlots, toSend, toSendLate, toRead, readingNow, dead] {
            releaseReserved(list.slots, connections)
        }
        events.deallocate()
        arenaMemory.deallocate()
        Glibc.close(epoll)
    }

    // MARK: - Turns

    /// Runs until a stop is requested and everything is closed. Blocks SIGPIPE on this thread:
    /// OpenSSL writes with write(2), which would kill the process when a peer is gone.
    @inlinable
    public mutating func run<Handler: LoopHandler & ~Copyable>(_ handler: inout Handler) {
        while turn(&handler) {}
    }

    /// Runs one turn, waiting at most `waitMaximum` milliseconds for events (-1: without a limit).
    /// False when the loop has stopped.
    @inlinable
    public mutating func turn<Handler: LoopHandler & ~Copyable>(
        _ handler: inout Handler, waitMaximum: Int = -1
    ) -> Bool {
        let eventCount = wait(atMost: waitMaximum)
        tellClosed(&handler)
        readListed(&handler)
        for index in 0..<eventCount {
            dispatch(event: index, &handler)
            // Before events of other connections: a client that reconnects at once must not find
            // its closed connection.
            tellClosed(&handler)
        }
        reachDeadlines(&handler)
        stopIfRequested(&handler)
        endTurn(&handler)
        return finishTurn(&handler)
    }

    /// Calls the handler's `turnEnded`, then sends. Frees the arena.
    @inlinable
    mutating func endTurn<Handler: LoopHandler & ~Copyable>(_ handler: inout Handler) {
        handler.turnEnded(in: &self)
        flushAll()
    }

    /// Waits for events and reads the clock. The number of events.
    @usableFromInline
    mutating func wait(atMost maximum: Int) -> Int {
        blockBrokenPipeSignal()
        let count = epoll_wait(
            epoll, events, Int32(TransportLimits.eventsPerTurnMaximum), waitMilliseconds(maximum))
        precondition(count >= 0 || errno == EINTR, "epoll_wait: \(systemErrorText(errno))")
        turnBegin = EventLoop.readNanoseconds()
        now = EventLoop.instant(of: turnBegin, offset: configuration.clockOffsetMilliseconds)
        handshakesLeft = configuration.handshakesPerTurn
        counters.turns += 1
        noteRound(isHeard: Int(count) < TransportLimits.eventsPerTurnMaximum)
        return max(0, Int(count))
    }

    /// Ready connections are reported in the kernel's order. While there may be more than one turn
    /// handles, or sends wait, the round continues; it ends after so many turns that each
    /// connection has been read and sent to.
    private mutating func noteRound(isHeard: Bool) {
        turnsOfRound += 1
        beginsRound =
            isHeard && !hasLateSends
            || turnsOfRound > 2 + connectionCount / TransportLimits.eventsPerTurnMaximum
                + connectionCount / configuration.sendsPerTurn
        if beginsRound { turnsOfRound = 0 }
    }

    /// How long epoll may wait: not at all while there is work.
    private func waitMilliseconds(_ maximum: Int) -> Int32 {
        if dead.count > 0 || toRead.count > 0 || toSend.count > 0 || hasLateSends { return 0 }
        if handle.isStopRequested, !isStopping { return 0 }
        var next = min(nextWake, poolTrim)
        if let deadline = wheel.nextDeadline { next = min(next, deadline) }
        for listener in listeners { next = min(next, listener.rest?.end ?? .never) }
        let limit = maximum < 0 ? Int32.max : Int32(clamping: maximum)
        guard next != .never else { return maximum < 0 ? -1 : limit }
        let current = EventLoop.readClock(offset: configuration.clockOffsetMilliseconds)
        // The clock is read in whole milliseconds, rounded down: one millisecond more never wakes
        // early.
        return min(limit, Int32(clamping: next.milliseconds(since: current)))
    }

    /// Dispatches one kernel event. Events of closed connections are ignored.
    @usableFromInline
    mutating func dispatch<Handler: LoopHandler & ~Copyable>(
        event index: Int, _ handler: inout Handler
    ) {
        let data = events[index].data.u64
        let signals = events[index].events
        if data == EventLoop.wakeEvent {
            handle.takeWake()
            handler.woken(in: &self)
        } else if ConnectionID(rawValue: data).generation == 0 {
            accept(from: ConnectionID(rawValue: data).slot, &handler)
        } else if let slot = slot(of: ConnectionID(rawValue: data)) {
            advance(slot, signals: signals, &handler)
        }
    }

    /// Handles an event of a connection according to its phase.
    private mutating func advance<Handler: LoopHandler & ~Copyable>(
        _ slot: Int, signals: UInt32, _ handler: inout Handler
    ) {
        switch slots[slot].phase {
        case .connecting:
            if finishConnect(slot) { handler.opened(name(of: slot), .connect, in: &self) }
        case .awaitingHeader:
            readHeader(slot, &handler)
        case .handshaking:
            handshake(slot, &handler)
        case .open:
            if signals & EPOLLOUT.rawValue != 0 { becameWritable(slot, &handler) }
            if signals & ~EPOLLOUT.rawValue != 0 {
                becameReadable(slot, signals: signals, &handler)
            }
        case .flushing:
            continueFlushing(slot, signals)
        case .draining:
            discardInput(slot)
        case .free, .dead:
            return
        }
    }

    /// Publishes the counters and resumes listeners. False when the loop has stopped.
    @usableFromInline
    mutating func finishTurn<Handler: LoopHandler & ~Copyable>(
        _ handler: inout Handler
    ) -> Bool {
        wakeListeners(&handler)
        trimPool()
        let end = EventLoop.readNanoseconds()
        handle.turnTimes.record((end - turnBegin) / 1_000)
        acceptanceTimes.record(until: end, in: handle.deliveryTimes)
        counters.pending = UInt64(pendingCount)
        counters.outgoingHeld = UInt64(outgoingHeld)
        counters.handshaking = UInt64(handshakingCount)
        handle.publish(counters)
        return !(isStopping && connectionCount == 0)
    }

    private mutating func trimPool() {
        if poolTrim == .never {
            guard !pool.isEmpty else { return }
            poolTrim = now.advanced(byMilliseconds: TransportLimits.poolTrimMilliseconds)
        } else if now >= poolTrim {
            pool.trim()
            poolTrim = .never
        }
    }

    private func blockBrokenPipeSignal() {
        guard counters.turns == 0 else { return }
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }

    static func readClock(offset: Int64) -> Instant {
        instant(of: readNanoseconds(), offset: offset)
    }

    private static func instant(of nanoseconds: UInt64, offset: Int64) -> Instant {
        Instant(milliseconds: UInt64(max(0, Int64(nanoseconds / 1_000_000) + offset)))
    }

    /// CLOCK_MONOTONIC, in nanoseconds.
    public static func readNanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// Takes note that this turn sends a message.
    ///
    /// - Parameter time: when the message was accepted, as ``readNanoseconds()`` reads it.
    public mutating func noteAccepted(at time: UInt64) {
        if acceptanceTimes.take(time) { return }
        acceptanceTimes.record(until: EventLoop.readNanoseconds(), in: handle.deliveryTimes)
        _ = acceptanceTimes.take(time)
    }

    // MARK: - Slots

    /// The event data of the wake-up descriptor; listeners have generation 0 and their index.
    static let wakeEvent = UInt64.max

    @usableFromInline
    func name(of slot: Int) -> ConnectionID {
        ConnectionID(loop: configuration.loopIndex, slot: slot, generation: slots[slot].generation)
    }

    /// The slot of a connection that is not yet closed; nil for an id that is no longer valid.
    @inlinable
    func slot(of connection: ConnectionID) -> Int? {
        let slot = connection.slot
        guard slot < configuration.connectionsMaximum,
            slots[slot].generation == connection.generation, slots[slot].phase != .free,
            slots[slot].phase != .dead
        else { return nil }
        return slot
    }

    // Whole values are stored: under ThreadSanitizer Swift 6.3.1 builds invalid code ("Invalid
    // bitcast") for some fields that are changed in place through a pointer.

    @inlinable
    func set(_ flags: ConnectionSlot.Flags, _ slot: Int) {
        slots[slot].flags = slots[slot].flags.union(flags)
    }

    @inlinable
    func clear(_ flags: ConnectionSlot.Flags, _ slot: Int) {
        slots[slot].flags = slots[slot].flags.subtracting(flags)
    }

    /// A free slot with its next generation; nil when the table is full.
    mutating func takeSlot() -> Int? {
        let slot: Int
        if freeSlots.count > 0 {
            freeSlots.count -= 1
            slot = Int(freeSlots.slots[freeSlots.count])
        } else if slotsTouched < configuration.connectionsMaximum {
            slot = slotsTouched
            slotsTouched += 1
            (slots + slot).initialize(to: ConnectionSlot(freeWithGeneration: 1))
        } else {
            return nil
        }
        (details + slot).initialize(to: ConnectionDetails())
        (details + slot).pointee.packetMaximum = configuration.firstPacketMaximum
        slots[slot].outgoingMaximum = UInt32(configuration.outgoingMaximum)
        slots[slot].lastActivity = now
        connectionCount += 1
        return slot
    }

    /// Frees a slot. The id of its connection becomes invalid.
    mutating func releaseSlot(_ slot: Int) {
        let generation = slots[slot].generation &+ 1
        slots[slot] = ConnectionSlot(freeWithGeneration: generation == 0 ? 1 : generation)
        freeSlots.append(slot)
        if !failedIdentities.isEmpty { failedIdentities[slot] = nil }
        connectionCount -= 1
    }
}
