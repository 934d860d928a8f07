// What a user does with the commands of receipts and conversations, and what refusals say.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct ConversationCommandTests {
        private func martlet(
            _ arguments: String..., of broker: TestBroker, as user: String
        ) async throws -> (exit: ChildExit, text: String) {
            let child = try ChildProcess(
                "martlet", arguments, environment: broker.environment(user))
            return (try await child.exit(), child.text)
        }

        @Test func `an answer of a receiver decides how the command that waits for it ends`()
            async throws
        {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            let sending = try ChildProcess(
                "martlet",
                ["send", "--to=bob,nobody", "--wait=applied", "--json", "--receipt", "open"],
                environment: broker.environment("alice"))
            let message = try await bob.nextMessage()
            bob.acknowledge(message)
            let reference = try #require(message.reference)
            let told = try await martlet(
                "applied", "\(reference)", "--code=131", "--text=too hot", of: broker, as: "bob")
            #expect(told.exit == .code(0), "\(told.text)")
            // The receiver that was refused does not end the command before the other answers.
            #expect(try await sending.exit() == .code(7), "\(sending.text)")
            #expect(sending.text.contains(#"{"reference":"\#(reference)"}"#), "\(sending.text)")
            #expect(sending.text.contains(#""code":131,"text":"too hot""#), "\(sending.text)")
            #expect(sending.text.contains("not sent to nobody"), "\(sending.text)")
            #expect(sending.text.contains("bob did not apply it: code 131 too hot"))
            await bob.close()
            let unknown = try await martlet(
                "applied", "00000000000000a1", of: broker, as: "bob")
            #expect(unknown.exit == .code(0x90), "\(unknown.text)")
            #expect(unknown.text.contains("no message with this reference"), "\(unknown.text)")
        }

        @Test func `a command that waits names who is missing, and does not wait for nobody`()
            async throws
        {
            let broker = try await TestBroker()
            try broker.addUsers("bob", "carol")
            // The time limits the whole command: its login and its message come first.
            let late = try await martlet(
                "send", "--to=bob,carol", "--wait=delivered", "--timeout=8s", "open", of: broker,
                as: "alice")
            #expect(late.exit == .code(27), "\(late.text)")
            #expect(late.text.contains("is not delivered by bob, carol"), "\(late.text)")
            let group = try await martlet(
                "group", "create", "--name=alone", of: broker, as: "alice")
            let alone = try await martlet(
                "send", "--group=\(group.text)", "--wait=applied", "open", of: broker, as: "alice")
            #expect(alone.exit == .code(7), "\(alone.text)")
            #expect(alone.text.contains("nobody receives it"), "\(alone.text)")
            // Another device of the sender receives it, and gives no receipt.
            let phone = try ChildProcess(
                "martlet", ["listen", "--device=phone"], environment: broker.environment("alice"))
            _ = try await phone.line(with: "connected as alice")
            let still = try await martlet(
                "send", "--group=\(group.text)", "--wait=applied", "open", of: broker, as: "alice")
            #expect(still.exit == .code(7), "\(still.text)")
        }

        @Test func `counts of a group come from the sender, without what was not asked for`()
            async throws
        {
            let broker = try await TestBroker()
            let group = try await martlet(
                "group", "create", "--name=pumps", of: broker, as: "alice")
            try broker.addUsers("bob")
            _ = try await martlet("group", "join", group.text, of: broker, as: "bob")
            let bob = try await broker.client("bob")
            let sending = try ChildProcess(
                "martlet", ["send", "--group=\(group.text)", "--wait=applied", "open"],
                environment: broker.environment("alice"))
            var reference: MessageReference?
            while reference == nil {
                let message = try await bob.nextMessage()
                bob.acknowledge(message)
                reference = message.reference
            }
            try await bob.reportApplied(try #require(reference))
            #expect(try await sending.exit() == .code(0), "\(sending.text)")
            #expect(
                sending.text.hasSuffix("group \(group.text): 1 of 1 applied, 0 failed"),
                "\(sending.text)")
            #expect(sending.text.hasPrefix("alice (receipt): "), "\(sending.text)")
            await bob.close()
        }

        @Test func `a user reads its own conversations and marks them as read`() async throws {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            for text in ["one", "two"] {
                let sent = try await martlet(
                    "send", "--to=bob", "--history", text, of: broker, as: "alice")
                #expect(sent.exit == .code(0), "\(sent.text)")
            }
            let listed = try await martlet(
                "history", "--with=alice", "--json", of: broker, as: "bob")
            let lines = listed.text.split(separator: "\n")
            #expect(lines.count == 2 && lines[0].contains(#""text":"two""#), "\(listed.text)")
            let found = try await martlet(
                "history", "--with=alice", "--search=one", of: broker, as: "bob")
            #expect(found.text.contains("one") && !found.text.contains("two"), "\(found.text)")
            let unread = try await martlet(
                "conversations", "--unread", "--json", of: broker, as: "bob")
            #expect(
                unread.text
                    == #"{"lastNumber":2,"readThrough":0,"unreadCount":2,"user":"alice"}"#)
            let read = try await martlet("read", "--with=alice", "2", of: broker, as: "bob")
            #expect(read.text == "read up to message 2")
            let none = try await martlet("conversations", "--unread", of: broker, as: "bob")
            #expect(none.exit == .code(0) && !none.text.contains("alice"), "\(none.text)")
            let newest = try await martlet("conversations", "--messages", of: broker, as: "bob")
            #expect(newest.text.hasSuffix("alice  2       2     0       alice  two"))
            let ahead = try await martlet("read", "--with=alice", "9", of: broker, as: "bob")
            #expect(ahead.exit == .code(0x90), "\(ahead.text)")
            #expect(ahead.text.contains("no message of this number yet"), "\(ahead.text)")
            let usage = try await martlet("history", of: broker, as: "bob")
            #expect(usage.exit == .code(1), "\(usage.text)")
        }

        @Test func `a refusal names the right and the rule, to the client and to the operator`()
            async throws
        {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            let settings = try broker.settings("eve", device: "one")
            var limited = settings
            limited.credential = .token(try broker.token("eve", rights: ["send:*"]))
            let eve = try await connected(Client(limited))
            var message = OutgoingMessage(to: .user("bob"), text: "open")
            message.receipts = .delivered
            await #expect(throws: MartletError.refused(.notAuthorized, "")) {
                try await eve.send(message)
            }
            await #expect(throws: MartletError.self) {
                try await eve.markRead(.user("bob"), through: 3)
            }
            await eve.close()
            let refusals = try await martlet("refusals", "--json", of: broker, as: "operator")
            #expect(refusals.text.contains("no right receipts:"), "\(refusals.text)")
            #expect(
                refusals.text.contains("no message of this number yet"), "\(refusals.text)")
            _ = try await martlet(
                "token", "mint", "--user=pam", "--right=send:*", of: broker, as: "operator")
            for (words, answer) in [
                (["publish", "$api/history"], "allowed: its operation decides"),
                (["publish", "$api/fly"], "refused: there is no such operation"),
                (["publish", "$api/createGroup"], "refused: no right"),
                (["subscribe", "$api/reply"], "allowed"),
            ] {
                let child = try ChildProcess(
                    "martlet", ["explain", "--user=pam"] + words,
                    environment: broker.environment("operator"))
                _ = try await child.exit()
                #expect(child.text.hasPrefix(answer), "\(words): \(child.text)")
            }
        }
    }
}
