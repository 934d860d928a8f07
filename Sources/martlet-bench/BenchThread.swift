// A thread of the operating system, with its CPU clock, and a word by which it is told to end.

import Glibc
import Synchronization

/// A running thread. Its body looks at `shouldStop` from time to time.
final class BenchThread: Sendable {
    private final class Start: Sendable {
        let body: @Sendable (BenchThread) -> Void
        let thread: BenchThread
        init(_ thread: BenchThread, _ body: @escaping @Sendable (BenchThread) -> Void) {
            self.thread = thread
            self.body = body
        }
    }

    private let identifier = Mutex(pthread_t())
    private let stopWord = Atomic(false)

    init(_ body: @escaping @Sendable (BenchThread) -> Void) {
        let start = Unmanaged.passRetained(Start(self, body))
        identifier.withLock { identifier in
            let code = pthread_create(
                &identifier, nil,
                { argument in
                    let start = Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue()
                    start.body(start.thread)
                    return nil
                }, start.toOpaque())
            precondition(code == 0, "no thread to be had")
        }
    }

    var shouldStop: Bool { stopWord.load(ordering: .acquiring) }

    /// Counts the thread's CPU time.
    var clock: clockid_t {
        identifier.withLock { identifier in
            var clock = clockid_t()
            precondition(pthread_getcpuclockid(identifier, &clock) == 0, "a thread that is gone")
            return clock
        }
    }

    /// Tells the thread to end and waits until it has.
    func stop() {
        stopWord.store(true, ordering: .releasing)
        let identifier = identifier.withLock { $0 }
        pthread_join(identifier, nil)
    }
}
