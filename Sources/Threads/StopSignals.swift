// Receives the signals that request a program's end, for all programs of this package. A separate
// thread receives them, so that no code runs inside a signal handler. The first signal requests an
// orderly end; the next one ends the program at once, because an orderly end may wait for a
// network.

import Glibc

/// A signal that requests the program's end.
public struct StopSignal: Hashable, Sendable {
    /// SIGINT, SIGTERM or SIGHUP.
    public let number: Int32

    public init(number: Int32) { self.number = number }

    /// What shells report for a program that ended because of this signal: 130 for SIGINT, 143 for
    /// SIGTERM, 129 for SIGHUP.
    public var exitStatus: Int32 { 128 + number }

    /// The name, as in `kill -l`.
    public var name: String {
        switch number {
        case SIGINT: "SIGINT"
        case SIGTERM: "SIGTERM"
        case SIGHUP: "SIGHUP"
        default: "signal \(number)"
        }
    }
}

/// Signals that are blocked in every thread and received in one place, so that no code runs inside
/// a signal handler.
public struct BlockedSignals: Sendable {
    private var waited = sigset_t()

    /// Blocks the signals in this thread and in every thread that is started afterwards: call it
    /// before the first one.
    public init(_ signals: [Int32]) {
        sigemptyset(&waited)
        for signal in signals { sigaddset(&waited, signal) }
        pthread_sigmask(SIG_BLOCK, &waited, nil)
    }

    /// Waits for one of them and returns its number.
    public func next() -> Int32 {
        var waited = waited
        var number: Int32 = 0
        while sigwait(&waited, &number) != 0 {}
        return number
    }

    /// Like ``next()``; nil if no signal arrives within the time.
    public func next(withinMilliseconds milliseconds: Int) -> Int32? {
        var waited = waited
        var time = timespec(
            tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000)
        let number = sigtimedwait(&waited, nil, &time)
        return number > 0 ? number : nil
    }
}

/// Receives the signals that request the program's end.
public struct StopSignals: Sendable {
    private let signals: BlockedSignals

    /// Blocks the signals in this thread and in every thread that is started afterwards: call it
    /// before the first one.
    ///
    /// SIGHUP stays ignored if the parent process ignored it, as `nohup` does. (A blocked signal
    /// would be received although it is ignored.) SIGINT does not: a shell without job control
    /// ignores it for all background processes, and a script that sends it intends it.
    ///
    /// - Parameter signals: a program that reloads its files at SIGHUP leaves that one out.
    public init(_ signals: [Int32] = [SIGINT, SIGTERM, SIGHUP]) {
        self.signals = BlockedSignals(
            signals.filter { $0 != SIGHUP || !Self.isIgnored($0) })
    }

    private static func isIgnored(_ signal: Int32) -> Bool {
        var action = sigaction()
        guard sigaction(signal, nil, &action) == 0 else { return false }
        // SIG_IGN is the address 1; functions cannot be compared.
        return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == 1
    }

    /// Calls `body` on a thread of its own when the first signal arrives. The next SIGINT or
    /// SIGTERM ends the process at once with ``StopSignal/exitStatus``.
    ///
    /// - Parameters:
    ///   - others: called at each of these signals, which do not stop the program. They must be
    ///     among those of the initialiser.
    ///   - body: must return soon, as the others, because the next signal is received afterwards.
    public func whenFirstComes(
        besides others: [Int32: @Sendable () -> Void] = [:],
        _ body: @escaping @Sendable (StopSignal) -> Void
    ) {
        let signals = signals
        let isStarted = Thread.detach(name: "signals") {
            var number = signals.next()
            while let other = others[number] {
                other()
                number = signals.next()
            }
            body(StopSignal(number: number))
            Self.endAtNext(signals, ignoring: Set(others.keys))
        }
        precondition(isStarted, "process \(getpid()) cannot start the thread for signals")
    }

    /// Makes the next signal end the process at once, for a program that has received the first one
    /// by other means.
    public func endAtNext() {
        let signals = signals
        // Without a thread the program still ends by itself, only later.
        _ = Thread.detach(name: "signals") { Self.endAtNext(signals) }
    }

    private static func endAtNext(
        _ signals: BlockedSignals, ignoring others: Set<Int32> = []
    ) -> Never {
        while true {
            let signal = StopSignal(number: signals.next())
            // A terminal that closes sends SIGHUP once from the system and once from the shell, and
            // systemd may send it right behind SIGTERM: it does not request an immediate end.
            if signal.number != SIGHUP, !others.contains(signal.number) {
                _exit(signal.exitStatus)
            }
        }
    }
}
