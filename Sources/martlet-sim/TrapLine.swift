// The output of a run that traps: a precondition of the core ends the process, and the command that
// repeats the run must still be printed.

import Glibc

enum TrapLine {
    /// Room for the line: a signal handler may not allocate.
    private static let capacity = 512
    // The program has one thread, and the handler runs on it.
    nonisolated(unsafe) private static let bytes =
        UnsafeMutablePointer<UInt8>.allocate(capacity: capacity)
    nonisolated(unsafe) private static var count = 0

    /// Prints this line if the process traps from now on.
    static func set(_ line: String) {
        let text = Array("\(line)\n".utf8.prefix(capacity))
        bytes.update(from: text, count: text.count)
        count = text.count
    }

    /// Takes the signals that a trap ends in.
    static func install() {
        for trap in [SIGILL, SIGTRAP, SIGSEGV, SIGABRT] {
            signal(trap) { number in
                _ = write(2, TrapLine.bytes, TrapLine.count)
                signal(number, SIG_DFL)
                raise(number)
            }
        }
    }
}
