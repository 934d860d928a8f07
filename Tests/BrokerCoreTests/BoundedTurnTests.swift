// What a turn costs where much becomes possible at once: by new rights, by a deadline, by a commit.
// Work is counted, not time.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A turn` {
    let world = World()

    private func work(_ body: () -> Void) -> Int {
        let before = world.broker.work
        body()
        return world.broker.work - before
    }

    private func present(_ token: String, _ name: String) {
        var bytes: [UInt8] = []
        let claim = Claim.token(
            identifier: bytes.appendRange(token), digest: World.tokenDigest)
        world.step(.credentialPresented(world.connections[name]!, claim), bytes: bytes)
    }

    private func login(_ token: String, _ name: String) {
        world.connect(name, expiry: 3600, dialect: .mqtt5) { bytes in
            .token(identifier: bytes.appendRange(token), digest: World.tokenDigest)
        }
    }

    private let deep = [String](repeating: "l", count: 60).joined(separator: "/")

    /// Rights of patterns that differ in their last level.
    private func rights(_ kind: String, _ count: Int) -> [String] {
        (0..<count).map { "\(kind):\(deep)/x\($0)" } + ["\(kind):l/#"]
    }

    // MARK: - Deadlines

    /// Events may fill each batch before a turn comes to its deadlines.
    @Test func `carries deadlines out although the batch is full`() {
        world.limits.batchChangesMaximum = 40
        for number in 0..<60 {
            world.beginMQTT("away\(number)/x")
            world.subscribeMQTT("away\(number)/x", "t")
            world.disconnect("away\(number)/x")
        }
        world.begin("ann/phone", "bob/pc")
        world.setWill("ann/phone", to: .user("bob"), "lost", delay: 5)
        world.settle()
        world.lose("ann/phone")
        world.settle()
        world.beginMQTT("eve/pc")
        _ = world.lines()
        for identifier in 1...8 {
            world.publish("eve/pc", UInt16(identifier), "t", "x")
            world.pass(seconds: 1)
            #expect(world.broker.nextDeadline != nil)
        }
        #expect(world.broker.counters.willsSent == 0)
        world.settle()
        #expect(world.broker.counters.willsSent == 1)
        #expect(world.lines(of: "bob/pc").contains { $0.contains("lost") })
    }

    // MARK: - Rights

    @Test func `is charged for the subscriptions that new rights are asked about`() {
        world.addToken("one", user: "ann", rights: rights("subscribe", 60))
        world.addToken("two", user: "ann", rights: rights("subscribe", 61))
        login("one", "ann/pc")
        world.settle()
        for number in 0..<100 { world.subscribeMQTT("ann/pc", "\(deep)/x\(number)") }
        #expect(world.gauges.subscriptions == 100)
        let cost = work { present("two", "ann/pc") }
        #expect(cost > 400 && cost < 4_000, "\(cost)")
        // The same rights again allow the same.
        #expect(work { present("two", "ann/pc") } < 10)
        world.lose("ann/pc")
        world.settle()
        let loginCost = work { login("two", "ann/pc") }
        #expect(loginCost > 400 && loginCost < 4_000, "\(loginCost)")
        #expect(world.gauges.subscriptions == 100)
    }

    @Test func `is charged for what a publication is judged by`() {
        world.addToken("few", user: "ann", rights: rights("publish", 60))
        login("few", "ann/pc")
        world.settle()
        let cost = work {
            for _ in 0..<16 { world.publish("ann/pc", "\(deep)/y", "x", grade: .transient) }
        }
        // Sixty levels, sixty patterns and one packet each, and the first match of the topic.
        #expect(cost > 16 * 6 && cost < 16 * 20, "\(cost)")
    }

    @Test func `is charged for the names of a list that are judged`() {
        world.addToken("few", user: "ann", rights: (0..<60).map { "send:u\($0)" })
        world.connect("ann/phone") { bytes in
            .token(identifier: bytes.appendRange("few"), digest: World.tokenDigest)
        }
        world.settle()
        let cost = work {
            world.send("ann/phone", 1, to: .users((100..<200).map { "v\($0)" }), "x")
        }
        #expect(cost > 100 * 60 / CoreLimits.comparisonsPerWork, "\(cost)")
    }

    @Test func `is charged for the conversations that a page examines`() {
        world.begin("ann/pc")
        for number in 0..<100 {
            world.addToken("t\(number)", user: "u\(number)", rights: nil)
            world.send("ann/pc", UInt64(number) + 1, to: .user("u\(number)"), "x", isKept: true)
            world.settle()
            world.seeResults("ann/pc", through: UInt64(number) + 1)
        }
        let cost = work {
            world.requestConversations("ann/pc", isUnreadOnly: true, count: 10)
        }
        #expect(cost >= 100, "\(cost)")
    }

    @Test func `is charged for filters of many levels that are looked for in vain`() {
        world.beginMQTT("ann/pc")
        world.subscribeMQTT("ann/pc", "\(deep)/x")
        let cost = work {
            for _ in 0..<10 { world.unsubscribe("ann/pc", "\(deep)/y") }
        }
        #expect(cost > 10 * 60 / CoreLimits.nodesPerWork, "\(cost)")
    }

    // MARK: - Deadlines

    @Test func `sends as many wills that are due as it may cost, and the next ones the rest`() {
        world.begin("bob/pc")
        for number in 0..<20 {
            world.begin("ann\(number)/phone")
            world.setWill("ann\(number)/phone", to: .everybody, "lost", delay: 10)
        }
        for number in 0..<30 { world.begin("cy\(number)/pc") }
        world.settle()
        for number in 0..<20 { world.lose("ann\(number)/phone") }
        world.settle()
        _ = world.lines()
        world.limits.turnWorkMaximum = 200
        world.pass(seconds: 10)
        world.settle()
        let sentCount = world.counters.willsSent
        #expect(sentCount > 0 && sentCount < 10, "\(sentCount)")
        #expect(world.nextDeadline! <= world.now.instant)
        var calls = 1
        while world.counters.willsSent < 20, calls < 20 {
            world.pass(milliseconds: 0)
            world.settle()
            calls += 1
        }
        #expect(world.counters.willsSent == 20)
        #expect(calls > 2 && calls < 10, "\(calls)")
        while world.broker.hasWaitingDeliveries { world.pass(milliseconds: 0) }
        #expect(world.lines().count { $0.hasPrefix("bob/pc: #") } == 20)
    }

    // MARK: - Commits

    @Test func `delivers a part of what a commit has let go, and the next ones the rest`() {
        let names = (0..<50).map { "bob\($0)/pc" }
        for name in names { world.begin(name) }
        world.begin("ann/phone")
        world.limits.turnWorkMaximum = 100
        for number in 1...5 as ClosedRange<UInt64> {
            world.send("ann/phone", number, to: .everybody, "m\(number)", grade: .once)
        }
        _ = world.lines()
        world.commit()
        func deliveries() -> [String] { world.lines().filter { $0.contains(": #") } }
        var all = deliveries()
        #expect(!all.isEmpty && all.count < 120, "\(all.count)")
        let isPart = world.broker.hasWaitingDeliveries
        #expect(isPart)
        #expect(world.nextDeadline! <= world.now.instant)
        // One that ends meanwhile gets nothing, and one that comes back is not asked to wait.
        world.lose("bob48/pc", "bob49/pc")
        world.connect("bob49/pc")
        world.settle()
        all += deliveries()
        var calls = 0
        while world.broker.hasWaitingDeliveries, calls < 20 {
            let cost = work { world.pass(milliseconds: 0) }
            let part = deliveries()
            #expect(part.count + cost < 100 + 20, "\(part.count)")
            all += part
            calls += 1
        }
        #expect(calls > 1 && calls < 10, "\(calls)")
        world.settle()
        for name in names where name != "bob48/pc" {
            let own = all.filter { $0.hasPrefix("\(name): #") }
            #expect(own.count == 5, "\(own)")
            #expect(own == own.sorted())
        }
        #expect(!all.contains { $0.hasPrefix("bob48/") })
    }
}
