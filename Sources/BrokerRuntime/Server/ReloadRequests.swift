// Where the administration thread asks the main thread for a reload, and waits for what came of it.

import Glibc
import Threads

/// What came of a reload.
enum ReloadOutcome: Hashable, Sendable {
    /// The new settings are in use, but for keys that need a restart: the keys that have changed
    /// since they were last read, and those that differ from the start; and the certificates, keys
    /// and lists that have changed since they were last read.
    case applied(changed: [String], needsRestart: [String], files: [String])
    /// The configuration or one of its files is invalid, and the old settings remain in use.
    case refused(String)

    var isApplied: Bool {
        if case .applied = self { true } else { false }
    }
}

/// One reload at a time: only the administration thread asks.
final class ReloadRequests: Sendable {
    private enum State {
        case idle
        /// The outcome is nil until the main thread has one.
        case asked(ReloadOutcome?)
        /// The broker stops, or nobody reloads: it has no main loop.
        case closed
    }

    private let state = Locked(State.closed)
    private let isDone = WakeSignal()

    /// The main thread reloads from now on.
    func open() { state.withLock { $0 = .idle } }

    /// The main thread reloads no more. Who waits gets nil.
    func close() {
        state.withLock { $0 = .closed }
        isDone.notify()
    }

    /// Whether a reload was asked for.
    var isAsked: Bool {
        state.withLock { if case .asked(nil) = $0 { true } else { false } }
    }

    /// Asks for a reload, and waits until the main thread has made it: it reads a few files.
    ///
    /// - Returns: nil if the broker stops.
    func ask() -> ReloadOutcome? {
        let isOpen = state.withLock { state in
            guard case .idle = state else { return false }
            state = .asked(nil)
            return true
        }
        guard isOpen else { return nil }
        // The main thread waits for signals, and this is the one for a reload.
        kill(getpid(), SIGHUP)
        while true {
            _ = isDone.wait()
            let answer: (isFinal: Bool, outcome: ReloadOutcome?) = state.withLock { state in
                switch state {
                case .asked(let outcome?):
                    state = .idle
                    return (true, outcome)
                case .asked(nil): return (false, nil)
                case .idle, .closed: return (true, nil)
                }
            }
            if answer.isFinal { return answer.outcome }
        }
    }

    /// Takes the outcome of a reload, for who asked for it, if anybody did.
    func finish(_ outcome: ReloadOutcome) {
        state.withLock { state in
            if case .asked = state { state = .asked(outcome) }
        }
        isDone.notify()
    }
}
