// Who may have a session that somebody has already: the same client come back, another one on
// purpose, another one by accident.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A login on a device that is connected` {
    let world = World()
    let taken = ["ann/phone: closed, sessionTakenOver", "ann/phone: accepted, present"]

    init() {
        world.begin("ann/phone", "bob/pc")
    }

    private func lines() -> [String] {
        world.settle()
        return world.lines()
    }

    private func setWill() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
    }

    @Test func `with its cookie replaces its own ghost, without the will`() {
        setWill()
        world.connect("ann/phone", isReconnect: true, cookie: world.cookies["ann/phone"])
        #expect(lines() == taken)
        #expect(world.counters.takeovers == 0)
        // The will is still set.
        world.lose("ann/phone")
        #expect(lines() == ["bob/pc: #1 \"lost\" from ann, once"])
    }

    @Test
    func `with the cookie that its ghost came with is the same client, whose CONNACK was lost`() {
        setWill()
        let first = world.cookies["ann/phone"]
        world.lose("ann/phone")
        world.connect("ann/phone", isReconnect: true, cookie: first)
        _ = lines()
        for _ in 0..<10 {
            world.connect("ann/phone", isReconnect: true, cookie: first)
            #expect(lines() == taken)
        }
    }

    @Test func `with the cookie of an earlier connection than that is a stranger`() {
        let first = world.cookies["ann/phone"]
        world.connect("ann/phone", cookie: first)
        world.connect("ann/phone", cookie: world.cookies["ann/phone"])
        _ = lines()
        world.connect("ann/phone", isReconnect: true, cookie: first)
        #expect(lines() == ["ann/phone: refused, sessionTakenOver"])
    }

    @Test func `that comes by itself is refused, and the earlier one stays`() {
        setWill()
        world.connect("ann/phone", isReconnect: true)
        world.connect("ann/phone", isReconnect: true, cookie: 5)
        #expect(
            lines() == [
                "ann/phone: refused, sessionTakenOver", "ann/phone: refused, sessionTakenOver",
            ])
        #expect(world.gauges.connections == 2)
        #expect(world.counters.connectsRefused == 2)
    }

    @Test func `on purpose takes it over, and the will of the earlier one is sent`() {
        setWill()
        world.connect("ann/phone")
        let lines = lines()
        #expect(lines.filter { $0.hasPrefix("ann") } == taken)
        #expect(lines.filter { $0.hasPrefix("bob") } == ["bob/pc: #1 \"lost\" from ann, once"])
        #expect(world.counters.takeovers == 1)
        #expect(world.counters.willsSent == 1)
    }

    @Test func `with another device's name disturbs nobody`() {
        world.begin("ann/watch")
        world.connect("ann/pad", isReconnect: true)
        #expect(lines() == ["ann/pad: accepted, new"])
        #expect(world.gauges.connections == 4)
    }

    @Test func `is refused after five takeovers within any minute, with the time to wait`() {
        world.pass(seconds: 7)
        for _ in 0..<5 {
            world.pass(seconds: 10)
            world.connect("ann/phone")
        }
        _ = lines()
        world.connect("ann/phone")
        // The first of the five was 40 s ago.
        #expect(lines() == ["ann/phone: refused, connectionRateExceeded, after 20 s"])
        world.pass(milliseconds: 19_999)
        world.connect("ann/phone")
        #expect(lines() == ["ann/phone: refused, connectionRateExceeded, after 1 s"])
        world.pass(milliseconds: 1)
        world.connect("ann/phone")
        #expect(lines() == taken)
        world.connect("ann/phone")
        #expect(lines() == ["ann/phone: refused, connectionRateExceeded, after 10 s"])
    }

    @Test func `is counted though each session ends with its takeover`() {
        world.begin("ann/pad", expiry: 0)
        for _ in 0..<5 { world.connect("ann/pad", expiry: 0) }
        _ = lines()
        world.connect("ann/pad", expiry: 0)
        #expect(lines() == ["ann/pad: refused, connectionRateExceeded, after 60 s"])
        for _ in 0..<5 { world.connect("ann/phone", clean: true) }
        _ = lines()
        world.connect("ann/phone", clean: true)
        #expect(lines() == ["ann/phone: refused, connectionRateExceeded, after 60 s"])
    }

    @Test func `with the cookie is never too many`() {
        for _ in 0..<20 { world.connect("ann/phone", cookie: world.cookies["ann/phone"]) }
        #expect(!lines().contains { $0.contains("refused") })
    }

    @Test func `is told to the log with both connections`() {
        world.showsNotes = true
        world.connect("ann/phone", isReconnect: true)
        #expect(
            world.lines().contains("note: duplicateLogin, ann/phone, sessionTakenOver"))
        world.connect("ann/phone")
        #expect(world.lines().contains("note: takenOver, ann/phone, sessionTakenOver"))
    }

    @Test func `after the broker's restart is no takeover, whatever its cookie`() {
        world.crash()
        world.connect("ann/phone", isReconnect: true, cookie: 5)
        #expect(lines() == ["ann/phone: accepted, present"])
        // And once more, since that answer was lost.
        world.connect("ann/phone", isReconnect: true, cookie: 5)
        #expect(lines() == taken)
    }
}
