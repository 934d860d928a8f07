// A thread with a word by which it is told to end: the floor's and the pacer's.

import Glibc
import Synchronization
import Threads

/// Says whether a thread should end.
final class StopWord: Sendable {
    private let word = Atomic(false)

    var isSaid: Bool { word.load(ordering: .acquiring) }

    fileprivate func say() { word.store(true, ordering: .releasing) }
}

/// A running thread, whose body looks at its stop word from time to time.
final class StoppableThread {
    private let stopWord = StopWord()
    private let thread: Thread

    init(name: String, _ body: @escaping @Sendable (StopWord) -> Void) {
        let stopWord = stopWord
        thread = Thread(name: name) { body(stopWord) }
    }

    /// Counts the thread's CPU time.
    var clock: clockid_t { thread.cpuClock }

    /// Tells the thread to end and waits until it has.
    func stop() {
        stopWord.say()
        thread.join()
    }
}
