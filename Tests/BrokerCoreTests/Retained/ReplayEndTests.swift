// A replay of retained messages whose subscription ends between two of its pieces.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A replay of retained messages` {
    let world = World()

    init() {
        world.beginMQTT("bob/pc", "ann/phone")
        let text = String(repeating: "x", count: 1_000)
        for number in 1...40 {
            world.publish("bob/pc", "r/\(number)", text, grade: .transient, isRetained: true)
        }
        world.publish("bob/pc", "s", "other", grade: .transient, isRetained: true)
        world.settle()
        _ = world.lines()
    }

    /// Lets the client read until it is sent nothing more; what it got.
    private func readAll() -> [String] {
        var got: [String] = []
        while true {
            let lines = world.lines(of: "ann/phone")
            got += lines.filter { $0.contains("retained") }
            guard lines.contains("tell when it has read") else { return got }
            world.step(.outgoingDrained(world.connections["ann/phone"]!))
        }
    }

    /// The first piece of 40, with another subscription behind it.
    private func begin() {
        world.subscribeMQTT("ann/phone", "r/#", "s", grade: .transient)
        let first = world.lines(of: "ann/phone").count { $0.contains("retained") }
        #expect(first > 0 && first < 40)
    }

    @Test func `ends with its subscription, and the next one has its turn`() {
        begin()
        world.unsubscribe("ann/phone", "r/#")
        world.step(.outgoingDrained(world.connections["ann/phone"]!))
        let got = readAll()
        #expect(got.count == 1 && got[0].contains(" on s, retained"))
        #expect(world.broker.retention.replays.count == 0)
        world.broker.checkInvariants()
    }

    @Test func `ends with the right to its subscription`() {
        begin()
        let session = world.broker.session(of: world.connections["ann/phone"]!)!
        // What a change of rights does with a filter that they do not cover any more.
        var ended: [Index<Subscription>] = []
        world.broker.forEachSubscription(of: session) { index in
            let audience = world.broker.routing.subscriptions[index].audience
            if world.broker.routing.audiences[audience].filter.elementsEqual("r/#".utf8) {
                ended.append(index)
            }
        }
        for index in ended { world.broker.forgetSubscription(index) }
        world.step(.outgoingDrained(world.connections["ann/phone"]!))
        #expect(readAll().allSatisfy { $0.contains(" on s, retained") })
        #expect(world.broker.retention.replays.count == 0)
    }

    @Test func `begins anew where its subscription ends and comes again`() {
        begin()
        world.unsubscribe("ann/phone", "r/#")
        world.subscribeMQTT("ann/phone", "r/#", grade: .transient)
        world.step(.outgoingDrained(world.connections["ann/phone"]!))
        #expect(readAll().count == 41)
    }
}
