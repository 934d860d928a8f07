// Wills: when and how they are published, and when they are removed.

import Testing
import WireFormat

extension EndToEndTests.MQTTConformance {
    @Suite struct WillTests {
        // [MQTT-3.1.2-7] [MQTT-3.1.2-8] [MQTT-3.1.2-9] [MQTT-3.1.2-12] [MQTT-3.1.2-14]
        // [MQTT-3.1.2-8/311] [MQTT-3.1.2-9/311] [MQTT-3.1.2-14/311] [MQTT-3.1.2-16/311]
        @Test(arguments: everyVersion, [0, 1, 2] as [UInt8])
        func `the will of a lost client is sent, with any QoS`(
            version: MQTT.Version, qos: UInt8
        ) throws {
            let topic = "will/\(version.rawValue)/\(qos)"
            let listener = try MQTTPeer(version, "will-listener")
            try listener.subscribe((topic, 2))
            let lost = try MQTTPeer(
                version, "will-lost", .init(will: .init(topic: topic, payload: "gone", qos: qos)))
            try listener.expectSilence()
            lost.drop()
            let will = try listener.takeMessage()
            #expect(will.payload == "gone" && will.qos == qos && !will.isRetained)
            let late = try MQTTPeer(version, "will-late")
            try late.subscribe((topic, 0))
            try late.expectSilence()
        }

        // [MQTT-3.1.2-15] [MQTT-3.1.2-17/311]
        @Test(arguments: everyVersion)
        func `a retained will is kept for its topic`(version: MQTT.Version) throws {
            let topic = "will-kept/\(version.rawValue)"
            let listener = try MQTTPeer(version, "will-kept-listener")
            try listener.subscribe((topic, 1))
            let lost = try MQTTPeer(
                version, "will-kept",
                .init(will: .init(topic: topic, qos: 1, isRetained: true)))
            lost.drop()
            #expect(try listener.takeMessage().payload == "gone")
            let late = try MQTTPeer(version, "will-kept-late")
            try late.subscribe((topic, 1))
            let kept = try late.takeMessage()
            #expect(kept.payload == "gone" && kept.isRetained)
        }

        // [MQTT-3.1.2-10] [MQTT-3.14.4-3] [MQTT-3.14.4-1] [MQTT-3.14.4-2]
        // [MQTT-3.1.2-10/311] [MQTT-3.14.4-3/311]
        @Test(arguments: everyVersion)
        func `DISCONNECT removes the will`(version: MQTT.Version) throws {
            let topic = "will-back/\(version.rawValue)"
            let listener = try MQTTPeer(version, "will-back-listener")
            try listener.subscribe((topic, 1))
            let peer = try MQTTPeer(
                version, "will-back", .init(will: .init(topic: topic, qos: 1)))
            try peer.disconnect()
            #expect(peer.wire.untaken.isEmpty)
            try listener.expectSilence()
        }

        // [MQTT-3.1.2-10] [MQTT-3.1.2-8]
        @Test func `DISCONNECT with reason 4 sends the will`() throws {
            let listener = try MQTTPeer(.v5, "will-asked-listener")
            try listener.subscribe(("will-asked", 1))
            let peer = try MQTTPeer(
                .v5, "will-asked", .init(will: .init(topic: "will-asked", qos: 1)))
            try peer.disconnect(reason: 4)
            #expect(try listener.takeMessage().payload == "gone")
            // It was sent once, and is forgotten.
            let again = try MQTTPeer(.v5, "will-asked")
            again.drop()
            try listener.expectSilence()
        }

        // [MQTT-3.1.2-8] [MQTT-3.1.2-8/311]
        @Test(arguments: everyVersion)
        func `the will of a client that violates the protocol is sent`(version: MQTT.Version) throws
        {
            let topic = "will-fault/\(version.rawValue)"
            let listener = try MQTTPeer(version, "will-fault-listener")
            try listener.subscribe((topic, 1))
            let peer = try MQTTPeer(
                version, "will-fault", .init(will: .init(topic: topic, qos: 1)))
            try peer.sendPublish("a/#", "x", qos: 0)
            try peer.expectClose()
            #expect(try listener.takeMessage().payload == "gone")
        }

        // [MQTT-3.1.2-12/311] [MQTT-3.1.2-11/311]
        @Test(arguments: everyVersion)
        func `no will is sent for a client without one`(version: MQTT.Version) throws {
            let topic = "will-none/\(version.rawValue)"
            let listener = try MQTTPeer(version, "will-none-listener")
            try listener.subscribe((topic, 1))
            let first = try MQTTPeer(
                version, "will-none", .init(will: .init(topic: topic, qos: 1)))
            try first.disconnect()
            let second = try MQTTPeer(version, "will-none")
            second.drop()
            try listener.expectSilence()
        }

        // [MQTT-3.1.3-9] [MQTT-3.1.2-8]
        @Test func `a will waits for its delay, and is removed when its client returns`() throws {
            let listener = try MQTTPeer(.v5, "delayed-listener")
            try listener.subscribe(("delayed", 1))
            // A client that returns has so many seconds, which a busy machine may need.
            func options(_ payload: String) -> MQTTPeer.ConnectOptions {
                MQTTPeer.ConnectOptions(
                    isClean: false,
                    will: .init(
                        topic: "delayed", payload: payload, qos: 1, properties: [.willDelay(6)]),
                    properties: [.sessionExpiry(60)])
            }
            let first = try MQTTPeer(.v5, "delayed", options("removed"))
            first.drop()
            let second = try MQTTPeer(
                .v5, "delayed", .init(isClean: false, properties: [.sessionExpiry(60)]))
            let other = try MQTTPeer(.v5, "delayed-other", options("gone"))
            other.drop()
            try listener.expectSilence()
            // The will that was removed would have come before.
            #expect(try listener.takeMessage().payload == "gone")
            try listener.expectSilence()
            try second.disconnect()
            let third = try MQTTPeer(.v5, "delayed", options("gone again"))
            third.drop()
            try listener.expectSilence()
            #expect(try listener.takeMessage().payload == "gone again")
        }

        // [MQTT-3.1.2-8]
        @Test func `the end of the session sends a delayed will`() throws {
            let listener = try MQTTPeer(.v5, "hasty-listener")
            try listener.subscribe(("hasty", 1))
            let peer = try MQTTPeer(
                .v5, "hasty",
                .init(will: .init(topic: "hasty", qos: 1, properties: [.willDelay(3_600)])))
            peer.drop()
            #expect(try listener.takeMessage().payload == "gone")
        }

        // [MQTT-3.1.3-10] [MQTT-3.3.2-17] [MQTT-3.3.2-18]
        @Test func `a will arrives with its properties`() throws {
            let properties: [MQTTProperty] = [
                .payloadFormat(1), .contentType("text/plain"), .responseTopic("r"),
                .correlation([1]), .user("z", "1"), .user("a", "2"), .user("z", "3"),
            ]
            let listener = try MQTTPeer(.v5, "will-rich-listener")
            try listener.subscribe(("will-rich", 1))
            let peer = try MQTTPeer(
                .v5, "will-rich",
                .init(will: .init(topic: "will-rich", qos: 1, properties: properties)))
            peer.drop()
            #expect(try listener.takeMessage().properties == properties)
        }
    }
}
