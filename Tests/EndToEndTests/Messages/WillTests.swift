// Wills with a real broker: sent when a client is lost, and only then.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct WillTests {
        /// `martlet listen` as dave, with a will that is set.
        private func listener(
            _ arguments: [String], of broker: TestBroker
        ) async throws -> ChildProcess {
            let child = try ChildProcess(
                "martlet", ["listen", "--will", "lost"] + arguments,
                environment: try broker.environment("dave"))
            try await waitForCounter("wills/count", 1, of: broker)
            return child
        }

        private func waitForCounter(
            _ name: String, _ value: UInt64, of broker: TestBroker
        ) async throws {
            try await eventually("\(name) is \(value)") { try broker.counter(name) == value }
        }

        @Test func `the will of a killed client is sent at once to its receivers`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let group = try await alice.createGroup(title: "Family")
            let dave = try await broker.client("dave", device: "other")
            try await dave.joinGroup(group)
            await dave.close()
            alice.acknowledge(try await alice.nextMessage())
            try await alice.subscribe(to: "state/+", grade: .once)
            let wills: [([String], IncomingMessage.Kind)] = [
                (["--will-to", "alice"], .unicast), (["--will-group", group], .group(group)),
                (["--will-broadcast"], .broadcast),
                (["--will-topic", "state/dave"], .topic("state/dave")),
            ]
            for (arguments, kind) in wills {
                let child = try await listener(arguments, of: broker)
                child.signal(SIGKILL)
                _ = try await child.exit()
                let message = try await alice.nextMessage()
                alice.acknowledge(message)
                #expect(message.text == "lost")
                #expect(message.from == "dave")
                #expect(message.kind == kind)
                #expect(message.grade == .once)
                try await waitForCounter("wills/count", 0, of: broker)
            }
            #expect(try broker.counter("wills/sent") == 4)
        }

        @Test func `no will is sent after a normal disconnection, or after the will was removed`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let dave = try await broker.client("dave")
            try await dave.setWill(to: .user("alice"), .text("lost"))
            try await dave.setWill(to: .user("alice"), .text("lost too"))
            await dave.close()
            try await waitForCounter("wills/count", 0, of: broker)
            let listener = try await listener(["--will-to", "alice"], of: broker)
            let back = try await broker.client("dave", device: "other")
            try await back.setWill(to: .user("alice"), .text("third"), delaySeconds: 1)
            try await back.clearWill()
            await back.close()
            listener.signal(SIGKILL)
            #expect(try await alice.nextTexts(1) == ["lost"])
            #expect(try broker.counter("wills/sent") == 1)
        }

        @Test func `a will waits for its delay, and is not sent if the client returns in time`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            // Within the delay a busy machine has to start and to accept a connection; the token
            // is there before.
            let settings = try broker.settings("dave")
            let first = try await listener(
                ["--will-to", "alice", "--will-delay", "8s"], of: broker)
            first.signal(SIGKILL)
            _ = try await first.exit()
            let dave = try await connected(Client(settings))
            try await broker.waitForBrokerTime(seconds: 9)
            #expect(try broker.counter("wills/sent") == 0)
            #expect(try broker.counter("wills/count") == 1)
            await dave.close()
            try await waitForCounter("wills/count", 0, of: broker)
            let second = try await listener(
                ["--will-to", "alice", "--will-delay", "1s"], of: broker)
            second.signal(SIGKILL)
            #expect(try await alice.nextTexts(1) == ["lost"])
        }

        @Test
        func `stopping or killing the broker sends no will for a client that returns in time`()
            async throws
        {
            let broker = try await TestBroker()
            let dave = try await broker.client("dave")
            try await dave.setWill(to: .user("alice"), .text("lost"))
            _ = try broker.token("alice")
            for isKilled in [false, true] {
                if isKilled { try await broker.killNow() } else { try await broker.stop() }
                try await broker.start()
                // The will is still there, and is not to be sent: dave comes back by himself.
                #expect(try broker.counter("wills/count") == 1)
                try await waitForCounter("clients/connected", 1, of: broker)
                #expect(try broker.counter("wills/sent") == 0)
            }
            let alice = try await broker.client("alice")
            try await dave.send(OutgoingMessage(to: .user("alice"), text: "here"))
            #expect(try await alice.nextTexts(1) == ["here"])
            await dave.close()
            try await waitForCounter("wills/count", 0, of: broker)
            try await broker.stop()
            _ = try await broker.verifyStore()
        }

        @Test
        func `another login of the same device sends the will, and ends the earlier connection`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let dave = try await broker.client("dave")
            try await dave.setWill(to: .user("alice"), .text("lost"))
            let second = try await broker.client("dave")
            #expect(try await alice.nextTexts(1) == ["lost"])
            for await event in dave.events {
                if case .disconnected = event { Issue.record("it must not come back by itself") }
            }
            #expect(dave.stopReason == .sessionTakenOver)
            try await second.send(OutgoingMessage(to: .user("alice"), text: "here"))
            #expect(try await alice.nextTexts(1) == ["here"])
        }

        @Test func `a will that is invalid as a send is refused`() async throws {
            let broker = try await TestBroker()
            let dave = try await broker.client("dave")
            await #expect(throws: MartletError.refused(.topicNameInvalid, "")) {
                try await dave.setWill(to: .user("nobody"), .text("lost"))
            }
            let text = String(repeating: "x", count: 1_025)
            await #expect(throws: MartletError.refused(.packetTooLarge, "")) {
                try await dave.setWill(to: .everybody, .text(text))
            }
            #expect(try broker.counter("wills/count") == 0)
        }
    }
}
