// What other threads give back to the relay's: results of publications, of datagrams to names, and
// of removals at the broker.

import Relay
import Threads

enum PushReturn: Sendable {
    case sent(tag: UInt64, SendOutcome)
    /// The broker's reason; nil if it has no such target any more.
    case removed(WakeKey, refusal: String?)
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
