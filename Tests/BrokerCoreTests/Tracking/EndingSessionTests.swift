// Sessions that end before what their clients have is read from the store: the senders of these
// messages are told all the same.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A session that is resumed and ends at once` {
    let world = World()

    private func told(_ name: String) -> [String] {
        world.settleAll()
        return world.lines().filter { $0.hasPrefix(name) && $0.contains("#") }
    }

    /// bob's device has the first of three messages, and its acknowledgement was lost.
    private func begin() -> UInt64 {
        world.begin("ann/1", "bob/pc", "bob/phone")
        let epoch = world.epochs["bob/pc"]!
        world.disconnect("bob/phone", expiry: 0)
        world.settle()
        for number in UInt64(1)...3 {
            world.send("ann/1", number, to: .user("bob"), "\(number)", asks: .delivered)
        }
        world.settle()
        world.lose("bob/pc")
        world.settle()
        _ = world.lines()
        return epoch
    }

    private func resume(_ epoch: UInt64, through number: UInt64) {
        world.connect(
            "bob/pc", resume: (epoch: epoch, number: number),
            outbox: (epoch: 7, seen: 0, used: 0))
    }

    @Test(arguments: [false, true])
    func `tells what was delivered, and leaves the rest to the user`(isCommitting: Bool) {
        let epoch = begin()
        if isCommitting {
            world.send("ann/1", 4, to: .user("ann"), "other")
            #expect(world.beginCommit())
        }
        resume(epoch, through: 2)
        world.acknowledge("bob/pc", through: 2)
        world.disconnect("bob/pc", expiry: 0)
        if isCommitting { world.finishCommit() }
        let receipts = told("ann").filter { $0.contains("delivered") }
        #expect(
            receipts.map { String($0.suffix(23)) } == [
                " a1 delivered to bob/pc", " a2 delivered to bob/pc",
            ])
        #expect(world.gauges.sessions == 1)
        world.begin("bob/tablet")
        world.disconnect("bob/tablet")
        world.connect("bob/tablet", resume: (world.epochs["bob/tablet"]!, 0))
        #expect(told("bob").map { $0.contains(#""3" from ann"#) } == [true])
        #expect(world.broker.tracking.resumed.isEmpty && world.broker.tracking.ending.isEmpty)
        world.broker.checkInvariants()
    }

    @Test func `tells it also when its time has passed`() {
        let epoch = begin()
        resume(epoch, through: 1)
        world.disconnect("bob/pc", expiry: 1)
        // Nothing is committed until it expires.
        world.pass(seconds: 2)
        #expect(
            told("ann").filter { $0.contains("delivered") }.map { String($0.suffix(23)) }
                == [" a1 delivered to bob/pc"])
        #expect(world.gauges.sessions == 1)
    }

    @Test func `goes on if its client connects again before that`() {
        let epoch = begin()
        resume(epoch, through: 1)
        world.disconnect("bob/pc", expiry: 0)
        resume(epoch, through: 2)
        let lines = told("")
        #expect(lines.count { $0.hasPrefix("ann") && $0.contains("delivered") } == 2)
        #expect(
            lines.filter { $0.hasPrefix("bob") }.map { $0.contains(#"#3 "3" from ann"#) } == [true])
        world.pass(seconds: 60)
        #expect(world.gauges.sessions == 2)
        #expect(world.broker.tracking.ending.isEmpty)
    }

    @Test func `has read what expired before it was loaded`() {
        world.begin("ann/1", "bob/pc")
        let epoch = world.epochs["bob/pc"]!
        world.send("ann/1", 1, to: .user("bob"), "old", expiry: 5, asks: .delivered)
        world.settle()
        world.lose("bob/pc")
        _ = world.lines()
        world.pass(seconds: 6)
        resume(epoch, through: 1)
        world.settleAll()
        world.broker.checkInvariants()
        world.send("ann/1", 2, to: .user("bob"), "new")
        #expect(told("bob") == [#"bob/pc: #2 "new" from ann"#])
    }
}
