// From effects to MQTT packets, for all three versions. A publication is encoded once per version;
// each receiver's packet is a small header and one or two copies.

import BrokerCore
import Primitives
import WireFormat

/// Carries out the effects of one loop's MQTT connections.
struct MQTTEncoder: ~Copyable {
    private var before5 = EncodedPublication()
    private var since5 = EncodedPublication()
    private let packetMaximum: UInt32

    /// - Parameter packetMaximum: what clients are told is the largest packet the broker takes.
    init(packetMaximum: UInt32) {
        self.packetMaximum = packetMaximum
    }

    /// Forgets the publications of the last turn.
    mutating func begin() {
        before5.publication = .max
        since5.publication = .max
    }

    // MARK: - Deliveries

    @inline(__always)
    mutating func deliver(
        _ delivery: Delivery, _ loop: borrowing EffectLane, at now: Instant,
        _ conversations: inout ConversationTable, _ host: inout some ConnectionHost & ~Copyable,
        _ events: inout ContiguousArray<Event>
    ) {
        if delivery.dialect == .mqtt5 {
            since5.prepare(delivery, .v5, loop, at: now, conversations)
            since5.deliver(delivery, &conversations, &host, &events)
        } else {
            before5.prepare(delivery, .v311, loop, at: now, conversations)
            before5.deliver(delivery, &conversations, &host, &events)
        }
    }

    // MARK: - Everything else

    mutating func encode(
        _ effect: Effect, _ version: MQTT.Version, _ loop: borrowing EffectLane,
        _ conversations: inout ConversationTable, _ host: inout some ConnectionHost & ~Copyable,
        _ events: inout ContiguousArray<Event>
    ) {
        switch effect {
        case .accept(let connection, let acceptance):
            accept(connection, acceptance, version, loop, &conversations, &host, &events)
        case .refuse(let connection, let reason, _):
            MQTTEncoder.refuse(connection, reason.inConnack, version, conversations, &host)
            close(connection, &conversations, &host)
        case .answerPacket(let answer):
            self.answer(answer, version, loop, conversations, &host, &events)
        case .respond(let connection, let identifier, _, let body):
            respond(connection, identifier, body, version, loop, conversations, &host, &events)
        case .close(let connection, let reason):
            end(connection, reason, version, &conversations, &host)
        case .confirmDisconnect(let connection):
            close(connection, &conversations, &host)
        case .reportResult(let result):
            // A QoS 0 publication that was refused: there is no packet for that.
            if result.reason.isFailure && !acknowledgesRefused(result.connection, conversations) {
                events.append(.peerFaulted(result.connection, result.reason))
            }
        case .answerCredential(let connection, let reason):
            answerCredential(connection, reason, conversations, &host, &events)
        case .deliver, .reportPresence, .reportGroups, .reportGroup, .note, .awaitDrain,
            .holdReading, .resumeReading:
            preconditionFailure("an effect that no MQTT packet asks for")
        }
    }

    /// Tells a client that the broker stops.
    static func writeShutdown(
        to connection: ConnectionID, _ version: MQTT.Version,
        _ conversations: borrowing ConversationTable, _ host: inout some ConnectionHost & ~Copyable
    ) {
        if version == .v5 {
            disconnect(connection, .serverShuttingDown, conversations, &host)
        }
    }

    /// Tells a client why it is sent away before it was let in.
    static func refuse(
        _ connection: ConnectionID, _ reason: ReasonCode, _ version: MQTT.Version,
        _ conversations: borrowing ConversationTable, _ host: inout some ConnectionHost & ~Copyable
    ) {
        var packet = MQTT.Connack(version, reason)
        let text = reason.text.utf8Bytes
        if version == .v5 {
            packet.reasonString = ByteRange(offset: 0, count: text.count)
        }
        // A client that takes not even this much is sent nothing [MQTT-3.1.2-24].
        conversations.write(packet, to: connection, from: text, &host)
    }

    /// The last packet of a 5.0 connection.
    private static func disconnect(
        _ connection: ConnectionID, _ reason: ReasonCode,
        _ conversations: borrowing ConversationTable, _ host: inout some ConnectionHost & ~Copyable
    ) {
        var packet = MQTT.Disconnect(.v5, reason)
        let text = reason.text.utf8Bytes
        packet.reasonString = ByteRange(offset: 0, count: text.count)
        // A client that takes not even this much is sent nothing [MQTT-3.1.2-24].
        conversations.write(packet, to: connection, from: text, &host)
    }

    /// Writes a packet that the client waits for. Where it takes none of that size it cannot be
    /// served.
    private func write(
        _ packet: some ShortenablePacket, to connection: ConnectionID,
        from source: UnsafeRawBufferPointer, _ conversations: borrowing ConversationTable,
        _ host: inout some ConnectionHost & ~Copyable, _ events: inout ContiguousArray<Event>
    ) {
        if !conversations.write(packet, to: connection, from: source, &host) {
            events.append(.peerFaulted(connection, .packetTooLarge))
        }
    }

    private func accept(
        _ connection: ConnectionID, _ acceptance: Acceptance, _ version: MQTT.Version,
        _ loop: borrowing EffectLane, _ conversations: inout ConversationTable,
        _ host: inout some ConnectionHost & ~Copyable, _ events: inout ContiguousArray<Event>
    ) {
        guard let conversation = conversations[connection] else { return }
        if acceptance.acknowledgesRefused {
            conversations[connection]!.traits.insert(.acknowledgesRefused)
        }
        conversations.setUser(
            Array(acceptance.user.bytes(in: loop.bytes.bytes)), of: connection)
        var packet = MQTT.Connack(
            version, .success, isSessionPresent: acceptance.isSessionPresent)
        if version == .v5 {
            if acceptance.sessionExpirySeconds != conversation.sessionExpiryRequested {
                packet.sessionExpirySeconds = acceptance.sessionExpirySeconds
            }
            if acceptance.keepAliveSeconds != UInt32(conversation.keepAliveRequested) {
                packet.serverKeepAliveSeconds = UInt16(acceptance.keepAliveSeconds)
            }
            packet.receiveMaximum = acceptance.sendWindow
            packet.packetMaximum = packetMaximum
            packet.topicAliasMaximum = TopicAliasLimits.countMaximum
        }
        var source = Array(acceptance.assignedDevice.bytes(in: loop.bytes.bytes))
        if version == .v5, !source.isEmpty {
            packet.assignedClientIdentifier = ByteRange(offset: 0, count: source.count)
        }
        if conversation.traits.contains(.authenticates) {
            // [MQTT-4.12.0-5]
            packet.authenticationMethod = source.appendRange(MQTTDecoder.tokenMethod.utf8Bytes)
        }
        let isWritten = source.withUnsafeBytes {
            conversations.write(packet, to: connection, from: $0, &host)
        }
        guard isWritten else {
            // It cannot be told what it is granted.
            MQTTEncoder.refuse(connection, .packetTooLarge, version, conversations, &host)
            events.append(.peerFaulted(connection, .packetTooLarge))
            close(connection, &conversations, &host)
            return
        }
        conversations[connection]!.phase = .established
        // One and a half times the keep-alive [MQTT-3.1.2-22].
        host.acceptConnection(
            connection, silenceMilliseconds: UInt64(acceptance.keepAliveSeconds) * 1500)
    }

    /// A step of an exchange. What went wrong is told in words too, and the result of a message
    /// that has an id of the application's, if the client wants to hear of it [MQTT-3.1.2-29].
    private func answer(
        _ answer: PacketAnswer, _ version: MQTT.Version, _ loop: borrowing EffectLane,
        _ conversations: borrowing ConversationTable, _ host: inout some ConnectionHost & ~Copyable,
        _ events: inout ContiguousArray<Event>
    ) {
        let isPublishAnswer = answer.step == .accepted || answer.step == .received
        var reason = isPublishAnswer ? answer.reason.inPublishAnswer : answer.reason
        if version < .v5 && reason.isFailure && isPublishAnswer {
            // There is no negative answer [MQTT-3.3.5-2 of 3.1.1].
            guard acknowledgesRefused(answer.connection, conversations) else {
                events.append(.peerFaulted(answer.connection, answer.reason))
                return
            }
            reason = .success
        }
        var packet = MQTT.Acknowledgement(
            version, MQTT.Acknowledgement.Step(answer.step), answer.packetIdentifier, reason)
        let isTold =
            reason.isFailure || !answer.messageIdentifier.isEmpty || answer.namedRefusalCount > 0
            || answer.refusedCount > 0
        guard version == .v5, isTold,
            conversations[answer.connection]?.traits.contains(.wantsProblemInformation) == true
        else {
            write(
                packet, to: answer.connection, from: loop.bytes.bytes, conversations, &host,
                &events)
            return
        }
        var source: [UInt8] = []
        if reason.isFailure {
            packet.reasonString = source.appendRange(answer.reason.text.utf8Bytes)
        } else if answer.refusedCount > 0 {
            packet.reasonString = source.appendRange(
                Array("\(answer.refusedCount) of its receivers did not get it".utf8))
        }
        packet.properties = MQTT.PropertySection(
            carried: source.appendProperties(of: answer, loop))
        // What does not fit is left out, the words first [MQTT-3.4.2-2], [MQTT-3.4.2-3].
        if conversations.isTooLarge(packet.encodedByteCount, for: answer.connection) {
            packet.reasonString = nil
        }
        if conversations.isTooLarge(packet.encodedByteCount, for: answer.connection) {
            packet.properties = MQTT.PropertySection(
                carried: source.appendRefusedCount(of: answer))
        }
        if conversations.isTooLarge(packet.encodedByteCount, for: answer.connection) {
            packet.properties = .empty
        }
        source.withUnsafeBytes {
            write(packet, to: answer.connection, from: $0, conversations, &host, &events)
        }
    }

    /// What becomes of a publication that is refused and that MQTT has no negative answer for: any
    /// in 3.1 and 3.1.1, QoS 0 in 5.0. The log tells of it in any case.
    private func acknowledgesRefused(
        _ connection: ConnectionID, _ conversations: borrowing ConversationTable
    ) -> Bool {
        conversations[connection]?.traits.contains(.acknowledgesRefused) == true
    }

    /// What became of a fresh token [MQTT-4.12.1-2].
    private func answerCredential(
        _ connection: ConnectionID, _ reason: ReasonCode,
        _ conversations: borrowing ConversationTable,
        _ host: inout some ConnectionHost & ~Copyable, _ events: inout ContiguousArray<Event>
    ) {
        guard !reason.isFailure else {
            events.append(.peerFaulted(connection, reason))
            return
        }
        let method = MQTTDecoder.tokenMethod.utf8Bytes
        write(
            MQTT.Auth(
                .success, authenticationMethod: ByteRange(offset: 0, count: method.count)),
            to: connection, from: method, conversations, &host, &events)
    }

    /// The answer to a SUBSCRIBE or an UNSUBSCRIBE: a code for each filter, and the first refusal
    /// in words.
    private func respond(
        _ connection: ConnectionID, _ identifier: UInt64, _ body: ByteRange,
        _ version: MQTT.Version, _ loop: borrowing EffectLane,
        _ conversations: borrowing ConversationTable,
        _ host: inout some ConnectionHost & ~Copyable, _ events: inout ContiguousArray<Event>
    ) {
        let packetIdentifier = UInt16(truncatingIfNeeded: identifier)
        let whole = ByteRange(offset: 0, count: Int(body.count))
        var source = Array(body.bytes(in: loop.bytes.bytes))
        var text: ByteRange?
        if version == .v5,
            conversations[connection]?.traits.contains(.wantsProblemInformation) == true,
            let refusal = source.first(where: { $0 >= MQTT.Suback.failureCode })
        {
            text = source.appendRange(
                (ReasonCode(rawValue: refusal) ?? .unspecifiedError).text.utf8Bytes)
        }
        if identifier & MQTTDecoder.unsubscribeMark != 0 {
            var packet = MQTT.Unsuback(version, packetIdentifier, codes: whole)
            packet.reasonString = text
            source.withUnsafeBytes {
                write(packet, to: connection, from: $0, conversations, &host, &events)
            }
            return
        }
        var packet = MQTT.Suback(version, packetIdentifier, codes: whole)
        packet.reasonString = text
        if version < .v5 {
            for index in source.indices where source[index] > MQTT.Suback.failureCode {
                source[index] = MQTT.Suback.failureCode
            }
        }
        source.withUnsafeBytes {
            write(packet, to: connection, from: $0, conversations, &host, &events)
        }
    }

    /// Ends a connection with a reason. One that waits for its answer has not heard CONNACK, and
    /// nothing else may be the first packet that it hears [MQTT-3.2.0-1].
    private func end(
        _ connection: ConnectionID, _ reason: ReasonCode, _ version: MQTT.Version,
        _ conversations: inout ConversationTable, _ host: inout some ConnectionHost & ~Copyable
    ) {
        if conversations[connection]?.phase == .awaitingAnswer {
            MQTTEncoder.refuse(connection, reason.inConnack, version, conversations, &host)
        } else if version == .v5 {
            MQTTEncoder.disconnect(
                connection, reason.inDisconnect, conversations, &host)
        }
        close(connection, &conversations, &host)
    }

    private func close(
        _ connection: ConnectionID, _ conversations: inout ConversationTable,
        _ host: inout some ConnectionHost & ~Copyable
    ) {
        guard conversations[connection] != nil else { return }
        conversations[connection]!.phase = .closing
        host.closeConnection(connection)
    }
}

extension ReasonCode {
    /// The reason as a CONNACK may bear it.
    fileprivate var inConnack: ReasonCode { isInConnack ? self : .unspecifiedError }

    /// The reason as a DISCONNECT may bear it.
    fileprivate var inDisconnect: ReasonCode {
        if isInDisconnect(from: .broker) { return self }
        return self == .badUserNameOrPassword ? .notAuthorized : .unspecifiedError
    }

    /// The reason as a PUBACK or PUBREC may bear it. A message that is too large breaks a limit; to
    /// end the connection for it would make a client send it again for ever.
    fileprivate var inPublishAnswer: ReasonCode {
        if isInPublishAnswer { return self }
        return self == .packetTooLarge ? .quotaExceeded : .unspecifiedError
    }
}

extension MQTT.Acknowledgement.Step {
    fileprivate init(_ step: PacketStep) {
        switch step {
        case .accepted: self = .puback
        case .received: self = .pubrec
        case .release: self = .pubrel
        case .complete: self = .pubcomp
        }
    }
}

extension [UInt8] {
    /// Appends bytes; where they are.
    fileprivate mutating func appendRange(_ bytes: some Collection<UInt8>) -> ByteRange {
        append(contentsOf: bytes)
        return ByteRange(offset: count - bytes.count, count: bytes.count)
    }

    private mutating func appendText(_ bytes: some Collection<UInt8>) {
        append(UInt8(bytes.count >> 8))
        append(UInt8(bytes.count & 0xFF))
        append(contentsOf: bytes)
    }

    private mutating func appendProperty(
        _ name: StaticString, _ value: some Collection<UInt8>
    ) {
        append(MQTT.PropertyIdentifier.userProperty.rawValue)
        appendText(name.utf8Bytes)
        appendText(value)
    }

    /// Appends what an answer says in user properties.
    fileprivate mutating func appendProperties(
        of answer: PacketAnswer, _ loop: borrowing EffectLane
    ) -> ByteRange {
        let start = count
        if !answer.messageIdentifier.isEmpty {
            appendProperty(
                MessageProperty.identifier,
                answer.messageIdentifier.bytes(in: loop.bytes.bytes))
            appendProperty(MessageProperty.reason, String(answer.result.rawValue).utf8)
        }
        for index in 0..<Int(answer.namedRefusalCount) {
            let refusal = loop.refusals[Int(answer.firstRefusal) + index]
            appendProperty(
                MessageProperty.refused, "\(refusal.index) \(refusal.reason.rawValue)".utf8)
        }
        _ = appendRefusedCount(of: answer)
        return ByteRange(offset: start, count: count - start)
    }

    /// Appends how many receivers were refused, where some were.
    fileprivate mutating func appendRefusedCount(of answer: PacketAnswer) -> ByteRange {
        let start = count
        if answer.refusedCount > 0 {
            appendProperty(MessageProperty.refusedCount, String(answer.refusedCount).utf8)
        }
        return ByteRange(offset: start, count: count - start)
    }
}
