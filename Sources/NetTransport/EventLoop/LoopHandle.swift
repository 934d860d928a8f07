// The one part of a loop that other threads may touch: wake it, stop it, read its counters.
import CLinuxShims
import Glibc
import Synchronization

/// A loop's handle for the other threads. Make it first, hand it to the loop and to whoever has to
/// reach the loop.
public final class LoopHandle: Sendable {
    let eventDescriptor: Int32
    private let wakePending = Atomic(false)
    private let stopRequested = Atomic(false)
    private let published = PublishedCounters()

    public init() throws(TransportError) {
        eventDescriptor = eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC))
        guard eventDescriptor >= 0 else {
            throw .system(call: "eventfd", subject: "", errno: errno)
        }
    }

    deinit {
        Glibc.close(eventDescriptor)
    }

    /// Makes the loop call its handler's `woken` soon, at least once after this call. Put what the
    /// handler shall find where it will look, then wake. Many wake-ups before the loop runs are
    /// one, and one system call.
    public func wake() {
        guard !wakePending.exchange(true, ordering: .acquiringAndReleasing) else { return }
        // It cannot fail but by a full counter, which is a pending wake-up as well.
        eventfd_write(eventDescriptor, 1)
    }

    /// Makes the loop stop: it closes its listeners, lets its handler say good-bye, sends what is
    /// to be sent and returns from `run`.
    public func requestStop() {
        stopRequested.store(true, ordering: .releasing)
        wake()
    }

    /// The loop's counters as of its last turn.
    public var counters: LoopCounters { published.read() }

    // MARK: - The loop's side

    /// True when a stop has been requested at any time before.
    var isStopRequested: Bool { stopRequested.load(ordering: .acquiring) }

    /// Takes the pending wake-up. What was put down before `wake` is visible after this.
    func takeWake() {
        var count: eventfd_t = 0
        eventfd_read(eventDescriptor, &count)
        _ = wakePending.exchange(false, ordering: .acquiringAndReleasing)
    }

    func publish(_ counters: borrowing LoopCounters) {
        published.publish(counters)
    }
}
