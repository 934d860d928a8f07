// What a user hides from itself: a conversation up to a number.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A conversation that a user hides` {
    let world = World()

    /// Four messages: the second one is ann's own.
    private func begin() {
        world.begin("ann/1", "bob/pc")
        world.send("bob/pc", 1, to: .user("ann"), "1", isKept: true)
        world.send("ann/1", 1, to: .user("bob"), "2", isKept: true)
        world.send("bob/pc", 2, to: .user("ann"), "3", isKept: true)
        world.send("bob/pc", 3, to: .user("ann"), "4", isKept: true)
        world.settle()
    }

    private func page(_ name: String, of user: String) -> String? {
        _ = world.lines()
        world.requestHistory(name, of: .user(user))
        world.settle()
        return world.lines().last { $0.contains("[") }.map { String($0.drop { $0 != "[" }) }
    }

    private func unread() -> [UInt64] { world.conversations(of: "ann").map(\.unreadCount) }

    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func `begins behind the number for that user alone, also after a crash`(number: UInt64) {
        begin()
        world.markRead("ann/1", of: .user("bob"), through: number, hides: true)
        world.settle()
        #expect(world.lines().contains { $0.contains("success") })
        for _ in 1...2 {
            let texts = (page("ann/1", of: "bob") ?? "").filter { $0 == "#" }.count
            #expect(texts == 4 - Int(number))
            #expect((page("bob/pc", of: "ann") ?? "").filter { $0 == "#" }.count == 4)
            let expected: [UInt64] = [2, 2, 1, 0]
            #expect(unread() == [expected[Int(number) - 1]])
            world.crash()
            world.begin("ann/1", "bob/pc")
        }
        #expect(world.history(of: "ann", and: "bob").count == 4)
    }

    @Test func `begins there for a program that reads it for the user`() {
        begin()
        world.markRead("ann/1", of: .user("bob"), through: 2, hides: true)
        world.settle()
        func numbers(_ reader: String?) -> [UInt64]? {
            world.historyPage(.pair("ann", "bob"), seenBy: reader)?.messages.map(\.number)
        }
        #expect(numbers("ann") == [4, 3])
        #expect(numbers("bob") == [4, 3, 2, 1])
        #expect(numbers(nil) == [4, 3, 2, 1])
        #expect(numbers("nobody") == nil)
        world.begin("carl/1")
        #expect(numbers("carl") == nil)
    }

    @Test func `stays read where it was read, and does not come back`() {
        begin()
        world.markRead("ann/1", of: .user("bob"), through: 3)
        world.settle()
        world.markRead("ann/1", of: .user("bob"), through: 2, hides: true)
        world.settle()
        #expect(unread() == [1])
        #expect(page("ann/1", of: "bob") == "[#4 4 of bob, #3 3 of bob]")
        world.markRead("ann/1", of: .user("bob"), through: 1, hides: true)
        world.settle()
        #expect(page("ann/1", of: "bob") == "[#4 4 of bob, #3 3 of bob]")
        world.send("ann/1", 2, to: .user("bob"), "5", isKept: true)
        world.settle()
        #expect(unread() == [1])
        world.crash()
        #expect(unread() == [1])
    }

    @Test func `has no numbers that are not given yet`() {
        begin()
        _ = world.lines()
        world.markRead("ann/1", of: .user("bob"), through: 5, hides: true)
        #expect(world.lines().last?.hasSuffix("topicNameInvalid") == true)
    }
}
