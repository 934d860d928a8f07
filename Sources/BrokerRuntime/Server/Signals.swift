// Receives signals as events of the main thread. They are blocked in every thread and received in
// one place, so that no code runs inside a signal handler.

import Glibc
import Threads

/// The signals of the broker: SIGTERM and SIGINT stop it in order, SIGHUP makes it read its files
/// again. SIGUSR1 and SIGUSR2 are ignored: scripts for other brokers send them, to rotate a log
/// file or to dump the state, and the broker writes its log to standard error.
public struct Signals {
    private let signals: BlockedSignals

    /// Blocks the signals in this thread and in every thread it starts afterwards.
    public init() {
        signals = BlockedSignals([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2])
        // A write to a closed peer fails with EPIPE; the signal must not end the process.
        _ = BlockedSignals([SIGPIPE])
    }

    enum Request: Equatable {
        case stop
        case reload
        /// A signal without a meaning: its name.
        case ignored(String)
        /// No signal arrived within the time.
        case none
    }

    /// Waits for one of them for at most `milliseconds`. After a request to stop, the next SIGTERM
    /// or SIGINT ends the process at once: everything acknowledged is on disk.
    func wait(milliseconds: Int) -> Request {
        switch signals.next(withinMilliseconds: milliseconds) {
        case SIGTERM, SIGINT:
            StopSignals([SIGTERM, SIGINT]).endAtNext()
            return .stop
        case SIGHUP: return .reload
        case SIGUSR1: return .ignored("SIGUSR1")
        case SIGUSR2: return .ignored("SIGUSR2")
        default: return .none
        }
    }
}
