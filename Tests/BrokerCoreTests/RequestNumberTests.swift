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

    @Test func `is answered for MQTT clients, which name subscriptions alike`() {
        world.beginMQTT("eve/tab")
        var bytes: [UInt8] = []
        let filter = bytes.appendRange("a")
        for _ in 0..<2 {
            let request = SubscribeRequest(requestIdentifier: 7, filter: filter, grade: .once)
            world.step(.subscribeReceived(world.connections["eve/tab"]!, request), bytes: bytes)
        }
        world.settle()
        #expect(world.lines() == ["eve/tab: response 7, success", "eve/tab: response 7, success"])
    }
}
