// Collapse keys at limits: full queues, many sends in a row, and more than may be under way.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A collapse key at a limit` {
    let world = World()

    private func texts(to name: String) -> [String] {
        world.settleAll()
        return world.unnumberedLines().filter { $0.hasPrefix(name) && $0.contains(" from ann") }
            .map { String($0.split(separator: "\"")[1]) }
    }

    private func set(
        _ text: String, number: UInt64, to target: Target = .user("bob"), key: String = "valve",
        grade: Grade = .durable
    ) {
        world.sendCollapsing("ann/1", number, to: target, text, key: key, grade: grade)
    }

    /// Two receivers, who are away.
    private func beginAway() {
        world.begin("ann/1", "cat/pc", "bob/pc")
        world.disconnect("bob/pc")
        world.disconnect("cat/pc")
    }

    /// The receiver whose queue was full has the earlier message, and the other one the newer.
    private func expectEarlierStays() {
        world.connect("bob/pc")
        #expect(texts(to: "bob") == ["20", "other"])
        world.connect("cat/pc")
        #expect(texts(to: "cat") == ["21"])
    }

    @Test(arguments: [QueuePolicy.refuse, .newest])
    func `leaves the earlier message with a receiver that does not take the newer`(
        _ policy: QueuePolicy
    ) {
        beginAway()
        set("20", number: 1, to: .users(["bob", "cat"]))
        world.settleAll()
        world.limits.queueCountMaximum = 2
        world.limits.queuePolicy = policy
        world.send("ann/1", 2, to: .user("bob"), "other")
        world.settleAll()
        set("21", number: 3, to: .users(["bob", "cat"]))
        world.settleAll()
        _ = world.lines()
        expectEarlierStays()
    }

    @Test func `leaves it over a crash, and where it is loaded`() {
        beginAway()
        set("20", number: 1, to: .users(["bob", "cat"]))
        world.settleAll()
        world.limits.queueCountMaximum = 2
        world.send("ann/1", 2, to: .user("bob"), "other")
        world.settleAll()
        set("21", number: 3, to: .users(["bob", "cat"]))
        #expect(world.commit())
        world.crash()
        world.settleAll()
        expectEarlierStays()
    }

    @Test func `leaves it with a member of a group`() {
        world.begin("ann/1", "cat/pc", "bob/pc")
        let group = world.makeGroup(owner: "ann/1", members: ["cat/pc", "bob/pc"])
        for name in ["cat/pc", "bob/pc"] {
            world.acknowledge(name, through: world.sentThrough(name))
        }
        world.disconnect("bob/pc")
        world.disconnect("cat/pc")
        set("20", number: 1, to: .group(group))
        world.settleAll()
        world.limits.queueCountMaximum = 2
        world.send("ann/1", 2, to: .user("bob"), "other")
        world.settleAll()
        set("21", number: 3, to: .group(group))
        world.settleAll()
        _ = world.lines()
        expectEarlierStays()
    }

    @Test func `can be recalled by its sender where the earlier message stays`() {
        beginAway()
        set("20", number: 1, to: .users(["bob", "cat"]))
        world.settleAll()
        world.limits.queueCountMaximum = 2
        world.send("ann/1", 2, to: .user("bob"), "other")
        world.settleAll()
        set("21", number: 3, to: .users(["bob", "cat"]))
        world.settleAll()
        world.recall("ann/1", 0xA1)
        world.settleAll()
        #expect(world.lastRecall == "2 withdrawn, 0 late")
        _ = world.lines()
        world.connect("bob/pc")
        #expect(texts(to: "bob") == ["other"])
    }

    @Test(arguments: [true, false])
    func `of 3,000 sends in a row leaves the newest`(_ isAway: Bool) {
        world.limits.sendWindowMaximum = .max
        world.begin("ann/1", "bob/pc")
        if isAway { world.disconnect("bob/pc") }
        world.settleAll()
        _ = world.lines()
        for number in 1...3_000 as ClosedRange<UInt64> {
            set("\(number)", number: number)
            if number % 700 == 0 { #expect(world.commit()) }
        }
        world.settleAll()
        let lines = world.lines()
        #expect(lines.count { $0.hasPrefix("ann/1: result") && $0.contains(", sent") } == 3_000)
        if isAway {
            #expect(world.store.heldMessages.count == 1)
            world.connect("bob/pc")
            #expect(texts(to: "bob") == ["3000"])
        } else {
            var last = 0
            for line in lines where line.hasPrefix("bob/pc: #") {
                let number = Int(line.split(separator: "\"")[1])!
                #expect(number > last)
                last = number
            }
            for _ in 0..<100 where last < 3_000 {
                world.acknowledge("bob/pc", through: world.sentThrough("bob/pc"))
                world.settleAll()
                for line in world.lines() where line.hasPrefix("bob/pc: #") {
                    let number = Int(line.split(separator: "\"")[1])!
                    #expect(number > last)
                    last = number
                }
            }
            #expect(last == 3_000)
        }
        #expect(world.broker.tracking.revisions.count == 0)
    }

    @Test func `of a message that is superseded in its batch is refused with the batch`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        world.settleAll()
        _ = world.lines()
        set("20", number: 1)
        set("21", number: 2)
        world.store.isFull = true
        world.settleAll()
        #expect(
            world.lines() == [
                "ann/1: result 1, quotaExceeded", "ann/1: result 2, quotaExceeded",
            ])
        #expect(world.broker.tracking.count == 0)
        world.store.isFull = false
        world.forgetFullStore()
        set("22", number: 3)
        world.settleAll()
        world.connect("bob/pc")
        #expect(texts(to: "bob") == ["22"])
    }

    @Test func `is refused with a cause while the earlier message is replaced`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        set("20", number: 1)
        world.settleAll()
        _ = world.lines()
        world.recall("ann/1", 0xA1, with: "20.5")
        set("21", number: 2)
        #expect(world.lines().first?.hasPrefix("ann/1: result 2, serverBusy") == true)
        #expect(world.counters.collapsesRefused == 1)
        world.settleAll()
        set("22", number: 3)
        world.settleAll()
        _ = world.lines()
        world.connect("bob/pc")
        #expect(texts(to: "bob") == ["22"])
    }

    @Test func `has a share of what may be under way`() {
        let count: UInt64 = 20
        world.limits.revisionsPerUserMaximum = Int(count)
        world.begin("ann/1", "eve/1", "bob/pc")
        world.disconnect("bob/pc")
        for number in 1...count + 1 { set("old", number: number, key: "\(number)") }
        world.settleAll()
        _ = world.lines()
        for number in 1...count + 1 { set("new", number: count + 1 + number, key: "\(number)") }
        #expect(world.counters.collapsesRefused == 1)
        // Another user has its own.
        world.sendCollapsing("eve/1", 1, to: .user("bob"), "old", key: "k")
        #expect(world.commit())
        world.sendCollapsing("eve/1", 2, to: .user("bob"), "new", key: "k")
        #expect(world.counters.collapsesRefused == 1)
        world.settleAll()
        #expect(
            world.lines().filter { $0.hasPrefix("ann/1") && !$0.contains(", sent") }.count == 1)
        #expect(world.store.heldMessages.count == Int(count) + 2)
        #expect(world.broker.tracking.revisions.count == 0)
    }

    @Test func `is the same for a list in another order, and lets the older message be recalled`() {
        world.begin("ann/1", "cat/pc", "bob/pc")
        world.disconnect("cat/pc")
        set("20", number: 1, to: .users(["bob", "cat"]))
        world.settleAll()
        set("21", number: 2, to: .users(["cat", "bob"]))
        world.settleAll()
        #expect(world.counters.messagesCollapsed == 1)
        _ = world.lines()
        world.recall("ann/1", 0xA1)
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 1 late: bob")
        #expect(world.lines().count { $0.contains("recall of a1") } == 1)
    }

    @Test func `finds the earlier message of a user with as many sends as may be`() {
        world.limits.trackedSendsPerUserMaximum = 3
        world.begin("ann/1")
        for name in ["b1", "b2", "b3"] { world.addUser(name) }
        for round in 0..<3 as Range<UInt64> {
            for place in 1...3 as ClosedRange<UInt64> {
                set("\(round)", number: 3 * round + place, to: .user("b\(place)"))
            }
            world.settleAll()
            #expect(world.broker.tracking.count == 3)
        }
        for name in ["b1", "b2", "b3"] {
            _ = world.lines()
            world.connect("\(name)/pc")
            #expect(texts(to: name) == ["2"])
        }
    }

    @Test func `of a newer message that the store refuses finds the earlier one again`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        set("20", number: 1)
        world.settleAll()
        set("21", number: 2)
        world.store.isFull = true
        world.settleAll()
        world.store.isFull = false
        world.forgetFullStore()
        set("22", number: 3)
        world.settleAll()
        _ = world.lines()
        world.connect("bob/pc")
        #expect(texts(to: "bob") == ["22"])
    }
}
