// A value behind a lock of the operating system. The standard library's Mutex would do the same,
// but its futex is hidden from the thread sanitizer (Swift 6.3.1 on Linux), which then reports
// every protected access as a race: a lock that cannot be checked is not worth a few nanoseconds.

import Glibc
import Synchronization

/// A value that one thread at a time may access.
public final class Locked<Value: ~Copyable>: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private var value: Value
    /// The threads that found the lock taken and wait for it.
    private let waitingCount = Atomic<UInt32>(0)
    /// Counts those that have waited; it overflows.
    private let admittedCount = Atomic<UInt32>(0)

    public init(_ value: consuming sending Value) {
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        let code = pthread_mutex_init(mutex, nil)
        precondition(code == 0, "pthread_mutex_init returned \(code)")
        self.value = value
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Runs `body` with the lock held. `body` must not lock the same value again.
    @inline(__always)
    public func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        if pthread_mutex_trylock(mutex) != 0 { wait() }
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
    }

    @inline(never)
    @usableFromInline
    func wait() {
        waitingCount.add(1, ordering: .relaxed)
        pthread_mutex_lock(mutex)
        waitingCount.subtract(1, ordering: .relaxed)
        admittedCount.add(1, ordering: .relaxed)
    }

    /// Lets a thread that waits for the lock have it, for a thread that would take it again at
    /// once. Returns when another thread has had it, when none waits, or after 10 milliseconds.
    public func yieldToWaiting() {
        let admitted = admittedCount.load(ordering: .relaxed)
        var (pause, rest) = (timespec(tv_sec: 0, tv_nsec: 20_000), 500)
        while waitingCount.load(ordering: .relaxed) > 0,
            admittedCount.load(ordering: .relaxed) == admitted, rest > 0
        {
            nanosleep(&pause, nil)
            rest -= 1
        }
    }
}
