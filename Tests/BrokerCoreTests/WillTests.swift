// Wills: when they are sent, when they are not, and that they are sent once whatever dies.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A will` {
    let world = World()

    init() {
        world.begin("ann/phone", "bob/pc")
    }

    func lines() -> [String] {
        world.settle()
        return world.lines()
    }

    @Test func `is confirmed when it is committed`() {
        world.setWill("ann/phone", to: .user("bob"), "lost", id: 4)
        #expect(world.lines() == [])
        world.commit()
        #expect(world.lines() == ["ann/phone: response 4, success"])
    }

    @Test func `is sent when the connection is lost`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.lose("ann/phone")
        #expect(lines() == ["bob/pc: #1 \"lost\" from ann, once"])
        #expect(world.counters.willsSent == 1)
        world.crash()
        world.pass(seconds: 1000)
        #expect(world.counters.willsSent == 0)
    }

    @Test func `is sent after its delay, unless the device is back`() {
        world.setWill("ann/phone", to: .user("bob"), "lost", delay: 10)
        _ = lines()
        world.lose("ann/phone")
        world.pass(milliseconds: 9_999)
        world.begin("ann/phone")
        world.pass(seconds: 60)
        #expect(lines() == [])
        world.lose("ann/phone")
        world.pass(seconds: 10)
        #expect(lines() == ["bob/pc: #1 \"lost\" from ann, once"])
    }

    @Test func `is not sent after a good-bye, which is answered when it is gone from the store`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.disconnect("ann/phone")
        #expect(world.lines() == [])
        world.commit()
        #expect(world.lines() == ["ann/phone: good-bye"])
        world.crash()
        world.pass(seconds: 1000)
        #expect(world.counters.willsSent == 0)
    }

    @Test func `is sent after a good-bye that asks for it`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.disconnect("ann/phone", sendsWill: true)
        #expect(lines() == ["ann/phone: good-bye", "bob/pc: #1 \"lost\" from ann, once"])
    }

    @Test func `is replaced by a later one, and can be cleared`() {
        world.setWill("ann/phone", to: .user("bob"), "first")
        world.setWill("ann/phone", to: .user("bob"), "second")
        _ = lines()
        world.lose("ann/phone")
        #expect(lines() == ["bob/pc: #1 \"second\" from ann, once"])
        world.begin("ann/phone")
        world.setWill("ann/phone", to: .user("bob"), "third")
        world.clearWill("ann/phone", id: 7)
        #expect(lines().last == "ann/phone: response 7, success")
        world.lose("ann/phone")
        #expect(lines() == [])
    }

    @Test func `of a session in memory is sent with its end, to the user's other devices`() {
        world.begin("ann/pad", expiry: 0)
        world.setWill("ann/pad", to: .user("ann"), "lost", delay: 60)
        _ = lines()
        world.lose("ann/pad")
        #expect(lines() == ["ann/phone: #1 \"lost\" from ann, once"])
        #expect(world.gauges.messagesInMemory == 1)
    }

    @Test func `is sent with the end of its session, before its delay is over`() {
        world.begin("ann/watch", expiry: 5)
        world.setWill("ann/watch", to: .user("bob"), "lost", delay: 60)
        _ = lines()
        world.lose("ann/watch")
        world.pass(seconds: 5)
        #expect(lines() == ["bob/pc: #1 \"lost\" from ann, once"])
        world.pass(seconds: 100)
        #expect(lines() == [])
    }

    @Test func `of a session that was connected when the broker died has a time of grace`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.crash()
        world.begin("bob/pc")
        // 60 s of keep-alive: one and a half times that.
        world.pass(milliseconds: 89_999)
        #expect(lines() == [])
        world.pass(milliseconds: 1)
        #expect(lines().map { $0.contains("\"lost\"") } == [true])
    }

    @Test func `of a device that is back within the grace is not sent`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        world.begin("ann/pad", expiry: 0)
        world.setWill("ann/pad", to: .user("bob"), "lost too")
        _ = lines()
        world.crash()
        world.begin("bob/pc", "ann/phone")
        world.begin("ann/pad", expiry: 0)
        world.pass(seconds: 1000)
        #expect(lines() == [])
    }

    @Test func `is not sent where the cookie tells that the connection is the same device's`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.connect("ann/phone", isReconnect: true, cookie: world.cookies["ann/phone"])
        #expect(
            lines() == ["ann/phone: closed, sessionTakenOver", "ann/phone: accepted, present"])
        world.connect("ann/phone", clean: true, cookie: world.cookies["ann/phone"])
        #expect(
            lines() == ["ann/phone: closed, sessionTakenOver", "ann/phone: accepted, new"])
        #expect(world.broker.wills.count == 0)
    }

    @Test func `is sent where somebody else takes the session over`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.connect("ann/phone")
        #expect(lines().contains("bob/pc: #1 \"lost\" from ann, once"))
    }

    @Test func `that a full store cannot take is sent when it has room again`() {
        world.lose("bob/pc")
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.store.isFull = true
        world.lose("ann/phone")
        world.settle()
        for _ in 0..<3 {
            world.pass(seconds: 10)
            world.settle()
        }
        world.crash()
        #expect(world.counters.willsSent == 0)
        world.store.isFull = false
        world.pass(seconds: 90)
        world.settle()
        #expect(world.counters.willsSent == 1)
        world.connect("bob/pc")
        #expect(lines().filter { $0.contains("\"lost\"") }.count == 1)
    }

    @Test func `and its message are stored together, or not at all`() {
        for committing in [false, true] {
            world.begin("ann/phone", "bob/pc")
            world.setWill("ann/phone", to: .user("bob"), "lost")
            _ = lines()
            world.lose("ann/phone")
            world.beginCommit()
            world.crash(committing: committing)
            world.connect("bob/pc", resume: (world.epochs["bob/pc"]!, 0))
            world.pass(seconds: 100)
            #expect(lines().filter { $0.contains("\"lost\"") }.count == 1)
            world.acknowledge("bob/pc", through: world.sentThrough("bob/pc"))
            world.settle()
        }
    }
}
