// Ends a command early: at its timeout, or at a signal. In both cases the client disconnects
// normally: the broker sends no will, and all waiting calls of the client end.

import CommandLineOptions
import Glibc
import MartletClient
import Threads

/// The early end of one command with a client.
final class CommandStop: Sendable {
    private enum Cause {
        case timeout(seconds: UInt64)
        case signal(StopSignal)
    }

    private struct State {
        var cause: Cause?
        var timer: Task<Void, Never>?
        /// Ends other waits, such as for input.
        var stopped: [@Sendable () -> Void] = []
    }

    /// The command that a signal ends; nil if the program can end immediately.
    private static let current = Locked<CommandStop?>(nil)
    /// Where a command without a client finds the first signal; nil if the program can end
    /// immediately.
    private static let noted = Locked<Locked<StopSignal?>?>(nil)
    /// How long a stopped command may take to report it after its client has disconnected: a write
    /// to a stopped terminal would block forever.
    private static let reportSecondsMaximum = 1

    private let client: Client
    private let state = Locked(State())

    private init(_ client: Client) { self.client = client }

    // MARK: - Signals

    /// Receives the signals of the program from now on. Must be called before the first thread
    /// starts.
    static func receiveSignals() {
        // Writing to a closed pipe returns EPIPE, so that the command can report it.
        signal(SIGPIPE, SIG_IGN)
        StopSignals().whenFirstComes { signal in
            if let noted = noted.withLock({ $0 }) {
                noted.withLock { $0 = signal }
                return
            }
            guard let command = current.withLock({ $0 }) else { _exit(signal.exitStatus) }
            command.end(.signal(signal))
            Task.detached {
                await command.client.close()
                try? await Task.sleep(for: .seconds(reportSecondsMaximum))
                _exit(signal.exitStatus)
            }
        }
    }

    /// Makes the first signal a value that the command looks at, for a command that has something
    /// to end at the broker.
    static func noteSignals() -> Locked<StopSignal?> {
        let signal = Locked<StopSignal?>(nil)
        noted.withLock { $0 = signal }
        return signal
    }

    // MARK: - Running

    /// Runs `body` with a client that disconnects normally in any case.
    ///
    /// - Parameter seconds: the time limit; nil for none.
    static func run<Value>(
        _ settings: ClientSettings, seconds: UInt64?,
        _ body: (Client, CommandStop) async throws -> Value
    ) async throws -> Value {
        let client = try Client(settings)
        let stop = CommandStop(client)
        current.withLock { $0 = stop }
        stop.limit(seconds: seconds)
        do {
            let value = try await body(client, stop)
            let failure = stop.failure
            stop.limit(seconds: nil)
            await client.close()
            if let failure { throw failure }
            return value
        } catch {
            stop.limit(seconds: nil)
            let failure = stop.failure
            await client.close()
            // The body may have reported the same cause in its own words.
            guard let failure, (error as? CommandFailure)?.code != failure.code else { throw error }
            throw failure
        }
    }

    /// Sets the time limit again, counted from now; nil for none.
    func limit(seconds: UInt64?) {
        let timer = seconds.map { seconds in
            Task.detached { [self] in
                do {
                    try await Task.sleep(for: .seconds(seconds))
                } catch {
                    return
                }
                end(.timeout(seconds: seconds))
                await client.close()
            }
        }
        state.withLock { state in
            state.timer?.cancel()
            state.timer = timer
        }
    }

    /// Calls `body` when the command is stopped, or at once if it was.
    func whenEnded(_ body: @escaping @Sendable () -> Void) {
        let isEnded = state.withLock { state in
            if state.cause == nil { state.stopped.append(body) }
            return state.cause != nil
        }
        if isEnded { body() }
    }

    private func end(_ cause: Cause) {
        let stopped = state.withLock { state in
            state.cause = state.cause ?? cause
            defer { state.stopped = [] }
            return state.stopped
        }
        for body in stopped { body() }
    }

    /// The reason why the command was stopped; nil if it was not.
    var failure: CommandFailure? {
        switch state.withLock({ $0.cause }) {
        case nil: nil
        case .timeout(let seconds):
            CommandFailure(
                "nothing more after \(seconds) s: the time given with --timeout is over", .timeout)
        case .signal(let signal):
            CommandFailure("ended by \(signal.name)", .stopped(by: signal.number))
        }
    }
}
