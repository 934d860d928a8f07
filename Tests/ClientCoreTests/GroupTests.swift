// Groups and wills of a client: requests that are repeated unchanged, decoded answers, events as
// values.

import Primitives
import Testing
import WireFormat

@testable import ClientCore

@Suite("A client's groups")
struct GroupTests {
    private func connected() -> Harness {
        let client = Harness()
        client.connect()
        _ = client.events()
        return client
    }

    /// The broker tells of an event in the group `G`.
    private func tell(_ client: Harness, number: UInt64, payload: String) {
        let source = "aliceG" + payload
        var packet = MRT.Deliver(
            grade: .durable, number: number, kind: .groupEvent,
            from: ByteRange(offset: 0, count: 5), time: 1,
            payload: ByteRange(offset: 6, count: payload.utf8.count))
        packet.address = ByteRange(offset: 5, count: 1)
        client.receive(packet, source)
    }

    @Test func `report events as values, which are acknowledged like messages`() {
        let client = connected()
        let payloads = [
            "\u{1}bob", "\u{2}bob", "\u{3}bob", "\u{4}\u{0}", "\u{4}\u{1}\u{3}bob", "\u{5}{}",
        ]
        for (index, payload) in payloads.enumerated() {
            tell(client, number: UInt64(index + 1), payload: payload)
        }
        #expect(
            client.events() == [
                "group G #1 joined bob", "group G #2 left bob", "group G #3 kicked bob",
                "group G #4 open", "group G #5 only 1 \u{3}bob", "group G #6 meta {}",
            ])
        client.machine.acknowledge(through: 6, now: client.now)
        #expect(client.sent() == ["ack 6 0"])
    }

    @Test func `report an unknown or malformed event unchanged`() {
        let client = connected()
        tell(client, number: 1, payload: "\u{9}new")
        tell(client, number: 2, payload: "\u{4}\u{7}")
        #expect(client.events() == ["delivered 7 #1 new", "delivered 7 #2 \u{7}"])
        #expect(client.isConnected)
    }

    @Test func `repeat a request whose answer was lost with the connection`()
        throws
    {
        let client = connected()
        let create = MRT.GroupCreate(
            key: 0x4142_4344_4546_4748, title: ByteRange(offset: 0, count: 5),
            meta: ByteRange(offset: 5, count: 2),
            allowList: .only(count: 1, ids: ByteRange(offset: 7, count: 4)))
        let number = try client.request(.groupCreate, create, from: "Pumps{}\u{3}bob")
        let packet = "request 1 16 ABCDEFGH\u{5}Pumps\u{2}{}\u{1}\u{3}bob"
        #expect(client.sent() == [packet])
        client.machine.closed(now: client.now)
        _ = client.events()
        client.passToDeadline()
        _ = client.events()
        client.open()
        _ = client.events()
        #expect(client.sent() == [packet])
        client.receive(
            MRT.Response(
                identifier: number, reason: .success, content: ByteRange(offset: 0, count: 1)),
            "G")
        #expect(client.events() == ["answered 1 0"])
        #expect(client.sent() == [])
    }

    @Test func `answer with lists that can be iterated`() throws {
        let client = connected()
        try client.request(.groupList, MRT.GroupListQuery(), from: "")
        _ = client.sent()
        let entries = "\u{1}G\u{5}Pumps\u{1}\u{1}H\u{0}\u{0}"
        let content = "\u{1}" + entries
        client.receive(
            MRT.Response(
                identifier: 1, reason: .success,
                content: ByteRange(offset: 0, count: content.utf8.count)), content)
        guard case .answered(let response)? = client.machine.nextEvent(now: client.now) else {
            Issue.record("no answer")
            return
        }
        let bytes = client.machine.bytes(response.content)
        let list = try MRT.GroupList(bytes.bytes)
        #expect(list.hasMore)
        var walk = MRT.GroupEntryList(list.entries, in: bytes.bytes)
        var names: [String] = []
        while let entry = walk.next() {
            names.append(
                String(decoding: entry.group.bytes(in: bytes), as: UTF8.self) + ":"
                    + String(decoding: entry.title.bytes(in: bytes), as: UTF8.self)
                    + (entry.isOwn ? ":own" : ""))
        }
        #expect(names == ["G:Pumps:own", "H:"])
    }

    @Test func `report refused requests, also about wills`() throws {
        let client = connected()
        let will = MRT.Will(
            delaySeconds: 30, target: .group(ByteRange(offset: 0, count: 1)), isRaw: false,
            payload: ByteRange(offset: 1, count: 5))
        try client.request(.setWill, will, from: "G\u{0}lost")
        #expect(client.sent() == ["request 1 3 \u{1E}\u{0}\u{2}\u{1}G\u{0}lost"])
        client.receive(MRT.Response(identifier: 1, reason: .notAuthorized))
        #expect(client.events() == ["answered 1 135"])
        _ = try client.machine.request(
            .clearWill, parameters: UnsafeRawBufferPointer(start: nil, count: 0))
        #expect(client.sent() == ["request 2 4 "])
        client.receive(MRT.Response(identifier: 2, reason: .success))
        #expect(client.events() == ["answered 2 0"])
    }
}

@Suite("A client whose session is wanted by another")
struct ConflictTests {
    /// Connected, lost, and in the middle of the automatic login that follows.
    private func comingBack() -> Harness {
        let client = Harness()
        client.connect()
        _ = client.events()
        client.machine.closed(now: client.now)
        _ = client.events()
        client.passToDeadline()
        _ = client.events()
        client.machine.opened(now: client.now)
        #expect(client.sent() == ["connect again resume 10:0 cookie 12 outbox 14:0:0"])
        return client
    }

    @Test func `stops with a reason if its automatic login is refused`() {
        let client = comingBack()
        client.receive(MRT.ConnectRefused(reason: .sessionTakenOver))
        #expect(client.events() == ["disconnected session-taken-over, stopped"])
        client.pass(milliseconds: 10_000_000)
        #expect(client.events() == [])
        // Only the program can decide to take the session over.
        client.machine.start(now: client.now)
        _ = client.events()
        client.machine.opened(now: client.now)
        #expect(client.sent() == ["connect resume 10:0 cookie 12 outbox 14:0:0"])
    }

    @Test func `waits as long as advised if logins are too many`() {
        let client = comingBack()
        client.receive(
            MRT.ConnectRefused(reason: .connectionRateExceeded, retryAfterSeconds: 300))
        #expect(client.events() == ["disconnected connection-rate-exceeded"])
        #expect(client.nextDeadline >= client.now.advanced(bySeconds: 300))
        client.passToDeadline()
        #expect(client.events() == ["wanted"])
    }

    @Test func `keeps its cookie until the next CONNACK, even if one is lost`() {
        let client = comingBack()
        client.machine.closed(now: client.now)
        _ = client.events()
        client.passToDeadline()
        _ = client.events()
        client.machine.opened(now: client.now)
        #expect(client.sent() == ["connect again resume 10:0 cookie 12 outbox 14:0:0"])
    }
}
