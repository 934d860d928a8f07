// Subscriptions: their answers, what matches a filter, and how they are replaced and ended.

import Testing
import WireFormat

extension EndToEndTests.MQTTConformance {
    @Suite struct SubscribeTests {
        // [MQTT-3.8.4-1] [MQTT-3.8.4-2] [MQTT-3.8.4-5] [MQTT-3.8.4-6] [MQTT-3.8.4-7]
        // [MQTT-3.9.3-1] [MQTT-3.9.3-2] [MQTT-2.2.1-6]
        // [MQTT-3.8.4-1/311] [MQTT-3.8.4-2/311] [MQTT-3.8.4-4/311] [MQTT-3.8.4-5/311]
        // [MQTT-3.9.3-1/311] [MQTT-3.9.3-2/311] [MQTT-2.3.1-7/311]
        @Test(arguments: everyVersion)
        func `SUBACK has a code for each filter, in their order`(version: MQTT.Version) throws {
            let peer = try MQTTPeer(version, "codes")
            try peer.sendSubscribe(
                [("codes/a", 2), ("$u/somebody", 0), ("codes/b", 0), ("codes/+/c", 1)],
                identifier: 0x1234)
            let codes = try peer.nextCodes(0x90, 0x1234)
            #expect(codes == [2, version == .v5 ? 0x87 : 0x80, 0, 1])
        }

        // [MQTT-3.8.4-3] [MQTT-3.8.4-4] [MQTT-3.8.4-3/311]
        @Test(arguments: everyVersion)
        func `subscribing again replaces the subscription and loses nothing`(
            version: MQTT.Version
        ) throws {
            let topic = "replaced/\(version.rawValue)"
            let sender = try MQTTPeer(version, "replaced-sender")
            try sender.publish(topic, "kept", qos: 1, isRetained: true)
            let listener = try MQTTPeer(version, "replaced")
            for qos in [2, 0, 1] as [UInt8] {
                #expect(try listener.subscribe((topic, qos)) == [qos])
                let retained = try listener.takeMessage()
                #expect(retained.isRetained && retained.payload == "kept")
                try sender.publish(topic, "new", qos: 2)
                let message = try listener.takeMessage()
                #expect(message.payload == "new" && message.qos == qos)
                try listener.expectSilence()
            }
        }

        // [MQTT-3.8.3-2] [MQTT-3.10.3-2] [MQTT-3.8.3-3/311] [MQTT-3.10.3-2/311]
        @Test(arguments: everyVersion)
        func `a request without filters ends the connection`(version: MQTT.Version) throws {
            for firstByte in [0x82, 0xA2] as [UInt8] {
                let peer = try MQTTPeer(version, "no-filters")
                try peer.send(firstByte, [0, 1] + MQTTBytes.section([], version))
                #expect(try peer.expectClose() == (version == .v5 ? 0x82 : nil))
            }
        }

        // [MQTT-3.8.3-5] [MQTT-3-8.3-4/311]
        @Test(
            arguments: [(.v311, 0x04), (.v311, 0x03), (.v5, 0x40), (.v5, 0x80)]
                as [(MQTT.Version, UInt8)])
        func `reserved bits of a subscription end the connection`(
            version: MQTT.Version, options: UInt8
        ) throws {
            let peer = try MQTTPeer(version, "reserved-bits")
            try peer.sendSubscribe([("a", options)], identifier: 1)
            #expect(try peer.expectClose() == (version == .v5 ? 0x81 : nil))
        }

        // [MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.3-1] [MQTT-3.8.3-1]
        // [MQTT-4.7.1-2/311] [MQTT-4.7.1-3/311] [MQTT-4.7.3-1/311] [MQTT-3.8.3-1/311]
        @Test(arguments: ["a#", "a/#/b", "#/a", "a+", "+a/b", "a/b+/c", "", "a\u{0}"])
        func `an invalid filter is refused`(filter: String) throws {
            for version in everyVersion {
                let peer = try MQTTPeer(version, "no-filter")
                try peer.sendSubscribe([(filter, 0)], identifier: 1)
                // It is a malformed packet, or the one filter fails.
                guard let packet = try? peer.next(), packet.firstByte == 0x90 else {
                    #expect(peer.wire.isClosed || version == .v5)
                    continue
                }
                #expect(packet.body.last! >= 0x80)
            }
        }

        // [MQTT-3.3.2-3] [MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.2-1]
        // [MQTT-3.3.2-3/311] [MQTT-4.7.1-2/311] [MQTT-4.7.1-3/311] [MQTT-4.7.2-1/311]
        @Test(
            arguments: [
                ("m/#", ["m", "m/", "m/a", "m/a/b"], ["n", "mm"]),
                ("m/+", ["m/", "m/a"], ["m", "m/a/b"]), ("m/+/+", ["m//", "m/a/b"], ["m/a"]),
                ("+/match", ["/match", "m/match"], ["match", "$m/match"]),
                ("m/+/x/#", ["m/a/x", "m/a/x/y/z"], ["m/x", "m/a/b/x"]),
            ] as [(String, [String], [String])])
        func `filters match what the specification says`(
            filter: String, matching: [String], others: [String]
        ) throws {
            let listener = try MQTTPeer(.v5, "matching-\(filter.utf8.count)")
            try listener.subscribe((filter, 0))
            for topic in others {
                try listener.publish(topic, "no", qos: 1)
                try listener.expectSilence()
            }
            for topic in matching {
                try listener.sendPublish(topic, "yes", qos: 0)
                #expect(try listener.nextMessage().topic == topic)
            }
        }

        // [MQTT-4.7.2-1] [MQTT-4.7.2-1/311]
        @Test func `a leading wildcard does not match topics that begin with a dollar`() throws {
            let listener = try MQTTPeer(.v311, "dollar")
            try listener.sendSubscribe([("#", 0), ("+/dollar", 0)], identifier: 1)
            let sender = try MQTTPeer(.v5, "dollar-sender")
            // Nobody but the broker has topics there.
            for qos in [1, 2] as [UInt8] {
                #expect(try sender.publish("$x/dollar", "hidden", qos: qos) == 0x90)
            }
            #expect(try sender.subscribe(("$x/#", 0), ("$", 0), ("x/$", 0)) == [0x8F, 0x8F, 0])
            try sender.sendPublish("x/dollar", "seen", qos: 0)
            while true {
                // Other tests' retained messages may come too, before SUBACK or after it.
                let packet = try listener.next()
                if packet.firstByte == 0x90 { continue }
                let message = try listener.message(packet)
                #expect(!message.topic.hasPrefix("$"))
                if message.topic == "x/dollar" { break }
            }
        }

        // [MQTT-3.3.4-2] [MQTT-3.3.5-1/311]
        @Test(arguments: everyVersion)
        func `overlapping subscriptions deliver with the highest QoS`(
            version: MQTT.Version
        ) throws {
            let topic = "overlap/\(version.rawValue)"
            let listener = try MQTTPeer(version, "overlap")
            try listener.subscribe(("\(topic)/#", 0), ("\(topic)/+", 2), ("\(topic)/a", 1))
            let sender = try MQTTPeer(version, "overlap-sender")
            try sender.publish("\(topic)/a", "x", qos: 2)
            #expect(try listener.takeMessage().qos == 2)
            try listener.expectSilence()
        }

        // [MQTT-3.3.4-3] [MQTT-3.3.4-4] [MQTT-3.3.4-5]
        @Test func `a message has the identifiers of all matching subscriptions`() throws {
            let listener = try MQTTPeer(.v5, "identifiers")
            try listener.subscribe(
                ("identifiers/#", 1), properties: [.subscriptionIdentifier(268_435_455)])
            try listener.subscribe(
                ("identifiers/a", 1), properties: [.subscriptionIdentifier(7)])
            try listener.subscribe(("other/a", 1), properties: [.subscriptionIdentifier(9)])
            let sender = try MQTTPeer(.v5, "identifiers-sender")
            for qos in [0, 1] as [UInt8] {
                try sender.publish("identifiers/a", "x", qos: qos)
                let message = try listener.takeMessage()
                #expect(message.payload == "x" && message.qos == qos)
                #expect(message.properties.count == 2)
                #expect(
                    Set(message.properties)
                        == [.subscriptionIdentifier(268_435_455), .subscriptionIdentifier(7)])
                try listener.expectSilence()
            }
        }

        // [MQTT-3.8.3-3]
        @Test func `with no local a session does not receive its own messages`() throws {
            let peer = try MQTTPeer(.v5, "no-local")
            try peer.subscribe(("no-local", 0x05))
            try peer.publish("no-local", "mine", qos: 1)
            let other = try MQTTPeer(.v5, "no-local-other")
            try other.publish("no-local", "theirs", qos: 1)
            #expect(try peer.takeMessage().payload == "theirs")
            try peer.expectSilence()
        }

        // [MQTT-3.8.3-4]
        @Test func `no local on a shared subscription ends the connection`() throws {
            let peer = try MQTTPeer(.v5, "no-local-share")
            try peer.sendSubscribe([("$share/s/a", 0x05)], identifier: 1)
            #expect(try peer.expectClose() == 0x82)
        }

        // [MQTT-3.10.4-1] [MQTT-3.10.4-2] [MQTT-3.10.4-4] [MQTT-3.10.4-5] [MQTT-3.10.4-6]
        // [MQTT-3.11.3-1] [MQTT-3.11.3-2] [MQTT-2.2.1-6]
        // [MQTT-3.10.4-1/311] [MQTT-3.10.4-2/311] [MQTT-3.10.4-4/311] [MQTT-3.10.4-5/311]
        // [MQTT-3.10.4-6/311] [MQTT-2.3.1-7/311]
        @Test(arguments: everyVersion)
        func `UNSUBSCRIBE ends the subscriptions with equal filters`(
            version: MQTT.Version
        ) throws {
            let topic = "ended/\(version.rawValue)"
            let peer = try MQTTPeer(version, "ended")
            try peer.subscribe(("\(topic)/+", 0), ("\(topic)/a", 0), ("\(topic)/b", 0))
            let codes = try peer.unsubscribe("\(topic)/a", "\(topic)/none", "\(topic)/#")
            #expect(codes == (version == .v5 ? [0, 0x11, 0x11] : []))
            try peer.sendPublish("\(topic)/a", "by the wildcard", qos: 0)
            #expect(try peer.nextMessage().payload == "by the wildcard")
            _ = try peer.unsubscribe("\(topic)/+")
            try peer.publish("\(topic)/a", "nobody", qos: 1)
            try peer.expectSilence()
        }

        // [MQTT-3.10.4-3] [MQTT-3.10.4-3/311]
        @Test(arguments: everyVersion)
        func `deliveries that have begun continue after UNSUBSCRIBE`(version: MQTT.Version) throws {
            let topic = "begun/\(version.rawValue)"
            let peer = try MQTTPeer(version, "begun")
            try peer.subscribe((topic, 2))
            let sender = try MQTTPeer(version, "begun-sender")
            try sender.publish(topic, "x", qos: 2)
            let message = try peer.nextMessage()
            _ = try peer.unsubscribe(topic)
            try peer.acknowledge(message)
            try peer.expectSilence()
        }

        // [MQTT-3.8.1-1] [MQTT-3.10.1-1] [MQTT-3.6.1-1]
        // [MQTT-3.8.1-1/311] [MQTT-3.10.1-1/311] [MQTT-3.6.1-1/311] [MQTT-2.2.2-2/311]
        @Test(arguments: laterVersions)
        func `wrong flags of a request end the connection`(version: MQTT.Version) throws {
            let section = MQTTBytes.section([], version)
            let bodies: [(UInt8, [UInt8])] = [
                (0x80, [0, 1] + section + MQTTBytes.text("a") + [0]),
                (0xA0, [0, 1] + section + MQTTBytes.text("a")), (0x60, [0, 1]),
            ]
            for (firstByte, body) in bodies {
                for flags in [0, 1, 3, 10] as [UInt8] {
                    let peer = try MQTTPeer(version, "wrong-flags")
                    try peer.send(firstByte | flags, body)
                    #expect(try peer.expectClose() == (version == .v5 ? 0x81 : nil))
                }
            }
        }

        // [MQTT-3.10.3-1] [MQTT-3.8.3-1] [MQTT-3.10.3-1/311] [MQTT-3.8.3-1/311]
        @Test(arguments: everyVersion)
        func `a filter that is not UTF-8 ends the connection`(version: MQTT.Version) throws {
            let start = [0, 1] + MQTTBytes.section([], version)
            let filter = MQTTBytes.binary([0x61, 0xC0, 0x80])
            for (firstByte, rest) in [(0x82, [0]), (0xA2, [])] as [(UInt8, [UInt8])] {
                let peer = try MQTTPeer(version, "no-text")
                try peer.send(firstByte, start + filter + rest)
                #expect(try peer.expectClose() == (version == .v5 ? 0x81 : nil))
            }
        }

        // [MQTT-7.0.0-2/311] [MQTT-4.2-1] [MQTT-7.1.1-1/311]
        @Test func `packets may arrive in any pieces`() throws {
            let peer = try MQTTPeer(.v311)
            let bytes =
                MQTTPeer.connectBytes(.v311, "pieces", .init())
                + MQTTBytes.packet(0x82, [0, 1] + MQTTBytes.text("pieces") + [0])
                + MQTTBytes.packet(0x30, MQTTBytes.text("pieces") + Array("x".utf8))
            for byte in bytes { try peer.wire.send([byte]) }
            #expect(try peer.nextConnack().code == 0)
            #expect(try peer.nextCodes(0x90, 1) == [0])
            #expect(try peer.nextMessage().payload == "x")
        }
    }
}
