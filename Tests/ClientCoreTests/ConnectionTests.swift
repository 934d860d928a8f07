// Connecting, staying connected, reconnecting and disconnecting.

import BrokerTerms
import Primitives
import Testing
import WireFormat

@testable import ClientCore

@Suite("A client's connection")
struct ConnectionTests {
    @Test func `begins with CONNECT and is established with CONNACK`() {
        let client = Harness()
        client.machine.start(now: client.now)
        #expect(client.events() == ["wanted"])
        #expect(client.sent() == [])
        #expect(client.open() == ["connect outbox 14:0:0"])
        #expect(client.events() == ["connected anew"])
        #expect(client.isConnected)
        #expect(client.inboxRecord == MRT.Resume(epoch: 0xA, lastNumber: 0))
        #expect(client.resumeCookie == 0xC)
    }

    @Test func `resumes with the record from before its start`() {
        var record = ClientRecord(outboxEpoch: 7)
        record.inbox = MRT.Resume(epoch: 0xA, lastNumber: 41)
        record.outbox.resultsSeen = 3
        record.outbox.highestUsed = 3
        record.cookie = 9
        let client = Harness(record: record)
        #expect(client.connect() == ["connect resume 10:41 cookie 9 outbox 7:3:3"])
        #expect(client.events() == ["connected"])
    }

    @Test func `discards its last number if the session is another one`() {
        var record = ClientRecord(outboxEpoch: 7)
        record.inbox = MRT.Resume(epoch: 0xB, lastNumber: 41)
        let client = Harness(record: record)
        client.connect(epoch: 0xA)
        #expect(client.events() == ["connected anew"])
        client.deliver(1)
        #expect(client.events() == ["delivered 2 #1 x"])
    }

    @Test func `reconnects after a loss with an automatic login and the cookie`() {
        let client = Harness { $0.isCleanStart = true }
        #expect(client.connect() == ["connect clean outbox 14:0:0"])
        _ = client.events()
        client.machine.closed(now: client.now)
        #expect(client.events() == ["disconnected -"])
        client.passToDeadline()
        #expect(client.events() == ["wanted"])
        #expect(client.open() == ["connect again resume 10:0 cookie 12 outbox 14:0:0"])
        #expect(client.events() == ["connected"])
    }

    @Test func `waits random, increasing times of at most two minutes`() {
        var waits: [[UInt64]] = []
        for seed: UInt64 in 1...200 {
            let client = Harness(seed: seed)
            client.machine.start(now: client.now)
            var ofThisClient: [UInt64] = []
            for _ in 0..<12 {
                _ = client.events()
                client.machine.closed(now: client.now)
                let failed = client.now
                client.passToDeadline()
                ofThisClient.append(client.now.milliseconds(since: failed))
            }
            waits.append(ofThisClient)
        }
        for attempt in 0..<12 {
            let bound = min(120_000, 1000 << UInt64(attempt))
            let longest = waits.map { $0[attempt] }.max()!
            let shortest = waits.map { $0[attempt] }.min()!
            #expect(longest <= bound && longest > bound * 9 / 10, "attempt \(attempt)")
            #expect(shortest < bound / 10, "attempt \(attempt)")
        }
    }

    @Test func `waits at least as long as the broker advises`() {
        let client = Harness()
        client.machine.start(now: client.now)
        _ = client.events()
        client.machine.opened(now: client.now)
        client.receive(MRT.ConnectRefused(reason: .serverBusy, retryAfterSeconds: 300))
        #expect(client.events() == ["disconnected server-busy"])
        #expect(client.nextDeadline == client.now.advanced(bySeconds: 300))
    }

    @Test(arguments: [
        ReasonCode.badUserNameOrPassword, .notAuthorized, .banned, .unsupportedProtocolVersion,
        .clientIdentifierNotValid, .badAuthenticationMethod, .sessionTakenOver, .serverMoved,
    ])
    func `stops if another attempt would fail again`(reason: ReasonCode) {
        let client = Harness()
        client.machine.start(now: client.now)
        _ = client.events()
        client.machine.opened(now: client.now)
        client.receive(MRT.ConnectRefused(reason: reason))
        #expect(client.events() == ["disconnected \(reason.name), stopped"])
        #expect(client.nextDeadline == .never)
        client.machine.start(now: client.now)
        #expect(client.events() == ["wanted"])
    }

    @Test func `does not reconnect after a takeover`() {
        let client = Harness()
        client.connect()
        _ = client.events()
        client.receive(MRT.BrokerDisconnect(reason: .sessionTakenOver))
        #expect(client.events() == ["disconnected session-taken-over, stopped"])
    }

    @Test func `gives up a login after 15 seconds`() {
        let client = Harness()
        client.machine.start(now: client.now)
        _ = client.events()
        client.machine.opened(now: client.now)
        #expect(client.nextDeadline == client.now.advanced(bySeconds: 15))
        client.passToDeadline()
        #expect(client.events() == ["disconnected keep-alive-timeout"])
    }

    @Test func `is kept alive by pings, and lost if they are not answered`() {
        let client = Harness()
        client.connect()
        _ = client.events()
        let start = client.now
        client.passToDeadline()
        #expect(client.now == start.advanced(bySeconds: 60))
        #expect(client.sent() == ["ping"])
        client.receive(MRT.Ping(isResponse: true))
        #expect(client.events() == [])
        client.passToDeadline()
        #expect(client.now == start.advanced(bySeconds: 120))
        #expect(client.sent() == ["ping"])
        client.passToDeadline()
        #expect(client.now == start.advanced(bySeconds: 150))
        #expect(client.events() == ["disconnected keep-alive-timeout"])
    }

    @Test func `is lost if the ping cannot be sent`() {
        let client = Harness()
        client.connect()
        _ = client.events()
        let start = client.now
        client.passToDeadline()
        client.passToDeadline()
        #expect(client.now == start.advanced(bySeconds: 90))
        #expect(client.events() == ["disconnected keep-alive-timeout"])
    }

    @Test func `is not lost while bytes arrive`() {
        let client = Harness()
        client.connect()
        _ = client.events()
        client.passToDeadline()
        #expect(client.sent() == ["ping"])
        client.deliver(0)
        #expect(client.events() == ["delivered 2 #0 x"])
        client.pass(milliseconds: 59_999)
        #expect(client.events() == [])
        #expect(client.sent() == [])
        client.passToDeadline()
        #expect(client.sent() == ["ping"])
    }

    @Test func `is pinged although the client sends, if the broker is silent`() throws {
        let client = Harness()
        client.connect()
        _ = client.events()
        client.pass(milliseconds: 59_000)
        try client.send()
        #expect(client.sent() == ["send #1 x"])
        client.pass(milliseconds: 1000)
        #expect(client.sent() == ["ping"])
    }

    @Test func `sends no pings without a keep-alive`() {
        let client = Harness()
        client.connect { $0.keepAliveSeconds = 0 }
        _ = client.events()
        #expect(client.nextDeadline == .never)
    }

    @Test func `ends with a DISCONNECT that the broker confirms`() {
        let client = Harness()
        client.connect()
        _ = client.events()
        client.machine.leave(now: client.now)
        #expect(client.sent() == ["disconnect 0"])
        client.deliver(1)
        #expect(client.events() == [])
        client.receive(MRT.BrokerDisconnect(reason: .normalDisconnection))
        #expect(client.events() == ["disconnected success, stopped"])
    }

    @Test func `ends although the broker is silent`() {
        let client = Harness()
        client.connect()
        _ = client.events()
        client.machine.leave(firesWill: true, now: client.now)
        #expect(client.sent() == ["disconnect 4"])
        client.passToDeadline()
        #expect(client.events() == ["disconnected keep-alive-timeout, stopped"])
    }

    @Test func `is not opened again if the client leaves while it waits`() {
        let client = Harness()
        client.connect()
        client.machine.closed(now: client.now)
        _ = client.events()
        client.machine.leave(now: client.now)
        #expect(client.nextDeadline == .never)
        client.pass(milliseconds: 1_000_000)
        #expect(client.events() == [])
    }

    @Test func `presents a new credential while it is open`() {
        let bytes = Array("pumpn3w".utf8)
        bytes.withUnsafeBytes { bytes in
            let client = Harness()
            client.connect()
            _ = client.events()
            var connect = client.machine.identity.connect
            connect.credential = .token(ByteRange(offset: 4, count: 3))
            client.machine.replaceCredential(
                ClientIdentity(connect: connect, bytes: bytes))
            #expect(client.sent() == ["auth n3w"])
            client.receive(MRT.BrokerAuth(reason: .success))
            #expect(client.events() == ["credential 0"])
        }
    }

    @Test func `expects one answer for each new credential`() {
        let client = Harness()
        client.connect()
        _ = client.events()
        client.machine.replaceCredential(client.machine.identity)
        _ = client.sent()
        client.receive(MRT.BrokerAuth(reason: .success))
        client.receive(MRT.BrokerAuth(reason: .success))
        #expect(client.events() == ["credential 0", "disconnected protocol-error"])
    }

    @Test func `ends if the broker exceeds the inbox window`() {
        let client = Harness()
        client.connect()
        _ = client.events()
        for number in 1...8 as ClosedRange<UInt64> {
            client.deliver(number)
        }
        #expect(client.events().count == 8)
        // What is acknowledged makes room.
        client.machine.acknowledge(through: 1, now: client.now)
        _ = client.sent()
        client.deliver(9)
        #expect(client.events().count == 1)
        for number in 10...17 as ClosedRange<UInt64> {
            client.deliver(number)
        }
        #expect(client.events().last == "disconnected receive-maximum-exceeded")
    }

    @Test func `ends if its program reports a fault of the broker`() {
        let client = Harness()
        client.connect()
        _ = client.events()
        client.deliver(1)
        #expect(client.events() == ["delivered 2 #1 x"])
        client.machine.refuse(.receiveMaximumExceeded, delivery: 1, now: client.now)
        #expect(client.events() == ["disconnected receive-maximum-exceeded"])
        client.passToDeadline()
        _ = client.events()
        client.open()
        client.deliver(1)
        #expect(client.events() == ["connected", "delivered 2 #1 x"], "it was lost")
    }

    @Test func `decodes packets in any pieces`() {
        for readMaximum in 1...40 {
            let client = Harness(receiveByteCount: 128)
            client.machine.start(now: client.now)
            _ = client.events()
            client.machine.opened(now: client.now)
            _ = client.sent()
            var stream = encode(client.accepted(), "alice")
            stream += encode(MRT.SendResult(number: 0, reason: .notAuthorized))
            stream += encode(MRT.BrokerDisconnect(reason: .serverShuttingDown))
            let events = client.receive(stream, readMaximum: readMaximum) + client.events()
            #expect(
                events == [
                    "connected anew", "resolved #0 135 ", "disconnected server-shutting-down",
                ])
        }
    }

    @Test(arguments: [
        ([0x90, 0x00], "malformed-packet"), ([0xC0, 0x00], "protocol-error"),
        ([0x20, 0x02, 0x86, 0x00], "protocol-error"), ([0x50, 0xFF, 0x7F], "packet-too-large"),
        ([0x50, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], "malformed-packet"),
        // An AUTH that was not asked for.
        ([0xF0, 0x01, 0x00], "protocol-error"),
    ])
    func `ends if a packet of the broker is malformed`(bytes: [UInt8], reason: String) {
        let client = Harness()
        client.connect()
        _ = client.events()
        client.receive(bytes)
        #expect(client.events() == ["disconnected \(reason)"])
    }
}
