// A question that the thread of the administration asks event loops: only the loop of a connection
// knows its peer, its unsent bytes and what it sends. Nothing is kept where nobody asks.

import BrokerTerms
import NetTransport
import Synchronization
import Threads

/// All questions.
final class LoopInquiries: Sendable {
    let places = LoopInquiry<[ConnectionID], [ConnectionID: ConnectionPlace]>()
    let activity = LoopInquiry<Void, LoopActivity>()
}

/// A question at a time, and the answers of the loops that are asked.
final class LoopInquiry<Question: Sendable, Answer: Sendable>: Sendable {
    private struct State {
        var question: Question?
        var answers: [Answer] = []
    }

    private let state = Locked(State())
    /// A bit for each loop that has not answered.
    private let awaited = Atomic<UInt64>(0)
    private let answerSignal = WakeSignal()

    /// A turn of a loop takes a few milliseconds. One that is stuck is left out.
    private static var patienceMilliseconds: Int32 { 500 }

    /// Asks loops, and waits for their answers. Only one thread at a time may call it.
    ///
    /// - Parameters:
    ///   - asked: a bit for each loop.
    ///   - loops: all loops.
    func ask(_ question: Question, of asked: UInt64, in loops: [LoopHandle]) -> [Answer] {
        guard asked != 0 else { return [] }
        state.withLock { $0 = State(question: question) }
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
            return state.answers
        }
    }

    /// The question, if the loop is asked.
    func question(for loop: UInt8) -> Question? {
        guard awaited.load(ordering: .acquiring) & 1 << UInt64(loop) != 0 else { return nil }
        return state.withLock { $0.question }
    }

    /// Takes the answer of a loop.
    func answer(_ loop: UInt8, with answer: Answer) {
        state.withLock { $0.answers.append(answer) }
        awaited.bitwiseAnd(~(1 << UInt64(loop)), ordering: .acquiringAndReleasing)
        answerSignal.notify()
    }
}
