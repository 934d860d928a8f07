// The newest messages of conversations: in lists, and in what a group tells.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `The newest message` {
    let world = World()

    private func list(
        _ name: String, after place: UInt64 = 0, count: Int = 100, byteCount: Int = 16_384
    )
        -> [String]
    {
        world.settle()
        _ = world.lines()
        world.requestConversations(
            name, after: place, count: count, byteCount: byteCount, hasMessages: true)
        world.settle()
        return world.lines()
    }

    @Test func `stands in a list of conversations`() {
        world.begin("ann/1", "bob/pc", "carl/pc")
        let group = world.makeGroup(owner: "ann/1", members: ["bob/pc"])
        world.send("bob/pc", 1, to: .user("ann"), "old", isKept: true)
        world.send("bob/pc", 2, to: .user("ann"), "new", isKept: true)
        world.send("ann/1", 1, to: .group(group), "all", isKept: true)
        #expect(
            list("ann/1") == [
                "ann/1: conversations 1 [bob 2 unread after 0 of 2, newest #2 new of bob, "
                    + "group \(group) 0 unread after 0 of 1, newest #1 all of ann]"
            ])
        #expect(list("carl/pc") == ["carl/pc: conversations 1 []"])
    }

    @Test func `is the one before a message that was removed, and none at last`() {
        world.begin("ann/1", "bob/pc")
        world.send("bob/pc", 1, to: .user("ann"), "one", isKept: true)
        world.send("bob/pc", 2, to: .user("ann"), "two", isKept: true)
        world.settle()
        _ = world.removeFromHistory(2, .pair("ann", "bob"))
        #expect(
            list("ann/1") == [
                "ann/1: conversations 1 [bob 1 unread after 0 of 2, newest #1 one of bob]"
            ])
        _ = world.removeFromHistory(1, .pair("ann", "bob"))
        #expect(
            list("ann/1") == ["ann/1: conversations 1 [bob 0 unread after 0 of 2, newest none]"])
    }

    @Test func `is not one that its reader hides`() {
        world.begin("ann/1", "bob/pc")
        world.send("bob/pc", 1, to: .user("ann"), "one", isKept: true)
        world.settle()
        world.markRead("ann/1", of: .user("bob"), through: 1, hides: true)
        #expect(
            list("ann/1") == ["ann/1: conversations 1 [bob 0 unread after 1 of 1, newest none]"])
        #expect(
            list("bob/pc") == [
                "bob/pc: conversations 1 [ann 0 unread after 0 of 1, newest #1 one of bob]"
            ])
    }

    @Test func `lets a page end where the answer is full, and refuses one that is too long`() {
        world.begin("ann/1", "bob/pc", "carl/pc")
        let long = String(repeating: "x", count: 200)
        for name in ["bob/pc", "carl/pc"] {
            world.send(name, 1, to: .user("ann"), long, isKept: true)
        }
        let first = list("ann/1", byteCount: 400)
        #expect(first.count == 1 && first[0].hasSuffix("of bob] and more"), "\(first)")
        #expect(list("ann/1", byteCount: 100) == ["ann/1: response 1, packetTooLarge"])
        let place = world.conversations(of: "ann")[0].place
        let second = list("ann/1", after: place, byteCount: 400)
        #expect(second.count == 1 && second[0].hasSuffix("of carl]"), "\(second)")
    }

    @Test func `makes a client wait before it asks again`() {
        world.begin("ann/1", "bob/pc")
        world.send("bob/pc", 1, to: .user("ann"), "one", isKept: true)
        world.settle()
        _ = world.lines()
        world.requestConversations("ann/1", hasMessages: true)
        world.requestConversations("ann/1", hasMessages: true)
        #expect(world.lines() == ["ann/1: response 2, serverBusy"])
        world.settle()
        #expect(world.lines().count == 1)
        #expect(list("ann/1").count == 1)
    }

    @Test func `of a group is for its members, and the group may end meanwhile`() {
        world.begin("ann/1", "bob/pc", "carl/pc")
        let group = world.makeGroup(owner: "ann/1", members: ["bob/pc"])
        func ask(_ name: String) {
            world.groups(name) { .describeHistory($0.appendRange(group), wantsMessage: true) }
        }
        world.settle()
        _ = world.lines()
        ask("bob/pc")
        #expect(world.lines() == ["bob/pc: group history 1, off, 0 shown, last 0, newest none"])
        world.send("ann/1", 1, to: .group(group), "hi", isKept: true)
        world.settle()
        _ = world.lines()
        ask("bob/pc")
        world.settle()
        #expect(
            world.lines() == ["bob/pc: group history 1, off, 0 shown, last 1, newest #1 hi of ann"])
        ask("carl/pc")
        #expect(world.lines() == ["carl/pc: response 1, notAuthorized"])
        // An owner that has left may ask what is kept, and not read it.
        world.groups("ann/1") { .leave($0.appendRange(group)) }
        world.settle()
        _ = world.lines()
        ask("ann/1")
        #expect(world.lines() == ["ann/1: response 1, notAuthorized"])
        ask("bob/pc")
        while world.deleteGroup(group)?.hasMore == true {}
        world.settle()
        #expect(world.lines().contains("bob/pc: response 1, notAuthorized"))
    }

    @Test func `is read for a client that is gone when it comes`() {
        world.begin("ann/1", "bob/pc")
        world.send("bob/pc", 1, to: .user("ann"), "one", isKept: true)
        world.settle()
        world.requestConversations("ann/1", hasMessages: true)
        world.lose("ann/1")
        world.settle()
        world.begin("ann/1")
        #expect(list("ann/1").count == 1)
    }
}
