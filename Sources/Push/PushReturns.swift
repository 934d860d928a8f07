// What other threads give back to the relay's: results of publications, of datagrams to names, of
// removals at the broker, and of reports to it.

import Relay
import Threads

enum PushReturn: Sendable {
    case sent(tag: UInt64, SendOutcome)
    /// The broker's reason; nil if it has no such target any more.
    case removed(WakeKey, refusal: String?)
    case reported(ReportOutcome)
}

final class PushReturns: Sendable {
    private let waker: RelayWaker
    private let state = Locked<[PushReturn]>([])

    init(_ waker: RelayWaker) { self.waker = waker }

    func put(_ value: PushReturn) {
        state.withLock { $0.append(value) }
        waker.wake()
    }

    func takeAll() -> [PushReturn] {
        state.withLock { values in
            defer { values = [] }
            return values
        }
    }
}
