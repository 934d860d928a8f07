// A broker stops and returns; the SDK detects it, waits, reconnects and continues.

import MartletClient
import NetTransport
import Primitives
import TestSurroundings
import Testing
import WireFormat

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(4 * Sanitizer.patience))) struct ReconnectTests {
        @Test func `a client reconnects after a restart, and its messages of the meantime arrive`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            try await bob.subscribe(to: "t/#")
            try await broker.stop()
            let reason = try await alice.nextDisconnection().reason
            #expect(reason == .serverShuttingDown)
            async let receipt = alice.send(OutgoingMessage(to: .user("bob"), text: "meanwhile"))
            await #expect(throws: MartletError.notConnected) {
                try await alice.send(
                    OutgoingMessage(to: .user("bob"), text: "now", grade: .transient))
            }
            try await broker.start()
            #expect(try await bob.nextTexts(1) == ["meanwhile"])
            _ = try await receipt
            try await alice.send(OutgoingMessage(to: .topic("t/1"), text: "subscribed"))
            #expect(try await bob.nextTexts(1) == ["subscribed"])
        }

        @Test func `a client renews the subscriptions of a session that ends with its connection`()
            async throws
        {
            let broker = try await TestBroker()
            var settings = try broker.settings("bob")
            settings.sessionExpirySeconds = 0
            let bob = try await connected(Client(settings))
            try await bob.subscribe(to: "t/#")
            try await broker.killNow()
            try await broker.start()
            try await bob.waitForConnection()
            // Its requests are answered in order: the renewed subscription stands before this one.
            try await bob.subscribe(to: "u")
            let alice = try await broker.client("alice")
            try await alice.send(OutgoingMessage(to: .topic("t/1"), text: "again"))
            #expect(try await bob.nextTexts(1) == ["again"])
        }

        @Test func `a send that is cancelled without a broker ends`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            try await broker.killNow()
            let send = Task { try await alice.send(OutgoingMessage(to: .everybody, text: "x")) }
            send.cancel()
            let result = await send.result
            #expect(throws: MartletError.cancelled) { try result.get() }
        }

        @Test func `a cancelled connect ends, and the client continues to try`()
            async throws
        {
            let broker = try await TestBroker()
            let settings = try broker.settings("alice")
            try await broker.stop()
            let alice = try Client(settings)
            let connect = Task { try await alice.connect() }
            _ = try await alice.nextDisconnection()
            connect.cancel()
            let result = await connect.result
            #expect(throws: MartletError.cancelled) { try result.get() }
            try await broker.start()
            try await within(seconds: 20, "a connection") {
                for await event in alice.events {
                    if case .connected = event { return }
                }
            }
        }

        @Test func `closing ends waiting calls and the events`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            try await broker.killNow()
            let send = Task { try await alice.send(OutgoingMessage(to: .everybody, text: "x")) }
            _ = try await alice.nextDisconnection()
            await alice.close()
            let result = await send.result
            #expect(throws: MartletError.closed) { try result.get() }
            for await _ in alice.events {}
            await #expect(throws: MartletError.closed) { try await alice.connect() }
        }

        @Test func `a slow reader loses only its own transient messages and delays no others`()
            async throws
        {
            let broker = try await TestBroker()
            let slow = try WireClient(port: broker.plainPort)
            _ = try slow.login(token: broker.token("slow"))
            slow.pause()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            let text = String(repeating: "x", count: 1_000)
            let count = 12_000
            for number in 0..<count {
                try await alice.send(
                    OutgoingMessage(to: .user("slow"), text: text, grade: .transient))
                guard number % 100 == 0 else { continue }
                try await alice.send(OutgoingMessage(to: .user("bob"), text: "\(number)"))
                #expect(try await bob.nextMessage().text == "\(number)")
            }
            #expect(try broker.counter("messages/dropped/slow_reader") > 0)
            // It is still connected, and reads what was kept for it.
            slow.resume()
            #expect(try slow.nextPacket().type == MRT.PacketType.deliver.rawValue)
            #expect(!slow.isClosed)
        }
    }
}

extension Client {
    /// The next end of a connection; other events are passed over.
    func nextDisconnection() async throws -> Disconnection {
        try await within(seconds: 20, "the end of the connection") { [self] in
            for await event in events {
                if case .disconnected(let disconnection) = event { return disconnection }
            }
            throw TestFailure("the events ended")
        }
    }

    /// Passes events over until the client is connected after having been disconnected.
    func waitForConnection() async throws {
        _ = try await nextDisconnection()
        try await within(seconds: 20, "a new connection") { [self] in
            for await event in events {
                if case .connected = event { return }
            }
        }
    }
}
