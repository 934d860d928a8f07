// Requests of MRT clients under numbers that are in use.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A request under the number of one that is open` {
    let world = World()

    init() {
        world.begin("ann/phone", "bob/pc")
    }

    @Test func `ends its connection, whatever it asks for`() {
        let requests: [() -> Void] = [
            { world.subscribe("ann/phone", "b", id: 7) },
            { world.unsubscribe("ann/phone", "b", id: 7) },
            { world.setWill("ann/phone", to: .user("bob"), "x", id: 7) },
            { world.clearWill("ann/phone", id: 7) },
            { world.createGroup("ann/phone", key: 1, id: 7) },
            {
                world.step(
                    .requestFaulted(
                        world.connections["ann/phone"]!, requestIdentifier: 7, .topicNameInvalid))
            },
            {
                world.step(
                    .presenceQueried(
                        world.connections["ann/phone"]!, requestIdentifier: 7, user: .empty))
            },
        ]
        for request in requests {
            world.begin("ann/phone")
            world.subscribe("ann/phone", "a", id: 7)
            request()
            #expect(world.lines() == ["ann/phone: closed, protocolError"])
            world.settle()
            #expect(world.lines() == [])
        }
    }

    @Test func `is free again with the answer, and another client's own`() {
        world.subscribe("ann/phone", "a", id: 7)
        world.subscribe("bob/pc", "a", id: 7)
        world.settle()
        #expect(world.lines() == ["ann/phone: response 7, success", "bob/pc: response 7, success"])
        world.subscribe("ann/phone", "b", id: 7)
        world.settle()
        #expect(world.lines() == ["ann/phone: response 7, success"])
    }

    /// SUBSCRIBE with some filters, all under packet identifier 7.
    private func subscribe(_ filters: [String]) {
        world.step(subscribe: filters, under: 7, on: "eve/tab")
    }

    private func unsubscribe(_ filter: String) {
        var bytes: [UInt8] = []
        let request = UnsubscribeRequest(
            requestIdentifier: 7, filters: .one(bytes.appendRange(filter)))
        world.step(.unsubscribeReceived(world.connections["eve/tab"]!, request), bytes: bytes)
    }

    @Test func `is refused for an MQTT 5 client, behind the answer of the first one`() {
        world.beginMQTT("eve/tab", dialect: .mqtt5)
        subscribe(["a", "b"])
        subscribe(["c", "d"])
        world.settle()
        #expect(world.lines() == ["eve/tab: subscribe 7", "eve/tab: subscribe 7"])
        #expect(world.lastAnswer == [0x91, 0x91])
        #expect(world.gauges.subscriptions == 2)
        unsubscribe("b")
        unsubscribe("a")
        world.settle()
        _ = world.lines()
        #expect(world.lastAnswer == [0x91])
        #expect(world.gauges.subscriptions == 1)
        // It is free again with its answer, and an UNSUBSCRIBE is told from a SUBSCRIBE by that.
        subscribe(["a"])
        unsubscribe("a")
        world.settle()
        _ = world.lines()
        #expect(world.lastAnswer == [0])
        #expect(world.gauges.subscriptions == 0)
    }

    @Test func `is answered for MQTT 3 clients, which name subscriptions alike`() {
        world.beginMQTT("eve/tab", dialect: .mqtt3)
        subscribe(["a"])
        subscribe(["b"])
        world.settle()
        #expect(world.lines() == ["eve/tab: subscribe 7", "eve/tab: subscribe 7"])
        #expect(world.gauges.subscriptions == 2)
    }
}
