// Sends and requests of a client: each gets its answer, across lost connections.

import Primitives
import Testing
import WireFormat

@testable import ClientCore

@Suite("A client's outbox")
struct OutboxTests {
    private func connected(
        window: UInt16 = 4, outboxByteCount: Int = 1024, transmitByteCount: Int = 512
    ) -> Harness {
        let client = Harness(
            outboxByteCount: outboxByteCount, transmitByteCount: transmitByteCount)
        client.connect(window: window)
        _ = client.events()
        return client
    }

    private func reconnect(_ client: Harness, window: UInt16 = 4) -> [String] {
        client.machine.closed(now: client.now)
        _ = client.events()
        client.passToDeadline()
        _ = client.events()
        let connect = client.open(window: window)
        _ = client.events()
        return connect
    }

    @Test func `numbers sends and reports their results`() throws {
        let client = connected()
        #expect(try client.send("a") == 1)
        #expect(try client.send("b") == 2)
        #expect(client.sent() == ["send #1 a", "send #2 b"])
        var result = MRT.SendResult(number: 2)
        result.messageIdentifier = ByteRange(offset: 0, count: 3)
        client.receive(result, "m-2")
        client.receive(MRT.SendResult(number: 1, reason: .quotaExceeded))
        #expect(client.events() == ["resolved #2 1 m-2", "resolved #1 151 "])
    }

    @Test func `keeps sends until there is a connection`() throws {
        let client = Harness()
        try client.send("a")
        client.machine.start(now: client.now)
        _ = client.events()
        // It never left, so there is no doubt about it.
        #expect(client.open() == ["connect outbox 14:0:0"])
        _ = client.events()
        #expect(client.sent() == ["send #1 a"])
    }

    @Test func `repeats sends without a result in order, with the same numbers`() throws {
        let client = connected()
        for text in ["a", "b", "c"] { try client.send(text) }
        _ = client.sent()
        client.receive(MRT.SendResult(number: 2))
        #expect(client.events() == ["resolved #2 1 "])
        try client.send("d")
        #expect(reconnect(client) == ["connect again resume 10:0 cookie 12 outbox 14:0:3"])
        #expect(client.sent() == ["send #1 a", "send #3 c", "send #4 d"])
    }

    @Test func `reports a repeated result once`() throws {
        let client = connected()
        try client.send("a")
        _ = client.sent()
        client.receive(MRT.SendResult(number: 1))
        client.receive(MRT.SendResult(number: 1))
        client.receive(MRT.SendResult(number: 77))
        #expect(client.events() == ["resolved #1 1 "])
    }

    @Test func `respects the send window, and confirms results before the window is full`() throws {
        let client = connected(window: 4)
        for text in ["a", "b", "c", "d", "e", "f"] { try client.send(text) }
        #expect(client.sent() == ["send #1 a", "send #2 b", "send #3 c", "send #4 d"])
        client.receive(MRT.SendResult(number: 2))
        _ = client.events()
        #expect(client.sent() == [])
        client.receive(MRT.SendResult(number: 1))
        _ = client.events()
        #expect(client.sent() == ["ack 0 2", "send #5 e", "send #6 f"])
    }

    @Test func `works with a window of one`() throws {
        let client = connected(window: 1)
        try client.send("a")
        try client.send("b")
        #expect(client.sent() == ["send #1 a"])
        client.receive(MRT.SendResult(number: 1))
        _ = client.events()
        #expect(client.sent() == ["ack 0 1", "send #2 b"])
    }

    @Test func `works with the largest window`() throws {
        let client = connected(window: .max)
        try client.send("a")
        _ = client.sent()
        client.receive(MRT.SendResult(number: 1))
        #expect(client.events() == ["resolved #1 1 "])
        #expect(client.sent() == [])
    }

    @Test func `confirms results in the packet that acknowledges messages`() throws {
        let client = connected(window: 100)
        try client.send("a")
        _ = client.sent()
        client.receive(MRT.SendResult(number: 1))
        client.deliver(8)
        _ = client.events()
        client.machine.acknowledge(through: 8, now: client.now)
        #expect(client.sent() == ["ack 8 1"])
    }

    @Test func `repeats stored sends after a restart before new ones`() throws {
        var record = ClientRecord(outboxEpoch: 7)
        record.outbox = MRT.Outbox(epoch: 7, resultsSeen: 10, highestUsed: 20)
        let client = Harness(record: record)
        try client.send("b", number: 12)
        try client.send("c", number: 20)
        try client.send("d")
        #expect(client.connect(window: 4) == ["connect outbox 7:11:20"])
        _ = client.events()
        #expect(client.sent() == ["send #12 b"])
        client.receive(MRT.SendResult(number: 12))
        _ = client.events()
        #expect(client.sent() == ["ack 0 19", "send #20 c", "send #21 d"])
    }

    @Test
    func `marks sends that may have been sent before a restart, also if the program repeats them`()
        throws
    {
        var record = ClientRecord(outboxEpoch: 7)
        record.outbox = MRT.Outbox(epoch: 7, resultsSeen: 10, highestUsed: 10)
        record.highestSent = 12
        let client = Harness(record: record)
        for text in ["b", "c", "d"] { try client.send(text) }
        #expect(client.connect() == ["connect outbox 7:10:12"])
        _ = client.events()
        #expect(client.sent() == ["send #11 b", "send #12 c", "send #13 d"])
        #expect(reconnect(client) == ["connect again resume 10:0 cookie 12 outbox 7:10:13"])
    }

    @Test func `drops transient sends with their connection and refuses them without one`() throws {
        let client = connected()
        #expect(try client.send("a", grade: .transient) == 0)
        #expect(client.sent() == ["send #0 a"])
        try client.send("b", grade: .transient)
        #expect(reconnect(client) == ["connect again resume 10:0 cookie 12 outbox 14:0:0"])
        #expect(client.sent() == [])
        client.machine.closed(now: client.now)
        #expect(throws: ClientError.notConnected) { try client.send("c", grade: .transient) }
    }

    @Test func `reports the refusal of a transient send`() throws {
        let client = connected()
        try client.send("a", grade: .transient)
        _ = client.sent()
        client.receive(MRT.SendResult(number: 0, reason: .notAuthorized))
        #expect(client.events() == ["resolved #0 135 "])
    }

    @Test func `is bounded, and any result makes room again`() throws {
        let client = connected(window: 100, outboxByteCount: 200)
        var count: UInt64 = 0
        while (try? client.send("0123456789")) != nil { count += 1 }
        #expect(count == 5)
        #expect(throws: ClientError.outboxFull) { try client.send("0123456789") }
        #expect(client.sent().count == 5)
        client.receive(MRT.SendResult(number: 3))
        _ = client.events()
        #expect(try client.send("abcdefghij") == 6)
        #expect(client.sent() == ["send #6 abcdefghij"])
        _ = reconnect(client, window: 100)
        #expect(client.sent().map { $0.prefix(7) } == [1, 2, 4, 5, 6].map { "send #\($0)" })
    }

    @Test func `is sent through a transmit buffer of any size`() throws {
        // Larger than CONNECT, smaller than what is sent; memory is squeezed while packets are cut.
        let client = connected(window: 1000, outboxByteCount: 400, transmitByteCount: 100)
        var next: UInt64 = 1
        for round in 0..<50 {
            let text = String(repeating: "x", count: 40 + round * 2)
            while (try? client.send(text)) != nil {}
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64, alignment: 1)
            defer { buffer.deallocate() }
            var bytes = Array(
                buffer[..<client.machine.transmit(into: buffer, now: client.now)])
            while (try? client.send("y")) != nil {}
            while true {
                let count = client.machine.transmit(into: buffer, now: client.now)
                if count == 0 { break }
                bytes += buffer[..<count]
            }
            for packet in describePackets(bytes) where packet.hasPrefix("send") {
                #expect(packet.hasPrefix("send #\(next) "))
                client.receive(MRT.SendResult(number: next))
                next += 1
            }
            _ = client.events()
        }
        #expect(next > 100)
    }

    @Test func `completes a packet whose result arrives while it is partly sent`() throws {
        let client = connected(window: 100, outboxByteCount: 200)
        try client.send("0123456789")
        _ = client.sent()
        _ = reconnect(client)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 8, alignment: 1)
        defer { buffer.deallocate() }
        var bytes = Array(buffer[..<client.machine.transmit(into: buffer, now: client.now)])
        client.receive(MRT.SendResult(number: 1))
        #expect(client.events() == ["resolved #1 1 "])
        while (try? client.send("abcdefghij")) != nil {}
        while bytes.count < 30 {
            bytes += buffer[..<client.machine.transmit(into: buffer, now: client.now)]
        }
        #expect(describePackets(bytes).prefix(1) == ["send #1 0123456789"])
    }

    @Test func `refuses at once a message that the broker would refuse`() throws {
        let client = connected()
        let long = String(repeating: "x", count: 1024 - 16)
        #expect(throws: ClientError.refused(.packetTooLarge)) { try client.send(long + "x") }
        let bytes = Array("a/b\u{0}x\u{ff}".utf8)
        bytes.withUnsafeBytes { bytes in
            let message = MRT.Send(
                grade: .durable, number: 0, target: .user(ByteRange(offset: 0, count: 3)),
                payload: ByteRange(offset: 3, count: 2))
            #expect(throws: ClientError.refused(.topicNameInvalid)) {
                _ = try client.machine.send(message, from: bytes)
            }
            let text = MRT.Send(
                grade: .durable, number: 0, target: .broadcast,
                payload: ByteRange(offset: 3, count: 3))
            #expect(throws: ClientError.refused(.payloadFormatInvalid)) {
                _ = try client.machine.send(text, from: bytes)
            }
        }
        #expect(try client.send("x") == 1)
    }

    @Test func `refuses later a message that was accepted before the broker's limit was known`()
        throws
    {
        let client = Harness()
        try client.send(String(repeating: "x", count: 200))
        try client.send("y")
        client.machine.start(now: client.now)
        _ = client.events()
        client.open { $0.packetMaximum = 128 }
        #expect(client.events() == ["connected anew", "resolved #1 149 "])
        #expect(client.sent() == ["send #2 y"])
    }

    @Test func `repeats unanswered requests`() throws {
        let client = connected()
        let filter = Array("a/#".utf8)
        let part = MRT.Subscribe(highestGrade: .once, filter: ByteRange(offset: 0, count: 3))
        let identifiers = try filter.withUnsafeBytes { filter in
            [
                try client.machine.request(.subscribe, part, from: filter),
                try client.machine.request(.unsubscribe, parameters: filter),
            ]
        }
        #expect(identifiers == [1, 2])
        #expect(client.sent() == ["request 1 1 \u{2}a/#", "request 2 2 a/#"])
        client.receive(MRT.Response(identifier: 1, reason: .success))
        #expect(client.events() == ["answered 1 0"])
        _ = reconnect(client)
        #expect(client.sent() == ["request 2 2 a/#"])
        client.receive(MRT.Response(identifier: 2, reason: .notAuthorized))
        client.receive(MRT.Response(identifier: 2, reason: .success))
        #expect(client.events() == ["answered 2 135"])
    }
}
