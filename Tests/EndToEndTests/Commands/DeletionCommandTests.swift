// `martlet app delete` and `martlet user delete`, and the same over HTTP.

import Administration
import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct DeletionCommandTests {
        private func martlet(
            _ arguments: String..., of broker: TestBroker
        ) async throws -> (exit: ChildExit, text: String) {
            let child = try ChildProcess(
                "martlet", arguments, environment: broker.environment("operator"))
            return (try await child.exit(), child.text)
        }

        /// A message that waits for bob.
        private func send(_ text: String, app: String = "demo", of broker: TestBroker) throws {
            let client = try AdministrationClient(dataDirectory: broker.directory)
            _ = try client.send(SendMessage(app: app, from: "alice", users: ["bob"], b: text))
        }

        @Test func `an app is deleted with all that it has, and its store is whole`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            #expect(try await martlet("app", "create", "plant", of: broker).exit == .code(0))
            _ = try await martlet("user", "add", "--app=plant", "alice", "bob", "cid", of: broker)
            for number in 0..<3 { try send("\(number)", app: "plant", of: broker) }
            let refused = try await martlet("app", "delete", "plant", of: broker)
            #expect(refused.exit == .code(0x83))
            #expect(
                refused.text.contains("the app plant has 3 queued messages; nothing is deleted"),
                "\(refused.text)")
            let unnamed = try await martlet("app", "delete", "--force", of: broker)
            #expect(unnamed.exit == .code(1) && unnamed.text.contains("missing NAME"))
            let deleted = try await martlet(
                "app", "delete", "plant", "--force", "--json", of: broker)
            #expect(deleted.exit == .code(0))
            #expect(
                deleted.text.contains(#""hasMore":false,"messageCount":3"#)
                    && deleted.text.contains(#""userCount":3"#), "\(deleted.text)")
            let again = try await martlet("app", "delete", "plant", "--force", of: broker)
            #expect(again.exit == .code(0x90) && again.text.contains("there is no app"))
            let list = try await martlet("app", "list", of: broker)
            #expect(!list.text.contains("plant") && list.text.contains("demo"))
            // A password is a loss too.
            #expect(try await martlet("app", "create", "small", of: broker).exit == .code(0))
            let password = SetPassword(app: "small", name: "ann", password: "long enough")
            _ = try AdministrationClient(dataDirectory: broker.directory).send(password)
            let small = try await martlet("app", "delete", "small", of: broker)
            #expect(small.text.contains("the app small has 1 password; nothing"), "\(small.text)")
            // The other app is whole.
            try await alice.send(OutgoingMessage(to: .user("alice"), text: "whole"))
            await alice.close()
            try await broker.stop()
            #expect(try await broker.verifyStore() == .code(0))
            try await broker.start()
            #expect(try await martlet("app", "create", "plant", of: broker).exit == .code(0))
        }

        @Test func `a user is deleted, and its name is free again`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            try broker.addUsers("bob", "cid")
            try send("lost", of: broker)
            let connected = try await martlet("user", "delete", "alice", of: broker)
            #expect(connected.text.contains("1 connected session;"), "\(connected.text)")
            let refused = try await martlet("user", "delete", "bob", of: broker)
            #expect(refused.exit == .code(0x83) && refused.text.contains("1 queued message;"))
            let bare = try await martlet("user", "delete", "cid", of: broker)
            #expect(bare.exit == .code(0) && bare.text.hasPrefix("user cid is deleted: 1 user, "))
            let forced = try await martlet("user", "delete", "bob", "--force", of: broker)
            #expect(forced.exit == .code(0) && forced.text.contains("1 queued message"))
            let unknown = try await martlet("user", "delete", "bob", of: broker)
            #expect(unknown.exit == .code(0x90))
            try broker.addUsers("bob")
            let shown = try await martlet("user", "show", "bob", "--json", of: broker)
            #expect(shown.text.contains(#""messageCount":0"#))
            let gone = try await martlet("user", "delete", "alice", "--force", of: broker)
            #expect(gone.exit == .code(0) && gone.text.contains("1 user, 1 session, "))
            await alice.close()
            try await broker.stop()
            #expect(try await broker.verifyStore() == .code(0))
        }
    }
}
