// The handle of a loop for other threads: it wakes and stops the loop and reads its counters.
import CLinuxShims
import Glibc
import Synchronization

/// A loop's handle for other threads. Create it first, then pass it to the loop and the threads.
public final class LoopHandle: Sendable {
    let eventDescriptor: Int32
    private let wakePending = Atomic(false)
    private let stopRequested = Atomic(false)
    private let published = PublishedCounters()
    /// How long turns took from the end of their wait until everything was sent, in microseconds.
    public let turnTimes = PublishedHistogram()
    /// How long messages took from their acceptance until the end of the turn that sent them, in
    /// microseconds.
    public let deliveryTimes = PublishedHistogram()

    public init() throws(TransportError) {
        eventDescriptor = eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC))
        guard eventDescriptor >= 0 else {
            throw .system(call: "eventfd", subject: "", errno: errno)
        }
    }

    deinit {
        Glibc.close(eventDescriptor)
    }

    /// Makes the loop call its handler's `woken` at least once after this call. Store the data for
    /// the handler first, then wake. Several wake-ups before the loop runs cost one system call.
    public func wake() {
        guard !wakePending.exchange(true, ordering: .acquiringAndReleasing) else { return }
        // It fails only if the counter is full, which means that a wake-up is pending.
        eventfd_write(eventDescriptor, 1)
    }

    /// Makes the loop stop: it closes its listeners, calls the handler's `stopping`, sends the
    /// unsent bytes and returns from `run`.
    public func requestStop() {
        stopRequested.store(true, ordering: .releasing)
        wake()
    }

    /// The loop's counters as of its last turn.
    public var counters: LoopCounters { published.read() }

    // MARK: - The loop's side

    /// True when a stop has been requested at any time before.
    var isStopRequested: Bool { stopRequested.load(ordering: .acquiring) }

    /// Consumes the pending wake-up. Writes before `wake` are visible after this call.
    func takeWake() {
        var count: eventfd_t = 0
        eventfd_read(eventDescriptor, &count)
        _ = wakePending.exchange(false, ordering: .acquiringAndReleasing)
    }

    func publish(_ counters: borrowing LoopCounters) {
        published.publish(counters)
    }
}
