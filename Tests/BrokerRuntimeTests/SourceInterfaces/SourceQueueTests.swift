// Who may have how many requests wait, in which order they are executed, and answers to events of
// sockets that have closed.

import BrokerTerms
import NetTransport
import Primitives
import SourceInterfaces
import Testing

@testable import BrokerRuntime

@Suite struct SourceQueueTests {
    private let queue = SourceQueue()
    private let first = ConnectionID(loop: 0, slot: 1, generation: 1)
    private let second = ConnectionID(loop: 0, slot: 2, generation: 1)

    private func call(
        _ number: UInt32, from address: UInt8, to route: SourceRoute = .makeNonce
    ) -> SourceCall {
        SourceCall(
            connection: first, number: number, loop: 0,
            request: SourceRequest(
                route: route, query: [], content: [], contentForm: .json, host: "h", user: nil),
            credential: nil,
            address: SocketAddress(
                IPAddress(version4: 0x0A00_0000 + UInt32(address)), port: 1),
            began: Instant(milliseconds: 0))
    }

    private func takeAll() -> [UInt32] {
        var numbers: [UInt32] = []
        while let call = queue.takeReady(at: Instant(milliseconds: 0)).first {
            numbers.append(call.number)
            queue.finish(call)
        }
        return numbers
    }

    @Test func `holders with many requests keep out and delay nobody`() {
        var number: UInt32 = 0
        var refusedCount = 0
        for address in 1...8 as ClosedRange<UInt8> {
            for _ in 0..<8 {
                number += 1
                if !queue.add(call(number, from: address)) { refusedCount += 1 }
            }
        }
        // The second half of the places is for others.
        #expect(refusedCount == 28)
        for address in 100..<128 as Range<UInt8> {
            #expect(queue.add(call(UInt32(address), from: address)))
            #expect(!queue.add(call(0, from: address)))
        }
        #expect(!queue.add(call(0, from: 200)))
        let order = takeAll()
        #expect(order.count == 64)
        // One of each attacker, then one of each other.
        #expect(Array(order[8..<36]) == Array(100..<128))
        #expect(queue.add(call(1, from: 200)))
    }

    @Test func `passwords are hashed by the turns of addresses`() {
        for address in 1...8 as ClosedRange<UInt8> {
            for number in 0..<3 as Range<UInt32> {
                let call = call(number, from: address, to: .passwordLogin)
                #expect(queue.add(call) == (number < 2))
            }
        }
        #expect(queue.add(call(9, from: 9, to: .passwordLogin)))
        var numbers: [UInt32] = []
        while let call = queue.takeUnhashed() { numbers.append(call.number) }
        #expect(numbers == [0, 0, 0, 0, 0, 0, 0, 0, 9, 1, 1, 1, 1, 1, 1, 1, 1])
    }

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
