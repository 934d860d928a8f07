// What devices learn when they come back: their groups, the newest messages, and what is unread;
// over the death of the broker.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct SyncTests {
        private func martlet(
            _ arguments: String..., of broker: TestBroker, as user: String = "operator"
        ) async throws -> String {
            let child = try ChildProcess(
                "martlet", arguments, environment: broker.environment(user))
            let exit = try await child.exit()
            #expect(exit == .code(0), "\(arguments): \(child.text)")
            return child.text.trimmingCharacters(in: .whitespacesAndNewlines)
        }

        private func kept(_ text: String, to destination: Destination) -> OutgoingMessage {
            var message = OutgoingMessage(to: destination, text: text)
            message.isKept = true
            return message
        }

        @Test func `a device learns its groups from its inbox, although the broker was killed`()
            async throws
        {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            let alice = try await broker.client("alice")
            let group = try await alice.createGroup(title: "Pumps", meta: "{}")
            let data = "--data=\(broker.directory)"
            _ = try await martlet("group", "join", group, "bob", data, of: broker)
            try await broker.killNow()
            try await broker.start()
            let phone = try await broker.client("bob", device: "phone")
            let notice = GroupNotice(
                owner: "alice", title: "Pumps", meta: "{}", memberCount: 2, isCut: false)
            let added = try await phone.nextMessage()
            #expect(added.kind == .groupEvent(group: group, .added(notice)))
            phone.acknowledge(added)
            let pump = try await broker.client("bob", device: "pump")
            _ = try await phone.leaveGroup(group)
            var kinds: [IncomingMessage.Kind] = []
            for _ in 0..<2 {
                let message = try await pump.nextMessage()
                kinds.append(message.kind)
                pump.acknowledge(message)
            }
            #expect(
                kinds == [
                    .groupEvent(group: group, .left(user: "bob")),
                    .groupEvent(group: group, .removed),
                ])
            // Its texts do not fit into the packets of this device, which gets the notice all the
            // same.
            var settings = try broker.settings("bob")
            settings.device = "tiny"
            settings.packetMaximum = 128
            let tiny = try await connected(Client(settings))
            let long = String(repeating: "t", count: 128)
            _ = try await phone.createGroup(title: long, meta: long)
            let short = try await tiny.nextMessage()
            guard case .groupEvent(_, .added(let cut)) = short.kind else {
                Issue.record("\(short.kind)")
                return
            }
            #expect(cut.isCut && cut.title.isEmpty && cut.memberCount == 1)
            for client in [alice, phone, pump, tiny] { await client.close() }
        }

        @Test func `the newest message stands in lists, of users and of the operator`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            let group = try await alice.createGroup(title: "Valves")
            try await bob.joinGroup(group)
            for text in ["one", "two"] { _ = try await alice.send(kept(text, to: .user("bob"))) }
            _ = try await alice.send(kept("all", to: .group(group)))
            try await broker.killNow()
            try await broker.start()
            let list = try await bob.conversations(hasMessages: true).conversations
            #expect(list.map(\.lastMessage?.text) == ["two", "all"])
            #expect(list.map(\.lastMessage?.number) == [2, 1])
            #expect(try await bob.conversations().conversations.map(\.lastMessage) == [nil, nil])
            let settings = try await bob.historySettings(of: group, hasMessage: true)
            #expect(settings.lastMessage?.text == "all" && settings.lastMessage?.sender == "alice")
            let lines = try await martlet(
                "conversations", "--user=bob", "--messages", of: broker
            ).split(separator: "\n")
            #expect(lines.count == 3 && lines[1].hasSuffix("alice  two"), "\(lines)")
            let json = try await martlet(
                "conversations", "--user=bob", "--messages", "--json", of: broker)
            #expect(json.contains(#""lastMessage":{"#), "\(json)")
            #expect(json.contains(#""text":"two""#), "\(json)")
            for client in [alice, bob] { await client.close() }
        }

        @Test func `a new member sees as much from before as it asks for, and its group shows`()
            async throws
        {
            let broker = try await TestBroker()
            try broker.addUsers("dora")
            let alice = try await broker.client("alice")
            let group = try await alice.createGroup(title: "Valves")
            try await alice.setHistory(of: group, isKept: true, shownCount: 3)
            for number in 1...5 {
                _ = try await alice.send(OutgoingMessage(to: .group(group), text: "\(number)"))
            }
            let party = ConversationParty.group(group)
            let bob = try await broker.client("bob")
            try await bob.joinGroup(group, backlog: 1)
            let carl = try await broker.client("carl")
            try await carl.joinGroup(group, backlog: 100)
            await #expect(throws: MartletError.self) {
                try await carl.joinGroup(group, backlog: 1_000_001)
            }
            let data = "--data=\(broker.directory)"
            _ = try await martlet("group", "join", group, "dora", "--backlog=4", data, of: broker)
            try await broker.killNow()
            try await broker.start()
            let dora = try await broker.client("dora")
            #expect(try await bob.history(with: party).messages.map(\.number) == [5])
            #expect(try await carl.history(with: party).messages.map(\.number) == [5, 4, 3])
            #expect(try await dora.history(with: party).messages.map(\.number) == [5, 4, 3, 2])
            for client in [alice, bob, carl, dora] { await client.close() }
        }

        @Test func `a device that pulls reads what is kept, and nothing of it is queued or lost`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            var settings = try broker.settings("bob")
            settings.device = "pump"
            settings.synchronization = .pull
            let pump = try Client(settings)
            #expect(try await pump.connect().unreadCount == 0)
            await pump.close()
            // The mode belongs to the session, also after a crash.
            try await broker.killNow()
            try await broker.start()
            for number in 1...20 {
                _ = try await alice.send(kept("kept \(number)", to: .user("bob")))
                if number == 10 {
                    try await broker.killNow()
                    try await broker.start()
                }
            }
            _ = try await alice.send(OutgoingMessage(to: .user("bob"), text: "queued"))
            #expect(try broker.counter("history/messages/pulled") == 10)
            let again = try Client(settings)
            #expect(try await again.connect().unreadCount == 1)
            let message = try await again.nextMessage()
            #expect(message.text == "queued")
            again.acknowledge(message)
            let list = try await again.conversations(isUnreadOnly: true, hasMessages: true)
            #expect(list.conversations.map(\.unreadCount) == [20])
            #expect(list.conversations.first?.lastMessage?.text == "kept 20")
            let page = try await again.history(with: .user("alice"))
            #expect(page.messages.map(\.text) == (1...20).reversed().map { "kept \($0)" })
            // While it is connected it hears of new ones.
            try await again.subscribe(to: "$unread/bob")
            _ = try await alice.send(kept("news", to: .user("bob")))
            let news = try #require(Conversation(try await again.nextMessage()))
            #expect(news.lastNumber == 21 && news.unreadCount == 21)
            try await again.markRead(.user("alice"), through: 21)
            await again.close()
            // A device that does not pull gets the next one, and the same mark.
            settings.synchronization = .push
            let pushed = try Client(settings)
            #expect(try await pushed.connect().unreadCount == nil)
            _ = try await alice.send(kept("both", to: .user("bob")))
            #expect(try await pushed.nextMessage().text == "both")
            #expect(try await pushed.conversations().conversations.map(\.unreadCount) == [1])
            for client in [alice, pushed] { await client.close() }
        }
    }
}
