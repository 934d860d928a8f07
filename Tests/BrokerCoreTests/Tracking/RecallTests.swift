// Recall: who never had a message, who is late, and what each is told.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A recall` {
    let world = World()

    private func lines(of name: String) -> [String] {
        world.settleAll()
        return world.lines().filter { $0.hasPrefix(name) }
    }

    private func numbered(_ lines: [String], from name: String) -> [String] {
        lines.filter { $0.hasPrefix(name) && $0.contains("#") }
    }

    /// A message of ann to bob, with a reference.
    private func sendTracked(_ text: String = "on", number: UInt64 = 1, id: String = "") {
        world.send("ann/1", number, to: .user("bob"), text, id: id, asks: .reference)
    }

    @Test func `withdraws a message from an offline queue`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        sendTracked()
        world.send("ann/1", 2, to: .user("bob"), "stays")
        world.settle()
        _ = world.lines()
        world.recall("ann/1", 0xA1)
        #expect(lines(of: "ann") == ["ann/1: response 1, success"])
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        world.connect("bob/pc")
        #expect(lines(of: "bob").filter { $0.contains("#") } == [#"bob/pc: #2 "stays" from ann"#])
        #expect(world.counters.copiesWithdrawn == 1)
    }

    @Test func `withdraws a message of a user without a session`() {
        world.begin("ann/1")
        world.addUser("bob")
        sendTracked()
        world.settle()
        world.recall("ann/1", 0xA1)
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        world.connect("bob/pc")
        #expect(lines(of: "bob").filter { $0.contains("#") }.isEmpty)
    }

    @Test func `that meets the message in one batch is done before it is stored`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        world.settle()
        _ = world.lines()
        sendTracked(id: "m-1")
        world.recall("ann/1", id: "m-1")
        #expect(
            lines(of: "ann") == [
                "ann/1: result 1 (m-1), sent, reference a1", "ann/1: response 1, success",
            ])
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        #expect(world.store.heldMessages.isEmpty)
    }

    @Test func `that meets the message in the batch in flight follows its commit`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        world.settle()
        _ = world.lines()
        sendTracked()
        #expect(world.beginCommit())
        world.recall("ann/1", 0xA1)
        world.finishCommit()
        #expect(
            lines(of: "ann") == [
                "ann/1: result 1, sent, reference a1", "ann/1: response 1, success",
            ])
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        #expect(world.store.heldMessages.isEmpty)
    }

    @Test func `takes the message out of a window before it is sent`() {
        world.begin("ann/1")
        world.begin("bob/pc", window: 1)
        world.send("ann/1", 1, to: .user("bob"), "first")
        sendTracked(number: 2)
        world.send("ann/1", 3, to: .user("bob"), "last")
        _ = world.lines()
        world.recall("ann/1", 0xA2)
        #expect(
            lines(of: "ann") == [
                "ann/1: result 1, sent", "ann/1: result 2, sent, reference a2",
                "ann/1: result 3, sent", "ann/1: response 1, success",
            ])
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        world.acknowledge("bob/pc", through: 1)
        #expect(lines(of: "bob") == [#"bob/pc: #3 "last" from ann"#])
    }

    @Test func `is late for a message that was sent, which is told once and in order`() {
        world.begin("ann/1", "bob/pc")
        sendTracked(id: "m-1")
        world.recall("ann/1", 0xA1, detail: "wrong valve")
        #expect(
            lines(of: "bob") == [
                #"bob/pc: #1 "on" from ann, reference a1"#,
                #"bob/pc: #2 recall of a1 (m-1) "wrong valve" by ann"#,
            ])
        #expect(world.lastRecall == "0 withdrawn, 1 late: bob")
        world.acknowledge("bob/pc", through: 2)
        world.settleAll()
        #expect(world.store.heldMessages.isEmpty)
        world.recall("ann/1", 0xA1)
        #expect(lines(of: "bob").isEmpty)
        #expect(world.lastRecall == "0 withdrawn, 1 late: bob")
    }

    @Test func `is late for a message that was sent on an earlier connection`() {
        world.begin("ann/1", "bob/pc")
        sendTracked()
        world.settle()
        world.lose("bob/pc")
        world.settle()
        _ = world.lines()
        world.recall("ann/1", 0xA1)
        world.settleAll()
        #expect(world.lastRecall == "0 withdrawn, 1 late: bob")
        world.connect("bob/pc")
        #expect(
            numbered(lines(of: "bob"), from: "bob") == [
                #"bob/pc: #1 "on" from ann, reference a1"#, "bob/pc: #2 recall of a1 by ann",
            ])
    }

    @Test func `is late for all that a session had when the broker died`() {
        world.begin("ann/1", "bob/pc")
        sendTracked()
        world.settle()
        world.crash()
        world.connect("ann/1", outbox: (epoch: 7, seen: 0, used: 1))
        world.settle()
        world.recall("ann/1", 0xA1)
        world.settleAll()
        #expect(world.lastRecall == "0 withdrawn, 1 late: bob")
    }

    @Test func `after a restart withdraws what waits`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        sendTracked()
        world.settle()
        world.crash()
        world.connect("ann/1", outbox: (epoch: 7, seen: 0, used: 1))
        world.settle()
        world.recall("ann/1", 0xA1)
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        #expect(world.store.heldMessages.isEmpty)
    }

    @Test func `after a restart means the latest message with an id`() {
        world.begin("ann/1", "ann/2", "bob/pc")
        world.disconnect("bob/pc")
        world.send("ann/1", 1, to: .user("bob"), "first")
        sendTracked("older", number: 2, id: "m")
        world.settle()
        world.pass(milliseconds: 10)
        // Its reference, a1, is below that of the older one: rows are read in their order.
        world.send("ann/2", 1, to: .user("bob"), "newer", id: "m", asks: .reference)
        world.settle()
        world.crash()
        world.connect("ann/1", outbox: (epoch: 7, seen: 0, used: 2))
        world.settle()
        world.recall("ann/1", id: "m")
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        _ = world.lines()
        world.connect("bob/pc")
        let texts = lines(of: "bob").filter { $0.contains("#") }.joined()
        #expect(texts.contains("older") && !texts.contains("newer"), "\(texts)")
    }

    @Test func `is late for a user of whom one device has the message`() {
        world.begin("ann/1", "bob/pc", "bob/phone")
        world.disconnect("bob/phone")
        sendTracked()
        world.acknowledge("bob/pc", through: 1)
        world.settle()
        world.recall("ann/1", 0xA1)
        world.settleAll()
        #expect(world.lastRecall == "0 withdrawn, 1 late: bob")
        _ = world.lines()
        world.connect("bob/phone")
        #expect(
            lines(of: "bob").filter { $0.contains("#") } == ["bob/phone: #2 recall of a1 by ann"])
    }

    @Test func `is late if the device that had the message has gone`() {
        world.begin("ann/1", "bob/pc", "bob/phone")
        world.disconnect("bob/phone")
        sendTracked()
        world.settle()
        world.connect("bob/pc", clean: true)
        world.settle()
        world.disconnect("bob/pc", expiry: 0)
        world.settle()
        world.recall("ann/1", 0xA1)
        world.settleAll()
        #expect(world.lastRecall == "0 withdrawn, 1 late: bob")
    }

    @Test func `follows the message into the queue of the user whose session ends`() {
        world.begin("ann/1")
        world.begin("bob/pc", expiry: 10)
        world.disconnect("bob/pc")
        sendTracked()
        world.settle()
        world.pass(seconds: 11)
        world.recall("ann/1", 0xA1)
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        #expect(world.store.heldMessages.isEmpty)
    }

    @Test func `is late for what moved from a session that may have sent it`() {
        world.begin("ann/1")
        world.begin("bob/pc", expiry: 10)
        sendTracked()
        world.settle()
        world.crash()
        world.pass(seconds: 100)
        world.settle()
        world.connect("ann/1", outbox: (epoch: 7, seen: 0, used: 1))
        world.settle()
        world.connect("bob/new")
        world.settle()
        world.recall("ann/1", 0xA1)
        world.settleAll()
        #expect(world.lastRecall == "0 withdrawn, 1 late: bob")
    }

    @Test func `meets a load that is under way`() {
        world.limits.inboxWindowMaximum = 1
        world.begin("ann/1")
        world.begin("bob/pc", window: 1)
        for number in 1...4 as ClosedRange<UInt64> {
            sendTracked("\(number)", number: number)
        }
        world.settle()
        _ = world.lines()
        world.acknowledge("bob/pc", through: 1)
        #expect(world.beginCommit(), "the load of the third and the fourth")
        world.recall("ann/1", 0xA3)
        world.finishCommit()
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        world.acknowledge("bob/pc", through: 2)
        world.settleAll()
        #expect(
            numbered(world.lines(), from: "bob") == [
                #"bob/pc: #2 "2" from ann, reference a2"#,
                #"bob/pc: #4 "4" from ann, reference a4"#,
            ])
    }

    @Test func `of a session in memory takes the message before it is sent`() {
        world.begin("ann/1")
        world.begin("bob/pc", expiry: 0, window: 1)
        world.send("ann/1", 1, to: .user("bob"), "first")
        sendTracked(number: 2)
        sendTracked(number: 3)
        world.settle()
        _ = world.lines()
        world.recall("ann/1", 0xA2)
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        world.acknowledge("bob/pc", through: 1)
        #expect(
            numbered(lines(of: "bob"), from: "bob") == [
                #"bob/pc: #3 "on" from ann, reference a3"#
            ])
        world.recall("ann/1", 0xA3)
        world.settleAll()
        #expect(world.lastRecall == "0 withdrawn, 1 late: bob")
    }

    @Test func `of a group counts its members and tells the late ones`() {
        world.begin("ann/1", "bob/pc", "carl/pad", "dora/pc")
        let group = world.makeGroup(owner: "ann/1", members: ["bob/pc", "carl/pad", "dora/pc"])
        world.disconnect("bob/pc")
        world.settle()
        _ = world.lines()
        world.send("ann/1", 1, to: .group(group), "on", asks: .reference)
        world.settle()
        _ = world.lines()
        world.recall("ann/1", 0xA1, detail: "sorry")
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 2 late")
        let told = world.lines().filter { $0.contains("recall of") }
        #expect(
            told.sorted() == [
                #"carl/pad: #3 recall of a1 "sorry" by ann in \#(group)"#,
                #"dora/pc: #2 recall of a1 "sorry" by ann in \#(group)"#,
            ])
    }

    @Test func `of a large group goes on in pieces, and over a crash`() {
        world.begin("ann/1")
        let names = (0..<700).map { "m\($0)" }
        let group = world.makeGroup(owner: "ann/1", members: [])
        world.addMembers(names, to: group)
        world.settle()
        world.send("ann/1", 1, to: .group(group), "on", asks: .reference)
        world.settle()
        world.recall("ann/1", 0xA1)
        #expect(world.commit())
        world.settleAll()
        #expect(world.lastRecall == "700 withdrawn, 0 late")
        #expect(world.store.heldMessages.isEmpty)
        world.send("ann/1", 2, to: .group(group), "on", asks: .reference)
        world.settle()
        world.recall("ann/1", 0xA2)
        #expect(world.commit())
        world.crash()
        world.settleAll()
        #expect(world.broker.tracking.revisions.count == 0)
        world.connect("ann/1", outbox: (epoch: 7, seen: 0, used: 2))
        world.settleAll()
        for name in ["m1", "m300", "m699"] {
            world.connect("\(name)/pc")
        }
        world.settleAll()
        #expect(!world.lines().contains { $0.contains(#""on""#) })
    }

    @Test func `is refused without telling about messages of others`() {
        world.limits.appPolicy = AppPolicy()
        world.begin("ann/1", "bob/pc", "eve/1")
        sendTracked(id: "m-1")
        world.send("ann/1", 2, to: .everybody, "all", id: "m-2", asks: .reference)
        world.settle()
        _ = world.lines()
        world.recall("eve/1", 0xA1)
        world.recall("eve/1", 0xFF)
        world.recall("eve/1", id: "m-1")
        world.recall("ann/1", id: "m-2")
        #expect(
            world.lines() == [
                "eve/1: response 1, topicNameInvalid", "eve/1: response 1, topicNameInvalid",
                "eve/1: response 1, topicNameInvalid", "ann/1: response 1, topicNameInvalid",
            ])
        world.limits.appPolicy.allowsRecall = false
        world.recall("ann/1", 0xA1)
        #expect(world.lines() == ["ann/1: response 1, notAuthorized"])
    }

    @Test func `is refused while another is under way, and of an expired message`() {
        world.begin("ann/1", "bob/pc")
        world.send("ann/1", 1, to: .user("bob"), "on", expiry: 10, asks: [.delivered])
        world.settle()
        _ = world.lines()
        world.recall("ann/1", 0xA1)
        world.recall("ann/1", 0xA1)
        #expect(world.lines() == ["ann/1: response 2, serverBusy"])
        world.settleAll()
        world.send("ann/1", 2, to: .user("bob"), "on", expiry: 10, asks: [.delivered])
        world.settle()
        world.pass(seconds: 11)
        _ = world.lines()
        world.recall("ann/1", 0xA2)
        #expect(world.lines() == ["ann/1: response 1, topicNameInvalid"])
    }

    @Test func `whose message the store refuses is refused with it`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        world.settle()
        _ = world.lines()
        sendTracked()
        world.recall("ann/1", 0xA1)
        world.store.isFull = true
        #expect(
            lines(of: "ann") == [
                "ann/1: result 1, quotaExceeded", "ann/1: response 1, topicNameInvalid",
            ])
    }

    @Test func `tells the late when the store has room again`() {
        world.begin("ann/1", "bob/pc")
        sendTracked()
        world.settle()
        world.acknowledge("bob/pc", through: 1)
        world.settle()
        _ = world.lines()
        world.recall("ann/1", 0xA1)
        #expect(world.commit())
        world.store.isFull = true
        world.settleAll()
        #expect(world.lastRecall == "0 withdrawn, 1 late: bob")
        #expect(world.lines() == ["ann/1: response 1, success"])
        world.store.isFull = false
        for _ in 0..<4 {
            world.pass(seconds: 10)
            world.settleAll()
        }
        #expect(world.lines() == ["bob/pc: #3 recall of a1 by ann"])
    }

    @Test func `removes a kept message from its conversation`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        world.send("ann/1", 1, to: .user("bob"), "one", isKept: true)
        world.send("ann/1", 2, to: .user("bob"), "two", isKept: true, asks: .reference)
        world.send("ann/1", 3, to: .user("bob"), "three", isKept: true)
        world.settle()
        world.recall("ann/1", 0xA2)
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        #expect(world.history(of: "ann", and: "bob").count == 2)
    }

    @Test func `of an operator is answered when it is committed`() throws {
        world.begin("bob/pc")
        world.addUser("ann")
        world.disconnect("bob/pc")
        _ = world.send(as: "ann", to: .user("bob"), "on", grade: .durable, asks: .reference)
        world.settle()
        let decision = try #require(world.recall(as: "ann", 0xF0))
        guard case .pending(let number) = decision else { Issue.record("\(decision)"); return }
        #expect(world.broker.takeResult(ofOperatorRecall: number) == nil)
        world.settleAll()
        #expect(
            world.broker.takeResult(ofOperatorRecall: number)
                == OperatorRecallResult(
                    reason: .success, answer: RecallAnswer(withdrawn: 1, late: 0)))
    }

    @Test func `of an MQTT client with a message of QoS 2 under way is late`() {
        world.begin("ann/1")
        world.beginMQTT("bob/pc")
        world.subscribeMQTT("bob/pc", "$u/bob")
        world.settle()
        world.send("ann/1", 1, to: .user("bob"), "on", grade: .once, asks: .reference)
        world.settle()
        world.answer("bob/pc", .received, 1)
        world.settle()
        world.recall("ann/1", 0xA1)
        world.settleAll()
        #expect(world.lastRecall == "0 withdrawn, 1 late: bob")
        world.answer("bob/pc", .complete, 1)
        world.settleAll()
        #expect(world.lines().filter { $0.contains("recall of") }.count == 1)
    }
}
