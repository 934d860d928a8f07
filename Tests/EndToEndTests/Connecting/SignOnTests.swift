// Several devices of one user, two clients with one device name, and presence.

import Administration
import MartletClient
import Primitives
import TestSurroundings
import Testing
import WireFormat

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct SignOnTests {
        @Test func `a device that is taken over gets a reason code and a reason string`()
            async throws
        {
            let broker = try await TestBroker()
            let first = try WireClient(port: broker.plainPort)
            let token = try broker.token("alice")
            _ = try first.login(token: token, device: Array("pump".utf8))
            let other = try await broker.client("alice", device: "valve")
            let second = try await broker.client("alice", device: "pump")
            let packet = try first.nextPacket()
            #expect(packet.type == MRT.PacketType.disconnect.rawValue)
            let (reason, text) = try packet.body.withUnsafeBytes { body in
                let disconnect = try MRT.BrokerDisconnect(body: body.bytes)
                let text = disconnect.text.bytes(in: body)
                return (disconnect.reason, String(decoding: text, as: UTF8.self))
            }
            #expect(reason == .sessionTakenOver && reason.conflictCode == 4111)
            #expect(text.contains("another connection"))
            let line = try await broker.process.line(with: "event=session_taken_over")
            #expect(line.contains("user=alice device=pump") && line.contains(" other=127.0.0.1:"))
            // Another device of the same user is another session.
            try await second.send(OutgoingMessage(to: .user("alice"), text: "both"))
            #expect(try await other.nextMessage().text == "both")
        }

        @Test func `an automatic login needs the cookie of its connection`() async throws {
            let broker = try await TestBroker()
            let token = try broker.token("alice")
            let device = Array("pump".utf8)
            func login(cookie: UInt64?) throws -> (WireClient, MRT.Connack) {
                let client = try WireClient(port: broker.plainPort)
                let answer = try client.login(token: token, device: device) { connect in
                    connect.isReconnect = cookie != nil
                    connect.cookie = cookie
                }
                return (client, answer)
            }
            let (first, answer) = try login(cookie: nil)
            guard case .accepted(let accepted) = answer else { throw TestFailure("\(answer)") }
            let (_, stranger) = try login(cookie: accepted.resumeCookie &+ 1)
            guard case .refused(let refused) = stranger else { throw TestFailure("\(stranger)") }
            #expect(refused.reason == .sessionTakenOver)
            #expect(!first.isClosed)
            let (_, ghost) = try login(cookie: accepted.resumeCookie)
            guard case .accepted(let back) = ghost else { throw TestFailure("\(ghost)") }
            #expect(back.isSessionPresent)
            #expect(try first.nextDisconnect() == .sessionTakenOver)
            #expect(try broker.counter("connects/takeovers") == 0)
        }

        @Test func `presence reports time and devices to users with the right`() async throws {
            let broker = try await TestBroker()
            let watcher = try await broker.client("watcher")
            try broker.addUsers("bob")
            var presence = try await watcher.presence(of: "bob")
            #expect(!presence.isOnline && presence.devices.isEmpty)
            let phone = try await broker.client("bob", device: "phone")
            let first = try await watcher.presence(of: "bob")
            #expect(first.isOnline && first.devices == ["phone"])
            let pad = try await broker.client("bob", device: "pad")
            presence = try await watcher.presence(of: "bob")
            #expect(Set(presence.devices) == ["phone", "pad"])
            #expect(presence.since == first.since, "since the first of them came")
            await phone.close()
            await pad.close()
            presence = try await watcher.presence(of: "bob")
            let gone = try #require(presence.since)
            #expect(!presence.isOnline && gone >= first.since!)
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            let blind = try administration.send(
                MintTokens(app: "demo", users: ["blind"], rights: ["send:*"])
            ).tokens[0]
            var settings = try broker.settings("blind")
            settings.credential = .token(blind.token)
            let other = try await connected(Client(settings))
            await #expect(throws: MartletError.refused(.notAuthorized, "")) {
                try await other.presence(of: "bob")
            }
        }

        @Test func `subscribers of presence receive connects and disconnects, also after a crash`()
            async throws
        {
            let broker = try await TestBroker()
            let watcher = try await broker.client("watcher")
            try await watcher.subscribe(to: "$presence/+")
            func next() async throws -> String {
                let message = try await watcher.nextMessage()
                watcher.acknowledge(message)
                guard case .bytes(let bytes) = message.content else { return message.text }
                return "\(message.from): \(String(decoding: bytes, as: UTF8.self))"
            }
            let bob = try await broker.client("bob", device: "phone")
            #expect(try await next() == "bob: online phone")
            await bob.close()
            #expect(try await next() == "bob: offline phone")
            do {
                let lost = try WireClient(port: broker.plainPort)
                _ = try lost.login(token: broker.token("carl"))
                #expect(try await next() == "carl: online")
                // Its socket is closed without a word.
            }
            #expect(try await next() == "carl: offline")
            // Nobody can make it up.
            let liar = try await broker.client("liar")
            #expect(try await next() == "liar: online")
            await #expect(throws: MartletError.self) {
                try await liar.send(
                    OutgoingMessage(to: .topic("$presence/bob"), .bytes(Array("online".utf8))))
            }
        }
    }
}
