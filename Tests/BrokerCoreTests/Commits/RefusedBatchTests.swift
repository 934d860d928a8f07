// What a batch leaves behind that the store had no room for: nothing of its sends, whatever they
// wrote, and one answer for each.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A refused batch` {
    let world = World()

    init() {
        world.beginMQTT("bob/pc", "ann/phone")
        world.subscribeMQTT("ann/phone", "$u/ann")
        _ = world.lines()
    }

    private func send(_ identifier: UInt16, _ id: String, grade: Grade = .once) {
        world.publish("bob/pc", identifier, to: .user("ann"), "x", grade: grade, id: id)
    }

    private func makeRoom() {
        world.store.isFull = false
        world.forgetFullStore()
    }

    @Test func `leaves no row of a repeat`() {
        send(1, "m", grade: .durable)
        world.settle()
        _ = world.lines()
        world.store.isFull = true
        send(2, "m")
        world.settle()
        #expect(world.lines() == ["bob/pc: received 2, quotaExceeded, m quotaExceeded"])
        makeRoom()
        world.crash()
        #expect(world.counters.rowsRepaired == 0)
    }

    @Test func `lets a new publication under the identifier of a refused repeat through`() {
        send(1, "m", grade: .durable)
        world.settle()
        world.store.isFull = true
        send(2, "m")
        world.settle()
        makeRoom()
        world.lose("bob/pc")
        world.settle()
        world.crash()
        world.beginMQTT("bob/pc", "ann/phone")
        world.publish("bob/pc", 2, to: .user("ann"), "new", grade: .once)
        world.settle()
        #expect(world.unnumberedLines().contains("ann/phone: \"new\" from bob, once"))
    }

    /// The window of ids is as long as that of unanswered sends: a repeat must not depend on
    /// whether its original is still in it.
    @Test func `is not needed for a repeat whose original has left the window`() {
        send(1, "m", grade: .durable)
        world.settle()
        _ = world.lines()
        send(2, "m")
        world.beginCommit()
        for number in 0..<world.limits.sendWindowMaximum - 1 {
            send(3 + number, "other \(number)", grade: .durable)
        }
        world.finishCommit()
        #expect(world.lines().contains("bob/pc: received 2, m sent"))
        world.settle()
        world.answer("bob/pc", .release, 2)
        world.settle()
        world.disconnect("bob/pc", expiry: 0)
        world.settle()
        world.crash()
        #expect(world.counters.rowsRepaired == 0)
    }

    @Test func `refuses a repeat together with its original`() {
        world.store.isFull = true
        send(1, "m", grade: .durable)
        send(2, "m", grade: .durable)
        world.settle()
        #expect(
            world.lines(of: "bob/pc") == [
                "accepted 1, quotaExceeded, m quotaExceeded",
                "accepted 2, quotaExceeded, m quotaExceeded",
            ])
    }

    @Test func `takes a repeat of what it has refused for a new send`() {
        world.store.isFull = true
        send(1, "m", grade: .durable)
        world.settle()
        makeRoom()
        send(2, "m")
        world.settle()
        #expect(
            world.lines(of: "bob/pc") == [
                "accepted 1, quotaExceeded, m quotaExceeded", "received 2, m sent",
            ])
    }

    @Test func `tells the result of what its receiver acknowledged meanwhile once`() {
        let world = World()
        world.begin("bob/pc", "ann/phone")
        world.store.isFull = true
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.beginCommit()
        world.acknowledge("ann/phone", through: 1)
        world.finishCommit()
        world.settle()
        #expect(world.lines() == ["ann/phone: #1 \"x\" from bob", "bob/pc: result 1, sent"])
    }
}

@Suite struct `A row whose session is gone` {
    @Test func `is removed by the start, and counted`() {
        let world = World()
        world.begin("bob/pc")
        var result = StoreResult()
        var batch = StoreBatch()
        batch.sequence = 1_000
        for key in [RecordKey.packet(77, 5), RecordKey.number(78)] {
            batch.records.append(RecordChange(table: .outboxes, key: key, value: [1]))
        }
        world.store.carryOut(batch, into: &result)
        world.crash()
        #expect(world.counters.rowsRepaired == 2)
        world.settle()
        world.crash()
        #expect(world.counters.rowsRepaired == 0)
    }
}
