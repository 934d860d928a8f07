// Outboxes: sends are recognised when they come again, and their results are kept until they are
// seen.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `An outbox` {
    let world = World()

    @Test func `recognises a send that comes again before its result`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x", id: "m")
        world.send("bob/pc", 1, to: .user("ann"), "x", id: "m")
        world.beginCommit()
        world.send("bob/pc", 1, to: .user("ann"), "x", id: "m")
        world.finishCommit()
        #expect(
            world.lines() == ["ann/phone: #1 \"x\" from bob", "bob/pc: result 1 (m), sent"])
        #expect(world.counters.sendsRepeated == 2)
    }

    @Test func `gives the result again to a send that comes again after it`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .users(["ann", "nobody"]), "x", id: "m")
        world.settle()
        let first = world.lines()
        world.send("bob/pc", 1, to: .users(["ann", "nobody"]), "x", id: "m")
        #expect(
            world.lines() == ["bob/pc: result 1 (m), sent, 1 refused [1: topicNameInvalid]"])
        #expect(first.last == "bob/pc: result 1 (m), sent, 1 refused [1: topicNameInvalid]")
    }

    @Test func `measures how long a result took, of sends that were accepted now`() {
        world.begin("bob/pc", "ann/phone")
        world.broker.noteTime(nanoseconds: 1_000_000)
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.send("bob/pc", 2, to: .user("nobody"), "x")
        world.send("bob/pc", 3, to: .user("ann"), "x", grade: .transient)
        #expect(world.broker.acknowledgementTimes.count == 0)
        world.broker.noteTime(nanoseconds: 4_000_000)
        world.settle()
        #expect(world.broker.acknowledgementTimes.count == 1)
        #expect(world.broker.acknowledgementTimes.sum == 3_000)
        // It is told again, and is not measured again.
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.settle()
        #expect(world.broker.acknowledgementTimes.count == 1)
        // A sender who is away is not told.
        world.send("bob/pc", 4, to: .user("ann"), "x")
        world.lose("bob/pc")
        world.settle()
        #expect(world.broker.acknowledgementTimes.count == 1)
    }

    @Test func `tells of a message when it was accepted, unless it comes from the store`() {
        world.begin("bob/pc", "ann/phone")
        world.broker.noteTime(nanoseconds: 5_000)
        world.send("bob/pc", 1, to: .user("ann"), "x")
        #expect(world.acceptances == [5_000])
        world.settle()
        world.acceptances = []
        world.lose("ann/phone")
        world.send("bob/pc", 2, to: .user("ann"), "y")
        world.settle()
        #expect(world.acceptances.isEmpty)
        world.connect("ann/phone")
        world.settle()
        #expect(!world.acceptances.isEmpty && world.acceptances.allSatisfy { $0 == nil })
    }

    @Test func `recognises a send across connections, and tells its result there`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.lose("bob/pc")
        world.connect("bob/pc", outbox: (7, 0, 1))
        world.send("bob/pc", 1, to: .user("ann"), "x")
        _ = world.lines()
        world.settle()
        #expect(world.lines() == ["bob/pc: result 1, sent"])
        world.lose("bob/pc")
        world.connect("bob/pc", outbox: (7, 0, 1))
        world.settle()
        world.send("bob/pc", 1, to: .user("ann"), "x")
        #expect(world.lines() == ["bob/pc: accepted, present", "bob/pc: result 1, sent"])
        #expect(world.counters.sendsAccepted == 1)
    }

    @Test func `forgets what its sender has seen, and a number that was seen is an error`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.settle()
        world.seeResults("bob/pc", through: 1)
        _ = world.lines()
        world.send("bob/pc", 1, to: .user("ann"), "x")
        #expect(world.lines() == ["bob/pc: closed, protocolError"])
    }

    @Test func `whose results are claimed seen before they were given ends the connection`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x")
        _ = world.lines()
        world.seeResults("bob/pc", through: 1)
        #expect(world.lines() == ["bob/pc: closed, protocolError"])
    }

    @Test func `bounds the sends whose results have not been seen`() {
        world.limits.sendWindowMaximum = 2
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "1")
        world.send("bob/pc", 2, to: .user("ann"), "2")
        world.settle()
        world.seeResults("bob/pc", through: 1)
        world.send("bob/pc", 3, to: .user("ann"), "3")
        _ = world.lines()
        world.send("bob/pc", 4, to: .user("ann"), "4")
        #expect(world.lines() == ["bob/pc: closed, receiveMaximumExceeded"])
    }

    @Test func `takes numbers with gaps and out of order`() {
        world.begin("bob/pc", "ann/phone")
        for number in [5, 3, 9] as [UInt64] {
            world.send("bob/pc", number, to: .user("ann"), "\(number)")
        }
        world.settle()
        world.send("bob/pc", 3, to: .user("ann"), "3")
        #expect(
            world.lines() == [
                "ann/phone: #1 \"5\" from bob", "ann/phone: #2 \"3\" from bob",
                "ann/phone: #3 \"9\" from bob", "bob/pc: result 5, sent", "bob/pc: result 3, sent",
                "bob/pc: result 9, sent", "bob/pc: result 3, sent",
            ])
    }

    @Test func `of a new epoch begins anew, and results of the old one go nowhere`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "old")
        world.lose("bob/pc")
        world.connect("bob/pc", outbox: (8, 0, 0))
        world.settle()
        world.send("bob/pc", 1, to: .user("ann"), "new")
        world.settle()
        #expect(
            world.lines() == [
                "ann/phone: #1 \"old\" from bob", "bob/pc: accepted, present",
                "ann/phone: #2 \"new\" from bob", "bob/pc: result 1, sent",
            ])
    }

    @Test func `without an epoch does not take a result of an earlier connection for its own`() {
        world.connect("bob/pc")
        world.begin("ann/phone")
        // Neither stored nor acknowledged: its result is open.
        world.store.isFull = true
        world.send("bob/pc", 1, to: .user("ann"), "old")
        world.settle()
        world.store.isFull = false
        world.forgetFullStore()
        world.lose("bob/pc")
        world.connect("bob/pc")
        world.settle()
        world.send("bob/pc", 1, to: .user("ann"), "new")
        _ = world.lines()
        world.acknowledge("ann/phone", through: 1)
        #expect(world.lines() == [])
        world.settle()
        #expect(world.lines() == ["bob/pc: result 1, sent"])
    }

    @Test func `keeps no trace of a refused send`() {
        world.begin("bob/pc")
        for _ in 0..<200 { world.send("bob/pc", 1, to: .user("ann"), "x") }
        #expect(world.lines().allSatisfy { $0 == "bob/pc: result 1, topicNameInvalid" })
        world.seeResults("bob/pc", through: 1)
        #expect(world.lines() == [])
    }

    // MARK: - Possible duplicates

    @Test func `marks a durable send that an earlier broker may have delivered`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "1")
        world.crash()
        world.connect("ann/phone")
        world.connect("bob/pc", outbox: (7, 0, 2))
        world.settle()
        _ = world.lines()
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("ann"), "\(number)")
        }
        let lines = world.unnumberedLines()
        #expect(
            lines == [
                "ann/phone: \"1\" from bob, possible duplicate",
                "ann/phone: \"2\" from bob, possible duplicate", "ann/phone: \"3\" from bob",
            ])
        #expect(world.counters.possibleDuplicates == 2)
    }

    @Test func `marks nothing on a later connection to the same broker`() {
        world.begin("bob/pc", "ann/phone")
        world.crash()
        world.connect("ann/phone")
        world.connect("bob/pc", outbox: (7, 0, 4))
        world.lose("bob/pc")
        world.connect("bob/pc", outbox: (7, 0, 6))
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 4, to: .user("ann"), "4")
        world.send("bob/pc", 5, to: .user("ann"), "5")
        let lines = world.unnumberedLines()
        #expect(
            lines == [
                "ann/phone: \"4\" from bob, possible duplicate", "ann/phone: \"5\" from bob",
            ])
    }

    @Test func `does not mark a send of grade once, whose acceptance a crash does not forget`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "1", grade: .once, id: "m")
        world.settle()
        world.send("bob/pc", 2, to: .user("ann"), "2", grade: .once)
        world.crash()
        world.connect("ann/phone", resume: (world.epochs["ann/phone"]!, 1))
        world.connect("bob/pc", outbox: (7, 0, 2))
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 1, to: .user("ann"), "1", grade: .once, id: "m")
        world.send("bob/pc", 2, to: .user("ann"), "2", grade: .once)
        world.settle()
        let lines = world.unnumberedLines()
        #expect(
            lines == [
                "bob/pc: result 1 (m), sent", "bob/pc: result 2, sent",
                "ann/phone: \"2\" from bob, once",
            ])
    }

    @Test func `marks what it has forgotten for a sender with another numbering`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "1", grade: .once)
        world.settle()
        world.connect("bob/pc", outbox: (8, 0, 0))
        world.settle()
        world.crash()
        world.connect("ann/phone", resume: (world.epochs["ann/phone"]!, 1))
        world.connect("bob/pc", outbox: (7, 0, 1))
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 1, to: .user("ann"), "1", grade: .once)
        world.settle()
        #expect(
            world.unnumberedLines() == [
                "bob/pc: result 1, sent", "ann/phone: \"1\" from bob, once, possible duplicate",
            ])
    }

    @Test func `marks every send it may have forgotten with an ended session`() {
        world.begin("bob/pc", "ann/phone")
        world.lose("bob/pc")
        world.connect("bob/pc", clean: true, outbox: (7, 0, 2))
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 1, to: .user("ann"), "1")
        world.send("bob/pc", 2, to: .user("ann"), "2", grade: .once)
        world.send("bob/pc", 3, to: .user("ann"), "3", grade: .once)
        world.settle()
        #expect(
            world.lines().filter { $0.hasPrefix("ann") } == [
                "ann/phone: #1 \"1\" from bob, possible duplicate",
                "ann/phone: #2 \"2\" from bob, once, possible duplicate",
                "ann/phone: #3 \"3\" from bob, once",
            ])
    }

    @Test func `marks them too when it died after the new session was there`() {
        world.begin("bob/pc", "ann/phone")
        world.lose("bob/pc")
        world.connect("bob/pc", clean: true, outbox: (7, 0, 2))
        world.settle()
        world.crash()
        world.connect("bob/pc", outbox: (7, 0, 3))
        world.begin("ann/phone")
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 2, to: .user("ann"), "2", grade: .once)
        world.send("bob/pc", 3, to: .user("ann"), "3", grade: .once)
        world.settle()
        #expect(
            world.unnumberedLines().filter { $0.hasPrefix("ann") } == [
                "ann/phone: \"2\" from bob, once, possible duplicate",
                "ann/phone: \"3\" from bob, once",
            ])
    }
}
