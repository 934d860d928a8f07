// SIGTERM and SIGINT as a call on a thread of their own, so that no code runs in a signal handler.

import Glibc
import Threads

/// The signals that ask the program to stop.
struct StopSignals {
    private var waited = sigset_t()

    /// Blocks them in this thread, and in all that it starts afterwards: before the first one.
    init() {
        sigemptyset(&waited)
        sigaddset(&waited, SIGTERM)
        sigaddset(&waited, SIGINT)
        pthread_sigmask(SIG_BLOCK, &waited, nil)
    }

    /// Calls `body` on a thread of its own when the first of them comes.
    func whenFirstComes(_ body: sending @escaping () -> Void) {
        let blocked = waited
        let isStarted = Thread.detach(name: "signals") {
            var waited = blocked
            var signal: Int32 = 0
            sigwait(&waited, &signal)
            body()
        }
        precondition(isStarted, "no thread to be had")
    }
}
