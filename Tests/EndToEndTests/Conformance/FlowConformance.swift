// The limits of MQTT 5.0 that each side announces: receive maximum, packet size, topic aliases; and
// problem information.

import Testing
import WireFormat

extension EndToEndTests.MQTTConformance {
    @Suite struct FlowTests {
        // [MQTT-3.3.4-9] [MQTT-3.3.4-10] [MQTT-4.9.0-1] [MQTT-4.9.0-2] [MQTT-4.9.0-3]
        @Test(arguments: [1, 2] as [UInt8])
        func `a client has no more unanswered messages than its receive maximum`(qos: UInt8) throws
        {
            let listener = try MQTTPeer(
                .v5, "quota-\(qos)", .init(properties: [.receiveMaximum(2)]))
            try listener.subscribe(("quota/\(qos)", 2))
            let sender = try MQTTPeer(.v5, "quota-sender")
            for index in 0..<4 {
                try sender.sendPublish(
                    "quota/\(qos)", "\(index)", qos: qos, identifier: UInt16(index + 1))
            }
            let first = try listener.nextMessage()
            let second = try listener.nextMessage()
            #expect([first.payload, second.payload] == ["0", "1"])
            // Neither answers nor QoS 0 wait for the quota.
            try listener.expectSilence()
            try sender.sendPublish("quota/\(qos)", "at once", qos: 0)
            #expect(try listener.nextMessage().payload == "at once")
            try listener.acknowledge(first)
            #expect(try listener.nextMessage().payload == "2")
            try listener.expectSilence()
            try listener.acknowledge(second)
            #expect(try listener.nextMessage().payload == "3")
        }

        // [MQTT-3.3.4-7]
        @Test func `a client that exceeds the broker's receive maximum is disconnected`()
            async throws
        {
            // As an option: by default such a client is not read from.
            let broker = try await TestBroker(
                "mqtt.enforcesReceiveMaximum=true", "mqtt.receiveMaximum=20")
            let peer = try MQTTPeer(.v5, port: broker.plainPort)
            let connack = try peer.connect("too-many")
            guard
                case .number(_, let maximum)? = connack.properties.first(where: {
                    $0.identifier == 33
                })
            else { throw TestFailure("no receive maximum in \(connack)") }
            for identifier in 1...UInt16(maximum) {
                try peer.sendPublish("too-many", "x", qos: 2, identifier: identifier)
                #expect(try peer.next(0x50, identifier: identifier) < 0x80)
            }
            try peer.sendPublish("too-many", "x", qos: 2, identifier: UInt16(maximum) + 1)
            #expect(try peer.expectClose() == 0x93)
        }

        @Test(arguments: [(.v311, 1), (.v311, 2), (.v5, 1), (.v5, 2)] as [(MQTT.Version, UInt8)])
        func `a client that sends a thousand messages at once is held back without loss`(
            version: MQTT.Version, qos: UInt8
        ) async throws {
            let broker = try await TestBroker("mqtt.receiveMaximum=20")
            let peer = try MQTTPeer(version, port: broker.plainPort)
            _ = try peer.connect("eager")
            let listener = try MQTTPeer(.v5, port: broker.plainPort)
            // What a stored session is to receive is answered with its commit.
            _ = try listener.connect(
                "eager-listener", .init(properties: [.sessionExpiry(600)]))
            try listener.subscribe(("eager", 1))
            // More than one read of the broker's, so that releases stand behind publications.
            let text = String(repeating: "x", count: 500)
            let count: UInt16 = 1_000
            var bytes: [UInt8] = []
            for identifier in 1...count {
                bytes += peer.publishBytes("eager", text, qos: qos, identifier: identifier)
            }
            try peer.wire.send(bytes)
            var (answered, completed) = (0, 0)
            while completed < Int(count) {
                let packet = try peer.next()
                let identifier = UInt16(packet.body[0]) << 8 | UInt16(packet.body[1])
                if packet.firstByte == 0x70 {
                    completed += 1
                    continue
                }
                // Answers keep the order of the publications.
                answered += 1
                #expect(identifier == UInt16(answered))
                #expect(packet.firstByte == (qos == 1 ? 0x40 : 0x50))
                if qos == 1 {
                    completed += 1
                } else {
                    try peer.answer(0x62, identifier)
                }
            }
            for _ in 0..<count { #expect(try listener.takeMessage().payload.utf8.count == 500) }
            try listener.expectSilence()
            try peer.expectSilence()
            #expect(try broker.counter("messages/held") > 0)
        }

        // [MQTT-3.1.2-24]
        @Test func `a client that accepts no packet of any size is sent none`() throws {
            for maximum in [1, 2, 4] as [UInt32] {
                let peer = try MQTTPeer(.v5)
                try peer.wire.send(
                    MQTTPeer.connectBytes(
                        .v5, "tiny", .init(properties: [.packetMaximum(maximum)])))
                #expect(try peer.expectClose() == nil)
            }
        }

        // [MQTT-3.1.2-24] [MQTT-3.1.2-25]
        @Test func `a message that is too large for its receiver counts as delivered`() throws {
            let options = MQTTPeer.ConnectOptions(
                isClean: false, properties: [.sessionExpiry(60), .packetMaximum(60)])
            let listener = try MQTTPeer(.v5, "small", options)
            try listener.subscribe(("small", 2))
            let sender = try MQTTPeer(.v5, "small-sender")
            for qos in [0, 1, 2] as [UInt8] {
                try sender.publish("small", String(repeating: "x", count: 60), qos: qos)
                try sender.publish("small", "fits", qos: qos)
                #expect(try listener.takeMessage().payload == "fits")
            }
            try listener.expectSilence()
            try listener.disconnect()
            let again = try MQTTPeer(
                .v5, "small", .init(isClean: false, properties: [.sessionExpiry(60)]))
            try again.expectSilence()
        }

        // [MQTT-3.1.2-24] [MQTT-3.2.2-19] [MQTT-3.2.2-20] [MQTT-3.4.2-2] [MQTT-3.4.2-3]
        // [MQTT-3.5.2-2] [MQTT-3.5.2-3] [MQTT-3.6.2-2] [MQTT-3.6.2-3] [MQTT-3.7.2-2]
        // [MQTT-3.7.2-3] [MQTT-3.9.2-1] [MQTT-3.9.2-2] [MQTT-3.11.2-1] [MQTT-3.11.2-2]
        // [MQTT-3.14.2-3] [MQTT-3.14.2-4] [MQTT-3.15.2-2] [MQTT-3.15.2-3]
        @Test func `no answer exceeds the client's maximum packet size`() throws {
            let maximum: UInt32 = 24
            let peer = try MQTTPeer(.v5)
            let connack = try peer.connect(
                "tiny", .init(properties: [.packetMaximum(maximum), .topicAliasMaximum(0)]))
            #expect(connack.code == 0)
            let connackSize = 5 + connack.properties.reduce(0) { $0 + $1.bytes.count }
            #expect(connackSize <= Int(maximum))
            func checked() throws -> MQTTPeer.Packet {
                let packet = try peer.next()
                #expect(packet.body.count + 2 <= Int(maximum), "\(packet)")
                return packet
            }
            try peer.sendSubscribe([("$u/somebody", 0)], identifier: 1)
            #expect(try checked().body.last! >= 0x80)
            try peer.send(0xA2, [0, 2, 0] + MQTTBytes.text("tiny/none"))
            #expect(try checked().body.last! == 0x11)
            for (qos, firstByte) in [(1, 0x40), (2, 0x50)] as [(UInt8, UInt8)] {
                try peer.sendPublish("$u/tiny", "not JSON", qos: qos, identifier: 3)
                #expect(try checked().firstByte == firstByte)
            }
            try peer.answer(0x62, 9)
            #expect(try checked().body[2] == 0x92)
            try peer.answer(0x50, 9)
            #expect(try checked().body[2] == 0x92)
            try peer.wire.send([0xF0, 0x00])
            #expect(try checked().firstByte == 0xE0)
        }

        // [MQTT-3.1.2-29]
        @Test func `a client without problem information gets codes only`() throws {
            let peer = try MQTTPeer(
                .v5, "codes-only", .init(properties: [.problemInformation(0)]))
            try peer.sendPublish("$u/codes-only", "not JSON", qos: 1, identifier: 1)
            #expect(try peer.next().body.count == 3)
            try peer.sendSubscribe([("$u/somebody", 0)], identifier: 2)
            #expect(try peer.next().body.count == 4)
            try peer.send(0xA2, [0, 3, 0] + MQTTBytes.text("none"))
            #expect(try peer.next().body.count == 4)
        }

        // [MQTT-3.3.2-8] [MQTT-3.3.2-9]
        @Test(arguments: [0, 65_535] as [UInt32])
        func `a topic alias outside its range ends the connection`(alias: UInt32) throws {
            let peer = try MQTTPeer(.v5)
            let connack = try peer.connect("alias-\(alias)")
            #expect(!connack.properties.contains(.topicAliasMaximum(65_535)))
            try peer.sendPublish("aliased", "x", qos: 0, [.topicAlias(alias)])
            #expect(try peer.expectClose() == 0x94)
        }

        // [MQTT-3.3.2-12] [MQTT-3.3.2-7]
        @Test func `a topic alias holds for its connection, up to the broker's maximum`() throws {
            let listener = try MQTTPeer(.v5, "aliases-listener")
            try listener.subscribe(("aliases/+", 0))
            let peer = try MQTTPeer(.v5)
            let connack = try peer.connect(
                "aliases", .init(isClean: false, properties: [.sessionExpiry(60)]))
            guard
                case .number(_, let maximum)? = connack.properties.first(where: {
                    $0.identifier == 34
                })
            else { throw TestFailure("no topic alias maximum in \(connack)") }
            for (alias, topic) in [(1, "aliases/low"), (maximum, "aliases/high")] {
                try peer.sendPublish(topic, "named", qos: 0, [.topicAlias(alias)])
                #expect(try listener.nextMessage().topic == topic)
            }
            for (alias, topic) in [(maximum, "aliases/high"), (1, "aliases/low")] {
                try peer.sendPublish("", "by number", qos: 0, [.topicAlias(alias)])
                let message = try listener.nextMessage()
                #expect(message.topic == topic && message.payload == "by number")
            }
            peer.drop()
            let again = try MQTTPeer(
                .v5, "aliases", .init(isClean: false, properties: [.sessionExpiry(60)]))
            try again.sendPublish("", "unknown", qos: 0, [.topicAlias(1)])
            #expect(try again.expectClose() == 0x82)
            try listener.expectSilence()
        }

        // [MQTT-3.1.2-26] [MQTT-3.3.2-11]
        @Test func `no topic alias is above the client's maximum`() throws {
            let listener = try MQTTPeer(
                .v5, "aliased", .init(properties: [.topicAliasMaximum(2)]))
            try listener.subscribe(("aliased/+", 0))
            let sender = try MQTTPeer(.v5, "aliased-sender")
            var named: [UInt32: String] = [:]
            for _ in 0..<3 {
                for topic in ["aliased/a", "aliased/b", "aliased/c"] {
                    try sender.sendPublish(topic, "x", qos: 0)
                    let message = try listener.nextMessage()
                    var heard = message.topic
                    if case .number(35, let alias)? = message.properties.first {
                        #expect(1...2 ~= alias)
                        if heard.isEmpty { heard = named[alias] ?? "" }
                        named[alias] = heard
                    }
                    #expect(heard == topic)
                }
            }
        }

        // [MQTT-3.1.2-27]
        @Test func `a client that allows no topic aliases is sent none`() throws {
            let listener = try MQTTPeer(.v5, "no-aliases")
            try listener.subscribe(("no-aliases", 0))
            let sender = try MQTTPeer(.v5, "no-aliases-sender")
            for _ in 0..<3 {
                try sender.sendPublish("no-aliases", "x", qos: 0)
                let message = try listener.nextMessage()
                #expect(message.topic == "no-aliases" && message.properties.isEmpty)
            }
        }
    }
}
