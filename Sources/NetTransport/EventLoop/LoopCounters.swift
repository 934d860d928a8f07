// The counters of a loop, as plain numbers that only the loop writes, and a copy of them for other
// threads. There is no lock: a reader may see numbers of two consecutive turns together.
import Synchronization

/// Totals since the loop was created, and a few present values. Every field is a `UInt64`, because
/// the copy is an array of words.
public struct LoopCounters: Sendable, Equatable {
    public var turns: UInt64 = 0
    /// Connections accepted from listeners.
    public var accepted: UInt64 = 0
    /// Outgoing connects begun.
    public var connectsBegun: UInt64 = 0
    /// Connections that reached `opened`.
    public var opened: UInt64 = 0
    public var handshakesCompleted: UInt64 = 0
    /// Present number of connections that have not logged in.
    public var pending: UInt64 = 0
    /// Present memory of unsent bytes.
    public var outgoingHeld: UInt64 = 0
    /// Those among the pending with a TLS handshake in progress.
    public var handshaking: UInt64 = 0
    /// Completed handshakes that resumed an earlier session.
    public var handshakesResumed: UInt64 = 0
    /// Accepted sockets closed at once because the limit of connections was reached, or the table
    /// was full.
    public var refusedByMaximum: UInt64 = 0
    /// Accepted connections closed because of the limit per address: at once, or after their PROXY
    /// header.
    public var refusedByAddress: UInt64 = 0
    /// Pauses of a listener because descriptors or memory ran out, or too many connections had not
    /// logged in.
    public var acceptPauses: UInt64 = 0
    /// Application bytes (after TLS).
    public var bytesReceived: UInt64 = 0
    /// Application bytes (before TLS) that the kernel or OpenSSL accepted.
    public var bytesSent: UInt64 = 0
    /// Calls of `recv` and `SSL_read` that returned bytes.
    public var receives: UInt64 = 0
    /// Calls of `send` and `SSL_write` that accepted bytes.
    public var sends: UInt64 = 0
    /// Sends after which bytes remained because the kernel's buffer was full.
    public var shortWrites: UInt64 = 0
    /// Droppable appends that were refused because too many bytes were waiting.
    public var drops: UInt64 = 0
    /// The same for traffic that is dropped before the rest.
    public var dropsFirst: UInt64 = 0
    /// The same for traffic that is dropped after the rest.
    public var dropsLast: UInt64 = 0
    /// Changes of the events that epoll watches for, beyond the registration.
    public var interestChanges: UInt64 = 0
    /// Turns that ended early because the arena was full.
    public var arenaFills: UInt64 = 0
    /// PROXY headers that were read.
    public var proxyHeaders: UInt64 = 0
    /// Connections that went on with WebSocket.
    public var webSocketsOpened: UInt64 = 0
    /// Those of them that broke a rule of it.
    public var webSocketFaults: UInt64 = 0
    private var closedByCause = InlineArray<16, UInt64>(repeating: 0)

    public init() {}

    /// Connections closed for `cause`.
    public subscript(closed cause: TransportCloseCause) -> UInt64 {
        get { closedByCause[Int(cause.rawValue)] }
        set { closedByCause[Int(cause.rawValue)] = newValue }
    }

    /// Connections closed, whatever the cause.
    public var closed: UInt64 {
        TransportCloseCause.allCases.reduce(0) { $0 + self[closed: $1] }
    }

    public static func == (left: LoopCounters, right: LoopCounters) -> Bool {
        withUnsafeBytes(of: left) { left in
            withUnsafeBytes(of: right) { right in left.elementsEqual(right) }
        }
    }
}

/// The copy of a loop's counters for other threads.
final class PublishedCounters: Sendable {
    private static let wordCount = MemoryLayout<LoopCounters>.size / MemoryLayout<UInt64>.size

    // Each word is an atomic, and the pointer itself never changes.
    private nonisolated(unsafe) let words: UnsafeMutablePointer<Atomic<UInt64>>

    init() {
        words = .allocate(capacity: PublishedCounters.wordCount)
        for index in 0..<PublishedCounters.wordCount {
            (words + index).initialize(to: Atomic(0))
        }
    }

    deinit {
        words.deinitialize(count: PublishedCounters.wordCount)
        words.deallocate()
    }

    func publish(_ counters: borrowing LoopCounters) {
        withUnsafeBytes(of: counters) { bytes in
            let values = bytes.assumingMemoryBound(to: UInt64.self)
            for index in values.indices { words[index].store(values[index], ordering: .relaxed) }
        }
    }

    func read() -> LoopCounters {
        var counters = LoopCounters()
        withUnsafeMutableBytes(of: &counters) { bytes in
            let values = bytes.assumingMemoryBound(to: UInt64.self)
            for index in values.indices { values[index] = words[index].load(ordering: .relaxed) }
        }
        return counters
    }
}
