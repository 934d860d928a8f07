// Counts the lines of standard input that were sent, answered and refused, for the message at the
// end of the command.

import CommandLineOptions
import MartletClient
import Threads

/// Counts lines. The reading task and the client's thread use it.
final class LineProgress: Sendable {
    private struct State {
        var sentCount: UInt64 = 0
        var answeredCount: UInt64 = 0
        var failedCount: UInt64 = 0
        /// The first line that failed, counted from 1.
        var failure: (line: UInt64, error: MartletError)?
        /// The first refused receivers, and their number.
        var refusals: [Receipt.Refusal] = []
        var refusedCount: UInt64 = 0
        var waiter: (limit: UInt64, CheckedContinuation<Void, Never>)?

        /// Lines without a result.
        var openCount: UInt64 { sentCount - answeredCount - failedCount }

        mutating func takeWaiter() -> CheckedContinuation<Void, Never>? {
            guard let (limit, waiter) = waiter, openCount < limit else { return nil }
            self.waiter = nil
            return waiter
        }
    }

    /// Refused receivers that are named after many lines: enough to identify the users concerned.
    private static let namedMaximum = 100

    private let maximum: UInt64
    private let whenFailed: @Sendable () -> Void
    private let state = Locked(State())

    /// - Parameters:
    ///   - maximum: the maximum of unanswered lines.
    ///   - whenFailed: called with the first failure.
    init(maximum: UInt64, whenFailed: @escaping @Sendable () -> Void) {
        self.maximum = maximum
        self.whenFailed = whenFailed
    }

    var failure: (line: UInt64, error: MartletError)? { state.withLock { $0.failure } }
    /// The first receivers that were refused, ``namedMaximum`` at most.
    var refusals: [Receipt.Refusal] { state.withLock { $0.refusals } }
    /// The number of refused receivers.
    var refusedCount: UInt64 { state.withLock { $0.refusedCount } }
    /// Lines that were passed to the client.
    var sentCount: UInt64 { state.withLock { $0.sentCount } }
    /// Lines that the broker has acknowledged.
    var answeredCount: UInt64 { state.withLock { $0.answeredCount } }

    /// Waits until one more line may be sent; false if no more may be, because one has failed.
    func awaitRoom() async -> Bool {
        await wait(below: maximum)
        return failure == nil
    }

    /// Waits until all have their result.
    func finish() async { await wait(below: 1) }

    /// One line is sent; returns its number, from 1.
    func begin() -> UInt64 {
        state.withLock { state in
            state.sentCount += 1
            return state.sentCount
        }
    }

    func ended(_ line: UInt64, _ result: Result<Receipt, MartletError>) {
        let (waiter, hasFailed) = state.withLock { state in
            var hasFailed = false
            switch result {
            case .success(let receipt):
                state.answeredCount += 1
                let room = max(0, Self.namedMaximum - state.refusals.count)
                state.refusals += receipt.refusals.prefix(room)
                state.refusedCount += max(receipt.refusedCount, UInt64(receipt.refusals.count))
            case .failure(let error):
                hasFailed = state.failure == nil
                state.failure = state.failure ?? (line, error)
                state.failedCount += 1
            }
            return (state.takeWaiter(), hasFailed)
        }
        if hasFailed { whenFailed() }
        waiter?.resume()
    }

    private func wait(below limit: UInt64) async {
        await withCheckedContinuation { continuation in
            let isReady = state.withLock { state in
                if state.openCount < limit { return true }
                state.waiter = (limit, continuation)
                return false
            }
            if isReady { continuation.resume() }
        }
    }
}
