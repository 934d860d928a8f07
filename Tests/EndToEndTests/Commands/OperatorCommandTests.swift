// The operator's commands: tokens with rights, sessions, queues, backups.

import Foundation
import MartletClient
import NetTransport
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct OperatorCommandTests {
        private func martlet(
            _ arguments: String..., of broker: TestBroker
        ) async throws -> (exit: ChildExit, text: String) {
            let child = try ChildProcess(
                "martlet", arguments, environment: broker.environment("operator"))
            return (try await child.exit(), child.text)
        }

        @Test func `a batch of tokens is minted with rights, listed and revoked`() async throws {
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

        @Test func `a command for an unknown user is an error, and creates no user`() async throws {
            let broker = try await TestBroker()
            let revoked = try await martlet("token", "revoke", "--id=aaaaaaaaaaaa", of: broker)
            #expect(revoked.exit == .code(2) && revoked.text.contains("no token matches"))
            let owned = try await martlet(
                "group", "create", "--data=\(broker.directory)", "--owner=typo", "--name=x",
                of: broker)
            #expect(owned.exit == .code(0x90) && owned.text.contains("martlet user add"))
            #expect(try await martlet("user", "add", "typo", of: broker).text.contains("typo"))
            _ = try await broker.process.line(
                with: "event=administration request=user.add app=demo user=typo")
            #expect(try broker.counter("groups/count") == 0)
        }

        @Test func `explain gives the broker's decision for addresses`() async throws {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            _ = try await martlet(
                "token", "mint", "--user=ann", "--right=send:bob", "--right=subscribe:#",
                of: broker)
            let answers = [
                ("publish", "$u/bob", "allowed by send:bob"), ("publish", "$u/eve", "refused: no"),
                ("publish", "$b", "refused: no"), ("publish", "$SYS/x", "refused: no"),
                ("subscribe", "$u/ann", "allowed: it is the user's own"),
                ("subscribe", "$u/bob", "refused: no"), ("subscribe", "$SYS/#", "refused: no"),
                ("subscribe", "$b", "allowed: broadcasts"),
                ("subscribe", "$share/s/a/b", "allowed by subscribe:#"),
                ("subscribe", "$presence/bob", "refused: no"),
                ("publish", "a/+", "refused: 144"), ("publish", "", "refused: 144"),
                ("subscribe", "a+", "refused: 143"), ("subscribe", "a/#/b", "refused: 143"),
            ]
            for (action, address, answer) in answers {
                let told = try await martlet("explain", "--user=ann", action, address, of: broker)
                #expect(told.text.hasPrefix(answer), "\(action) \(address): \(told.text)")
            }
            _ = try await martlet(
                "app", "key", "add", "kiosk", "--role=operate", "--right=attach:kiosk-*", of: broker
            )
            func explain(_ words: [String]) async throws -> (exit: ChildExit, text: String) {
                let child = try ChildProcess(
                    "martlet", ["explain"] + words, environment: broker.environment("operator"))
                return (try await child.exit(), child.text)
            }
            for (words, answer) in [
                (["--user=ann", "create-group"], "refused: no"),
                (["--user=ann", "group:create"], "refused: no"),
                (["--user=ann", "attach", "bob"], "refused: no"),
                (["--key=kiosk", "attach", "kiosk-1"], "allowed by attach:kiosk-*"),
                (["--key=kiosk", "attach", "bob"], "refused: no"),
                (["--key=default", "attach", "bob"], "allowed: a key with the role operate"),
            ] {
                let told = try await explain(words)
                #expect(told.text.hasPrefix(answer), "\(words): \(told.text)")
            }
            for (words, fault) in [
                (["--user=ann", "create"], "unknown ACTION create; one of: send, publish"),
                (["--key=kiosk", "send", "bob"], "--key asks whether a key logs in"),
                (["attach", "bob"], "--user"),
            ] {
                let told = try await explain(words)
                #expect(told.exit == .code(1) && told.text.contains(fault), "\(told)")
            }
        }

        @Test func `an operator decides whether the will of a kicked client is sent`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            for (option, isSent) in [("--no-will", false), ("--will", true)] {
                let dave = try await broker.client("dave")
                try await dave.setWill(to: .user("alice"), .text("lost"))
                let before = try broker.counter("wills/sent")
                _ = try await martlet("session", "kick", "dave", option, of: broker)
                await dave.close()
                try await eventually("the will is gone") { try broker.counter("wills/count") == 0 }
                #expect(try broker.counter("wills/sent") == before + (isSent ? 1 : 0))
            }
            alice.acknowledge(try await alice.nextMessage())
        }

        @Test func `the will of a client whose token is revoked is not sent`() async throws {
            let broker = try await TestBroker()
            _ = try await broker.client("alice")
            let dave = try await broker.client("dave")
            try await dave.setWill(to: .users(["alice", "dave"]), .text("lost"))
            let revoked = try await martlet("token", "revoke", "--user=dave", of: broker)
            #expect(revoked.exit == .code(0), "\(revoked.text)")
            try await eventually("the will is gone") { try broker.counter("wills/count") == 0 }
            #expect(try broker.counter("wills/sent") == 0)
            await dave.close()
        }

        @Test
        func `a full queue is reported to the sender, in the log and in the receiver's statistics`()
            async throws
        {
            let broker = try await TestBroker("queues.messages=2", #"queues.policy="refuse""#)
            let away = try await broker.client("bob", device: "away")
            await away.close()
            let here = try await broker.client("bob", device: "here")
            let alice = try await broker.client("alice")
            for number in 1...3 {
                let receipt = try await alice.send(
                    OutgoingMessage(to: .user("bob"), text: "\(number)"))
                here.acknowledge(try await here.nextMessage())
                #expect(receipt.refusedCount == (number > 2 ? 1 : 0))
            }
            let child = try ChildProcess(
                "martlet", ["send", "--to", "bob", "again"],
                environment: try broker.environment("alice"))
            #expect(try await child.exit() == .code(6))
            #expect(child.text.contains("1 receiver refused it"), "\(child.text)")
            here.acknowledge(try await here.nextMessage())
            let line = try await broker.process.line(with: "event=receiver_refused", "user=bob")
            #expect(line.contains("device=away") && line.contains("code=151"), "\(line)")
            #expect(line.contains("detail=queues.messages"), "\(line)")
            let shown = try await martlet("session", "show", "bob", "--device=away", of: broker)
            #expect(shown.text.contains("overflow:      2"), "\(shown.text)")
            #expect(try broker.counter("messages/refused/queue") == 2)
        }

        @Test
        func `a refused login is logged with its names, and as auth_failed only for a credential`()
            async throws
        {
            let broker = try await TestBroker()
            let http = try WireClient(port: broker.plainPort)
            // As long as real ones are: the first bytes are read as the head of a packet.
            let agent = String(repeating: "x", count: 100)
            try http.send(Array("GET / HTTP/1.1\r\nUser-Agent: \(agent)\r\n\r\n".utf8))
            try http.waitForClose()
            _ = try await broker.process.line(with: "event=login_refused")
            // Where nobody is let in without a credential.
            let context = try ClientTLSContext(trust: .authorityFile(broker.authority))
            let guess = try WireClient(port: broker.tlsPort, tls: context)
            // MQTT 3.1.1: client id "pump", user name "demo/pump", password "x".
            let body =
                [0, 4] + Array("MQTT".utf8) + [4, 0xC2, 0, 60, 0, 4] + Array("pump".utf8)
                + [0, 9] + Array("demo/pump".utf8) + [0, 1] + Array("x".utf8)
            try guess.send([0x10, UInt8(body.count)] + body)
            // CONNACK of 3.1.1: a bad user name or password.
            #expect(try guess.nextPacket().body == [0, 4])
            try guess.waitForClose()
            let line = try await broker.process.line(with: "event=auth_failed")
            #expect(line.contains("user=demo/pump device=pump"), "\(line)")
        }

        @Test func `sessions and their queues are shown and ended`() async throws {
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
                    == "1 message discarded")
            #expect(
                try await martlet("session", "delete", "bob", of: broker).text
                    == "1 session deleted")
            #expect(
                try await martlet("session", "kick", "alice", of: broker).text
                    == "1 connection ended")
            await alice.close()
        }

        @Test func `the messages of a queue are listed, and one of them is dropped`() async throws {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob", device: "d1")
            await bob.close()
            let alice = try await broker.client("alice")
            for text in ["one", "two\u{7}", "three"] {
                try await alice.send(OutgoingMessage(to: .user("bob"), text: text))
            }
            let listed = try await martlet(
                "queue", "messages", "bob", "--device=d1", "--limit=2", of: broker)
            var lines = listed.text.split(separator: "\n")
            #expect(lines.count == 3 && lines[0].hasPrefix("NUMBER  FROM   TO    TYPE"))
            #expect(lines.last?.hasPrefix("2       alice  user  0     durable") == true)
            #expect(!listed.text.contains("one"))
            let shown = try await martlet(
                "queue", "messages", "bob", "--device=d1", "--contents", "--after=1", of: broker)
            lines = shown.text.split(separator: "\n")
            #expect(lines.count == 3 && lines[1].hasSuffix("waiting  two\\u{7}"), "\(shown.text)")
            let dropped = try await martlet(
                "queue", "drop", "bob", "2", "--device=d1", of: broker)
            #expect(dropped.exit == .code(0) && dropped.text == "message 2 is removed")
            let json = try await martlet(
                "queue", "messages", "bob", "--device=d1", "--contents", "--json", of: broker)
            #expect(
                json.text.split(separator: "\n").map { $0.contains(#""text":"two"#) }
                    == [false, false])
            let offline = try await martlet("queue", "messages", "bob", of: broker)
            #expect(offline.exit == .code(0))
            #expect(offline.text.contains("that of device d1 has 2 messages: --device d1"))
            for (words, code, text) in [
                (["drop", "bob", "2", "--device=d1"], 0x90, "the queue has no message 2"),
                (["drop", "bob", "2", "--device=d2"], 0x90, "bob has no session on the device"),
                (["messages", "eve"], 0x90, "eve"), (["drop", "bob", "x"], 1, "NUMBER must be"),
                (["messages", "bob", "--limit=0"], 1, "--limit must be"),
            ] {
                let child = try ChildProcess(
                    "martlet", ["queue"] + words, environment: broker.environment("operator"))
                #expect(try await child.exit() == .code(Int32(code)), "\(words): \(child.text)")
                #expect(child.text.contains(text), "\(words): \(child.text)")
            }
            let again = try await broker.client("bob", device: "d1")
            #expect(try await again.nextTexts(2) == ["one", "three"])
            await again.close()
            await alice.close()
        }

        @Test func `retained messages are listed, shown and deleted`() async throws {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            for topic in ["a/1", "a/2", "b"] {
                let sent = try await martlet(
                    "send", "--as=bob", "--topic", topic, "--bytes", "--retain", "on \(topic)",
                    of: broker)
                #expect(sent.exit == .code(0), "\(sent.text)")
            }
            let listed = try await martlet("retained", "list", "a/#", of: broker)
            #expect(listed.text.split(separator: "\n").count == 3, "\(listed.text)")
            let some = try await martlet("retained", "list", "--limit=1", "--json", of: broker)
            #expect(some.text.split(separator: "\n").count == 1)
            let shown = try await martlet("retained", "show", "a/2", of: broker)
            #expect(shown.text.contains("content: on a/2"), "\(shown.text)")
            let deleted = try await martlet("retained", "delete", "a/+", of: broker)
            #expect(deleted.text == "2 retained messages deleted")
            let gone = try await martlet("retained", "show", "a/2", of: broker)
            #expect(gone.exit == .code(0x90) && gone.text.contains("has no retained message"))
            let wrong = try await martlet("retained", "list", "a/#/b", of: broker)
            #expect(wrong.text.contains("is not a topic filter"), "\(wrong.text)")
            try await broker.killNow()
            try await broker.start()
            let rest = try await martlet("retained", "list", "--json", of: broker)
            #expect(rest.text.contains(#""topic":"b""#) && !rest.text.contains("a/1"))
        }

        @Test func `a command that cannot be undone requires more than an app`() async throws {
            let broker = try await TestBroker()
            for command in [["session", "delete"], ["queue", "purge"], ["token", "revoke"]] {
                let child = try ChildProcess(
                    "martlet", command, environment: broker.environment("operator"))
                #expect(try await child.exit() == .code(1), "\(command)")
                #expect(child.text.contains("missing selection"), "\(child.text)")
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

        @Test func `the operator administers the groups of any owner`() async throws {
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
            let notice = GroupNotice(owner: "alice", title: "Pumps", meta: "", memberCount: 2)
            for change in [GroupChange.added(notice), .joined(user: "bob")] {
                let message = try await bob.nextMessage()
                #expect(message.kind == .groupEvent(group: group, change))
                bob.acknowledge(message)
            }
            let shown = try await martlet("show", group, "--json")
            #expect(
                shown.text
                    == #"{"allowed":["carol"],"groupid":"\#(group)","isKept":false,"#
                    + #""isLimited":true,"lastNumber":0,"memberCount":2,"#
                    + #""members":["alice","bob"],"meta":"","owner":"alice","#
                    + #""shownCount":0,"title":"Pumps"}"#)
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

        @Test func `a backup is restored by the broker that will use it`() async throws {
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
            // Operators are in no backup; their file may be there before the store.
            _ = try await martlet("operator", "add", "zoe", "--role", "view", of: broker)
            try await broker.stop()
            for name in ["data.mdb", "lock.mdb"] {
                try FileManager.default.removeItem(atPath: "\(broker.directory)/\(name)")
            }
            #expect(FileManager.default.fileExists(atPath: broker.directory + "/operators"))
            let over = try ChildProcess(
                "martletd", ["--restore", backup, "--data", broker.directory])
            #expect(try await over.exit() == .code(0), "\(over.text)")
        }
    }
}
