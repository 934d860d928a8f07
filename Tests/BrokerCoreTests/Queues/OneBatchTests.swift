// Operations on one queue that meet within one batch.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `Operations on a queue that meet within a batch` {
    let world = World()

    init() {
        world.begin("bob/pc")
    }

    private func send(_ numbers: ClosedRange<UInt64>, expiry: UInt64? = nil) {
        for number in numbers {
            world.send("bob/pc", number, to: .user("ann"), "\(number)", expiry: expiry)
        }
        world.settle()
        world.seeResults("bob/pc", through: numbers.upperBound)
    }

    /// What a session of ann's was given since the last call.
    private func taken(by name: String) -> [Int] {
        world.lines().filter { $0.hasPrefix("\(name): ") && $0.contains("from bob") }.map { line in
            Int(line.split(separator: "\"")[1])!
        }
    }

    private func isThere(_ name: String) -> Bool {
        world.broker.session(of: world.connections[name]!) != nil
    }

    /// Two devices: the older has messages that the newer has not heard, and is connected.
    private func beginTwo(_ numbers: ClosedRange<UInt64> = 1...5, expiry: UInt64? = nil) {
        world.begin("ann/a", expiry: 1_000)
        world.lose("ann/a")
        send(numbers, expiry: expiry)
        world.begin("ann/b", expiry: 1_000, window: 2)
        world.connect("ann/a", expiry: 1_000)
        world.settle()
    }

    /// The load removes what the transfer of the same batch brought.
    @Test func `arrivals that have expired, and a load that finds them`() {
        beginTwo(expiry: 4)
        send(6...15)
        world.pass(seconds: 5)
        world.disconnect("ann/a", expiry: 0)
        world.acknowledge("ann/b", through: world.sentThrough("ann/b"))
        world.settle()
        for _ in 0..<10 {
            world.acknowledge("ann/b", through: world.sentThrough("ann/b"))
            world.settle()
        }
        #expect(taken(by: "ann/b") == Array(6...15))
        #expect(world.gauges.queuedMessages == 0)
    }

    /// Nobody has been given a number that waits for the transfer.
    @Test(arguments: [false, true], [1, 3, 5] as [UInt64])
    func `arrivals, and a resume at their numbers`(isInFlight: Bool, distance: UInt64) {
        beginTwo()
        send(6...6)
        let held = world.sentThrough("ann/b")
        world.acknowledge("ann/b", through: held)
        world.lose("ann/b")
        world.settle()
        _ = world.lines()
        let epoch = world.epochs["ann/b"]!
        world.disconnect("ann/a", expiry: 0)
        if isInFlight { world.beginCommit() }
        world.connect("ann/b", expiry: 1_000, resume: (epoch, held + distance))
        #expect(!isThere("ann/b"))
        if isInFlight { world.finishCommit() }
        world.settle()
        _ = world.lines()
        world.connect("ann/b", expiry: 1_000, resume: (epoch, held))
        world.settle()
        #expect(taken(by: "ann/b") == Array(1...5))
        #expect(world.gauges.queuedMessages == 5)
    }

    @Test(arguments: [false, true])
    func `arrivals, and a purge`(isInFlight: Bool) {
        beginTwo()
        world.lose("ann/b")
        world.disconnect("ann/a", expiry: 0)
        if isInFlight { world.beginCommit() }
        var filter = SessionFilter(app: World.app, user: Array("ann".utf8))
        filter.isConnected = false
        world.purgeQueues(matching: filter)
        world.connect("ann/b", expiry: 1_000)
        if isInFlight { world.finishCommit() }
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.counters.missingEntries == 0)
    }

    /// Arrivals, the queue they go to, and the one that inherits that, all end in one batch.
    @Test(arguments: [false, true])
    func `arrivals in a queue that is moved on by a session that ends`(isInFlight: Bool) {
        beginTwo()
        world.disconnect("ann/a", expiry: 0)
        if isInFlight { world.beginCommit() }
        world.disconnect("ann/b", expiry: 0)
        world.connect("ann/c", expiry: 1_000, dialect: .mqtt5)
        world.subscribe("ann/c", "$u/ann")
        world.disconnect("ann/c", expiry: 0)
        if isInFlight { world.finishCommit() }
        world.settle()
        #expect(world.gauges.queuedMessages == 5)
        world.connect("ann/d", expiry: 1_000)
        world.settle()
        #expect(taken(by: "ann/d").sorted() == Array(1...5))
    }

    @Test func `a trim of an offline queue, and a session that inherits it and ends`() {
        world.limits.queueCountMaximum = 3
        world.limits.queuePolicy = .oldest
        world.addUser("ann")
        send(1...3)
        for number in 4...5 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("ann"), "\(number)")
        }
        world.connect("ann/c", expiry: 1_000, dialect: .mqtt5)
        world.subscribe("ann/c", "$u/ann")
        world.disconnect("ann/c", expiry: 0)
        world.settle()
        #expect(world.gauges.queuedMessages == 3)
    }

    /// No operation leads here. Each load is a commit, so that the same one must not be repeated.
    @Test func `a load that finds nothing of a backlog corrects it`() {
        world.begin("ann/a", expiry: 1_000)
        world.lose("ann/a")
        send(1...5)
        world.connect("ann/a", expiry: 1_000)
        let session = world.broker.session(of: world.connections["ann/a"]!)!
        world.store.lose(world.broker.sessions[session].inbox.queue)
        world.settle()
        #expect(world.counters.missingEntries == 5)
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.broker.sessions[session].inbox.byteCount == 0)
        send(6...8)
        #expect(taken(by: "ann/a") == [6, 7, 8])
    }

    /// What comes while the load is under way is not in the store yet.
    @Test func `a load that finds nothing leaves what the next batch stores`() {
        world.begin("ann/a", expiry: 1_000)
        world.lose("ann/a")
        send(1...5)
        world.connect("ann/a", expiry: 1_000)
        world.commit()
        let session = world.broker.session(of: world.connections["ann/a"]!)!
        world.store.lose(world.broker.sessions[session].inbox.queue)
        world.beginCommit()
        world.send("bob/pc", 6, to: .user("ann"), "6")
        world.finishCommit()
        #expect(world.counters.missingEntries == 5)
        #expect(world.gauges.queuedMessages == 1)
        world.settle()
        #expect(taken(by: "ann/a") == [6])
    }
}
