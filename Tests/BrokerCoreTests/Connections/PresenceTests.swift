// Who hears of whom, and when.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct PresenceTests {
    let world = World()

    init() {
        world.begin("ann/phone")
    }

    /// What Ann hears.
    private func heard() -> [String] {
        world.settle()
        return world.lines().filter { $0.hasPrefix("ann/phone: ") }
    }

    private func subscribe(_ filter: String) -> [String] {
        world.subscribe("ann/phone", filter)
        return heard()
    }

    private func event(_ text: String, of user: String) -> String {
        "ann/phone: #- \"\(text)\" from \(user) on $presence/\(user)"
    }

    @Test func `is told to who subscribes, with the device`() {
        #expect(subscribe("$presence/+") == ["ann/phone: response 1, success"])
        world.connect("bob/pc")
        #expect(heard() == [event("online pc", of: "bob")])
        world.lose("bob/pc")
        #expect(heard() == [event("offline pc", of: "bob")])
        world.connect("carl/")
        #expect(heard() == [event("online", of: "carl")])
        #expect(world.counters.presenceEvents == 3)
    }

    @Test func `is told of each device, and says nothing of a ghost that is replaced`() {
        _ = subscribe("$presence/bob")
        world.connect("bob/pc")
        world.connect("bob/pad")
        world.connect("carl/pc")
        #expect(heard() == [event("online pc", of: "bob"), event("online pad", of: "bob")])
        world.connect("bob/pc", isReconnect: true, cookie: world.cookies["bob/pc"])
        #expect(heard() == [event("online pc", of: "bob")])
        world.connect("bob/pc")
        #expect(heard() == [event("offline pc", of: "bob"), event("online pc", of: "bob")])
        world.disconnect("bob/pad")
        #expect(heard() == [event("offline pad", of: "bob")])
    }

    @Test func `costs nothing where nobody asked`() {
        world.begin("bob/pc")
        #expect(world.counters.presenceEvents == 0)
        _ = subscribe("$presence/bob")
        world.unsubscribe("ann/phone", "$presence/bob")
        world.lose("bob/pc")
        _ = heard()
        #expect(world.counters.presenceEvents == 0)
    }

    @Test func `needs the right to ask for it, for one or for all`() {
        world.setRights("presence:bob", "subscribe:#")
        #expect(subscribe("$presence/bob") == ["ann/phone: response 1, success"])
        for filter in ["$presence/carl", "$presence/+", "$presence/#", "$presence", "$presence/"] {
            #expect(subscribe(filter) == ["ann/phone: response 1, notAuthorized"], "\(filter)")
        }
        world.setRights("subscribe:#")
        world.connect("bob/pc")
        #expect(heard() == [], "the subscription ended with the right")
    }

    @Test func `is nobody's to make up, and no part of a filter for everything`() {
        _ = subscribe("#")
        world.connect("bob/pc", outbox: (epoch: 7, seen: 0, used: 0))
        #expect(heard() == [])
        world.send("bob/pc", 1, to: .topic("$presence/carl"), "online", isRaw: true)
        world.settle()
        #expect(world.lines() == ["bob/pc: result 1, topicNameInvalid"])
    }
}
