// The time that a command may take: when it is over, the client is closed, and everything that
// waits for it ends.

import MartletClient
import Threads

/// Closes a client after some time.
final class Timeout: Sendable {
    private let state = Locked<(isOver: Bool, task: Task<Void, Never>?)>((false, nil))
    let message: String

    /// - Parameter seconds: nil for no limit.
    init(seconds: UInt64?, closing client: Client) {
        message = "nothing more after \(seconds ?? 0) s: the time given with --timeout is over"
        guard let seconds else { return }
        let task = Task { [self] in
            do {
                try await Task.sleep(for: .seconds(seconds))
            } catch {
                return
            }
            state.withLock { $0.isOver = true }
            await client.close()
        }
        state.withLock { $0.task = task }
    }

    var isOver: Bool { state.withLock { $0.isOver } }

    func cancel() {
        state.withLock { $0.task }?.cancel()
    }
}
