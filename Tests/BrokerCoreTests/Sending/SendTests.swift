// Sends: whom they reach, what the sender is told, and what is refused.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A send` {
    let world = World()

    @Test func `to a user reaches all of the user's devices`() {
        world.begin("bob/pc", "ann/phone", "ann/watch")
        world.send("bob/pc", 1, to: .user("ann"), "hi", id: "m-1")
        #expect(
            world.lines() == [
                "ann/phone: #1 \"hi\" from bob", "ann/watch: #1 \"hi\" from bob",
            ])
        world.commit()
        #expect(world.lines() == ["bob/pc: result 1 (m-1), sent"])
    }

    @Test func `to a user who is away waits for each device`() {
        world.begin("bob/pc", "ann/phone", "ann/watch")
        world.lose("ann/phone", "ann/watch")
        world.send("bob/pc", 1, to: .user("ann"), "hi")
        #expect(world.lines() == [])
        world.settle()
        #expect(world.lines() == ["bob/pc: result 1, sent"])
        world.connect("ann/phone")
        world.settle()
        #expect(world.lines() == ["ann/phone: accepted, present", "ann/phone: #1 \"hi\" from bob"])
        world.connect("ann/watch")
        world.settle()
        #expect(world.lines() == ["ann/watch: accepted, present", "ann/watch: #1 \"hi\" from bob"])
    }

    @Test func `to one user after the other reaches each, known or not`() {
        world.begin("bob/pc", "ann/phone", "anne/pc")
        for (number, name) in ["ann", "ann", "anne", "an", "ann"].enumerated() {
            world.send("bob/pc", UInt64(number + 1), to: .user(name), "hi")
        }
        #expect(
            world.lines() == [
                "ann/phone: #1 \"hi\" from bob", "ann/phone: #2 \"hi\" from bob",
                "anne/pc: #1 \"hi\" from bob", "bob/pc: result 4, topicNameInvalid",
                "ann/phone: #3 \"hi\" from bob",
            ])
    }

    @Test func `to oneself comes to all of one's devices`() {
        world.begin("ann/phone", "ann/watch")
        world.send("ann/phone", 1, to: .user("ann"), "note")
        world.settle()
        #expect(
            world.lines() == [
                "ann/phone: #1 \"note\" from ann", "ann/watch: #1 \"note\" from ann",
                "ann/phone: result 1, sent",
            ])
    }

    @Test func `to a user nobody knows is refused, and leaves no trace`() {
        world.begin("bob/pc")
        world.send("bob/pc", 1, to: .user("ann"), "hi", id: "x")
        #expect(world.lines() == ["bob/pc: result 1 (x), topicNameInvalid"])
        world.addUser("ann")
        world.send("bob/pc", 1, to: .user("ann"), "hi again", id: "x")
        world.settle()
        #expect(world.lines() == ["bob/pc: result 1 (x), sent"])
        #expect(world.counters.sendsRepeated == 0)
    }

    @Test func `to a list names the receivers that were refused by their place in it`() {
        world.begin("bob/pc", "ann/phone", "carl/pc")
        world.send(
            "bob/pc", 1, to: .users(["nobody", "ann", "none", "carl"]), "hi", id: "m")
        world.settle()
        #expect(
            world.lines() == [
                "ann/phone: #1 \"hi\" from bob", "carl/pc: #1 \"hi\" from bob",
                "bob/pc: result 1 (m), sent, 2 refused [0: topicNameInvalid, 2: topicNameInvalid]",
            ])
    }

    @Test func `to a list that nobody of takes is refused`() {
        world.begin("bob/pc")
        world.send("bob/pc", 1, to: .users(["x", "y"]), "hi")
        #expect(world.lines() == ["bob/pc: result 1, topicNameInvalid"])
    }

    @Test func `to a list that names a user twice is delivered once`() {
        world.begin("bob/pc", "ann/phone")
        world.addUser("carl")
        world.send("bob/pc", 1, to: .users(["ann", "carl", "ann", "carl"]), "hi")
        world.settle()
        #expect(world.lines() == ["ann/phone: #1 \"hi\" from bob", "bob/pc: result 1, sent"])
        #expect(world.gauges.queuedMessages == 2)
        world.send("bob/pc", 0, to: .users(["ann", "ann"]), "ping", grade: .transient)
        #expect(world.lines() == ["ann/phone: #- \"ping\" from bob"])
    }

    @Test func `to everybody reaches every session but the sender's`() {
        world.begin("bob/pc", "bob/tablet", "ann/phone", "carl/pc")
        world.lose("carl/pc")
        world.send("bob/pc", 1, to: .everybody, "fire")
        world.settle()
        #expect(
            world.lines() == [
                "bob/tablet: #1 \"fire\" from bob by broadcast",
                "ann/phone: #1 \"fire\" from bob by broadcast", "bob/pc: result 1, sent",
            ])
        world.connect("carl/pc")
        world.settle()
        #expect(world.lines().last == "carl/pc: #1 \"fire\" from bob by broadcast")
    }

    @Test func `never meets another app`() {
        world.begin("ann/phone")
        let digest = Digest(words: (9, 2, 3, 4))
        _ = try! world.broker.addApp(
            Array("other".utf8), keyDigest: digest, rights: .everything)
        world.connect("bob/pc") { bytes in
            .appKey(
                app: bytes.appendRange("other"), digest: digest,
                user: bytes.appendRange("bob"))
        }
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 1, to: .user("ann"), "hi")
        world.send("bob/pc", 2, to: .everybody, "all")
        world.settle()
        #expect(
            world.lines() == [
                "bob/pc: result 1, topicNameInvalid", "bob/pc: result 2, noMatchingSubscribers",
            ])
    }

    @Test func `that is transient reaches who is online, and nobody else, ever`() {
        world.begin("bob/pc", "ann/phone", "ann/watch")
        world.lose("ann/watch")
        world.send("bob/pc", 0, to: .user("ann"), "now", grade: .transient)
        #expect(world.lines() == ["ann/phone: #- \"now\" from bob"])
        #expect(!world.hasBatch)
        world.connect("ann/watch")
        world.settle()
        #expect(world.lines() == ["ann/watch: accepted, present"])
    }

    @Test func `that is transient is answered only when it is refused`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 0, to: .user("nobody"), "now", grade: .transient, id: "m")
        world.send("bob/pc", 0, to: .everybody, "now", grade: .transient, id: "n")
        #expect(
            world.lines() == [
                "bob/pc: result 0 (m), topicNameInvalid",
                "ann/phone: #- \"now\" from bob by broadcast",
            ])
    }

    @Test func `that is larger than messages may be is refused`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x", byteCount: 1024)
        world.send("bob/pc", 2, to: .user("ann"), "x", byteCount: 1025)
        world.settle()
        #expect(
            world.lines() == [
                "ann/phone: #1 \"x\" from bob", "bob/pc: result 2, packetTooLarge",
                "bob/pc: result 1, sent",
            ])
    }

    @Test func `of raw bytes has its own limit`() {
        world.limits.payloadMaximum = 10
        world.begin("bob/pc", "ann/phone")
        world.subscribe("ann/phone", "t")
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 1, to: .topic("t"), "0123456789", byteCount: 2000, isRaw: true)
        world.send("bob/pc", 2, to: .topic("t"), "0123456789a", isRaw: true)
        #expect(
            world.lines() == [
                "ann/phone: #1 \"0123456789\" from bob on t", "bob/pc: result 2, packetTooLarge",
            ])
    }

    @Test func `that its dialect found fault with is refused for that`() {
        world.begin("bob/pc", "ann/phone")
        var bytes: [UInt8] = []
        let request = SendRequest(
            number: 4, grade: .durable, target: .user(bytes.appendRange("ann")),
            payload: bytes.appendRange("x"), messageByteCount: 1, fault: .payloadFormatInvalid)
        world.step(.sendReceived(world.connections["bob/pc"]!, request), bytes: bytes)
        #expect(world.lines() == ["bob/pc: result 4, payloadFormatInvalid"])
    }

    @Test(arguments: [
        (-5_000, true), (5_000, true), (-5_001, false), (5_001, false), (0, true),
    ])
    func `carries its sender's own time within five seconds of the broker's`(
        difference: Int, isTaken: Bool
    ) throws {
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        let own = UInt64(Int(world.now.unixMilliseconds) + difference)
        world.send("bob/pc", 1, to: .user("ann"), "x", time: own)
        world.beginCommit()
        let batch = world.lastBatch
        let time = batch.blocks.withUnsafeBytes { blocks in
            MessageBlock(batch.messages[0].block.bytes(in: blocks)).time
        }
        #expect(time == (isTaken ? own : world.now.unixMilliseconds))
        #expect(world.counters.senderClocksRejected == (isTaken ? 0 : 1))
    }
}
