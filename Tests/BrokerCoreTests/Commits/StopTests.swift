// What a restart goes on with: results after an orderly stop, senders after a restored backup,
// wills whose delay was running.

import BrokerSimulation
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `An orderly stop` {
    let world = World()

    @Test func `keeps the results of durable sends, and a repeated one is not delivered again`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x", id: "m")
        world.send("bob/pc", 2, to: .user("ann"), "y", grade: .once)
        world.settle()
        world.acknowledge("ann/phone", through: 2)
        world.stop()
        _ = world.lines()
        world.connect("ann/phone")
        world.connect("bob/pc", outbox: (7, 0, 2))
        world.send("bob/pc", 1, to: .user("ann"), "x", id: "m")
        world.send("bob/pc", 2, to: .user("ann"), "y", grade: .once)
        world.settle()
        let accepted = ["ann/phone: accepted, present", "bob/pc: accepted, present"]
        #expect(
            world.lines().filter { !accepted.contains($0) } == [
                "bob/pc: result 1 (m), sent", "bob/pc: result 2, sent",
            ])
    }

    @Test func `keeps them over a second stop, and until they are seen`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.acknowledge("ann/phone", through: 1)
        world.stop()
        world.stop()
        _ = world.lines()
        world.connect("bob/pc", outbox: (7, 0, 1))
        world.settle()
        world.send("bob/pc", 1, to: .user("ann"), "x")
        #expect(world.lines() == ["bob/pc: accepted, present", "bob/pc: result 1, sent"])
        world.seeResults("bob/pc", through: 1)
        world.stop()
        world.connect("bob/pc", outbox: (7, 1, 1))
        world.settle()
        #expect(world.broker.sessions[Index(place: 0)].outbox.count == 0)
    }
}

@Suite struct `A restored backup` {
    let world = World()

    /// Number 1 was sent after the backup was made: nobody knows of it any more.
    @Test(arguments: 1...3)
    func `marks a once that it may have had, however often it is started before`(starts: Int) {
        world.begin("bob/pc", "ann/phone")
        let backup = world.store
        world.send("bob/pc", 1, to: .user("ann"), "x", grade: .once)
        world.settle()
        world.store = backup
        world.store.identity = StoreIdentity(high: 7, low: 7)
        for _ in 0..<starts {
            world.crash()
            world.settle()
        }
        _ = world.lines()
        world.begin("ann/phone")
        world.connect("bob/pc", outbox: (7, 0, 1))
        world.settle()
        world.send("bob/pc", 1, to: .user("ann"), "x", grade: .once)
        world.settle()
        #expect(
            world.unnumberedLines() == [
                "bob/pc: accepted, present", "bob/pc: result 1, sent",
                "ann/phone: \"x\" from bob, once, possible duplicate",
            ])
    }

    /// The backup holds identifier 5 as not released; its client has released it since.
    @Test func `takes a publication for a new one, whatever its identifier named before`() {
        world.beginMQTT("bob/pc", "ann/phone")
        world.subscribeMQTT("ann/phone", "t")
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.settle()
        let backup = world.store
        world.answer("bob/pc", .release, 5)
        world.settle()
        world.store = backup
        world.store.identity = StoreIdentity(high: 7, low: 7)
        world.crash()
        world.settle()
        world.crash()
        world.beginMQTT("bob/pc")
        _ = world.lines()
        world.publish("bob/pc", 5, "t", "y", grade: .once)
        world.settle()
        #expect(world.lines(of: "bob/pc") == ["received 5"])
        world.crash()
        world.beginMQTT("bob/pc")
        world.publish("bob/pc", 5, "t", "y", grade: .once)
        world.settle()
        #expect(world.lines(of: "bob/pc") == ["received 5"])
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.settle()
        #expect(
            world.lines(of: "ann/phone") == [
                "accepted, present", "#1 \"x\" from bob on t, once, again",
                "#1025 \"y\" from bob on t, once",
            ])
    }

    @Test func `forgets that it is one with each sender that was told`() {
        world.begin("bob/pc", "ann/phone")
        world.store.identity = StoreIdentity(high: 7, low: 7)
        world.crash()
        world.connect("bob/pc", outbox: (7, 0, 0))
        world.settle()
        world.crash()
        #expect(
            (0..<2).map { world.broker.sessions[Index(place: $0)].isFromBackup } == [false, true])
    }
}

@Suite struct `A will whose delay was running` {
    let world = World()

    private func sent() -> Bool {
        world.settle()
        return world.lines().contains { $0.hasPrefix("bob/pc") && $0.contains("\"lost\"") }
    }

    /// Restarts the broker. The will must be sent after so many seconds, and not before.
    private func expectSent(afterSeconds seconds: UInt64) {
        world.crash()
        world.begin("bob/pc")
        world.pass(seconds: seconds - 1)
        #expect(!sent())
        world.pass(seconds: 1)
        #expect(sent())
    }

    private func lose(delay: UInt32) {
        world.begin("ann/phone", "bob/pc")
        world.setWill("ann/phone", to: .user("bob"), "lost", delay: delay)
        world.settle()
        world.lose("ann/phone")
        world.commit()
    }

    @Test func `comes at its own time after a restart`() {
        lose(delay: 20)
        world.pass(seconds: 5)
        expectSent(afterSeconds: 15)
    }

    @Test func `comes at once where its time passed meanwhile`() {
        lose(delay: 20)
        world.now.instant = world.now.instant.advanced(bySeconds: 30)
        world.crash()
        world.begin("bob/pc")
        world.pass(seconds: 0)
        #expect(sent())
    }

    @Test func `waits longer than the grace where its delay is longer`() {
        lose(delay: 200)
        expectSent(afterSeconds: 200)
    }

    @Test func `has the grace where its device was connected`() {
        world.begin("ann/phone", "bob/pc")
        world.setWill("ann/phone", to: .user("bob"), "lost", delay: 20)
        world.settle()
        expectSent(afterSeconds: 90)
    }
}
