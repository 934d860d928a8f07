// Notices: the devices of a user learn that the user is a member of a group, or is one no more,
// and how much a new member sees from before.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `The notice of a group` {
    let world = World()

    private func join(_ name: String, _ group: String, backlog: UInt32? = nil) {
        world.groups(name) { .join($0.appendRange(group), backlog: backlog) }
        world.settle()
    }

    private func operate(_ group: String, _ action: GroupAction) {
        #expect(world.operate(group, action) == .success)
        world.settle()
    }

    /// What one device is told.
    private func notices(of name: String) -> [String] {
        world.lines().filter { $0.hasPrefix("\(name): ") && !$0.contains("response") }
    }

    @Test func `tells the other devices of a user that joins, and not the one that asks`() {
        world.begin("ann/phone", "bob/pc", "bob/pump")
        let group = world.makeGroup(owner: "ann/phone", meta: "{}")
        world.settle()
        _ = world.lines()
        join("bob/pc", group)
        let lines = world.lines()
        #expect(lines.filter { $0.hasPrefix("bob/pc: ") } == ["bob/pc: response 1, success"])
        let told = lines.filter { $0.hasPrefix("bob/pump: ") }
        #expect(told.count == 2, "\(told)")
        #expect(told[0].contains(#"added to "title" {} of ann, 2 members from bob"#), "\(told[0])")
        #expect(told[1].contains("joined from bob"), "\(told[1])")
        #expect(world.counters.groupNotices == 1)
    }

    @Test func `tells the other devices of the user that makes a group`() {
        world.begin("ann/phone", "ann/pc")
        world.createGroup("ann/phone", key: 7)
        world.settle()
        let lines = world.lines()
        #expect(lines.contains { $0.hasPrefix("ann/pc: ") && $0.contains("added") }, "\(lines)")
        #expect(!lines.contains { $0.hasPrefix("ann/phone: #") }, "\(lines)")
    }

    @Test func `waits for a user whom an operator adds, over a crash`() {
        world.begin("ann/phone")
        let group = world.makeGroup(owner: "ann/phone")
        world.addUser("carl")
        operate(group, .join(user: Array("carl".utf8)))
        world.crash()
        world.begin("ann/phone")
        world.connect("carl/pump")
        world.settle()
        let told = notices(of: "carl/pump")
        #expect(told.contains { $0.contains(#"added to "title"  of ann, 2 members"#) }, "\(told)")
    }

    @Test func `tells the owner of a group that an operator makes`() {
        world.begin("ann/phone")
        _ = world.operatorGroup(owner: "ann")
        world.settle()
        #expect(notices(of: "ann/phone").contains { $0.contains("of ann, 1 members") })
    }

    @Test func `leaves a long meta out and says so`() {
        let long = String(repeating: "m", count: 513)
        world.begin("ann/phone", "bob/pc")
        let group = world.makeGroup(owner: "ann/phone", meta: long)
        operate(group, .join(user: Array("bob".utf8)))
        let told = notices(of: "bob/pc")
        #expect(
            told.contains { $0.contains(#"added to "title"  of ann, 2 members, cut"#) }, "\(told)")
    }

    @Test func `tells a user that an operator takes out, and the other devices of one that leaves`()
    {
        world.begin("ann/phone", "bob/pc", "bob/pump")
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        _ = world.lines()
        world.groups("bob/pc") { .leave($0.appendRange(group)) }
        world.settle()
        var lines = world.lines()
        #expect(
            lines.contains { $0.hasPrefix("bob/pump: ") && $0.contains("removed from bob") },
            "\(lines)")
        #expect(!lines.contains { $0.hasPrefix("bob/pc: #") }, "\(lines)")
        operate(group, .join(user: Array("bob".utf8)))
        _ = world.lines()
        operate(group, .leave(user: Array("bob".utf8)))
        lines = world.lines()
        for device in ["bob/pc", "bob/pump"] {
            #expect(
                lines.contains { $0.hasPrefix("\(device): ") && $0.contains("removed from bob") })
        }
    }

    @Test func `of a membership that a client makes for itself does not wait for later devices`() {
        world.begin("ann/phone")
        let group = world.makeGroup(owner: "ann/phone")
        world.connect("bob/mqtt", dialect: .mqtt5)
        world.settle()
        join("bob/mqtt", group)
        _ = world.lines()
        world.connect("bob/pc")
        world.settle()
        #expect(!notices(of: "bob/pc").contains { $0.contains("added") })
    }

    // MARK: - What a new member sees

    /// A group of ann that has kept five messages and shows three, and what bob sees of it.
    private func unread(_ add: (String) -> Void) -> UInt64? {
        world.begin("ann/phone", "bob/pc")
        let group = world.makeGroup(owner: "ann/phone")
        operate(group, .setHistory(GroupHistory(isKept: true, shownCount: 3)))
        for number in 1...5 as ClosedRange<UInt64> {
            world.send("ann/phone", number, to: .group(group), "\(number)")
        }
        world.settle()
        add(group)
        world.settle()
        world.crash()
        return world.conversations(of: "bob").map(\.unreadCount).first
    }

    @Test(arguments: [(nil, 3), (0, 0), (2, 2), (5, 3)] as [(UInt32?, UInt64)])
    func `joining shows a member as much as it wants, and the group at most`(
        backlog: UInt32?, seen: UInt64
    ) {
        #expect(unread { join("bob/pc", $0, backlog: backlog) } == seen)
    }

    @Test(arguments: [(nil, 3), (0, 0), (4, 4), (9, 5)] as [(UInt32?, UInt64)])
    func `an operator shows a member as much as there is`(backlog: UInt32?, seen: UInt64) {
        #expect(
            unread { operate($0, .join(user: Array("bob".utf8), backlog: backlog)) } == seen)
    }

    @Test func `an owner that comes back sees as much as it wants`() {
        world.begin("ann/phone", "bob/pc")
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        operate(group, .setHistory(GroupHistory(isKept: true)))
        for number in 1...4 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .group(group), "\(number)")
        }
        world.settle()
        world.groups("ann/phone") { .leave($0.appendRange(group)) }
        world.settle()
        join("ann/phone", group, backlog: 3)
        #expect(world.conversations(of: "ann").map(\.unreadCount) == [3])
    }

    @Test func `a member that joins again sees what it saw`() {
        world.begin("ann/phone", "bob/pc")
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        operate(group, .setHistory(GroupHistory(isKept: true)))
        world.send("ann/phone", 1, to: .group(group), "1")
        world.settle()
        join("bob/pc", group, backlog: 0)
        #expect(world.conversations(of: "bob").map(\.unreadCount) == [1])
    }
}
