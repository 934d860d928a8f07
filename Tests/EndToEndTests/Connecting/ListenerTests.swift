// Accepted and refused connections: TLS, logins, deadlines, and bytes that are no protocol.

import Administration
import BrokerTerms
import MartletClient
import NetTransport
import Primitives
import TestSurroundings
import Testing
import WireFormat

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct ListenerTests {
        @Test(arguments: [TLSVersion.tls12, .tls13])
        func `TLS 1.2 and 1.3 are supported`(version: TLSVersion) async throws {
            let broker = try await TestBroker()
            let context = try ClientTLSContext(
                trust: .authorityFile(broker.authority), oldestVersion: version,
                newestVersion: version)
            let client = try WireClient(port: broker.tlsPort, tls: context)
            #expect(client.tls?.version == (version == .tls12 ? "TLSv1.2" : "TLSv1.3"))
            guard case .accepted(let accepted) = try client.login(token: broker.token("alice"))
            else { throw TestFailure("the login was refused") }
            #expect(!accepted.isSessionPresent)
        }

        @Test func `IPv6 works like IPv4`() async throws {
            let broker = try await TestBroker()
            var settings = try broker.settings("alice")
            settings.servers[0].host = "::1"
            let alice = try await connected(Client(settings))
            try await alice.send(OutgoingMessage(to: .user("alice"), text: "to myself"))
            #expect(try await alice.nextMessage().text == "to myself")
        }

        @Test func `consecutive connects succeed at their first attempt`()
            async throws
        {
            let broker = try await TestBroker()
            for number in 0..<50 {
                var settings = try broker.settings("alice", device: "\(number)")
                settings.firstAttemptsMaximum = 1
                let client = try await connected(Client(settings))
                await client.close()
            }
            #expect(try broker.counter("sockets/accepted") == 50)
        }

        @Test func `a client that trusts another authority does not connect`() async throws {
            let broker = try await TestBroker()
            let other = try await TestBroker()
            var settings = try broker.settings("alice")
            settings.trust = .authorityFile(other.authority)
            settings.firstAttemptsMaximum = 1
            let client = try Client(settings)
            let error = await #expect(throws: MartletError.self) { try await client.connect() }
            #expect(error?.description.contains("certificate") == true)
        }

        @Test(arguments: [
            "mt1_aaaaaaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaa", "x", "eyJhbGciOiJub25lIn0.e30.",
        ])
        func `an unknown token is refused`(token: String) async throws {
            let broker = try await TestBroker()
            var settings = try broker.settings("alice")
            settings.credential = .token(token)
            let client = try Client(settings)
            await #expect(throws: MartletError.stopped(.badUserNameOrPassword)) {
                try await client.connect()
            }
            #expect(client.stopReason == .badUserNameOrPassword)
            await #expect(throws: MartletError.stopped(.badUserNameOrPassword)) {
                try await client.send(OutgoingMessage(to: .everybody, text: "?"))
            }
            let line = try await broker.process.line(with: "event=auth_failed")
            #expect(line.contains("code=134") && !line.contains(token))
        }

        @Test func `a revoked token ends its connection and allows no login`() async throws {
            let broker = try await TestBroker()
            let settings = try broker.settings("alice")
            let alice = try await connected(Client(settings))
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            let selection = TokenSelection(app: "demo", user: "alice")
            #expect(try administration.send(RevokeTokens(selection)).connectionCount == 1)
            let reason = try await within(seconds: 20, "the end") {
                for await _ in alice.events {}
                return alice.stopReason
            }
            #expect(reason == .notAuthorized || reason == .badUserNameOrPassword)
            let again = try Client(settings)
            await #expect(throws: MartletError.stopped(.badUserNameOrPassword)) {
                try await again.connect()
            }
        }

        @Test func `an explicit login takes a session over, an automatic one does not`()
            async throws
        {
            let broker = try await TestBroker()
            let first = try await broker.client("alice", device: "pump")
            let second = try await broker.client("alice", device: "pump")
            let reason = try await within(seconds: 20, "the end of the first") {
                for await _ in first.events {}
                return first.stopReason
            }
            #expect(reason == .sessionTakenOver)
            // Another client of the same device that says it reconnects.
            let wire = try WireClient(port: broker.plainPort)
            let device = Array("pump".utf8)
            let token = try broker.token("alice")
            let answer = try wire.login(token: token, device: device) { $0.isReconnect = true }
            #expect(answer.refusal == .sessionTakenOver)
            try await second.send(OutgoingMessage(to: .user("alice"), text: "still here"))
        }

        @Test func `plain bytes on the TLS port end the connection`() async throws {
            let broker = try await TestBroker()
            let client = try WireClient(port: broker.tlsPort)
            try client.send(Array("GET / HTTP/1.0\r\n\r\n".utf8))
            try client.waitForClose()
            _ = try await broker.process.line(
                with: "event=connection_failed", "cause=tlsFailure")
        }

        @Test func `a first packet that is not CONNECT ends the connection without an answer`()
            async throws
        {
            let broker = try await TestBroker()
            let client = try WireClient(port: broker.plainPort)
            try client.send(MRT.Ping(isResponse: false))
            try client.waitForClose()
            #expect(client.untaken.isEmpty)
        }

        @Test func `garbage of any kind ends its connection and nothing else`() async throws {
            let broker = try await TestBroker()
            let bystander = try await broker.client("alice")
            var generator = SeededRandom(seed: 7)
            for length in [1, 2, 7, 64, 1_000, 40_000] {
                let client = try WireClient(port: broker.plainPort)
                // The upper bits of a reserved type, so that no random CONNECT is made.
                let noise = (0..<length).map { _ in UInt8.random(in: 0...255, using: &generator) }
                try client.send([0xFF] + noise.map { $0 | 0x80 })
                if length >= 7 { try client.waitForClose() }
            }
            try await bystander.send(OutgoingMessage(to: .user("alice"), text: "unharmed"))
            #expect(try await bystander.nextMessage().text == "unharmed")
        }

        @Test func `garbage after the login is answered with its reason`() async throws {
            let broker = try await TestBroker()
            for (bytes, reason): ([UInt8], ReasonCode) in [
                ([0x00, 0x00], .malformedPacket),
                ([0x33, 0x04, 0x01, 0x03, 0x00, 0x41], .malformedPacket),
                ([0x20, 0x00], .protocolError),
                ([0x61, 0x01, 0x7F], .protocolError),
                ([0x30, 0xFF, 0xFF, 0xFF, 0x7F], .packetTooLarge),
            ] {
                let client = try WireClient(port: broker.plainPort)
                _ = try client.login(token: broker.token("alice"))
                try client.send(bytes)
                #expect(try client.nextDisconnect() == reason, "\(bytes)")
                try client.waitForClose()
            }
        }

        @Test func `text that is not UTF-8 refuses one send and ends nothing`() async throws {
            let broker = try await TestBroker()
            let client = try WireClient(port: broker.plainPort)
            let connack = try client.login(token: broker.token("alice")) { connect in
                connect.outbox = MRT.Outbox(epoch: 1, resultsSeen: 0, highestUsed: 0)
            }
            #expect(connack.refusal == nil)
            let text: [UInt8] = [0, 0xC3, 0x28]
            for (number, grade) in [MRT.Grade.durable, .once].enumerated() {
                let send = MRT.Send(
                    grade: grade, number: UInt64(number + 1), target: .broadcast,
                    payload: ByteRange(offset: 0, count: text.count))
                try client.send(send, text)
                #expect(try client.nextResult() == .payloadFormatInvalid)
            }
            // A broken user id in the same stream, and then a good one.
            let ids: [UInt8] = [0xFF] + Array("alice".utf8) + [0, 0x41]
            for (range, reason): (ByteRange, ReasonCode) in [
                (ByteRange(offset: 0, count: 1), .topicNameInvalid),
                (ByteRange(offset: 1, count: 5), .sent),
            ] {
                let send = MRT.Send(
                    grade: .durable, number: reason == .sent ? 4 : 3, target: .user(range),
                    payload: ByteRange(offset: 6, count: 2))
                try client.send(send, ids)
                var packet = try client.nextPacket()
                // The message to itself may arrive before its result.
                while packet.type == MRT.PacketType.deliver.rawValue {
                    try client.send(MRT.Ack(inboxNumber: 1, resultsSeen: 0))
                    packet = try client.nextPacket()
                }
                let result = try packet.body.withUnsafeBytes {
                    try MRT.SendResult(flags: packet.flags, body: $0.bytes)
                }
                #expect(result.reason == reason)
            }
        }

        @Test
        func `a connection without a login in time is closed, before and after the TLS handshake`()
            async throws
        {
            let broker = try await TestBroker("limits.authenticationSeconds=4")
            // Nothing at all, on either port; an unfinished CONNECT; TLS and then silence.
            let silent = try WireClient(port: broker.plainPort)
            let handshaking = try WireClient(port: broker.tlsPort)
            let slow = try WireClient(port: broker.plainPort)
            try slow.send([0x10, 0x18, 0x00, 0x03])
            let context = try ClientTLSContext(trust: .authorityFile(broker.authority))
            let quiet = try WireClient(port: broker.tlsPort, tls: context)
            nonisolated(unsafe) let clients = [silent, handshaking, slow, quiet]
            try await onThread { for client in clients { try client.waitForClose() } }
            let patient = try await broker.client("alice")
            try await broker.waitForBrokerTime(seconds: 5)
            try await patient.send(OutgoingMessage(to: .user("alice"), text: "still in"))
            #expect(try await patient.nextMessage().text == "still in")
        }

        @Test func `a client that exceeds its keep-alive is disconnected`()
            async throws
        {
            let broker = try await TestBroker()
            let client = try WireClient(port: broker.plainPort)
            let connack = try client.login(token: broker.token("alice")) {
                $0.keepAliveSeconds = 1
            }
            #expect(connack.refusal == nil)
            #expect(try client.nextDisconnect() == .keepAliveTimeout)
            // The SDK pings every three seconds; the broker waits for nine.
            var settings = try broker.settings("bob")
            settings.keepAliveSeconds = 6
            let bob = try await connected(Client(settings))
            try await broker.waitForBrokerTime(seconds: 10)
            try await bob.send(OutgoingMessage(to: .user("bob"), text: "alive"))
            #expect(try await bob.nextMessage().text == "alive")
            #expect(try broker.counter("sockets/accepted") == 2)
        }

        @Test func `a client without a keep-alive may be silent`() async throws {
            let broker = try await TestBroker()
            var settings = try broker.settings("bob")
            settings.keepAliveSeconds = 0
            let bob = try await connected(Client(settings))
            try await broker.waitForBrokerTime(seconds: 1)
            try await bob.send(OutgoingMessage(to: .user("bob"), text: "alive"))
            #expect(try await bob.nextMessage().text == "alive")
        }
    }
}

extension MRT.Connack {
    /// Why the login was refused; nil where it was not.
    var refusal: ReasonCode? {
        if case .refused(let refused) = self { return refused.reason }
        return nil
    }
}
