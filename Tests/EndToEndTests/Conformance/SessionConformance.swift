// Sessions: what is kept between two connections, what is sent again, and what is discarded.

import Testing
import WireFormat

extension EndToEndTests.MQTTConformance {
    @Suite struct SessionTests {
        /// What keeps a session in each version.
        private func keeping(_ isClean: Bool = false) -> MQTTPeer.ConnectOptions {
            .init(isClean: isClean, properties: [.sessionExpiry(60)])
        }

        // [MQTT-3.1.2-5] [MQTT-3.1.2-6] [MQTT-3.1.2-23] [MQTT-3.2.2-3] [MQTT-4.5.0-1]
        // [MQTT-3.1.2-4/311] [MQTT-3.1.2-5/311] [MQTT-3.2.2-2/311] [MQTT-3.2.2-3/311]
        // [MQTT-4.5.0-1/311] [MQTT-4.1.0-1/311]
        @Test(arguments: everyVersion)
        func `a session is resumed with its subscriptions and its messages`(
            version: MQTT.Version
        ) throws {
            let (name, topic) = ("kept-\(version.rawValue)", "kept/\(version.rawValue)")
            let first = try MQTTPeer(version)
            #expect(try !first.connect(name, keeping()).isSessionPresent)
            try first.subscribe((topic, 2))
            try first.disconnect()
            let sender = try MQTTPeer(.v311, "kept-sender")
            for qos in [1, 2] as [UInt8] { try sender.publish(topic, "q\(qos)", qos: qos) }
            let second = try MQTTPeer(version)
            let connack = try second.connect(name, keeping())
            #expect(connack.isSessionPresent == (version > .v31))
            #expect(try second.takeMessage().payload == "q1")
            #expect(try second.takeMessage().payload == "q2")
            try sender.publish(topic, "still subscribed", qos: 1)
            #expect(try second.takeMessage().payload == "still subscribed")
        }

        // [MQTT-3.1.2-4] [MQTT-3.1.4-4] [MQTT-3.2.2-2]
        // [MQTT-3.1.2-6/311] [MQTT-3.1.4-3/311] [MQTT-3.2.2-1/311]
        @Test(arguments: everyVersion)
        func `a clean start discards the session`(version: MQTT.Version) throws {
            let (name, topic) = ("cleaned-\(version.rawValue)", "cleaned/\(version.rawValue)")
            let first = try MQTTPeer(version, name, keeping())
            try first.subscribe((topic, 1))
            try first.disconnect()
            let sender = try MQTTPeer(version, "cleaned-sender")
            try sender.publish(topic, "waiting", qos: 1)
            let second = try MQTTPeer(version)
            #expect(try !second.connect(name, keeping(true)).isSessionPresent)
            try sender.publish(topic, "new", qos: 1)
            try second.expectSilence()
        }

        // [MQTT-4.1.0-2] [MQTT-3.1.2-6/311]
        @Test(arguments: laterVersions)
        func `a session without an expiry ends with its connection`(
            version: MQTT.Version
        ) throws {
            let name = "short-\(version.rawValue)"
            let first = try MQTTPeer(version, name)
            try first.subscribe(("short/\(version.rawValue)", 1))
            first.drop()
            let second = try MQTTPeer(version)
            #expect(try !second.connect(name, .init(isClean: false)).isSessionPresent)
        }

        // [MQTT-4.1.0-2]
        @Test func `a session's expiry can be changed by DISCONNECT`() throws {
            let first = try MQTTPeer(.v5, "shortened", keeping())
            try first.disconnect([.sessionExpiry(0)])
            let second = try MQTTPeer(.v5)
            #expect(try !second.connect("shortened", keeping()).isSessionPresent)
            try second.disconnect([.sessionExpiry(30)])
            let third = try MQTTPeer(.v5)
            #expect(try third.connect("shortened", keeping()).isSessionPresent)
        }

        // [MQTT-4.13.1-1]
        @Test func `DISCONNECT cannot prolong a session with expiry 0`() throws {
            let peer = try MQTTPeer(.v5, "prolonged")
            try peer.send(0xE0, [0] + MQTTBytes.section([.sessionExpiry(60)], .v5))
            #expect(try peer.expectClose() == 0x82)
        }

        // [MQTT-4.1.0-1] [MQTT-4.1.0-2/311]
        @Test func `a session lasts as long as its connection`() throws {
            let peer = try MQTTPeer(.v5, "lasting", .init(properties: [.sessionExpiry(0)]))
            try peer.subscribe(("lasting", 1))
            let sender = try MQTTPeer(.v5, "lasting-sender")
            try sender.publish("lasting", "x", qos: 1)
            #expect(try peer.takeMessage().payload == "x")
        }

        // [MQTT-3.1.2-7/311]
        @Test func `retained messages outlive the session of their sender`() throws {
            let sender = try MQTTPeer(.v311, "outlived")
            try sender.publish("outlived", "still here", qos: 1, isRetained: true)
            try sender.disconnect()
            let reader = try MQTTPeer(.v311, "outliving")
            try reader.subscribe(("outlived", 0))
            #expect(try reader.nextMessage().payload == "still here")
        }

        // [MQTT-4.4.0-1] [MQTT-3.3.1-1] [MQTT-4.6.0-1] [MQTT-4.3.2-3] [MQTT-4.3.3-3]
        // [MQTT-4.3.3-5] [MQTT-4.3.3-6] [MQTT-2.2.1-4]
        // [MQTT-4.4.0-1/311] [MQTT-3.3.1-1/311] [MQTT-4.6.0-1/311] [MQTT-2.3.1-4/311]
        // [MQTT-4.3.2-1/311] [MQTT-4.3.3-1/311]
        @Test(arguments: everyVersion)
        func `unacknowledged messages are sent again unchanged`(version: MQTT.Version) throws {
            let (name, topic) = ("again-\(version.rawValue)", "again/\(version.rawValue)")
            let first = try MQTTPeer(version, name, keeping())
            try first.subscribe((topic, 2))
            let sender = try MQTTPeer(version, "again-sender")
            for (index, qos) in ([1, 2, 2, 1] as [UInt8]).enumerated() {
                try sender.publish(topic, "m\(index)", qos: qos)
            }
            let sent = try (0..<4).map { _ in try first.nextMessage() }
            #expect(sent.map(\.payload) == ["m0", "m1", "m2", "m3"])
            #expect(Set(sent.map(\.identifier)).count == 4)
            #expect(sent.allSatisfy { !$0.isDuplicate && $0.identifier != 0 })
            // The second one gets as far as its PUBREL, which is lost.
            try first.answer(0x50, sent[1].identifier)
            _ = try first.next(0x62, identifier: sent[1].identifier)
            first.drop()
            let second = try MQTTPeer(version, name, keeping())
            var repeated: [MQTTPeer.Message] = []
            var released: [UInt16] = []
            for _ in 0..<4 {
                let packet = try second.next()
                if packet.firstByte >> 4 == 6 {
                    released.append(UInt16(packet.body[0]) << 8 | UInt16(packet.body[1]))
                } else {
                    repeated.append(try second.message(packet))
                }
            }
            #expect(released == [sent[1].identifier])
            var expected = [sent[0], sent[2], sent[3]]
            for index in expected.indices { expected[index].isDuplicate = true }
            #expect(repeated == expected)
            try second.expectSilence()
        }

        // [MQTT-4.4.0-2]
        @Test(arguments: [(1, 0x40), (2, 0x50)] as [(UInt8, UInt8)])
        func `a message that its receiver refused is not sent again`(qos: UInt8, firstByte: UInt8)
            throws
        {
            let name = "refuser-\(qos)"
            let first = try MQTTPeer(.v5, name, keeping())
            try first.subscribe(("refuser/\(qos)", 2))
            let sender = try MQTTPeer(.v5, "refuser-sender")
            try sender.publish("refuser/\(qos)", "unwanted", qos: qos)
            let message = try first.nextMessage()
            try first.answer(firstByte, message.identifier, reason: 0x83)
            try first.expectSilence()
            first.drop()
            let second = try MQTTPeer(.v5, name, keeping())
            try second.expectSilence()
        }

        // [MQTT-4.3.3-10] [MQTT-4.3.3-8] [MQTT-4.3.3-2/311]
        @Test(arguments: laterVersions)
        func `a publication of QoS 2 that is sent again after a reconnect is not delivered again`(
            version: MQTT.Version
        ) throws {
            let (name, topic) = ("twice-\(version.rawValue)", "twice/\(version.rawValue)")
            let listener = try MQTTPeer(version, "twice-listener")
            try listener.subscribe((topic, 0))
            let first = try MQTTPeer(version, name, keeping())
            try first.sendPublish(topic, "once", qos: 2, identifier: 9)
            #expect(try first.next(0x50, identifier: 9) == 0)
            first.drop()
            let second = try MQTTPeer(version, name, keeping())
            try second.sendPublish(topic, "once", qos: 2, isDuplicate: true, identifier: 9)
            #expect(try second.next(0x50, identifier: 9) == 0)
            try second.answer(0x62, 9)
            #expect(try second.next(0x70, identifier: 9) == 0)
            #expect(try listener.nextMessage().payload == "once")
            try listener.expectSilence()
        }
    }
}
