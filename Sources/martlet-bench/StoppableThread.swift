// A thread that can be cancelled: the floor's and the pacer's.

import Glibc
import Synchronization
import Threads

/// Whether a thread should end.
final class StopFlag: Sendable {
    private let flag = Atomic(false)

    var isCancelled: Bool { flag.load(ordering: .acquiring) }

    fileprivate func cancel() { flag.store(true, ordering: .releasing) }
}

/// A running thread, whose body reads its stop flag repeatedly.
final class StoppableThread {
    private let stopFlag = StopFlag()
    private let thread: Thread

    init(name: String, _ body: @escaping @Sendable (StopFlag) -> Void) {
        let stopFlag = stopFlag
        thread = Thread(name: name) { body(stopFlag) }
    }

    /// Counts the thread's CPU time.
    var clock: clockid_t { thread.cpuClock }

    /// Tells the thread to end and waits for it.
    func stop() {
        stopFlag.cancel()
        thread.join()
    }
}
