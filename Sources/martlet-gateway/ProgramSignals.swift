// The signals of a gateway, a bridge and a relay: stop, read the files again, write a line
// of counters.

import Glibc
import Threads

/// Receives the signals of a program on a thread of its own.
struct ProgramSignals {
    private let signals = StopSignals([SIGINT, SIGTERM, SIGHUP, SIGUSR1])

    /// - Parameters:
    ///   - reload: called at each SIGHUP; nil if SIGHUP stops the program too.
    ///   - report: called at each SIGUSR1.
    ///   - stop: called at the first signal that stops the program. The next SIGINT or SIGTERM ends
    ///     it at once.
    func receive(
        reload: (@Sendable () -> Void)?, report: @escaping @Sendable () -> Void,
        stop: @escaping @Sendable () -> Void
    ) {
        var others: [Int32: @Sendable () -> Void] = [SIGUSR1: report]
        if let reload { others[SIGHUP] = reload }
        signals.whenFirstComes(besides: others) { _ in stop() }
    }
}
