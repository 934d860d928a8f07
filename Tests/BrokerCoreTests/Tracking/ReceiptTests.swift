// What a sender is told about a message that asks for it: its reference, who has it, and what the
// receivers did with it.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `Receipts` {
    let world = World()

    /// What a receiving application tells.
    private func apply(_ name: String, _ reference: UInt64, code: UInt8 = 0, _ text: String = "") {
        var bytes: [UInt8] = []
        let request = AppliedRequest(
            reference: reference, code: code, text: bytes.appendRange(text))
        world.step(
            .appliedReported(
                world.connections[name]!, requestIdentifier: world.freeRequest(name), request),
            bytes: bytes)
    }

    private func lines(of name: String) -> [String] {
        world.settle()
        return world.lines().filter { $0.hasPrefix(name) }
    }

    // MARK: - References

    @Test func `a reference is in the result, after the commit, and in the delivery`() {
        world.begin("ann/1", "bob/pc")
        world.send("ann/1", 1, to: .user("bob"), "on", id: "m-1", asks: .reference)
        world.acknowledge("bob/pc", through: 1)
        #expect(world.lines() == [#"bob/pc: #1 "on" from ann, reference a1"#])
        world.settle()
        #expect(world.lines() == ["ann/1: result 1 (m-1), sent, reference a1"])
        #expect(world.gauges.trackedSends == 1)
    }

    @Test func `a session in memory is told references and receipts too`() {
        world.begin("bob/pc")
        world.begin("ann/1", expiry: 0)
        world.send("ann/1", 1, to: .user("bob"), "on", asks: .delivered)
        world.acknowledge("bob/pc", through: 1)
        #expect(
            lines(of: "ann") == [
                "ann/1: result 1, sent, reference a1", "ann/1: #1 a1 delivered to bob/pc",
            ])
    }

    @Test func `a resend of grade once has the same reference after a crash`() {
        world.begin("ann/1", "bob/pc")
        world.send("ann/1", 1, to: .user("bob"), "on", grade: .once, asks: .reference)
        world.settle()
        world.crash()
        world.connect("ann/1", outbox: (epoch: 7, seen: 0, used: 1))
        world.settle()
        _ = world.lines()
        world.send("ann/1", 1, to: .user("bob"), "on", grade: .once, asks: .reference)
        #expect(lines(of: "ann") == ["ann/1: result 1, sent, reference a1"])
    }

    @Test func `a send with a reference is refused past a limit, and forgotten at its expiry`() {
        world.limits.trackedSendsPerUserMaximum = 1
        world.begin("ann/1", "bob/pc")
        world.send("ann/1", 1, to: .user("bob"), "on", expiry: 10, asks: .delivered)
        world.send("ann/1", 2, to: .user("bob"), "on", asks: .reference)
        world.send("ann/1", 3, to: .user("bob"), "on", grade: .transient, asks: .reference)
        #expect(
            lines(of: "ann") == [
                "ann/1: result 2, quotaExceeded", "ann/1: result 0, qosNotSupported",
                "ann/1: result 1, sent, reference a1",
            ])
        world.pass(seconds: 3_609)
        world.settle()
        #expect(world.gauges.trackedSends == 1)
        world.pass(seconds: 1)
        world.settle()
        #expect(world.gauges.trackedSends == 0)
        world.crash()
        #expect(world.gauges.trackedSends == 0)
    }

    @Test(arguments: [false, true])
    func `at the limit the oldest send of which all is told makes room`(isOfApp: Bool) {
        if isOfApp {
            world.limits.trackedSendsPerAppMaximum = 2
        } else {
            world.limits.trackedSendsPerUserMaximum = 2
        }
        world.begin("ann/1", "bob/pc")
        for number in 1...2 as ClosedRange<UInt64> {
            world.send("ann/1", number, to: .user("bob"), "on", asks: [.delivered, .applied])
        }
        world.settle()
        world.acknowledge("bob/pc", through: 2)
        apply("bob/pc", 0xA2)
        world.settle()
        _ = world.lines()
        // Nobody has told what became of the first one.
        world.send("ann/1", 3, to: .user("bob"), "on", asks: .reference)
        #expect(lines(of: "ann") == ["ann/1: result 3, sent, reference a3"])
        world.send("ann/1", 4, to: .user("bob"), "on", asks: .delivered)
        #expect(lines(of: "ann") == ["ann/1: result 4, sent, reference a4"])
        #expect(world.gauges.trackedSends == 2)
        world.send("ann/1", 5, to: .user("bob"), "on", asks: .reference)
        #expect(lines(of: "ann") == ["ann/1: result 5, quotaExceeded"])
        world.crash()
        world.begin("ann/1", "bob/pc")
        #expect(world.gauges.trackedSends == 2)
        apply("bob/pc", 0xA1)
        world.settle()
        world.send("ann/1", 6, to: .user("bob"), "on", asks: .reference)
        world.settle()
        #expect(world.gauges.trackedSends == 2)
    }

    @Test func `a send that the store refuses leaves no reference`() {
        world.begin("ann/1", "bob/pc")
        world.send("ann/1", 1, to: .user("bob"), "on", asks: [.reference, .delivered])
        world.store.isFull = true
        world.commit()
        world.store.isFull = false
        world.settle()
        #expect(world.lines().last == "ann/1: result 1, quotaExceeded")
        #expect(world.gauges.trackedSends == 0)
    }

    // MARK: - Delivered

    @Test func `delivered is told once for a user, after the commit that has the fact`() {
        world.begin("ann/1", "bob/pc", "bob/phone")
        world.send("ann/1", 1, to: .user("bob"), "on", id: "m-1", asks: .delivered)
        world.settle()
        _ = world.lines()
        world.acknowledge("bob/phone", through: 1)
        #expect(world.lines() == [])
        world.settle()
        #expect(world.lines() == ["ann/1: #1 a1 (m-1) delivered to bob/phone"])
        world.acknowledge("bob/pc", through: 1)
        #expect(lines(of: "ann") == [])
        #expect(world.counters.receiptsSent == 1)
    }

    @Test func `a message that is acknowledged before its commit gives its receipt too`() {
        world.begin("ann/1", "bob/pc")
        world.send("ann/1", 1, to: .user("bob"), "on", asks: .delivered)
        world.acknowledge("bob/pc", through: 1)
        #expect(!world.lines().contains { $0.hasPrefix("ann") })
        #expect(
            lines(of: "ann") == [
                "ann/1: result 1, sent, reference a1", "ann/1: #1 a1 delivered to bob/pc",
            ])
    }

    @Test
    func `a list has one receipt for each receiver, and a session that is away gives its own`() {
        world.begin("ann/1", "bob/pc", "carl/1")
        world.lose("carl/1")
        world.send("ann/1", 1, to: .users(["bob", "carl", "bob"]), "on", asks: .delivered)
        world.settle()
        world.acknowledge("bob/pc", through: 1)
        #expect(lines(of: "ann").last == "ann/1: #1 a1 delivered to bob/pc")
        world.connect("carl/1", outbox: (epoch: 7, seen: 0, used: 0))
        world.settle()
        world.acknowledge("carl/1", through: 1)
        #expect(lines(of: "ann") == ["ann/1: #2 a1 delivered to carl/1"])
    }

    @Test func `a device that has a message when it connects again gives its receipt`() {
        world.begin("ann/1", "bob/pc")
        let epoch = world.epochs["bob/pc"]!
        for number in UInt64(1)...3 {
            world.send(
                "ann/1", number, to: .user("bob"), "\(number)",
                asks: number == 2 ? .delivered : [])
        }
        world.settle()
        world.lose("bob/pc")
        world.connect(
            "bob/pc", resume: (epoch: epoch, number: 2), outbox: (epoch: 7, seen: 0, used: 0))
        world.settle()
        let told = world.lines()
        #expect(told.filter { $0.hasPrefix("ann") }.last == "ann/1: #1 a2 delivered to bob/pc")
        #expect(told.filter { $0.hasPrefix("bob") }.last == #"bob/pc: #3 "3" from ann"#)
        world.acknowledge("bob/pc", through: 3)
        world.settle()
        #expect(world.gauges.queuedMessages == 1)
    }

    @Test(arguments: [false, true])
    func `a crash loses no receipt and doubles none`(commits: Bool) {
        world.begin("ann/1", "bob/pc")
        let (ann, bob) = (world.epochs["ann/1"]!, world.epochs["bob/pc"]!)
        world.send("ann/1", 1, to: .user("bob"), "on", asks: .delivered)
        world.settle()
        world.acknowledge("bob/pc", through: 1)
        world.beginCommit()
        world.crash(committing: commits)
        world.connect(
            "bob/pc", resume: (epoch: bob, number: 1), outbox: (epoch: 7, seen: 0, used: 0))
        world.connect(
            "ann/1", resume: (epoch: ann, number: 0), outbox: (epoch: 7, seen: 1, used: 1))
        world.settle()
        world.pass(seconds: 10)
        #expect(
            lines(of: "ann").filter { $0.contains("delivered") }
                == ["ann/1: #\(commits ? 1 : 1025) a1 delivered to bob/pc"])
    }

    @Test func `a receipt that has no room is told later`() {
        world.begin("ann/1", "bob/pc")
        world.send("ann/1", 1, to: .user("bob"), "on", asks: .delivered)
        world.settle()
        _ = world.lines()
        world.fillStore()
        world.acknowledge("bob/pc", through: 1)
        world.beginCommit()
        #expect(world.counters.receiptsSent == 0)
        world.crash(committing: true)
        world.connect("ann/1", outbox: (epoch: 7, seen: 1, used: 1))
        world.settle()
        world.pass(seconds: 4)
        // The store had no room for the device.
        #expect(lines(of: "ann").last?.hasSuffix("a1 delivered to bob/") == true)
    }

    @Test func `a store without a reserve delays delivered, and refuses applied`() {
        world.begin("ann/1", "bob/pc")
        world.send("ann/1", 1, to: .user("bob"), "on", asks: [.delivered, .applied])
        world.settle()
        _ = world.lines()
        world.fillStore()
        while world.broker.admitGrowth(of: 1_000, for: .upkeep) != nil {}
        while world.broker.admitGrowth(of: 1, for: .upkeep) != nil {}
        world.acknowledge("bob/pc", through: 1)
        apply("bob/pc", 0xA1, "done")
        world.beginCommit()
        #expect(world.counters.receiptsSent == 0)
        #expect(world.lines() == ["bob/pc: response 1, quotaExceeded"])
        world.crash(committing: true)
        world.connect("bob/pc", outbox: (epoch: 7, seen: 0, used: 0))
        world.connect("ann/1", outbox: (epoch: 7, seen: 1, used: 1))
        world.settle()
        world.pass(seconds: 4)
        #expect(lines(of: "ann").last?.hasSuffix("a1 delivered to bob/") == true)
        apply("bob/pc", 0xA1, "done")
        #expect(lines(of: "ann").last?.hasSuffix(#"a1 applied by bob/pc, 0 "done""#) == true)
    }

    // MARK: - Applied

    @Test func `applied is told with its code and text, once for a user`() {
        world.begin("ann/1", "bob/pc", "bob/phone", "carl/1")
        world.send("ann/1", 1, to: .user("bob"), "on", asks: .applied)
        world.settle()
        _ = world.lines()
        apply("bob/pc", 0xA1, code: 0x83, "too hot")
        #expect(world.lines() == [])
        #expect(
            lines(of: "") == [
                "bob/pc: response 1, success",
                #"ann/1: #1 a1 applied by bob/pc, 131 "too hot""#,
            ])
        apply("bob/phone", 0xA1)
        #expect(lines(of: "ann") == [])
        apply("carl/1", 0xA1)
        apply("bob/pc", 0xA7)
        #expect(
            lines(of: "") == [
                "carl/1: response 1, topicNameInvalid", "bob/pc: response 1, topicNameInvalid",
            ])
    }

    // MARK: - Groups

    @Test func `what a member tells of a send that the store refuses is forgotten with it`() {
        world.begin("ann/1", "bob/pc", "carl/1")
        let group = world.makeGroup(owner: "ann/1", members: ["bob/pc"])
        world.settle()
        _ = world.lines()
        world.send("ann/1", 1, to: .group(group), "on", asks: [.reference, .applied])
        apply("bob/pc", 0xA1)
        world.store.isFull = true
        world.commit()
        world.store.isFull = false
        world.settle()
        #expect(lines(of: "ann").last == "ann/1: result 1, quotaExceeded")
        #expect(world.gauges.trackedSends == 0)
        world.crash()
        #expect(world.counters.rowsRepaired == 0)
    }

    @Test func `receipts leave the reserve of a full store to logins and operators`() {
        world.begin("ann/1", "bob/pc")
        for number in 1...20 as ClosedRange<UInt64> {
            world.send("ann/1", number, to: .user("bob"), "on", asks: .delivered)
        }
        world.settle()
        _ = world.lines()
        world.store.isFull = true
        world.commit()
        let growth = world.broker.commits.room.growthWhileFull
        world.acknowledge("bob/pc", through: 20)
        #expect(world.broker.commits.room.growthWhileFull == growth)
        world.commit()
        world.store.isFull = false
        world.pass(seconds: 10)
        world.settle()
        world.pass(seconds: 100)
        #expect(lines(of: "ann").count { $0.contains("delivered to bob") } == 20)
    }

    @Test func `a group has counts: the first at once, the others together, the last at once`() {
        let names = (1...20).map { "m\($0)/1" }
        world.begin("ann/1")
        for name in names { world.begin(name) }
        let group = world.makeGroup(owner: "ann/1", members: names)
        for name in names { world.acknowledge(name, through: world.sentThrough(name)) }
        world.settle()
        _ = world.lines()
        world.send("ann/1", 1, to: .group(group), "on", asks: [.delivered, .applied])
        world.settle()
        _ = world.lines()
        func told() -> [String] {
            lines(of: "ann").compactMap { line in
                line.range(of: "delivered").map { String(line[$0.lowerBound...]) }
            }
        }
        for name in names[..<10] {
            world.acknowledge(name, through: world.sentThrough(name))
            world.settle()
        }
        #expect(told() == ["delivered to 1, applied by 0, failed 0 of 20"])
        world.pass(seconds: 3)
        #expect(told() == ["delivered to 10, applied by 0, failed 0 of 20"])
        world.crash()
        for name in names + ["ann/1"] {
            world.connect(name, outbox: (epoch: 7, seen: 0, used: 1))
        }
        world.settle()
        _ = world.lines()
        apply("m1/1", 0xA1, code: 0x80)
        for name in names[10...] { world.acknowledge(name, through: world.sentThrough(name)) }
        _ = told()
        world.pass(seconds: 3)
        #expect(world.counters.receiptsSent <= 3)
        let send = world.broker.tracking.sends[world.broker.tracking.find(0xA1)!]
        #expect(send.counts.delivered == 20 && send.counts.applied == 1 && send.counts.failed == 1)
        #expect(send.toldCounts == send.counts)
    }

    @Test func `a member with several devices is not counted past a limit, and never twice`() {
        world.limits.trackedMembersPerAppMaximum = 1
        world.begin("ann/1", "bob/pc", "bob/phone", "carl/pc", "carl/phone")
        let group = world.makeGroup(owner: "ann/1", members: ["bob/pc", "carl/pc"])
        let names = ["bob/pc", "bob/phone", "carl/pc", "carl/phone"]
        for name in names { world.acknowledge(name, through: world.sentThrough(name)) }
        world.settle()
        world.send("ann/1", 1, to: .group(group), "on", asks: [.delivered, .applied])
        world.settle()
        for name in names { world.acknowledge(name, through: world.sentThrough(name)) }
        world.settle()
        let send = world.broker.tracking.sends[world.broker.tracking.find(0xA1)!]
        #expect(send.counts.delivered == 1)
        #expect(world.counters.membersUncounted == 2)
        _ = world.lines()
        apply("carl/pc", 0xA1)
        apply("bob/pc", 0xA1)
        #expect(
            lines(of: "").filter { $0.contains("response") } == [
                "carl/pc: response 1, quotaExceeded", "bob/pc: response 1, success",
            ])
    }

    // MARK: - Rights

    @Test func `a message that is only kept has a reference, and no receipts`() {
        world.begin("ann/1", "bob/pc")
        world.insert("ann/1", 1, to: .user("bob"), "on", asks: .delivered)
        #expect(lines(of: "ann") == ["ann/1: result 1, topicNameInvalid"])
        world.insert("ann/1", 1, to: .user("bob"), "on", asks: .reference)
        #expect(lines(of: "ann") == ["ann/1: result 1, sent, reference a1"])
        #expect(world.gauges.trackedSends == 1)
    }

    @Test func `only who has the right may ask, and nobody of a topic or of everybody`() {
        world.begin("ann/1", "bob/pc")
        world.setRights("send:*", "publish:#", "broadcast", "receipts:c*")
        world.send("ann/1", 1, to: .user("bob"), "on", asks: .delivered)
        world.send("ann/1", 2, to: .user("bob"), "on", asks: .reference)
        world.addUser("carl")
        world.send("ann/1", 3, to: .user("carl"), "on", asks: .delivered)
        world.send("ann/1", 4, to: .topic("a/b"), "on", asks: .delivered)
        world.send("ann/1", 5, to: .everybody, "on", asks: .applied)
        #expect(
            lines(of: "ann").filter { !$0.contains("from") } == [
                "ann/1: result 1, notAuthorized", "ann/1: result 4, topicNameInvalid",
                "ann/1: result 5, topicNameInvalid", "ann/1: result 2, sent, reference a2",
                "ann/1: result 3, sent, reference a3",
            ])
        let decision = Array("bob".utf8).withUnsafeBytes {
            world.explain("ann/1", .receipts(of: $0)).decision
        }
        #expect(decision == .refused(.notAuthorized))
    }
}
