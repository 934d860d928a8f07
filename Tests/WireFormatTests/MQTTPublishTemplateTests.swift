// One body for many receivers: the template writes the bytes of the whole packet.

import PacketMeanings
import Primitives
import Testing

@testable import WireFormat

@Suite("A publish template")
struct MQTTPublishTemplateTests {
    /// Topic, carried properties (format 1, a user property) and payload, one after the other.
    static let topic = Array("site/7/pump".utf8)
    static let properties: [UInt8] = [0x01, 1, 0x26, 0, 1, 0x6B, 0, 1, 0x76]
    static let payload = Array("on".utf8)
    static let source = topic + properties + payload

    static func publish(_ version: MQTT.Version, expiry: UInt32? = nil) -> MQTT.Publish {
        var packet = MQTT.Publish(
            version, topic: ByteRange(offset: 0, count: topic.count),
            payload: ByteRange(offset: source.count - payload.count, count: payload.count))
        if version == .v5 {
            packet.properties = MQTT.PropertySection(
                carried: ByteRange(offset: topic.count, count: properties.count))
            packet.messageExpirySeconds = expiry
        }
        return packet
    }

    /// What the template of `publish` writes for one receiver.
    static func written(_ publish: MQTT.Publish, _ receipt: MQTT.Receipt) -> [UInt8] {
        let body = bytes(count: publish.bodyByteCount) { writer in
            source.withUnsafeBytes { publish.writeBody(to: &writer, from: $0.bytes) }
        }
        let template = MQTT.PublishTemplate(publish)
        #expect(template.byteCount(receipt) <= template.byteCountMaximum)
        return bytes(count: template.byteCount(receipt)) {
            template.write(receipt, body: body.span.bytes, to: &$0)
        }
    }

    @Test(arguments: [MQTT.Version.v311, .v5], [MQTT.QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `writes the same bytes as the packet`(version: MQTT.Version, qos: MQTT.QoS) {
        for isRetained in [false, true] {
            var receipt = MQTT.Receipt()
            receipt.qos = qos
            receipt.packetIdentifier = qos == .atMostOnce ? 0 : 0x1234
            receipt.isRetained = isRetained
            receipt.isDuplicate = qos != .atMostOnce && isRetained
            var packet = Self.publish(version, expiry: 60)
            packet.qos = qos
            packet.packetIdentifier = receipt.packetIdentifier
            packet.isRetained = isRetained
            packet.isDuplicate = receipt.isDuplicate
            let expected = encode(packet, Self.source)
            #expect(Self.written(Self.publish(version, expiry: 60), receipt) == expected)
        }
    }

    @Test(arguments: [1, 127, 128, 268_435_455] as [UInt32])
    func `adds the parts of one receiver`(subscriptionIdentifier: UInt32) {
        var receipt = MQTT.Receipt()
        receipt.qos = .atLeastOnce
        receipt.packetIdentifier = 7
        receipt.subscriptionIdentifier = subscriptionIdentifier
        for alias: UInt16 in [0, 3] {
            receipt.topicAlias = alias
            for omitsTopic in alias == 0 ? [false] : [false, true] {
                receipt.omitsTopic = omitsTopic
                let bytes = Self.written(Self.publish(.v5), receipt)
                let meaning = understandMQTT(bytes, .v5, isFromClient: false).text
                let topic = omitsTopic ? "" : "site/7/pump"
                let number = alias == 0 ? "" : " alias=3"
                #expect(
                    meaning == "publish qos=1 topic=\(topic) id=7\(number)"
                        + " subid=\(subscriptionIdentifier) format=1 property=k,v payload=on")
            }
        }
    }

    @Test func `includes its longer property length`() {
        // 121 bytes of properties and 7 of extras: the length grows from one byte to two.
        let long = [0x26, 0, 116] + [UInt8](repeating: 0x6E, count: 116) + [0, 0] as [UInt8]
        let source = Array("t".utf8) + long
        var packet = MQTT.Publish(
            .v5, topic: ByteRange(offset: 0, count: 1), payload: .empty)
        packet.properties = MQTT.PropertySection(carried: ByteRange(offset: 1, count: long.count))
        let body = bytes(count: packet.bodyByteCount) { writer in
            source.withUnsafeBytes { packet.writeBody(to: &writer, from: $0.bytes) }
        }
        var receipt = MQTT.Receipt()
        receipt.topicAlias = 1
        receipt.subscriptionIdentifier = 200_000
        let template = MQTT.PublishTemplate(packet)
        let written = bytes(count: template.byteCount(receipt)) {
            template.write(receipt, body: body.span.bytes, to: &$0)
        }
        let meaning = understandMQTT(written, .v5, isFromClient: false).text
        #expect(meaning.hasPrefix("publish qos=0 topic=t alias=1 subid=200000 property=nnn"))
    }
}

@Suite("A section of properties")
struct MQTTPropertySectionTests {
    /// Expiry and alias have fields; what stands between them is carried, in its order.
    @Test func `keeps properties without a field`() throws {
        let section: [UInt8] = [
            0x26, 0, 1, 0x61, 0, 1, 0x31, 0x02, 0, 0, 0, 60, 0x03, 0, 1, 0x74, 0x23, 0, 5, 0x26, 0,
            1, 0x62, 0, 1, 0x32,
        ]
        let body = [0, 1, 0x78] + varInt(section.count) + section + [0x21]
        let packet = try body.withUnsafeBytes { body in
            try MQTT.Publish(.v5, flags: 0, body: body.bytes, from: .client)
        }
        #expect(packet.messageExpirySeconds == 60)
        #expect(packet.topicAlias == 5)
        #expect(packet.properties.carriedByteCount == 7 + 4 + 7)
        let carried = bytes(count: 18) { writer in
            body.withUnsafeBytes {
                packet.properties.write(to: &writer, of: .publish, from: $0.bytes)
            }
        }
        #expect(carried == Array(section[0..<7] + section[12..<16] + section[19...]))
    }
}

@Suite("A topic filter")
struct MQTTTopicFilterTests {
    private func taken(_ text: String) -> (share: String, pattern: String)? {
        let bytes = Array(text.utf8)
        return bytes.withUnsafeBytes { bytes in
            guard
                let filter = MQTT.TopicFilter(
                    ByteRange(offset: 0, count: bytes.count), in: bytes.bytes)
            else { return nil }
            return (
                String(decoding: filter.shareName.bytes(in: bytes), as: UTF8.self),
                String(decoding: filter.pattern.bytes(in: bytes), as: UTF8.self)
            )
        }
    }

    @Test(arguments: [
        ("$share/a/b", "a", "b"), ("$share/workers/+/x/#", "workers", "+/x/#"),
        ("$share/a//", "a", "/"), ("$shared/a/b", "", "$shared/a/b"), ("a/#", "", "a/#"),
        ("$share", "", "$share"),
    ])
    func `separates the share from the pattern`(text: String, share: String, pattern: String) {
        let filter = taken(text)
        #expect(filter?.share == share)
        #expect(filter?.pattern == pattern)
    }

    @Test(arguments: [
        "$share/", "$share/a", "$share/a/", "$share//b", "$share/a+/b", "$share/#", "$share/a/b#",
    ])
    func `may be invalid`(text: String) {
        #expect(taken(text) == nil)
    }
}
