// The two records of a connection: the part that every message uses, in one cache line, and the
// rest. They are plain values; EventLoop and its extensions contain the operations.
import COpenSSL
import Glibc
import Primitives
import WireFormat

/// The hot record: exactly one cache line (a test requires 64 bytes), because cache misses
/// determine the cost of a fan-out to 10,000 receivers.
@usableFromInline
struct ConnectionSlot {
    /// The phase of a connection. Exits in parentheses.
    @usableFromInline
    enum Phase: UInt8 {
        /// No connection (connecting, awaitingHeader, handshaking, open).
        case free
        /// An outgoing connect is in progress (handshaking, open, dead).
        case connecting
        /// The PROXY header of an accepted connection has not arrived (handshaking, open, dead).
        case awaitingHeader
        /// The TLS handshake is in progress (open, dead).
        case handshaking
        /// Bytes flow (flushing, dead).
        case open
        /// Closing: unsent bytes are still being sent, nothing else is accepted (draining, dead).
        case flushing
        /// Closing: all bytes are sent and this side is shut down; the loop waits until the peer
        /// closes, so that its last bytes do not make the kernel reset the connection (dead).
        case draining
        /// Closed; the handler's `closed` was not called yet (free).
        case dead
    }

    @usableFromInline
    struct Flags: OptionSet {
        @usableFromInline let rawValue: UInt8

        @usableFromInline
        init(rawValue: UInt8) { self.rawValue = rawValue }

        /// On the list of connections to send at the end of the turn, or waiting for the kernel's
        /// buffer.
        @usableFromInline static var sendPending: Flags { Flags(rawValue: 1) }
        /// The kernel's buffer is full; epoll reports when it has space.
        static var sendBlocked: Flags { Flags(rawValue: 2) }
        /// On the list of connections to read without epoll.
        static var readListed: Flags { Flags(rawValue: 4) }
        /// Reading is paused, for the reasons in `readPauses`.
        static var readPaused: Flags { Flags(rawValue: 8) }
        /// OpenSSL must write before it can read on.
        static var readWaitsForWrite: Flags { Flags(rawValue: 16) }
        /// OpenSSL must read before it can write on.
        static var writeWaitsForRead: Flags { Flags(rawValue: 32) }
        /// The kept bytes must be passed to the handler (again) even if none are added.
        static var showKept: Flags { Flags(rawValue: 64) }
        /// Speaks WebSocket: its `FrameState` is valid.
        @usableFromInline static var framed: Flags { Flags(rawValue: 128) }
    }

    /// The events that epoll watches for.
    enum Interest: UInt8 {
        case nothing
        case input
        case output
        case both
    }

    var descriptor: Int32
    @usableFromInline var generation: UInt32
    /// The outgoing bytes are `outgoingStart..<outgoingEnd` of this block; nil if there are none.
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
    /// The reasons to pause reading; `readPaused` is set while there is any.
    var readPauses: ReadPause = []
    /// The size of the last outgoing block, as a power of two: the next one begins with it.
    var outgoingBits: UInt8

    @usableFromInline
    var outgoingByteCount: Int { Int(outgoingEnd &- outgoingStart) }

    /// A slot without a connection, for the next one of `generation`.
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

/// The cold record: setup, deadlines, closing. 72 bytes, in an order without gaps: an idle
/// connection consists only of its records.
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

    /// What the connection limiter counts of a connection.
    enum Counting: UInt8 {
        case nothing
        /// The connection, for no address: the address of its client is not known yet.
        case connection
        /// The connection, for the address of its peer.
        case address
    }

    /// Whether a proxy named the peer of a connection, or why it ends.
    enum ProxyState {
        /// The peer is that of the socket.
        case direct
        /// A PROXY header or a request named the peer.
        case named
        case failed(ProxyHeaderFault)
    }

    var peer = SocketAddress.local
    var origin = ConnectionOrigin.connect
    /// Whether it was accepted and has not logged in.
    var isPending = false
    var counting = Counting.nothing
    var timer = Timer.none
    var timerToken = TimerWheel.Token.none
    @NarrowCount var timerMilliseconds = 0
    @NarrowCount var packetMaximum = 0
    @NarrowCount var keptCount = 0
    @NarrowCount var keptCapacity = 0
    /// The number of kept bytes below which they need not be passed to the handler.
    @NarrowCount var keptAwaited = 0
    /// The errno behind the cause, or 0.
    var systemError: Int32 = 0
    /// The OpenSSL error behind the cause, or 0; all of them fit.
    @NarrowCount var tlsError = 0
    /// The result of certificate verification: X509_V_OK, or the error.
    var verification: Int16 = 0
    var cause = TransportCloseCause.closedByHandler
    var proxyState = ProxyState.direct
}

/// A list of slots in which each occurs at most once: reserved for all, so that adding never
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

/// Address space for `count` values, all bits zero. Only used pages cost memory, and nothing ever
/// moves. Freed by ``releaseReserved(_:_:)``.
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
