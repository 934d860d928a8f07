// From effects to MRT packets. A message for many is encoded once; each receiver's packet is a
// small header and a copy.

import BrokerCore
import Primitives
import WireFormat

/// Encodes the effects of one loop's MRT connections.
struct MRTEncoder: ~Copyable {
    /// The encoded tail of the publication that was delivered last.
    private var tail = ByteArena(capacity: 4096)
    private var tailRange = ByteRange.empty
    private var tailPublication = UInt32.max
    private var isRaw = false
    private var isPossibleDuplicate = false
    private let packetMaximum: UInt32

    /// - Parameter packetMaximum: what clients are told is the largest packet the broker takes.
    init(packetMaximum: UInt32) {
        self.packetMaximum = packetMaximum
    }

    /// Forgets the publication of the last turn.
    mutating func begin() {
        tailPublication = .max
    }

    // MARK: - Deliveries

    @inline(__always)
    mutating func deliver(
        _ delivery: Delivery, at index: Int, _ loop: borrowing EffectLane,
        _ conversations: inout ConversationTable, _ host: inout some ConnectionHost & ~Copyable,
        _ events: inout ContiguousArray<Event>
    ) {
        if isAlone(delivery, at: index, loop) {
            deliverAlone(delivery, loop, &conversations, &host, &events)
        } else {
            deliverToMany(delivery, loop, &conversations, &host, &events)
        }
    }

    /// Whether this is the only delivery of its publication: those of one message come in a run.
    @inline(__always)
    private func isAlone(
        _ delivery: Delivery, at index: Int, _ loop: borrowing EffectLane
    ) -> Bool {
        if delivery.publication == tailPublication { return false }
        guard index + 1 < loop.effects.count, case .deliver(let next) = loop.effects[index + 1]
        else { return true }
        return next.publication != delivery.publication
    }

    /// Encodes a publication for its one receiver, without a copy of it in between.
    private func deliverAlone(
        _ delivery: Delivery, _ loop: borrowing EffectLane,
        _ conversations: inout ConversationTable, _ host: inout some ConnectionHost & ~Copyable,
        _ events: inout ContiguousArray<Event>
    ) {
        let block = MRTEncoder.block(of: delivery.publication, loop)
        let tail = MRT.DeliverTail(block)
        let head = MRT.DeliverHead(
            tailByteCount: tail.byteCount, isRaw: block.marks.contains(.raw),
            isPossibleDuplicate: block.marks.contains(.possibleDuplicate))
        write(delivery, head, &conversations, &host, &events) { tail.write(to: &$0) }
    }

    /// Writes one receiver's packet; the part that all receivers get is encoded with the first.
    @inline(__always)
    private mutating func deliverToMany(
        _ delivery: Delivery, _ loop: borrowing EffectLane,
        _ conversations: inout ConversationTable, _ host: inout some ConnectionHost & ~Copyable,
        _ events: inout ContiguousArray<Event>
    ) {
        if delivery.publication != tailPublication {
            encodeTail(of: delivery.publication, loop)
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
    private mutating func encodeTail(of publication: UInt32, _ loop: borrowing EffectLane) {
        let block = MRTEncoder.block(of: publication, loop)
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
        of publication: UInt32, _ loop: borrowing EffectLane
    ) -> MessageBlock {
        MessageBlock(loop.publications[Int(publication)].block.bytes(in: loop.bytes.bytes))
    }

    // MARK: - Answers

    /// Writes what an effect tells an MRT connection.
    func encode(
        _ effect: Effect, _ loop: borrowing EffectLane,
        _ conversations: inout ConversationTable, _ host: inout some ConnectionHost & ~Copyable,
        _ events: inout ContiguousArray<Event>
    ) {
        switch effect {
        case .reportResult(let result):
            report(result, loop, conversations, &host)
        case .accept(let connection, let acceptance):
            accept(connection, acceptance, loop, &conversations, &host, &events)
        case .refuse(let connection, let reason, let retryAfterSeconds):
            refuse(
                connection, reason, retryAfterSeconds: retryAfterSeconds, conversations, &host)
            close(connection, &conversations, &host, &events)
        case .respond(let connection, let identifier, let reason, let body):
            conversations.write(
                MRT.Response(identifier: identifier, reason: reason, content: body),
                to: connection, from: loop.bytes.bytes, &host)
        case .reportPresence(
            let connection, let identifier, let isOnline, let since, let devices, let count):
            let answer = MRT.PresenceAnswer(
                isOnline: isOnline, since: since, deviceCount: UInt32(count),
                devices: devices)
            respond(
                connection, identifier, answer, loop.bytes.bytes, conversations, &host)
        case .reportGroups(let connection, let identifier, let hasMore, let entries):
            respond(
                connection, identifier, MRT.GroupList(hasMore: hasMore, entries: entries),
                loop.bytes.bytes, conversations, &host)
        case .reportGroup(let connection, let identifier, let report):
            respond(
                connection, identifier, MRT.GroupDescription(report), loop.bytes.bytes,
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

    private func report(
        _ result: SendResult, _ loop: borrowing EffectLane,
        _ conversations: borrowing ConversationTable, _ host: inout some ConnectionHost & ~Copyable
    ) {
        var packet = MRT.SendResult(number: result.number, reason: result.reason)
        packet.messageIdentifier = result.messageIdentifier
        guard result.refusedCount > 0 else {
            conversations.write(
                packet, to: result.connection, from: loop.bytes.bytes, &host)
            return
        }
        // Refused receivers are rare: the packet is put together in a buffer of its own.
        var source = Array(result.messageIdentifier.bytes(in: loop.bytes.bytes))
        packet.messageIdentifier = ByteRange(offset: 0, count: source.count)
        packet.refusedCount = UInt64(result.refusedCount)
        let start = source.count
        let room = Int(result.namedRefusalCount) * MRT.Refusal.byteCountMaximum
        source.append(contentsOf: repeatElement(0, count: room))
        let written = source.withUnsafeMutableBytes { bytes in
            var writer = PacketWriter(UnsafeMutableRawBufferPointer(rebasing: bytes[start...]))
            for index in 0..<Int(result.namedRefusalCount) {
                let refusal = loop.refusals[Int(result.firstRefusal) + index]
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
        _ connection: ConnectionID, _ acceptance: Acceptance, _ loop: borrowing EffectLane,
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
        guard conversations.write(packet, to: connection, from: loop.bytes.bytes, &host) else {
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
