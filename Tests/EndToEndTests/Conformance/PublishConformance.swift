// PUBLISH and its acknowledgements: the three qualities of service in both directions.

import Testing
import WireFormat

extension EndToEndTests.MQTTConformance {
    @Suite struct PublishTests {
        /// Every version with every QoS of a message and of a subscription.
        static let grades: [(MQTT.Version, UInt8, UInt8)] = everyVersion.flatMap { version in
            ([0, 1, 2] as [UInt8]).flatMap { qos in
                ([0, 1, 2] as [UInt8]).map { (version, qos, $0) }
            }
        }

        // [MQTT-3.8.4-8] [MQTT-3.3.4-1] [MQTT-4.3.1-1] [MQTT-4.3.2-1] [MQTT-4.3.2-2]
        // [MQTT-4.3.2-4] [MQTT-4.3.3-1] [MQTT-4.3.3-2] [MQTT-4.3.3-4] [MQTT-4.3.3-8]
        // [MQTT-4.3.3-11] [MQTT-2.2.1-2] [MQTT-2.2.1-5] [MQTT-3.3.1-2] [MQTT-3.4.2-1]
        // [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1] [MQTT-2.2.2-1]
        // [MQTT-3.8.4-6/311] [MQTT-3.3.4-1/311] [MQTT-4.3.1-1/311] [MQTT-4.3.2-1/311]
        // [MQTT-4.3.2-2/311] [MQTT-4.3.3-1/311] [MQTT-4.3.3-2/311] [MQTT-2.3.1-5/311]
        // [MQTT-2.3.1-6/311] [MQTT-3.3.1-2/311]
        @Test(arguments: grades)
        func `a message arrives with the lower QoS of publication and subscription`(
            version: MQTT.Version, sent: UInt8, granted: UInt8
        ) throws {
            let topic = "grades/\(version.rawValue)/\(sent)/\(granted)"
            let listener = try MQTTPeer(version, "grades-listener")
            #expect(try listener.subscribe((topic, granted)) == [granted])
            let sender = try MQTTPeer(version, "grades-sender")
            #expect(try sender.publish(topic, "hello", qos: sent) == 0)
            let message = try listener.takeMessage()
            #expect(message.topic == topic && message.payload == "hello")
            #expect(message.qos == min(sent, granted))
            #expect(!message.isDuplicate && !message.isRetained && message.properties.isEmpty)
            #expect((message.identifier == 0) == (message.qos == 0))
            try listener.expectSilence()
        }

        // [MQTT-4.3.2-5] [MQTT-4.3.2-2/311]
        @Test(arguments: everyVersion)
        func `after PUBACK the same identifier means a new message`(version: MQTT.Version) throws {
            let topic = "reused/\(version.rawValue)"
            let peer = try MQTTPeer(version, "reuser")
            try peer.subscribe((topic, 0))
            var heard: [String] = []
            for text in ["first", "second"] {
                // Marked as sent before: it is a new one all the same.
                try peer.sendPublish(topic, text, qos: 1, isDuplicate: true, identifier: 7)
                var isAnswered = false
                while !isAnswered || heard.last != text {
                    let packet = try peer.next()
                    if packet.firstByte == 0x40 {
                        isAnswered = true
                    } else {
                        heard.append(try peer.message(packet).payload)
                    }
                }
            }
            #expect(heard == ["first", "second"])
        }

        // [MQTT-4.3.3-10] [MQTT-4.3.3-12] [MQTT-4.3.3-2/311]
        @Test(arguments: everyVersion)
        func `a QoS 2 identifier means one message until PUBREL, and a new one after PUBCOMP`(
            version: MQTT.Version
        ) throws {
            let topic = "exactly/\(version.rawValue)"
            let listener = try MQTTPeer(version, "exactly-listener")
            try listener.subscribe((topic, 0))
            let sender = try MQTTPeer(version, "exactly-sender")
            for isDuplicate in [false, true, true] {
                try sender.sendPublish(
                    topic, "one", qos: 2, isDuplicate: isDuplicate, identifier: 5)
                #expect(try sender.next(0x50, identifier: 5) == 0)
            }
            try sender.answer(0x62, 5)
            #expect(try sender.next(0x70, identifier: 5) == 0)
            try sender.sendPublish(topic, "two", qos: 2, identifier: 5)
            #expect(try sender.next(0x50, identifier: 5) == 0)
            #expect(try listener.nextMessage().payload == "one")
            #expect(try listener.nextMessage().payload == "two")
            try listener.expectSilence()
        }

        // [MQTT-4.3.3-9] [MQTT-3.5.2-1]
        @Test func `after a PUBREC that refuses, the identifier means a new message`() throws {
            let peer = try MQTTPeer(.v5, "refused-twice")
            // No message of users is to be read in this payload.
            try peer.sendPublish("$u/refused-twice", "not JSON", qos: 2, identifier: 3)
            #expect(try peer.next(0x50, identifier: 3) == 0x99)
            try peer.subscribe(("refused/free", 0))
            try peer.sendPublish("refused/free", "new", qos: 2, identifier: 3)
            var codes: Set<UInt8> = []
            for _ in 0..<2 {
                let packet = try peer.next()
                codes.insert(packet.firstByte)
                if packet.firstByte == 0x30 {
                    #expect(try peer.message(packet).payload == "new")
                }
            }
            #expect(codes == [0x30, 0x50])
        }

        // [MQTT-3.3.5-2/311] [MQTT-4.8.0-2/311]
        @Test(arguments: [1, 2] as [UInt8])
        func `a refused publication ends the connection in 3.1.1`(
            qos: UInt8
        ) throws {
            let peer = try MQTTPeer(.v311, "unanswerable")
            try peer.sendPublish("$u/unanswerable", "not JSON", qos: qos, identifier: 1)
            try peer.expectClose()
        }

        // [MQTT-3.3.1-3] [MQTT-3.3.1-3/311]
        @Test(arguments: everyVersion)
        func `DUP is not passed on`(version: MQTT.Version) throws {
            let topic = "dup/\(version.rawValue)"
            let peer = try MQTTPeer(version, "dup-listener")
            try peer.subscribe((topic, 1))
            let sender = try MQTTPeer(version, "dup-sender")
            try sender.sendPublish(topic, "x", qos: 1, isDuplicate: true, identifier: 1)
            let message = try peer.takeMessage()
            #expect(message.payload == "x" && !message.isDuplicate)
        }

        // [MQTT-3.3.1-4] [MQTT-3.3.1-4/311] [MQTT-4.13.1-1]
        @Test(arguments: everyVersion)
        func `QoS 3 ends the connection`(version: MQTT.Version) throws {
            let peer = try MQTTPeer(version, "qos-3")
            try peer.sendPublish("a", "x", qos: 3, identifier: 1)
            #expect(try peer.expectClose() == (version == .v5 ? 0x81 : nil))
        }

        // [MQTT-2.2.1-2] [MQTT-2.3.1-1/311]
        @Test(arguments: laterVersions)
        func `packet identifier 0 ends the connection`(version: MQTT.Version) throws {
            let publisher = try MQTTPeer(version, "identifier-0")
            try publisher.sendPublish("a", "x", qos: 1, identifier: 0)
            #expect(try publisher.expectClose() != 0)
            let subscriber = try MQTTPeer(version, "identifier-0")
            try subscriber.sendSubscribe([("a", 0)], identifier: 0)
            #expect(try subscriber.expectClose() != 0)
        }

        // [MQTT-3.3.2-2] [MQTT-4.7.0-1] [MQTT-4.7.3-1]
        // [MQTT-3.3.2-2/311] [MQTT-4.7.1-1/311] [MQTT-4.7.3-1/311]
        @Test(arguments: everyVersion)
        func `an empty topic or one with wildcards ends the connection`(
            version: MQTT.Version
        ) throws {
            for topic in ["a/+", "#", "a/b#", ""] {
                let peer = try MQTTPeer(version, "wild-topic")
                try peer.sendPublish(topic, "x", qos: 0)
                let reason: UInt8 = topic.isEmpty ? 0x82 : 0x90
                #expect(try peer.expectClose() == (version == .v5 ? reason : nil), "\(topic)")
            }
        }

        // [MQTT-1.5.4-2] [MQTT-4.7.3-2] [MQTT-3.3.2-1]
        // [MQTT-1.5.3-2/311] [MQTT-4.7.3-2/311] [MQTT-3.3.2-1/311]
        @Test(arguments: everyVersion)
        func `a topic with U+0000 ends the connection`(version: MQTT.Version) throws {
            let peer = try MQTTPeer(version, "null-topic")
            try peer.sendPublish("a\u{0}b", "x", qos: 0)
            #expect(try peer.expectClose() == (version == .v5 ? 0x81 : nil))
        }

        // [MQTT-1.5.4-3] [MQTT-4.7.3-4] [MQTT-1.5.3-3/311] [MQTT-4.7.3-4/311]
        @Test func `topics are compared byte by byte`() throws {
            let peer = try MQTTPeer(.v5, "bytes-listener")
            try peer.subscribe(("\u{FEFF}bytes", 0), ("bytes/É", 0), ("bytes/a/", 0))
            // Without the mark, in another normal form, in another case, without the empty level.
            for topic in ["bytes", "bytes/E\u{301}", "bytes/é", "bytes/a", "Bytes/É"] {
                try peer.publish(topic, topic, qos: 1)
                try peer.expectSilence()
            }
            try peer.sendPublish("\u{FEFF}bytes", "x", qos: 0)
            #expect(Array(try peer.nextMessage().topic.utf8) == [0xEF, 0xBB, 0xBF] + "bytes".utf8)
        }

        // [MQTT-4.7.3-3] [MQTT-4.7.3-3/311]
        @Test func `a topic may have 65535 bytes`() throws {
            let topic = "long/" + String(repeating: "t", count: 65_530)
            let peer = try MQTTPeer(.v5, "long-topic")
            // A filter of that length is beyond `limits.filterBytes`.
            #expect(try peer.subscribe(("long/+", 0)) == [0])
            try peer.sendPublish(topic, "x", qos: 0)
            #expect(try peer.nextMessage().topic == topic)
        }

        // [MQTT-4.6.0-2] [MQTT-4.6.0-3] [MQTT-4.6.0-4] [MQTT-4.6.0-5] [MQTT-4.6.0-6]
        // [MQTT-4.6.0-2/311] [MQTT-4.6.0-3/311] [MQTT-4.6.0-4/311] [MQTT-4.6.0-5/311]
        // [MQTT-4.6.0-6/311]
        @Test(arguments: everyVersion)
        func `answers and messages keep the order of the publications`(
            version: MQTT.Version
        ) throws {
            let topic = "order/\(version.rawValue)"
            let listener = try MQTTPeer(version, "order-listener")
            try listener.subscribe((topic, 2))
            let sender = try MQTTPeer(version, "order-sender")
            let identifiers: [UInt16] = [7, 3, 12, 1, 9, 2, 40, 5]
            for identifier in identifiers {
                let qos: UInt8 = identifier % 2 == 0 ? 1 : 2
                try sender.sendPublish(topic, "\(identifier)", qos: qos, identifier: identifier)
            }
            for identifier in identifiers {
                let firstByte: UInt8 = identifier % 2 == 0 ? 0x40 : 0x50
                #expect(try sender.next(firstByte, identifier: identifier) == 0)
            }
            let messages = try identifiers.map { _ in try listener.nextMessage() }
            #expect(messages.map(\.payload) == identifiers.map(String.init))
            let once = messages.filter { $0.qos == 2 }
            for message in once { try listener.answer(0x50, message.identifier) }
            for message in once {
                #expect(try listener.next(0x62, identifier: message.identifier) == 0)
            }
        }

        // [MQTT-3.3.2-4] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-18]
        // [MQTT-3.3.2-20]
        @Test(arguments: [0, 1, 2] as [UInt8])
        func `properties of a message arrive as they were sent`(qos: UInt8) throws {
            let properties: [MQTTProperty] = [
                .payloadFormat(1), .contentType("text/plain"), .responseTopic("answers/é"),
                .correlation([0, 0xFF, 7]), .user("b", "2"), .user("a", "1"), .user("b", ""),
            ]
            let listener = try MQTTPeer(.v5, "properties-listener")
            try listener.subscribe(("properties/\(qos)", 2))
            let sender = try MQTTPeer(.v5, "properties-sender")
            try sender.publish("properties/\(qos)", "x", qos: qos, properties)
            #expect(try listener.takeMessage().properties == properties)
        }

        // [MQTT-1.5.7-1] [MQTT-3.3.2-13] [MQTT-3.3.2-14] [MQTT-3.3.2-19] [MQTT-3.3.4-6]
        @Test func `properties that are not allowed end the connection`() throws {
            let cases: [([UInt8], UInt8)] = [
                // A user property that is not UTF-8; a response topic that is none; a content
                // type that is none; a response topic with a wildcard; a subscription identifier.
                ([0x26, 0, 1, 0xC0, 0, 0], 0x81), ([0x08, 0, 1, 0xFF], 0x81),
                ([0x03, 0, 2, 0xED, 0xA0], 0x81), ([0x08, 0, 3, 0x61, 0x2F, 0x23], 0x90),
                ([0x0B, 1], 0x82),
            ]
            for (bytes, reason) in cases {
                let peer = try MQTTPeer(.v5, "bad-properties")
                try peer.send(
                    0x30, MQTTBytes.text("a") + MQTTBytes.length(bytes.count) + bytes)
                let told = try peer.expectClose()
                #expect(told == reason || (reason == 0x90 && told == 0x82), "\(bytes)")
            }
        }

        // [MQTT-3.3.2-5] [MQTT-3.3.2-6]
        @Test func `a message waits until its expiry, and is delivered with the remaining time`()
            throws
        {
            let options = MQTTPeer.ConnectOptions(
                isClean: false, properties: [.sessionExpiry(60)])
            let first = try MQTTPeer(.v5, "expiring", options)
            try first.subscribe(("expiring", 1))
            try first.disconnect()
            let sender = try MQTTPeer(.v5, "expiring-sender")
            try sender.publish("expiring", "short", qos: 1, [.messageExpiry(1)])
            try sender.publish("expiring", "long", qos: 1, [.messageExpiry(100)])
            try sender.publish("expiring", "endless", qos: 1)
            try sender.wire.wait(milliseconds: 2_500)
            let second = try MQTTPeer(.v5, "expiring", options)
            let long = try second.takeMessage()
            #expect(long.payload == "long")
            guard case .number(2, let left)? = long.properties.first else {
                throw TestFailure("no expiry in \(long)")
            }
            #expect(left > 0 && left < 100)
            let endless = try second.takeMessage()
            #expect(endless.payload == "endless" && endless.properties.isEmpty)
        }

        // [MQTT-4.3.3-7] [MQTT-4.3.3-13]
        @Test func `a message of QoS 2 that was sent does not expire`() throws {
            let options = MQTTPeer.ConnectOptions(
                isClean: false, properties: [.sessionExpiry(60)])
            let first = try MQTTPeer(.v5, "unexpiring", options)
            try first.subscribe(("unexpiring", 2))
            let sender = try MQTTPeer(.v5, "unexpiring-sender")
            // It has to be sent before its expiry, also by a broker whose disk takes seconds.
            try sender.publish("unexpiring", "begun", qos: 2, [.messageExpiry(5)])
            let message = try first.nextMessage()
            try sender.wire.wait(milliseconds: 6_500)
            try first.answer(0x50, message.identifier)
            #expect(try first.next(0x62, identifier: message.identifier) == 0)
            try first.answer(0x70, message.identifier)
            try first.expectSilence()
        }
    }
}
