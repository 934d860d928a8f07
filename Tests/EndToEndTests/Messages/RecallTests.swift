// Recall, replace and collapse key with real programs: devices that sleep and devices that have the
// message, and the death of the broker in between.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct RecallTests {
        /// A device that has logged in before, and sleeps.
        private func sleeper(_ user: String, of broker: TestBroker) async throws {
            await (try await broker.client(user)).close()
        }

        /// A message that can be recalled.
        private func message(
            to destination: Destination, _ text: String, id: String? = nil
        ) -> OutgoingMessage {
            var message = OutgoingMessage(to: destination, text: text)
            message.asksReference = true
            message.messageID = id
            return message
        }

        /// What a client gets up to the text `end`, in words.
        private func story(of client: Client) async throws -> [String] {
            var words: [String] = []
            while words.last != "end" {
                let message = try await client.nextMessage()
                client.acknowledge(message)
                switch message.kind {
                case .recall(let revision?): words.append("recall \(revision.messageID ?? "-")")
                case .update(let revision?):
                    guard case .text(let text, _)? = revision.content else { break }
                    words.append("update \(revision.messageID ?? "-") \(text)")
                case .unicast, .group: words.append(message.text)
                default: break
                }
            }
            return words
        }

        private func martlet(
            _ arguments: String..., of broker: TestBroker, as user: String
        ) async throws -> (exit: ChildExit, text: String) {
            let child = try ChildProcess(
                "martlet", arguments, environment: broker.environment(user))
            return (try await child.exit(), child.text)
        }

        private func reason(_ body: () async throws -> Void) async -> String {
            do {
                try await body()
                return "none"
            } catch {
                return "\(error)"
            }
        }

        @Test func `a device that sleeps never gets what was recalled, one that has it is told`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            try await sleeper("carol", of: broker)
            try broker.addUsers("dave")
            let sent = try await alice.send(
                message(to: .users(["bob", "carol", "dave"]), "open", id: "m-1"))
            let received = try await bob.nextMessage()
            #expect(received.text == "open" && received.reference == sent.reference)
            bob.acknowledge(received)
            let result = try await alice.recall(.messageID("m-1"), detail: "wrong valve")
            #expect(result.withdrawnCount == 2 && result.lateCount == 1)
            #expect(result.lateUsers == ["bob"])
            let told = try await bob.nextMessage()
            bob.acknowledge(told)
            guard case .recall(let revision?) = told.kind else {
                Issue.record("\(told)")
                return
            }
            #expect(revision.reference == sent.reference && revision.messageID == "m-1")
            #expect(revision.detail == "wrong valve" && revision.code == 0 && told.from == "alice")
            #expect(revision.group == nil && revision.content == nil)
            // The same answer again, and no second event.
            #expect(try await alice.recall(.reference(revision.reference)) == result)
            let refusal = await reason {
                _ = try await alice.replace(.reference(revision.reference), text: "x")
            }
            #expect(refusal.contains("0x90") || refusal.contains("unknown"), "\(refusal)")
            _ = try await alice.send(
                OutgoingMessage(to: .users(["bob", "carol", "dave"]), text: "end"))
            #expect(try await story(of: bob) == ["end"])
            for user in ["carol", "dave"] {
                let client = try await broker.client(user)
                #expect(try await story(of: client) == ["end"])
                await client.close()
            }
            for client in [alice, bob] { await client.close() }
        }

        @Test func `a replacement has the old place, and reaches who has the old content`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            try await sleeper("carol", of: broker)
            for number in 1...3 {
                _ = try await alice.send(
                    message(to: .users(["bob", "carol"]), "\(number)", id: "m-\(number)"))
            }
            #expect(try await bob.nextTexts(3) == ["1", "2", "3"])
            let result = try await alice.replace(.messageID("m-2"), text: "two", type: 7)
            #expect(result.withdrawnCount == 1 && result.lateUsers == ["bob"])
            let again = try await alice.replace(.messageID("m-2"), text: "zwei")
            #expect(again.withdrawnCount == 1 && again.lateUsers == ["bob"])
            _ = try await alice.send(OutgoingMessage(to: .users(["bob", "carol"]), text: "end"))
            #expect(try await story(of: bob) == ["update m-2 two", "update m-2 zwei", "end"])
            let carol = try await broker.client("carol")
            #expect(try await story(of: carol) == ["1", "zwei", "3", "end"])
            for client in [alice, bob, carol] { await client.close() }
        }

        @Test func `a device that was away gets one set-point, the newest`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let other = try await broker.client("other")
            let bob = try await broker.client("bob")
            try await sleeper("carol", of: broker)
            try broker.addUsers("dave")
            for number in 1...50 {
                for user in ["bob", "carol", "dave"] {
                    var message = OutgoingMessage(to: .user(user), text: "\(number)")
                    message.collapseKey = "set-point"
                    _ = try await alice.send(message)
                    message.collapseKey = "limit"
                    if number % 25 == 0 { _ = try await alice.send(message) }
                }
            }
            // The same key of another sender is another key.
            var foreign = OutgoingMessage(to: .user("carol"), text: "other")
            foreign.collapseKey = "set-point"
            _ = try await other.send(foreign)
            for user in ["bob", "carol", "dave"] {
                _ = try await alice.send(OutgoingMessage(to: .user(user), text: "end"))
            }
            // Who is awake gets each of them.
            let awake = try await story(of: bob)
            #expect(awake.filter { $0 != "end" }.last == "50" && awake.count > 2, "\(awake)")
            for (user, expected) in [
                ("carol", ["50", "50", "other", "end"]), ("dave", ["50", "50", "end"]),
            ] {
                let client = try await broker.client(user)
                #expect(try await story(of: client) == expected)
                await client.close()
            }
            for client in [alice, other, bob] { await client.close() }
        }

        @Test func `what was answered holds over the death of the broker`() async throws {
            let broker = try await TestBroker()
            var alice = try await broker.client("alice")
            try await sleeper("carol", of: broker)
            var expected: [String] = []
            for round in 1...4 {
                for kind in ["kept", "recalled", "replaced"] {
                    _ = try await alice.send(
                        message(to: .user("carol"), "\(round) \(kind)", id: "\(round)-\(kind)"))
                }
                expected += ["\(round) kept", "\(round) new"]
                var setPoint = OutgoingMessage(to: .user("carol"), text: "set-point \(round)")
                setPoint.collapseKey = "key"
                let recalled = try await alice.recall(.messageID("\(round)-recalled"))
                #expect(recalled.withdrawnCount == 1 && recalled.lateCount == 0)
                let replaced = try await alice.replace(
                    .messageID("\(round)-replaced"), text: "\(round) new")
                #expect(replaced.withdrawnCount == 1 && replaced.lateCount == 0)
                _ = try await alice.send(setPoint)
                try await broker.killNow()
                #expect(try await broker.verifyStore() == .code(0))
                try await broker.start()
                await alice.close()
                alice = try await broker.client("alice")
                // Over the restart the broker knows the messages, and the repetition changes none.
                let again = try await alice.recall(.messageID("\(round)-recalled"))
                #expect(again.lateCount == 0)
            }
            _ = try await alice.send(OutgoingMessage(to: .user("carol"), text: "end"))
            let carol = try await broker.client("carol")
            #expect(try await story(of: carol) == expected + ["set-point 4", "end"])
            for client in [alice, carol] { await client.close() }
        }

        @Test func `a recall that the broker's death interrupts is done or not, never half`()
            async throws
        {
            let broker = try await TestBroker()
            try await sleeper("carol", of: broker)
            for round in 1...5 {
                let alice = try await broker.client("alice")
                _ = try await alice.send(message(to: .user("carol"), "\(round)", id: "m"))
                async let interrupted = alice.recall(.messageID("m"))
                for _ in 1..<round { _ = try broker.counter("messages/tracked") }
                try await broker.killNow()
                try await broker.start()
                let first = try? await interrupted
                let repeated = try await alice.recall(.messageID("m"))
                #expect(repeated.withdrawnCount + repeated.lateCount == 1)
                if let first { #expect(first.withdrawnCount == repeated.withdrawnCount) }
                _ = try await alice.send(OutgoingMessage(to: .user("carol"), text: "end"))
                let carol = try await broker.client("carol")
                let story = try await story(of: carol)
                if repeated.withdrawnCount == 1 {
                    #expect(story == ["end"])
                } else {
                    // Who may have the message is told, also if the copy was gone already.
                    #expect(story.suffix(2) == ["recall m", "end"])
                    #expect(story.count == 2 || story == ["\(round)", "recall m", "end"])
                }
                for client in [alice, carol] { await client.close() }
            }
        }

        @Test func `a message of another user is refused like one that never was`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let mallory = try await broker.client("mallory")
            try await sleeper("carol", of: broker)
            let sent = try await alice.send(message(to: .user("carol"), "open", id: "m-1"))
            let reference = try #require(sent.reference)
            let bob = try await broker.client("bob")
            let toBob = try await alice.send(message(to: .user("bob"), "open", id: "m-3"))
            let received = try #require(toBob.reference)
            let unknown = try #require(MessageReference("00000000000000a1"))
            let foreign = await reason { _ = try await mallory.recall(.reference(reference)) }
            #expect(foreign != "none")
            for refusal in [
                await reason { _ = try await mallory.recall(.reference(unknown)) },
                await reason { _ = try await mallory.recall(.messageID("m-1")) },
                await reason { _ = try await mallory.replace(.reference(reference), text: "x") },
                await reason { _ = try await mallory.replace(.messageID("m-1"), text: "x") },
                await reason { _ = try await alice.recall(.messageID("m-2")) },
                // A receiver is no sender.
                await reason { _ = try await bob.recall(.reference(received)) },
                await reason { _ = try await bob.recall(.messageID("m-3")) },
            ] { #expect(refusal == foreign) }
            var everybody = OutgoingMessage(to: .everybody, text: "x")
            everybody.messageID = "all"
            _ = try await alice.send(everybody)
            #expect(await reason { _ = try await alice.recall(.messageID("all")) } == foreign)
            _ = try await alice.send(OutgoingMessage(to: .user("carol"), text: "end"))
            let carol = try await broker.client("carol")
            #expect(try await story(of: carol) == ["open", "end"])
            for client in [alice, bob, mallory, carol] { await client.close() }
        }

        @Test func `of a group those are told who have it, and members who left are not`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let group = try await alice.createGroup(title: "Pumps")
            let bob = try await broker.client("bob")
            try await bob.joinGroup(group)
            for user in ["carol", "dave", "erin"] {
                let client = try await broker.client(user)
                try await client.joinGroup(group)
                await client.close()
            }
            let sent = try await alice.send(message(to: .group(group), "open", id: "g-1"))
            while try await bob.nextMessage().text != "open" {}
            let result = try await alice.recall(.messageID("g-1"))
            #expect(result.withdrawnCount == 3 && result.lateCount == 1)
            #expect(result.lateUsers == [])
            _ = try await alice.send(message(to: .group(group), "close", id: "g-2"))
            let replaced = try await alice.replace(.messageID("g-2"), text: "half")
            #expect(replaced.withdrawnCount == 3)
            _ = try await alice.send(OutgoingMessage(to: .group(group), text: "end"))
            while true {
                let told = try await bob.nextMessage()
                guard case .recall(let revision?) = told.kind else { continue }
                #expect(revision.group == group && revision.reference == sent.reference)
                break
            }
            for user in ["carol", "dave", "erin"] {
                let client = try await broker.client(user)
                #expect(try await story(of: client) == ["half", "end"])
                await client.close()
            }
            for client in [alice, bob] { await client.close() }
        }
    }
}
