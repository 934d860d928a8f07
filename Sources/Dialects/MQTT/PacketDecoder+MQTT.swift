// The packets of an MQTT connection: the first one, later ones, and topic aliases.

import BrokerCore
import Primitives
import WireFormat

extension PacketDecoder {
    // MARK: - The first packet

    mutating func beginMQTT(
        _ packet: ReceivedPacket, _ version: MQTT.Version,
        in context: inout some DecodingContext & ~Copyable
    ) {
        let connection = packet.connection
        do throws(WireError) {
            _ = try MQTT.PacketType(packet.frame, version, from: .client)
            let connect = try MQTT.Connect(body: packet.body.bytes)
            conversations.setClientPacketMaximum(connect.packetMaximum, for: connection)
            let decoded = MQTTDecoder.event(
                of: connect, packet, terms: terms(of: connection), in: &context)
            switch decoded {
            case .success(let event):
                events.append(event)
                conversations[known: connection].expect(answerTo: connect)
                conversations.setAliasMaximum(connect.topicAliasMaximum, for: connection)
                context.holdConnection(connection)
            case .failure(let refusal) where refusal.isPending:
                isStalled = true
                context.holdConnection(connection)
            case .failure(let refusal):
                context.takeNames(
                    connection, user: (connect.userName ?? .empty).bytes(in: packet.body.bytes),
                    device: connect.clientIdentifier.bytes(in: packet.body.bytes))
                refuse(connection, refusal.reason, in: &context)
            }
        } catch {
            // 3.1.1 has no return code for the other reasons, so there is no answer [MQTT-3.1.4-1
            // of 3.1.1].
            if version == .v5 || error == .clientIdentifierNotValid {
                refuse(connection, error.reason, in: &context)
            } else {
                leave(connection, error.reason, in: &context)
            }
        }
    }

    // MARK: - Later packets

    mutating func readMQTT(
        _ packet: ReceivedPacket, _ version: MQTT.Version,
        in context: inout some DecodingContext & ~Copyable
    ) throws(WireError) {
        let connection = packet.connection
        let body = packet.body
        switch try MQTT.PacketType(packet.frame, version, from: .client) {
        case .pingreq:
            _ = try MQTT.Ping(isResponse: false, body: body.bytes)
            answerPing(of: connection, through: &context)
        case .publish:
            let publish = try MQTT.Publish(
                version, flags: packet.frame.flags, body: body.bytes, from: .client)
            guard publish.topicAlias == 0 else {
                try readAliased(publish, packet, in: &context)
                return
            }
            let topic = packet.place(publish.topic)
            let name = topic.bytes(in: packet.bytes)
            if name[0] == UInt8(ascii: "$"),
                let start = RequestTopic.operationOffset(in: name.bytes)
            {
                readRequest(publish, of: name.bytes, from: start, packet, in: &context)
                return
            }
            var request = MQTTDecoder.request(of: publish, packet, topic: topic, name: name)
            if request.needsReference { request.reference = context.makeReference() }
            events.append(.sendReceived(connection, request))
        case .puback:
            events.append(
                try MQTTDecoder.event(of: .puback, as: .accepted, version: version, in: packet))
        case .pubrec:
            events.append(
                try MQTTDecoder.event(of: .pubrec, as: .received, version: version, in: packet))
        case .pubrel:
            events.append(
                try MQTTDecoder.event(of: .pubrel, as: .release, version: version, in: packet))
        case .pubcomp:
            events.append(
                try MQTTDecoder.event(of: .pubcomp, as: .complete, version: version, in: packet))
        case .subscribe:
            let subscribe = try MQTT.Subscribe(version, body: body.bytes)
            events.append(MQTTDecoder.event(of: subscribe, packet))
        case .unsubscribe:
            let unsubscribe = try MQTT.Unsubscribe(version, body: body.bytes)
            if version < .v5, unsubscribe.filterCount > CoreLimits.filtersPerPacketMaximum {
                // UNSUBACK of 3.1.1 confirms that all of them have ended [MQTT-3.10.4-4 of 3.1.1].
                end(connection, for: .quotaExceeded)
                return
            }
            events.append(MQTTDecoder.event(of: unsubscribe, packet))
        case .auth:
            let auth = try MQTT.Auth(body: body.bytes, from: .client)
            events.append(try authenticateAgain(auth, packet, in: &context))
        case .disconnect:
            let disconnect = try MQTT.Disconnect(version, body: body.bytes, from: .client)
            events.append(
                .disconnectReceived(
                    connection,
                    DisconnectRequest(
                        sessionExpirySeconds: disconnect.sessionExpirySeconds,
                        // Only a normal disconnection removes the will [MQTT-3.14.4-3].
                        sendsWill: disconnect.reason != .normalDisconnection)))
            // No packet may follow [MQTT-3.14.4-1].
            conversations[known: connection].phase = .closing
        case .connect:
            // A second CONNECT [MQTT-3.1.0-2].
            throw .protocolError
        case .connack, .suback, .unsuback, .pingresp:
            // Packets that only a broker sends.
            throw .protocolError
        }
    }

    /// A PUBLISH that sets a topic alias, or has only the alias.
    private mutating func readAliased(
        _ publish: MQTT.Publish, _ packet: ReceivedPacket,
        in context: inout some DecodingContext & ~Copyable
    ) throws(WireError) {
        let connection = packet.connection
        let alias = publish.topicAlias
        if !publish.topic.isEmpty {
            let topic = packet.place(publish.topic)
            let name = topic.bytes(in: packet.bytes)
            let outcome = conversations.withAliases(from: connection) {
                $0.set(alias, to: name, at: topic)
            }
            switch outcome {
            case .noted: break
            case .outOfRange: throw .topicAliasInvalid
            case .noRoom:
                end(connection, for: .quotaExceeded)
                return
            }
            if let start = RequestTopic.operationOffset(in: name.bytes) {
                readRequest(publish, of: name.bytes, from: start, packet, in: &context)
                return
            }
            var request = MQTTDecoder.request(of: publish, packet, topic: topic, name: name)
            if request.needsReference { request.reference = context.makeReference() }
            events.append(.sendReceived(connection, request))
            return
        }
        // An alias that was never set is a protocol error (section 3.3.4).
        guard let name = conversations.aliases(from: connection)?.topic(of: alias) else {
            throw alias > TopicAliasLimits.countMaximum ? .topicAliasInvalid : .protocolError
        }
        let isRequest = name.withUnsafeBytes { name in
            guard let start = RequestTopic.operationOffset(in: name.bytes) else { return false }
            readRequest(publish, of: name.bytes, from: start, packet, in: &context)
            return true
        }
        if isRequest { return }
        var request = name.withUnsafeBytes { name in
            let place = conversations.withAliases(from: connection) { aliases in
                if aliases.place(of: alias).isEmpty {
                    aliases.setPlace(context.appendIncoming(name), of: alias)
                }
                return aliases.place(of: alias)
            }
            burstEnd = max(burstEnd, place.endOffset)
            return MQTTDecoder.request(of: publish, packet, topic: place, name: name)
        }
        if request.needsReference { request.reference = context.makeReference() }
        events.append(.sendReceived(connection, request))
    }

    /// A client presents a new token in place of the one of its login (section 4.12.1).
    private mutating func authenticateAgain(
        _ auth: MQTT.Auth, _ packet: ReceivedPacket,
        in context: inout some DecodingContext & ~Copyable
    ) throws(WireError) -> Event {
        let connection = packet.connection
        // The client must have named a method [MQTT-4.12.0-6], and must name the same one
        // [MQTT-4.12.1-1]. The broker never asks for another step.
        guard auth.reason == .reauthenticate,
            conversations[known: connection].traits.contains(.authenticates),
            let method = auth.authenticationMethod,
            MQTTDecoder.isTokenMethod(method.bytes(in: packet.body))
        else { throw .protocolError }
        guard let token = auth.authenticationData,
            let claim = context.claim(
                token: packet.place(token), in: packet.bytes, from: connection)
        else { return .credentialRefused(connection, .badUserNameOrPassword) }
        return .credentialPresented(connection, claim)
    }
}

extension Conversation {
    /// A CONNECT goes to the core. The client's options are stored until CONNACK is written.
    fileprivate mutating func expect(answerTo connect: MQTT.Connect) {
        phase = .awaitingAnswer
        keepAliveRequested = connect.keepAliveSeconds
        sessionExpiryRequested = connect.sessionExpirySeconds
        if connect.requestsProblemInformation && connect.version == .v5 {
            traits.insert(.wantsProblemInformation)
        }
        if connect.authenticationMethod != nil { traits.insert(.authenticates) }
    }
}
