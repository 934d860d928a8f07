// Deliveries to a client: each once, acknowledged after its processing.

import Primitives
import Testing
import WireFormat

@testable import ClientCore

@Suite("A client's inbox")
struct InboxTests {
    @Test func `is acknowledged with one packet for all that one turn processed`() {
        let client = Harness()
        client.connect()
        _ = client.events()
        for number: UInt64 in [3, 4, 9] { client.deliver(number) }
        #expect(client.events() == ["delivered 2 #3 x", "delivered 2 #4 x", "delivered 2 #9 x"])
        #expect(client.sent() == [])
        client.machine.acknowledge(through: 4, now: client.now)
        client.machine.acknowledge(through: 9, now: client.now)
        client.machine.acknowledge(through: 4, now: client.now)
        #expect(client.sent() == ["ack 9 0"])
        #expect(client.inboxRecord == MRT.Resume(epoch: 0xA, lastNumber: 9))
    }

    @Test func `passes transient messages on without acknowledging them`() {
        let client = Harness()
        client.connect()
        _ = client.events()
        client.deliver(0, "now")
        #expect(client.events() == ["delivered 2 #0 now"])
        #expect(client.sent() == [])
    }

    @Test func `delays the acknowledgement for the permitted time`() {
        let client = Harness(acknowledgementDelayMilliseconds: 500)
        client.connect()
        _ = client.events()
        client.deliver(1)
        _ = client.events()
        client.machine.acknowledge(through: 1, now: client.now)
        #expect(client.sent() == [])
        #expect(client.nextDeadline == client.now.advanced(byMilliseconds: 500))
        client.passToDeadline()
        #expect(client.sent() == ["ack 1 0"])
    }

    @Test func `does not wait beyond half the window`() {
        let client = Harness(acknowledgementDelayMilliseconds: 500)
        client.connect()
        _ = client.events()
        for number: UInt64 in 1...4 {
            client.deliver(number)
            _ = client.events()
            client.machine.acknowledge(through: number, now: client.now)
            #expect(client.sent() == (number < 4 ? [] : ["ack 4 0"]))
        }
    }

    @Test func `hides a repetition before the first copy was processed`() {
        let client = Harness()
        client.connect()
        _ = client.events()
        client.deliver(5)
        #expect(client.events() == ["delivered 2 #5 x"])
        client.machine.closed(now: client.now)
        _ = client.events()
        client.passToDeadline()
        _ = client.events()
        #expect(client.open() == ["connect again resume 10:0 cookie 12 outbox 14:0:0"])
        #expect(client.events() == ["connected"])
        client.deliver(5)
        client.deliver(6)
        #expect(client.events() == ["delivered 2 #6 x"])
        client.machine.acknowledge(through: 6, now: client.now)
        #expect(client.sent() == ["ack 6 0"])
    }

    @Test func `acknowledges only messages of this connection`() {
        let client = Harness()
        client.connect()
        _ = client.events()
        client.deliver(5)
        _ = client.events()
        client.machine.closed(now: client.now)
        _ = client.events()
        client.passToDeadline()
        _ = client.events()
        client.open()
        _ = client.events()
        // Processed between the connections' CONNECT and the second delivery: an ACK of 5 would be
        // a protocol error now.
        client.machine.acknowledge(through: 5, now: client.now)
        #expect(client.sent() == [])
        client.deliver(5)
        #expect(client.events() == [])
        #expect(client.sent() == ["ack 5 0"])
    }

    @Test func `repeats an unsent acknowledgement on the next connection`() {
        let client = Harness()
        client.connect()
        _ = client.events()
        client.deliver(5)
        _ = client.events()
        client.machine.acknowledge(through: 5, now: client.now)
        client.machine.closed(now: client.now)
        _ = client.events()
        client.passToDeadline()
        _ = client.events()
        #expect(client.open() == ["connect again resume 10:5 cookie 12 outbox 14:0:0"])
    }

    @Test func `begins again with a new session`() {
        let client = Harness()
        client.connect(epoch: 0xA)
        _ = client.events()
        client.deliver(5)
        _ = client.events()
        client.machine.acknowledge(through: 5, now: client.now)
        client.machine.closed(now: client.now)
        _ = client.events()
        client.passToDeadline()
        _ = client.events()
        client.open(epoch: 0xB)
        #expect(client.events() == ["connected anew"])
        client.deliver(1)
        #expect(client.events() == ["delivered 2 #1 x"])
        client.machine.acknowledge(through: 1, now: client.now)
        #expect(client.sent() == ["ack 1 0"])
        #expect(client.inboxRecord == MRT.Resume(epoch: 0xB, lastNumber: 1))
    }
}
