// What is kept of a conversation, for how long, and how it is read.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `History` {
    let world = World()

    /// The section that tells the number in the conversation, of less than 256 messages.
    private let fieldsByteCount = 5

    /// Kept messages `1`… of bob to ann, of which the first has an outbox number.
    private func keep(
        _ numbers: ClosedRange<UInt64>, from first: UInt64? = nil, grade: Grade = .durable
    ) {
        for number in numbers {
            world.send(
                "bob/pc", number - numbers.lowerBound + (first ?? numbers.lowerBound),
                to: .user("ann"), "\(number)", grade: grade, isKept: true)
        }
    }

    private func texts(_ selection: ConversationSelection = .pair("bob", "ann")) -> [String] {
        world.history(selection).map(\.text)
    }

    // MARK: - Keeping

    @Test func `has the messages of both users that were to be kept, the newest first`() {
        world.begin("ann/1", "bob/pc")
        world.send("bob/pc", 1, to: .user("ann"), "one", isKept: true)
        world.send("bob/pc", 2, to: .user("ann"), "not kept")
        world.send("ann/1", 1, to: .user("bob"), "two", grade: .once, isKept: true)
        world.settle()
        let messages = world.history(of: "ann", and: "bob")
        #expect(messages.map(\.text) == ["two", "one"])
        #expect(messages.map(\.sender) == ["ann", "bob"])
        #expect(messages.map(\.number) == [2, 1])
        #expect(world.history(of: "bob", and: "ann") == messages)
        #expect(world.counters.messagesKept == 2)
    }

    @Test func `outlives the acknowledgement, the sessions and the broker`() {
        world.begin("ann/1", "bob/pc")
        keep(1...3)
        world.settle()
        world.acknowledge("ann/1", through: 3)
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
        world.disconnect("ann/1", expiry: 0)
        world.settle()
        world.crash()
        #expect(texts() == ["3", "2", "1"])
        #expect(world.store.heldMessages.count == 3)
    }

    @Test func `is in the commit for which the result waits, even if the receiver has the message`()
    {
        world.begin("ann/1", "bob/pc")
        keep(1...1)
        world.acknowledge("ann/1", through: 1)
        #expect(world.lines().filter { $0.hasPrefix("bob") } == [])
        world.settle()
        #expect(world.lines() == ["bob/pc: result 1, sent"])
        world.crash()
        #expect(texts() == ["1"])
    }

    @Test func `of a group is kept once, and a list in each of its conversations`() {
        world.begin("ann/1", "bob/pc", "carl/1")
        let group = world.makeGroup(owner: "bob/pc", members: ["ann/1", "carl/1"])
        world.send("bob/pc", 1, to: .group(group), "all", isKept: true)
        world.send("bob/pc", 2, to: .users(["ann", "carl", "ann", "nobody"]), "list", isKept: true)
        world.settle()
        #expect(texts(.group(group)) == ["all"])
        #expect(texts(.pair("ann", "bob")) == ["list"])
        #expect(texts(.pair("carl", "bob")) == ["list"])
        #expect(texts(.pair("ann", "carl")) == [])
        #expect(world.gauges.conversations == 3 && world.gauges.keptMessages == 3)
    }

    @Test func `with oneself is a conversation`() {
        world.begin("ann/1")
        world.send("ann/1", 1, to: .user("ann"), "note", isKept: true)
        world.settle()
        #expect(texts(.pair("ann", "ann")) == ["note"])
    }

    @Test func `needs a durable message to users or a group`() {
        world.begin("ann/1", "bob/pc")
        world.send("bob/pc", 0, to: .user("ann"), "x", grade: .transient, isKept: true)
        world.send("bob/pc", 1, to: .everybody, "x", isKept: true)
        world.send("bob/pc", 2, to: .topic("a"), "x", isKept: true)
        #expect(
            world.lines() == [
                "bob/pc: result 0, qosNotSupported", "bob/pc: result 1, topicNameInvalid",
                "bob/pc: result 2, topicNameInvalid",
            ])
        #expect(world.gauges.conversations == 0)
    }

    @Test func `has no message that was refused`() {
        world.limits.queueCountMaximum = 1
        world.begin("bob/pc", "ann/1")
        world.lose("ann/1")
        keep(1...2)
        world.settle()
        #expect(texts() == ["1"])
        world.send("bob/pc", 3, to: .user("nobody"), "x", isKept: true)
        world.settle()
        #expect(world.gauges.conversations == 1)
    }

    @Test func `that a full store refuses counts as a receiver that was refused`() {
        world.begin("ann/1", "bob/pc")
        keep(1...1)
        world.acknowledge("ann/1", through: 1)
        _ = world.lines()
        world.store.isFull = true
        world.settle()
        #expect(world.lines() == ["bob/pc: result 1, sent, 1 refused"])
        #expect(texts() == [] && world.gauges.keptMessages == 0)
        world.store.isFull = false
        world.pass(seconds: 10)
        world.settle()
        keep(2...2)
        world.settle()
        #expect(world.history(of: "ann", and: "bob").map(\.number) == [2])
    }

    @Test func `is of messages that tell their number in it, of which a list has several`() {
        func told() -> [UInt64]? {
            world.historyPage(.pair("bob", "ann"))?.messages.map(\.fields.keptNumber)
        }
        world.begin("ann/1", "bob/pc", "carl/1")
        world.send("bob/pc", 1, to: .user("carl"), "x", isKept: true)
        keep(1...2, from: 2)
        world.send("bob/pc", 4, to: .users(["ann", "carl"]), "both", isKept: true)
        world.settle()
        #expect(texts() == ["both", "2", "1"] && told() == [0, 2, 1])
        world.crash()
        world.begin("bob/pc")
        world.send("bob/pc", 1, to: .user("ann"), "4", isKept: true, asks: .reference)
        world.settle()
        #expect(told()?.first == 4)
    }

    // MARK: - Limits

    @Test func `of a conversation has a maximum of messages and of bytes, and drops the oldest`() {
        world.limits.historyCountMaximum = 3
        world.begin("ann/1", "bob/pc")
        keep(1...2)
        world.settle()
        keep(3...7)
        world.settle()
        #expect(texts() == ["7", "6", "5"])
        #expect(world.counters.historyDropped == 4 && world.counters.queueDropped == 0)
        let size = 24 + "bob".utf8.count + 2 + fieldsByteCount
        world.limits.historyBytesMaximum = UInt64(2 * size + 1)
        keep(8...8)
        world.settle()
        #expect(texts() == ["8", "7"])
    }

    @Test func `of an app has a maximum of bytes, for which its largest conversation gives up`() {
        let size = UInt64(24 + "bob".utf8.count + 2 + fieldsByteCount)
        world.limits.historyBytesPerAppMaximum = 4 * size
        world.begin("ann/1", "bob/pc", "carl/1")
        keep(1...4)
        world.settle()
        keep(5...5)
        world.settle()
        #expect(texts() == ["5", "4", "3", "2"])
        // Whoever filled the room does not keep others from using it.
        for number in 6...8 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("carl"), "\(number)", isKept: true)
        }
        world.settle()
        #expect(texts() == ["5", "4"])
        #expect(world.history(of: "bob", and: "carl").map(\.number) == [3, 2])
        #expect(world.counters.historyDropped == 4)
        _ = world.lines()
        world.limits.historyBytesPerAppMaximum = size - 1
        world.send("bob/pc", 9, to: .user("carl"), "9", isKept: true)
        #expect(world.lines() == ["bob/pc: result 9, quotaExceeded"])
    }

    @Test func `of many conversations shares the room of their app`() {
        let size = UInt64(24 + "u1".utf8.count + 3 + fieldsByteCount)
        world.limits.historyBytesPerAppMaximum = 48 * size
        let users = (1...8).map { "u\($0)" }
        world.begin("bob/pc")
        for (index, user) in users.enumerated() {
            world.begin("\(user)/1")
            // The first one fills the room alone.
            for number in 1...(index == 0 ? 48 : 16) as ClosedRange<UInt64> {
                world.send(
                    "\(user)/1", number, to: .user("bob"), "\(10 + number)", isKept: true)
                if number % 4 == 0 { world.settle() }
            }
        }
        let counts = users.map { world.history(of: "bob", and: $0).count }
        #expect(counts.reduce(0, +) == 48)
        // Those of one class differ by less than a factor of two, and each gives up a message of
        // the class above.
        #expect(counts.allSatisfy { $0 * 3 >= counts.max()! }, "\(counts)")
        world.crash()
        #expect(users.map { world.history(of: "bob", and: $0).count } == counts)
    }

    @Test func `of an app has a maximum of conversations`() {
        world.limits.conversationsPerAppMaximum = 1
        world.begin("ann/1", "bob/pc", "carl/1")
        keep(1...1)
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 2, to: .user("carl"), "2", isKept: true)
        #expect(world.lines() == ["bob/pc: result 2, quotaExceeded"])
        keep(3...3)
        world.settle()
        #expect(texts() == ["3", "1"])
    }

    @Test func `of two users without messages makes room for other conversations`() {
        world.limits.conversationsPerAppMaximum = 1
        world.limits.historyAgeSecondsMaximum = 60
        world.begin("ann/1", "bob/pc", "carl/1")
        keep(1...2)
        world.acknowledge("ann/1", through: 2)
        world.settle()
        world.pass(seconds: 4_300)
        world.settle()
        #expect(texts() == [] && world.gauges.conversations == 1)
        world.send("bob/pc", 3, to: .user("carl"), "3", isKept: true)
        world.settle()
        #expect(world.history(of: "bob", and: "carl").map(\.text) == ["3"])
        #expect(world.gauges.conversations == 1)
        world.crash()
        #expect(world.history(of: "bob", and: "carl").map(\.number) == [1])
    }

    @Test func `ends at its age, whatever the message's own expiry is, and numbers go on`() {
        world.limits.historyAgeSecondsMaximum = 3_600
        world.begin("ann/1", "bob/pc")
        world.send("bob/pc", 1, to: .user("ann"), "1", expiry: 5, isKept: true)
        world.acknowledge("ann/1", through: 1)
        world.settle()
        world.pass(seconds: 60)
        world.settle()
        #expect(texts() == ["1"])
        world.pass(seconds: 4_300)
        world.settle()
        #expect(texts() == [] && world.counters.historyExpired == 1)
        #expect(world.store.heldMessages == [])
        world.crash()
        world.begin("bob/pc")
        keep(2...2)
        world.settle()
        #expect(world.history(of: "ann", and: "bob").map(\.number) == [2])
    }

    // MARK: - Reading

    @Test func `is read in pages, from each number to lower ones`() throws {
        world.begin("ann/1", "bob/pc")
        keep(1...5)
        world.settle()
        let first = try #require(world.historyPage(.pair("ann", "bob"), count: 2))
        #expect(first.messages.map(\.number) == [5, 4] && first.next == 4)
        let next = try #require(world.historyPage(.pair("ann", "bob"), before: 4, count: 9))
        #expect(next.messages.map(\.number) == [3, 2, 1] && next.next == nil)
        #expect(world.historyPage(.pair("ann", "bob"), before: 1)?.messages == [])
        #expect(world.historyPage(.pair("ann", "nobody")) == nil)
        #expect(world.historyPage(.group("none")) == nil)
    }

    @Test func `is searched by text, sender and time`() {
        world.begin("ann/1", "bob/pc")
        world.send("bob/pc", 1, to: .user("ann"), "valve open", isKept: true)
        world.settle()
        world.pass(seconds: 60)
        world.send("ann/1", 1, to: .user("bob"), "valve shut", isKept: true)
        world.send("ann/1", 2, to: .user("bob"), "ok", isKept: true)
        world.settle()
        func found(_ change: (inout HistorySearch) -> Void) -> [UInt64]? {
            var search = HistorySearch()
            change(&search)
            return world.historyPage(.pair("ann", "bob"), search: search)?.messages.map(\.number)
        }
        #expect(found { $0.text = Array("valve".utf8) } == [2, 1])
        #expect(found { $0.text = Array("ok".utf8) } == [3])
        #expect(found { $0.text = Array("none of this".utf8) } == [])
        #expect(found { $0.sender = Array("bob".utf8) } == [1])
        let minuteAgo = world.now.unixMilliseconds - 1_000
        #expect(found { $0.since = minuteAgo } == [3, 2])
        #expect(found { $0.until = minuteAgo } == [1])
    }

    @Test func `loses a message that is removed, and no number is used twice`() {
        world.begin("ann/1", "bob/pc")
        world.lose("ann/1")
        keep(1...3)
        world.settle()
        let pair = ConversationSelection.pair("ann", "bob")
        #expect(world.removeFromHistory(3, pair).map(isDropped) == true)
        #expect(world.removeFromHistory(3, pair) == .absent)
        #expect(world.removeFromHistory(9, pair) == .absent)
        world.settle()
        #expect(texts() == ["2", "1"])
        #expect(world.gauges.queuedMessages == 3, "the inbox keeps it")
        world.crash()
        world.begin("bob/pc")
        keep(4...4)
        world.settle()
        #expect(world.history(of: "ann", and: "bob").map(\.number) == [4, 2, 1])
    }

    private func isDropped(_ drop: QueueDrop) -> Bool {
        if case .dropped = drop { true } else { false }
    }

    // MARK: - Users

    @Test func `is read by its users alone`() {
        world.begin("ann/1", "bob/pc", "carl/1")
        keep(1...3)
        world.settle()
        world.acknowledge("ann/1", through: 3)
        _ = world.lines()
        world.requestHistory("ann/1", of: .user("bob"), count: 2)
        world.settle()
        world.requestHistory("bob/pc", of: .user("ann"), before: 2)
        world.requestHistory("carl/1", of: .user("bob"))
        world.requestHistory("carl/1", of: .user("nobody"))
        world.settle()
        #expect(
            world.lines() == [
                "ann/1: history 1 [#3 3 of bob, #2 2 of bob] before 2",
                "carl/1: history 1 []", "carl/1: response 1, topicNameInvalid",
                "bob/pc: history 1 [#1 1 of bob]",
            ])
    }

    @Test func `of a group is read by its members, from the time at which they joined`() {
        world.begin("ann/1", "bob/pc", "carl/1")
        let group = world.makeGroup(owner: "bob/pc", members: ["ann/1"])
        world.send("bob/pc", 1, to: .group(group), "1", isKept: true)
        world.settle()
        _ = world.lines()
        world.requestHistory("carl/1", of: .group(group))
        #expect(world.lines() == ["carl/1: response 1, notAuthorized"])
        #expect(world.operate(group, .join(user: Array("carl".utf8))) == .success)
        world.send("bob/pc", 2, to: .group(group), "2", isKept: true)
        world.settle()
        func read(_ name: String) -> String? {
            _ = world.lines()
            world.requestHistory(name, of: .group(group))
            world.settle()
            return world.lines().last { $0.contains("[") }.map { String($0.drop { $0 != "[" }) }
        }
        #expect(read("carl/1") == "[#2 2 of bob]")
        #expect(read("ann/1") == "[#2 2 of bob, #1 1 of bob]")
        world.crash()
        world.begin("ann/1", "bob/pc", "carl/1")
        #expect(read("carl/1") == "[#2 2 of bob]")
        #expect(world.operate(group, .leave(user: Array("carl".utf8))) == .success)
        world.settle()
        #expect(world.operate(group, .join(user: Array("carl".utf8))) == .success)
        world.settle()
        #expect(read("carl/1") == "[]")
    }

    @Test func `is cut to what the client accepts, and a message that is too long is named`() {
        world.begin("ann/1", "bob/pc")
        keep(1...3)
        world.settle()
        _ = world.lines()
        world.requestHistory("bob/pc", of: .user("ann"), byteCount: 9 + 2 * (23 + 3 + 2))
        world.settle()
        world.requestHistory("bob/pc", of: .user("ann"), before: 2, byteCount: 20)
        world.settle()
        #expect(
            world.lines().filter { $0.hasPrefix("bob") } == [
                "bob/pc: history 1 [#3 3 of bob, #2 2 of bob] before 2",
                "bob/pc: response 1, packetTooLarge",
            ])
    }

    @Test func `is refused beyond what the store reads for one commit, and asked for once`() {
        world.begin("ann/1", "bob/pc")
        keep(1...1)
        world.settle()
        _ = world.lines()
        world.requestHistory("bob/pc", of: .user("ann"))
        world.requestHistory("bob/pc", of: .user("ann"))
        #expect(world.lines() == ["bob/pc: response 2, serverBusy"])
        world.lose("bob/pc")
        world.settle()
        #expect(world.lines() == [], "nobody is there to hear the answer")
        let names = (0..<60).map { "ann/\($0 + 2)" }
        for name in names { world.connect(name) }
        world.settle()
        _ = world.lines()
        for name in names { world.requestHistory(name, of: .user("bob")) }
        let busyCount = world.lines().count { $0.hasSuffix("serverBusy") }
        #expect(busyCount > 0 && busyCount < 60)
        world.settle()
        #expect(world.lines().count { $0.contains("history 1 [#1") } == 60 - busyCount)
    }

    @Test func `of a group ends with the group`() {
        world.begin("ann/1", "bob/pc")
        let group = world.makeGroup(owner: "bob/pc", members: [])
        world.send("bob/pc", 1, to: .group(group), "x", isKept: true)
        world.settle()
        #expect(world.gauges.keptMessages == 1)
        #expect(world.operate(group, .leave(user: Array("bob".utf8))) == .success)
        // The event that he left, and the notice.
        world.acknowledge("bob/pc", through: 2)
        world.settle()
        #expect(world.gauges.conversations == 0 && world.gauges.keptMessages == 0)
        #expect(world.store.heldMessages == [])
        #expect(world.historyPage(.group(group)) == nil)
    }
}
