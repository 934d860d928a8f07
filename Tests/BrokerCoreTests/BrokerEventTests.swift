// What the user of a relay is told of the broker: lost and expired sessions, full queues, refused
// logins, certificates.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `An event of the broker` {
    let world = World()

    init() { tell(.ofUsers) }

    private func tell(_ kinds: BrokerEventKinds) {
        var policy = world.limits.appPolicy
        policy.events = BrokerEventPolicy(relay: Array("relay".utf8), kinds: kinds)
        world.limits.appPolicies = [World.app: policy]
    }

    @Test func `tells of a connection that is lost, and of none that sends DISCONNECT`() {
        world.begin("relay/1", "bob/pc", "ann/1")
        world.disconnect("ann/1")
        #expect(world.told() == [])
        world.lose("bob/pc")
        #expect(
            world.told() == [
                #"{"event":"SESSION_LOST","user":"bob","device":"pc","reason":128,"#
                    + #""time":1700000000000}"#
            ])
        #expect(world.counters.brokerEventsTold == 1)
    }

    @Test func `tells of a session that expires, with what waited in it`() {
        world.begin("relay/1", "ann/1")
        world.begin("bob/pc", expiry: 60)
        world.disconnect("bob/pc")
        world.send("ann/1", 1, to: .user("bob"), "on")
        _ = world.told()
        world.pass(seconds: 61)
        let texts = world.told()
        #expect(texts.count == 1 && texts[0].hasPrefix(#"{"event":"SESSION_EXPIRED","user":"bob""#))
        #expect(texts.first?.contains(#""messages":1,"#) == true)
    }

    @Test func `tells of a full queue once in an interval`() {
        world.limits.queueCountMaximum = 2
        world.begin("relay/1", "ann/1", "bob/pc")
        world.disconnect("bob/pc")
        for number in 1...6 { world.send("ann/1", UInt64(number), to: .user("bob"), "on") }
        let texts = world.told()
        #expect(texts.count == 1 && texts[0].hasPrefix(#"{"event":"QUEUE_FULL","user":"bob""#))
        world.pass(seconds: 60)
        world.send("ann/1", 7, to: .user("bob"), "on")
        #expect(world.told().count == 1)
    }

    @Test func `is none about the relay itself, whose full queue loses it`() {
        world.limits.queueCountMaximum = 1
        world.begin("relay/1", "ann/1", "bob/pc", "cid/1")
        world.disconnect("relay/1")
        for name in ["ann/1", "bob/pc", "cid/1"] {
            world.lose(name)
            world.pass(milliseconds: 0)
        }
        #expect(world.counters.brokerEventsTold == 1)
        #expect(world.counters.brokerEventsLost == 2)
    }

    @Test func `of a connection is told once in an interval, however often a client drops it`() {
        world.begin("relay/1", "bob/pc")
        for _ in 0..<3 {
            world.lose("bob/pc")
            world.connect("bob/pc")
            world.settle()
        }
        #expect(world.told().count == 1)
        world.pass(seconds: 60)
        world.lose("bob/pc")
        #expect(world.told().count == 1)
    }

    @Test func `of the whole broker is told to the apps that ask for it`() {
        world.begin("relay/1")
        tellOfBroker()
        #expect(world.told() == [])
        tell([.loginRefused, .certificateExpiring])
        tellOfBroker()
        #expect(
            world.told() == [
                #"{"event":"LOGIN_REFUSED","user":"e\"ve","count":3,"address":"::1","#
                    + #""reason":134,"time":1700000000000}"#,
                #"{"event":"CERTIFICATE_EXPIRING","user":"","what":"server certificate","#
                    + #""days":-1,"time":1700000000000}"#,
            ])
    }

    private func tellOfBroker() {
        world.broker.tellRefusedLogins(
            3, newest: "e\"ve", address: "::1", code: 134, at: world.now, effects: &world.effects)
        world.broker.tellExpiringCertificate(
            "server certificate", days: -1, at: world.now, effects: &world.effects)
        world.collect()
    }

    @Test func `is told to nobody where no app asks for it`() {
        world.limits.appPolicies = [:]
        world.begin("relay/1", "bob/pc")
        world.lose("bob/pc")
        #expect(world.told() == [])
        #expect(world.counters.brokerEventsTold == 0 && world.counters.brokerEventsLost == 0)
    }
}
