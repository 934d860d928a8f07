// What the thread of the administration asks the event loops about connections: only the loop of a
// connection knows its peer. Nothing is kept for connections that nobody asks about.

import BrokerTerms
import NetTransport
import Synchronization
import Threads

/// Where a connection comes from.
struct ConnectionPlace: Sendable {
    let peer: SocketAddress
    /// The index of the terms of its listener.
    let terms: UInt8
}

/// A question at a time, for all event loops.
final class PeerInquiries: Sendable {
    private struct State {
        var questions: [ConnectionID] = []
        var places: [ConnectionID: ConnectionPlace] = [:]
    }

    private let state = Locked(State())
    /// A bit for each loop that has not answered.
    private let awaited = Atomic<UInt64>(0)
    private let answerSignal = WakeSignal()

    /// A turn of a loop takes a few milliseconds. One that is stuck is left out.
    private static let patienceMilliseconds: Int32 = 500

    /// Asks the loops of connections for their places, and waits for the answers. Connections that
    /// have closed are not in the result. Only one thread at a time may call it.
    func places(
        of connections: [ConnectionID], in loops: [LoopHandle]
    ) -> [ConnectionID: ConnectionPlace] {
        let asked = connections.reduce(into: UInt64(0)) { $0 |= 1 << UInt64($1.loop) }
        guard asked != 0 else { return [:] }
        state.withLock { $0 = State(questions: connections) }
        awaited.store(asked, ordering: .releasing)
        for (index, loop) in loops.enumerated() where asked & 1 << UInt64(index) != 0 {
            loop.wake()
        }
        while awaited.load(ordering: .acquiring) != 0 {
            guard answerSignal.wait(milliseconds: Self.patienceMilliseconds) else { break }
        }
        // A loop that is late finds nothing to answer.
        awaited.store(0, ordering: .releasing)
        return state.withLock { state in
            defer { state = State() }
            return state.places
        }
    }

    /// The connections of a loop that it is asked about; nil if it is not asked.
    func questions(for loop: UInt8) -> [ConnectionID]? {
        guard awaited.load(ordering: .acquiring) & 1 << UInt64(loop) != 0 else { return nil }
        return state.withLock { $0.questions.filter { $0.loop == loop } }
    }

    /// Takes the answer of a loop.
    func answer(_ loop: UInt8, with places: [ConnectionID: ConnectionPlace]) {
        state.withLock { $0.places.merge(places) { $1 } }
        awaited.bitwiseAnd(~(1 << UInt64(loop)), ordering: .acquiringAndReleasing)
        answerSignal.notify()
    }
}
