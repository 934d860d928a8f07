// Bytes in, events out: every packet that a client may send.

import BrokerCore
import BrokerTerms
import Primitives
import Testing
import WireFormat

@testable import Dialects

@Suite("A first packet")
struct FirstPacketTests {
    @Test func `becomes a login with its fields`() {
        #expect(
            TestLoop().receive("connect-token") == [
                "connect token s3cr3t device pump keepalive 300 window 16 1,2"
            ])
        #expect(
            TestLoop().receive("connect-app-key") == [
                "connect app demo user alice device  keepalive 60 window 65535 clean 1,2"
            ])
        #expect(
            TestLoop().receive("connect-again") == [
                "connect token s3cr3t device pump keepalive 300 window 16 again "
                    + "resume 123456789abcdef:1742 cookie fedcba9876543210 outbox 255:16:18 1,2"
            ])
    }

    @Test func `without a credential is refused, or makes its device the user`() {
        let closed = TestLoop()
        #expect(closed.receive("connect-smallest") == [])
        #expect(closed.written() == encode(MRT.ConnectRefused(reason: .notAuthorized)))
        #expect(closed.host.isClosed)
        var connect = MRT.Connect()
        connect.inboxWindow = 1
        connect.device = ByteRange(offset: 0, count: 3)
        #expect(
            TestLoop(allowsAnonymous: true).receive(encode(connect, "ann")) == [
                "connect anonymous ann device  keepalive 0 window 1 1,2"
            ])
    }

    @Test func `with an invalid credential is refused`() {
        let loop = TestLoop()
        var connect = MRT.Connect()
        connect.inboxWindow = 1
        connect.credential = .token(ByteRange(offset: 0, count: 3))
        #expect(loop.receive(encode(connect, "bad")) == [])
        #expect(loop.written() == encode(MRT.ConnectRefused(reason: .badUserNameOrPassword)))
        #expect(loop.log.refusals == [.badUserNameOrPassword])
    }

    @Test func `with an invalid device or user is refused`() {
        var connect = MRT.Connect()
        connect.inboxWindow = 1
        connect.device = ByteRange(offset: 0, count: 3)
        connect.credential = .token(ByteRange(offset: 3, count: 1))
        let loop = TestLoop()
        #expect(loop.receive(encode(connect, "a/bt")) == [])
        #expect(loop.written() == encode(MRT.ConnectRefused(reason: .clientIdentifierNotValid)))
        connect.device = .empty
        connect.credential = .appKey(
            app: ByteRange(offset: 0, count: 1), key: ByteRange(offset: 0, count: 1),
            user: ByteRange(offset: 0, count: 3))
        let other = TestLoop()
        #expect(other.receive(encode(connect, "a+b")) == [])
        #expect(other.written() == encode(MRT.ConnectRefused(reason: .clientIdentifierNotValid)))
    }

    @Test(arguments: [
        ("connect-window-zero", ReasonCode.malformedPacket),
        ("connect-unknown-odd-extension", .protocolError),
        ("connect-level-2", .unsupportedProtocolVersion),
    ])
    func `that is malformed is refused with the reason`(name: String, reason: ReasonCode) {
        let loop = TestLoop()
        #expect(loop.receive(name) == [])
        #expect(loop.written() == encode(MRT.ConnectRefused(reason: reason)))
        #expect(loop.host.isClosed)
    }

    @Test(arguments: [
        "connect-other-name", "send-user-durable", "pingreq", "disconnect-normal", "auth-token",
    ])
    func `that is no login gets no answer`(name: String) {
        let loop = TestLoop()
        #expect(loop.receive(name) == [])
        #expect(loop.written() == [])
        #expect(loop.host.isClosed)
    }
}

@Suite("The packets of a connection")
struct LaterPacketTests {
    @Test(arguments: [
        ("send-user-durable", "send #17 durable to bob 21 bytes"),
        ("send-user-transient", "send #0 transient to bob 21 bytes"),
        ("send-user-once-with-message-id", "send #18 once to bob id m-1 18 bytes"),
        (
            "send-all-options",
            "send #300 durable to bob id order/7 expiry 3600 time 1790000000000 17 bytes"
        ),
        ("send-attributes", "send #31 durable to bob attributes [site,7] 19 bytes"),
        ("send-mentions", "send #32 durable to group fleet-7 mentions only [bob] 20 bytes"),
        ("send-late", "send #33 durable late to bob time 1790000000000 18 bytes"),
        ("send-priority", "send #0 transient high priority on alarm 18 bytes"),
        ("send-history", "send #27 durable kept to bob 22 bytes"),
        ("send-no-history", "send #27 durable never kept to bob 22 bytes"),
        ("send-history-only", "send #27 durable kept only to bob time 1790000000000 22 bytes"),
        ("send-retained", "send #28 durable retained on a/b raw 2"),
        ("send-list", "send #1 durable to 3 [a,bb,ü] 25 bytes"),
        ("send-group", "send #19 durable to group fleet-7 21 bytes"),
        ("send-broadcast", "send #9223372036854775807 durable to everybody 24 bytes"),
        ("send-topic-text", "send #1 durable on a/b 18 bytes"),
        ("send-topic-raw", "send #1 durable on a/b raw 3"),
        ("send-id-that-breaks-its-rule", "send #1 durable to a/b 17 bytes fault topicNameInvalid"),
        ("send-id-empty", "send #1 durable to  17 bytes fault topicNameInvalid"),
        ("ack-inbox", "acknowledged 1742"),
        ("ack-results", "results seen 17"),
        ("request-subscribe", "subscribe 1 once a/+/#"),
        ("request-unsubscribe", "unsubscribe 2 a/+/#"),
        ("request-presence", "presence 300 bob"),
        ("request-set-will", "will 3 after 30: #0 once to group fleet-7 20 bytes"),
        ("request-set-will-raw", "will 3 after 0: #0 once on a/b raw 1"),
        ("request-clear-will", "no will 4"),
        ("request-unknown-operation", "faulted 6 implementationSpecificError"),
        ("disconnect-normal", "disconnect"),
        ("disconnect-with-will", "disconnect with will"),
        ("disconnect-with-expiry", "disconnect, expiry 0"),
        ("disconnect-packet-too-large", "disconnect with will"),
    ])
    func `become events`(name: String, event: String) {
        let loop = TestLoop()
        loop.establish()
        #expect(loop.receive(name) == [event])
        #expect(loop.written() == [])
    }

    @Test func `that acknowledge in both directions become two events`() {
        let loop = TestLoop()
        loop.establish()
        #expect(
            loop.receive("ack-both") == ["acknowledged 9223372036854775807", "results seen 128"])
    }

    @Test func `PINGREQ are answered at once`() {
        let loop = TestLoop()
        loop.establish()
        #expect(loop.receive("pingreq") == [])
        #expect(loop.written() == packet("pingresp"))
    }

    @Test func `with an invalid text refuse only their message`() {
        let loop = TestLoop()
        loop.establish()
        let text = MRT.Send(
            grade: .durable, number: 1, target: .user(ByteRange(offset: 0, count: 3)),
            payload: ByteRange(offset: 3, count: 2))
        var bytes = encode(text, "bob\u{0}x")
        bytes[bytes.count - 1] = 0xFF
        #expect(
            loop.receive(bytes) == ["send #1 durable to bob 0 bytes fault payloadFormatInvalid"])
        #expect(loop.phase == .established)
    }

    @Test(arguments: [
        ("type-9", ReasonCode.malformedPacket), ("send-grade-3", .malformedPacket),
        ("send-raw-to-user", .protocolError), ("request-no-operation", .malformedPacket),
        ("connect-token", .protocolError), ("result-sent", .protocolError),
        ("pingresp", .protocolError), ("pingreq-with-body", .malformedPacket),
        ("channel-in-channel", .malformedPacket),
    ])
    func `that are malformed end the connection, and later ones are ignored`(
        name: String, reason: ReasonCode
    ) {
        let loop = TestLoop()
        loop.establish()
        let stream = packet("ack-inbox") + packet(name) + packet("ack-results")
        #expect(loop.receive(stream) == ["acknowledged 1742", "fault \(reason)"])
        #expect(loop.phase == .closing)
        #expect(loop.receive("ack-results") == [])
    }

    @Test func `that are too large end it too`() {
        let loop = TestLoop(packetMaximum: 200)
        loop.establish()
        #expect(loop.receive([0x30, 0xC8, 0x01]) == ["fault packetTooLarge"])
    }

    @Test func `before CONNACK wait for it`() {
        let loop = TestLoop()
        var consumed = 0
        let connect = packet("connect-token")
        let stream = connect + packet("pingreq") + packet("send-user-durable")
        #expect(loop.receive(stream, consumed: &consumed).count == 1)
        #expect(consumed == connect.count)
        #expect(loop.host.isHeld)
        #expect(loop.written() == [])
        let user = loop.text("alice")
        loop.carryOut { $0.append(.accept(loop.connection, acceptance(user: user))) }
        #expect(!loop.host.isHeld)
        let rest = Array(stream[consumed...])
        #expect(loop.receive(rest) == ["send #17 durable to bob 21 bytes"])
        #expect(loop.written() == packet("connack-new-session") + packet("pingresp"))
    }

    @Test func `before a refusal are discarded`() {
        let loop = TestLoop()
        var consumed = 0
        let stream = packet("connect-token") + packet("send-user-durable")
        loop.receive(stream, consumed: &consumed)
        loop.carryOut {
            $0.append(.refuse(loop.connection, .serverBusy, retryAfterSeconds: 30))
        }
        #expect(loop.host.isClosed)
        #expect(loop.receive(Array(stream[consumed...])) == [])
    }

    @Test func `are decoded in any pieces`() {
        let stream = packet("send-list") + packet("request-group-create") + packet("ack-both")
        let whole = TestLoop()
        whole.establish()
        let expected = whole.receive(stream)
        for size in 1..<stream.count {
            let loop = TestLoop()
            loop.establish()
            var lines: [String] = []
            var unread: [UInt8] = []
            for start in stride(from: 0, to: stream.count, by: size) {
                unread += stream[start..<min(start + size, stream.count)]
                var consumed = 0
                lines += loop.receive(unread, consumed: &consumed)
                unread.removeFirst(consumed)
            }
            #expect(lines == expected, "in pieces of \(size)")
        }
    }
}

/// At a node of a cluster without a lease.
@Suite struct `Held pings` {
    @Test func `are answered once when the lease is there again`() {
        let loop = TestLoop()
        loop.establish()
        _ = loop.written()
        loop.decoder.holdsPings = true
        for _ in 0..<3 { #expect(loop.receive("pingreq") == []) }
        #expect(loop.written() == [] && loop.decoder.heldPings.count == 1)
        loop.decoder.answerHeldPings(through: &loop.host)
        #expect(loop.written() == packet("pingresp") && loop.decoder.heldPings.isEmpty)
        loop.decoder.answerHeldPings(through: &loop.host)
        #expect(loop.written() == [])
        loop.decoder.holdsPings = false
        loop.receive("pingreq")
        #expect(loop.written() == packet("pingresp"))
    }

    @Test func `end with their connection`() {
        let loop = TestLoop()
        loop.establish()
        _ = loop.written()
        loop.decoder.holdsPings = true
        loop.receive("pingreq")
        loop.reopen()
        #expect(loop.decoder.heldPings.isEmpty)
        loop.decoder.answerHeldPings(through: &loop.host)
        #expect(loop.written() == [])
    }
}
