// Ends: of sessions, of messages, and where a user's messages go when nobody receives them.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `Expiry` {
    let world = World()

    @Test func `ends a session that stays away too long, and not a second earlier`() {
        world.begin("ann/phone", expiry: 60)
        world.lose("ann/phone")
        world.pass(milliseconds: 59_999)
        #expect(world.gauges.sessions == 1)
        world.showsNotes = true
        world.pass(milliseconds: 1)
        #expect(world.gauges.sessions == 0)
        #expect(world.counters.sessionsExpired == 1)
        #expect(world.lines() == ["note: sessionExpired, ann/phone, success, 0"])
        world.settle()
        world.crash()
        #expect(world.gauges.sessions == 0)
        #expect(world.gauges.users == 1)
    }

    @Test func `does not touch a session that is connected`() {
        world.begin("ann/phone", expiry: 60)
        world.lose("ann/phone")
        world.pass(seconds: 50)
        world.begin("ann/phone", expiry: 60)
        world.pass(seconds: 500)
        #expect(world.gauges.sessions == 1)
    }

    @Test func `never comes to a session that asked for none`() {
        world.begin("ann/phone", expiry: .max)
        world.lose("ann/phone")
        world.pass(seconds: 100 * 365 * 86_400)
        #expect(world.gauges.sessions == 1)
    }

    @Test func `is bounded by the broker's own limit`() {
        world.limits.sessionExpirySecondsMaximum = 60
        world.begin("ann/phone", expiry: .max)
        world.lose("ann/phone")
        world.pass(seconds: 60)
        #expect(world.gauges.sessions == 0)
    }

    @Test func `can be changed with the good-bye`() {
        world.begin("ann/phone", expiry: 600)
        world.disconnect("ann/phone", expiry: 60)
        world.settle()
        world.crash()
        world.pass(seconds: 60)
        #expect(world.gauges.sessions == 0)
    }

    // MARK: - Messages to the user

    @Test func `of a user's last session gives its messages back to waiting`() {
        world.begin("bob/pc")
        world.begin("ann/phone", expiry: 60)
        world.lose("ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "1")
        world.settle()
        world.pass(seconds: 60)
        world.settle()
        world.send("bob/pc", 2, to: .user("ann"), "2")
        world.settle()
        #expect(world.gauges.queuedMessages == 2)
        world.crash()
        _ = world.lines()
        world.connect("ann/new")
        world.settle()
        #expect(
            world.lines() == [
                "ann/new: accepted, new", "ann/new: #1 \"1\" from bob",
                "ann/new: #2 \"2\" from bob",
            ])
        world.acknowledge("ann/new", through: 2)
        world.settle()
        #expect(world.store.heldMessages == [])
    }

    @Test func `of one of several sessions discards its copies`() {
        world.begin("bob/pc")
        world.begin("ann/phone", "ann/watch", expiry: 60)
        world.lose("ann/phone", "ann/watch")
        world.send("bob/pc", 1, to: .user("ann"), "1")
        world.settle()
        world.begin("ann/watch", expiry: 60)
        world.pass(seconds: 60)
        world.settle()
        #expect(world.counters.discarded == 1)
        #expect(world.gauges.queuedMessages == 1)
        #expect(world.store.heldMessages.count == 1)
    }

    @Test func `leaves messages waiting though a session in memory is there`() {
        world.begin("bob/pc")
        world.begin("ann/phone", expiry: 60)
        world.lose("ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "1")
        world.settle()
        world.begin("ann/pad", expiry: 0)
        world.pass(seconds: 60)
        world.settle()
        #expect(world.gauges.queuedMessages == 1)
        world.connect("ann/phone")
        world.settle()
        #expect(world.lines().contains("ann/phone: #1 \"1\" from bob"))
    }

    @Test func `of messages that a clean start does not want discards it`() {
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "1")
        world.settle()
        world.connect("ann/phone", clean: true)
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.counters.discarded == 1)
        #expect(world.store.heldMessages == [])
    }

    @Test
    func `waits for no one: a message to a registered user is inherited by the first session`() {
        world.begin("bob/pc")
        world.addUser("ann")
        world.send("bob/pc", 1, to: .user("ann"), "1")
        world.send("bob/pc", 2, to: .user("ann"), "2", grade: .once)
        world.settle()
        #expect(
            world.lines() == ["bob/pc: result 1, sent", "bob/pc: result 2, sent"])
        world.connect("ann/pad", expiry: 0)
        world.settle()
        #expect(world.lines() == ["ann/pad: accepted, new"])
        world.connect("ann/phone")
        world.beginCommit()
        #expect(world.lines() == [])
        // All in one transaction: the session and the queue's new owner.
        #expect(Set(world.lastBatch.records.map(\.table)).isSuperset(of: [.users, .sessions]))
        world.finishCommit()
        world.settle()
        #expect(
            world.lines() == [
                "ann/phone: accepted, new", "ann/phone: #1 \"1\" from bob",
                "ann/phone: #2 \"2\" from bob, once",
            ])
    }

    @Test func `of a session whose creation waits does not lose messages that it inherited`() {
        world.begin("bob/pc")
        world.addUser("ann")
        world.send("bob/pc", 1, to: .user("ann"), "1")
        world.settle()
        world.connect("ann/phone")
        world.beginCommit()
        world.crash(committing: false)
        world.connect("ann/watch")
        world.settle()
        #expect(world.lines().last == "ann/watch: #1 \"1\" from bob")
    }

    // MARK: - Messages

    @Test func `drops a message that waited too long in the window`() {
        world.begin("bob/pc")
        world.begin("ann/phone", window: 2)
        for number in 1...4 as ClosedRange<UInt64> {
            world.send(
                "bob/pc", number, to: .user("ann"), "\(number)", expiry: number == 3 ? 10 : 99)
        }
        world.settle()
        world.pass(seconds: 10)
        _ = world.lines()
        world.acknowledge("ann/phone", through: 1)
        #expect(world.lines() == ["ann/phone: #4 \"4\" from bob"])
        #expect(world.counters.expired == 1)
        world.acknowledge("ann/phone", through: 4)
        world.settle()
        #expect(world.store.heldMessages == [])
        #expect(world.gauges.messagesInMemory == 0)
    }

    @Test func `drops a message that waited too long on disk`() {
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "1", expiry: 10)
        world.send("bob/pc", 2, to: .user("ann"), "2", expiry: 11)
        world.settle()
        world.pass(seconds: 10)
        _ = world.lines()
        world.connect("ann/phone")
        world.settle()
        #expect(world.lines() == ["ann/phone: accepted, present", "ann/phone: #2 \"2\" from bob"])
        #expect(world.counters.expired == 1)
        #expect(world.gauges.queuedMessages == 1)
    }

    @Test func `keeps a message until the very millisecond`() {
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "1", expiry: 10)
        world.settle()
        world.pass(milliseconds: 9_999)
        world.connect("ann/phone")
        world.settle()
        #expect(world.lines().last == "ann/phone: #1 \"1\" from bob")
    }

    @Test func `of queues bounds the age a sender asks for`() {
        world.limits.queueAgeSecondsMaximum = 10
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "1", expiry: .max)
        world.settle()
        world.pass(seconds: 10)
        _ = world.lines()
        world.connect("ann/phone")
        world.settle()
        #expect(world.lines() == ["ann/phone: accepted, present"])
    }
}
