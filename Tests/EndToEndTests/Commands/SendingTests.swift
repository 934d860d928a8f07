// The receivers of a send, and the result for its sender.

import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct SendingTests {
        @Test func `a message to a user reaches all devices of the user`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let phone = try await broker.client("bob", device: "phone")
            let pump = try await broker.client("bob", device: "pump")
            var message = OutgoingMessage(to: .user("bob"), text: "hello")
            message.messageID = "m-1"
            let receipt = try await alice.send(message)
            #expect(receipt.messageID == "m-1" && receipt.refusals.isEmpty)
            for bob in [phone, pump] {
                let arrived = try await bob.nextMessage()
                #expect(arrived.kind == .unicast)
                #expect(arrived.from == "alice")
                #expect(arrived.text == "hello")
                let json = #"{"msg":{"t":"0","b":"hello"},"from":"alice","time":"#
                #expect(arrived.json == json + "\"\(arrived.time)\"}")
            }
        }

        @Test func `a list names the receivers that were refused`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            let list = Destination.users(["nobody", "bob", "a/b", "nobody else"])
            let receipt = try await alice.send(OutgoingMessage(to: list, text: "all of you"))
            #expect(receipt.refusedCount == 3)
            #expect(receipt.refusals.map(\.user) == ["nobody", "a/b", "nobody else"])
            #expect(receipt.refusals.allSatisfy { $0.reason == .topicNameInvalid })
            #expect(try await bob.nextMessage().text == "all of you")
            // Nobody took it: then the send itself is refused.
            let strangers = Destination.users(["x", "y"])
            await #expect(throws: MartletError.refused(.topicNameInvalid, "")) {
                try await alice.send(OutgoingMessage(to: strangers, text: "?"))
            }
        }

        @Test func `a broadcast reaches every session except the sender's`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice", device: "one")
            let other = try await broker.client("alice", device: "two")
            let bob = try await broker.client("bob")
            try await alice.send(OutgoingMessage(to: .everybody, text: "fire"))
            for receiver in [other, bob] {
                let arrived = try await receiver.nextMessage()
                #expect(arrived.kind == .broadcast)
                #expect(arrived.text == "fire")
            }
            // What comes next to the sender is the later message, so there was none before.
            try await bob.send(OutgoingMessage(to: .user("alice"), text: "where?"))
            #expect(try await alice.nextMessage().text == "where?")
        }

        @Test func `a filter with wildcards receives what it matches and nothing else`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            #expect(try await bob.subscribe(to: "plant/+/level", grade: .once) == .once)
            #expect(try await bob.subscribe(to: "alarm/#") == .durable)
            for topic in ["plant/7/temperature", "plant/7/level", "plant/7/8/level", "alarm/a/b"] {
                let to = Destination.topic(topic)
                try await alice.send(OutgoingMessage(to: to, .bytes([0, 255]), grade: .once))
            }
            let level = try await bob.nextMessage()
            #expect(level.kind == .topic("plant/7/level"))
            #expect(level.content == .bytes([0, 255]))
            #expect(level.grade == .once)
            let alarm = try await bob.nextMessage()
            #expect(alarm.kind == .topic("alarm/a/b"))
            #expect(alarm.grade == .durable, "the lower of the send's and the subscription's")
            try await bob.unsubscribe(from: "alarm/#")
            try await alice.send(OutgoingMessage(to: .topic("alarm/x"), text: "unheard"))
            try await alice.send(OutgoingMessage(to: .user("bob"), text: "heard"))
            #expect(try await bob.nextMessage().text == "heard")
            await #expect(throws: MartletError.refused(.topicFilterInvalid, "")) {
                try await bob.subscribe(to: "a/#/b")
            }
        }

        @Test func `each message arrives with its grade`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            for grade in [Grade.transient, .durable, .once] {
                try await alice.send(OutgoingMessage(to: .user("bob"), text: "x", grade: grade))
                let arrived = try await bob.nextMessage()
                #expect(arrived.grade == grade)
                #expect((arrived.record == nil) == (grade == .transient))
                #expect(!arrived.isPossibleDuplicate)
            }
        }

        @Test func `a message of 1024 bytes is delivered, and one of 1025 is refused`() async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            // 16 bytes are around the text; é and " count two each.
            let longest = "é\"" + String(repeating: "x", count: 1024 - 16 - 4)
            try await alice.send(OutgoingMessage(to: .user("bob"), text: longest))
            await #expect(throws: MartletError.refused(.packetTooLarge, "")) {
                try await alice.send(OutgoingMessage(to: .user("bob"), text: longest + "x"))
            }
            try await alice.send(OutgoingMessage(to: .user("bob"), text: "after"))
            #expect(try await bob.nextTexts(2) == [longest, "after"])
        }

        @Test(arguments: ["a/b", "a+b", "a#", "", String(repeating: "x", count: 65)])
        func `an invalid id is refused`(id: String) async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            await #expect(throws: MartletError.refused(.topicNameInvalid, "")) {
                try await alice.send(OutgoingMessage(to: .user(id), text: "x"))
            }
            await #expect(throws: MartletError.self) {
                try await broker.client("alice", device: id.isEmpty ? "a/b" : id)
            }
        }

        @Test func `presence reports connected users with their devices`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let away = try await alice.presence(of: "bob")
            #expect(!away.isOnline && away.devices.isEmpty)
            let bob = try await broker.client("bob", device: "pump")
            let present = try await alice.presence(of: "bob")
            #expect(present.isOnline && present.devices == ["pump"])
            await bob.close()
            #expect(try await alice.presence(of: "bob").isOnline == false)
        }

        @Test func `sends are made in the order of the calls`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            let count = 2_000
            for number in 0..<count {
                alice.send(OutgoingMessage(to: .user("bob"), text: "\(number)")) { result in
                    if case .failure(let error) = result { Issue.record(error) }
                }
            }
            #expect(try await bob.nextTexts(count) == (0..<count).map(String.init))
        }
    }
}
