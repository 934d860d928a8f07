// The event buffer between the background thread and the application: order, limits, and
// acknowledgements.
import Testing

@testable import MartletClient

@Suite struct EventBufferTests {
    private func message(_ number: UInt64) -> Client.Event {
        .message(
            IncomingMessage(
                kind: .unicast, from: "alice", time: 1, content: .text("\(number)"),
                grade: number == 0 ? .transient : .durable, isPossibleDuplicate: false,
                record: number == 0 ? nil : InboxRecord(epoch: 7, number: number)))
    }

    @Test func `events come in order, then the end`() async {
        let events = EventBuffer()
        for number in 1...3 { events.put(message(UInt64(number))) }
        events.finish(.banned)
        events.put(message(4))
        for number in 1...3 { #expect(await events.next() == message(UInt64(number))) }
        #expect(await events.next() == nil)
        #expect(events.stopReason == .banned)
    }

    @Test func `a waiting reader is woken by an event, by the end and by cancellation`() async {
        let events = EventBuffer()
        let first = Task { await events.next() }
        events.put(message(1))
        #expect(await first.value == message(1))
        let cancelled = Task { await events.next() }
        cancelled.cancel()
        #expect(await cancelled.value == nil)
        let last = Task { await events.next() }
        events.finish()
        #expect(await last.value == nil)
    }

    @Test func `only messages that were read can be acknowledged, once`() async {
        let events = EventBuffer()
        events.put(message(5))
        events.put(message(6))
        #expect(events.takeRecord() == nil)
        _ = await events.next()
        #expect(events.takeRecord() == InboxRecord(epoch: 7, number: 5))
        #expect(events.takeRecord() == nil)
    }

    @Test func `transient messages above the limit are dropped and reported`() async {
        let events = EventBuffer()
        let bound = ClientBounds.transientBufferMaximum
        for _ in 0..<bound + 3 { events.put(message(0)) }
        // Numbered ones are bounded by the inbox window, not here.
        events.put(message(9))
        for _ in 0..<bound { #expect(await events.next() == message(0)) }
        #expect(await events.next() == message(9))
        #expect(await events.next() == .transientDropped(count: 3))
    }

    @Test func `unread connection events do not accumulate`() async {
        let events = EventBuffer()
        let bound = ClientBounds.connectionEventsMaximum
        func lost(_ number: Int) -> Client.Event {
            .disconnected(
                Disconnection(reason: nil, detail: "", retryMilliseconds: UInt64(number)))
        }
        events.put(message(1))
        for number in 0..<10 * bound { events.put(lost(number)) }
        events.finish()
        #expect(await events.next() == message(1))
        // The last one tells the state.
        for number in 9 * bound..<10 * bound { #expect(await events.next() == lost(number)) }
        #expect(await events.next() == nil)
    }

    @Test func `a queue keeps its order and allows removal from the middle`() {
        var queue = FIFO<Int>()
        var expected = 0
        for number in 0..<1_000 {
            queue.append(number)
            if number % 3 == 2 {
                #expect(queue.first == expected)
                #expect(queue.popFirst() == expected)
                expected += 1
            }
        }
        #expect(queue.remove { $0 == 700 } == 700)
        #expect(queue.remove { $0 == 700 } == nil)
        while let number = queue.popFirst() {
            #expect(number == expected)
            expected += expected == 699 ? 2 : 1
        }
        #expect(expected == 1_000 && queue.isEmpty)
    }
}
