// Moderated publications of MQTT clients.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A moderated publication` {
    let world = World()

    init() {
        world.moderate { $0.topics = [Array("chat/#".utf8)] }
        world.beginModerator(dialect: .mqtt5)
        world.beginMQTT("ann/1", "bob/pc")
        world.subscribeMQTT("censor/1", "$u/censor")
        world.subscribeMQTT("bob/pc", "chat/#", "plain")
        _ = world.lines()
    }

    /// A verdict of a client of MQTT.
    private func decide(_ question: UInt64, _ verdict: String, _ text: String = "") {
        world.publish(
            "censor/1", "$verdict/\(question)/\(verdict)", text, grade: .transient)
    }

    @Test func `is answered in its turn, and nothing overtakes it`() {
        world.publish("ann/1", 1, "chat/a", "one")
        world.publish("ann/1", 2, "plain", "two")
        world.publish("ann/1", 3, "chat/a", "three", grade: .once)
        let (numbers, others) = world.questions()
        #expect(numbers.count == 2 && others == [])
        decide(numbers[1], "accept")
        decide(numbers[0], "accept")
        let lines = world.outcome()
        #expect(
            lines.filter { $0.hasPrefix("bob") } == [
                "bob/pc: #1 \"one\" from ann on chat/a", "bob/pc: #2 \"two\" from ann on plain",
                "bob/pc: #3 \"three\" from ann on chat/a, once",
            ])
        #expect(
            lines.filter { $0.hasPrefix("ann") } == [
                "ann/1: accepted 1", "ann/1: accepted 2", "ann/1: received 3",
            ])
    }

    @Test func `is refused with a code`() {
        world.publish("ann/1", 1, "chat/a", "one")
        decide(world.questions().numbers[0], "refuse/-7", "no")
        #expect(
            world.outcome() == [
                #"ann/1: accepted 1, implementationSpecificError, verdict -7 "no""#
            ])
    }

    @Test func `is changed, and its answer says so`() {
        world.publish("ann/1", 1, "chat/a", "one", isRetained: true)
        decide(world.questions().numbers[0], "rewrite/5", "two")
        let lines = world.outcome()
        #expect(lines.contains("bob/pc: #1 \"two\" from ann on chat/a"))
        #expect(lines.contains("ann/1: accepted 1, verdict 5"))
    }

    @Test func `of grade once that is repeated while it is held is one message`() {
        world.publish("ann/1", 9, "chat/a", "one", grade: .once)
        world.publish("ann/1", 9, "chat/a", "one", grade: .once)
        let numbers = world.questions().numbers
        #expect(numbers.count == 1)
        decide(numbers[0], "accept")
        #expect(world.outcome().filter { $0.hasPrefix("ann") } == ["ann/1: received 9"])
    }

    @Test func `of grade once whose connection ends is a new one when it is repeated`() {
        world.publish("ann/1", 9, "chat/a", "one", grade: .once)
        let first = world.questions().numbers[0]
        world.lose("ann/1")
        world.connect("ann/1", expiry: 3600, dialect: .mqtt5)
        world.settle()
        _ = world.lines()
        world.publish("ann/1", 9, "chat/a", "one", grade: .once)
        decide(first, "accept")
        #expect(world.outcome().filter { $0.hasPrefix("bob") } == [])
        world.pass(milliseconds: 2_000)
        #expect(
            world.outcome().filter { $0.hasPrefix("ann") } == ["ann/1: received 9, quotaExceeded"])
    }

    @Test func `of QoS 0 is held like others`() {
        world.publish("ann/1", "chat/a", "one", grade: .transient)
        decide(world.questions().numbers[0], "refuse")
        #expect(
            world.outcome() == ["ann/1: result 0, implementationSpecificError, verdict -1"])
    }

    @Test func `with an application id that is held twice is delivered once`() {
        world.publish("ann/1", 1, to: .topic("chat/a"), "one", id: "m")
        world.publish("ann/1", 2, to: .topic("chat/a"), "one", id: "m")
        for number in world.questions().numbers { decide(number, "accept") }
        let lines = world.outcome()
        #expect(lines.filter { $0.hasPrefix("bob") }.count == 1)
        #expect(lines.filter { $0.hasPrefix("ann/1: accepted") }.count == 2)
    }

    @Test(arguments: [
        ("chat/#", "chat", true), ("chat/#", "chat/a/b", true), ("chat/+", "chat/a", true),
        ("chat/+", "chat", false), ("chat/+", "chat/a/b", false), ("#", "a", true),
        ("a/b", "a/b", true), ("a/b", "a", false), ("a", "a/b", false), ("+/b/#", "a/b", true),
        ("+/+", "/", true), ("a/+/#", "a", false),
    ])
    func `is one on a topic that a filter matches`(filter: String, topic: String, matches: Bool) {
        var filters = FilterSet()
        filters.replace(with: [Array(filter.utf8)])
        #expect(filters.matches(Array(topic.utf8).span.bytes) == matches)
    }
}
