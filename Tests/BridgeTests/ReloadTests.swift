// A reload between subscriptions that overlap, and one while a broker does not answer.

import BrokerTerms
import Primitives
import Testing
import WireFormat

@testable import Bridge

@Suite struct ReloadTests {
    private let start = Instant(milliseconds: 1_000)

    private func settings(_ filter: String) throws -> BridgeSettings {
        let text = """
            { mqtt: { server: "tcp://a:1", clientId: "c" },
              martlet: { server: "tcp://b:2", token: "t" }, stateFile: "s", totalsSeconds: 0,
              toMartlet: [{ from: "\(filter)", to: { user: "sink" } }],
              toMqtt: [{ from: { topic: "\(filter)" }, to: "out" }] }
            """
        return try BridgeFile.settings(text: Array(text.utf8), path: "f", token: nil)
    }

    /// A bridge that is logged in to both brokers. The MQTT broker has answered nothing else.
    private func bridge(
        identifiers: Bool = true, withMartlet: Bool = true
    ) throws -> MessageBridge {
        var bridge = MessageBridge(try settings("a/#"), stored: nil, jitterSeed: 1, freshEpoch: 1)
        bridge.start(now: start)
        bridge.work(now: start)
        bridge.foreign.opened(now: start)
        var connack = MQTT.Connack(.v5, .success, isSessionPresent: false)
        connack.isSubscriptionIdentifierAvailable = identifiers
        receive(encoded(connack), &bridge)
        if withMartlet {
            bridge.martlet!.machine.opened(now: start)
            var martlet = MartletModel()
            while case let bytes = bridge.martlet!.nextBytes(now: start), !bytes.isEmpty {
                martlet.receive(Array(bytes))
            }
            martlet.takeOutgoing(.max).withUnsafeBytes { bridge.martletReceived($0, now: start) }
        }
        bridge.work(now: start)
        return bridge
    }

    private func receive(_ packet: [UInt8], _ bridge: inout MessageBridge) {
        packet.withUnsafeBytes { bridge.foreignReceived($0, now: start) }
        bridge.work(now: start)
    }

    private func answer(_ bridge: inout MessageBridge, unsubscribe: Bool = false) {
        let codes = ByteRange(offset: 0, count: 1)
        let identifier = ForeignLink.requestIdentifier
        if unsubscribe {
            receive(encoded(MQTT.Unsuback(.v5, identifier, codes: codes), [0]), &bridge)
        } else {
            receive(encoded(MQTT.Suback(.v5, identifier, codes: codes), [2]), &bridge)
        }
    }

    private func publication(
        _ identifier: UInt16, _ text: String, by subscription: UInt32 = 0
    ) -> [UInt8] {
        // One byte of the length is enough for small numbers.
        let property: [UInt8] = subscription == 0 ? [] : [0x0B, UInt8(subscription)]
        let source = Array("a/1".utf8) + text.utf8 + property
        var packet = MQTT.Publish(
            .v5, topic: ByteRange(offset: 0, count: 3),
            payload: ByteRange(offset: 3, count: text.utf8.count), qos: .exactlyOnce,
            packetIdentifier: identifier)
        packet.properties = MQTT.PropertySection(
            carried: ByteRange(offset: 3 + text.utf8.count, count: property.count))
        return encoded(packet, source)
    }

    @Test func `of two copies by subscriptions that overlap one is passed on`() throws {
        var bridge = try bridge()
        answer(&bridge)
        receive(publication(1, "first"), &bridge)
        bridge.reload(try settings("a/+"))
        bridge.work(now: start)
        // It was sent before the new subscription, and its text comes again after it.
        receive(publication(2, "same"), &bridge)
        answer(&bridge)
        let identifier = bridge.subscriptionIdentifier
        #expect(identifier == 3)
        receive(publication(3, "same", by: identifier), &bridge)
        receive(publication(4, "same"), &bridge)
        receive(publication(5, "next"), &bridge)
        receive(publication(6, "next", by: identifier), &bridge)
        // Two messages of the same text.
        receive(publication(7, "next"), &bridge)
        receive(publication(8, "next", by: identifier), &bridge)
        answer(&bridge, unsubscribe: true)
        receive(publication(9, "last", by: identifier), &bridge)
        receive(publication(10, "last", by: identifier), &bridge)
        let passed = bridge.inward.entries.values.filter { $0.phase != .settled }
        #expect(passed.map(\.packetIdentifier).sorted() == [1, 2, 3, 5, 7, 9, 10])
        #expect(bridge.totals.repeated == 3)
    }

    @Test func `a broker without subscription identifiers gets none`() throws {
        for takesIdentifiers in [true, false] {
            var bridge = try bridge(identifiers: takesIdentifiers)
            answer(&bridge)
            _ = bridge.foreign.takeOutgoing()
            bridge.reload(try settings("a/+"))
            bridge.work(now: start)
            var buffer = PacketBuffer()
            buffer.append(bridge.foreign.takeOutgoing())
            let next = buffer.next()
            let packet = try #require(next).body.decoded { b throws(WireError) in
                try MQTT.Subscribe(.v5, body: b.bytes)
            }
            #expect((packet.subscriptionIdentifier != 0) == takesIdentifiers)
        }
    }

    private func log(_ bridge: inout MessageBridge) -> [String] {
        bridge.takeEffects().compactMap { if case .log(let line) = $0 { line } else { nil } }
    }

    @Test func `a reload does not wait for Martlet`() throws {
        var bridge = try bridge()
        answer(&bridge)
        // Its subscription is under way, and Martlet is away.
        #expect(bridge.martletSubscriptions.isAnythingAsked)
        bridge.martletClosed("lost", now: start)
        bridge.work(now: start)
        bridge.reload(try settings("b"))
        bridge.work(now: start)
        #expect(log(&bridge).contains { $0.hasPrefix("event=reloaded") })
        let wants = bridge.martletSubscriptions.entries.map(\.want)
        #expect(wants == [.filter("b", qos: 2), .obsolete("a/#")])
    }

    @Test func `a reload waits half a minute for the MQTT broker and ends its connection`() throws {
        var bridge = try bridge()
        bridge.reload(try settings("b"))
        bridge.work(now: start)
        #expect(!log(&bridge).contains { $0.hasPrefix("event=reload") })
        let end = start.advanced(byMilliseconds: BridgeLimits.reloadMilliseconds)
        #expect(bridge.nextDeadline <= end)
        bridge.work(now: end)
        let lines = log(&bridge)
        #expect(lines.contains { $0.hasPrefix("event=mqtt_lost reason=\"no answer") }, "\(lines)")
        #expect(lines.contains { $0.hasPrefix("event=reloaded") }, "\(lines)")
    }
}
