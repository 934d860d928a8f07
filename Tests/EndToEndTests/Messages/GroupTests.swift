// Groups with a real broker: created, joined, sent to, left, and present after a restart.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct GroupTests {
        @Test func `a group message reaches only the devices of members`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let watch = try await broker.client("alice", device: "watch")
            let bob = try await broker.client("bob")
            let carol = try await broker.client("carol")
            let group = try await alice.createGroup(title: "Pumps", meta: "{}")
            try await bob.joinGroup(group)
            try await bob.send(OutgoingMessage(to: .group(group), text: "hi"))
            // The other device learns the new group.
            let added = try await watch.nextMessage()
            let notice = GroupNotice(
                owner: "alice", title: "Pumps", meta: "{}", memberCount: 1, isCut: false)
            #expect(added.kind == .groupEvent(group: group, .added(notice)))
            watch.acknowledge(added)
            for client in [alice, watch] {
                // The new member first, told by the broker.
                let joined = try await client.nextMessage()
                #expect(joined.kind == .groupEvent(group: group, .joined(user: "bob")))
                client.acknowledge(joined)
                let message = try await client.nextMessage()
                #expect(message.kind == .group(group))
                #expect(message.from == "bob")
                #expect(message.json?.contains(#""groupid":"\#(group)""#) == true)
            }
            await #expect(throws: MartletError.refused(.notAuthorized, "")) {
                try await carol.send(OutgoingMessage(to: .group(group), text: "me too"))
            }
            await #expect(throws: MartletError.refused(.topicNameInvalid, "")) {
                try await carol.joinGroup("nowhere")
            }
            // What nobody sent to them does not arrive: the next thing they get is this.
            try await alice.send(OutgoingMessage(to: .users(["bob", "carol"]), text: "end"))
            #expect(try await bob.nextTexts(1) == ["end"])
            #expect(try await carol.nextTexts(1) == ["end"])
        }

        @Test func `a group, its list and its members survive a killed broker`() async throws {
            let broker = try await TestBroker()
            let first = try await broker.client("alice")
            let group = try await first.createGroup(
                title: "Pumps", allowing: ["bob", "dave"], meta: #"{"rate":60}"#)
            let second = try await broker.client("bob")
            try await second.joinGroup(group)
            try await broker.killNow()
            try await broker.start()
            let alice = try await broker.client("alice", device: "other")
            let details = try await alice.describe(group)
            #expect(details.title == "Pumps")
            #expect(details.owner == "alice" && details.isOwn && details.hasAllowList)
            #expect(details.meta == #"{"rate":60}"#)
            #expect(details.members == ["alice", "bob"] && details.memberCount == 2)
            let groups = try await alice.groups()
            #expect(groups.map(\.id) == [group])
            #expect(groups.map(\.isOwn) == [true])
            let carol = try await broker.client("carol")
            let excluded = MartletError.refused(
                .notAuthorized, "the group's allow list does not have the user")
            await #expect(throws: excluded) {
                try await carol.joinGroup(group)
            }
            try await alice.setAllowList(nil, of: group)
            try await carol.joinGroup(group)
            try await alice.send(OutgoingMessage(to: .group(group), text: "again"))
            while true {
                let message = try await carol.nextMessage()
                carol.acknowledge(message)
                if message.text == "again" { break }
            }
            try await broker.stop()
            _ = try await broker.verifyStore()
        }

        @Test func `a kicked member is told and receives no more, and a banned one cannot rejoin`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            let group = try await alice.createGroup(title: "Pumps")
            try await bob.joinGroup(group)
            let reserved = MartletError.refused(
                .notAuthorized, "only the owner of the group may do it")
            await #expect(throws: reserved) {
                try await bob.kick("alice", from: group)
            }
            #expect(try await alice.kick("bob", from: group))
            #expect(try await !alice.kick("bob", from: group))
            let notice = try await bob.nextMessage()
            #expect(notice.kind == .kickedOut(group: group))
            #expect(notice.from == "alice")
            bob.acknowledge(notice)
            try await alice.send(OutgoingMessage(to: .group(group), text: "unheard"))
            try await bob.joinGroup(group)
            #expect(try await alice.ban("bob", from: group))
            let excluded = MartletError.refused(
                .notAuthorized, "the group's allow list does not have the user")
            await #expect(throws: excluded) {
                try await bob.joinGroup(group)
            }
            #expect(try await bob.leaveGroup(group) == false)
            try await alice.setMeta("changed", of: group)
            #expect(try await alice.describe(group).meta == "changed")
        }

        @Test func `a group is created once even if the broker dies before it answers`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            // Asked for while the broker dies: repeated by the client until there is an answer.
            for round in 0..<3 {
                let group = Task { try await alice.createGroup(title: "round \(round)") }
                try await broker.killNow()
                try await broker.start()
                // A client that was often without a broker waits up to two minutes.
                _ = try await within(seconds: 60, "an answer") { try await group.value }
            }
            #expect(try await alice.groups().count == 3)
        }

        @Test func `all groups are listed if they exceed one page`() async throws {
            let broker = try await TestBroker()
            var settings = try broker.settings("alice")
            settings.packetMaximum = 2_048
            let alice = try await connected(Client(settings))
            var made: Set<String> = []
            for number in 0..<100 {
                made.insert(try await alice.createGroup(title: "group number \(number)"))
            }
            let listed = try await alice.groups()
            #expect(Set(listed.map(\.id)) == made)
            #expect(listed.count == 100)
            #expect(listed.map(\.id) == listed.map(\.id).sorted())
        }

        @Test func `the command line creates, joins, shows and leaves groups`() async throws {
            let broker = try await TestBroker()
            func martlet(_ arguments: String..., as user: String) async throws -> String {
                let child = try ChildProcess(
                    "martlet", arguments, environment: try broker.environment(user))
                let exit = try await child.exit()
                #expect(exit == .code(0), "\(arguments): \(child.text)")
                return child.text.trimmingCharacters(in: .whitespacesAndNewlines)
            }
            let group = try await martlet(
                "group", "create", "--name", "Pumps", "--allow", "bob,carol", "--meta", "{}",
                as: "alice")
            #expect(group.utf8.count == 13)
            _ = try await martlet("group", "join", group, as: "bob")
            #expect(
                try await martlet("group", "list", as: "bob")
                    == "GROUP          TITLE  YOURS\n\(group)  Pumps  -")
            #expect(
                try await martlet("group", "show", group, "--json", as: "bob")
                    == #"{"groupid":"\#(group)","isKept":false,"isLimited":true,"lastNumber":0,"#
                    + #""memberCount":2,"members":["alice","bob"],"meta":"{}","own":false,"#
                    + #""owner":"alice","shownCount":0,"title":"Pumps"}"#)
            let bob = try await broker.client("bob")
            _ = try await martlet("send", "--group", group, "hello", as: "alice")
            #expect(try await bob.nextTexts(1) == ["hello"])
            _ = try await martlet("group", "meta", group, "new", as: "alice")
            _ = try await martlet("group", "allow", group, "--everybody", as: "alice")
            _ = try await martlet("group", "ban", group, "bob", as: "alice")
            #expect(try await martlet("group", "list", as: "bob") == "")
            let refused = try ChildProcess(
                "martlet", ["group", "join", group], environment: try broker.environment("bob"))
            #expect(try await refused.exit() == .code(0x87))
            let kinds = try await [
                bob.nextMessage().kind, bob.nextMessage().kind, bob.nextMessage().kind,
                bob.nextMessage().kind,
            ]
            #expect(
                kinds == [
                    .groupEvent(group: group, .metaUpdated("new")),
                    .groupEvent(group: group, .allowListUpdated(nil)),
                    .groupEvent(group: group, .allowListUpdated(["alice"])),
                    .kickedOut(group: group),
                ])
        }
    }
}
