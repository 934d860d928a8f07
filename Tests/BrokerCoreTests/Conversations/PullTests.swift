// Sessions that pull: what history keeps is not queued for them, and nothing is lost.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A session that pulls` {
    let world = World()

    private func pull(_ name: String, _ isPulling: Bool = true) {
        world.connect(
            name, outbox: (epoch: 7, seen: 0, used: 0), adjust: { $0.pulls = isPulling })
        world.settle()
        _ = world.lines()
    }

    private func lines(of name: String) -> [String] {
        world.settle()
        return world.lines().filter { $0.hasPrefix("\(name): ") }
    }

    /// Messages in the queue of a user's only session.
    private func queueCount(_ user: String) -> UInt32 {
        world.broker.sessions.places.filter { world.broker.sessions.contains($0) }
            .filter {
                world.broker.registry.users[world.broker.sessions[$0].user].name == Array(user.utf8)
            }
            .reduce(0) { $0 + world.broker.sessions[$1].inbox.count }
    }

    private func texts(_ selection: ConversationSelection) -> [String] {
        world.history(selection).map(\.text)
    }

    @Test func `gets no copy of what is kept, and all else`() {
        world.begin("ann/1")
        pull("bob/pump")
        let group = world.makeGroup(owner: "ann/1")
        #expect(world.operate(group, .join(user: Array("bob".utf8))) == .success)
        world.settle()
        _ = world.lines()
        world.send("ann/1", 1, to: .user("bob"), "kept", isKept: true)
        world.send("ann/1", 2, to: .group(group), "kept too", isKept: true)
        world.send("ann/1", 3, to: .user("bob"), "queued")
        world.send("ann/1", 4, to: .group(group), "queued too", isKept: false)
        world.send("ann/1", 5, to: .user("bob"), "now", grade: .transient)
        world.settle()
        let all = world.lines()
        let told = all.filter { $0.hasPrefix("bob/pump: ") }
        #expect(told.count == 3 && !told.contains { $0.contains("kept") }, "\(told)")
        for number in 1...4 { #expect(all.contains("ann/1: result \(number), sent"), "\(all)") }
        #expect(texts(.pair("ann", "bob")) == ["kept"])
        #expect(texts(.group(group)) == ["kept too"])
        #expect(world.counters.messagesPulled == 2)
    }

    @Test func `shares one truth with the user's devices that do not pull`() {
        world.begin("ann/1", "bob/pc")
        pull("bob/pump")
        world.send("ann/1", 1, to: .users(["bob", "ann"]), "kept", isKept: true)
        world.settle()
        let told = world.lines()
        #expect(told.contains { $0.hasPrefix("bob/pc: #") }, "\(told)")
        #expect(!told.contains { $0.hasPrefix("bob/pump: #") }, "\(told)")
        #expect(world.conversations(of: "bob").map(\.unreadCount) == [1])
        world.acknowledge("bob/pc", through: 1)
        world.markRead("bob/pump", of: .user("ann"), through: 1)
        world.settle()
        #expect(world.conversations(of: "bob").map(\.unreadCount) == [0])
    }

    @Test func `learns at login how many conversations have unread messages`() {
        world.begin("ann/1", "carl/1")
        pull("bob/pump")
        for name in ["ann/1", "carl/1"] {
            world.send(name, 1, to: .user("bob"), "x", isKept: true)
        }
        world.settle()
        world.lose("bob/pump")
        world.settle()
        _ = world.lines()
        pull("bob/pump")
        #expect(world.unreadCounts["bob/pump"] == 2)
        world.markRead("bob/pump", of: .user("ann"), through: 1)
        world.settle()
        pull("bob/pump")
        #expect(world.unreadCounts["bob/pump"] == 1)
        pull("bob/pump", false)
        #expect(world.unreadCounts["bob/pump"] == nil)
    }

    @Test func `stays one until its next login, over a crash`() {
        world.begin("ann/1")
        pull("bob/pump")
        world.lose("bob/pump")
        world.settle()
        world.crash()
        world.begin("ann/1")
        world.send("ann/1", 1, to: .user("bob"), "kept", isKept: true)
        world.settle()
        pull("bob/pump")
        #expect(world.unreadCounts["bob/pump"] == 1)
        #expect(queueCount("bob") == 0)
        pull("bob/pump", false)
        world.lose("bob/pump")
        world.crash()
        world.begin("ann/1")
        world.send("ann/1", 1, to: .user("bob"), "both", isKept: true)
        world.settle()
        #expect(queueCount("bob") == 1)
    }

    @Test func `is told that it pulls no more when that is on disk`() {
        pull("bob/pump")
        world.lose("bob/pump")
        world.settle()
        _ = world.lines()
        world.connect("bob/pump")
        #expect(!world.lines().contains { $0.contains("accepted") })
        world.settle()
        #expect(world.lines().contains { $0.contains("accepted") })
    }

    @Test func `gets a copy where history by default has no room`() {
        world.begin("ann/1")
        pull("bob/pump")
        pull("carl/pump")
        world.limits.appPolicies[World.app] = AppPolicy()
        world.limits.appPolicies[World.app]!.keepsHistory = true
        world.limits.conversationsPerAppMaximum = 1
        world.send("ann/1", 1, to: .users(["bob", "carl"]), "one of two")
        world.settle()
        let told = world.lines()
        let queued = told.filter { $0.contains("one of two") }
        let kept = texts(.pair("ann", "bob")) + texts(.pair("ann", "carl"))
        #expect(queued.count == 1 && kept == ["one of two"], "\(told)")
        let queuedFor = queued[0].hasPrefix("bob") ? "bob" : "carl"
        #expect(texts(.pair("ann", queuedFor)) == [])
    }

    @Test func `gets a copy of what asks for receipts: a page tells nobody that it arrived`() {
        world.begin("ann/1")
        pull("bob/pump")
        world.send("ann/1", 1, to: .user("bob"), "done?", isKept: true, asks: .delivered)
        #expect(lines(of: "bob/pump").contains { $0.contains("done?") })
        #expect(texts(.pair("ann", "bob")) == ["done?"])
    }

    @Test func `that nobody else receives for leaves nothing in the offline queue`() {
        world.begin("ann/1")
        pull("bob/pump")
        world.lose("bob/pump")
        world.settle()
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("ann/1", number, to: .user("bob"), "x", grade: .once, isKept: true)
        }
        world.settle()
        #expect(world.lines().filter { $0.contains("sent") }.count == 3)
        #expect(queueCount("bob") == 0)
        world.connect("bob/pc")
        world.settle()
        #expect(lines(of: "bob/pc").filter { $0.contains("#") } == [])
    }

    @Test func `is a receiver whose sender is told of a full store`() {
        world.begin("ann/1")
        pull("bob/pump")
        world.store.isFull = true
        world.send("ann/1", 1, to: .user("bob"), "kept", isKept: true)
        world.settle()
        #expect(world.lines().contains("ann/1: result 1, quotaExceeded"))
        world.store.isFull = false
        world.crash()
        #expect(texts(.pair("ann", "bob")) == [])
    }

    @Test func `of MQTT pulls as one of MRT does`() {
        world.begin("ann/1")
        world.connect("bob/mqtt", dialect: .mqtt5, adjust: { $0.pulls = true })
        world.settle()
        world.subscribe("bob/mqtt", "$u/bob")
        world.settle()
        _ = world.lines()
        world.send("ann/1", 1, to: .user("bob"), "kept", isKept: true)
        world.send("ann/1", 2, to: .user("bob"), "queued")
        let told = lines(of: "bob/mqtt")
        #expect(told.count == 1 && told[0].contains("queued"), "\(told)")
    }

    @Test func `hears of new messages while it is connected, once for each commit`() {
        world.begin("ann/1")
        pull("bob/pump")
        world.subscribe("bob/pump", "$unread/bob")
        world.settle()
        _ = world.lines()
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("ann/1", number, to: .user("bob"), "x", isKept: true)
        }
        #expect(!world.lines().contains { $0.contains("UNREAD") }, "not before the commit")
        let told = lines(of: "bob/pump")
        #expect(told.count == 1 && told[0].contains(#""last":3,"read":0,"unread":3"#), "\(told)")
    }

    @Test func `without persistence pulls while it is connected`() {
        world.begin("ann/1")
        world.connect("bob/tool", expiry: 0, adjust: { $0.pulls = true })
        world.settle()
        _ = world.lines()
        world.send("ann/1", 1, to: .user("bob"), "kept", isKept: true)
        #expect(lines(of: "bob/tool") == [])
        #expect(texts(.pair("ann", "bob")) == ["kept"])
        world.lose("bob/tool")
        world.settle()
        world.send("ann/1", 2, to: .user("bob"), "later", isKept: true)
        world.settle()
        world.broker.checkInvariants()
        // The session is gone, and nothing of it counts: the user has no device that pulls.
        #expect(texts(.pair("ann", "bob")) == ["later", "kept"])
        world.connect("bob/pc")
        #expect(lines(of: "bob/pc").contains { $0.contains("later") })
    }
}
