// What ends a command before it is done: its time, or a signal. Either closes the client, which
// leaves in order: the broker sends no will, and everything that waits for the client ends.

import CommandLineOptions
import Glibc
import MartletClient
import Threads

/// The end of one command with a client.
final class CommandStop: Sendable {
    private enum Cause {
        case timeout(seconds: UInt64)
        case signal(StopSignal)
    }

    private struct State {
        var cause: Cause?
        var timer: Task<Void, Never>?
        /// What else has to end, such as a wait for input.
        var stopped: [@Sendable () -> Void] = []
    }

    /// The command that a signal ends; nil where the program can just end.
    private static let current = Locked<CommandStop?>(nil)
    /// How long a command that was asked to end may take to say so, when its client has left: a
    /// write to a terminal that is stopped would take for ever.
    private static let reportSecondsMaximum = 1

    private let client: Client
    private let state = Locked(State())

    private init(_ client: Client) { self.client = client }

    // MARK: - Signals

    /// Receives the signals of the program from now on: before the first thread is started.
    static func receiveSignals() {
        // Writing to a closed pipe returns EPIPE, so that the command can report it.
        signal(SIGPIPE, SIG_IGN)
        StopSignals().whenFirstComes { signal in
            guard let command = current.withLock({ $0 }) else { _exit(signal.exitStatus) }
            command.end(.signal(signal))
            Task.detached {
                await command.client.close()
                try? await Task.sleep(for: .seconds(reportSecondsMaximum))
                _exit(signal.exitStatus)
            }
        }
    }

    // MARK: - Running

    /// Runs `body` with a client that leaves in order, whatever ends it.
    ///
    /// - Parameter seconds: how long it may take; nil for ever.
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
            // The body may have put the same end into words of its own.
            guard let failure, (error as? CommandFailure)?.code != failure.code else { throw error }
            throw failure
        }
    }

    /// Sets the time anew, counted from now; nil for no limit.
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

    /// Calls `body` when the command is ended, or at once where it was.
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

    /// Why the command was ended; nil where it was not.
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
