// Where the door leaves a request for a backup and the writer finds it: the store belongs to the
// writer's thread, which copies it between two batches.

import QueueStore
import Threads

/// One backup at a time, from one thread to another.
final class BackupHandover: Sendable {
    private enum State {
        case idle
        case wanted(directory: String)
        case done(StoreError?)
    }

    private let state = Locked(State.idle)
    private let doneSignal = WakeSignal()

    /// Asks for a backup and waits until it is made. One thread at a time.
    ///
    /// - Parameter wakeWriter: gets the writer's attention.
    func request(_ directory: String, wakeWriter: () -> Void) throws(StoreError) {
        state.withLock { $0 = .wanted(directory: directory) }
        wakeWriter()
        while true {
            _ = doneSignal.wait()
            let outcome: StoreError?? = state.withLock { state in
                guard case .done(let error) = state else { return nil }
                state = .idle
                return .some(error)
            }
            guard let outcome else { continue }
            if let error = outcome { throw error }
            return
        }
    }

    /// Serves the request that there is, on the writer's thread.
    func serve(_ store: borrowing LMDBQueueStore) {
        let directory: String? = state.withLock {
            if case .wanted(let directory) = $0 { directory } else { nil }
        }
        guard let directory else { return }
        var failure: StoreError?
        do throws(StoreError) {
            try store.copy(to: directory)
        } catch {
            failure = error
        }
        state.withLock { $0 = .done(failure) }
        doneSignal.raise()
    }
}
