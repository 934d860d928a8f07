// What the core does by itself, now and then: expired messages leave the store, rows are written,
// and a store that was put back from a backup gets new epochs.

import BrokerSimulation
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `Housekeeping` {
    let world = World()

    /// Lets rounds of housekeeping pass.
    func runHousekeeping(rounds: Int = 1) {
        for _ in 0..<rounds {
            world.pass(seconds: 10)
            world.settle()
        }
    }

    @Test func `is not due where nothing waits`() {
        world.begin("bob/pc", "ann/phone")
        runHousekeeping(rounds: 2)
        #expect(!world.hasBatch)
        #expect(world.nextDeadline == nil)
    }

    @Test func `removes expired messages of who is away from the store`() {
        world.begin("bob/pc", "ann/phone", "ann/watch")
        world.lose("ann/phone")
        world.addUser("carl")
        world.send("bob/pc", 1, to: .users(["ann", "carl"]), "1", expiry: 5)
        world.send("bob/pc", 2, to: .users(["ann", "carl"]), "2", expiry: 500)
        world.settle()
        world.acknowledge("ann/watch", through: 2)
        runHousekeeping(rounds: 2)
        #expect(world.counters.expired == 2)
        #expect(world.gauges.queuedMessages == 2)
        #expect(world.store.heldMessages.count == 1)
        world.connect("ann/phone")
        world.connect("carl/pc")
        world.settle()
        #expect(
            world.lines().filter { $0.contains("#") }.suffix(2) == [
                "ann/phone: #2 \"2\" from bob", "carl/pc: #2 \"2\" from bob",
            ])
    }

    @Test func `leaves what is in a window to its acknowledgement`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "1", expiry: 5)
        world.settle()
        runHousekeeping(rounds: 2)
        #expect(world.counters.expired == 0)
        world.acknowledge("ann/phone", through: 1)
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.store.heldMessages == [])
    }

    @Test func `removes expired messages behind a window`() {
        world.begin("bob/pc")
        world.begin("ann/phone", window: 1)
        for number in 1...6 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("ann"), "\(number)", expiry: 5)
            world.settle()
        }
        runHousekeeping(rounds: 2)
        // One is under way, one is in memory behind it.
        #expect(world.gauges.queuedMessages == 2)
        #expect(world.counters.expired == 4)
    }

    @Test func `counts what is acknowledged while it is being swept once`() {
        world.begin("bob/pc", "ann/phone")
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("ann"), "\(number)", expiry: 5)
        }
        world.settle()
        world.pass(seconds: 10)
        world.beginCommit()
        world.acknowledge("ann/phone", through: 2)
        world.disconnect("ann/phone", expiry: 0)
        world.finishCommit()
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.counters.expired == 1)
        #expect(world.store.heldMessages == [])
    }

    @Test func `counts what a device says it holds while it is being swept once`() {
        world.begin("bob/pc", "ann/phone")
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("ann"), "\(number)", expiry: 5)
        }
        world.settle()
        world.lose("ann/phone")
        world.pass(seconds: 10)
        world.beginCommit()
        world.connect("ann/phone", resume: (world.epochs["ann/phone"]!, 2))
        world.finishCommit()
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.counters.expired == 1)
    }

    @Test func `counts what expires in a window while it is being swept once`() {
        world.begin("bob/pc")
        world.begin("ann/phone", window: 1)
        world.send("bob/pc", 1, to: .user("ann"), "1")
        world.send("bob/pc", 2, to: .user("ann"), "2", expiry: 5)
        world.send("bob/pc", 3, to: .user("ann"), "3")
        world.settle()
        world.pass(seconds: 10)
        world.beginCommit()
        world.acknowledge("ann/phone", through: 1)
        world.lose("ann/phone")
        world.finishCommit()
        world.settle()
        #expect(world.gauges.queuedMessages == 1)
        #expect(world.counters.expired == 1)
    }

    @Test func `writes rows that nobody waits for`() {
        world.begin("ann/phone", expiry: 100)
        world.lose("ann/phone")
        #expect(!world.hasBatch)
        runHousekeeping()
        world.crash()
        world.pass(seconds: 90)
        #expect(world.gauges.sessions == 0)
    }

    // MARK: - Backups

    @Test func `gives sessions new epochs where the store was put back from a backup`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "1")
        world.settle()
        let epochs = world.epochs
        let backup = world.store
        world.send("bob/pc", 2, to: .user("ann"), "2")
        world.settle()
        world.store = backup
        world.store.identity = StoreIdentity(high: 7, low: 7)
        world.crash()
        _ = world.lines()
        // It holds number 2 of an epoch that is over: everything there is comes again.
        world.connect("ann/phone", resume: (epochs["ann/phone"]!, 2))
        world.settle()
        #expect(world.lines() == ["ann/phone: accepted, present", "ann/phone: #1 \"1\" from bob"])
        #expect(world.epochs["ann/phone"] != epochs["ann/phone"])
        world.connect("bob/pc", outbox: (7, 1, 2))
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 2, to: .user("ann"), "2", grade: .once)
        world.settle()
        #expect(
            world.unnumberedLines() == [
                "bob/pc: result 2, sent", "ann/phone: \"2\" from bob, once, possible duplicate",
            ])
        // From the next start on it is a store like any other.
        let renewed = world.epochs["ann/phone"]
        world.crash()
        world.connect("ann/phone")
        #expect(world.epochs["ann/phone"] == renewed)
    }

    @Test func `keeps epochs over any other start`() {
        world.begin("ann/phone")
        let epoch = world.epochs["ann/phone"]
        world.crash()
        world.begin("ann/phone")
        #expect(world.epochs["ann/phone"] == epoch)
    }

    @Test func `refuses to start from a row it cannot have written`() {
        var store = InMemoryStore()
        var batch = StoreBatch()
        batch.records = [RecordChange(table: .sessions, key: [1, 2], value: [9])]
        var result = StoreResult()
        store.carryOut(batch, into: &result)
        var broker = Broker(at: world.now)
        let state = store.restore(into: &broker)
        var failure: RestoreError?
        do throws(RestoreError) {
            try broker.finishRestoring(state, newEpochSeed: 1, at: world.now)
        } catch {
            failure = error
        }
        #expect(failure == .unreadableRecord(.sessions, key: [1, 2]))
    }
}
