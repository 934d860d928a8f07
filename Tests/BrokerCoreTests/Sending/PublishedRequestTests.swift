// Requests that MQTT clients make by publications: carried out like those of MRT, once for each
// publication, and answered beside it.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A request that an MQTT client publishes` {
    let world = World()

    init() {
        world.begin("ann/phone")
        world.beginMQTT("bob/pc")
    }

    /// The number of a request.
    private func number(_ serial: UInt64, _ packet: UInt16 = 0, _ grade: Grade = .transient)
        -> UInt64
    {
        PublishedRequest(serial: serial, packetIdentifier: packet, grade: grade).number
    }

    /// Asks for the presence of a user.
    private func ask(_ number: UInt64, _ user: String = "ann") {
        var bytes: [UInt8] = []
        let name = bytes.appendRange(user)
        world.step(
            .presenceQueried(world.connections["bob/pc"]!, requestIdentifier: number, user: name),
            bytes: bytes)
    }

    /// The lines to bob, up to a comma.
    private func lines() -> [String] {
        world.lines(of: "bob/pc").map { String($0.prefix { $0 != "," }) }
    }

    @Test func `is answered after its publication, in the order of the publications`() {
        ask(number(1))
        #expect(lines() == ["presence \(number(1))"])
        ask(number(2, 7, .durable))
        #expect(lines() == ["accepted 7", "presence \(number(2, 7, .durable))"])
        world.publish("bob/pc", 8, to: .user("ann"), "x")
        ask(number(3, 9, .durable))
        world.publish("bob/pc", 10, to: .user("nobody"), "x")
        #expect(lines() == ["presence \(number(3, 9, .durable))"])
        world.settle()
        #expect(lines() == ["accepted 8", "accepted 9", "accepted 10"])
        #expect(world.counters.requestsPublished == 3)
    }

    @Test func `of QoS 2 is carried out once until its identifier is released`() {
        let first = number(1, 5, .once)
        ask(first)
        #expect(lines() == ["presence \(first)"])
        // Its identifier is stored before its publication is answered.
        ask(number(2, 5, .once))
        #expect(lines() == ["no reply \(number(2, 5, .once))"])
        world.settle()
        #expect(lines() == ["received 5"])
        ask(number(3, 5, .once))
        #expect(lines() == ["received 5", "no reply \(number(3, 5, .once))"])
        // Also after the connection was lost; its reply was lost with it.
        world.lose("bob/pc")
        world.connect("bob/pc", expiry: 3600, dialect: .mqtt5)
        world.settle()
        _ = world.lines()
        ask(number(4, 5, .once))
        #expect(lines() == ["received 5", "no reply \(number(4, 5, .once))"])
        release()
        ask(number(5, 5, .once))
        #expect(lines() == ["presence \(number(5, 5, .once))"])
    }

    private func release() {
        world.answer("bob/pc", .release, 5)
        world.settle()
        #expect(lines() == ["complete 5"])
    }

    @Test(arguments: [false, true])
    func `of QoS 2 is stored with what it changes`(isCommitted: Bool) {
        world.createGroup("bob/pc", key: 1, id: number(1, 5, .once))
        #expect(lines() == [])
        #expect(world.beginCommit())
        world.crash(committing: isCommitted)
        world.connect("bob/pc", expiry: 3600, dialect: .mqtt5)
        world.settle()
        _ = world.lines()
        let again = number(1, 5, .once)
        world.createGroup("bob/pc", key: 1, id: again)
        world.settle()
        #expect(
            lines()
                == (isCommitted
                    ? ["received 5", "no reply \(again)"] : ["received 5", "response \(again)"]))
        #expect(world.broker.gauges().groups == 1)
        release()
    }

    @Test func `of QoS 2 is answered at once if its session is not stored`() {
        world.connect("carl/pc", clean: true, expiry: 0, dialect: .mqtt3)
        world.settle()
        _ = world.lines()
        world.step(
            .requestFaulted(
                world.connections["carl/pc"]!, requestIdentifier: number(1, 5, .once),
                .malformedPacket))
        #expect(
            world.lines(of: "carl/pc") == [
                "received 5", "response \(number(1, 5, .once)), malformedPacket",
            ])
    }

    @Test func `of QoS 1 that is repeated is carried out again`() {
        ask(number(1, 5, .durable))
        ask(number(2, 5, .durable))
        #expect(
            lines() == [
                "accepted 5", "presence \(number(1, 5, .durable))", "accepted 5",
                "presence \(number(2, 5, .durable))",
            ])
    }

    @Test func `counts as a publication that is not released`() {
        world.limits.enforcesPublishWindow = true
        world.limits.publishWindowMaximum = 2
        world.beginMQTT("carl/pc")
        var bytes: [UInt8] = []
        let name = bytes.appendRange("ann")
        for packet in UInt16(1)...4 {
            guard let connection = world.connections["carl/pc"] else { break }
            world.step(
                .presenceQueried(
                    connection, requestIdentifier: number(UInt64(packet), packet, .once),
                    user: name),
                bytes: bytes)
        }
        let lines = world.lines(of: "carl/pc")
        #expect(lines.filter { $0.hasPrefix("received") }.count < 4)
        #expect(lines.contains("closed, receiveMaximumExceeded"), "\(lines)")
    }

    @Test func `that the dialect refused has its answers too`() {
        world.step(
            .requestFaulted(
                world.connections["bob/pc"]!, requestIdentifier: number(1, 3, .durable),
                .malformedPacket))
        #expect(
            world.lines(of: "bob/pc") == [
                "accepted 3", "response \(number(1, 3, .durable)), malformedPacket",
            ])
        #expect(world.counters.requestsRefused == 1)
    }

    @Test func `creates groups, answered when they are committed`() {
        world.createGroup("bob/pc", key: 1, id: number(1, 3, .durable))
        #expect(world.lines(of: "bob/pc") == ["accepted 3"])
        world.settle()
        #expect(world.lines(of: "bob/pc") == ["response \(number(1, 3, .durable)), success"])
    }

    @Test func `sets and clears a will, and a refused one ends no connection`() {
        world.setWill("bob/pc", to: .user("nobody"), "x", id: number(1))
        #expect(world.lines(of: "bob/pc") == ["response \(number(1)), topicNameInvalid"])
        world.setWill("bob/pc", to: .user("ann"), "gone", id: number(2))
        world.settle()
        #expect(world.lines(of: "bob/pc") == ["response \(number(2)), success"])
        world.lose("bob/pc")
        world.settle()
        #expect(world.lines(of: "ann/phone") == ["#1 \"gone\" from bob, once"])
    }

    // MARK: - The topic of replies

    @Test func `needs no subscription to its topic of replies, which is granted without a place`() {
        let before = world.broker.gauges().subscriptions
        #expect(
            world.subscribeMQTT("bob/pc", "$api/reply", "a", "$api/reply/x", "$api/#", "$api/x")
                == [0, 2, 0, 0x8F, 0x8F])
        #expect(world.broker.gauges().subscriptions == before + 1)
        world.publish("bob/pc", 4, "$api/reply", "forged")
        world.settle()
        #expect(world.lines(of: "bob/pc").last == "accepted 4, topicNameInvalid")
    }

    @Test func `is explained to operators`() {
        func explain(_ action: RightsAction) -> Bool? {
            world.broker.explain(
                app: Array("app".utf8), user: Array("bob".utf8), device: Array("pc".utf8),
                tokens: [], action)?.decision.isAllowed
        }
        func decide(_ text: String, _ make: (UnsafeRawBufferPointer) -> RightsAction) -> Bool? {
            Array(text.utf8).withUnsafeBytes { explain(make($0)) }
        }
        #expect(decide("$api/history") { .publish(topic: $0) } == true)
        #expect(decide("$apis/x") { .publish(topic: $0) } == false)
        #expect(decide("$api/reply/1") { .subscribe(filter: $0) } == true)
    }

    @Test func `has a number that no packet identifier has`() {
        #expect(PublishedRequest(number: 65_535) == nil)
        #expect(PublishedRequest(number: 131_071) == nil)
        let request = PublishedRequest(
            serial: 1 << 45, packetIdentifier: .max, grade: .once)
        #expect(PublishedRequest(number: request.number) == request)
        #expect(request.packetIdentifier == .max && request.isOnce)
    }
}
