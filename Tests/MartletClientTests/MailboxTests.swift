// The mailbox between the background thread and the application: order, bounds, and what was taken.
import Testing

@testable import MartletClient

@Suite struct MailboxTests {
    private func message(_ number: UInt64) -> Client.Event {
        .message(
            IncomingMessage(
                kind: .unicast, from: "alice", time: 1, content: .text("\(number)"),
                grade: number == 0 ? .transient : .durable, isPossibleDuplicate: false,
                record: number == 0 ? nil : InboxRecord(epoch: 7, number: number)))
    }

    @Test func `events come in order, then the end`() async {
        let mailbox = Mailbox()
        for number in 1...3 { mailbox.put(message(UInt64(number))) }
        mailbox.finish(.banned)
        mailbox.put(message(4))
        for number in 1...3 { #expect(await mailbox.next() == message(UInt64(number))) }
        #expect(await mailbox.next() == nil)
        #expect(mailbox.stopReason == .banned)
    }

    @Test func `a reader that waits is woken by an event, by the end and by its task's`() async {
        let mailbox = Mailbox()
        let first = Task { await mailbox.next() }
        mailbox.put(message(1))
        #expect(await first.value == message(1))
        let cancelled = Task { await mailbox.next() }
        cancelled.cancel()
        #expect(await cancelled.value == nil)
        let last = Task { await mailbox.next() }
        mailbox.finish()
        #expect(await last.value == nil)
    }

    @Test func `only what was taken is there to acknowledge, once`() async {
        let mailbox = Mailbox()
        mailbox.put(message(5))
        mailbox.put(message(6))
        #expect(mailbox.takeRecord() == nil)
        _ = await mailbox.next()
        #expect(mailbox.takeRecord() == InboxRecord(epoch: 7, number: 5))
        #expect(mailbox.takeRecord() == nil)
    }

    @Test func `transient messages beyond the bound are dropped and told`() async {
        let mailbox = Mailbox()
        let bound = ClientBounds.transientBufferMaximum
        for _ in 0..<bound + 3 { mailbox.put(message(0)) }
        // Numbered ones are bounded by the inbox window, not here.
        mailbox.put(message(9))
        for _ in 0..<bound { #expect(await mailbox.next() == message(0)) }
        #expect(await mailbox.next() == message(9))
        #expect(await mailbox.next() == .transientDropped(count: 3))
    }

    @Test func `changes of the connection that nobody looks at do not pile up`() async {
        let mailbox = Mailbox()
        let lost = Client.Event.disconnected(
            Disconnection(reason: nil, detail: "", retryMilliseconds: 1))
        for _ in 0..<10 * ClientBounds.connectionEventsMaximum { mailbox.put(lost) }
        mailbox.finish()
        var count = 0
        while await mailbox.next() != nil { count += 1 }
        #expect(count == ClientBounds.connectionEventsMaximum)
    }

    @Test func `a queue gives back in order and lets one out of the middle`() {
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
