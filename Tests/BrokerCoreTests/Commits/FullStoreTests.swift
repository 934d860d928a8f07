// A store without room: what the senders of a refused batch are told, and what stays of it.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A full store` {
    let world = World()

    @Test func `refuses a durable send that nobody has, and it may come again`() {
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        world.store.isFull = true
        world.send("bob/pc", 1, to: .user("ann"), "x", id: "m")
        world.settle()
        #expect(world.lines() == ["bob/pc: result 1 (m), quotaExceeded"])
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.gauges.messagesInMemory == 0)
        world.store.isFull = false
        world.forgetFullStore()
        world.send("bob/pc", 1, to: .user("ann"), "x", id: "m")
        world.settle()
        #expect(world.lines() == ["bob/pc: result 1 (m), sent"])
    }

    /// A sender waits for commits only: two clients that wait for each other's acknowledgements
    /// could wait for ever.
    @Test func `refuses what its receiver has not acknowledged`() {
        world.begin("bob/pc", "ann/phone")
        world.store.isFull = true
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.settle()
        #expect(
            world.lines() == ["ann/phone: #1 \"x\" from bob", "bob/pc: result 1, quotaExceeded"])
        world.acknowledge("ann/phone", through: 1)
        #expect(world.lines() == [])
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.gauges.messagesInMemory == 0)
    }

    @Test func `marks what it refused after it was delivered`() {
        world.begin("bob/pc", "ann/phone")
        world.store.isFull = true
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.settle()
        _ = world.lines()
        world.lose("ann/phone")
        #expect(world.lines() == [])
        world.store.isFull = false
        world.settle()
        world.connect("ann/phone")
        world.settle()
        #expect(world.lines() == ["ann/phone: accepted, present"])
        // The receiver may have had it: sent again it says so.
        world.forgetFullStore()
        world.send("bob/pc", 1, to: .user("ann"), "x")
        #expect(world.lines() == ["ann/phone: #2 \"x\" from bob, possible duplicate"])
    }

    /// A refusal that went ahead of the repetition would be its answer, and that a new send.
    @Test func `does not refuse on a new connection what has not come again there`() {
        world.begin("bob/pc", "ann/phone")
        world.store.isFull = true
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.settle()
        world.lose("bob/pc")
        world.connect("bob/pc", outbox: (epoch: 7, seen: 0, used: 1))
        world.settle()
        _ = world.lines()
        world.lose("ann/phone")
        #expect(world.lines() == [])
        world.store.isFull = false
        world.forgetFullStore()
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.settle()
        #expect(world.lines() == ["bob/pc: result 1, sent"])
        #expect(world.gauges.queuedMessages == 1)
    }

    @Test func `counts the receivers it refused where others took the message`() {
        world.begin("bob/pc", "ann/phone", "ann/watch", "carl/pc")
        world.lose("ann/watch")
        world.store.isFull = true
        world.send("bob/pc", 1, to: .users(["ann", "carl", "nobody"]), "x")
        world.acknowledge("carl/pc", through: 1)
        world.settle()
        world.acknowledge("ann/phone", through: 1)
        #expect(
            world.lines() == [
                "ann/phone: #1 \"x\" from bob", "carl/pc: #1 \"x\" from bob",
                "bob/pc: result 1, sent, 3 refused [2: topicNameInvalid]",
            ])
        #expect(world.gauges.queuedMessages == 0)
    }

    @Test func `takes back what waits in a window behind another message`() {
        world.begin("bob/pc")
        world.begin("ann/phone", window: 1)
        world.send("bob/pc", 1, to: .user("ann"), "1")
        world.settle()
        world.store.isFull = true
        world.send("bob/pc", 2, to: .user("ann"), "2")
        world.settle()
        #expect(
            world.lines() == [
                "ann/phone: #1 \"1\" from bob", "bob/pc: result 1, sent",
                "bob/pc: result 2, quotaExceeded",
            ])
        world.acknowledge("ann/phone", through: 1)
        world.settle()
        #expect(world.lines() == [])
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.gauges.messagesInMemory == 0)
    }

    @Test func `refuses a send of grade once as a whole, sessions in memory included`() {
        world.begin("bob/pc", "ann/phone")
        world.begin("ann/pad", expiry: 0)
        world.store.isFull = true
        world.send("bob/pc", 1, to: .user("ann"), "x", grade: .once)
        world.settle()
        #expect(world.lines() == ["bob/pc: result 1, quotaExceeded"])
        #expect(world.gauges.messagesInMemory == 0)
        world.store.isFull = false
        world.forgetFullStore()
        world.send("bob/pc", 1, to: .user("ann"), "x", grade: .once)
        world.settle()
        #expect(
            world.unnumberedLines() == [
                "bob/pc: result 1, sent", "ann/phone: \"x\" from bob, once",
                "ann/pad: \"x\" from bob, once",
            ])
        world.crash()
        world.connect("bob/pc", outbox: (7, 0, 1))
        world.settle()
        world.send("bob/pc", 1, to: .user("ann"), "x", grade: .once)
        #expect(world.lines() == ["bob/pc: accepted, present", "bob/pc: result 1, sent"])
    }

    @Test func `refuses a send of grade once before subscriptions of lower grades have it`() {
        world.begin("bob/pc", "ann/0", "ann/1")
        world.subscribe("ann/0", "t", grade: .transient)
        world.subscribe("ann/1", "t", grade: .durable)
        world.settle()
        _ = world.lines()
        world.store.isFull = true
        world.send("bob/pc", 1, to: .topic("t"), "x", grade: .once, isRaw: true)
        world.settle()
        #expect(world.lines() == ["bob/pc: result 1, quotaExceeded"])
        world.store.isFull = false
        world.forgetFullStore()
        world.send("bob/pc", 1, to: .topic("t"), "x", grade: .once, isRaw: true)
        #expect(world.lines() == [])
        world.settle()
        #expect(
            world.unnumberedLines() == [
                "ann/0: \"x\" from bob on t", "bob/pc: result 1, sent",
                "ann/1: \"x\" from bob on t",
            ])
    }

    @Test func `that took a once back does not find it in the store after a crash`() {
        world.begin("bob/pc", "ann/phone")
        world.store.isFull = true
        world.send("bob/pc", 1, to: .user("ann"), "x", grade: .once)
        world.settle()
        world.store.isFull = false
        world.forgetFullStore()
        world.send("bob/pc", 2, to: .user("ann"), "y", grade: .once)
        world.settle()
        world.crash()
        _ = world.lines()
        world.connect("bob/pc", outbox: (7, 0, 2))
        world.connect("ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x", grade: .once)
        world.send("bob/pc", 2, to: .user("ann"), "y", grade: .once)
        world.settle()
        let lines = world.unnumberedLines()
        #expect(lines.filter { $0 == "ann/phone: \"x\" from bob, once" }.count == 1)
        #expect(lines.filter { $0 == "ann/phone: \"y\" from bob, once" }.count == 1)
    }

    @Test func `believes a device that holds what it refused`() {
        world.begin("bob/pc", "ann/phone")
        let epoch = world.epochs["ann/phone"]!
        world.store.isFull = true
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.beginCommit()
        world.lose("ann/phone")
        world.connect("ann/phone", resume: (epoch, 1))
        _ = world.lines()
        world.finishCommit()
        #expect(world.lines() == ["bob/pc: result 1, sent"])
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.gauges.messagesInMemory == 0)
    }

    @Test func `lets in who is known, drains, and lets nothing grow`() {
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.settle()
        world.store.isFull = true
        world.send("bob/pc", 2, to: .user("ann"), "y")
        world.settle()
        _ = world.lines()
        world.connect("carl/pc")
        world.connect("ann/phone")
        world.settle()
        world.acknowledge("ann/phone", through: 1)
        world.subscribe("ann/phone", "t")
        world.connect("ann/pad", expiry: 0)
        world.settle()
        #expect(
            world.lines() == [
                "carl/pc: refused, quotaExceeded", "ann/phone: accepted, present",
                "ann/phone: #1 \"x\" from bob", "ann/phone: response 1, quotaExceeded",
                "ann/pad: accepted, new",
            ])
        #expect(world.store.heldMessages == [])
    }

    @Test func `is asked now and then whether it has room again`() {
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        world.store.isFull = true
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.settle()
        world.pass(seconds: 10)
        world.settle()
        #expect(world.gauges.isStoreFull)
        world.store.isFull = false
        world.pass(seconds: 10)
        world.settle()
        #expect(!world.gauges.isStoreFull)
    }

    @Test func `above its soft limit refuses sends until it is well below`() {
        world.begin("bob/pc", "ann/phone")
        func report(_ used: UInt64) {
            world.broker.writeIdentifierReservation()
            world.beginCommit()
            world.finishCommit(softLimitBytes: 3200, usedBytes: used)
            _ = world.lines()
        }
        func send(_ number: UInt64) -> [String] {
            world.send("bob/pc", number, to: .user("ann"), "x")
            world.acknowledge("ann/phone", through: world.sentThrough("ann/phone"))
            return world.lines().filter { $0.hasPrefix("bob") }
        }
        report(3199)
        #expect(send(1) == ["bob/pc: result 1, sent"])
        report(3200)
        #expect(send(2) == ["bob/pc: result 2, quotaExceeded"])
        report(3100)
        #expect(send(2) == ["bob/pc: result 2, quotaExceeded"])
        report(3099)
        #expect(send(2) == ["bob/pc: result 2, sent"])
        report(3101)
        #expect(send(3) == ["bob/pc: result 3, sent"])
    }

    @Test(arguments: [false, true])
    func `names the disk where the disk is the cause`(lacksDiskSpace: Bool) {
        world.begin("bob/pc", "ann/phone")
        world.broker.writeIdentifierReservation()
        world.beginCommit()
        world.finishCommit(
            softLimitBytes: 3200, usedBytes: lacksDiskSpace ? 0 : 3200,
            lacksDiskSpace: lacksDiskSpace)
        #expect(world.gauges.isStoreFull)
        #expect(world.broker.storeLimit == (lacksDiskSpace ? .diskSpace : .store))
        world.send("bob/pc", 1, to: .user("ann"), "x")
        #expect(world.lines().contains("bob/pc: result 1, quotaExceeded"))
    }

    @Test func `does not refuse what needs no room in it`() {
        world.begin("bob/pc", "ann/phone")
        world.fillStore()
        world.send("bob/pc", 0, to: .user("ann"), "x", grade: .transient)
        #expect(world.lines() == ["ann/phone: #- \"x\" from bob"])
    }
}
