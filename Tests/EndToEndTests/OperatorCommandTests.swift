// The operator's commands as a person types them: tokens with rights, sessions, queues, backups.

import Foundation
import MartletClient
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(1))) struct OperatorCommandTests {
        private func martlet(
            _ arguments: String..., of broker: TestBroker
        ) async throws -> (exit: ChildExit, text: String) {
            let child = try ChildProcess(
                "martlet", arguments, environment: broker.environment("operator"))
            return (try await child.exit(), child.text)
        }

        @Test func `a lot of tokens is made with rights, listed and taken back`() async throws {
            let broker = try await TestBroker()
            let minted = try await martlet(
                "token", "mint", "--user=pump-1", "--user=pump-2", "--batch=lot-1",
                "--right=publish:site/%u/#", of: broker)
            #expect(minted.exit == .code(0))
            let listed = try await martlet("token", "list", "--batch=lot-1", "--json", of: broker)
            let lines = listed.text.split(separator: "\n")
            #expect(lines.count == 2)
            #expect(lines.allSatisfy { $0.contains(#""rights":["publish:site/%u/#"]"#) })
            let why = try await martlet(
                "explain", "--user=pump-1", "publish", "site/pump-1/t", of: broker)
            #expect(why.text.hasPrefix("allowed by publish:site/%u/#"))
            let whyNot = try await martlet(
                "explain", "--user=pump-1", "publish", "site/pump-2/t", of: broker)
            #expect(whyNot.text.hasPrefix("refused"))
            let revoked = try await martlet("token", "revoke", "--batch=lot-1", of: broker)
            #expect(revoked.text == "2 tokens revoked, 0 connections ended")
            let again = try await martlet("token", "list", "--batch=lot-1", of: broker)
            #expect(again.exit == .code(0) && again.text.isEmpty)
        }

        @Test func `sessions and what waits for them are shown and ended`() async throws {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob", device: "d1")
            let here = try await martlet("session", "list", "--connected", of: broker)
            #expect(here.text.hasPrefix("bob\td1\tmrt\there since"))
            await bob.close()
            let alice = try await broker.client("alice")
            try await alice.send(OutgoingMessage(to: .user("bob"), text: "x"))
            let shown = try await martlet("session", "show", "bob", of: broker)
            #expect(shown.text.contains("waiting: 1 messages"))
            let queue = try await martlet("queue", "show", "bob", of: broker)
            #expect(queue.text.contains("d1\t1 waiting"))
            #expect(
                try await martlet("queue", "purge", "bob", of: broker).text
                    == "1 messages thrown away")
            #expect(
                try await martlet("session", "delete", "bob", of: broker).text
                    == "1 sessions deleted")
            #expect(
                try await martlet("session", "kick", "alice", of: broker).text
                    == "1 connections ended")
            await alice.close()
        }

        @Test func `what cannot be undone needs more than an app`() async throws {
            let broker = try await TestBroker()
            for command in [["session", "delete"], ["queue", "purge"], ["token", "revoke"]] {
                let child = try ChildProcess(
                    "martlet", command, environment: broker.environment("operator"))
                #expect(try await child.exit() == .code(1), "\(command)")
                #expect(child.text.contains("say which"), "\(child.text)")
            }
        }

        @Test func `a backup is put back by the broker that will use it`() async throws {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            let alice = try await broker.client("alice")
            try await alice.send(OutgoingMessage(to: .user("bob"), text: "kept"))
            await alice.close()
            let backup = broker.directory + "-backup"
            #expect(try await martlet("backup", backup, of: broker).exit == .code(0))
            let restored = broker.directory + "-restored"
            let restore = try ChildProcess(
                "martletd", ["--restore", backup, "--data", restored])
            #expect(try await restore.exit() == .code(0), "\(restore.text)")
            let check = try ChildProcess("martletd", ["--verify-store", "--data", restored])
            #expect(try await check.exit() == .code(0))
            let twice = try ChildProcess("martletd", ["--restore", backup, "--data", restored])
            #expect(try await twice.exit() == .code(4))
        }
    }
}
