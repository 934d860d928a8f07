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

    @Test func `moves when it is committed, where its receiver is lost meanwhile`() {
        world.publish("bob/pc", 1, "t", "job")
        let first = receiver(world.lines())
        world.beginCommit()
        world.lose(first)
        #expect(receiver(world.lines()) == "")
        world.finishCommit()
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

/// Nothing that was acknowledged is lost as long as its session, or another of its share, is there.
@Suite struct `What waits for a session of a share` {
    let world = World()

    init() {
        world.beginMQTT("bob/pc", "ann/phone", "eve/pad")
        world.subscribeMQTT("ann/phone", "$share/w/t")
        _ = world.lines()
    }

    private func publish(_ count: Int, grade: Grade = .durable) {
        for number in 1...count {
            world.publish("bob/pc", UInt16(number), "t", "job \(number)", grade: grade)
            if number % 50 == 0 { world.settle() }
        }
        world.settle()
    }

    /// The jobs that a session was given since the last call, in their order.
    private func jobs(of name: String) -> [Int] {
        world.lines().filter { $0.hasPrefix("\(name): ") && $0.contains("\"job ") }.map { line in
            Int(line.split(separator: "\"")[1].dropFirst(4))!
        }
    }

    @Test func `moves in a store without room`() {
        publish(20)
        _ = world.lines()
        world.subscribeMQTT("eve/pad", "$share/w/t")
        world.store.isFull = true
        world.fillStore()
        world.lose("ann/phone")
        world.settle()
        #expect(jobs(of: "eve/pad") == Array(1...20))
        world.crash()
        world.connect("eve/pad", expiry: 3600, dialect: .mqtt5)
        world.settle()
        #expect(jobs(of: "eve/pad") == Array(1...20))
    }

    @Test func `stays where the others are not stored, and outlives a crash`() {
        publish(10)
        _ = world.lines()
        world.beginMQTT("finn/pad", expiry: 0)
        world.subscribeMQTT("finn/pad", "$share/w/t")
        world.lose("ann/phone")
        world.settle()
        #expect(jobs(of: "finn/pad") == [])
        world.crash()
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.settle()
        #expect(jobs(of: "ann/phone") == Array(1...10))
    }

    @Test func `goes to the others when the session expires, what is on disk alone too`() {
        world.lose("ann/phone")
        publish(150)
        world.beginMQTT("eve/pad")
        world.subscribeMQTT("eve/pad", "$share/w/t")
        _ = world.lines()
        world.pass(seconds: 3600)
        var taken: [Int] = []
        for number in 1...300 {
            world.settle()
            taken += jobs(of: "eve/pad")
            world.answer("eve/pad", .accepted, UInt16(number))
        }
        #expect(taken == Array(1...150))
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.counters.discarded == 0)
        #expect(world.store.heldMessages == [])
    }

    @Test(arguments: 0..<8)
    func `goes on to the others after a crash at any commit`(commits: Int) {
        world.lose("ann/phone")
        publish(150)
        // It outlasts the session that is left behind.
        world.beginMQTT("eve/pad", expiry: 7200)
        world.subscribeMQTT("eve/pad", "$share/w/t")
        world.lose("eve/pad")
        world.settle()
        world.pass(seconds: 3599)
        world.settle()
        _ = world.lines()
        world.pass(seconds: 1)
        for _ in 0..<commits { world.commit() }
        world.beginCommit()
        world.crash(committing: commits % 2 == 0)
        world.pass(seconds: 0)
        world.settle()
        #expect(world.gauges.queuedMessages == 150)
        world.connect("eve/pad", expiry: 3600, dialect: .mqtt5)
        var taken: [Int] = []
        for _ in 1...150 {
            world.settle()
            for line in world.lines() where line.contains("\"job ") {
                taken.append(Int(line.split(separator: "\"")[1].dropFirst(4))!)
                let number = UInt64(line.split(separator: "#")[1].prefix { $0.isNumber })!
                world.answer("eve/pad", .accepted, PacketIdentifier.derived(from: number))
            }
        }
        #expect(taken.sorted() == Array(1...150))
    }

    @Test func `goes to another session of the share that took it, and to no other share`() {
        world.subscribeMQTT("eve/pad", "$share/other/t")
        publish(3)
        for number in 1...3 { world.answer("eve/pad", .accepted, UInt16(number)) }
        world.settle()
        _ = world.lines()
        world.beginMQTT("finn/pad")
        world.subscribeMQTT("finn/pad", "$share/w/t")
        _ = world.lines()
        world.disconnect("ann/phone", expiry: 0)
        world.settle()
        #expect(jobs(of: "finn/pad") == [1, 2, 3])
        #expect(world.gauges.queuedMessages == 3)
    }

    @Test func `goes to nobody who shares another filter under the same name`() {
        world.beginMQTT("finn/pad", "eve/pad")
        world.subscribeMQTT("finn/pad", "$share/w/#")
        publish(2)
        #expect(jobs(of: "finn/pad") == [1, 2])
        world.lose("finn/pad")
        world.settle()
        #expect(jobs(of: "ann/phone") == [])
        world.connect("finn/pad", expiry: 3600, dialect: .mqtt5)
        world.settle()
        #expect(jobs(of: "finn/pad") == [1, 2])
    }

    @Test func `goes to others though the session has unsubscribed`() {
        publish(2)
        world.subscribeMQTT("eve/pad", "$share/w/t")
        world.unsubscribe("ann/phone", "$share/w/t")
        world.settle()
        _ = world.lines()
        world.disconnect("ann/phone", expiry: 0)
        world.settle()
        #expect(jobs(of: "eve/pad") == [1, 2])
    }

    @Test func `is given to those in memory when nobody who is stored is left`() {
        publish(2)
        world.beginMQTT("finn/pad", expiry: 0)
        world.subscribeMQTT("finn/pad", "$share/w/t")
        _ = world.lines()
        world.disconnect("ann/phone", expiry: 0)
        world.settle()
        #expect(jobs(of: "finn/pad") == [1, 2])
    }

    @Test func `is discarded, and counted, when the whole share is gone`() {
        publish(2)
        world.disconnect("ann/phone", expiry: 0)
        world.settle()
        #expect(world.counters.discarded == 2)
        #expect(world.store.heldMessages == [])
    }

    @Test func `waits for room in the others' queues`() {
        world.lose("ann/phone")
        publish(4)
        world.beginMQTT("eve/pad", window: 1)
        world.subscribeMQTT("eve/pad", "$share/w/t")
        world.limits.queueCountMaximum = 2
        _ = world.lines()
        world.pass(seconds: 3600)
        world.settle()
        #expect(world.gauges.queuedMessages == 4)
        var taken = jobs(of: "eve/pad")
        for number in 1...4 {
            world.answer("eve/pad", .accepted, UInt16(number))
            world.settle()
            world.pass(seconds: 10)
            world.settle()
            taken += jobs(of: "eve/pad")
        }
        #expect(taken == [1, 2, 3, 4])
        #expect(world.counters.discarded == 0)
    }

    @Test(arguments: [false, true])
    func `is given to a session with room, also while another's turn it is`(isStored: Bool) {
        world.limits.queueCountMaximum = 2
        world.limits.memoryQueueCountMaximum = 2
        world.beginMQTT("eve/pad", expiry: isStored ? 3600 : 0)
        world.subscribeMQTT("eve/pad", "$share/w/t")
        world.subscribeMQTT("eve/pad", "own")
        for number in 1...2 { world.publish("bob/pc", UInt16(number), "own", "own \(number)") }
        world.settle()
        _ = world.lines()
        for number in 3...4 {
            world.publish("bob/pc", UInt16(number), "t", "job \(number)")
        }
        world.settle()
        #expect(jobs(of: "ann/phone") == [3, 4])
        world.publish("bob/pc", 5, "t", "job 5")
        world.settle()
        #expect(world.lines(of: "bob/pc") == ["accepted 5, quotaExceeded"])
    }

    @Test func `that a refused commit would have stored is refused, not lost`() {
        world.subscribeMQTT("eve/pad", "$share/w/t")
        world.lose("ann/phone", "eve/pad")
        world.settle()
        _ = world.lines()
        world.store.isFull = true
        world.publish("bob/pc", 1, "t", "job 1")
        world.beginCommit()
        for name in ["ann/phone", "eve/pad"] {
            world.connect(name, clean: true, expiry: 3600, dialect: .mqtt5)
        }
        world.finishCommit()
        world.settle()
        #expect(world.lines(of: "bob/pc") == ["accepted 1, quotaExceeded"])
    }
}

/// The names `workers` and `m201739` have the same hash with this filter.
@Suite struct `Shares whose names have the same hash` {
    let world = World()
    private static let own = "$share/workers/jobs/#"
    private static let other = "$share/m201739/jobs/#"

    enum Restart: CaseIterable, Sendable {
        case none, beforeMessages, withMessages
    }

    /// The jobs that a session was given since the last call.
    private func jobs(of name: String, _ lines: [String]) -> [Int] {
        lines.filter { $0.hasPrefix("\(name): ") && $0.contains("\"job ") }.map { line in
            Int(line.split(separator: "\"")[1].dropFirst(4))!
        }
    }

    private func restart() {
        world.crash()
        world.beginMQTT("bob/pc", "mallory/pc", "ann/phone", "eve/pad")
    }

    private func publish(_ numbers: ClosedRange<Int>) {
        for number in numbers {
            world.publish("bob/pc", UInt16(number), "jobs/x", "job \(number)")
            world.settle()
        }
    }

    @Test(arguments: Restart.allCases)
    func `keep what each of their members leaves`(_ restart: Restart) {
        world.beginMQTT("bob/pc", "mallory/pc", "ann/phone", "eve/pad")
        world.subscribeMQTT("mallory/pc", Self.other)
        for name in ["ann/phone", "eve/pad"] { world.subscribeMQTT(name, Self.own) }
        if restart == .beforeMessages { self.restart() }
        _ = world.lines()
        publish(1...6)
        var lines = world.lines()
        #expect(jobs(of: "mallory/pc", lines) == Array(1...6))
        let own = jobs(of: "eve/pad", lines)
        #expect(own.count == 3 && jobs(of: "ann/phone", lines).count == 3)
        if restart == .withMessages { self.restart() }
        world.disconnect("ann/phone", expiry: 0)
        world.settle()
        lines = world.lines()
        #expect(jobs(of: "mallory/pc", lines) == [])
        #expect(Set(own + jobs(of: "eve/pad", lines)) == Set(1...6))
        #expect(world.counters.discarded == 0)
    }

    private var numbers: [String: UInt16] {
        var numbers: [String: UInt16] = [:]
        for audience in world.broker.routing.audiences.places
        where world.broker.routing.audiences.contains(audience)
            && world.broker.routing.audiences[audience].share != 0
        {
            let filter = String(
                decoding: world.broker.routing.audiences[audience].filter, as: UTF8.self)
            numbers[filter] = world.broker.routing.audiences[audience].share
        }
        return numbers
    }

    @Test func `have numbers of their own, which a restart does not change`() throws {
        world.beginMQTT("bob/pc", "mallory/pc", "ann/phone", "eve/pad")
        world.subscribeMQTT("mallory/pc", Self.other)
        world.subscribeMQTT("ann/phone", Self.own)
        let before = numbers
        let hash = try #require(before[Self.other])
        #expect(before[Self.own] == hash + 1)
        restart()
        #expect(numbers == before)
        // A number is kept while the one that has it by its hash is gone, and given again after.
        world.unsubscribe("mallory/pc", Self.other)
        world.settle()
        world.subscribeMQTT("eve/pad", Self.own)
        restart()
        #expect(numbers == [Self.own: hash + 1])
        for name in ["ann/phone", "eve/pad"] { world.unsubscribe(name, Self.own) }
        world.settle()
        world.subscribeMQTT("eve/pad", Self.own)
        #expect(numbers == [Self.own: hash])
    }

    /// Entries of both carry the one number: which of them they are of, nobody knows.
    @Test func `stay as they were where an earlier version has stored them`() throws {
        world.beginMQTT("bob/pc", "mallory/pc", "ann/phone", "eve/pad")
        world.subscribeMQTT("mallory/pc", Self.other)
        let hash = try #require(numbers[Self.other])
        world.subscribeMQTT("ann/phone", Self.own)
        world.rewriteRows(of: .subscriptions) { row in
            if row[0] == 2 {
                row.removeLast(2)
                row[0] = 1
            }
        }
        restart()
        #expect(numbers == [Self.other: hash, Self.own: hash])
        world.unsubscribe("mallory/pc", Self.other)
        world.settle()
        world.subscribeMQTT("eve/pad", Self.other)
        #expect(numbers == [Self.own: hash, Self.other: hash + 1])
        restart()
        #expect(numbers == [Self.own: hash, Self.other: hash + 1])
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

    @Test func `that are not renewed go to nobody`() {
        world.beginMQTT("ann/phone")
        publish("1")
        world.retireSystemValues()
        #expect(world.subscribeMQTT("ann/phone", "$SYS/#") == [2])
        #expect(world.lines().filter { $0.contains("\"1\"") }.isEmpty)
        publish("2")
        #expect(world.lines().filter { $0.contains("\"2\"") }.count == 1)
        world.beginMQTT("bob/phone")
        #expect(world.subscribeMQTT("bob/phone", "$SYS/#") == [2])
        #expect(world.lines().filter { $0.contains("\"2\"") }.count == 1)
    }

    @Test func `need a right that names them`() throws {
        func allows(_ texts: [String], _ filter: String) throws -> Bool {
            let rights = try Rights(texts.map { Array($0.utf8) })
            let names = PrincipalNames(user: Name(Array("ann".utf8)), device: Name([]))
            return Array(filter.utf8).withUnsafeBytes {
                var comparisons = 0
                let verdict = rights.decidingByName(
                    .subscribe(filter: $0), for: names, comparisons: &comparisons)
                return Decision(verdict).isAllowed
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
