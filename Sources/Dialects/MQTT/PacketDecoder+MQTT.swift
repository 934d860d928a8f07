// The part of the decoder that is MQTT's: the first packet of a client, later ones, and the numbers
// that stand for topics.

import BrokerCore
import Primitives
import WireFormat

extension PacketDecoder {
    // MARK: - The first packet

    mutating func beginMQTT(
        _ frame: PacketFrame, _ version: MQTT.Version, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID, _ host: inout some ConnectionHost & ~Copyable,
        _ authenticator: inout some Authenticator & ~Copyable,
        _ log: inout some LogSink & ~Copyable
    ) {
        do throws(WireError) {
            _ = try MQTT.PacketType(frame, version, from: .client)
            let connect = try MQTT.Connect(body: frame.body.bytes(in: bytes))
            let listener = terms[Int(conversations[connection]!.terms)]
            conversations.setClientPacketMaximum(connect.packetMaximum, for: connection)
            do throws(DialectRefusal) {
                try MQTTDecoder.read(
                    connect, Int(frame.body.offset), bytes, connection, listener, &authenticator,
                    into: &events)
            } catch {
                let body = frame.body.bytes(in: bytes)
                log.takeNames(
                    connection, user: (connect.userName ?? .empty).bytes(in: body),
                    device: connect.clientIdentifier.bytes(in: body))
                refuse(connection, error.reason, &host, &log)
                return
            }
            conversations[connection]!.phase = .awaitingAnswer
            conversations[connection]!.keepAliveRequested = connect.keepAliveSeconds
            conversations[connection]!.sessionExpiryRequested = connect.sessionExpirySeconds
            if connect.requestsProblemInformation && version == .v5 {
                conversations[connection]!.traits.insert(.wantsProblemInformation)
            }
            if connect.authenticationMethod != nil {
                conversations[connection]!.traits.insert(.authenticates)
            }
            conversations.setAliasMaximum(connect.topicAliasMaximum, for: connection)
            host.holdConnection(connection)
        } catch {
            // What 3.1.1 has no return code for gets no answer [MQTT-3.1.4-1 of 3.1.1].
            if version == .v5 || error == .clientIdentifierNotValid {
                refuse(connection, error.reason, &host, &log)
            } else {
                leave(connection, error.reason, &host, &log)
            }
        }
    }

    // MARK: - Later packets

    mutating func readMQTT(
        _ frame: PacketFrame, _ version: MQTT.Version, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID, _ host: inout some ConnectionHost & ~Copyable,
        _ authenticator: inout some Authenticator & ~Copyable
    ) throws(WireError) {
        let type = try MQTT.PacketType(frame, version, from: .client)
        let body = frame.body.bytes(in: bytes)
        let base = Int(frame.body.offset)
        switch type {
        case .pingreq:
            _ = try MQTT.Ping(isResponse: false, body: body)
            conversations.write(MQTT.Ping(isResponse: true), to: connection, &host)
        case .publish:
            let publish = try MQTT.Publish(version, flags: frame.flags, body: body, from: .client)
            guard publish.topicAlias == 0 else {
                try readAliased(publish, base, bytes, connection, &host)
                return
            }
            let topic = publish.topic.shifted(by: base)
            events.append(
                .sendReceived(
                    connection,
                    MQTTDecoder.request(publish, topic, topic.bytes(in: bytes), base, bytes)))
        case .auth:
            events.append(
                try authenticateAgain(
                    MQTT.Auth(body: body, from: .client), base, bytes, connection, &authenticator))
        case .disconnect:
            try MQTTDecoder.read(type, version, frame, bytes, connection, into: &events)
            // Nothing follows it [MQTT-3.14.4-1].
            conversations[connection]!.phase = .closing
        case .unsubscribe where version < .v5:
            let packet = try MQTT.Unsubscribe(version, body: body)
            guard packet.filterCount <= CoreLimits.filtersPerPacketMaximum else {
                // UNSUBACK says that all of them have ended [MQTT-3.10.4-4 of 3.1.1].
                conversations[connection]!.phase = .closing
                events.append(.peerFaulted(connection, .quotaExceeded))
                return
            }
            MQTTDecoder.unsubscribe(packet, base, bytes, connection, into: &events)
        case .connect, .connack, .puback, .pubrec, .pubrel, .pubcomp, .subscribe, .suback,
            .unsubscribe, .unsuback, .pingresp:
            try MQTTDecoder.read(type, version, frame, bytes, connection, into: &events)
        }
    }

    /// A PUBLISH that gives its topic a number, or has only that.
    private mutating func readAliased(
        _ publish: MQTT.Publish, _ base: Int, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID, _ host: inout some ConnectionHost & ~Copyable
    ) throws(WireError) {
        let alias = publish.topicAlias
        if !publish.topic.isEmpty {
            let topic = publish.topic.shifted(by: base)
            let name = topic.bytes(in: bytes)
            let outcome = conversations.withAliases(from: connection) {
                $0.set(alias, to: name, at: topic)
            }
            switch outcome {
            case .noted: break
            case .outOfRange: throw .topicAliasInvalid
            case .noRoom:
                conversations[connection]!.phase = .closing
                events.append(.peerFaulted(connection, .quotaExceeded))
                return
            }
            events.append(
                .sendReceived(connection, MQTTDecoder.request(publish, topic, name, base, bytes)))
            return
        }
        // One that was never set is a protocol error (section 3.3.4).
        guard let name = conversations.aliases(from: connection)?.topic(of: alias) else {
            throw alias > TopicAliasLimits.countMaximum ? .topicAliasInvalid : .protocolError
        }
        let request = name.withUnsafeBytes { name in
            let place = conversations.withAliases(from: connection) { aliases in
                if aliases.place(of: alias).isEmpty {
                    aliases.setPlace(host.appendIncoming(name), of: alias)
                }
                return aliases.place(of: alias)
            }
            burstEnd = max(burstEnd, place.endOffset)
            return MQTTDecoder.request(publish, place, name, base, bytes)
        }
        events.append(.sendReceived(connection, request))
    }

    /// A client shows a fresh token in place of the one it was let in with (section 4.12.1).
    private mutating func authenticateAgain(
        _ auth: MQTT.Auth, _ base: Int, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID, _ authenticator: inout some Authenticator & ~Copyable
    ) throws(WireError) -> Event {
        // Only who has named a method may [MQTT-4.12.0-6], and only with that [MQTT-4.12.1-1]; no
        // step of ours asks for another.
        guard auth.reason == .reauthenticate,
            conversations[connection]!.traits.contains(.authenticates),
            let method = auth.authenticationMethod?.shifted(by: base),
            MQTTDecoder.isTokenMethod(method.bytes(in: bytes))
        else { throw .protocolError }
        guard let token = auth.authenticationData?.shifted(by: base),
            let claim = authenticator.claim(token: token, in: bytes, from: connection)
        else { return .credentialRefused(connection, .badUserNameOrPassword) }
        return .credentialPresented(connection, claim)
    }
}
