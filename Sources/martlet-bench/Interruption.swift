// What asks the harness to end before it is done: a signal. Everything that takes long looks here
// from time to time and leaves in order: clients disconnect, brokers of a comparison end, and
// nothing is left in /tmp.

import CommandLineOptions
import Synchronization
import Threads

enum Interruption {
    /// The number of the first signal; 0 while there was none.
    private static let number = Atomic<Int32>(0)

    /// Receives the signals of the program from now on: before the first thread is started.
    static func receiveSignals() {
        StopSignals().whenFirstComes { number.store($0.number, ordering: .releasing) }
    }

    static var hasCome: Bool { number.load(ordering: .acquiring) != 0 }

    /// Why a run ends, in words; nil if no signal has come.
    static var reason: String? {
        let signal = number.load(ordering: .acquiring)
        return signal == 0 ? nil : "ended by \(StopSignal(number: signal).name)"
    }

    /// The exit code of a run that was asked to end.
    static var exitCode: ExitCode? {
        let signal = number.load(ordering: .acquiring)
        return signal == 0 ? nil : .stopped(by: signal)
    }
}
