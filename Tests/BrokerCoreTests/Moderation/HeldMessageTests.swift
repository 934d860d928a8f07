// What a held message keeps of the packet that it came with, and what its connection notices.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A held message` {
    let world = World()

    init() {
        world.moderate()
        world.beginModerator()
        world.begin("ann/1", "bob/pc")
    }

    private func accept() throws -> [String] {
        world.decide(try #require(world.questions().numbers.first), "accept")
        return world.outcome()
    }

    /// Whether a message was accepted.
    private func isSent(_ number: UInt64) throws -> Bool {
        try accept().contains { $0.hasPrefix("ann/1: result \(number), sent") }
    }

    /// Each option makes a message unusual; those that it does not have are empty ranges somewhere
    /// among the bytes that the loop has read.
    @Test func `keeps its options, and the empty ones beside them`() throws {
        world.sendFields("ann/1", 1, to: .user("bob"), "a", asks: [.delivered])
        #expect(try isSent(1))
        world.sendFields(
            "ann/1", 0, to: .user("bob"), "b", grade: .transient, priority: .high)
        #expect(try accept().contains { $0.hasPrefix("bob/pc: ") && $0.contains("\"b\"") })
        world.sendFields("ann/1", 2, to: .user("bob"), "c", attributes: ["k": "v"])
        #expect(try accept().contains { $0.contains("k=v") })
        world.sendCollapsing("ann/1", 3, to: .user("bob"), "d", key: "key")
        #expect(try isSent(3))
        world.sendWaking("ann/1", 4, to: .user("bob"), "e", push: "{}")
        #expect(try isSent(4))
        world.broker.checkInvariants()
    }

    @Test func `to a group keeps that it mentions all, and nobody by name`() throws {
        let group = world.makeGroup(owner: "ann/1", members: ["bob/pc"])
        _ = world.lines()
        world.sendFields("ann/1", 1, to: .group(group), "a", [.all])
        #expect(try accept().contains { $0.contains("mentions all") })
    }

    /// The broker could not answer its pings: it would leave, and send everything again.
    @Test func `never stops the reading of a client whose keep-alive is shorter than its wait`() {
        world.connect(
            "eve/1", outbox: (epoch: 7, seen: 0, used: 0), adjust: { $0.keepAliveSeconds = 1 })
        world.settle()
        func send(_ name: String, _ count: Int) {
            for _ in 0..<count {
                world.send(name, 0, to: .user("bob"), "x", grade: .transient)
            }
        }
        send("eve/1", 200)
        #expect(world.gauges.heldMessages == 200 && world.counters.readingPauses == 0)
        send("ann/1", CoreLimits.heldPauseCount)
        #expect(world.counters.readingPauses == 1)
    }
}
