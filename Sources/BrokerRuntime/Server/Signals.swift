// Receives signals as events of the main thread. They are blocked in every thread and received in
// one place, so that no code runs inside a signal handler.

import Glibc
import Threads

/// The signals of the broker: SIGTERM and SIGINT stop it in order, SIGHUP makes it read its files
/// again.
public struct Signals {
    private var waited = sigset_t()

    /// Blocks the signals in this thread and in every thread it starts afterwards.
    public init() {
        sigemptyset(&waited)
        for signal in [SIGTERM, SIGINT, SIGHUP] { sigaddset(&waited, signal) }
        pthread_sigmask(SIG_BLOCK, &waited, nil)
        var ignored = sigset_t()
        sigemptyset(&ignored)
        // Writing to a closed connection returns EPIPE instead.
        sigaddset(&ignored, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &ignored, nil)
    }

    enum Request {
        case stop
        case reload
        /// No signal arrived within the time.
        case none
    }

    /// Waits for a signal for at most `milliseconds`. After a request to stop, the next SIGTERM or
    /// SIGINT ends the process at once; acknowledged messages are on disk.
    mutating func wait(milliseconds: Int) -> Request {
        var time = timespec(
            tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000)
        switch sigtimedwait(&waited, nil, &time) {
        case SIGTERM, SIGINT:
            StopSignals([SIGTERM, SIGINT]).endAtNext()
            return .stop
        case SIGHUP: return .reload
        default: return .none
        }
    }
}
