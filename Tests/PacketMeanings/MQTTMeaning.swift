// Describes the bytes of an MQTT packet in the words of the vector files, and encodes the decoded
// packet again.

import Primitives

import WireFormat

/// Decodes bytes that a client or a broker sent on a connection of this version.
package func understandMQTT(_ bytes: [UInt8], _ version: MQTT.Version, isFromClient: Bool)
    -> Meaning
{
    bytes.withUnsafeBytes { bytes in
        switch PacketFrame.next(in: bytes.bytes, at: 0, packetMaximum: .max) {
        case .packet(let frame):
            do throws(WireError) {
                return try MQTTWords(version, frame.body.bytes(in: bytes)).decode(
                    frame, isFromClient ? .client : .broker)
            } catch {
                return Meaning(text: "error=\(word(error))")
            }
        case .incomplete(let count): return Meaning(text: "error=incomplete:\(count)")
        case .malformed: return Meaning(text: "error=malformed")
        case .tooLarge: return Meaning(text: "error=too-large")
        }
    }
}

private struct MQTTWords {
    let version: MQTT.Version
    let body: UnsafeRawBufferPointer

    init(_ version: MQTT.Version, _ body: UnsafeRawBufferPointer) {
        self.version = version
        self.body = body
    }

    func decode(_ frame: PacketFrame, _ peer: MQTT.Peer) throws(WireError) -> Meaning {
        switch try MQTT.PacketType(frame, version, from: peer) {
        case .connect:
            let packet = try MQTT.Connect(body: body.bytes)
            return meaning(packet, words(packet))
        case .connack:
            let packet = try MQTT.Connack(version, body: body.bytes)
            return meaning(packet, words(packet))
        case .publish:
            let packet = try MQTT.Publish(version, flags: frame.flags, body: body.bytes, from: peer)
            return meaning(packet, words(packet))
        case .puback: return try acknowledgement(.puback)
        case .pubrec: return try acknowledgement(.pubrec)
        case .pubrel: return try acknowledgement(.pubrel)
        case .pubcomp: return try acknowledgement(.pubcomp)
        case .subscribe:
            let packet = try MQTT.Subscribe(version, body: body.bytes)
            return meaning(packet, words(packet))
        case .suback:
            let packet = try MQTT.Suback(version, body: body.bytes)
            return meaning(
                packet,
                ["suback", "id=\(packet.packetIdentifier)", text("text", packet.reasonString)]
                    + carried(packet.properties, MQTT.PropertyOwner(.suback))
                    + [codes(packet.codes)])
        case .unsubscribe:
            let packet = try MQTT.Unsubscribe(version, body: body.bytes)
            var list = MQTT.FilterList(packet, in: body.bytes)
            var filters: [String] = []
            while let filter = list.next() { filters.append("filter=" + escape(filter, body)) }
            return meaning(
                packet,
                ["unsubscribe", "id=\(packet.packetIdentifier)"]
                    + carried(packet.properties, MQTT.PropertyOwner(.unsubscribe)) + filters)
        case .unsuback:
            let packet = try MQTT.Unsuback(version, body: body.bytes)
            return meaning(
                packet,
                ["unsuback", "id=\(packet.packetIdentifier)", text("text", packet.reasonString)]
                    + carried(packet.properties, MQTT.PropertyOwner(.unsuback))
                    + [packet.codes.isEmpty ? nil : codes(packet.codes)])
        case .pingreq:
            return meaning(try MQTT.Ping(isResponse: false, body: body.bytes), ["pingreq"])
        case .pingresp:
            return meaning(try MQTT.Ping(isResponse: true, body: body.bytes), ["pingresp"])
        case .disconnect:
            let packet = try MQTT.Disconnect(version, body: body.bytes, from: peer)
            return meaning(packet, words(packet))
        case .auth:
            let packet = try MQTT.Auth(body: body.bytes, from: peer)
            return meaning(packet, words(packet))
        }
    }

    private func meaning(_ packet: some WirePacket, _ words: [String?]) -> Meaning {
        Meaning(
            text: words.compactMap(\.self).joined(separator: " "),
            encoded: encode(packet, Array(body)))
    }

    private func acknowledgement(_ step: MQTT.Acknowledgement.Step) throws(WireError) -> Meaning {
        let packet = try MQTT.Acknowledgement(version, step, body: body.bytes)
        return meaning(
            packet,
            [
                "\(step)", "id=\(packet.packetIdentifier)",
                field("reason", UInt64(packet.reason.rawValue)), text("text", packet.reasonString),
            ] + carried(packet.properties, MQTT.PropertyOwner(step.type)))
    }

    private func words(_ packet: MQTT.Connect) -> [String?] {
        let receiveMaximum = packet.receiveMaximum == .max ? 0 : UInt64(packet.receiveMaximum)
        let will = packet.will.map(words) ?? []
        return [
            "connect", "level=\(packet.version.rawValue)", mark("clean", packet.isCleanStart),
            "keepalive=\(packet.keepAliveSeconds)",
            field("expiry", UInt64(packet.sessionExpirySeconds)),
            field("receivemax", receiveMaximum), field("packetmax", UInt64(packet.packetMaximum)),
            field("aliasmax", UInt64(packet.topicAliasMaximum)),
            mark("responseinfo", packet.requestsResponseInformation),
            mark("noproblems", !packet.requestsProblemInformation),
            text("method", packet.authenticationMethod), text("data", packet.authenticationData),
        ] + carried(packet.properties, .connect) + [
            "client=" + escape(packet.clientIdentifier, body)
        ]
            + will + [text("user", packet.userName), text("password", packet.password)]
    }

    private func words(_ will: MQTT.Will) -> [String?] {
        [
            "willqos=\(will.qos.rawValue)", mark("willretain", will.isRetained),
            field("willdelay", UInt64(will.delaySeconds)),
            will.messageExpirySeconds.map { "willexpiry=\($0)" },
        ] + carried(will.properties, .will, prefix: "will") + [
            "willtopic=" + escape(will.topic, body), "will=" + escape(will.payload, body),
        ]
    }

    private func words(_ packet: MQTT.Connack) -> [String?] {
        let receiveMaximum = packet.receiveMaximum == .max ? 0 : UInt64(packet.receiveMaximum)
        return [
            "connack", mark("present", packet.isSessionPresent),
            "reason=\(packet.reason.rawValue)", packet.sessionExpirySeconds.map { "expiry=\($0)" },
            field("receivemax", receiveMaximum),
            packet.maximumQoS == .exactlyOnce ? nil : "qosmax=\(packet.maximumQoS.rawValue)",
            mark("noretain", !packet.isRetainAvailable),
            field("packetmax", UInt64(packet.packetMaximum)),
            text("assigned", packet.assignedClientIdentifier),
            field("aliasmax", UInt64(packet.topicAliasMaximum)),
            text("text", packet.reasonString), mark("nowildcards", !packet.isWildcardAvailable),
            mark("nosubids", !packet.isSubscriptionIdentifierAvailable),
            mark("noshared", !packet.isSharedSubscriptionAvailable),
            packet.serverKeepAliveSeconds.map { "keepalive=\($0)" },
            text("response", packet.responseInformation), text("server", packet.serverReference),
            text("method", packet.authenticationMethod), text("data", packet.authenticationData),
        ] + carried(packet.properties, .connack)
    }

    private func words(_ packet: MQTT.Publish) -> [String?] {
        [
            "publish", mark("dup", packet.isDuplicate), "qos=\(packet.qos.rawValue)",
            mark("retain", packet.isRetained), "topic=" + escape(packet.topic, body),
            field("id", UInt64(packet.packetIdentifier)),
            packet.messageExpirySeconds.map { "expiry=\($0)" },
            field("alias", UInt64(packet.topicAlias)),
        ] + carried(packet.properties, .publish) + ["payload=" + escape(packet.payload, body)]
    }

    private func words(_ packet: MQTT.Subscribe) -> [String?] {
        var subscriptions = MQTT.SubscriptionList(packet, in: body.bytes)
        var list: [String] = []
        while let (filter, options) = subscriptions.next() {
            list.append("filter=\(escape(filter, body)),\(words(options))")
        }
        precondition(list.count == packet.subscriptionCount, "a list counts its filters")
        return ["subscribe", "id=\(packet.packetIdentifier)"] + [
            field("subid", UInt64(packet.subscriptionIdentifier))
        ] + carried(packet.properties, .subscribe)
            + list
    }

    private func words(_ options: MQTT.SubscriptionOptions) -> String {
        "qos\(options.maximumQoS.rawValue)" + (options.isNoLocal ? ",nolocal" : "")
            + (options.retainsAsPublished ? ",aspublished" : "")
            + (options.retainHandling == .send ? "" : ",handling\(options.retainHandling.rawValue)")
    }

    private func words(_ packet: MQTT.Disconnect) -> [String?] {
        [
            "disconnect", "reason=\(packet.reason.rawValue)",
            packet.sessionExpirySeconds.map { "expiry=\($0)" }, text("text", packet.reasonString),
            text("server", packet.serverReference),
        ] + carried(packet.properties, .disconnect)
    }

    private func words(_ packet: MQTT.Auth) -> [String?] {
        [
            "auth", "reason=\(packet.reason.rawValue)", text("method", packet.authenticationMethod),
            text("data", packet.authenticationData), text("text", packet.reasonString),
        ] + carried(packet.properties, .auth)
    }

    private func codes(_ codes: ByteRange) -> String {
        "codes=" + codes.bytes(in: body).map { "\($0)" }.joined(separator: ",")
    }

    private func text(_ name: String, _ range: ByteRange?) -> String? {
        range.map { "\(name)=" + escape($0, body) }
    }

    /// The properties that the packet's struct has no field for.
    private func carried(
        _ section: MQTT.PropertySection, _ owner: MQTT.PropertyOwner, prefix: String = ""
    ) -> [String?] {
        var properties = MQTT.PropertyReader(section, of: owner, in: body.bytes)
        var words: [String?] = []
        while let property = try? properties.next() {
            guard property.identifier.isCarried(in: owner) else { continue }
            switch property.identifier {
            case .payloadFormatIndicator: words.append("\(prefix)format=\(property.number)")
            case .contentType: words.append("\(prefix)type=" + escape(property.text, body))
            case .responseTopic: words.append("\(prefix)response=" + escape(property.text, body))
            case .correlationData:
                words.append("\(prefix)correlation=" + escape(property.text, body))
            case .subscriptionIdentifier: words.append("subid=\(property.number)")
            default:
                words.append(
                    "\(prefix)property=\(escape(property.text, body)),"
                        + escape(property.value, body))
            }
        }
        return words
    }
}
