// What a user's session leaves when it ends while others of the user's go on.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `What a session leaves that expires before others of its user` {
    let world = World()

    private func send(_ numbers: ClosedRange<UInt64>, _ grade: Grade = .durable) {
        for number in numbers {
            world.send("bob/pc", number, to: .user("ann"), "\(number)", grade: grade)
        }
        world.settle()
    }

    /// What a session of ann's was given since the last call.
    private func taken(by name: String) -> [Int] {
        world.lines().filter { $0.hasPrefix("\(name): ") && $0.contains("from bob") }.map { line in
            Int(line.split(separator: "\"")[1])!
        }
    }

    init() {
        world.begin("bob/pc")
        world.begin("ann/old", expiry: 100)
        world.lose("ann/old")
    }

    @Test func `is what the newer one has not heard, and that goes to it`() {
        send(1...3)
        world.begin("ann/new")
        send(4...5)
        #expect(taken(by: "ann/new") == [4, 5])
        world.pass(seconds: 100)
        world.settle()
        #expect(taken(by: "ann/new") == [1, 2, 3])
        #expect(world.counters.discarded == 2)
        #expect(world.gauges.queuedMessages == 5)
    }

    @Test func `goes to one that is away, and outlives a crash`() {
        send(1...3, .once)
        world.begin("ann/new", expiry: 1000)
        world.lose("ann/new")
        send(4...5, .once)
        world.crash()
        world.pass(seconds: 100)
        world.settle()
        world.crash()
        #expect(world.gauges.queuedMessages == 5)
        world.connect("ann/new", expiry: 1000)
        world.settle()
        #expect(taken(by: "ann/new") == [4, 5, 1, 2, 3])
    }

    @Test func `goes back to waiting with the last one`() {
        send(1...3)
        world.begin("ann/new", expiry: 200)
        world.lose("ann/new")
        send(4...5)
        world.pass(seconds: 100)
        world.settle()
        world.pass(seconds: 100)
        world.settle()
        #expect(world.gauges.sessions == 1)
        #expect(world.gauges.queuedMessages == 5)
        world.connect("ann/third")
        world.settle()
        #expect(taken(by: "ann/third").sorted() == [1, 2, 3, 4, 5])
    }

    @Test func `goes on where both end before that is committed`() {
        send(1...3)
        world.begin("ann/new", expiry: 100)
        world.lose("ann/new")
        world.pass(seconds: 100)
        #expect(world.gauges.sessions == 1)
        world.settle()
        #expect(world.gauges.queuedMessages == 3)
        world.connect("ann/third")
        world.settle()
        #expect(taken(by: "ann/third") == [1, 2, 3])
    }

    @Test func `is there once where both have it and end at once`() {
        world.begin("ann/new", expiry: 100)
        world.lose("ann/new")
        send(1...3)
        world.pass(seconds: 100)
        #expect(world.gauges.sessions == 1)
        world.settle()
        #expect(world.gauges.queuedMessages == 3)
        world.connect("ann/third")
        world.settle()
        #expect(taken(by: "ann/third") == [1, 2, 3])
    }

    @Test func `goes on where a newcomer takes it over before that is committed`() {
        send(1...3)
        world.begin("ann/new", expiry: 101)
        world.lose("ann/new")
        world.settle()
        world.pass(seconds: 100)
        world.beginCommit()
        world.pass(seconds: 1)
        world.connect("ann/third")
        world.finishCommit()
        world.settle()
        #expect(taken(by: "ann/third") == [1, 2, 3])
        #expect(world.gauges.queuedMessages == 3)
    }

    @Test func `is what came in the very batch in which the newer one began`() {
        world.send("bob/pc", 1, to: .user("ann"), "1")
        world.connect("ann/new")
        world.send("bob/pc", 2, to: .user("ann"), "2")
        world.settle()
        #expect(taken(by: "ann/new") == [2])
        world.pass(seconds: 100)
        world.settle()
        #expect(taken(by: "ann/new") == [1])
    }

    @Test func `is nothing that it subscribed to for itself`() {
        world.connect("ann/old", expiry: 100)
        world.subscribe("ann/old", "t")
        world.settle()
        world.lose("ann/old")
        world.send("bob/pc", 1, to: .topic("t"), "1", isRaw: true)
        world.send("bob/pc", 2, to: .everybody, "2")
        world.send("bob/pc", 3, to: .user("ann"), "3")
        world.settle()
        world.begin("ann/new")
        world.pass(seconds: 100)
        world.settle()
        #expect(taken(by: "ann/new") == [3])
        #expect(world.counters.discarded == 2)
    }

    @Test func `goes to an MQTT session from when that subscribed to its user`() {
        send(1...2)
        world.beginMQTT("ann/new")
        world.subscribeMQTT("ann/new", "$u/ann")
        _ = world.lines()
        send(3...3)
        #expect(taken(by: "ann/new") == [3])
        world.pass(seconds: 100)
        world.settle()
        #expect(taken(by: "ann/new") == [1, 2])
    }
}
