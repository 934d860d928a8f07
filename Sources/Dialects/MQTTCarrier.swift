// From effects to MQTT packets, for all three versions. A publication is encoded once per version;
// each receiver's packet is a small header and one or two copies.

import BrokerCore
import Primitives
import WireFormat

/// Carries out the effects of one lane's MQTT connections.
struct MQTTCarrier: ~Copyable {
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
        _ delivery: Delivery, _ lane: borrowing EffectLane, at now: Instant,
        _ conversations: inout ConversationTable, _ host: inout some ConnectionHost & ~Copyable,
        _ events: inout ContiguousArray<Event>
    ) {
        if delivery.dialect == .mqtt5 {
            since5.prepare(delivery, .v5, lane, at: now, conversations)
            since5.deliver(delivery, &conversations, &host, &events)
        } else {
            before5.prepare(delivery, .v311, lane, at: now, conversations)
            before5.deliver(delivery, &conversations, &host, &events)
        }
    }

    // MARK: - Everything else

    mutating func carryOut(
        _ effect: Effect, _ version: MQTT.Version, _ lane: borrowing EffectLane,
        _ conversations: inout ConversationTable, _ host: inout some ConnectionHost & ~Copyable,
        _ events: inout ContiguousArray<Event>
    ) {
        switch effect {
        case .accept(let connection, let acceptance):
            accept(connection, acceptance, version, lane, &conversations, &host)
        case .refuse(let connection, let reason, _):
            host.write(MQTT.Connack(version, reason.inConnack), to: connection)
            close(connection, &conversations, &host)
        case .answerPacket(let answer):
            self.answer(answer, version, &host, &events)
        case .respond(let connection, let identifier, _, let body):
            respond(connection, identifier, body, version, lane, &host)
        case .close(let connection, let reason):
            end(connection, reason, version, &conversations, &host)
        case .confirmDisconnect(let connection):
            close(connection, &conversations, &host)
        case .reportResult:
            // A QoS 0 publication that was refused: the log tells, MQTT has no word for it.
            break
        case .deliver, .reportPresence, .reportGroups, .reportGroup, .answerCredential, .note:
            preconditionFailure("an effect that no MQTT packet asks for")
        }
    }

    /// Tells a client that the broker stops.
    static func sayGoodbye(
        to connection: ConnectionID, _ version: MQTT.Version,
        _ host: inout some ConnectionHost & ~Copyable
    ) {
        if version == .v5 {
            host.write(MQTT.Disconnect(version, .serverShuttingDown), to: connection)
        }
    }

    private func accept(
        _ connection: ConnectionID, _ acceptance: Acceptance, _ version: MQTT.Version,
        _ lane: borrowing EffectLane, _ conversations: inout ConversationTable,
        _ host: inout some ConnectionHost & ~Copyable
    ) {
        guard let conversation = conversations[connection] else { return }
        conversations[connection]!.phase = .established
        conversations.setUser(
            Array(acceptance.user.bytes(in: lane.bytes.bytes)), of: connection)
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
            if !acceptance.assignedDevice.isEmpty {
                packet.assignedClientIdentifier = acceptance.assignedDevice
            }
        }
        host.write(packet, to: connection, from: lane.bytes.bytes)
        // One and a half times the keep-alive [MQTT-3.1.2-22].
        host.acceptConnection(
            connection, silenceMilliseconds: UInt64(acceptance.keepAliveSeconds) * 1500)
    }

    private func answer(
        _ answer: PacketAnswer, _ version: MQTT.Version,
        _ host: inout some ConnectionHost & ~Copyable, _ events: inout ContiguousArray<Event>
    ) {
        let isPublishAnswer = answer.step == .accepted || answer.step == .received
        if version < .v5 && answer.reason.isFailure && isPublishAnswer {
            // There is no negative answer, and a positive one would not be true: the client is sent
            // away, as 3.1.1 has it [MQTT-3.3.5-2 of 3.1.1].
            events.append(.peerFaulted(answer.connection, answer.reason))
            return
        }
        let step: MQTT.Acknowledgement.Step =
            switch answer.step {
            case .accepted: .puback
            case .received: .pubrec
            case .release: .pubrel
            case .complete: .pubcomp
            }
        let reason = isPublishAnswer ? answer.reason.inPublishAnswer : answer.reason
        host.write(
            MQTT.Acknowledgement(version, step, answer.packetIdentifier, reason),
            to: answer.connection)
    }

    /// The answer to a SUBSCRIBE or an UNSUBSCRIBE: a code for each filter.
    private func respond(
        _ connection: ConnectionID, _ identifier: UInt64, _ body: ByteRange,
        _ version: MQTT.Version, _ lane: borrowing EffectLane,
        _ host: inout some ConnectionHost & ~Copyable
    ) {
        let packetIdentifier = UInt16(truncatingIfNeeded: identifier)
        let whole = ByteRange(offset: 0, count: Int(body.count))
        let codes = body.bytes(in: lane.bytes.bytes)
        if identifier & MQTTReader.unsubscribeMark != 0 {
            host.write(
                MQTT.Unsuback(version, packetIdentifier, codes: whole), to: connection,
                from: codes)
            return
        }
        let packet = MQTT.Suback(version, packetIdentifier, codes: whole)
        guard version < .v5 else {
            host.write(packet, to: connection, from: codes)
            return
        }
        let plain = codes.map { $0 < MQTT.Suback.failureCode ? $0 : MQTT.Suback.failureCode }
        plain.withUnsafeBytes { host.write(packet, to: connection, from: $0) }
    }

    /// Ends a connection with a reason. One that waits for its answer has not heard CONNACK, and
    /// nothing else may be the first packet that it hears [MQTT-3.2.0-1].
    private func end(
        _ connection: ConnectionID, _ reason: ReasonCode, _ version: MQTT.Version,
        _ conversations: inout ConversationTable, _ host: inout some ConnectionHost & ~Copyable
    ) {
        if conversations[connection]?.phase == .awaitingAnswer {
            host.write(MQTT.Connack(version, reason.inConnack), to: connection)
        } else if version == .v5 {
            host.write(MQTT.Disconnect(version, reason.inDisconnect), to: connection)
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

/// One publication, encoded for the receivers of one version.
private struct EncodedPublication: ~Copyable {
    /// Which of the lane's publications it is; `.max` for none.
    var publication = UInt32.max
    private var body = ByteArena(capacity: 4096)
    /// Parts that are put together for the encoder.
    private var source = ByteArena(capacity: 4096)
    private var template: MQTT.PublishTemplate?

    /// Encodes the publication of a delivery unless it is the one that was encoded last.
    @inline(__always)
    mutating func prepare(
        _ delivery: Delivery, _ version: MQTT.Version, _ lane: borrowing EffectLane,
        at now: Instant, _ conversations: borrowing ConversationTable
    ) {
        if delivery.publication != publication {
            encode(delivery, version, lane, at: now, conversations)
        }
    }

    private mutating func encode(
        _ delivery: Delivery, _ version: MQTT.Version, _ lane: borrowing EffectLane,
        at now: Instant, _ conversations: borrowing ConversationTable
    ) {
        let entry = lane.publications[Int(delivery.publication)]
        let block = MessageBlock(entry.block.bytes(in: lane.bytes.bytes))
        source.removeAll()
        let topic = appendTopic(of: block, receiver: conversations.user(of: delivery.connection))
        let payload = appendPayload(of: block)
        var packet = MQTT.Publish(version, topic: topic, payload: payload)
        if version == .v5 {
            packet.properties = appendProperties(of: block)
            if block.marks.contains(.expires) {
                // What is left, rounded up: 0 would be over [MQTT-3.3.2-6].
                let left = entry.deadline.milliseconds(since: now)
                packet.messageExpirySeconds = UInt32(
                    truncatingIfNeeded: min((left + 999) / 1000, UInt64(UInt32.max)))
            }
        }
        body.removeAll()
        let range = body.reserve(packet.bodyByteCount)
        var writer = PacketWriter(body.mutableBytes(range))
        packet.writeBody(to: &writer, from: source.bytes)
        template = MQTT.PublishTemplate(packet, body: body.bytes)
        // Mail has its receiver's name in its topic, so that it is encoded for each.
        publication = block.kind == .unicast ? .max : delivery.publication
    }

    private mutating func appendTopic(
        of block: MessageBlock, receiver: [UInt8]
    ) -> ByteRange {
        let start = source.count
        switch block.kind {
        case .topic:
            _ = source.append(block.address)
        case .group, .groupEvent:
            _ = source.append("$g/" as StaticString)
            _ = source.append(block.address)
        case .broadcast:
            _ = source.append("$b" as StaticString)
        case .unicast, .kicked, .presence:
            _ = source.append("$u/" as StaticString)
            _ = receiver.withUnsafeBytes { source.append($0) }
        }
        return ByteRange(offset: start, count: source.count - start)
    }

    /// Any bytes as they are, a message as JSON.
    private mutating func appendPayload(of block: MessageBlock) -> ByteRange {
        if block.marks.contains(.raw) || block.payload.isEmpty {
            return source.append(block.payload)
        }
        let isGroup = block.kind == .group || block.kind == .groupEvent || block.kind == .kicked
        var envelope = TextEnvelope(payload: block.payload, from: block.sender, time: block.time)
        if isGroup { envelope.group = block.address }
        let range = source.reserve(envelope.byteCount)
        var writer = PacketWriter(source.mutableBytes(range))
        envelope.write(to: &writer)
        return range
    }

    private mutating func appendProperties(of block: MessageBlock) -> MQTT.PropertySection {
        let start = source.count
        _ = source.append(block.properties)
        let isDoubtful = block.marks.contains(.possibleDuplicate)
        if isDoubtful { _ = source.append(EncodedPublication.doubt) }
        let range = ByteRange(offset: start, count: source.count - start)
        return MQTT.PropertySection(carried: range)
    }

    /// The user property `possible-duplicate` with the value `1`: the broker died between a send
    /// and its acknowledgement, and the sender sent again. The DUP flag means something else.
    private static let doubt: StaticString = "\u{26}\u{0}\u{12}possible-duplicate\u{0}\u{1}1"

    @inline(__always)
    func deliver(
        _ delivery: Delivery, _ conversations: inout ConversationTable,
        _ host: inout some ConnectionHost & ~Copyable, _ events: inout ContiguousArray<Event>
    ) {
        var receipt = MQTT.Receipt()
        if delivery.number > 0 {
            receipt.qos = MQTT.QoS(rawValue: delivery.grade.rawValue)!
            receipt.packetIdentifier = delivery.packetIdentifier
        }
        receipt.isRetained = delivery.options.contains(.retain)
        receipt.isDuplicate = delivery.options.contains(.repeated)
        if delivery.dialect == .mqtt5 {
            receipt.subscriptionIdentifier = delivery.subscriptionIdentifier
        }
        let template = template!
        let byteCount = template.byteCount(receipt)
        if byteCount > conversations.clientPacketMaximumFloor,
            conversations.isTooLarge(byteCount, for: delivery.connection)
        {
            events.append(.deliveryTooLarge(delivery.connection, number: delivery.number))
            return
        }
        _ = host.write(
            byteCount, to: delivery.connection,
            delivery.number == 0 ? .droppable : .required
        ) { writer in
            template.write(receipt, to: &writer)
        }
    }
}

extension ByteArena {
    fileprivate mutating func append(_ text: StaticString) -> ByteRange {
        append(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }
}

extension ReasonCode {
    /// The reason as a CONNACK may bear it.
    fileprivate var inConnack: ReasonCode { isInConnack ? self : .unspecifiedError }

    /// The reason as a DISCONNECT may bear it.
    fileprivate var inDisconnect: ReasonCode {
        isInDisconnect(from: .broker) ? self : .unspecifiedError
    }

    /// The reason as a PUBACK or PUBREC may bear it. A message that is too large breaks a limit; to
    /// end the connection for it would make a client send it again for ever.
    fileprivate var inPublishAnswer: ReasonCode {
        if isInPublishAnswer { return self }
        return self == .packetTooLarge ? .quotaExceeded : .unspecifiedError
    }
}
