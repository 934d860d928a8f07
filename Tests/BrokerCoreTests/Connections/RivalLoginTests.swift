// Two MQTT clients with one name: each login ends the other's connection, as MQTT demands, and who
// does it too often waits for its turn (docs/decisions/0004-rival-logins.md).

import BrokerTerms
import Testing

@testable import BrokerCore

@Suite struct `An MQTT login that takes a session over` {
    let world = World()
    let taken = ["ann/phone: closed, sessionTakenOver", "ann/phone: accepted, present"]

    init() {
        world.beginMQTT("ann/phone")
    }

    private func lines() -> [String] {
        world.settle()
        return world.lines()
    }

    @discardableResult
    private func connect(clean: Bool = false) -> ConnectionID {
        world.connect("ann/phone", clean: clean, expiry: 3600, dialect: .mqtt5)
    }

    /// As many takeovers as go through at once.
    private func takeOverFreely() {
        for _ in 0..<5 {
            connect()
            #expect(lines() == taken)
        }
    }

    @Test func `too often within a minute waits two seconds, and the connection there is stays`() {
        takeOverFreely()
        connect()
        #expect(lines() == [])
        #expect(world.gauges.connections == 1)
        #expect(world.counters.connectsDelayed == 1)
        world.pass(milliseconds: 1_999)
        #expect(lines() == [])
        world.pass(milliseconds: 1)
        #expect(lines() == taken)
        // There is no end to it, and no more than one turn in two seconds.
        connect()
        #expect(lines() == [])
        world.pass(milliseconds: 2_000)
        #expect(lines() == taken)
        #expect(world.counters.takeovers == 7)
        #expect(world.counters.connectsRefused == 0)
        // A minute later nobody remembers.
        world.pass(seconds: 60)
        connect()
        #expect(lines() == taken)
    }

    @Test func `takes its turn behind others, and is refused where too many wait`() {
        takeOverFreely()
        for _ in 0..<4 { connect() }
        #expect(lines() == [])
        connect()
        #expect(lines() == ["ann/phone: refused, connectionRateExceeded, after 60 s"])
        #expect(world.counters.connectsDamped == 1)
        for _ in 0..<4 {
            world.pass(seconds: 2)
            #expect(lines() == taken)
        }
    }

    @Test func `brings its will and all that it asked for when its turn comes`() {
        world.beginMQTT("bob/pc")
        world.subscribeMQTT("bob/pc", "w", grade: .durable)
        _ = lines()
        takeOverFreely()
        world.connect(
            "ann/phone", clean: true, expiry: 3600, dialect: .mqtt5,
            will: { bytes in
                let message = SendRequest(
                    number: 0, grade: .durable, target: .topic(bytes.appendRange("w")),
                    isRaw: true, payload: bytes.appendRange("gone"), messageByteCount: 0)
                return WillRequest(delaySeconds: 0, message: message)
            })
        #expect(lines() == [])
        world.pass(seconds: 2)
        #expect(
            lines() == [
                "ann/phone: closed, sessionTakenOver", "ann/phone: accepted, new",
            ])
        world.lose("ann/phone")
        #expect(lines() == ["bob/pc: #1 \"gone\" from ann on w"])
    }

    @Test func `and goes away meanwhile leaves everything as it was`() {
        takeOverFreely()
        let first = world.connections["ann/phone"]!
        connect()
        world.lose("ann/phone")
        world.pass(seconds: 10)
        #expect(lines() == [])
        #expect(world.gauges.connections == 1)
        #expect(world.broker.live.delayedLogins.count == 0)
        world.step(.connectionClosed(first, .lost))
        #expect(world.gauges.connections == 0)
    }

    @Test func `waits with all that its will has`() {
        takeOverFreely()
        world.connect(
            "ann/phone", expiry: 3600, dialect: .mqtt5,
            will: { bytes in
                var message = SendRequest(
                    number: 0, grade: .once, target: .everybody,
                    payload: bytes.appendRange("\0gone"), messageByteCount: 20)
                message.attributes = bytes.appendRange("\u{1}k\u{1}v")
                return WillRequest(delaySeconds: 0, message: message)
            })
        #expect(lines() == [])
        world.pass(seconds: 2)
        #expect(lines() == taken)
        world.broker.checkInvariants()
    }

    @Test func `finds nobody when its turn comes, and is let in`() {
        takeOverFreely()
        let first = world.connections["ann/phone"]!
        connect()
        world.step(.connectionClosed(first, .lost))
        world.pass(seconds: 2)
        #expect(lines() == ["ann/phone: accepted, present"])
        #expect(world.counters.takeovers == 5)
    }

    @Test func `waits as its app says, and is told to the log with both connections`() {
        world.showsNotes = true
        world.limits.appPolicies[Array("app".utf8)] = AppPolicy()
        world.limits.appPolicies[Array("app".utf8)]!.takeoversPerMinute = 1
        connect()
        #expect(lines().contains("note: takenOver, ann/phone, sessionTakenOver"))
        connect()
        #expect(lines() == ["note: duplicateLogin, ann/phone, connectionRateExceeded"])
        #expect(world.counters.connectsDelayed == 1)
    }
}
