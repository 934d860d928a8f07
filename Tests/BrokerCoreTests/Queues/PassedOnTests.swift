// What several sessions of one user pass on that end one after the other or at once, and what they
// leave of shared subscriptions where nobody has room.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `Sessions of one user that end one after the other` {
    let world = World()

    init() {
        world.begin("bob/pc")
    }

    private func send(_ numbers: ClosedRange<UInt64>) {
        for number in numbers {
            world.send("bob/pc", number, to: .user("ann"), "\(number)")
            world.settle()
            world.seeResults("bob/pc", through: number)
        }
    }

    /// What a session of ann's was given since the last call.
    private func taken(by name: String) -> [Int] {
        world.lines().filter { $0.hasPrefix("\(name): ") && $0.contains("from bob") }.map { line in
            Int(line.split(separator: "\"")[1])!
        }
    }

    private func goAway(_ name: String) {
        world.begin(name, expiry: 10_000)
        world.lose(name)
    }

    private func wake(_ name: String) {
        world.connect(name, expiry: 10_000)
        world.settle()
        _ = world.lines()
    }

    /// Fills the queues of two sessions, ends the older, and gives the younger what both had.
    private func fillTwice() {
        world.limits.queueCountMaximum = 100
        goAway("ann/d1")
        send(1...100)
        goAway("ann/d2")
        send(101...200)
        world.connect("ann/d1", expiry: 10_000)
        world.disconnect("ann/d1", expiry: 0)
        world.settle()
        #expect(world.gauges.queuedMessages == 200)
    }

    @Test func `pass on all of it, with numbers that nothing else has`() {
        fillTwice()
        for name in ["ann/d2", "ann/d3", "ann/d4"] { wake(name) }
        // Both go into one batch: what d3 gets it has to pass on before that is there.
        world.disconnect("ann/d2", expiry: 0)
        world.disconnect("ann/d3", expiry: 0)
        // What comes meanwhile waits behind that.
        world.limits.queueCountMaximum = 1_000
        send(201...203)
        world.lose("ann/d4")
        world.crash()
        _ = world.lines()
        world.connect("ann/d4", expiry: 10_000)
        world.settle()
        var got: [Int] = []
        for _ in 0..<10 {
            got += taken(by: "ann/d4")
            let session = world.broker.session(of: world.connections["ann/d4"]!)!
            let connected = world.broker.connectedIndex(of: session)
            let last = world.broker.live.connectedSessions[connected].sentThrough
            world.acknowledge("ann/d4", through: last)
            world.settle()
        }
        #expect(got.sorted() == Array(1...203))
        #expect(world.counters.discarded == 0)
        world.broker.checkInvariants()
    }

    @Test(arguments: [false, true])
    func `pass on all of it where the limit is lowered meanwhile`(isCommitted: Bool) {
        fillTwice()
        for name in ["ann/d2", "ann/d3", "ann/d4"] { wake(name) }
        world.disconnect("ann/d2", expiry: 0)
        if isCommitted { world.beginCommit() }
        world.limits.queueCountMaximum = 1
        world.disconnect("ann/d3", expiry: 0)
        if isCommitted { world.finishCommit() }
        world.settle()
        #expect(world.gauges.queuedMessages == 200)
        let session = world.broker.session(of: world.connections["ann/d4"]!)!
        #expect(world.broker.sessions[session].inbox.nextNumber > 200)
        #expect(world.counters.discarded == 0)
        world.broker.checkInvariants()
    }

    @Test func `pass on what came by the offlineQueue that one of them took over`() {
        world.limits.queueCountMaximum = 100
        goAway("ann/d1")
        send(1...50)
        goAway("ann/d2")
        send(51...60)
        world.connect("ann/d1", expiry: 10_000)
        world.connect("ann/d2", expiry: 10_000)
        world.settle()
        world.disconnect("ann/d1", expiry: 0)
        world.beginCommit()
        // With that commit d2 gets d1's 50, which it leaves to the offline queue. An MQTT session
        // takes that over and ends with it, all in the next batch.
        world.disconnect("ann/d2", expiry: 0)
        world.connect("ann/d3", expiry: 10_000, dialect: .mqtt5)
        world.subscribe("ann/d3", "$u/ann")
        world.connect("ann/d4", expiry: 10_000)
        world.disconnect("ann/d3", expiry: 0)
        world.finishCommit()
        world.settle()
        #expect(world.gauges.queuedMessages == 60)
        world.broker.checkInvariants()
    }

    @Test func `pass on no more than the limit of what is inherited`() {
        world.limits.inheritedCountMinimum = 5
        world.limits.queueCountMaximum = 100
        goAway("ann/d1")
        send(1...4)
        goAway("ann/d2")
        send(5...7)
        world.limits.queueCountMaximum = 1
        world.connect("ann/d1", expiry: 10_000)
        world.disconnect("ann/d1", expiry: 0)
        world.settle()
        // d2 has three of its own and room for two.
        #expect(world.gauges.queuedMessages == 5)
        #expect(world.counters.discarded == 5)
        world.connect("ann/d2", expiry: 10_000)
        world.settle()
        #expect(taken(by: "ann/d2") == [5, 6, 7, 1, 2])
        world.broker.checkInvariants()
    }
}

@Suite struct `What sessions leave of shared subscriptions` {
    let world = World()

    init() {
        world.beginMQTT("bob/pc")
        world.limits.queueCountMaximum = 2
        world.limits.leftoverCountMinimum = 3
        world.beginMQTT("eve/pad")
        world.subscribeMQTT("eve/pad", "$share/w/t", grade: .durable)
        world.lose("eve/pad")
        publish(2)
    }

    private func publish(_ count: Int) {
        for number in 1...count { world.publish("bob/pc", UInt16(number), "t", "job") }
        world.settle()
        _ = world.lines()
    }

    /// A session takes part in the share, is given two messages, and ends.
    private func takeAndEnd() {
        world.beginMQTT("ann/phone")
        world.subscribeMQTT("ann/phone", "$share/w/t", grade: .durable)
        world.lose("ann/phone")
        publish(2)
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.settle()
        world.disconnect("ann/phone", expiry: 0)
        world.settle()
        world.broker.checkInvariants()
    }

    @Test func `is bounded for a user, and the rest is counted as discarded`() {
        for _ in 1...4 { takeAndEnd() }
        #expect(world.gauges.queuedMessages == 2 + 3)
        #expect(world.counters.discarded == 5)
        world.crash()
        #expect(world.gauges.queuedMessages == 2 + 3)
        world.beginMQTT("bob/pc")
        takeAndEnd()
        #expect(world.gauges.queuedMessages == 2 + 3)
        #expect(world.broker.queues.leftoversOfUsers.count == 1)
    }

    @Test func `counts among what waits in its app`() {
        takeAndEnd()
        #expect(world.gauges.queuedMessages == 4)
        world.limits.queueBytesPerAppMaximum = world.gauges.queuedBytes
        world.pass(seconds: 10)
        world.settle()
        world.publish("bob/pc", 1, "t", "one more")
        world.settle()
        #expect(world.lines(of: "bob/pc").contains { $0.contains("quota") })
    }

    @Test func `is looked at less often where nobody has room for it`() {
        takeAndEnd()
        var walks = 0
        for _ in 1...64 {
            world.pass(seconds: 10)
            let last = Array(world.broker.queues.leftovers.places).last!
            if world.broker.queues.leftovers[last].isUnderWay { walks += 1 }
            world.settle()
        }
        #expect((6...12).contains(walks))
        world.connect("eve/pad", expiry: 3600, dialect: .mqtt5)
        world.settle()
        for number in 1...2 { world.answer("eve/pad", .accepted, UInt16(number)) }
        world.settle()
        _ = world.lines()
        for _ in 1...8 {
            world.pass(seconds: 10)
            world.settle()
        }
        #expect(world.gauges.queuedMessages == 2)
        #expect(world.broker.queues.leftovers.count == 0)
    }
}
