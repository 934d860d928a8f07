// What operators see of the receivers of a message with a reference.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `Receipts as operators see them` {
    let world = World()

    private func apply(_ name: String, _ reference: UInt64, code: UInt8 = 0) {
        world.step(
            .appliedReported(
                world.connections[name]!, requestIdentifier: world.freeRequest(name),
                AppliedRequest(reference: reference, code: code, text: .empty)))
        world.settle()
    }

    private func states(
        _ reference: UInt64, after user: String = "", count: Int = 1_000
    ) -> ReceiptStates? {
        world.broker.receiptStates(
            of: reference, app: World.app, after: Array(user.utf8), countMaximum: count,
            at: world.now)
    }

    private func words(_ receivers: [ReceiverState]) -> [String] {
        receivers.map { receiver in
            let name = String(decoding: receiver.user, as: UTF8.self)
            let delivered = receiver.isDelivered.map { $0 ? "has" : "lacks" } ?? "unknown"
            return "\(name) \(delivered)\(receiver.isApplied ? ", applied" : "")"
                + (receiver.isWithdrawn ? ", withdrawn" : "")
        }
    }

    @Test func `tell of each user of a list, in pages, also after a crash`() {
        world.begin("ann/1", "bob/pc", "carl/1", "dora/1")
        world.send(
            "ann/1", 1, to: .users(["dora", "bob", "carl"]), "on", asks: [.delivered, .applied])
        world.acknowledge("bob/pc", through: 1)
        world.acknowledge("carl/1", through: 1)
        world.settle()
        apply("carl/1", 0xA1)
        for _ in 1...2 {
            let all = states(0xA1)!
            #expect(words(all.receivers) == ["dora lacks", "bob has", "carl has, applied"])
            #expect(
                [all.receiverCount, all.deliveredCount, all.appliedCount] == [3, 2, 1]
                    && all.failedCount == nil && all.group == nil && all.next == nil)
            let first = states(0xA1, count: 2)!
            #expect(words(first.receivers) == ["dora lacks", "bob has"])
            let second = states(
                0xA1, after: String(decoding: first.next!, as: UTF8.self), count: 2)!
            #expect(words(second.receivers) == ["carl has, applied"] && second.next == nil)
            #expect(states(0xA1, after: "nobody")?.receivers == [])
            world.crash()
            world.begin("ann/1", "bob/pc", "carl/1", "dora/1")
        }
    }

    @Test func `tell of a group how many, and who told something`() {
        world.begin("ann/1", "bob/pc", "carl/1", "dora/1")
        let group = world.makeGroup(owner: "ann/1", members: ["bob/pc", "carl/1", "dora/1"])
        _ = world.lines()
        world.send("ann/1", 1, to: .group(group), "on", asks: [.delivered, .applied])
        world.settle()
        #expect(words(states(0xA1)!.receivers) == ["bob lacks", "carl lacks", "dora lacks"])
        for name in ["bob/pc", "carl/1"] {
            world.acknowledge(name, through: world.sentThrough(name))
        }
        world.settle()
        apply("carl/1", 0xA1, code: 200)
        let told = states(0xA1)!
        #expect([told.receiverCount, told.deliveredCount, told.appliedCount] == [3, 2, 1])
        #expect(told.failedCount == 1 && told.group == Array(group.utf8))
        // Members with one device are counted, and not remembered one by one.
        #expect(words(told.receivers) == ["bob unknown", "carl has, applied", "dora unknown"])
        #expect(words(states(0xA1, after: "bob", count: 1)!.receivers) == ["carl has, applied"])
        world.acknowledge("dora/1", through: world.sentThrough("dora/1"))
        world.settle()
        #expect(words(states(0xA1)!.receivers) == ["bob has", "carl has, applied", "dora has"])
    }

    @Test func `tell what a recall withdrew, and for whom it was too late`() {
        world.begin("ann/1", "bob/pc", "carl/1")
        world.disconnect("bob/pc")
        world.settle()
        world.send("ann/1", 1, to: .users(["bob", "carl"]), "on", asks: .delivered)
        world.settle()
        world.recall("ann/1", 0xA1)
        world.settleAll()
        let told = states(0xA1)!
        #expect(told.isRecalled && told.withdrawnCount == 1 && told.lateCount == 1)
        #expect(told.receivers.first?.isWithdrawn == true)
    }

    @Test func `are of no other app, and end with the message`() {
        world.begin("ann/1", "bob/pc")
        world.send("ann/1", 1, to: .user("bob"), "on", expiry: 10, asks: .delivered)
        world.settle()
        #expect(states(0xA2) == nil)
        #expect(
            world.broker.receiptStates(
                of: 0xA1, app: Array("other".utf8), after: [], countMaximum: 1, at: world.now)
                == nil)
        #expect(states(0xA1)?.isExpired == false)
        world.pass(seconds: 11)
        #expect(states(0xA1)?.isExpired == true)
        world.pass(seconds: 3_700)
        #expect(states(0xA1) == nil)
    }
}
