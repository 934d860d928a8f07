// From effects to bytes: every effect of a lane is written into the outgoing stream of its
// connection, in order. A message for many is encoded once; each receiver's packet is a small
// header and a copy.

import BrokerCore
import Primitives
import WireFormat

/// Carries out the effects of one lane.
public struct EffectCarrier: ~Copyable {
    /// The encoded tail of the publication that was delivered last.
    private var tail = ByteArena(capacity: 4096)
    private var tailRange = ByteRange.empty
    private var tailPublication = UInt32.max
    private var isRaw = false
    private var isPossibleDuplicate = false
    private var mqtt: MQTTCarrier
    /// Connections of which the core wants to know when they have taken what was written. Whoever
    /// drives the lane tells it, and takes them off.
    public var awaitingDrain: [ConnectionID] = []
    private let packetMaximum: UInt32

    /// - Parameter packetMaximum: what clients are told is the largest packet the broker takes.
    public init(packetMaximum: Int) {
        self.packetMaximum = UInt32(packetMaximum)
        mqtt = MQTTCarrier(packetMaximum: UInt32(packetMaximum))
    }

    /// Writes everything a lane's effects ask for. What cannot be delivered comes back as events.
    public mutating func carryOut(
        _ lane: borrowing EffectLane, at now: Instant, conversations: inout ConversationTable,
        host: inout some ConnectionHost & ~Copyable, notes: inout some NoteTaker & ~Copyable,
        events: inout ContiguousArray<Event>
    ) {
        tailPublication = .max
        mqtt.begin()
        for index in 0..<lane.effects.count {
            switch lane.effects[index] {
            case .deliver(let delivery):
                if delivery.dialect == .mrt {
                    if isAlone(delivery, at: index, lane) {
                        deliverAlone(delivery, lane, &conversations, &host, &events)
                    } else {
                        deliver(delivery, lane, &conversations, &host, &events)
                    }
                } else {
                    mqtt.deliver(delivery, lane, at: now, &conversations, &host, &events)
                }
            case .note(let note):
                notes.take(note, bytes: lane.bytes.bytes)
            case .awaitDrain(let connection):
                awaitingDrain.append(connection)
            case .holdReading(let connection):
                host.holdForAnswers(connection)
            case .resumeReading(let connection):
                host.releaseAfterAnswers(connection)
            case let effect:
                // Who has left in the very turn in which it asked is told nothing.
                guard let conversation = conversations[effect.connection] else { continue }
                if let version = conversation.version {
                    mqtt.carryOut(effect, version, lane, &conversations, &host, &events)
                } else {
                    carryOut(effect, lane, &conversations, &host, &events)
                }
            }
        }
    }

    /// Carries out an effect on an MRT connection.
    private func carryOut(
        _ effect: Effect, _ lane: borrowing EffectLane,
        _ conversations: inout ConversationTable, _ host: inout some ConnectionHost & ~Copyable,
        _ events: inout ContiguousArray<Event>
    ) {
        switch effect {
        case .reportResult(let result):
            report(result, lane, conversations, &host)
        case .accept(let connection, let acceptance):
            accept(connection, acceptance, lane, &conversations, &host, &events)
        case .refuse(let connection, let reason, let retryAfterSeconds):
            refuse(
                connection, reason, retryAfterSeconds: retryAfterSeconds, conversations, &host)
            close(connection, &conversations, &host, &events)
        case .respond(let connection, let identifier, let reason, let body):
            conversations.write(
                MRT.Response(identifier: identifier, reason: reason, content: body),
                to: connection, from: lane.bytes.bytes, &host)
        case .reportPresence(
            let connection, let identifier, let isOnline, let since, let devices, let count):
            let answer = MRT.PresenceAnswer(
                isOnline: isOnline, since: since, deviceCount: UInt32(count),
                devices: devices)
            respond(
                connection, identifier, answer, lane.bytes.bytes, conversations, &host)
        case .reportGroups(let connection, let identifier, let hasMore, let entries):
            respond(
                connection, identifier, MRT.GroupList(hasMore: hasMore, entries: entries),
                lane.bytes.bytes, conversations, &host)
        case .reportGroup(let connection, let identifier, let report):
            respond(
                connection, identifier, MRT.GroupDescription(report), lane.bytes.bytes,
                conversations, &host)
        case .answerCredential(let connection, let reason):
            conversations.write(MRT.BrokerAuth(reason: reason), to: connection, &host)
        case .confirmDisconnect(let connection):
            conversations.write(
                MRT.BrokerDisconnect(reason: .normalDisconnection), to: connection, &host)
            close(connection, &conversations, &host, &events)
        case .close(let connection, let reason):
            end(connection, reason, &conversations, &host, &events)
        case .answerPacket, .deliver, .note, .awaitDrain, .holdReading, .resumeReading:
            preconditionFailure("an effect of another kind, or of another dialect")
        }
    }

    /// Tells everybody that the broker stops (conventions: 0x8B), as the last thing they hear.
    public func sayGoodbye(
        conversations: inout ConversationTable, host: inout some ConnectionHost & ~Copyable
    ) {
        conversations.forEachEstablished { connection, version in
            if let version {
                MQTTCarrier.sayGoodbye(to: connection, version, conversations, &host)
            } else {
                conversations.write(
                    MRT.BrokerDisconnect(reason: .serverShuttingDown), to: connection, &host)
            }
        }
    }

    // MARK: - Deliveries

    /// Whether this is the only delivery of its publication: those of one message come in a run.
    @inline(__always)
    private func isAlone(
        _ delivery: Delivery, at index: Int, _ lane: borrowing EffectLane
    ) -> Bool {
        if delivery.publication == tailPublication { return false }
        guard index + 1 < lane.effects.count, case .deliver(let next) = lane.effects[index + 1]
        else { return true }
        return next.publication != delivery.publication
    }

    /// Encodes a publication for its one receiver, without a copy of it in between.
    private func deliverAlone(
        _ delivery: Delivery, _ lane: borrowing EffectLane,
        _ conversations: inout ConversationTable, _ host: inout some ConnectionHost & ~Copyable,
        _ events: inout ContiguousArray<Event>
    ) {
        let block = EffectCarrier.block(of: delivery.publication, lane)
        let tail = MRT.DeliverTail(block)
        let head = MRT.DeliverHead(
            tailByteCount: tail.byteCount, isRaw: block.marks.contains(.raw),
            isPossibleDuplicate: block.marks.contains(.possibleDuplicate))
        write(delivery, head, &conversations, &host, &events) { tail.write(to: &$0) }
    }

    @inline(__always)
    private mutating func deliver(
        _ delivery: Delivery, _ lane: borrowing EffectLane,
        _ conversations: inout ConversationTable, _ host: inout some ConnectionHost & ~Copyable,
        _ events: inout ContiguousArray<Event>
    ) {
        if delivery.publication != tailPublication {
            encodeTail(of: delivery.publication, lane)
        }
        let head = MRT.DeliverHead(
            tailByteCount: Int(tailRange.count), isRaw: isRaw,
            isPossibleDuplicate: isPossibleDuplicate)
        let tail = tailRange.bytes(in: tail.bytes)
        write(delivery, head, &conversations, &host, &events) { $0.write(bytes: tail) }
    }

    /// Writes one receiver's packet; one that is larger than the receiver takes comes back as an
    /// event.
    @inline(__always)
    private func write(
        _ delivery: Delivery, _ head: MRT.DeliverHead, _ conversations: inout ConversationTable,
        _ host: inout some ConnectionHost & ~Copyable, _ events: inout ContiguousArray<Event>,
        tail: (inout PacketWriter) -> Void
    ) {
        let outcome = conversations.write(
            head.packetByteCount(number: delivery.number), to: delivery.connection,
            delivery.grade == .transient ? .droppable : .required, &host
        ) { writer in
            head.write(
                grade: MRT.Grade(rawValue: delivery.grade.rawValue)!, number: delivery.number,
                to: &writer)
            tail(&writer)
        }
        if outcome == .tooLarge {
            events.append(.deliveryTooLarge(delivery.connection, number: delivery.number))
        }
    }

    /// Encodes what all receivers of a publication get alike.
    private mutating func encodeTail(of publication: UInt32, _ lane: borrowing EffectLane) {
        let block = EffectCarrier.block(of: publication, lane)
        isRaw = block.marks.contains(.raw)
        isPossibleDuplicate = block.marks.contains(.possibleDuplicate)
        let packet = MRT.DeliverTail(block)
        tail.removeAll()
        tailRange = tail.reserve(packet.byteCount)
        var writer = PacketWriter(tail.mutableBytes(tailRange))
        packet.write(to: &writer)
        tailPublication = publication
    }

    @inline(__always)
    private static func block(
        of publication: UInt32, _ lane: borrowing EffectLane
    ) -> MessageBlock {
        MessageBlock(lane.publications[Int(publication)].block.bytes(in: lane.bytes.bytes))
    }

    // MARK: - Answers

    private func report(
        _ result: SendResult, _ lane: borrowing EffectLane,
        _ conversations: borrowing ConversationTable, _ host: inout some ConnectionHost & ~Copyable
    ) {
        var packet = MRT.SendResult(number: result.number, reason: result.reason)
        packet.messageIdentifier = result.messageIdentifier
        guard result.refusedCount > 0 else {
            conversations.write(
                packet, to: result.connection, from: lane.bytes.bytes, &host)
            return
        }
        // Refused receivers are rare: the packet is put together in a buffer of its own.
        var source = Array(result.messageIdentifier.bytes(in: lane.bytes.bytes))
        packet.messageIdentifier = ByteRange(offset: 0, count: source.count)
        packet.refusedCount = UInt64(result.refusedCount)
        let start = source.count
        let room = Int(result.namedRefusalCount) * MRT.Refusal.byteCountMaximum
        source.append(contentsOf: repeatElement(0, count: room))
        let written = source.withUnsafeMutableBytes { bytes in
            var writer = PacketWriter(UnsafeMutableRawBufferPointer(rebasing: bytes[start...]))
            for index in 0..<Int(result.namedRefusalCount) {
                let refusal = lane.refusals[Int(result.firstRefusal) + index]
                MRT.Refusal(index: refusal.index, reason: refusal.reason).write(to: &writer)
            }
            return writer.byteCount
        }
        packet.refusals = ByteRange(offset: start, count: written)
        source.withUnsafeBytes {
            _ = conversations.write(packet, to: result.connection, from: $0, &host)
        }
    }

    private func respond(
        _ connection: ConnectionID, _ identifier: UInt64, _ part: some RequestPart,
        _ source: UnsafeRawBufferPointer, _ conversations: borrowing ConversationTable,
        _ host: inout some ConnectionHost & ~Copyable
    ) {
        var content = [UInt8](repeating: 0, count: part.byteCount)
        content.withUnsafeMutableBytes { bytes in
            var writer = PacketWriter(bytes)
            part.write(to: &writer, from: source)
        }
        let response = MRT.Response(
            identifier: identifier, reason: .success,
            content: ByteRange(offset: 0, count: content.count))
        content.withUnsafeBytes {
            _ = conversations.write(response, to: connection, from: $0, &host)
        }
    }

    private func accept(
        _ connection: ConnectionID, _ acceptance: Acceptance, _ lane: borrowing EffectLane,
        _ conversations: inout ConversationTable, _ host: inout some ConnectionHost & ~Copyable,
        _ events: inout ContiguousArray<Event>
    ) {
        guard conversations[connection] != nil else { return }
        var packet = MRT.ConnectAccepted()
        packet.isSessionPresent = acceptance.isSessionPresent
        packet.hasWill = acceptance.hasWill
        packet.sessionEpoch = acceptance.epoch
        packet.resumeCookie = acceptance.cookie
        packet.serverTime = acceptance.unixMilliseconds
        packet.keepAliveSeconds = UInt16(acceptance.keepAliveSeconds)
        packet.sessionExpirySeconds = acceptance.sessionExpirySeconds
        packet.sendWindow = acceptance.sendWindow
        packet.inboxWindow = acceptance.inboxWindow
        packet.packetMaximum =
            connection.isChannel
            ? packetMaximum - UInt32(MRT.Channel.prefixByteCountMaximum) : packetMaximum
        packet.messageMaximum = acceptance.messageMaximum
        packet.payloadMaximum = acceptance.payloadMaximum
        packet.user = acceptance.user
        guard conversations.write(packet, to: connection, from: lane.bytes.bytes, &host) else {
            // Only on a channel, whose gateway takes less than a client of its own has to.
            refuse(connection, .packetTooLarge, retryAfterSeconds: 0, conversations, &host)
            events.append(.peerFaulted(connection, .packetTooLarge))
            close(connection, &conversations, &host, &events)
            return
        }
        conversations[connection]!.phase = .established
        // Whether a sensor is silent is seen by its gateway.
        if connection.isChannel { return }
        // One and a half times the keep-alive, as MQTT counts it [MQTT-3.1.2-22].
        host.acceptConnection(
            connection, silenceMilliseconds: UInt64(acceptance.keepAliveSeconds) * 1500)
    }

    /// Ends a connection with a reason. One that is taken over while it still waits for its answer
    /// has not heard CONNACK, and nothing else may be the first packet that it hears.
    private func end(
        _ connection: ConnectionID, _ reason: ReasonCode,
        _ conversations: inout ConversationTable, _ host: inout some ConnectionHost & ~Copyable,
        _ events: inout ContiguousArray<Event>
    ) {
        if conversations[connection]?.phase == .awaitingAnswer {
            refuse(connection, reason, retryAfterSeconds: 0, conversations, &host)
        } else {
            let words = reason.text.utf8Bytes
            let text = ByteRange(offset: 0, count: words.count)
            conversations.write(
                MRT.BrokerDisconnect(reason: reason, text: text), to: connection, from: words,
                &host)
        }
        close(connection, &conversations, &host, &events)
    }

    /// By number for the client, and in words for the person who looks for the fault.
    private func refuse(
        _ connection: ConnectionID, _ reason: ReasonCode, retryAfterSeconds: UInt32,
        _ conversations: borrowing ConversationTable,
        _ host: inout some ConnectionHost & ~Copyable
    ) {
        let words = reason.text.utf8Bytes
        let packet = MRT.ConnectRefused(
            reason: reason, retryAfterSeconds: retryAfterSeconds,
            text: ByteRange(offset: 0, count: words.count))
        conversations.write(packet, to: connection, from: words, &host)
    }

    /// The last packet of a conversation is written. A channel is over with it, and the channels of
    /// a gateway are lost.
    private func close(
        _ connection: ConnectionID, _ conversations: inout ConversationTable,
        _ host: inout some ConnectionHost & ~Copyable, _ events: inout ContiguousArray<Event>
    ) {
        guard conversations[connection] != nil else { return }
        if connection.isChannel {
            conversations.close(connection)
            return
        }
        conversations[connection]!.phase = .closing
        conversations.closeChannels(of: connection, .closedByBroker, into: &events)
        host.closeConnection(connection)
    }
}

extension MRT.DeliverTail {
    fileprivate init(_ block: MessageBlock) {
        self.init(
            kind: MRT.DeliveryKind(rawValue: block.kind.rawValue)!, from: block.sender,
            time: block.time, address: block.address, payload: block.payload)
    }
}

extension MRT.GroupDescription {
    fileprivate init(_ report: GroupReport) {
        self.init(
            hasAllowList: report.hasAllowList, isOwn: report.isOwn,
            hasMoreMembers: report.hasMoreMembers, owner: report.owner, title: report.title,
            memberCount: report.memberCount, meta: report.meta, members: report.members)
    }
}
