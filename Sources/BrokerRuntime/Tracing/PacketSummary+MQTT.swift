// What a trace shows of the packets of MQTT.

import BrokerTerms
import Primitives
import WireFormat

extension PacketSummary {
    mutating func readMQTT(
        _ type: MQTT.PacketType, _ version: MQTT.Version, from peer: MRT.Peer
    ) throws(WireError) {
        switch type {
        case .connect: read(try MQTT.Connect(body: body))
        case .connack: read(try MQTT.Connack(version, body: body))
        case .publish: read(try MQTT.Publish(version, flags: flags, body: body, from: peer))
        case .puback: try readAcknowledgement(.puback, version)
        case .pubrec: try readAcknowledgement(.pubrec, version)
        case .pubrel: try readAcknowledgement(.pubrel, version)
        case .pubcomp: try readAcknowledgement(.pubcomp, version)
        case .subscribe: read(try MQTT.Subscribe(version, body: body))
        case .suback:
            let suback = try MQTT.Suback(version, body: body)
            packet.id = UInt64(suback.packetIdentifier)
            setCodes(suback.codes)
        case .unsubscribe: read(try MQTT.Unsubscribe(version, body: body))
        case .unsuback:
            let unsuback = try MQTT.Unsuback(version, body: body)
            packet.id = UInt64(unsuback.packetIdentifier)
            setCodes(unsuback.codes)
        case .pingreq, .pingresp: break
        case .disconnect:
            let disconnect = try MQTT.Disconnect(version, body: body, from: peer)
            if version == .v5 { set(disconnect.reason) }
            if let seconds = disconnect.sessionExpirySeconds {
                words.append("session expiry \(Self.expiry(seconds))")
            }
            note(disconnect.reasonString)
        case .auth:
            let auth = try MQTT.Auth(body: body, from: peer)
            set(auth.reason)
            if let method = auth.authenticationMethod { words.append("method \(text(method))") }
            note(auth.reasonString)
        }
    }

    private mutating func read(_ connect: MQTT.Connect) {
        packet.dialect = TracedDialect.mqtt(connect.version).text
        if let name = connect.userName { packet.user = text(name) }
        packet.device = text(connect.clientIdentifier)
        words.append(connect.isCleanStart ? "clean start" : "no clean start")
        words.append("keep-alive \(connect.keepAliveSeconds) s")
        if connect.version == .v5 {
            words.append("session expiry \(Self.expiry(connect.sessionExpirySeconds))")
            words.append("receive maximum \(connect.receiveMaximum)")
        }
        if let method = connect.authenticationMethod { words.append("method \(text(method))") }
        words.append(
            connect.password == nil && connect.authenticationData == nil
                ? "no credential" : "a credential")
        if let will = connect.will {
            words.append(
                "will to \(text(will.topic)) of \(will.payload.count) bytes, grade "
                    + "\(will.qos.rawValue)" + (will.isRetained ? ", retained" : "")
                    + (will.delaySeconds > 0 ? ", after \(will.delaySeconds) s" : ""))
        }
    }

    private mutating func read(_ connack: MQTT.Connack) {
        set(connack.reason)
        if connack.isSessionPresent { words.append("session present") }
        if let seconds = connack.sessionExpirySeconds {
            words.append("session expiry \(Self.expiry(seconds))")
        }
        if let seconds = connack.serverKeepAliveSeconds { words.append("keep-alive \(seconds) s") }
        if let device = connack.assignedClientIdentifier { packet.device = text(device) }
        note(connack.reasonString)
    }

    private mutating func read(_ publish: MQTT.Publish) {
        packet.topic = publish.topic.isEmpty ? nil : text(publish.topic)
        packet.grade = UInt64(publish.qos.rawValue)
        if publish.qos > .atMostOnce { packet.id = UInt64(publish.packetIdentifier) }
        setPayload(publish.payload)
        if publish.isRetained { words.append("retained") }
        if publish.isDuplicate { words.append("duplicate") }
        if publish.topicAlias > 0 { words.append("topic alias \(publish.topicAlias)") }
        if let seconds = publish.messageExpirySeconds { words.append("expires in \(seconds) s") }
    }

    private mutating func read(_ subscribe: MQTT.Subscribe) {
        packet.id = UInt64(subscribe.packetIdentifier)
        var filters: [String] = []
        var list = MQTT.SubscriptionList(subscribe, in: body)
        while filters.count < TraceLimits.listCountMaximum, let (filter, options) = list.next() {
            filters.append("\(text(filter)) (grade \(options.maximumQoS.rawValue))")
        }
        packet.filters = filters
        noteRest(of: subscribe.subscriptionCount)
    }

    private mutating func read(_ unsubscribe: MQTT.Unsubscribe) {
        packet.id = UInt64(unsubscribe.packetIdentifier)
        var filters: [String] = []
        var list = MQTT.FilterList(unsubscribe, in: body)
        while filters.count < TraceLimits.listCountMaximum, let filter = list.next() {
            filters.append(text(filter))
        }
        packet.filters = filters
        noteRest(of: unsubscribe.filterCount)
    }

    private mutating func readAcknowledgement(
        _ step: MQTT.Acknowledgement.Step, _ version: MQTT.Version
    ) throws(WireError) {
        let answer = try MQTT.Acknowledgement(version, step, body: body)
        packet.id = UInt64(answer.packetIdentifier)
        if version == .v5 { set(answer.reason) }
        note(answer.reasonString)
    }

    private mutating func setCodes(_ range: ByteRange) {
        let codes = range.bytes(in: body)
        var texts: [String] = []
        for offset in codes.byteOffsets where offset < TraceLimits.listCountMaximum {
            texts.append(Self.codeText(codes[offset]))
        }
        packet.codes = texts
        noteRest(of: codes.byteCount)
    }

    mutating func noteRest(of count: Int) {
        if count > TraceLimits.listCountMaximum {
            words.append("and \(count - TraceLimits.listCountMaximum) more")
        }
    }

    private mutating func note(_ reason: ByteRange?) {
        if let reason { words.append(text(reason)) }
    }

    static func expiry(_ seconds: UInt32) -> String {
        seconds == WireLimits.sessionNeverExpires ? "never" : "\(seconds) s"
    }
}
