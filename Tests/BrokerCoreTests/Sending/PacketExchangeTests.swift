// QoS 1 and 2 towards MQTT clients: acknowledged one by one, resumed by packet identifier.

import BrokerTerms
import Testing

@testable import BrokerCore

@Suite struct `A delivery to an MQTT client` {
    let world = World()

    init() {
        world.begin("bob/pc")
        world.beginMQTT("ann/phone")
        world.subscribeMQTT("ann/phone", "t")
        _ = world.lines()
    }

    func send(_ numbers: ClosedRange<UInt64>, _ grade: Grade = .durable) {
        for number in numbers {
            world.send("bob/pc", number, to: .topic("t"), "\(number)", grade: grade, isRaw: true)
        }
        world.settle()
    }

    /// Loses the connection of `ann/phone` and connects again, then does the same after a crash.
    /// Both connections must bring the same lines.
    func expectAfterReconnectAndCrash(
        _ lines: [String], sourceLocation: SourceLocation = #_sourceLocation
    ) {
        world.lose("ann/phone")
        _ = world.lines()
        for isCrashed in [false, true] {
            if isCrashed { world.crash() }
            world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
            world.settle()
            #expect(
                world.lines(of: "ann/phone") == lines, "after a crash: \(isCrashed)",
                sourceLocation: sourceLocation)
        }
    }

    @Test func `identifiers are derived from numbers and never 0`() {
        #expect(PacketIdentifier.derived(from: 1) == 1)
        #expect(PacketIdentifier.derived(from: 65_535) == 65_535)
        #expect(PacketIdentifier.derived(from: 65_536) == 1)
    }

    @Test func `of QoS 1 may be acknowledged in any order`() {
        send(1...3)
        world.answer("ann/phone", .accepted, 2)
        world.settle()
        #expect(world.gauges.queuedMessages == 2)
        world.answer("ann/phone", .accepted, 3)
        world.answer("ann/phone", .accepted, 1)
        world.answer("ann/phone", .accepted, 1)
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.store.heldMessages == [])
    }

    @Test func `comes again with its identifier, marked, after a reconnect and after a crash`() {
        send(1...3)
        world.answer("ann/phone", .accepted, 2)
        world.settle()
        expectAfterReconnectAndCrash([
            "accepted, present", "#1 \"1\" from bob on t, again", "#3 \"3\" from bob on t, again",
        ])
    }

    @Test func `that has not been sent is not marked`() {
        world.lose("ann/phone")
        send(1...1)
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.settle()
        #expect(
            world.lines(of: "ann/phone") == ["accepted, present", "#1 \"1\" from bob on t"])
    }

    @Test func `of QoS 2 is released when its receipt is committed`() {
        send(1...1, .once)
        _ = world.lines()
        world.answer("ann/phone", .received, 1)
        #expect(world.lines() == [])
        world.settle()
        #expect(world.lines() == ["ann/phone: release 1"])
        world.answer("ann/phone", .complete, 1)
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
    }

    @Test func `of QoS 2 is released again, and not delivered again, whatever dies`() {
        send(1...2, .once)
        world.answer("ann/phone", .received, 1)
        world.settle()
        expectAfterReconnectAndCrash([
            "accepted, present", "release 1", "#2 \"2\" from bob on t, once, again",
        ])
        world.answer("ann/phone", .complete, 1)
        world.answer("ann/phone", .received, 2)
        world.settle()
        world.answer("ann/phone", .complete, 2)
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
    }

    @Test func `of QoS 2 is delivered again when its receipt was not committed`() {
        send(1...1, .once)
        world.answer("ann/phone", .received, 1)
        world.crash(committing: false)
        _ = world.lines()
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.settle()
        #expect(
            world.lines(of: "ann/phone")
                == ["accepted, present", "#1 \"1\" from bob on t, once, again"])
    }

    @Test func `that its receiver refuses is done with`() {
        send(1...1, .once)
        world.answer("ann/phone", .received, 1, .quotaExceeded)
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
    }

    @Test func `that is answered in the way of another QoS ends the connection`() {
        send(1...1, .once)
        _ = world.lines()
        world.answer("ann/phone", .accepted, 1)
        #expect(world.lines() == ["ann/phone: closed, protocolError"])
    }

    @Test func `of QoS 2 that is answered out of step ends the connection`() {
        var number: UInt64 = 0
        for dialect in [SessionDialect.mqtt3, .mqtt5] {
            // PUBCOMP in place of PUBREC, or before PUBREL; a refusal of what was received.
            for steps in [
                [(PacketStep.complete, ReasonCode.success)],
                [(.received, .success), (.complete, .success)],
                [(.received, .success), (.received, .quotaExceeded)],
            ] {
                world.beginMQTT("ann/phone", dialect: dialect, clean: true)
                world.subscribeMQTT("ann/phone", "t")
                number += 1
                send(number...number, .once)
                _ = world.lines()
                for (step, reason) in steps { world.answer("ann/phone", step, 1, reason) }
                #expect(world.lines() == ["ann/phone: closed, protocolError"])
                world.settle()
            }
        }
    }

    @Test func `of QoS 2 is over with PUBCOMP only after PUBREL, on the next connection too`() {
        send(1...1, .once)
        world.answer("ann/phone", .received, 1)
        world.settle()
        world.lose("ann/phone")
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.settle()
        #expect(world.lines(of: "ann/phone").last == "release 1")
        world.answer("ann/phone", .complete, 1)
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.lines() == [])
    }

    @Test func `that nobody knows is released with a reason`() {
        world.answer("ann/phone", .received, 9)
        world.answer("ann/phone", .accepted, 9)
        world.answer("ann/phone", .complete, 9)
        #expect(world.lines() == ["ann/phone: release 9, packetIdentifierNotFound"])
    }

    @Test func `waits while the receive maximum is used up`() {
        world.lose("ann/phone")
        world.beginMQTT("ann/phone", window: 2)
        send(1...4)
        #expect(world.lines(of: "ann/phone").count == 2)
        world.answer("ann/phone", .accepted, 2)
        #expect(world.lines(of: "ann/phone") == ["#3 \"3\" from bob on t"])
    }

    @Test func `whose receipt was confirmed does not expire, in the store either`() {
        world.send(
            "bob/pc", 1, to: .topic("t"), "x", grade: .once, expiry: 10, isRaw: true)
        world.settle()
        world.answer("ann/phone", .received, 1)
        world.settle()
        world.crash()
        world.pass(seconds: 11)
        world.settle()
        _ = world.lines()
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.settle()
        #expect(world.lines(of: "ann/phone") == ["accepted, present", "release 1"])
    }

    /// [MQTT-4.3.3-7]. Of a client that was connected when the broker died nobody knows what it was
    /// sent.
    @Test(arguments: [false, true], [0, 25])
    func `of QoS 2 that has begun does not expire in the store`(crashes: Bool, seconds: UInt64) {
        world.publish(asMQTT("carl/pc"), 1, "t", "begun", grade: .once, expiry: 10)
        world.publish("carl/pc", 2, "t", "sent once", grade: .durable, expiry: 10)
        world.settle()
        #expect(world.lines(of: "ann/phone").count == 2)
        world.lose("ann/phone")
        world.publish("carl/pc", 3, "t", "not begun", grade: .once, expiry: 10)
        world.settle()
        if crashes { world.crash() }
        // Past the deadline, with the sweeps of housekeeping and without.
        world.pass(seconds: 11)
        for _ in 0..<seconds {
            world.pass(seconds: 1)
            world.settle()
        }
        _ = world.lines()
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.settle()
        let lines = world.lines(of: "ann/phone")
        #expect(lines.count == 2 && lines[1].hasPrefix("#1 \"begun\""), "\(lines)")
        #expect(world.counters.expired == 2)
        world.answer("ann/phone", .received, 1)
        world.settle()
        world.answer("ann/phone", .complete, 1)
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.store.heldMessages == [])
    }

    private func asMQTT(_ name: String) -> String {
        world.beginMQTT(name)
        return name
    }

    @Test func `that was sent does not expire`() {
        world.send("bob/pc", 1, to: .topic("t"), "x", expiry: 10, isRaw: true)
        world.settle()
        world.lose("ann/phone")
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.pass(seconds: 11)
        _ = world.lines()
        world.answer("ann/phone", .accepted, 1)
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
    }
}
