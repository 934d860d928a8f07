// Invalid bytes against a real broker: each kind is answered if the protocol has a code for it,
// ends its connection if it must, increments a counter, and affects no other client.

import Administration
import BrokerTerms
import MartletClient
import NetTransport
import Primitives
import TestSurroundings
import Testing
import WireFormat

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct BadInputTests {
        /// Bytes after the login, and the reason of the DISCONNECT that answers them.
        static let endings: [(name: String, bytes: [UInt8], reason: ReasonCode)] = [
            ("a reserved type", [0x90, 0x00], .malformedPacket),
            ("a reserved bit", [0x71, 0x00], .malformedPacket),
            ("grade 3", [0x33, 0x05, 0x01, 0x03, 0x00, 0x41, 0x42], .malformedPacket),
            ("a body where none belongs", [0xC0, 0x01, 0x00], .malformedPacket),
            ("a length that overruns", [0x31, 0x04, 0x01, 0x00, 0x7F, 0x61], .malformedPacket),
            ("a packet that is cut short", [0x31, 0x01, 0x01], .malformedPacket),
            ("bytes behind the last field", [0x61, 0x02, 0x01, 0x01], .malformedPacket),
            ("a varint that is too long", [0x61, 0x02, 0x81, 0x00], .malformedPacket),
            ("an operation without its parameters", [0x70, 0x02, 0x01, 0x01], .malformedPacket),
            ("a packet of the broker's", [0x20, 0x00], .protocolError),
            ("an acknowledgement of what was not sent", [0x61, 0x01, 0x7F], .protocolError),
            (
                "a second CONNECT",
                [0x10, 0x0B, 0x00, 0x03, 0x4D, 0x52, 0x54, 0x01, 0, 0, 1, 0, 0],
                .protocolError
            ),
            ("a channel within a channel", [0xA0, 0x03, 0x01, 0xA0, 0x00], .malformedPacket),
            ("a type that cannot be, by its first byte", [0x00], .malformedPacket),
            ("a packet of the broker's, by its first byte", [0x50], .protocolError),
            ("more than the broker takes", [0x30, 0xFF, 0xFF, 0xFF, 0x7F], .packetTooLarge),
        ]

        @Test
        func `a protocol violation is answered with a reason, counted, and ends one connection`()
            async throws
        {
            let broker = try await TestBroker("log.level=info")
            let bystander = try await broker.client("bob")
            let token = try broker.token("alice")
            for (name, bytes, reason) in Self.endings {
                let before = try broker.counter("protocol_errors")
                let client = try WireClient(port: broker.plainPort)
                _ = try client.login(token: token)
                try client.send(bytes)
                #expect(try client.nextDisconnect() == reason, "\(name)")
                try client.waitForClose()
                let after = try broker.counter("protocol_errors")
                #expect(after == before + 1, "\(name)")
            }
            _ = try await broker.process.line(
                with: "level=warning event=client_disconnected", "user=alice",
                "reason=malformed-packet")
            try await bystander.send(OutgoingMessage(to: .user("bob"), text: "unharmed"))
            #expect(try await bystander.nextMessage().text == "unharmed")
        }

        @Test func `an unknown operation is refused, and the connection continues`() async throws {
            let broker = try await TestBroker()
            let client = try WireClient(port: broker.plainPort)
            _ = try client.login(token: broker.token("alice"))
            // Request 6 for operation 200.
            try client.send([0x70, 0x02, 0x06, 0xC8])
            let response = try client.nextPacket()
            #expect(response.type == MRT.PacketType.response.rawValue)
            // Words follow.
            let reason = ReasonCode.implementationSpecificError
            #expect(response.body.starts(with: [0x06, reason.rawValue]))
            try client.send([0xC0, 0x00])
            #expect(try client.nextPacket().type == MRT.PacketType.pingResponse.rawValue)
            #expect(try broker.counter("requests/refused") == 1)
        }

        /// First packets, and the reason of the CONNACK; nil where the broker closes without one.
        static let openings: [(name: String, bytes: [UInt8], reason: ReasonCode?)] = [
            ("PINGREQ", [0xC0, 0x00], nil),
            ("SEND", [0x30, 0x05, 0x01, 0x03, 0x00, 0x41, 0x42], nil),
            ("a protocol nobody knows", [0x10, 0x06, 0x00, 0x03, 0x58, 0x59, 0x5A, 0x01], nil),
            (
                "another level", [0x10, 0x06, 0x00, 0x03, 0x4D, 0x52, 0x54, 0x02],
                .unsupportedProtocolVersion
            ),
            (
                "a CONNECT that is cut short",
                [0x10, 0x07, 0x00, 0x03, 0x4D, 0x52, 0x54, 0x01, 0x40],
                .malformedPacket
            ),
            // Extensions, of which the first has the unknown odd id 3.
            (
                "an extension that must be known",
                [0x10, 0x0D, 0, 3, 0x4D, 0x52, 0x54, 1, 0x80, 0, 1, 0, 0, 3, 0], .protocolError
            ),
            (
                "more than a stranger may send",
                [0x10, 0xFF, 0xFF, 0xFF, 0x7F, 0, 3, 0x4D, 0x52, 0x54, 1, 0, 0, 0],
                .packetTooLarge
            ),
            ("a length of five bytes", [0x10, 0xFF, 0xFF, 0xFF, 0xFF, 0x01], nil),
            ("a type that cannot be", [0x00], nil),
        ]

        @Test func `an invalid first packet is refused or closed, and logged`() async throws {
            let broker = try await TestBroker()
            let bystander = try await broker.client("bob")
            for (name, bytes, reason) in Self.openings {
                let client = try WireClient(port: broker.plainPort)
                try client.send(bytes)
                if let reason {
                    let packet = try client.nextPacket()
                    #expect(packet.type == MRT.PacketType.connack.rawValue, "\(name)")
                    #expect(packet.body.first == reason.rawValue, "\(name)")
                }
                try client.waitForClose()
                #expect(client.untaken.isEmpty, "\(name)")
            }
            for reason in ["protocol-error", "unsupported-protocol-version", "malformed-packet"] {
                _ = try await broker.process.line(
                    with: "event=login_refused", "reason=\(reason)")
            }
            // The broker waits for the peer's end of each before it counts.
            try await eventually("closed connections") {
                try broker.counter("sockets/closed") >= UInt64(Self.openings.count)
            }
            try await bystander.send(OutgoingMessage(to: .user("bob"), text: "unharmed"))
            #expect(try await bystander.nextMessage().text == "unharmed")
        }

        @Test func `a flood of invalid logins is logged in few lines and counted completely`()
            async throws
        {
            let broker = try await TestBroker(settings: [], plainOptions: "")
            let bystander = try await broker.client("bob")
            let count = 200
            for _ in 0..<count {
                let client = try WireClient(port: broker.plainPort)
                _ = try client.login(token: "mt1_aaaaaaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaa")
                try client.waitForClose()
            }
            #expect(try broker.counter("connects/refused") == UInt64(count))
            // Passwords that are no credential of this broker are refused before the core.
            func text(_ text: String) -> [UInt8] { [0, UInt8(text.utf8.count)] + text.utf8 }
            let body = text("MQTT") + [4, 0xC2, 0, 60] + text("g") + text("root") + text("1234")
            for _ in 0..<10 {
                let client = try WireClient(port: broker.plainPort)
                try client.send([0x10, UInt8(body.count)] + body)
                try client.waitForClose()
            }
            #expect(try broker.counter("connects/refused") == UInt64(count + 10))
            // Other bytes are no login.
            let other = try WireClient(port: broker.plainPort)
            try other.send(Array("GET / HTTP/1.1\r\nHost: h\r\n\r\n".utf8))
            try other.waitForClose()
            #expect(try broker.counter("connects/refused") == UInt64(count + 10))
            try await bystander.send(OutgoingMessage(to: .user("bob"), text: "unharmed"))
            #expect(try await bystander.nextMessage().text == "unharmed")
        }

        @Test func `plain bytes on the TLS port are counted and disturb nobody`() async throws {
            let broker = try await TestBroker()
            let bystander = try await broker.client("bob")
            for bytes: [UInt8] in [
                Array("GET / HTTP/1.0\r\n\r\n".utf8), [0x10, 0x06, 0, 3, 0x4D, 0x52, 0x54, 1],
                [UInt8](repeating: 0, count: 5_000),
            ] {
                let client = try WireClient(port: broker.tlsPort)
                try client.send(bytes)
                try client.waitForClose()
            }
            // A loop gives its counters away at the end of its turn.
            try await eventually("failed handshakes") {
                try broker.counter("tls/handshakes/failed") >= 3
            }
            _ = try await broker.process.line(
                with: "event=connection_failed", "cause=tlsFailure")
            try await bystander.send(OutgoingMessage(to: .user("bob"), text: "unharmed"))
            #expect(try await bystander.nextMessage().text == "unharmed")
        }

        @Test func `a repeated send is delivered once`()
            async throws
        {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            let client = try WireClient(port: broker.plainPort)
            _ = try client.login(token: broker.token("alice")) {
                $0.outbox = MRT.Outbox(epoch: 7, resultsSeen: 0, highestUsed: 0)
            }
            let text = Array("bob".utf8) + [0] + Array("once".utf8)
            // Out of order, and each of them twice.
            for number in [2, 1, 2, 1] as [UInt64] {
                let send = MRT.Send(
                    grade: .durable, number: number,
                    target: .user(ByteRange(offset: 0, count: 3)),
                    payload: ByteRange(offset: 3, count: 5))
                try client.send(send, text)
                #expect(try client.nextResult() == .sent)
            }
            try await bob.send(OutgoingMessage(to: .user("bob"), text: "after"))
            #expect(try await bob.nextTexts(3) == ["once", "once", "after"])
            #expect(try broker.counter("messages/repeated") == 2)
            // What was seen is not sent again by any client that keeps to the protocol.
            try client.send(MRT.Ack(inboxNumber: 0, resultsSeen: 2))
            let late = MRT.Send(
                grade: .durable, number: 1, target: .user(ByteRange(offset: 0, count: 3)),
                payload: ByteRange(offset: 3, count: 5))
            try client.send(late, text)
            #expect(try client.nextDisconnect() == .protocolError)
        }

        @Test func `a credential can be replaced only by one of the same user`()
            async throws
        {
            let broker = try await TestBroker()
            let client = try WireClient(port: broker.plainPort)
            _ = try client.login(token: broker.token("alice"))
            for (token, reason) in [
                (try broker.token("alice"), ReasonCode.success),
                (try broker.token("bob"), .notAuthorized), ("none", .badUserNameOrPassword),
            ] {
                let bytes = Array(token.utf8)
                try client.send([0xF0, UInt8(bytes.count + 2), 1, UInt8(bytes.count)] + bytes)
                let answer = try client.nextPacket()
                #expect(answer.type == MRT.PacketType.auth.rawValue)
                #expect(answer.body == [reason.rawValue], "\(token)")
            }
            // A refusal leaves the old one in force.
            try client.send(MRT.Ping(isResponse: false))
            #expect(try client.nextPacket().type == MRT.PacketType.pingResponse.rawValue)
        }

        @Test func `a client that leaves with a failure has its will sent`() async throws {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            let client = try WireClient(port: broker.plainPort)
            _ = try client.login(token: broker.token("alice"))
            // Request 1, set a will, at once, text, to bob.
            let will = [1, 3, 0, 0, 0, 3] + Array("bob".utf8) + [0] + Array("failed".utf8)
            try client.send([0x70, UInt8(will.count)] + will)
            #expect(try client.nextPacket().body == [1, 0])
            try client.send([0xE0, 0x01, 0x80])
            #expect(try client.nextDisconnect() == .success)
            #expect(try await bob.nextMessage().text == "failed")
        }

        @Test func `the command line closes the connection of a revoked token`() async throws {
            let broker = try await TestBroker()
            let settings = try broker.settings("alice")
            let alice = try await connected(Client(settings))
            let revoked = try ChildProcess(
                "martlet", ["token", "revoke", "--user=alice"],
                environment: broker.environment("bob"))
            #expect(try await revoked.exit() == .code(0), "\(revoked.text)")
            let reason = try await within(seconds: 20, "the end") {
                for await _ in alice.events {}
                return alice.stopReason
            }
            #expect(reason == .notAuthorized || reason == .badUserNameOrPassword)
            let wire = try WireClient(port: broker.plainPort)
            guard case .token(let token) = settings.credential,
                case .refused(let refusal) = try wire.login(token: token)
            else { throw TestFailure("a revoked token was let in") }
            #expect(refusal.reason == .badUserNameOrPassword)
        }
    }
}
