// QoS 1 and 2 from MQTT clients: answered in order, recognised until released.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A publication of an MQTT client` {
    let world = World()

    init() {
        world.beginMQTT("bob/pc", "ann/phone")
        world.subscribeMQTT("ann/phone", "t")
        _ = world.lines()
    }

    @Test func `of QoS 1 is answered when it is committed, or acknowledged before`() {
        world.publish("bob/pc", 7, "t", "x")
        #expect(world.lines() == ["ann/phone: #1 \"x\" from bob on t"])
        world.settle()
        #expect(world.lines() == ["bob/pc: accepted 7"])
        world.publish("bob/pc", 7, "t", "y")
        world.answer("ann/phone", .accepted, 2)
        #expect(world.lines(of: "bob/pc") == ["accepted 7"])
    }

    @Test func `is answered behind those that came before it`() {
        world.publish("bob/pc", 1, "t", "1")
        world.publish("bob/pc", 2, "t", "2")
        world.publish("bob/pc", 3, "t", "3", grade: .once)
        world.publish("bob/pc", 4, "nobody", "4")
        world.answer("ann/phone", .accepted, 2)
        #expect(world.lines(of: "bob/pc") == [])
        world.settle()
        #expect(
            world.lines(of: "bob/pc") == [
                "accepted 1", "accepted 2", "received 3", "accepted 4, noMatchingSubscribers",
            ])
    }

    @Test func `that is refused is answered in its turn too`() {
        world.publish("bob/pc", 1, "t", "1")
        world.publish("bob/pc", 2, to: .user("nobody"), "2")
        world.publish("bob/pc", 3, "$SYS/x", "3")
        #expect(world.lines(of: "bob/pc") == [])
        world.settle()
        #expect(
            world.lines(of: "bob/pc") == [
                "accepted 1", "accepted 2, topicNameInvalid", "accepted 3, topicNameInvalid",
            ])
    }

    @Test func `of QoS 2 is taken once, however often it comes`() {
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.settle()
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        #expect(
            world.lines() == [
                "bob/pc: received 5", "ann/phone: #1 \"x\" from bob on t, once",
                "bob/pc: received 5",
            ])
        world.answer("bob/pc", .release, 5)
        #expect(world.lines() == [])
        world.settle()
        #expect(world.lines() == ["bob/pc: complete 5"])
        world.publish("bob/pc", 5, "t", "y", grade: .once)
        world.settle()
        #expect(world.lines(of: "ann/phone") == ["#2 \"y\" from bob on t, once"])
    }

    @Test(arguments: [false, true])
    func `of QoS 2 is recognised after a reconnect and after a crash`(crashes: Bool) {
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.settle()
        if crashes { world.crash() } else { world.lose("bob/pc") }
        world.beginMQTT("bob/pc")
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.settle()
        #expect(world.lines() == ["bob/pc: received 5"])
        #expect(world.gauges.queuedMessages == 1)
        world.answer("bob/pc", .release, 5)
        world.settle()
        if crashes { world.crash() } else { world.lose("bob/pc") }
        world.beginMQTT("bob/pc")
        world.publish("bob/pc", 5, "t", "y", grade: .once)
        world.settle()
        #expect(world.gauges.queuedMessages == 2)
    }

    @Test func `of QoS 2 is new when its acceptance was not committed`() {
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.crash(committing: false)
        world.beginMQTT("bob/pc")
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.settle()
        #expect(world.gauges.queuedMessages == 1)
    }

    @Test func `of QoS 1 whose answer was lost is sent again as a new one`() {
        world.publish("bob/pc", 5, "t", "x")
        world.lose("bob/pc")
        world.settle()
        world.beginMQTT("bob/pc")
        #expect(world.lines() == [])
        world.publish("bob/pc", 5, "t", "x")
        world.settle()
        #expect(world.lines(of: "bob/pc") == ["accepted 5"])
        #expect(world.gauges.queuedMessages == 2)
    }

    @Test func `may be released without being known`() {
        world.answer("bob/pc", .release, 9)
        world.settle()
        #expect(world.lines() == ["bob/pc: complete 9, packetIdentifierNotFound"])
    }

    @Test func `released once more is confirmed when the first release is committed`() {
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.settle()
        world.answer("bob/pc", .release, 5)
        world.beginCommit()
        world.answer("bob/pc", .release, 5)
        #expect(world.lines(of: "bob/pc") == ["received 5"])
        world.finishCommit()
        world.settle()
        #expect(
            world.lines() == [
                "bob/pc: complete 5", "bob/pc: complete 5, packetIdentifierNotFound",
            ])
    }

    /// A refusal that went ahead of the repetition would be its answer, and that a new one.
    @Test(arguments: [false, true])
    func `that is taken back after a reconnect is refused when it comes again`(comesFirst: Bool) {
        world.subscribeMQTT("ann/phone", "t", grade: .durable)
        world.store.isFull = true
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.settle()
        world.lose("bob/pc")
        world.beginMQTT("bob/pc")
        if comesFirst { world.publish("bob/pc", 5, "t", "x", grade: .once) }
        world.lose("ann/phone")
        #expect(world.lines() == (comesFirst ? ["bob/pc: received 5, quotaExceeded"] : []))
        if !comesFirst {
            world.publish("bob/pc", 5, "t", "x", grade: .once)
            #expect(world.lines() == ["bob/pc: received 5, quotaExceeded"])
        }
        world.store.isFull = false
        world.forgetFullStore()
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.settle()
        #expect(world.lines() == ["bob/pc: received 5"])
        #expect(world.gauges.queuedMessages == 1)
    }

    @Test func `released before its PUBREC has left ends the connection`() {
        world.publish("bob/pc", 4, "t", "w", grade: .durable)
        world.limits.payloadMaximum = 0
        // Refused at once, and answered behind the one before it.
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.answer("bob/pc", .release, 5)
        #expect(world.lines(of: "bob/pc") == ["closed, protocolError"])
    }

    @Test func `on a topic of the broker's that means nothing is refused in every grade`() {
        for topic in ["$x", "$x/y", "$", "$SYSTEM/a", "$SYS/a", "$share/a/b", "$presence/ann"] {
            world.publish("bob/pc", topic, "x", grade: .transient)
            #expect(world.lines() == ["bob/pc: result 0, topicNameInvalid"], "\(topic)")
        }
        world.publish("bob/pc", 5, "$x/y", "x", grade: .durable)
        world.publish("bob/pc", 6, "$x/y", "x", grade: .once)
        world.settle()
        #expect(
            world.lines(of: "bob/pc")
                == ["accepted 5, topicNameInvalid", "received 6, topicNameInvalid"])
    }

    @Test func `released before it was received ends the connection`() {
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.answer("bob/pc", .release, 5)
        #expect(world.lines() == ["bob/pc: closed, protocolError"])
    }

    @Test(arguments: [Grade.durable, .once])
    func `above the receive maximum holds the client until half is answered`(grade: Grade) {
        world.limits.publishWindowMaximum = 4
        for dialect in [SessionDialect.mqtt3, .mqtt5] {
            world.beginMQTT("bob/pc", dialect: dialect, clean: true)
            for identifier in 1...4 as ClosedRange<UInt16> {
                world.publish("bob/pc", identifier, "t", "x", grade: grade)
            }
            #expect(world.lines(of: "bob/pc") == [])
            // What has been read with it is taken all the same.
            for identifier in 5...7 as ClosedRange<UInt16> {
                world.publish("bob/pc", identifier, "t", "x", grade: grade)
            }
            #expect(world.lines(of: "bob/pc") == ["held"])
            world.settle()
            let step = grade == .once ? "received" : "accepted"
            var lines = (1...7).map { "\(step) \($0)" }
            lines.insert("read again", at: 5)
            #expect(world.lines(of: "bob/pc") == lines)
            // Unreleased publications are answered: their releases need not be read for more.
            for identifier in 8...11 as ClosedRange<UInt16> {
                world.publish("bob/pc", identifier, "t", "x", grade: grade)
            }
            #expect(world.lines(of: "bob/pc") == [])
            world.settle()
        }
    }

    @Test func `may leave many identifiers unreleased, and ends them in whatever order`() {
        // All over their range; make micro has 60,000.
        let identifiers = Array(stride(from: UInt16(1), through: 65_521, by: 65))
        for isStored in [true, false] {
            world.beginMQTT("eve/tab", dialect: .mqtt3, expiry: isStored ? 3600 : 0)
            for (count, identifier) in identifiers.enumerated() {
                world.publish("eve/tab", identifier, "t/none", "x", grade: .once)
                if count % 1_000 == 0 { world.commit() }
            }
            world.settle()
            _ = world.lines()
            let before = world.counters.sendsRepeated
            world.publish("eve/tab", 66, "t/none", "x", grade: .once)
            #expect(world.lines() == ["eve/tab: received 66, noMatchingSubscribers"])
            #expect(world.counters.sendsRepeated == before + 1)
            for identifier in identifiers.reversed() where identifier % 3 == 0 {
                world.answer("eve/tab", .release, identifier)
            }
            for identifier in identifiers where identifier % 3 != 0 && identifier != 131 {
                world.answer("eve/tab", .release, identifier)
            }
            world.settle()
            _ = world.lines()
            world.answer("eve/tab", .release, 196)
            world.answer("eve/tab", .release, 131)
            world.settle()
            #expect(
                world.lines() == [
                    "eve/tab: complete 196, packetIdentifierNotFound", "eve/tab: complete 131",
                ])
        }
    }

    @Test func `that nobody released leaves no rows behind its session`() {
        world.beginMQTT("eve/tab", dialect: .mqtt3)
        for identifier in 1...5_000 as ClosedRange<UInt16> {
            world.publish("eve/tab", identifier, "t", "x", grade: .once)
            if identifier % 2_500 == 0 { world.commit() }
        }
        world.settle()
        world.connect("eve/tab", clean: true, expiry: 3600, dialect: .mqtt3)
        var counts: [Int] = []
        while world.commit() { counts.append(world.lastBatch.records.count) }
        #expect(counts.count > 1 && counts.allSatisfy { $0 < 4_300 }, "\(counts)")
        // It looks for rows whose session is gone.
        world.settle()
        // Half of them are deleted when the broker dies, and the start removes the others.
        for identifier in 1...5_000 as ClosedRange<UInt16> {
            world.publish("eve/tab", identifier, "t", "x", grade: .once)
            if identifier % 2_500 == 0 { world.commit() }
        }
        world.settle()
        world.connect("eve/tab", clean: true, expiry: 3600, dialect: .mqtt3)
        world.commit()
        world.crash()
        #expect(world.counters.rowsRepaired > 500)
        world.settle()
    }

    @Test func `above the receive maximum counts a repetition once`() {
        world.limits.publishWindowMaximum = 2
        world.beginMQTT("bob/pc")
        for _ in 0..<5 { world.publish("bob/pc", 1, "t", "x", grade: .once) }
        #expect(world.lines(of: "bob/pc") == [])
        world.settle()
        #expect(world.lines(of: "bob/pc") == ["received 1"])
        for _ in 0..<5 { world.publish("bob/pc", 1, "t", "x", grade: .once) }
        #expect(world.lines(of: "bob/pc") == Array(repeating: "received 1", count: 5))
    }

    @Test func `above the receive maximum ends the connection where the rule is enforced`() {
        world.limits.publishWindowMaximum = 2
        world.limits.enforcesPublishWindow = true
        world.beginMQTT("bob/pc")
        for identifier in 1...3 as ClosedRange<UInt16> {
            world.publish("bob/pc", identifier, "t", "x", grade: .once)
        }
        #expect(world.lines().contains("bob/pc: closed, receiveMaximumExceeded"))
    }

    @Test func `to a store that is full is refused, and its identifier free again`() {
        world.fillStore()
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        #expect(world.lines() == ["bob/pc: received 5, quotaExceeded"])
        world.forgetFullStore()
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.settle()
        #expect(world.lines(of: "bob/pc") == ["received 5"])
    }

    @Test func `of QoS 2 that a full store takes back is refused`() {
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.store.isFull = true
        world.settle()
        #expect(world.lines() == ["bob/pc: received 5, quotaExceeded"])
        world.store.isFull = false
        world.forgetFullStore()
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.settle()
        #expect(world.gauges.queuedMessages == 1)
    }

    /// Found by the simulation: all that the session had under way was written once more, as an
    /// MRT session's is, and came back after a crash without packet identifiers.
    @Test func `of QoS 2 that a full store takes back leaves nothing behind`() {
        world.publish("bob/pc", 4, "t", "w", grade: .once)
        world.settle()
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.store.isFull = true
        world.settle()
        world.store.isFull = false
        world.lose("bob/pc")
        world.settle()
        world.crash()
        world.beginMQTT("bob/pc")
        world.publish("bob/pc", 4, "t", "w", grade: .once)
        world.publish("bob/pc", 6, "t", "y")
        world.settle()
        #expect(world.lines(of: "bob/pc") == ["received 4", "accepted 6"])
    }

    /// Found by the simulation: what was known of the receivers did not outlive the broker.
    @Test(arguments: [false, true])
    func `of QoS 2 to a list tells again who was refused`(hasIdentifier: Bool) {
        world.subscribeMQTT("ann/phone", "$u/ann")
        _ = world.lines()
        let id = hasIdentifier ? "m1" : ""
        let receivers = Target.users(["nobody", "ann"])
        world.publish("bob/pc", 5, to: receivers, "hi", grade: .once, id: id)
        world.settle()
        let refusal = "[0: topicNameInvalid]"
        #expect(world.lines(of: "bob/pc").map { $0.hasSuffix(refusal) } == [true])
        if hasIdentifier { world.lose("bob/pc") } else { world.crash() }
        world.beginMQTT("bob/pc")
        let identifier: UInt16 = hasIdentifier ? 6 : 5
        world.publish("bob/pc", identifier, to: receivers, "hi", grade: .once, id: id)
        world.settle()
        #expect(world.lines(of: "bob/pc").map { $0.hasSuffix(refusal) } == [true])
        #expect(world.gauges.queuedMessages == 1)
    }

    /// Found by reading, on the way to the former.
    @Test func `that is refused while its sender is away gives its identifier free`() {
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.lose("bob/pc")
        world.store.isFull = true
        world.settle()
        world.store.isFull = false
        world.forgetFullStore()
        world.beginMQTT("bob/pc")
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        #expect(world.lines(of: "bob/pc") == ["received 5, quotaExceeded"])
        world.publish("bob/pc", 5, "t", "y", grade: .once)
        world.settle()
        #expect(world.lines(of: "bob/pc") == ["received 5"])
    }

    @Test func `goes to users, groups and everybody as in MRT`() {
        world.begin("eve/pad")
        world.publish("bob/pc", 1, to: .user("eve"), "hi")
        world.publish("bob/pc", 2, to: .everybody, "all")
        #expect(
            world.lines(of: "eve/pad") == [
                "#1 \"hi\" from bob", "#2 \"all\" from bob by broadcast",
            ])
    }
}
