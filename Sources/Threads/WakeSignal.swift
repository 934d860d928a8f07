// How other threads get a sleeping thread's attention: one flag and one file descriptor.

import CLinuxShims
import Glibc
import Synchronization

/// A wake-up for one sleeping thread; many raises before it wakes are one.
public final class WakeSignal: Sendable {
    private let descriptor: Int32
    private let isRaised = Atomic(false)
    private let isStopped = Atomic(false)

    public init() {
        descriptor = eventfd(0, Int32(EFD_CLOEXEC))
        precondition(descriptor >= 0, "no descriptor for a signal")
    }

    deinit { close(descriptor) }

    /// Wakes the thread, now or when it next waits.
    public func raise() {
        guard !isRaised.exchange(true, ordering: .acquiringAndReleasing) else { return }
        eventfd_write(descriptor, 1)
    }

    /// Wakes the thread for good: ``wait()`` returns false from now on.
    public func stop() {
        isStopped.store(true, ordering: .releasing)
        raise()
    }

    /// Sleeps until the signal is raised; false when it is for good.
    public func wait() -> Bool {
        var count: eventfd_t = 0
        eventfd_read(descriptor, &count)
        isRaised.store(false, ordering: .releasing)
        return !isStopped.load(ordering: .acquiring)
    }
}
