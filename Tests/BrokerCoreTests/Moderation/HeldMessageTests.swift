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

    private func accept() -> [String] {
        let question = world.questions().numbers[0]
        world.decide(question, "accept")
        return world.outcome()
    }

    /// Each option makes a message unusual; those that it does not have are empty ranges somewhere
    /// among the bytes that the loop has read.
    @Test func `keeps its options, and the empty ones beside them`() {
        world.sendFields("ann/1", 1, to: .user("bob"), "a", asks: [.delivered])
        #expect(accept().contains("ann/1: result 1, sent"))
        world.sendFields("ann/1", 2, to: .user("bob"), "b", priority: .high)
        #expect(accept().contains("ann/1: result 2, sent"))
        world.sendFields("ann/1", 3, to: .user("bob"), "c", attributes: ["k": "v"])
        #expect(accept().contains { $0.contains("k=v") })
        world.sendCollapsing("ann/1", 4, to: .user("bob"), "d", key: "key")
        #expect(accept().contains("ann/1: result 4, sent"))
        world.sendWaking("ann/1", 5, to: .user("bob"), "e", push: "{}")
        #expect(accept().contains("ann/1: result 5, sent"))
        world.broker.checkInvariants()
    }

    @Test func `to a group keeps that it mentions all, and nobody by name`() {
        let group = world.makeGroup(owner: "ann/1", members: ["bob/pc"])
        _ = world.lines()
        world.sendFields("ann/1", 1, to: .group(group), "a", [.all])
        #expect(accept().contains { $0.contains("mentions all") })
    }

    /// The broker could not answer its pings: it would leave, and send everything again.
    @Test func `never stops the reading of a client whose keep-alive is shorter than its wait`() {
        world.connect(
            "eve/1", outbox: (epoch: 7, seen: 0, used: 0), adjust: { $0.keepAliveSeconds = 1 })
        world.settle()
        for number in 1...200 { world.send("eve/1", UInt64(number), to: .user("bob"), "x") }
        #expect(world.counters.readingPauses == 0)
        for number in 1...128 { world.send("ann/1", UInt64(number), to: .user("bob"), "x") }
        #expect(world.counters.readingPauses == 1)
    }
}
