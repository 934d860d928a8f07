// Members who joined a group after a message: they did not get it, so they tell nothing about it,
// and are not late when it is recalled.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `Members who joined later` {
    let world = World()

    private func apply(_ name: String, _ reference: UInt64) {
        world.step(
            .appliedReported(
                world.connections[name]!, requestIdentifier: world.freeRequest(name),
                AppliedRequest(reference: reference, code: 0, text: .empty)))
    }

    /// The answers to requests since the last call, without their numbers.
    private func answers(of name: String) -> [String] {
        world.settleAll()
        return world.lines().filter { $0.hasPrefix(name + ": response") }
            .map { String($0.split(separator: " ").last!) }
    }

    private func join(_ name: String, _ group: String) {
        world.groups(name) { .join($0.appendRange(group)) }
        world.settleAll()
        _ = world.lines()
    }

    private func beginAgain(_ names: String...) {
        for name in names { world.connect(name, outbox: (epoch: 7, seen: 0, used: 0)) }
        world.settleAll()
        _ = world.lines()
    }

    @Test(arguments: [false, true])
    func `cannot tell that they applied a message, also after a restart`(restarts: Bool) {
        world.begin("ann/1", "bob/1", "carl/1", "dora/1")
        let group = world.makeGroup(owner: "ann/1", members: ["bob/1"])
        world.send("ann/1", 1, to: .group(group), "on", asks: .applied)
        world.settleAll()
        join("carl/1", group)
        world.send("ann/1", 2, to: .group(group), "on", asks: .applied)
        world.settleAll()
        join("dora/1", group)
        if restarts {
            world.crash()
            beginAgain("ann/1", "bob/1", "carl/1", "dora/1")
            world.checkRows()
        }
        apply("carl/1", 0xA1)
        #expect(answers(of: "carl/1") == ["topicNameInvalid"])
        apply("carl/1", 0xA2)
        #expect(answers(of: "carl/1") == ["success"])
        apply("dora/1", 0xA2)
        #expect(answers(of: "dora/1") == ["topicNameInvalid"])
        apply("bob/1", 0xA1)
        apply("bob/1", 0xA2)
        #expect(answers(of: "bob/1") == ["success", "success"])
    }

    @Test(arguments: [false, true])
    func `are neither late nor told of a recall`(restarts: Bool) {
        world.begin("ann/1", "bob/1", "carl/1")
        let group = world.makeGroup(owner: "ann/1", members: ["bob/1"])
        world.send("ann/1", 1, to: .group(group), "on", asks: .reference)
        world.settleAll()
        join("carl/1", group)
        if restarts {
            world.crash()
            beginAgain("ann/1", "bob/1", "carl/1")
        }
        world.recall("ann/1", 0xA1)
        world.settleAll()
        #expect(world.lastRecall == "0 withdrawn, 1 late")
        #expect(!world.lines().contains { $0.hasPrefix("carl") && $0.contains("#") })
    }

    @Test func `tell what they did with a later message that mentions them`() {
        world.begin("ann/1", "bob/1", "carl/1")
        let group = world.makeGroup(owner: "ann/1", members: ["bob/1"])
        world.send("ann/1", 1, to: .group(group), "on", asks: .applied)
        world.settleAll()
        join("carl/1", group)
        world.sendFields(
            "ann/1", 2, to: .group(group), "on", mentions: ["carl"], .only, asks: .applied)
        world.settleAll()
        _ = world.lines()
        apply("carl/1", 0xA2)
        #expect(answers(of: "carl/1") == ["success"])
    }

    @Test func `cost no byte while no message is tracked`() {
        world.begin("ann/1", "bob/1", "carl/1")
        let group = world.makeGroup(owner: "ann/1", members: ["bob/1"])
        #expect(world.rows(of: .members).allSatisfy { $0.value == [1] })
        world.send("ann/1", 1, to: .user("bob"), "on", asks: .reference)
        world.settleAll()
        join("carl/1", group)
        #expect(world.rows(of: .members).count { $0.value?.count == 5 } == 1)
    }
}
