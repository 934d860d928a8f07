// The operator's commands as a person types them: tokens with rights, sessions, queues, backups.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(1 * Sanitizer.patience))) struct OperatorCommandTests {
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
            let words = here.text.split { " \n".contains($0) }.dropFirst(9)
            #expect(words.prefix(4) == ["bob", "d1", "mrt", "connected"], "\(here.text)")
            await bob.close()
            let alice = try await broker.client("alice")
            try await alice.send(OutgoingMessage(to: .user("bob"), text: "x"))
            let shown = try await martlet("session", "show", "bob", of: broker)
            #expect(shown.text.contains("waiting:       1 message, "), "\(shown.text)")
            let queue = try await martlet("queue", "show", "bob", of: broker)
            #expect(queue.text.contains("device d1  1 "), "\(queue.text)")
            #expect(
                try await martlet("queue", "purge", "bob", of: broker).text
                    == "1 message thrown away")
            #expect(
                try await martlet("session", "delete", "bob", of: broker).text
                    == "1 session deleted")
            #expect(
                try await martlet("session", "kick", "alice", of: broker).text
                    == "1 connection ended")
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

        @Test func `ten thousand devices get their tokens in one file, and one works`()
            async throws
        {
            let broker = try await TestBroker()
            let file = broker.directory + "-lot.csv"
            let minted = try await martlet(
                "token", "mint", "--count=10001", "--prefix=dev-", "--expires=10y",
                "--batch=lot-1", "--output", file, of: broker)
            #expect(minted.exit == .code(0), "\(minted.text)")
            let lines = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n")
            #expect(lines.count == 10_002 && lines[0] == "app,user,device,id,token")
            let last = lines[10_001].split(separator: ",", omittingEmptySubsequences: false)
            #expect(last[1] == "dev-10001")
            let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions]
            #expect(mode as? Int == 0o600)
            var settings = try broker.settings("alice")
            settings.credential = .token(String(last[4]))
            await (try await connected(Client(settings))).close()
            // What stands nowhere else is not written over.
            let again = try await martlet(
                "token", "mint", "--count=1", "--prefix=x", "--output", file, of: broker)
            #expect(again.exit == .code(2) && again.text.contains("is there already"))
            let list = try ChildProcess(
                "martlet", ["token", "mint", "--users=-"],
                environment: broker.environment("operator"), input: "sn 1\r\n\nsn 2\n")
            #expect(try await list.exit() == .code(0))
            #expect(list.text.split(separator: "\n").map { $0.prefix(5) } == ["sn 1\t", "sn 2\t"])
        }

        @Test func `the operator handles groups that are not the operator's`() async throws {
            let broker = try await TestBroker()
            var variables = try broker.environment("alice")
            variables["MARTLET_TOKEN"] = nil
            func martlet(_ words: String...) async throws -> (exit: ChildExit, text: String) {
                let child = try ChildProcess("martlet", ["group"] + words, environment: variables)
                return (try await child.exit(), child.text)
            }
            let bob = try await broker.client("bob")
            let group = try await martlet(
                "create", "--owner=alice", "--name=Pumps", "--allow=carol"
            ).text
            #expect(group.utf8.count == 13, "\(group)")
            #expect(try await martlet("join", group, "bob").exit == .code(0))
            #expect(
                try await bob.nextMessage().kind
                    == .groupEvent(group: group, .joined(user: "bob")))
            let shown = try await martlet("show", group, "--json")
            #expect(
                shown.text
                    == #"{"allowed":["carol"],"groupid":"\#(group)","isLimited":true,"#
                    + #""memberCount":2,"members":["alice","bob"],"meta":"","owner":"alice","#
                    + #""title":"Pumps"}"#)
            #expect(
                try await martlet("list", "bob").text
                    == "GROUP          TITLE  OWNER  MEMBERS  MAY JOIN\n"
                    + "\(group)  Pumps  alice  2        who is on its list")
            #expect(try await martlet("ban", group, "bob").exit == .code(0))
            #expect(try await martlet("list", "bob").text.isEmpty)
            #expect(try await martlet("kick", group, "alice").exit == .code(0x87))
            #expect(try await martlet("join", group, "stranger").exit == .code(0x90))
            #expect(try await martlet("show", "nowhere").exit == .code(0x90))
            #expect(try await martlet("join", group).exit == .code(1))
            await bob.close()
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
