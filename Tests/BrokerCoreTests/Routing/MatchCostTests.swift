// What a publication and a subscription cost where filters have been chosen to be dear: steps and
// work are counted, not time.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `Filters that are chosen to be dear` {
    let world = World()

    /// Filters of 16 levels with a `+` wherever the number has a bit, and then a tail that the
    /// topic has too, up to its last level.
    private func branching(_ number: Int, tail: Int = 20) -> String {
        let head = (0..<16).map { number >> $0 & 1 == 1 ? "+" : "a" }
        return (head + [String](repeating: "a", count: tail) + ["z"]).joined(separator: "/")
    }

    private func topic(_ count: Int) -> String {
        [String](repeating: "a", count: count).joined(separator: "/")
    }

    private func work(_ body: () -> Void) -> Int {
        let before = world.broker.work
        body()
        return world.broker.work - before
    }

    private var app: Index<App> { world.broker.app(named: World.app)! }
    private var shapeCount: Int { world.broker.registry.apps[app].topics.shapes.count }
    private var overQuotaCount: UInt64 { world.broker.counters.subscriptionsOverQuota }

    @Test func `are refused past a number of shapes, and simple ones are not`() {
        world.limits.filterShapesMaximum = 300
        world.showsNotes = true
        world.beginMQTT("ann/pc", "bob/pc")
        var answers: [UInt8] = []
        for number in 0..<60 {
            answers += world.subscribeMQTT("ann/pc", branching(number * 1_021 & 0xFFFF))
        }
        #expect(answers.contains(ReasonCode.quotaExceeded.rawValue))
        #expect(answers.contains(2))
        #expect(shapeCount <= 300)
        let refusedCount = answers.count { $0 == ReasonCode.quotaExceeded.rawValue }
        #expect(overQuotaCount == UInt64(refusedCount))
        // A match visits no more than there are shapes, and its charge says so.
        world.subscribeMQTT("bob/pc", "other")
        let cost = work { world.publish("bob/pc", topic(36), "x", grade: .transient) }
        #expect(cost > 50 && cost < 200, "\(cost)")
        // Those that are plain, or like others, go on being taken.
        #expect(world.subscribeMQTT("bob/pc", "+/b/+/d") == [2])
        #expect(world.subscribeMQTT("bob/pc", branching(0)) == [2])
        #expect(world.subscribeMQTT("bob/pc", branching(1_021).replacing("z", with: "y")) == [2])
        // Also as shared ones.
        #expect(
            world.subscribeMQTT("bob/pc", "$share/n/" + branching(0xFFF7, tail: 40)) == [0x97])
    }

    @Test func `leave no shape behind`() {
        world.beginMQTT("ann/pc")
        let filters = (0..<40).map { branching($0 * 37) } + ["+/#", "#", "+", "$share/n/+/a/#"]
        for filter in filters { world.subscribeMQTT("ann/pc", filter) }
        #expect(shapeCount > 100)
        for filter in filters { world.unsubscribe("ann/pc", filter) }
        world.settle()
        let areEmpty = (
            world.broker.registry.apps[app].topics.isEmpty,
            world.broker.registry.apps[app].shares.isEmpty
        )
        #expect(areEmpty == (true, true))
    }

    @Test(arguments: [Grade.transient, .durable])
    func `are merged in as many steps as there are subscribers`(_ grade: Grade) {
        world.beginMQTT("ann/pc", "bob/pc", "cy/pc")
        for number in 0..<128 {
            let filter = (0..<7).map { number >> $0 & 1 == 1 ? "+" : "a" }.joined(separator: "/")
            world.subscribeMQTT("ann/pc", filter, identifier: UInt32(number % 100 + 1))
            world.subscribeMQTT("bob/pc", filter, identifier: UInt32(number % 100 + 1))
        }
        _ = world.lines()
        let all = (1...100).map(String.init).joined(separator: " and ")
        for number in 1...2 {
            let cost = work {
                world.publish(
                    "cy/pc", grade == .transient ? 0 : UInt16(number), to: .topic(topic(7)), "x",
                    grade: grade)
                world.settle()
            }
            // 255 nodes, 256 subscribers, and 254 identifiers; in the second run too.
            #expect(cost > 127 + 32 + 50 && cost < 400, "\(cost)")
            let lines = world.lines()
            #expect(lines.count { $0.hasSuffix(", by \(all)") } == 2, "\(lines)")
        }
        // One that ends takes its identifier along.
        world.unsubscribe("ann/pc", "a/a/a/a/a/a/+")
        world.settle()
        _ = world.lines()
        world.publish("cy/pc", 9, topic(7), "x")
        world.settle()
        #expect(world.lines().count { $0.contains(", by ") && !$0.contains(" and 65") } == 1)
    }

    // MARK: - Shares

    @Test func `shares end at their limits`() {
        world.limits.sharesPerSessionMaximum = 3
        world.limits.sharesPerAppMaximum = 4
        world.beginMQTT("ann/pc", "bob/pc", "cy/pc")
        for name in 1...3 {
            #expect(world.subscribeMQTT("ann/pc", "$share/\(name)/#") == [2])
        }
        #expect(world.subscribeMQTT("ann/pc", "$share/4/#") == [0x97])
        #expect(world.subscribeMQTT("ann/pc", "$share/3/#") == [2])
        #expect(world.subscribeMQTT("bob/pc", "$share/4/#") == [2])
        #expect(world.subscribeMQTT("bob/pc", "$share/5/#") == [0x97])
        // One that there is already is no further one of the app's.
        #expect(world.subscribeMQTT("cy/pc", "$share/4/#") == [2])
        #expect(overQuotaCount == 2)
        world.unsubscribe("bob/pc", "$share/4/#")
        world.unsubscribe("cy/pc", "$share/4/#")
        world.settle()
        #expect(world.subscribeMQTT("bob/pc", "$share/5/#") == [2])
    }

    @Test func `shares of those who are away are not asked for what they do not get`() {
        world.limits.sharesPerSessionMaximum = 100
        world.beginMQTT("ann/pc", "bob/pc", "cy/pc")
        for name in 1...100 {
            world.subscribeMQTT("ann/pc", "$share/\(name)/#")
            if name % 2 == 0 { world.subscribeMQTT("bob/pc", "$share/\(name)/#") }
        }
        func publish() -> (work: Int, lines: Int) {
            _ = world.lines()
            let cost = work { world.publish("cy/pc", "t", "x", grade: .transient) }
            return (cost, world.lines().count)
        }
        #expect(publish().lines == 100)
        #expect(publish().work > 50)
        world.lose("ann/pc")
        world.settle()
        #expect(publish().lines == 50)
        world.lose("bob/pc")
        world.settle()
        let unheard = publish()
        #expect(unheard.work < 4 && unheard.lines == 0)
        // What is queued goes to each.
        world.publish("cy/pc", 1, "t", "x")
        world.settle()
        let queuedCount = world.broker.queues.queuedCount
        #expect(queuedCount == 100)
        world.crash()
        world.beginMQTT("cy/pc")
        #expect(publish().work < 4)
        world.beginMQTT("bob/pc")
        #expect(publish().lines == 50)
    }

    @Test func `a share counts those whom it asks in vain`() {
        world.beginMQTT("cy/pc")
        for number in 0..<160 {
            world.beginMQTT("ann\(number)/pc")
            world.subscribeMQTT("ann\(number)/pc", "$share/n/#")
            if number > 0 { world.lose("ann\(number)/pc") }
        }
        world.settle()
        // Away or there: all but one are looked at.
        _ = work { world.publish("cy/pc", "t", "x", grade: .transient) }
        #expect(work { world.publish("cy/pc", "t", "x", grade: .transient) } >= 10)
    }

    // MARK: - Groups

    @Test func `a group's address counts the sessions that subscribe to it`() {
        world.begin("cy/pc")
        let group = world.makeGroup(owner: "cy/pc")
        world.beginMQTT("ann/pc", "ann/tv")
        func receivers() -> UInt32? {
            let ann = world.broker.user(named: Array("ann".utf8), app: app)!
            return world.broker.registry.users[ann].memberships.first.map {
                world.broker.groupTable.memberships[$0].receiverCount
            }
        }
        func isWaiting() -> Bool {
            !world.broker.groupTable.groups[Index(place: 0)].waiting.isEmpty
        }
        #expect(world.subscribeMQTT("ann/pc", "$g/\(group)") == [2])
        #expect(receivers() == 1 && !isWaiting())
        #expect(world.subscribeMQTT("ann/tv", "$g/\(group)") == [2])
        #expect(world.subscribeMQTT("ann/tv", "$g/\(group)", grade: .durable) == [1])
        #expect(receivers() == 2)
        world.crash()
        #expect(receivers() == 2 && !isWaiting())
        world.begin("cy/pc")
        world.beginMQTT("ann/pc", "ann/tv")
        world.unsubscribe("ann/pc", "$g/\(group)")
        world.settle()
        #expect(receivers() == 1 && !isWaiting())
        world.unsubscribe("ann/tv", "$g/\(group)")
        world.settle()
        #expect(receivers() == 0 && isWaiting())
        // Who leaves hears nothing more, and comes back as one who hears nothing.
        world.subscribeMQTT("ann/tv", "$g/\(group)")
        world.groups("cy/pc") { .kick($0.appendRange(group), user: $0.appendRange("ann")) }
        world.settle()
        #expect(receivers() == nil)
        #expect(world.subscribeMQTT("ann/pc", "$g/\(group)") == [2])
        #expect(receivers() == 1 && !isWaiting())
    }
}
