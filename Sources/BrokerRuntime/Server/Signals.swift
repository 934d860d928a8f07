// Receives signals as events of the main thread. They are blocked in every thread and received in
// one place, so that no code runs inside a signal handler.

import Glibc
import Threads

/// The signals of the broker: SIGTERM and SIGINT stop it in order, SIGHUP makes it read its files
/// again.
public struct Signals {
    private let signals: BlockedSignals

    /// Blocks the signals in this thread and in every thread it starts afterwards.
    public init() {
        signals = BlockedSignals([SIGTERM, SIGINT, SIGHUP])
        // A write to a closed peer fails with EPIPE; the signal must not end the process.
        _ = BlockedSignals([SIGPIPE])
    }

    enum Request {
        case stop
        case reload
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
        default: return .none
        }
    }
}
