// What the log says about a refusal whose reason code is that of several rules.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `The cause of a refusal` {
    let world = World()

    private func notes() -> [String] {
        world.settle()
        return world.lines().filter { $0.hasPrefix("note: ") }
    }

    @Test func `is the missing right, or the rule of receipts`() {
        world.begin("ann/1", "bob/pc")
        world.setRights("send:*", "publish:#", "broadcast")
        world.showsNotes = true
        _ = notes()
        world.send("ann/1", 1, to: .user("bob"), "on", asks: .delivered)
        world.send("ann/1", 1, to: .user("bob"), "on", grade: .transient, asks: .reference)
        world.send("ann/1", 1, to: .topic("a/b"), "on", asks: .delivered)
        world.insert("ann/1", 1, to: .user("bob"), "on", asks: .applied)
        #expect(
            notes() == [
                "note: sendRefused, ann/1, notAuthorized, bob, receiptsRight",
                "note: sendRefused, ann/1, qosNotSupported, bob, asksOfTransient",
                "note: sendRefused, ann/1, topicNameInvalid, a/b, receiptsTarget",
                "note: sendRefused, ann/1, topicNameInvalid, bob, receiptsOfKept",
            ])
    }

    @Test func `of a read mark and of an answer is told, with what they are about`() {
        world.begin("ann/1", "bob/pc")
        world.showsNotes = true
        _ = notes()
        world.markRead("ann/1", of: .user("bob"), through: 3)
        world.markRead("ann/1", of: .user("eve"), through: 3)
        world.step(
            .appliedReported(
                world.connections["ann/1"]!, requestIdentifier: world.freeRequest("ann/1"),
                AppliedRequest(reference: 0xA1, code: 0, text: .empty)), bytes: [])
        #expect(
            notes() == [
                "note: requestRefused, ann/1, topicNameInvalid, bob, numberAhead",
                "note: requestRefused, ann/1, topicNameInvalid, eve, unknownParty",
                "note: requestRefused, ann/1, topicNameInvalid, 00000000000000a1, "
                    + "unknownReference",
            ])
    }

    /// The disk may be full where the limit is not reached: then accepted messages are refused.
    @Test(arguments: [SessionDialect.mrt, .mqtt3])
    func `of a message that the store refuses at its commit is told, with its receivers`(
        _ dialect: SessionDialect
    ) {
        world.begin("bob/pc", "carl/pc")
        world.disconnect("bob/pc")
        world.disconnect("carl/pc")
        world.settleAll()
        if dialect.isMQTT {
            world.beginMQTT("ann/1", dialect: dialect)
        } else {
            world.begin("ann/1")
        }
        world.showsNotes = true
        _ = notes()
        if dialect.isMQTT {
            world.publish("ann/1", 1, to: .users(["bob", "carl"]), "on")
        } else {
            world.send("ann/1", 1, to: .users(["bob", "carl"]), "on")
        }
        world.store.isFull = true
        world.commit()
        world.store.isFull = false
        let told = notes()
        #expect(
            told.sorted() == [
                "note: receiverRefused, bob/pc, quotaExceeded",
                "note: receiverRefused, carl/pc, quotaExceeded",
                "note: sendRefused, ann/1, quotaExceeded",
            ])
    }

    @Test func `of a login whose will is refused is the will`() {
        world.setRights("send:*")
        world.showsNotes = true
        world.connect(
            "ann/1", dialect: .mqtt5,
            will: { bytes in
                WillRequest(
                    delaySeconds: 0,
                    message: SendRequest(
                        number: 0, grade: .once, target: .topic(bytes.appendRange("a/b")),
                        payload: bytes.appendRange("\0gone"), messageByteCount: 20))
            })
        #expect(
            notes().contains("note: sendRefused, ann/1, notAuthorized, a/b, willOfLogin"))
    }

    /// A limit begins with a configuration key or with its number, a rule with a word.
    @Test func `is a clause for the client where it is a rule, and a key where it is a limit`() {
        for cause in LimitName.allCases where cause != .none {
            let first = "\(cause.key)".split(separator: " ")[0]
            let isLimit =
                first.contains(".") || first.allSatisfy(\.isNumber) || cause == .diskSpace
            #expect(cause.isRule == !isLimit, "\(cause)")
            let text = String(decoding: cause.text, as: UTF8.self)
            #expect(text == (isLimit ? "a limit is reached: " : "") + "\(cause.key)")
        }
        #expect(LimitName.none.text == [])
    }
}
