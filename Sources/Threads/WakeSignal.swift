// A signal that wakes a waiting thread: a flag and a file descriptor.

import CLinuxShims
import Glibc
import Synchronization

/// Wakes one waiting thread. Several calls of ``notify()`` before it wakes count as one.
public final class WakeSignal: Sendable {
    private let descriptor: Int32
    private let isPending = Atomic(false)
    private let isStopped = Atomic(false)

    public init() {
        descriptor = eventfd(0, Int32(EFD_CLOEXEC))
        precondition(descriptor >= 0, "eventfd: errno \(errno)")
    }

    deinit { close(descriptor) }

    /// Wakes the thread, now or when it next waits.
    public func notify() {
        guard !isPending.exchange(true, ordering: .acquiringAndReleasing) else { return }
        eventfd_write(descriptor, 1)
    }

    /// Wakes the thread finally: ``wait()`` returns false from now on.
    public func stop() {
        isStopped.store(true, ordering: .releasing)
        notify()
    }

    /// Waits for a call of ``notify()``, at most so long. False after ``stop()``, and if the time
    /// is over.
    public func wait(milliseconds: Int32) -> Bool {
        var question = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&question, 1, milliseconds) > 0 else { return false }
        return wait()
    }

    /// Waits for a call of ``notify()``. False after ``stop()``.
    public func wait() -> Bool {
        var count: eventfd_t = 0
        eventfd_read(descriptor, &count)
        isPending.store(false, ordering: .releasing)
        return !isStopped.load(ordering: .acquiring)
    }
}
