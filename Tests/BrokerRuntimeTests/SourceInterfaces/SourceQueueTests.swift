// Answers to events of sockets that have closed.

import BrokerTerms
import Testing

@testable import BrokerRuntime

@Suite struct SourceQueueTests {
    private let queue = SourceQueue()
    private let first = ConnectionID(loop: 0, slot: 1, generation: 1)
    private let second = ConnectionID(loop: 0, slot: 2, generation: 1)

    @Test func `an answer waits for the loop of its socket`() {
        queue.deliver([1], to: first, on: 0)
        queue.deliver([2], to: second, on: 1)
        #expect(queue.takeAnswers(for: 0).map(\.text) == [[1]])
        #expect(queue.takeAnswers(for: 0).isEmpty)
        #expect(queue.takeAnswers(for: 1).map(\.connection) == [second])
    }

    @Test func `an answer for a socket that has closed is not kept`() {
        // Before the answer.
        queue.abandonEvent(of: first, on: 0)
        queue.deliver([1], to: second, on: 0)
        queue.deliver([1], to: first, on: 0)
        #expect(queue.keptCounts == (abandoned: 0, answers: 1))
        // After it.
        queue.abandonEvent(of: second, on: 0)
        #expect(queue.keptCounts == (abandoned: 0, answers: 0))
        // The next connection of the slot gets its own.
        let next = ConnectionID(loop: 0, slot: 1, generation: 2)
        queue.deliver([3], to: next, on: 0)
        #expect(queue.takeAnswers(for: 0).map(\.text) == [[3]])
    }
}
