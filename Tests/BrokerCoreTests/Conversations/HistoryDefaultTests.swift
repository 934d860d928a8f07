// What groups and apps keep unless a sender says no, and what new members see of it.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `History by default` {
    let world = World()

    private func texts(_ selection: ConversationSelection) -> [String] {
        world.history(selection).map(\.text)
    }

    private func makeGroup() -> String {
        world.begin("ann/1", "bob/pc", "carl/1")
        return world.makeGroup(owner: "bob/pc", members: ["ann/1"])
    }

    @Test func `of a group keeps what its senders do not refuse to keep`() {
        let group = makeGroup()
        world.send("ann/1", 1, to: .group(group), "before")
        #expect(world.operate(group, .setHistory(GroupHistory(isKept: true))) == .success)
        world.send("ann/1", 2, to: .group(group), "kept")
        world.send("ann/1", 3, to: .group(group), "refused", isKept: false)
        world.send("ann/1", 0, to: .group(group), "transient", grade: .transient)
        world.send("ann/1", 4, to: .user("bob"), "elsewhere")
        world.settle()
        #expect(texts(.group(group)) == ["kept"])
        #expect(texts(.pair("ann", "bob")) == [])
        #expect(world.operate(group, .setHistory(GroupHistory(isKept: false))) == .success)
        world.send("ann/1", 5, to: .group(group), "after")
        world.send("ann/1", 6, to: .group(group), "asked for", isKept: true)
        world.settle()
        #expect(texts(.group(group)) == ["asked for", "kept"])
    }

    @Test func `of a group is set by its owner, told to its members, and stored`() {
        let group = makeGroup()
        let wanted = GroupHistory(isKept: true, shownCount: 2)
        world.groups("ann/1") { .setHistory($0.appendRange(group), wanted) }
        #expect(world.lines() == ["ann/1: response 1, notAuthorized"])
        world.groups("bob/pc") { .setHistory($0.appendRange(group), wanted) }
        world.settle()
        #expect(world.lines().contains { $0.hasPrefix("ann/1") && $0.contains("historyUpdated") })
        world.crash()
        world.begin("ann/1", "bob/pc")
        _ = world.lines()
        world.groups("ann/1") { .describeHistory($0.appendRange(group)) }
        #expect(world.lines().last?.hasSuffix("on, 2 shown, last 0") == true)
        world.send("ann/1", 1, to: .group(group), "kept")
        world.settle()
        #expect(texts(.group(group)) == ["kept"])
        world.begin("carl/1")
        _ = world.lines()
        world.groups("carl/1") { .describeHistory($0.appendRange(group)) }
        #expect(world.lines().last?.hasSuffix("notAuthorized") == true)
    }

    @Test func `that a group no longer has is its row of the first version again`() {
        let group = makeGroup()
        #expect(world.operate(group, .setHistory(GroupHistory(isKept: true))) == .success)
        #expect(world.operate(group, .setHistory(GroupHistory())) == .success)
        world.settle()
        world.crash()
        world.begin("ann/1", "bob/pc")
        world.send("ann/1", 1, to: .group(group), "not kept")
        world.settle()
        #expect(texts(.group(group)) == [])
    }

    @Test(arguments: [(0, 0), (2, 2), (9, 3)] as [(UInt32, Int)])
    func `shows new members as many messages from before as the group says`(
        shown: UInt32, unread: Int
    ) {
        let group = makeGroup()
        let history = GroupHistory(isKept: true, shownCount: shown)
        #expect(world.operate(group, .setHistory(history)) == .success)
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("ann/1", number, to: .group(group), "\(number)")
        }
        world.settle()
        #expect(world.operate(group, .join(user: Array("carl".utf8))) == .success)
        world.settle()
        for _ in 1...2 {
            let summary = world.conversations(of: "carl")
            #expect(summary.map(\.unreadCount) == [UInt64(unread)])
            _ = world.lines()
            world.requestHistory("carl/1", of: .group(group))
            world.settle()
            let page = world.lines().last { $0.contains("[") } ?? ""
            #expect(page.count { $0 == "#" } == unread, "\(page)")
            world.crash()
            world.begin("ann/1", "bob/pc", "carl/1")
        }
    }

    @Test func `of an app keeps what goes to users and groups, and nothing else`() {
        let group = makeGroup()
        world.limits.appPolicies[World.app] = AppPolicy()
        world.limits.appPolicies[World.app]!.keepsHistory = true
        world.send("ann/1", 1, to: .user("bob"), "pair")
        world.send("ann/1", 2, to: .users(["bob", "carl"]), "list")
        world.send("ann/1", 3, to: .group(group), "group")
        world.send("ann/1", 4, to: .topic("a/b"), "topic")
        world.send("ann/1", 5, to: .everybody, "everybody")
        world.send("ann/1", 6, to: .user("bob"), "not this", isKept: false)
        world.settle()
        #expect(texts(.pair("ann", "bob")) == ["list", "pair"])
        #expect(texts(.pair("ann", "carl")) == ["list"])
        #expect(texts(.group(group)) == ["group"])
        #expect(world.counters.sendsRefused == 0)
        world.limits.appPolicies[World.app] = nil
        world.send("ann/1", 7, to: .user("bob"), "no more")
        world.settle()
        #expect(texts(.pair("ann", "bob")) == ["list", "pair"])
    }

    @Test func `is refused past its limits, as history that is asked for`() {
        let group = makeGroup()
        #expect(world.operate(group, .setHistory(GroupHistory(isKept: true))) == .success)
        world.limits.conversationsPerAppMaximum = 0
        world.settle()
        _ = world.lines()
        world.send("ann/1", 1, to: .group(group), "too much")
        #expect(world.lines() == ["ann/1: result 1, quotaExceeded"])
        world.send("ann/1", 1, to: .group(group), "not kept", isKept: false)
        world.settle()
        #expect(world.lines().contains("ann/1: result 1, sent"))
    }
}
