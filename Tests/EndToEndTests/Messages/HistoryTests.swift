// Kept messages, through every way to send and to read them, and over the death of the broker.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct HistoryTests {
        private func martlet(
            _ arguments: String..., of broker: TestBroker, as user: String = "operator"
        ) async throws -> (exit: ChildExit, text: String) {
            let child = try ChildProcess(
                "martlet", arguments, environment: broker.environment(user))
            return (try await child.exit(), child.text)
        }

        @Test func `is kept by users, operators and MQTT clients, listed, searched and removed`()
            async throws
        {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            let sent = try await martlet(
                "send", "--to=bob", "--history", "valve open", of: broker, as: "alice")
            #expect(sent.exit == .code(0), "\(sent.text)")
            let app = try #require(broker.environment("operator")["MARTLET_APP"])
            let operated = try await martlet(
                "send", "--as=bob", "--to=alice", "--history", "done", of: broker)
            #expect(operated.exit == .code(0), "\(operated.text) \(app)")
            let listed = try await martlet(
                "history", "--user=alice", "--with=bob", "--json", of: broker)
            let lines = listed.text.split(separator: "\n")
            #expect(lines.count == 2, "\(listed.text)")
            #expect(lines.first?.contains(#""text":"done""#) == true)
            #expect(lines.last?.contains(#""number":1"#) == true)
            let found = try await martlet(
                "history", "--user=bob", "--with=alice", "--search=valve", of: broker)
            #expect(found.text.contains("valve open") && !found.text.contains("done"))
            let removed = try await martlet(
                "history", "remove", "--user=alice", "--with=bob", "1", of: broker)
            #expect(removed.text == "message 1 is removed")
            let again = try await martlet(
                "history", "remove", "--user=alice", "--with=bob", "1", of: broker)
            #expect(again.exit == .code(0x90), "\(again.text)")
            let unknown = try await martlet(
                "history", "--user=alice", "--with=nobody", of: broker)
            #expect(unknown.exit == .code(0x90) && unknown.text.contains("nobody"))
            let usage = try await martlet("history", "--user=alice", of: broker)
            try await checkReading(of: broker)
            #expect(usage.exit == .code(1))
            #expect(try broker.counter("history/messages") == 1)
            #expect(try broker.counter("history/messages/kept") == 2)
        }

        /// Alice reads what bob has sent, and an operator sees it.
        private func checkReading(of broker: TestBroker) async throws {
            let alice = try await broker.client("alice")
            let before = try #require(
                try await alice.conversations(isUnreadOnly: true).conversations.first)
            #expect(before.party == .user("bob"))
            #expect([before.lastNumber, before.readThrough, before.unreadCount] == [2, 0, 1])
            try await alice.markRead(.user("bob"), through: 2)
            await #expect(throws: MartletError.self) {
                try await alice.markRead(.user("bob"), through: 3)
            }
            #expect(try await alice.conversations(isUnreadOnly: true).conversations == [])
            await alice.close()
            let listed = try await martlet("conversations", "--user=alice", of: broker)
            #expect(
                listed.text.split(separator: "\n").last?.split(separator: " ")
                    == ["bob", "2", "2", "0"], "\(listed.text)")
            let unread = try await martlet(
                "conversations", "--user=bob", "--unread", "--json", of: broker)
            #expect(
                unread.text
                    == #"{"lastNumber":2,"readThrough":0,"unreadCount":1,"user":"alice"}"#)
            let unknown = try await martlet("conversations", "--user=nobody", of: broker)
            #expect(unknown.exit == .code(0x90) && unknown.text.contains("nobody"))
        }

        @Test func `tells the other devices of a user what one of them has read`() async throws {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            let phone = try await broker.client("alice", device: "phone")
            let pad = try await broker.client("alice", device: "pad")
            try await pad.subscribe(to: "$unread/alice")
            await #expect(throws: MartletError.self) {
                try await bob.subscribe(to: "$unread/alice")
            }
            for text in ["one", "two"] {
                var message = OutgoingMessage(to: .user("alice"), text: text)
                message.isKept = true
                _ = try await bob.send(message)
                pad.acknowledge(try await pad.nextMessage())
            }
            try await phone.markRead(.user("bob"), through: 1)
            let first = try #require(Conversation(try await pad.nextMessage()))
            #expect(first.party == .user("bob"))
            #expect([first.lastNumber, first.readThrough, first.unreadCount] == [2, 1, 1])
            try await broker.killNow()
            try await broker.start()
            // The mark survives, and so does the subscription. An event that finds no connection is
            // lost.
            _ = try await pad.conversations()
            #expect(try await phone.conversations().conversations.first?.readThrough == 1)
            try await phone.markRead(.user("bob"), through: 2)
            while true {
                let message = try await pad.nextMessage()
                pad.acknowledge(message)
                guard let news = Conversation(message) else { continue }
                #expect(news.readThrough == 2 && news.unreadCount == 0)
                break
            }
            #expect(try broker.counter("history/events") == 1)
            for client in [bob, phone, pad] { await client.close() }
        }

        @Test
        func `of a group is kept by default, shown to new members, and hidden by one of them`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            try broker.addUsers("carl")
            let group = try await alice.createGroup(title: "Valves")
            try await bob.joinGroup(group)
            try await alice.setHistory(of: group, isKept: true, shownCount: 2)
            await #expect(throws: MartletError.self) {
                try await bob.setHistory(of: group, isKept: false)
            }
            for text in ["1", "2", "3"] {
                _ = try await alice.send(OutgoingMessage(to: .group(group), text: text))
            }
            var secret = OutgoingMessage(to: .group(group), text: "not kept")
            secret.isKept = false
            _ = try await alice.send(secret)
            try await broker.killNow()
            try await broker.start()
            #expect(try await bob.historySettings(of: group).lastNumber == 3)
            let data = "--data=\(broker.directory)"
            let joined = try await martlet("group", "join", group, "carl", data, of: broker)
            #expect(joined.exit == .code(0), "\(joined.text)")
            let carl = try await broker.client("carl")
            let party = ConversationParty.group(group)
            #expect(try await carl.history(with: party).messages.map(\.number) == [3, 2])
            let hidden = try await martlet(
                "history", "hide", "--group=\(group)", "2", of: broker, as: "carl")
            #expect(hidden.text == "hidden up to message 2")
            #expect(try await carl.history(with: party).messages.map(\.number) == [3])
            #expect(try await bob.history(with: party).messages.map(\.number) == [3, 2, 1])
            let off = try await martlet("group", "history", group, "off", data, of: broker)
            #expect(off.exit == .code(0), "\(off.text)")
            let shown = try await martlet(
                "group", "show", group, "--json", data, of: broker)
            #expect(shown.text.contains(#""isKept":false"#), "\(shown.text)")
            #expect(shown.text.contains(#""lastNumber":3"#), "\(shown.text)")
            let read = try await martlet(
                "history", "read", "--group=\(group)", "3", of: broker, as: "carl")
            #expect(read.text == "read up to message 3")
            #expect(try await carl.conversations().conversations.map(\.readThrough) == [3])
            let nothing = try await martlet("history", "hide", "2", of: broker, as: "carl")
            #expect(nothing.exit == .code(1), "\(nothing.text)")
            let wrong = try await martlet(
                "group", "history", group, "maybe", data, of: broker)
            #expect(wrong.exit == .code(1))
            for client in [alice, bob, carl] { await client.close() }
        }

        @Test func `takes what a logger recorded offline, and finds it by text, sender and time`()
            async throws
        {
            let broker = try await TestBroker()
            try broker.addUsers("office")
            let logger = try await broker.client("logger")
            let begin: UInt64 = 1_700_000_000_000
            for hour in 1...3 as ClosedRange<UInt64> {
                var reading = OutgoingMessage(
                    to: .user("office"), text: "\(hour) bar", grade: .once)
                (reading.isKept, reading.isDelivered) = (true, false)
                reading.time = begin + hour
                _ = try await logger.send(reading)
            }
            try await broker.killNow()
            try await broker.start()
            let operated = try await martlet(
                "send", "--as=office", "--to=logger", "--history-only", "--time=\(begin + 9)",
                "seen", of: broker)
            #expect(operated.exit == .code(0), "\(operated.text)")
            let office = try await broker.client("office")
            let party = ConversationParty.user("logger")
            let page = try await office.history(with: party)
            #expect(page.messages.map(\.time) == [9, 3, 2, 1].map { begin + $0 })
            #expect(try broker.counter("history/messages") == 4)
            #expect(try await office.conversations().conversations.map(\.unreadCount) == [3])
            func found(_ change: (inout HistorySearch) -> Void) async throws -> [UInt64] {
                var search = HistorySearch()
                change(&search)
                return try await office.search(search, with: party).messages.map(\.number)
            }
            #expect(try await found { $0.text = "bar" } == [3, 2, 1])
            #expect(try await found { $0.sender = "office" } == [4])
            #expect(try await found { ($0.since, $0.until) = (begin + 2, begin + 9) } == [3, 2])
            #expect(try await found { $0.text = "none" } == [])
            // Nothing waits for the office but this.
            _ = try await logger.send(OutgoingMessage(to: .user("office"), text: "delivered"))
            #expect(try await office.nextMessage().text == "delivered")
            for client in [logger, office] { await client.close() }
        }

        @Test
        func `survives the death of the broker: what was acknowledged is there, once, in order`()
            async throws
        {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            var texts: [String] = []
            for round in 1...3 {
                for index in 1...20 {
                    var message = OutgoingMessage(
                        to: .user("bob"), text: "\(round)-\(index)", grade: .once)
                    message.isKept = true
                    _ = try await alice.send(message)
                    bob.acknowledge(try await bob.nextMessage())
                    texts.append("\(round)-\(index)")
                }
                try await broker.killNow()
                try await broker.start()
            }
            let listed = try await martlet(
                "history", "--user=alice", "--with=bob", "--json", "--limit=1000", of: broker)
            let numbers = listed.text.split(separator: "\n").compactMap { line in
                line.split(separator: #""number":"#).last.flatMap { Int($0.prefix { $0.isNumber }) }
            }
            #expect(numbers.count == 60 && numbers == numbers.sorted(by: >))
            let found = listed.text.split(separator: "\n").compactMap { line in
                line.split(separator: #""text":""#).last.map { String($0.prefix { $0 != "\"" }) }
            }
            #expect(found == texts.reversed())
            await alice.close()
            await bob.close()
        }
    }
}
