// When senders are told and receivers are given: the meeting of acknowledgements, commits and
// grades.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A commit` {
    let world = World()

    @Test func `tells the sender of a durable send, which was delivered before it`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x")
        #expect(world.lines() == ["ann/phone: #1 \"x\" from bob"])
        world.beginCommit()
        #expect(world.lines() == [])
        world.finishCommit()
        #expect(world.lines() == ["bob/pc: result 1, sent"])
        #expect(world.store.heldMessages.count == 1)
    }

    /// So the primary of a cluster tells it without another append to the log.
    @Test func `is all that the result of a stored send tells of`() {
        world.begin("bob/pc", "ann/phone", "eve/pc")
        world.lose("ann/phone")
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.commit()
        #expect(world.lines() == ["bob/pc: result 1, sent"])
        #expect(!world.toldUnstored)
        // Nothing is stored of a message that its receiver has acknowledged.
        world.send("bob/pc", 2, to: .user("eve"), "y")
        #expect(world.lines() == ["eve/pc: #1 \"y\" from bob"])
        #expect(!world.toldUnstored)
        world.acknowledge("eve/pc", through: 1)
        #expect(world.lines() == ["bob/pc: result 2, sent"])
        #expect(world.toldUnstored)
    }

    @Test func `is not needed for what was acknowledged before it was handed over`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.acknowledge("ann/phone", through: 1)
        #expect(
            world.lines() == ["ann/phone: #1 \"x\" from bob", "bob/pc: result 1, sent"])
        world.settle()
        #expect(world.lastBatch.messages.isEmpty && world.lastBatch.entries.isEmpty)
        #expect(world.lastBatch.acknowledgements.isEmpty)
        #expect(world.counters.entriesElided == 1)
        #expect(world.counters.messagesStored == 0)
    }

    @Test func `that is under way need not end for a send that was acknowledged meanwhile`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.beginCommit()
        world.acknowledge("ann/phone", through: 1)
        #expect(
            world.lines() == ["ann/phone: #1 \"x\" from bob", "bob/pc: result 1, sent"])
        world.finishCommit()
        #expect(world.lines() == [])
        world.settle()
        #expect(world.store.heldMessages == [])
    }

    @Test func `or an acknowledgement of every persistent receiver settles a send`() {
        world.begin("bob/pc", "ann/phone", "ann/watch", "ann/pad")
        world.lose("ann/pad")
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.acknowledge("ann/phone", through: 1)
        world.acknowledge("ann/watch", through: 1)
        #expect(!world.lines().contains("bob/pc: result 1, sent"))
        world.beginCommit()
        #expect(world.lastBatch.entries.count == 1)
        #expect(world.lastBatch.messages.map(\.receiverCount) == [1])
        world.finishCommit()
        #expect(world.lines() == ["bob/pc: result 1, sent"])
    }

    @Test func `is not waited for where all receivers are in memory`() {
        world.begin("bob/pc")
        world.begin("ann/phone", expiry: 0)
        world.send("bob/pc", 1, to: .user("ann"), "x")
        #expect(
            world.lines() == ["ann/phone: #1 \"x\" from bob", "bob/pc: result 1, sent"])
        #expect(!world.hasBatch)
    }

    @Test func `comes before a delivery of grade once`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x", grade: .once)
        #expect(world.lines() == [])
        world.beginCommit()
        #expect(world.lastBatch.sendRecords.map(\.table) == [.outboxes])
        #expect(world.lines() == [])
        world.finishCommit()
        #expect(
            world.lines() == ["bob/pc: result 1, sent", "ann/phone: #1 \"x\" from bob, once"])
    }

    @Test func `comes before a delivery of grade once to a session in memory too`() {
        world.begin("bob/pc")
        world.begin("ann/phone", expiry: 0)
        world.send("bob/pc", 1, to: .user("ann"), "x", grade: .once)
        #expect(world.lines() == [])
        world.commit()
        #expect(
            world.lines() == ["bob/pc: result 1, sent", "ann/phone: #1 \"x\" from bob, once"])
        #expect(world.store.heldMessages == [])
    }

    @Test func `that a once message waits for holds back later ones of the same inbox only`() {
        world.begin("bob/pc", "ann/phone", "carl/pc")
        world.send("bob/pc", 1, to: .user("ann"), "first", grade: .once)
        world.beginCommit()
        world.send("bob/pc", 2, to: .users(["ann", "carl"]), "second")
        #expect(world.lines() == ["carl/pc: #1 \"second\" from bob"])
        world.finishCommit()
        #expect(
            world.lines() == [
                "bob/pc: result 1, sent", "ann/phone: #1 \"first\" from bob, once",
                "ann/phone: #2 \"second\" from bob",
            ])
    }

    @Test func `that fails takes an unfinished once with it, and it may be sent again`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x", grade: .once)
        world.beginCommit()
        world.crash(committing: false)
        world.connect("ann/phone")
        world.connect("bob/pc", outbox: (7, 0, 1))
        world.send("bob/pc", 1, to: .user("ann"), "x", grade: .once)
        world.settle()
        #expect(world.lines().filter { $0.contains("\"x\"") }.count == 1)
    }

    @Test func `that came to the disk before a crash is not sent twice`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x", grade: .once, id: "m")
        world.beginCommit()
        world.crash(committing: true)
        world.connect("ann/phone")
        world.connect("bob/pc", outbox: (7, 0, 1))
        world.settle()
        world.send("bob/pc", 1, to: .user("ann"), "x", grade: .once, id: "m")
        world.settle()
        #expect(
            world.lines().filter { $0.contains("\"x\"") || $0.contains("result") } == [
                "ann/phone: #1 \"x\" from bob, once", "bob/pc: result 1 (m), sent",
            ])
    }

    @Test func `stores one body for all receivers`() {
        world.begin("bob/pc")
        for index in 0..<20 {
            world.begin("u\(index)/d")
            world.lose("u\(index)/d")
        }
        world.settle()
        world.send("bob/pc", 1, to: .everybody, "x")
        world.beginCommit()
        #expect(world.lastBatch.messages.map(\.receiverCount) == [20])
        #expect(world.lastBatch.entries.count == 20)
        world.finishCommit()
        #expect(world.gauges.messagesInMemory == 0)
    }

    @Test func `loads one body once for all who wake together`() {
        world.begin("bob/pc", "ann/phone", "ann/watch")
        world.lose("ann/phone", "ann/watch")
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.settle()
        world.connect("ann/phone")
        world.connect("ann/watch")
        world.settle()
        #expect(world.gauges.messagesInMemory == 1)
        world.acknowledge("ann/phone", through: 1)
        world.acknowledge("ann/watch", through: 1)
        #expect(world.gauges.messagesInMemory == 0)
        world.settle()
        #expect(world.store.heldMessages == [])
    }

    @Test func `gives messages to loops apart, each with the bytes it needs`() {
        world.begin("bob/pc")
        world.connect("ann/phone", loop: 1)
        world.connect("ann/watch", loop: 0)
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.send("bob/pc", 2, to: .user("ann"), "y")
        #expect(
            world.lines().sorted() == [
                "ann/phone: #1 \"x\" from bob", "ann/phone: #2 \"y\" from bob",
                "ann/watch: #1 \"x\" from bob", "ann/watch: #2 \"y\" from bob",
            ])
    }
}

/// The effects of a loop tell whether they need an append of their own in a cluster.
@Suite struct `The effects of a result` {
    private let connection = ConnectionID(loop: 0, slot: 1, generation: 1)

    /// Adds what a result of the store causes: an effect for each of two loops.
    private func addResult(to effects: inout Effects) {
        let loops = effects.storedLoops
        for loop in 0..<2 as Range<UInt8> {
            effects[loop].effects.append(.close(connection, .serverShuttingDown))
        }
        effects.noteStored(loops)
    }

    private func deliver(_ effects: inout Effects) {
        effects[0].effects.append(
            .deliver(Delivery(connection: connection, number: 0, publication: 0, grade: .durable)))
    }

    /// Checks which loops' effects tell of something unstored, and so do copies of them.
    private func expect(_ effects: borrowing Effects, _ expected: [Bool]) {
        for loop in 0..<2 as Range<UInt8> {
            let tells = effects[loop].tellsUnstored
            let copyTells = LoopEffects(copying: effects[loop]).tellsUnstored
            #expect(tells == expected[Int(loop)] && copyTells == tells)
        }
    }

    @Test func `tell of nothing unstored, behind deliveries and before them`() {
        var effects = Effects(loopCount: 2)
        deliver(&effects)
        addResult(to: &effects)
        expect(effects, [false, false])
        deliver(&effects)
        addResult(to: &effects)
        expect(effects, [false, false])
        effects[0].effects.append(.close(connection, .serverShuttingDown))
        expect(effects, [true, false])
    }

    @Test func `do not cover what was decided before them and is in no batch`() {
        var effects = Effects(loopCount: 2)
        effects[0].effects.append(.close(connection, .serverShuttingDown))
        addResult(to: &effects)
        expect(effects, [true, false])
        effects[0].removeAll()
        addResult(to: &effects)
        expect(effects, [false, false])
    }
}
