// The removal of the files of an app, which the thread of files carries out and that of the
// administration waits for.

import Threads

/// One removal.
final class FileRemoval: Sendable {
    let app: String
    private let hasEnded = WakeSignal()
    private let failure = Locked<String?>("the thread of files did not come to it")

    init(app: String) { self.app = app }

    /// - Parameter failure: nil for none.
    func end(_ failure: String?) {
        self.failure.withLock { $0 = failure }
        hasEnded.notify()
    }

    /// Waits for the end. Returns what has failed; nil for nothing.
    func wait(milliseconds: Int32) -> String? {
        _ = hasEnded.wait(milliseconds: milliseconds)
        return failure.withLock { $0 }
    }
}
