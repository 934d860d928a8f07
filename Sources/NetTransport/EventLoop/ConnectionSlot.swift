// The two records of a connection: what is touched for every message, in one cache line, and the
// rest apart. Plain values; what happens to them stands in EventLoop and its extensions.
import COpenSSL
import Glibc
import Primitives

/// The hot record: exactly one cache line (a test holds it to 64 bytes), because at 10,000
/// receivers it is cache misses that a fan-out pays for.
@usableFromInline
struct ConnectionSlot {
    /// Where a connection stands. Exits in parentheses.
    @usableFromInline
    enum Phase: UInt8 {
        /// No connection (connecting, handshaking, open).
        case free
        /// Our connect is under way (handshaking, open, dead).
        case connecting
        /// TLS is being agreed (open, dead).
        case handshaking
        /// Bytes flow (flushing, dead).
        case open
        /// Closing: what is to be sent is still being sent, nothing else is taken (draining, dead).
        case flushing
        /// Closing: all is sent and our side is shut; the peer's end is awaited so that its last
        /// bytes do not make the kernel reset what we sent (dead).
        case draining
        /// Closed; the handler has yet to hear it (free).
        case dead
    }

    @usableFromInline
    struct Flags: OptionSet {
        @usableFromInline let rawValue: UInt8

        @usableFromInline
        init(rawValue: UInt8) { self.rawValue = rawValue }

        /// On the list of those to send at the end of the turn, or waiting for the kernel's buffer.
        @usableFromInline static var sendPending: Flags { Flags(rawValue: 1) }
        /// The kernel's buffer is full; epoll will tell.
        static var sendBlocked: Flags { Flags(rawValue: 2) }
        /// On the list of those to read without asking epoll.
        static var readListed: Flags { Flags(rawValue: 4) }
        /// Somebody wants nothing to be read for now: `readPauses` says who.
        static var readPaused: Flags { Flags(rawValue: 8) }
        /// OpenSSL can read on only when it has been able to write.
        static var readWaitsForWrite: Flags { Flags(rawValue: 16) }
        /// OpenSSL can write on only when it has been able to read.
        static var writeWaitsForRead: Flags { Flags(rawValue: 32) }
        /// Kept bytes are to be shown (again) even if none are added.
        static var showKept: Flags { Flags(rawValue: 64) }
        /// Speaks WebSocket: its `FrameState` is valid.
        @usableFromInline static var framed: Flags { Flags(rawValue: 128) }
    }

    /// What epoll has been told to watch for.
    enum Interest: UInt8 {
        case nothing
        case input
        case output
        case both
    }

    var descriptor: Int32
    @usableFromInline var generation: UInt32
    /// The outgoing bytes are `outgoingStart..<outgoingEnd` of this block; nil when there are none.
    @usableFromInline var outgoing: UnsafeMutableRawPointer?
    @usableFromInline var outgoingStart: UInt32
    @usableFromInline var outgoingEnd: UInt32
    @usableFromInline var outgoingCapacity: UInt32
    @usableFromInline var outgoingMaximum: UInt32
    /// The SSL; nil for a plain connection.
    var tls: OpaquePointer?
    var lastActivity: Instant
    /// Bytes that were received and not consumed: `ConnectionDetails.keptCount` of them.
    var kept: UnsafeMutableRawPointer?
    @usableFromInline var phase: Phase
    @usableFromInline var flags: Flags
    var interest: Interest
    /// Who wants nothing to be read for now; `readPaused` while that is anybody.
    var readPauses: ReadPause = []
    /// The size the last outgoing block grew to, as a power of two: the next one begins there.
    var outgoingBits: UInt8

    @usableFromInline
    var outgoingByteCount: Int { Int(outgoingEnd &- outgoingStart) }

    /// A slot without a connection, for a tenant of `generation`.
    init(freeWithGeneration generation: UInt32) {
        descriptor = -1
        self.generation = generation
        outgoing = nil
        outgoingStart = 0
        outgoingEnd = 0
        outgoingCapacity = 0
        outgoingMaximum = 0
        tls = nil
        lastActivity = Instant(milliseconds: 0)
        kept = nil
        phase = .free
        flags = []
        interest = .nothing
        outgoingBits = 0
    }
}

/// The cold record: set up, deadlines, the way out. 72 bytes, in an order that leaves no gaps: an
/// idle connection consists of its records, and nothing else.
///
/// Narrow counts are set through `pointee`: Swift 6.3.1 emits invalid code under the thread
/// sanitizer where they are set through a pointer's subscript.
struct ConnectionDetails {
    enum Timer: UInt8 {
        case none
        case authentication
        case keepAlive
        case connect
        case linger
    }

    var peer = SocketAddress.local
    var origin = ConnectionOrigin.connect
    /// Whether it was accepted and has not logged in.
    var isPending = false
    /// Whether the connection limiter counts it.
    var isCounted = false
    var timer = Timer.none
    var timerToken = TimerWheel.Token.none
    @NarrowCount var timerMilliseconds = 0
    @NarrowCount var packetMaximum = 0
    @NarrowCount var keptCount = 0
    @NarrowCount var keptCapacity = 0
    /// Kept bytes below which they need not be shown.
    @NarrowCount var keptAwaited = 0
    /// The errno behind the cause, or 0.
    var systemError: Int32 = 0
    /// The OpenSSL error behind the cause, or 0; all of them fit.
    @NarrowCount var tlsError = 0
    /// What certificate verification found: X509_V_OK, or why not.
    var verification: Int16 = 0
    var cause = TransportCloseCause.closedByHandler
}

/// A list of slots in which each stands at most once: reserved for all, so that adding never
/// allocates.
@usableFromInline
struct SlotList {
    @usableFromInline let slots: UnsafeMutablePointer<UInt32>
    @usableFromInline var count = 0

    init(capacity: Int) {
        slots = reserveZeroed(capacity, of: UInt32.self)
    }

    @inlinable
    mutating func append(_ slot: Int) {
        slots[count] = UInt32(truncatingIfNeeded: slot)
        count &+= 1
    }
}

/// Address space for `count` values, all bits zero. Only pages that are touched cost memory, and
/// nothing ever moves. Ends with ``releaseReserved(_:_:)``.
func reserveZeroed<Value>(_ count: Int, of type: Value.Type) -> UnsafeMutablePointer<Value> {
    let byteCount = count * MemoryLayout<Value>.stride
    let memory = mmap(
        nil, byteCount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    guard let memory, memory != MAP_FAILED else {
        fatalError("no address space for \(byteCount) bytes: \(systemErrorText(errno))")
    }
    return memory.bindMemory(to: type, capacity: count)
}

func releaseReserved<Value>(_ memory: UnsafeMutablePointer<Value>, _ count: Int) {
    munmap(memory, count * MemoryLayout<Value>.stride)
}
