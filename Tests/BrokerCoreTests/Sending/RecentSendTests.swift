// Sends of MQTT clients under ids of the application's own: once in the window, and never again.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A message id of an MQTT client's own` {
    let world = World()

    init() {
        world.beginMQTT("bob/pc", "ann/phone")
        world.subscribeMQTT("ann/phone", "$u/ann")
        _ = world.lines()
    }

    private func send(_ identifier: UInt16, _ id: String, grade: Grade = .durable) {
        world.publish("bob/pc", identifier, to: .user("ann"), "x", grade: grade, id: id)
    }

    @Test func `comes back with the result, and a repeat is not delivered again`() {
        send(1, "m1")
        world.settle()
        #expect(
            world.lines() == [
                "ann/phone: #1 \"x\" from bob", "bob/pc: accepted 1, m1 sent",
            ])
        send(2, "m1")
        send(3, "m2")
        world.settle()
        #expect(
            world.lines() == [
                "bob/pc: accepted 2, m1 sent", "ann/phone: #2 \"x\" from bob",
                "bob/pc: accepted 3, m2 sent",
            ])
    }

    @Test func `is answered twice with the commit where both are under way`() {
        send(1, "m1")
        send(2, "m1", grade: .once)
        #expect(world.lines(of: "bob/pc") == [])
        world.settle()
        #expect(
            world.lines(of: "bob/pc") == ["accepted 1, m1 sent", "received 2, m1 sent"])
        world.answer("bob/pc", .release, 2)
        world.settle()
        #expect(world.lines() == ["bob/pc: complete 2"])
    }

    @Test func `is known after a reconnect`() {
        send(1, "m1")
        world.lose("bob/pc")
        world.settle()
        _ = world.lines()
        world.beginMQTT("bob/pc")
        send(9, "m1")
        world.settle()
        #expect(world.lines() == ["bob/pc: accepted 9, m1 sent"])
    }

    @Test func `of QoS 2 is not delivered again after a crash either`() {
        send(1, "m1")
        world.settle()
        send(2, "m1", grade: .once)
        world.settle()
        world.crash()
        world.beginMQTT("ann/phone", "bob/pc")
        _ = world.lines()
        world.publish("bob/pc", 2, to: .user("ann"), "x", grade: .once, id: "m1")
        world.settle()
        #expect(world.lines(of: "bob/pc") == ["received 2"])
    }

    private var keptCount: Int {
        let session = world.broker.session(
            of: world.broker.user(named: Array("bob".utf8), app: Index(place: 0))!,
            device: Name(Array("pc".utf8)))!
        return world.broker.sessions[session].senderState.value.recentSends.count
    }

    /// Its client may have sent thousands before the first was answered.
    @Test(arguments: [true, false])
    func `is not kept for more sends than the window has, once the client is away`(
        isAnswered: Bool
    ) {
        for number in 1...200 { send(UInt16(number), "m\(number)", grade: .once) }
        if isAnswered { world.settle() }
        world.lose("bob/pc")
        world.settle()
        #expect(keptCount == Int(world.limits.sendWindowMaximum))
        world.beginMQTT("bob/pc")
        send(201, "m200")
        world.settle()
        #expect(world.lines(of: "bob/pc").contains("accepted 201, m200 sent"))
    }

    @Test func `names refused receivers up to a limit, and counts them beyond`() {
        let names = (0..<200).map { "nobody\($0)" }
        for round in 1...4 {
            world.publish(
                "bob/pc", UInt16(round), to: .users(["ann"] + names), "x", id: "m\(round)")
            world.settle()
        }
        let session = world.broker.session(
            of: world.broker.user(named: Array("bob".utf8), app: Index(place: 0))!,
            device: Name(Array("pc".utf8)))!
        let recent = (1...4).compactMap {
            world.broker.sessions[session].senderState.value.recentSends.first(Array("m\($0)".utf8))
        }
        let nameCount = recent.reduce(0) { $0 + $1.refusals.count }
        #expect(nameCount > 0 && nameCount <= 256)
        #expect(recent.filter { $0.refusedCount >= 200 }.count >= 2)
    }

    @Test func `leaves no trace where the send was refused`() {
        world.publish("bob/pc", 1, to: .user("nobody"), "x", id: "m1")
        #expect(world.lines(of: "bob/pc") == ["accepted 1, topicNameInvalid, m1 topicNameInvalid"])
        world.addUser("nobody")
        world.publish("bob/pc", 2, to: .user("nobody"), "x", id: "m1")
        world.settle()
        #expect(world.lines(of: "bob/pc") == ["accepted 2, m1 sent"])
    }

    @Test func `is forgotten behind as many others as may be unanswered`() {
        let window = Int(CoreLimits().sendWindowMaximum)
        for number in 0...window {
            send(UInt16(number + 1), "m\(number)")
            world.settle()
            world.answer(
                "ann/phone", .accepted, PacketIdentifier.derived(from: UInt64(number + 1)))
        }
        _ = world.lines()
        send(1, "m1")
        send(2, "m0")
        world.settle()
        #expect(world.lines(of: "ann/phone").count == 1)
    }
}
