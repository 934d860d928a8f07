// Retained messages: which are kept, who receives them, and with which flag.

import Testing
import WireFormat

extension EndToEndTests.MQTTConformance {
    @Suite struct RetainedTests {
        // [MQTT-3.3.1-5] [MQTT-3.3.1-9] [MQTT-3.3.1-5/311] [MQTT-3.3.1-6/311] [MQTT-3.3.1-7/311]
        // [MQTT-3.3.1-8/311]
        @Test(arguments: everyVersion)
        func `the last retained message of each topic is sent to later subscribers`(
            version: MQTT.Version
        ) throws {
            let topic = "last/\(version.rawValue)"
            let sender = try MQTTPeer(version, "last-sender")
            for (text, qos) in [("one", 2), ("two", 1), ("three", 0)] as [(String, UInt8)] {
                try sender.publish("\(topic)/a", text, qos: qos, isRetained: true)
            }
            try sender.publish("\(topic)/b", "other", qos: 1, isRetained: true)
            let reader = try MQTTPeer(version, "last-reader")
            try reader.subscribe(("\(topic)/+", 2))
            let messages = try [reader.takeMessage(), reader.takeMessage()]
                .sorted { $0.topic < $1.topic }
            #expect(messages.map(\.payload) == ["three", "other"])
            #expect(messages.map(\.qos) == [0, 1])
            #expect(messages.allSatisfy { $0.isRetained && !$0.isDuplicate })
            try reader.expectSilence()
        }

        // [MQTT-3.3.1-6] [MQTT-3.3.1-7] [MQTT-3.3.1-10/311] [MQTT-3.3.1-11/311]
        @Test(arguments: everyVersion)
        func `a retained message without a payload is delivered and clears the topic`(
            version: MQTT.Version
        ) throws {
            let topic = "cleared/\(version.rawValue)"
            let sender = try MQTTPeer(version, "cleared-sender")
            try sender.publish(topic, "kept", qos: 1, isRetained: true)
            let listener = try MQTTPeer(version, "cleared-listener")
            try listener.subscribe((topic, 1))
            #expect(try listener.takeMessage().payload == "kept")
            try sender.publish(topic, "", qos: 1, isRetained: true)
            let empty = try listener.takeMessage()
            #expect(empty.payload.isEmpty && !empty.isRetained)
            let late = try MQTTPeer(version, "cleared-late")
            try late.subscribe((topic, 1))
            try late.expectSilence()
        }

        // [MQTT-3.3.1-8] [MQTT-3.3.1-12/311]
        @Test(arguments: everyVersion)
        func `a message without RETAIN does not change the retained one`(
            version: MQTT.Version
        ) throws {
            let topic = "alone/\(version.rawValue)"
            let sender = try MQTTPeer(version, "alone-sender")
            try sender.publish(topic, "kept", qos: 1, isRetained: true)
            try sender.publish(topic, "passing", qos: 1)
            try sender.publish(topic, "", qos: 1)
            try sender.publish("\(topic)/other", "passing", qos: 1)
            let reader = try MQTTPeer(version, "alone-reader")
            try reader.subscribe(("\(topic)/#", 0))
            #expect(try reader.nextMessage().payload == "kept")
            try reader.expectSilence()
        }

        // [MQTT-3.3.1-12] [MQTT-3.3.1-9/311]
        @Test(arguments: everyVersion)
        func `an established subscription receives a retained message without RETAIN`(
            version: MQTT.Version
        ) throws {
            let topic = "established/\(version.rawValue)"
            let listener = try MQTTPeer(version, "established")
            try listener.subscribe((topic, 1))
            let sender = try MQTTPeer(version, "established-sender")
            try sender.publish(topic, "x", qos: 1, isRetained: true)
            #expect(try !listener.takeMessage().isRetained)
        }

        // [MQTT-3.3.1-13]
        @Test func `with retain as published the flag arrives as it was sent`() throws {
            let listener = try MQTTPeer(.v5, "as-published")
            try listener.subscribe(("as-published", 0x09))
            let sender = try MQTTPeer(.v5, "as-published-sender")
            for isRetained in [true, false] {
                try sender.publish("as-published", "x", qos: 1, isRetained: isRetained)
                #expect(try listener.takeMessage().isRetained == isRetained)
            }
        }

        // [MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-3.3.1-11] [MQTT-3.8.4-4]
        @Test(arguments: [(0, true, true), (1, true, false), (2, false, false)])
        func `retain handling decides when retained messages are sent`(
            handling: UInt8, atFirst: Bool, again: Bool
        ) throws {
            let topic = "handling/\(handling)"
            let sender = try MQTTPeer(.v5, "handling-sender")
            try sender.publish(topic, "kept", qos: 1, isRetained: true)
            let reader = try MQTTPeer(.v5, "handling-reader")
            for isSent in [atFirst, again] {
                #expect(try reader.subscribe((topic, handling << 4)) == [0])
                if isSent { #expect(try reader.nextMessage().payload == "kept") }
                try reader.expectSilence()
            }
        }
    }
}
