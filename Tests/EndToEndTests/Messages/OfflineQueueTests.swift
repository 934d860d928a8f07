// Messages that wait for disconnected clients, and how a client resumes.

import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(1 * Sanitizer.patience))) struct OfflineQueueTests {
        @Test func `messages wait for a disconnected session and arrive in order`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            await bob.close()
            let texts = (0..<300).map { "\($0)" }
            for text in texts {
                alice.send(OutgoingMessage(to: .user("bob"), text: text)) { result in
                    if case .failure(let error) = result { Issue.record(error) }
                }
            }
            try await alice.send(OutgoingMessage(to: .user("bob"), text: "last", grade: .once))
            let again = try await broker.client("bob")
            #expect(try await again.nextTexts(301) == texts + ["last"])
        }

        @Test func `messages survive a broker that is stopped, and one that is killed`()
            async throws
        {
            let broker = try await TestBroker()
            let first = try await broker.client("bob")
            await first.close()
            for isKilled in [false, true] {
                let alice = try await broker.client("alice")
                for grade in [Grade.durable, .once] {
                    try await alice.send(
                        OutgoingMessage(to: .user("bob"), text: "\(grade)", grade: grade))
                }
                if isKilled { try await broker.killNow() } else { try await broker.stop() }
                try await broker.start()
                let bob = try await broker.client("bob")
                #expect(try await bob.nextTexts(2) == ["durable", "once"])
                await bob.close()
            }
        }

        @Test func `messages for a known user wait before the first login`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            try broker.addUsers("carol")
            let waiting = ["one", "two", "three"]
            for text in waiting {
                try await alice.send(OutgoingMessage(to: .user("carol"), text: text))
            }
            // A session that ends with its connection takes no messages away.
            var passing = try broker.settings("carol", device: "passing")
            passing.sessionExpirySeconds = 0
            let guest = try await connected(Client(passing))
            await guest.close()
            let carol = try await broker.client("carol")
            #expect(try await carol.nextTexts(3) == waiting)
            // The first session has inherited all of it.
            let second = try await broker.client("carol", device: "second")
            try await alice.send(OutgoingMessage(to: .user("carol"), text: "both"))
            #expect(try await second.nextMessage().text == "both")
        }

        @Test func `only unacknowledged messages are delivered again`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            var settings = try broker.settings("bob")
            settings.acknowledgement = .byApplication
            let bob = try await connected(Client(settings))
            for number in 1...6 {
                try await alice.send(OutgoingMessage(to: .user("bob"), text: "\(number)"))
            }
            var processed: InboxRecord?
            for number in 1...4 {
                let message = try await bob.nextMessage()
                #expect(message.text == "\(number)")
                if number <= 2 { bob.acknowledge(message) }
                // The record of 3 is stored by the application, but its acknowledgement is lost.
                if number <= 3 { processed = message.record }
            }
            await bob.close()
            settings.inbox = processed
            let again = try await connected(Client(settings))
            #expect(try await again.nextTexts(3) == ["4", "5", "6"])
        }

        @Test func `a record of another session resumes at the beginning`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            try broker.addUsers("bob")
            try await alice.send(OutgoingMessage(to: .user("bob"), text: "first"))
            var settings = try broker.settings("bob")
            settings.inbox = InboxRecord(epoch: 1, number: 1_000_000)
            let bob = try await connected(Client(settings))
            let message = try await bob.nextMessage()
            #expect(message.text == "first")
            #expect(message.record?.epoch != 1)
        }

        @Test func `an expired message is not delivered`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            await bob.close()
            var short = OutgoingMessage(to: .user("bob"), text: "stale")
            short.expirySeconds = 1
            try await alice.send(short)
            try await alice.send(OutgoingMessage(to: .user("bob"), text: "fresh"))
            try await broker.waitForBrokerTime(seconds: 1)
            let again = try await broker.client("bob")
            #expect(try await again.nextMessage().text == "fresh")
        }

        @Test func `a broker without space refuses sends, reports it, drains and continues`()
            async throws
        {
            let broker = try await TestBroker("store.softLimitBytes=8388608")
            // A full store has no room for a new token.
            let settings = try broker.settings("bob")
            let bob = try await connected(Client(settings))
            try await bob.subscribe(to: "big", grade: .durable)
            await bob.close()
            let alice = try await broker.client("alice")
            let block = OutgoingMessage(
                to: .topic("big"), .bytes([UInt8](repeating: 7, count: 200_000)))
            var acceptedCount = 0
            while true {
                do {
                    try await alice.send(block)
                    acceptedCount += 1
                } catch {
                    #expect(error == .refused(.quotaExceeded, ""))
                    break
                }
            }
            #expect((20...42).contains(acceptedCount), "\(acceptedCount)")
            _ = try await broker.process.line(with: "event=store_full", "state=full")
            let again = try await connected(Client(settings))
            for _ in 0..<acceptedCount { again.acknowledge(try await again.nextMessage()) }
            _ = try await broker.process.line(with: "event=store_full", "state=has-room")
            try await alice.send(OutgoingMessage(to: .user("bob"), text: "room again"))
            #expect(try await again.nextTexts(1) == ["room again"])
        }

        @Test func `an application that does not read holds the broker back`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            var settings = try broker.settings("bob")
            settings.inboxWindow = 4
            let bob = try await connected(Client(settings))
            for number in 0..<50 {
                try await alice.send(OutgoingMessage(to: .user("bob"), text: "\(number)"))
            }
            // Every send was acknowledged although bob has taken nothing.
            #expect(try broker.counter("messages/sent") == 4)
            #expect(try await bob.nextTexts(50) == (0..<50).map(String.init))
        }
    }
}
