// Ends the harness early after a signal. Long operations check it repeatedly and end in order:
// clients disconnect, the brokers of a comparison end, and nothing remains in /tmp.

import CommandLineOptions
import Synchronization
import Threads

enum Interruption {
    /// The number of the first signal; 0 while there was none.
    private static let number = Atomic<Int32>(0)

    /// Receives the signals of the program from now on. Must be called before the first thread
    /// starts.
    static func receiveSignals() {
        StopSignals().whenFirstComes { number.store($0.number, ordering: .releasing) }
    }

    static var hasCome: Bool { number.load(ordering: .acquiring) != 0 }

    /// The reason why a run ends, as text; nil if no signal has arrived.
    static var reason: String? {
        let signal = number.load(ordering: .acquiring)
        return signal == 0 ? nil : "ended by \(StopSignal(number: signal).name)"
    }

    /// The exit code of an interrupted run.
    static var exitCode: ExitCode? {
        let signal = number.load(ordering: .acquiring)
        return signal == 0 ? nil : .stopped(by: signal)
    }
}
