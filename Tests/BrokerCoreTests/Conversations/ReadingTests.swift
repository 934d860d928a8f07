// What users have read of their conversations, and what is unread.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `Reading` {
    let world = World()

    private func unread(_ user: String, _ other: String) -> UInt64? {
        world.conversations(of: user).first { $0.name == Array(other.utf8) }?.unreadCount
    }

    @Test func `is told by the reader alone`() {
        world.begin("ann/1", "bob/pc")
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("ann"), "x", isKept: true)
        }
        world.settle()
        world.acknowledge("ann/1", through: 3)
        world.requestHistory("ann/1", of: .user("bob"))
        world.settle()
        #expect(unread("ann", "bob") == 3, "delivered and looked at is not read")
        #expect(unread("bob", "ann") == 0, "one's own messages are no news")
        _ = world.lines()
        world.markRead("ann/1", of: .user("bob"), through: 2)
        #expect(world.lines() == [], "not before the commit")
        world.settle()
        #expect(world.lines() == ["ann/1: response 1, success"])
        #expect(unread("ann", "bob") == 1)
        world.markRead("ann/1", of: .user("bob"), through: 1)
        world.settle()
        #expect(unread("ann", "bob") == 1, "a lower number changes nothing")
        world.crash()
        #expect(unread("ann", "bob") == 1)
        world.begin("ann/1")
        _ = world.lines()
        world.requestConversations("ann/1")
        #expect(
            world.lines() == ["ann/1: conversations 1 [bob 1 unread after 2 of 3]"])
    }

    @Test func `does not count own messages, before the mark or after it`() {
        world.begin("ann/1", "bob/pc")
        // Numbers 1 to 6: bob, ann, bob, ann, ann, bob.
        for (number, sender) in ["bob", "ann", "bob", "ann", "ann", "bob"].enumerated() {
            let (name, other) = sender == "ann" ? ("ann/1", "bob") : ("bob/pc", "ann")
            world.send(name, UInt64(number + 1), to: .user(other), "x", isKept: true)
        }
        world.settle()
        #expect(unread("ann", "bob") == 3 && unread("bob", "ann") == 3)
        let expected: [(through: UInt64, ann: UInt64, bob: UInt64)] = [
            (1, 2, 3), (2, 2, 2), (3, 1, 2), (4, 1, 1), (5, 1, 0), (6, 0, 0),
        ]
        for row in expected {
            world.markRead("ann/1", of: .user("bob"), through: row.through)
            world.markRead("bob/pc", of: .user("ann"), through: row.through)
            world.settle()
            #expect(unread("ann", "bob") == row.ann, "after \(row.through)")
            #expect(unread("bob", "ann") == row.bob, "after \(row.through)")
            world.crash()
            world.begin("ann/1", "bob/pc")
            #expect(unread("ann", "bob") == row.ann, "after \(row.through) and a crash")
        }
    }

    @Test func `counts own messages in as many pieces as the store needs`() {
        world.begin("ann/1", "bob/pc")
        world.send("bob/pc", 1, to: .user("ann"), "x", isKept: true)
        for number in 1...250 as ClosedRange<UInt64> {
            world.send("ann/1", number, to: .user("bob"), "x", isKept: true)
            if number % 50 == 0 {
                world.settle()
                world.seeResults("ann/1", through: number)
            }
        }
        world.send("bob/pc", 2, to: .user("ann"), "x", isKept: true)
        world.settle()
        #expect(unread("ann", "bob") == 2)
        _ = world.lines()
        world.markRead("ann/1", of: .user("bob"), through: 249)
        world.markRead("ann/1", of: .user("bob"), through: 3)
        #expect(world.lines() == ["ann/1: response 2, serverBusy"], "one at a time")
        world.settle()
        #expect(world.lines().contains("ann/1: response 1, success"))
        #expect(unread("ann", "bob") == 1)
        world.markRead("ann/1", of: .user("bob"), through: 252)
        world.settle()
        #expect(unread("ann", "bob") == 0)
    }

    @Test func `of a mark whose client has gone, or whose message never came, changes nothing`() {
        world.begin("ann/1", "bob/pc")
        world.send("bob/pc", 1, to: .user("ann"), "x", isKept: true)
        world.send("ann/1", 1, to: .user("bob"), "x", isKept: true)
        world.send("bob/pc", 2, to: .user("ann"), "x", isKept: true)
        world.settle()
        world.markRead("ann/1", of: .user("bob"), through: 2)
        world.lose("ann/1")
        world.settle()
        #expect(unread("ann", "bob") == 2)
        _ = world.lines()
        world.markRead("bob/pc", of: .user("ann"), through: 4)
        world.markRead("bob/pc", of: .user("nobody"), through: 1)
        world.markRead("bob/pc", of: .user("bob"), through: 1)
        #expect(
            world.lines() == Array(repeating: "bob/pc: response 1, topicNameInvalid", count: 3))
    }

    @Test func `of two devices at once is the farther one`() {
        world.begin("ann/1", "ann/2", "bob/pc")
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("ann"), "x", isKept: true)
            world.send("ann/1", number, to: .user("bob"), "x", isKept: true)
        }
        world.settle()
        world.markRead("ann/1", of: .user("bob"), through: 3)
        world.markRead("ann/2", of: .user("bob"), through: 5)
        world.settle()
        #expect(unread("ann", "bob") == 0)
        world.crash()
        #expect(unread("ann", "bob") == 0)
    }

    @Test func `of a group begins with joining, and ends with leaving`() {
        world.begin("ann/1", "bob/pc", "carl/1")
        let group = world.makeGroup(owner: "bob/pc", members: ["ann/1"])
        world.send("bob/pc", 1, to: .group(group), "x", isKept: true)
        world.settle()
        _ = world.lines()
        world.markRead("carl/1", of: .group(group), through: 1)
        #expect(world.lines() == ["carl/1: response 1, notAuthorized"])
        #expect(world.operate(group, .join(user: Array("carl".utf8))) == .success)
        world.send("bob/pc", 2, to: .group(group), "x", isKept: true)
        world.settle()
        #expect(unread("carl", group) == 1)
        #expect(unread("ann", group) == 2)
        #expect(unread("bob", group) == 0)
        #expect(world.conversations(of: "bob", isUnreadOnly: true) == [])
        #expect(world.operate(group, .leave(user: Array("carl".utf8))) == .success)
        world.settle()
        #expect(unread("carl", group) == nil)
    }

    /// A mark that waits for the store, while its reader leaves or hides, wrote a row of a stranger.
    /// The row outlived the group, and the next start refused the store.
    @Test(arguments: [false, true])
    func `of a member that leaves meanwhile leaves nothing`(hides: Bool) {
        world.begin("ann/1", "bob/pc")
        let group = world.makeGroup(owner: "bob/pc", members: ["ann/1"])
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("ann/1", number, to: .group(group), "x", isKept: true)
        }
        world.settle()
        _ = world.lines()
        world.markRead("ann/1", of: .group(group), through: 2, hides: hides)
        #expect(world.operate(group, .leave(user: Array("ann".utf8))) == .success)
        world.settle()
        #expect(world.lines().contains("ann/1: response 1, notAuthorized"))
        #expect(world.rows(of: .readers) == [])
        world.crash()
        #expect(unread("ann", group) == nil)
    }

    /// Stores of an earlier version may have rows of users who had left.
    @Test func `of a stranger, or of no conversation, is removed at the start`() {
        world.begin("ann/1", "bob/pc")
        let group = world.makeGroup(owner: "bob/pc", members: ["ann/1"])
        world.send("ann/1", 1, to: .group(group), "x", isKept: true)
        world.settle()
        let row = world.rows(of: .readers)[0]
        let queue = Array(row.key.prefix(8))
        let strays = [queue + Array("bob2".utf8), RecordKey.number(.max) + Array("ann".utf8)]
        world.begin("bob2/1")
        world.settle()
        world.write(strays.map { RecordChange(table: .readers, key: $0, value: row.value) })
        world.crash()
        #expect(world.broker.counters.rowsRepaired == 2)
        world.settle()
        #expect(world.rows(of: .readers) == [row])
        world.crash()
        #expect(world.broker.counters.rowsRepaired == 0)
    }

    @Test func `is never more than what is kept`() {
        world.limits.historyCountMaximum = 5
        world.begin("ann/1", "bob/pc")
        for number in 1...20 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("ann"), "x", isKept: true)
        }
        world.settle()
        #expect(unread("ann", "bob") == 5)
    }

    @Test func `is listed by pages, in the order in which the conversations began`() {
        let names = (0..<30).map { "u\($0)" }
        world.begin("ann/1")
        for name in names { world.begin("\(name)/1") }
        for (number, name) in names.enumerated() {
            world.send("ann/1", UInt64(number + 1), to: .user(name), "x", isKept: true)
            if number % 10 == 3 {
                world.send("\(name)/1", 1, to: .user("ann"), "x", isKept: true)
            }
        }
        let group = world.makeGroup(owner: "ann/1", members: [])
        world.send("ann/1", 31, to: .group(group), "x", isKept: true)
        world.settle()
        func check() {
            for count in [1, 7, 100] {
                let all = world.conversations(of: "ann", pageCount: count)
                #expect(all.map { String(decoding: $0.name, as: UTF8.self) } == names + [group])
                let unread = world.conversations(of: "ann", isUnreadOnly: true, pageCount: count)
                #expect(
                    unread.map { String(decoding: $0.name, as: UTF8.self) } == [
                        "u3", "u13", "u23",
                    ])
            }
        }
        check()
        world.crash()
        check()
        world.begin("ann/1")
        _ = world.lines()
        world.requestConversations("ann/1", count: 2)
        world.requestConversations("ann/1", byteCount: 60)
        world.requestConversations("ann/1", byteCount: 20)
        #expect(
            world.lines() == [
                "ann/1: conversations 1 [u0 0 unread after 0 of 1, u1 0 unread after 0 of 1] "
                    + "and more",
                "ann/1: conversations 1 [u0 0 unread after 0 of 1] and more",
                "ann/1: response 1, packetTooLarge",
            ])
    }

    /// Any sequence of kept messages and marks: the count is that of the messages of others behind
    /// the mark, also after a crash.
    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func `agrees with a count of the messages`(seed: UInt64) {
        var random = seed &* 0x9E37_79B9_7F4A_7C15
        func next(_ bound: UInt64) -> UInt64 {
            random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return (random >> 33) % bound
        }
        world.begin("ann/1", "bob/pc")
        let names = ["ann/1", "bob/pc"]
        var (senders, marks, sent) = ([Int](), [UInt64(0), 0], [UInt64(0), 0])
        for _ in 0..<120 {
            let actor = Int(next(2))
            switch next(10) {
            case 0...5:
                sent[actor] += 1
                world.send(
                    names[actor], sent[actor], to: .user(actor == 0 ? "bob" : "ann"), "x",
                    isKept: true)
                senders.append(actor)
            case 6...8 where !senders.isEmpty:
                let number = 1 + next(UInt64(senders.count))
                world.markRead(
                    names[actor], of: .user(actor == 0 ? "bob" : "ann"), through: number)
                world.settle()
                marks[actor] = max(marks[actor], number)
            case 9 where next(4) == 0:
                world.settle()
                world.crash()
                world.begin("ann/1", "bob/pc")
                sent = [0, 0]
            default: world.settle()
            }
            for reader in 0...1 where !senders.isEmpty {
                let others = senders.indices.count {
                    senders[$0] != reader && UInt64($0) >= marks[reader]
                }
                #expect(
                    unread(reader == 0 ? "ann" : "bob", reader == 0 ? "bob" : "ann")
                        == UInt64(others))
            }
        }
    }
}
