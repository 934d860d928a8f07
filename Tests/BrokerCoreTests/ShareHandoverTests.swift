// What becomes of the messages of a shared subscription whose receiver goes away.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A message of a shared subscription` {
    let world = World()

    init() {
        world.beginMQTT("bob/pc", "ann/phone", "eve/pad")
        for name in ["ann/phone", "eve/pad"] {
            world.subscribeMQTT(name, "$share/w/t", grade: .once)
        }
        _ = world.lines()
    }

    /// Who was given a message, by its line.
    private func receiver(_ lines: [String]) -> String {
        lines.first { $0.contains("\"job\"") }?.split(separator: ":").first.map(String.init) ?? ""
    }

    @Test func `moves to another session when its receiver is lost, and is nobody's twice`() {
        world.publish("bob/pc", 1, "t", "job")
        let first = receiver(world.lines())
        world.settle()
        _ = world.lines()
        world.lose(first)
        let second = receiver(world.lines())
        #expect(second != first)
        #expect(["ann/phone", "eve/pad"].contains(second))
        world.settle()
        world.answer(second, .accepted, 1)
        world.settle()
        _ = world.lines()
        world.connect(first, expiry: 3600, dialect: .mqtt5)
        world.settle()
        #expect(world.lines() == ["\(first): accepted, present"])
        #expect(world.counters.sharesHandedOver == 1)
    }

    @Test func `moves when it is committed, where its receiver is lost before`() {
        world.publish("bob/pc", 1, "t", "job")
        let first = receiver(world.lines())
        world.lose(first)
        #expect(receiver(world.lines()) == "")
        world.settle()
        let lines = world.lines()
        #expect(receiver(lines) != "")
        #expect(receiver(lines) != first)
        #expect(lines.contains("bob/pc: accepted 1"))
    }

    @Test func `stays where nobody else is there, also through a crash`() {
        world.lose("eve/pad")
        world.publish("bob/pc", 1, "t", "job")
        world.settle()
        #expect(receiver(world.lines()) == "ann/phone")
        world.lose("ann/phone")
        world.settle()
        world.crash()
        world.beginMQTT("eve/pad")
        #expect(receiver(world.lines()) == "")
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.settle()
        #expect(receiver(world.lines()) == "ann/phone")
    }

    @Test func `of QoS 2 waits for its receiver`() {
        world.publish("bob/pc", 1, "t", "job", grade: .once)
        world.settle()
        let first = receiver(world.lines())
        #expect(first != "")
        world.lose(first)
        world.settle()
        #expect(receiver(world.lines()) == "")
        world.connect(first, expiry: 3600, dialect: .mqtt5)
        world.settle()
        #expect(receiver(world.lines()) == first)
    }

    @Test func `outlives a session that ends with its connection`() {
        let world = World()
        world.beginMQTT("bob/pc", "ann/phone")
        world.beginMQTT("eve/pad", expiry: 0)
        world.subscribeMQTT("eve/pad", "$share/w/t", grade: .durable)
        world.publish("bob/pc", 1, "t", "job")
        world.settle()
        #expect(receiver(world.lines()) == "eve/pad")
        world.subscribeMQTT("ann/phone", "$share/w/t", grade: .durable)
        world.lose("eve/pad")
        world.settle()
        #expect(receiver(world.lines()) == "ann/phone")
    }
}

@Suite struct `The broker's own topics` {
    let world = World()

    private func publish(_ payload: String) {
        world.publishSystem("$SYS/broker/uptime", payload)
    }

    @Test func `go to who subscribes to them, the last value at once`() {
        world.beginMQTT("ann/phone")
        #expect(!world.hasSystemSubscribers)
        publish("1")
        #expect(world.subscribeMQTT("ann/phone", "$SYS/#", "#") == [2, 2])
        #expect(world.hasSystemSubscribers)
        #expect(world.lines().filter { $0.contains("\"1\"") }.count == 1)
        publish("2")
        #expect(world.lines().filter { $0.contains("\"2\"") }.count == 1)
        world.unsubscribe("ann/phone", "$SYS/#")
        world.settle()
        _ = world.lines()
        publish("3")
        #expect(world.lines() == [])
        #expect(!world.hasSystemSubscribers)
    }

    @Test func `need a right that names them`() throws {
        func allows(_ texts: [String], _ filter: String) throws -> Bool {
            let rights = try Rights(texts.map { Array($0.utf8) })
            let bearer = RightsBearer(user: Name(Array("ann".utf8)), device: Name([]))
            return Array(filter.utf8).withUnsafeBytes {
                rights.decidingByName(.subscribe(filter: $0), bearer) != nil
            }
        }
        #expect(try allows(["subscribe:$SYS/#"], "$SYS/broker/uptime"))
        #expect(try allows(["subscribe:$SYS/broker/+"], "$SYS/broker/uptime"))
        #expect(try !allows(["subscribe:#", "subscribe:+/broker/#"], "$SYS/broker/uptime"))
        #expect(try !allows(["subscribe:$SYS/broker/clients/#"], "$SYS/#"))
        #expect(try !allows(["publish:$SYS/#"], "$SYS/#"))
    }

    @Test func `are nobody else's to publish on`() {
        world.beginMQTT("ann/phone")
        world.publish("ann/phone", 1, "$SYS/broker/uptime", "0")
        #expect(world.lines(of: "ann/phone") == ["accepted 1, topicNameInvalid"])
    }
}
