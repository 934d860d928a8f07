// What a recall knows: which devices may have a message, who is told, and what the sender learns.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A recall knows` {
    let world = World()

    private func sendTracked(
        _ text: String = "on", number: UInt64 = 1, to target: Target = .user("bob"),
        isKept: Bool? = nil
    ) {
        world.send(
            "ann/1", number, to: target, text, isKept: isKept, asks: .reference)
    }

    private func recall(_ reference: UInt64 = 0xA1, detail: String = "") -> String {
        world.recall("ann/1", reference, detail: detail)
        world.settleAll()
        return world.lastRecall
    }

    private func reconnectAnn(used: UInt64) {
        world.connect("ann/1", outbox: (epoch: 7, seen: 0, used: used))
        world.settleAll()
    }

    @Test func `a session in memory that had the message when the broker died`() {
        world.begin("ann/1", "bob/phone")
        world.disconnect("bob/phone")
        world.begin("bob/tab", expiry: 0)
        sendTracked()
        world.settleAll()
        world.crash()
        reconnectAnn(used: 1)
        #expect(recall() == "0 withdrawn, 1 late: bob")
    }

    @Test func `a member with a session in memory when the broker died`() {
        world.begin("ann/1", "bob/phone", "cat/pc")
        let group = world.makeGroup(owner: "ann/1", members: ["bob/phone", "cat/pc"])
        world.disconnect("bob/phone")
        world.disconnect("cat/pc")
        world.begin("bob/tab", expiry: 0)
        sendTracked(to: .group(group))
        world.settleAll()
        world.crash()
        reconnectAnn(used: 1)
        #expect(recall() == "1 withdrawn, 1 late")
    }

    @Test func `a device that has read a page of the conversation`() {
        world.begin("ann/1", "bob/phone", "bob/tab")
        world.disconnect("bob/phone")
        world.connect(
            "bob/tab", outbox: (epoch: 7, seen: 0, used: 0), adjust: { $0.pulls = true })
        world.settleAll()
        sendTracked(isKept: true)
        world.settleAll()
        world.requestHistory("bob/tab", of: .user("ann"))
        world.settleAll()
        #expect(recall() == "0 withdrawn, 1 late: bob")
    }

    @Test func `a device that has read a page while the recall began`() {
        world.begin("ann/1", "bob/phone", "bob/tab")
        world.disconnect("bob/phone")
        world.connect(
            "bob/tab", outbox: (epoch: 7, seen: 0, used: 0), adjust: { $0.pulls = true })
        world.settleAll()
        sendTracked(isKept: true)
        world.settleAll()
        world.requestHistory("bob/tab", of: .user("ann"))
        #expect(world.beginCommit())
        world.recall("ann/1", 0xA1)
        world.finishCommit()
        world.settleAll()
        #expect(world.lastRecall == "0 withdrawn, 1 late: bob")
    }

    @Test func `an offline queue of which a session was sent messages, over two restarts`() {
        world.begin("ann/1")
        world.begin("bob/phone", expiry: 10)
        sendTracked()
        world.settleAll()
        world.crash()
        world.pass(seconds: 100)
        world.settleAll()
        world.crash()
        reconnectAnn(used: 1)
        #expect(recall() == "0 withdrawn, 1 late: bob")
    }

    @Test func `no number of a conversation twice`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        for number in 1...3 as ClosedRange<UInt64> {
            sendTracked("\(number)", number: number, isKept: true)
        }
        world.settleAll()
        #expect(recall(0xA3) == "1 withdrawn, 0 late")
        world.crash()
        reconnectAnn(used: 3)
        sendTracked("next", number: 4, isKept: true)
        world.settleAll()
        #expect(world.history(of: "ann", and: "bob").first?.number == 4)
    }

    @Test func `who may not send any more, and tells and learns nothing`() {
        world.begin("ann/1", "bob/pc", "cat/pc")
        world.disconnect("cat/pc")
        sendTracked(to: .users(["bob", "cat"]))
        world.settleAll()
        world.setRights("subscribe:#", "receipts:*")
        _ = world.lines()
        #expect(recall(detail: "spam") == "1 withdrawn, 1 late")
        let told = world.lines().filter { $0.contains("recall of") }
        #expect(told == ["bob/pc: #2 recall of a1 by ann"])
    }

    @Test func `who may not ask for receipts, and names nobody`() {
        world.begin("ann/1", "bob/pc")
        sendTracked()
        world.settleAll()
        world.setRights("subscribe:#", "send:*")
        #expect(recall(detail: "off") == "0 withdrawn, 1 late")
        #expect(world.lines().contains(#"bob/pc: #2 recall of a1 "off" by ann"#))
        #expect(recall() == "0 withdrawn, 1 late")
    }

    @Test func `a late receiver with a full queue, and tells it later`() {
        world.limits.queueCountMaximum = 1
        world.begin("ann/1", "bob/pc")
        sendTracked()
        world.settleAll()
        _ = world.lines()
        #expect(recall() == "0 withdrawn, 1 late: bob")
        #expect(!world.lines().contains { $0.contains("recall of") })
        world.acknowledge("bob/pc", through: 1)
        for _ in 0..<4 {
            world.pass(seconds: 10)
            world.settleAll()
        }
        #expect(world.lines().count { $0.contains("recall of a1") } == 1)
        #expect(world.broker.tracking.revisions.count == 0)
    }

    @Test func `how many withdrawals a batch takes`() {
        world.limits.sendWindowMaximum = .max
        world.begin("ann/1")
        let group = world.makeGroup(owner: "ann/1", members: [])
        world.addMembers((0..<256).map { "m\($0)" }, to: group)
        world.settleAll()
        for number in 1...8 as ClosedRange<UInt64> {
            sendTracked(number: number, to: .group(group))
        }
        world.settleAll()
        for number in 1...8 as ClosedRange<UInt64> { world.recall("ann/1", 0xA0 + number) }
        #expect(
            world.broker.commits.pendingBatch.revising.withdrawals.count
                <= CoreLimits.withdrawalsPerBatchMaximum + 256)
        world.settleAll()
        #expect(world.counters.copiesWithdrawn == 8 * 256)
        #expect(world.broker.tracking.revisions.count == 0)
    }
}

@Suite struct `New content` {
    let world = World()

    @Test func `keeps the number of the conversation, over a restart too`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        world.send("ann/1", 1, to: .user("bob"), "old", isKept: true, asks: .reference)
        world.settleAll()
        world.crash()
        world.connect("ann/1", outbox: (epoch: 7, seen: 0, used: 1))
        world.settleAll()
        world.recall("ann/1", 0xA1, with: "new")
        world.settleAll()
        let index = world.broker.tracking.find(0xA1)!
        #expect(world.broker.tracking.sends[index].keptNumber == 1)
        let block = world.broker.block(of: index, content: Array("\0x".utf8))
        block.withUnsafeBytes {
            #expect(MessageFields(of: MessageBlock($0)).keptNumber == 1)
        }
    }

    @Test func `is not longer than the limits of queues allow`() {
        world.limits.queueBytesMaximum = 100_000
        world.limits.queueCountMaximum = 1_000
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        world.send("ann/1", 1, to: .user("bob"), "old", asks: .reference)
        world.settleAll()
        _ = world.lines()
        world.recall("ann/1", 0xA1, with: String(repeating: "x", count: 104))
        #expect(world.lines().first?.hasPrefix("ann/1: response 1, quotaExceeded") == true)
        world.recall("ann/1", 0xA1, with: String(repeating: "x", count: 103))
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 0 late")
    }
}
