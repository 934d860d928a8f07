// Retained messages and MQTT's wills.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A retained message` {
    let world = World()

    init() {
        world.beginMQTT("bob/pc", "ann/phone")
        _ = world.lines()
    }

    @Test func `is sent to who subscribes later, in the lower of both grades`() {
        world.publish("bob/pc", 1, "t/a", "kept", grade: .once, isRetained: true)
        world.settle()
        world.subscribeMQTT("ann/phone", "t/#", grade: .durable)
        #expect(world.lines(of: "ann/phone").contains("#1 \"kept\" from bob on t/a, retained"))
        world.answer("ann/phone", .accepted, 1)
        world.subscribeMQTT("ann/phone", "+/a", grade: .transient)
        #expect(world.lines(of: "ann/phone").contains("#- \"kept\" from bob on t/a, retained"))
    }

    @Test func `takes the place of the one before, and an empty one takes it away`() {
        world.publish("bob/pc", 1, "t", "old", isRetained: true)
        world.publish("bob/pc", "t", "new", grade: .transient, isRetained: true)
        world.settle()
        #expect(world.broker.retention.retained.count == 1)
        world.subscribeMQTT("ann/phone", "t")
        #expect(world.lines(of: "ann/phone").contains("#- \"new\" from bob on t, retained"))
        world.publish("bob/pc", 2, "t", "", isRetained: true)
        #expect(world.lines(of: "ann/phone") == ["#1 \"\" from bob on t"])
        world.settle()
        #expect(world.broker.retention.retained.count == 0)
    }

    @Test func `is acknowledged when it is committed, also where nobody receives it`() {
        world.publish("bob/pc", 1, "t", "kept", isRetained: true)
        #expect(world.lines() == [])
        world.settle()
        #expect(world.lines() == ["bob/pc: accepted 1, noMatchingSubscribers"])
        world.crash()
        world.beginMQTT("ann/phone")
        world.subscribeMQTT("ann/phone", "#", grade: .durable)
        #expect(
            world.unnumberedLines().contains("ann/phone: \"kept\" from bob on t, retained"))
    }

    @Test func `comes again with a repeated subscription, or not, as that wants`() {
        world.publish("bob/pc", 1, "t", "kept", isRetained: true)
        world.settle()
        func count(_ options: SubscriptionOptions) -> Int {
            _ = world.lines()
            world.subscribeMQTT("ann/phone", "t", grade: .transient, options: options)
            return world.lines(of: "ann/phone").filter { $0.contains("kept") }.count
        }
        #expect(count(.withoutRetained) == 0)
        #expect(count([]) == 1)
        #expect(count(.retainedIfNew) == 0)
    }

    @Test func `expires, in the store too`() {
        world.publish("bob/pc", 1, "t", "kept", isRetained: true, expiry: 60)
        world.publish("bob/pc", 2, "u", "stays", isRetained: true)
        world.settle()
        world.crash()
        #expect(world.broker.retention.retained.count == 2)
        world.pass(seconds: 61)
        world.settle()
        #expect(world.broker.retention.retained.count == 1)
        world.crash()
        #expect(world.broker.retention.retained.count == 1)
    }

    @Test func `is not kept beyond the limit, nor in a full store`() {
        world.limits.retainedPerAppMaximum = 1
        world.publish("bob/pc", 1, "a", "x", isRetained: true)
        world.publish("bob/pc", 2, "b", "x", isRetained: true)
        world.publish("bob/pc", 3, "a", "", isRetained: true)
        world.settle()
        #expect(world.lines(of: "bob/pc")[1] == "accepted 2, quotaExceeded")
        #expect(world.broker.retention.retained.count == 0)
    }

    @Test func `is not kept beyond the app's bytes, which a deletion gives back`() {
        world.limits.retainedBytesPerAppMaximum = 600
        let text = String(repeating: "x", count: 100)
        world.publish("bob/pc", 1, "r/1", text, isRetained: true)
        world.publish("bob/pc", 2, "r/2", text, isRetained: true)
        world.settle()
        #expect(
            world.lines(of: "bob/pc") == [
                "accepted 1, noMatchingSubscribers", "accepted 2, quotaExceeded",
            ])
        world.publish("bob/pc", 3, "r/1", "", isRetained: true)
        world.publish("bob/pc", 4, "r/2", text, isRetained: true)
        world.settle()
        #expect(world.lines(of: "bob/pc").last == "accepted 4, noMatchingSubscribers")
    }

    @Test func `counts the levels of its topic, of which there may be many for one byte`() {
        let levels = String(repeating: "a/", count: 25)
        world.limits.retainedBytesPerAppMaximum = 10_000
        for number in 1...4 {
            let topic = "\(levels)\(number)/\(levels)z"
            world.publish("bob/pc", UInt16(number), topic, "x", isRetained: true)
        }
        world.settle()
        let refused = world.lines(of: "bob/pc").map { $0.hasSuffix("quotaExceeded") }
        #expect(refused == [false, true, true, true])
        // A topic whose levels are there already costs one node.
        world.publish("bob/pc", 5, "\(levels)5", "x", isRetained: true)
        world.settle()
        #expect(world.lines(of: "bob/pc") == ["accepted 5, noMatchingSubscribers"])
    }

    @Test func `is replaced where one more would not be kept`() {
        world.limits.retainedPerAppMaximum = 1
        world.publish("bob/pc", 1, "a", "old", isRetained: true)
        world.publish("bob/pc", 2, "a", "new", isRetained: true)
        world.publish("bob/pc", 3, "b", "one more", isRetained: true)
        world.settle()
        #expect(
            world.lines(of: "bob/pc") == [
                "accepted 1, noMatchingSubscribers", "accepted 2, noMatchingSubscribers",
                "accepted 3, quotaExceeded",
            ])
        world.subscribeMQTT("ann/phone", "#")
        #expect(world.lines(of: "ann/phone").contains("#1 \"new\" from bob on a, retained"))
    }

    @Test func `of a will is sent and not kept beyond the limit`() {
        world.limits.retainedPerAppMaximum = 1
        world.subscribeMQTT("ann/phone", "wills")
        world.setWill("bob/pc", to: .topic("wills"), "lost", isRetained: true)
        world.publish("ann/phone", 1, "a", "kept", isRetained: true)
        world.settle()
        _ = world.lines()
        world.lose("bob/pc")
        world.settle()
        #expect(world.lines(of: "ann/phone").contains { $0.contains("on wills") })
        #expect(world.broker.retention.retained.count == 1)
    }

    @Test func `is not sent by a shared subscription`() {
        world.publish("bob/pc", 1, "t", "kept", isRetained: true)
        world.settle()
        _ = world.lines()
        world.subscribeMQTT("ann/phone", "$share/w/t")
        #expect(world.lines() == ["ann/phone: subscribe 1"])
    }

    /// Lets the client read until it is sent nothing more; how many deliveries it got in each
    /// piece.
    private func readAll() -> [Int] {
        var pieces: [Int] = []
        while true {
            let lines = world.lines(of: "ann/phone")
            pieces.append(lines.count { $0.contains("retained") })
            guard lines.contains("tell when it has read") else { return pieces }
            world.step(.outgoingDrained(world.connections["ann/phone"]!))
        }
    }

    @Test func `is one of many that are sent as fast as their client reads`() {
        let text = String(repeating: "x", count: 1_000)
        for number in 1...40 {
            world.publish("bob/pc", "r/\(number)", text, grade: .transient, isRetained: true)
        }
        world.settle()
        _ = world.lines()
        world.subscribeMQTT("ann/phone", "r/#", grade: .transient)
        let pieces = readAll()
        #expect(pieces.reduce(0, +) == 40)
        #expect(pieces.allSatisfy { $0 <= 17 })
        #expect(world.broker.retention.replays.count == 0)

        // However often a filter is repeated meanwhile, it waits once.
        let filters = Array(repeating: "r/#", count: 200)
        for filter in filters { world.subscribeMQTT("ann/phone", filter, grade: .transient) }
        #expect(readAll().reduce(0, +) == 80)
        // Whose session lasts gets the rest on its next connection.
        world.subscribeMQTT("ann/phone", "r/#", grade: .transient)
        let begun = world.lines(of: "ann/phone").count { $0.contains("retained") }
        world.lose("ann/phone")
        world.settle()
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.settle()
        #expect(begun + readAll().reduce(0, +) == 40)
        #expect(world.broker.retention.replays.count == 0)
        // Who leaves in the middle for good leaves nothing behind.
        world.subscribeMQTT("ann/phone", "r/#", grade: .transient)
        world.disconnect("ann/phone", expiry: 0)
        #expect(world.broker.retention.replays.count == 0)
    }

    /// Retained messages that a session was given since the last call, each by its topic.
    private func retainedTopics(of name: String) -> Set<String> {
        Set(
            world.lines(of: name).compactMap { line in
                guard line.contains("retained") else { return nil }
                return line.split(separator: " on ").last?.split(separator: ",").first
                    .map(String.init)
            })
    }

    @Test(arguments: 0..<9)
    func `comes to a session that lasts, also where the broker dies meanwhile`(commits: Int) {
        world.limits.replayStepsMaximum = 4
        for number in 1...20 {
            world.publish("bob/pc", UInt16(number), "r/\(number)", "kept", isRetained: true)
            world.publish("bob/pc", UInt16(100 + number), "s/\(number)", "kept", isRetained: true)
        }
        world.settle()
        _ = world.lines()
        world.subscribeMQTT("ann/phone", "r/#", "s/+", grade: .durable)
        #expect(world.broker.retention.replays.count == 1)
        var received = retainedTopics(of: "ann/phone")
        // Some pieces are sent, of which some are stored, before it dies.
        for _ in 0..<commits {
            world.step(.outgoingDrained(world.connections["ann/phone"]!))
            if commits % 2 == 0 { world.settle() }
        }
        received.formUnion(retainedTopics(of: "ann/phone"))
        world.crash(committing: commits % 3 == 0)
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.settle()
        for _ in 0..<60 {
            world.step(.outgoingDrained(world.connections["ann/phone"]!))
            world.settle()
            received.formUnion(retainedTopics(of: "ann/phone"))
        }
        #expect(received.count == 40)
        #expect(world.broker.retention.replays.count == 0)
        // It is over: the next start begins nothing.
        world.crash()
        #expect(world.broker.retention.replays.count == 0)
    }

    @Test func `is not sent again by a broker that dies after all have been stored`() {
        world.publish("bob/pc", 1, "t", "kept", isRetained: true)
        world.settle()
        world.subscribeMQTT("ann/phone", "t", grade: .durable)
        world.crash()
        #expect(world.broker.retention.replays.count == 0)
    }

    @Test func `is found by exactly the filters that match its topic`() {
        var tree = RetainedTree<String>()
        let topics = ["a", "a/b", "a/b/c", "/", "$x/y", "a//c"]
        for (index, topic) in topics.enumerated() {
            Array(topic.utf8).withUnsafeBytes { _ = tree.set($0, to: Index(place: UInt32(index))) }
        }
        func matches(_ filter: String) -> [String] {
            tree.matches(Array(filter.utf8)).map { topics[Int($0.place)] }.sorted()
        }
        #expect(matches("#") == ["/", "a", "a/b", "a/b/c", "a//c"].sorted())
        #expect(matches("a/#") == ["a", "a/b", "a/b/c", "a//c"].sorted())
        #expect(matches("a/+") == ["a/b"])
        #expect(matches("a/+/c") == ["a/b/c", "a//c"].sorted())
        #expect(matches("+/+") == ["/", "a/b"])
        #expect(matches("$x/#") == ["$x/y"])
        #expect(matches("a/b") == ["a/b"])
        for topic in topics { Array(topic.utf8).withUnsafeBytes { _ = tree.remove($0) } }
        #expect(tree.count == 0)
        #expect(matches("#") == [])
    }
}

@Suite struct `The will of an MQTT connection` {
    let world = World()

    init() {
        world.beginMQTT("bob/pc")
        world.subscribeMQTT("bob/pc", "w", grade: .durable)
        _ = world.lines()
    }

    func connect(
        will text: String, grade: Grade = .durable, delay: UInt32 = 0, retain: Bool = false
    ) {
        world.connect(
            "ann/phone", expiry: 3600, dialect: .mqtt5,
            will: { bytes in
                var message = SendRequest(
                    number: 0, grade: grade, target: .topic(bytes.appendRange("w")), isRaw: true,
                    payload: bytes.appendRange(text), messageByteCount: 0)
                message.isRetained = retain
                return WillRequest(delaySeconds: delay, message: message)
            })
    }

    @Test func `is committed before its client is let in`() {
        connect(will: "gone")
        #expect(world.lines() == [])
        world.settle()
        #expect(world.lines() == ["ann/phone: accepted, new"])
        world.lose("ann/phone")
        world.settle()
        #expect(world.lines() == ["bob/pc: #1 \"gone\" from ann on w"])
    }

    @Test(arguments: [Grade.transient, .durable, .once])
    func `is sent in its own grade, and retained if it says so`(grade: Grade) {
        connect(will: "gone", grade: grade, retain: true)
        world.settle()
        world.lose("ann/phone")
        world.settle()
        let number = grade == .transient ? "#-" : "#1"
        #expect(world.lines(of: "bob/pc") == ["\(number) \"gone\" from ann on w"])
        #expect(world.broker.retention.retained.count == 1)
        #expect(world.broker.willTable.wills.count == 0)
    }

    @Test func `is replaced, or removed, by the next connection`() {
        connect(will: "one", delay: 60)
        world.settle()
        world.lose("ann/phone")
        connect(will: "two", delay: 60)
        world.settle()
        #expect(world.broker.willTable.wills.count == 1)
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.settle()
        #expect(world.broker.willTable.wills.count == 0)
        _ = world.lines()
        world.lose("ann/phone")
        world.pass(seconds: 61)
        #expect(world.lines() == [])
    }

    @Test func `is not sent where the client says good-bye, and is where it wants that`() {
        connect(will: "gone")
        world.settle()
        world.disconnect("ann/phone")
        world.settle()
        #expect(world.lines(of: "bob/pc") == [])
        connect(will: "gone")
        world.settle()
        world.disconnect("ann/phone", sendsWill: true)
        world.settle()
        #expect(world.lines(of: "bob/pc") == ["#1 \"gone\" from ann on w"])
    }
}

@Suite struct `An MQTT login` {
    let world = World()

    @Test func `without a client id gets one, and is told`() {
        world.connect("ann/", dialect: .mqtt5, adjust: { $0.assignsDevice = true })
        world.settle()
        #expect(world.lines() == ["ann/: accepted, new"])
        #expect(world.assignedDevice.hasPrefix("auto-"))
        #expect(world.assignedDevice.count == 18)
    }

    @Test func `that starts clean forgets what was under way, identifiers included`() {
        world.beginMQTT("bob/pc")
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.settle()
        world.lose("bob/pc")
        world.beginMQTT("bob/pc", clean: true)
        world.crash()
        world.beginMQTT("bob/pc")
        world.publish("bob/pc", 5, "t", "x", grade: .once)
        world.settle()
        #expect(world.lines() == ["bob/pc: received 5, noMatchingSubscribers"])
        #expect(world.counters.sendsRepeated == 0)
    }

    @Test func `that ends with its connection cannot be kept by its good-bye`() {
        world.connect("bob/pc", expiry: 0, dialect: .mqtt5)
        world.settle()
        _ = world.lines()
        world.disconnect("bob/pc", expiry: 60)
        #expect(world.lines() == ["bob/pc: closed, protocolError"])
    }
}
