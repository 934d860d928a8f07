// Templates of apps: in the requests for targets of their kinds, over restarts, and gone with their
// apps.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `Templates of wake-ups` {
    let world = World()

    private func set(_ kind: WakeTarget.Kind, _ json: String) {
        let isSet = try? world.broker.setWakeTemplate(Array(json.utf8), for: kind, app: World.app)
        #expect(isSet == true)
        world.settle()
    }

    private func remove(_ kind: WakeTarget.Kind) -> Bool {
        world.broker.removeWakeTemplate(for: kind, app: World.app)
    }

    private var templates: [String] {
        (world.broker.wakeTemplates(app: World.app) ?? []).map {
            "\($0.kind.name) " + String(decoding: $0.json, as: UTF8.self)
        }
    }

    @Test func `are in requests for targets of their kinds`() {
        world.allowWakes { $0.intervalSeconds = 1 }
        world.begin("alice/pc", "bob/pc", "relay/1")
        world.setTarget("bob")
        world.setTarget("bob", .fcm, "token")
        world.disconnect("bob/pc")
        _ = world.told()
        set(.apns, #"{"a":1}"#)
        set(.fcm, #"{"f":1}"#)
        world.send("alice/pc", 1, to: .user("bob"), "open")
        let told = world.told()
        #expect(told.count == 1 && told[0].contains(#""templates":{"fcm":{"f":1}}"#), "\(told)")
        #expect(remove(.fcm))
        #expect(!remove(.fcm))
        world.pass(seconds: 2)
        world.send("alice/pc", 2, to: .user("bob"), "open")
        world.pass(seconds: 2)
        let later = world.told()
        #expect(!later.isEmpty && !later.contains { $0.contains("templates") }, "\(later)")
    }

    @Test func `survive a restart, and are listed in the order of their kinds`() {
        set(.fcm, #"{"f":1}"#)
        set(.webhook, #"{"w":1}"#)
        set(.fcm, #"{"f":2}"#)
        world.crash()
        #expect(templates == [#"webhook {"w":1}"#, #"fcm {"f":2}"#])
        #expect(remove(.webhook))
        world.settle()
        world.crash()
        #expect(templates == [#"fcm {"f":2}"#])
        let ofUnknown = world.broker.wakeTemplates(app: [0x78])
        #expect(ofUnknown == nil)
        let isSet = try? world.broker.setWakeTemplate([0x7B, 0x7D], for: .fcm, app: [0x78])
        #expect(isSet == false)
    }

    @Test func `are gone with their app`() {
        set(.fcm, #"{"f":1}"#)
        let isBegun = world.broker.beginDeletion(ofApp: World.app)
        #expect(isBegun)
        var deletion = Deletion(of: DeletionScope(app: World.app))
        while world.broker.delete(&deletion, at: world.now, effects: &world.effects) {
            world.settle()
        }
        world.settle()
        #expect(world.rows(of: .wakeTemplates).isEmpty)
        world.crash()
        let left = world.broker.wakeTemplates(app: World.app)
        #expect(left == nil)
    }
}
