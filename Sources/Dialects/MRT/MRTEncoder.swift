// Encodes effects as MRT packets. A message for many receivers is encoded once; each receiver's
// packet is a small header and a copy.

import BrokerCore
import BrokerTerms
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
    /// Whether it has fields, or properties that may be attributes.
    private var hasFields = false
    private var isRevision = false
    private var transientPriority = PacketPriority.droppable
    private let packetMaximum: UInt32

    /// - Parameter packetMaximum: the largest packet of a client, which CONNACK announces.
    init(packetMaximum: UInt32) {
        self.packetMaximum = packetMaximum
    }

    /// Discards the publication of the last turn.
    mutating func begin() {
        tailPublication = .max
    }

    // MARK: - Deliveries

    /// - Parameter index: the index of the effect among those of the loop.
    @inline(__always)
    mutating func deliver(
        _ delivery: Delivery, at index: Int,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        if isAlone(delivery, at: index, in: context.loop) {
            deliverAlone(delivery, in: context)
        } else {
            deliverToMany(delivery, in: context)
        }
    }

    /// Whether this is the only delivery of its publication: deliveries of one message are
    /// consecutive.
    @inline(__always)
    private func isAlone(
        _ delivery: Delivery, at index: Int, in loop: borrowing LoopEffects
    ) -> Bool {
        if delivery.publication == tailPublication { return false }
        guard index + 1 < loop.effects.count, case .deliver(let next) = loop.effects[index + 1]
        else { return true }
        return next.publication != delivery.publication
    }

    /// Encodes a publication for its only receiver, without an intermediate copy.
    private func deliverAlone(
        _ delivery: Delivery,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let block = context.loop.block(of: delivery.publication)
        if block.hasFieldsOrProperties, acceptsFields(delivery.connection, in: context) {
            deliverWithFields(delivery, in: context)
            return
        }
        guard !block.kind.isRevision || acceptsRevisions(delivery.connection, in: context) else {
            context.append(.deliveryTooLarge(delivery.connection, number: delivery.number))
            return
        }
        let (sender, address, payload) = (block.sender, block.address, block.payload)
        let tail = MRT.DeliverTail(
            kind: MRT.DeliveryKind(block.kind), from: sender.bytes, time: block.time,
            address: address.bytes, payload: payload.bytes)
        let head = MRT.DeliverHead(
            tailByteCount: tail.byteCount, isRaw: block.marks.contains(.raw),
            isPossibleDuplicate: block.marks.contains(.possibleDuplicate))
        write(delivery, head, ifTransient: PacketPriority(ofTransient: block), in: context) {
            tail.write(to: &$0)
        }
    }

    private func acceptsFields(
        _ connection: ConnectionID,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) -> Bool {
        context.conversations[connection]?.traits.contains(.acceptsFields) == true
    }

    /// Whether a client knows recalls and changes. For one that does not, they are dropped like a
    /// packet that is too large: it would end the connection.
    @inline(never)
    private func acceptsRevisions(
        _ connection: ConnectionID,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) -> Bool {
        context.conversations[connection]?.traits.contains(.acceptsRevisions) == true
    }

    /// Encodes a publication and its fields for one receiver that accepts them.
    @inline(never)
    private func deliverWithFields(
        _ delivery: Delivery,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let block = context.loop.block(of: delivery.publication)
        let (sender, address, payload) = (block.sender, block.address, block.payload)
        let fields = DeliveredFields(
            of: block, to: context.conversations.user(of: delivery.connection)
        ).fields.pairs()
        let tail = MRT.DeliverTail(
            kind: MRT.DeliveryKind(block.kind), from: sender.bytes, time: block.time,
            address: address.bytes, payload: payload.bytes)
        let head = MRT.DeliverHead(
            tailByteCount: tail.byteCount + MRT.DeliverTail.byteCount(ofFields: fields.span.bytes),
            isRaw: block.marks.contains(.raw),
            isPossibleDuplicate: block.marks.contains(.possibleDuplicate))
        write(delivery, head, ifTransient: PacketPriority(ofTransient: block), in: context) {
            tail.write(to: &$0, fields: fields.span.bytes)
        }
    }

    /// Writes one receiver's packet; the part that is common to all receivers is encoded with the
    /// first.
    @inline(__always)
    private mutating func deliverToMany(
        _ delivery: Delivery,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        if delivery.publication != tailPublication {
            encodeTail(of: delivery.publication, in: context.loop)
        }
        if hasFields, acceptsFields(delivery.connection, in: context) {
            deliverWithFields(delivery, in: context)
            return
        }
        guard !isRevision || acceptsRevisions(delivery.connection, in: context) else {
            context.append(.deliveryTooLarge(delivery.connection, number: delivery.number))
            return
        }
        let head = MRT.DeliverHead(
            tailByteCount: Int(tailRange.count), isRaw: isRaw,
            isPossibleDuplicate: isPossibleDuplicate)
        let tail = tailRange.bytes(in: tail.bytes)
        write(delivery, head, ifTransient: transientPriority, in: context) {
            $0.write(bytes: tail.bytes)
        }
    }

    /// Writes one receiver's packet. If it is larger than the receiver accepts, an event reports
    /// it.
    @inline(__always)
    private func write(
        _ delivery: Delivery, _ head: MRT.DeliverHead,
        ifTransient transientPriority: PacketPriority,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>,
        tail: (inout PacketWriter) -> Void
    ) {
        let outcome = context.write(
            head.packetByteCount(number: delivery.number), to: delivery.connection,
            priority: delivery.grade == .transient ? transientPriority : .required
        ) { writer in
            head.write(grade: MRT.Grade(delivery.grade), number: delivery.number, to: &writer)
            tail(&writer)
        }
        if outcome == .tooLarge, !deliverCut(delivery, in: context) {
            context.append(.deliveryTooLarge(delivery.connection, number: delivery.number))
        }
    }

    /// Writes the notice of a new member without its texts, for a receiver that accepts short
    /// packets only: all accept this one. False for another message.
    @inline(never)
    private func deliverCut(
        _ delivery: Delivery,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) -> Bool {
        let block = context.loop.block(of: delivery.publication)
        guard block.kind == .groupEvent, block.payload.first == GroupNotice.added else {
            return false
        }
        let (sender, address, whole) = (block.sender, block.address, block.payload.bytes)
        guard case .added(var notice)? = try? MRT.GroupEvent(whole) else { return false }
        (notice.isCut, notice.owner, notice.title, notice.meta) = (true, .empty, .empty, .empty)
        let event = MRT.GroupEvent.added(notice)
        var payload = [UInt8](repeating: 0, count: event.byteCount)
        payload.withUnsafeMutableBytes { bytes in
            var writer = PacketWriter(bytes.mutableBytes)
            event.write(to: &writer, from: whole)
        }
        return payload.withUnsafeBytes { payload in
            let tail = MRT.DeliverTail(
                kind: .groupEvent, from: sender.bytes, time: block.time,
                address: address.bytes, payload: payload.bytes)
            let head = MRT.DeliverHead(
                tailByteCount: tail.byteCount, isRaw: false, isPossibleDuplicate: false)
            return context.write(
                head.packetByteCount(number: delivery.number), to: delivery.connection,
                priority: .required
            ) { writer in
                head.write(grade: MRT.Grade(delivery.grade), number: delivery.number, to: &writer)
                tail.write(to: &writer)
            } != .tooLarge
        }
    }

    /// Encodes the part of a publication that is common to all receivers.
    private mutating func encodeTail(of publication: UInt32, in loop: borrowing LoopEffects) {
        let block = loop.block(of: publication)
        isRaw = block.marks.contains(.raw)
        isPossibleDuplicate = block.marks.contains(.possibleDuplicate)
        hasFields = block.hasFieldsOrProperties
        isRevision = block.kind.isRevision
        transientPriority = PacketPriority(ofTransient: block)
        let (sender, address, payload) = (block.sender, block.address, block.payload)
        let packet = MRT.DeliverTail(
            kind: MRT.DeliveryKind(block.kind), from: sender.bytes, time: block.time,
            address: address.bytes, payload: payload.bytes)
        tail.removeAll()
        tailRange = tail.reserve(packet.byteCount)
        var writer = PacketWriter(tail.mutableBytes(tailRange).mutableBytes)
        packet.write(to: &writer)
        tailPublication = publication
    }

    // MARK: - Answers

    func report(
        _ result: SendResult, in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        var packet = MRT.SendResult(number: result.number, reason: result.reason)
        packet.messageIdentifier = result.messageIdentifier
        packet.reference = result.reference
        guard result.refusedCount > 0 else {
            context.write(packet, to: result.connection, from: context.bytes)
            return
        }
        // Refused receivers are rare: the packet is built in a separate buffer.
        var source = Array(result.messageIdentifier.bytes(in: context.bytes))
        packet.messageIdentifier = ByteRange(offset: 0, count: source.count)
        packet.refusedCount = UInt64(result.refusedCount)
        let start = source.count
        let room = Int(result.namedRefusalCount) * MRT.Refusal.byteCountMaximum
        source.append(contentsOf: repeatElement(0, count: room))
        let written = source.withUnsafeMutableBytes { bytes in
            var writer = PacketWriter(
                UnsafeMutableRawBufferPointer(rebasing: bytes[start...]).mutableBytes)
            for index in 0..<Int(result.namedRefusalCount) {
                let refusal = context.loop.refusals[Int(result.firstRefusal) + index]
                MRT.Refusal(index: refusal.index, reason: refusal.reason).write(to: &writer)
            }
            return writer.byteCount
        }
        packet.refusals = ByteRange(offset: start, count: written)
        source.withUnsafeBytes {
            _ = context.write(packet, to: result.connection, from: $0)
        }
    }

    /// Answers a request.
    func answer(
        _ answer: MRTEffect, in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        switch answer {
        case .respond(let connection, let identifier, let reason, let body):
            let response = MRT.Response(identifier: identifier, reason: reason, content: body)
            context.write(response, to: connection, from: context.bytes)
        case .reportRecall(let connection, let identifier, let answer):
            let response = MRT.Response(
                identifier: identifier, reason: .success, content: answer)
            context.write(response, to: connection, from: context.bytes)
        case .reportWakeTarget(let connection, let identifier, let target):
            respond(
                to: connection, request: identifier,
                with: MRT.WakeTargetIdentifier(identifier: target), in: context)
        case .reportWakeTargets(let connection, let identifier, let entries):
            let response = MRT.Response(
                identifier: identifier, reason: .success, content: entries)
            context.write(response, to: connection, from: context.bytes)
        case .reportPresence(
            let connection, let identifier, let isOnline, let since, let devices, let count):
            let presence = MRT.PresenceAnswer(
                isOnline: isOnline, since: since, deviceCount: UInt32(count), devices: devices)
            respond(to: connection, request: identifier, with: presence, in: context)
        case .reportGroups(let connection, let identifier, let hasMore, let entries):
            let list = MRT.GroupList(hasMore: hasMore, entries: entries)
            respond(to: connection, request: identifier, with: list, in: context)
        case .reportGroup(let connection, let identifier, let report):
            let group = MRT.GroupDescription(report)
            respond(to: connection, request: identifier, with: group, in: context)
        case .reportGroupHistory(let connection, let identifier, let report):
            var source = ByteArena(capacity: Int(report.newest.count))
            let newest = HistoryEntry.read(report.newest, in: context.bytes.bytes).first
            let answer = MRT.GroupHistory(
                isKept: report.history.isKept, shownCount: report.history.shownCount,
                lastNumber: report.lastNumber,
                newest: report.wantsMessage
                    ? MRT.NewestMessage(
                        newest.map {
                            MRT.HistoryEntry($0, block: block(of: $0, in: context), to: &source)
                        }) : nil)
            respond(
                to: connection, request: identifier, with: answer, from: source.bytes.bytes,
                in: context)
        case .reportHistory(
            let connection, let identifier, let next, let entries, let hasFields, let isTopic):
            var source = ByteArena(capacity: Int(entries.count))
            let page = RunAnswer(
                next: next,
                entries: HistoryEntry.read(entries, in: context.bytes.bytes).map { entry in
                    let user = context.conversations.user(of: connection)
                    return MRT.HistoryEntry(
                        entry, readBy: hasFields ? user : nil, isOfTopic: isTopic,
                        block: block(of: entry, in: context), to: &source)
                })
            respond(
                to: connection, request: identifier, with: page, from: source.bytes.bytes,
                in: context)
        case .reportConversations(let connection, let identifier, let next, let entries):
            var source = ByteArena(capacity: Int(entries.count))
            let list = RunAnswer(
                next: next,
                entries: ConversationEntry.read(entries, in: context.bytes.bytes).map { entry in
                    let name = source.append(entry.name.bytes(in: context.bytes))
                    return MRT.ConversationEntry(
                        party: entry.isGroup ? .group(name) : .user(name),
                        lastNumber: entry.lastNumber, readThrough: entry.readThrough,
                        unreadCount: entry.unreadCount,
                        newest: entry.newest.map {
                            MRT.NewestMessage(
                                $0.message.map {
                                    MRT.HistoryEntry(
                                        $0, block: block(of: $0, in: context), to: &source)
                                })
                        })
                })
            respond(
                to: connection, request: identifier, with: list, from: source.bytes.bytes,
                in: context)
        }
    }

    private func block(
        of entry: HistoryEntry,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) -> MessageBlock {
        MessageBlock(entry.block.bytes(in: context.bytes))
    }

    private func respond(
        to connection: ConnectionID, request identifier: UInt64, with part: some RequestPart,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        respond(
            to: connection, request: identifier, with: part, from: context.bytes.bytes, in: context)
    }

    /// Answers with a part whose ranges are in `source`.
    private func respond(
        to connection: ConnectionID, request identifier: UInt64, with part: some RequestPart,
        from source: RawSpan,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        var content = [UInt8](repeating: 0, count: part.byteCount)
        content.withUnsafeMutableBytes { bytes in
            var writer = PacketWriter(bytes.mutableBytes)
            part.write(to: &writer, from: source)
        }
        let response = MRT.Response(
            identifier: identifier, reason: .success,
            content: ByteRange(offset: 0, count: content.count))
        content.withUnsafeBytes {
            _ = context.write(response, to: connection, from: $0)
        }
    }

    // MARK: - Beginning and end

    func accept(
        _ connection: ConnectionID, _ acceptance: Acceptance,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        if acceptsFields(connection, in: context) {
            // The fields tell whether the user is mentioned.
            context.conversations.setUser(
                Array(acceptance.user.bytes(in: context.bytes)), of: connection)
        }
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
        packet.unreadCount = acceptance.unreadCount
        guard context.write(packet, to: connection, from: context.bytes) else {
            // Only for a channel: its gateway accepts less than a client with its own connection
            // must.
            context.append(.peerFaulted(connection, .packetTooLarge))
            refuse(connection, .packetTooLarge, retryAfterSeconds: 0, in: context)
            return
        }
        context.establish(connection, keepAliveSeconds: acceptance.keepAliveSeconds)
    }

    /// Refuses a login with a reason code for the client and a reason string for people, then
    /// closes.
    func refuse(
        _ connection: ConnectionID, _ reason: ReasonCode, retryAfterSeconds: UInt32,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let words = reason.text.utf8Bytes
        let packet = MRT.ConnectRefused(
            reason: reason, retryAfterSeconds: retryAfterSeconds,
            text: ByteRange(offset: 0, count: words.count))
        context.write(packet, to: connection, from: words)
        context.close(connection)
    }

    func confirmDisconnect(
        _ connection: ConnectionID,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        context.write(MRT.BrokerDisconnect(reason: .normalDisconnection), to: connection)
        context.close(connection)
    }

    /// Ends a connection with a reason. A connection that is taken over before its CONNACK gets a
    /// CONNACK, which must be the first packet.
    func end(
        _ connection: ConnectionID, _ reason: ReasonCode,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        if context.conversations[connection]?.phase == .awaitingAnswer {
            refuse(connection, reason, retryAfterSeconds: 0, in: context)
            return
        }
        let words = reason.text.utf8Bytes
        let text = ByteRange(offset: 0, count: words.count)
        context.write(
            MRT.BrokerDisconnect(reason: reason, text: text), to: connection, from: words)
        context.close(connection)
    }
}

extension LoopEffects {
    /// The message of a publication.
    @inline(__always)
    fileprivate func block(of publication: UInt32) -> MessageBlock {
        MessageBlock(publications[Int(publication)].block.bytes(in: bytes.bytes))
    }
}

extension MRT.Grade {
    @inline(__always)
    init(_ grade: Grade) {
        switch grade {
        case .transient: self = .transient
        case .durable: self = .durable
        case .once: self = .once
        }
    }
}

extension MRT.DeliveryKind {
    init(_ kind: MessageKind) {
        switch kind {
        case .unicast: self = .unicast
        case .group: self = .group
        case .broadcast: self = .broadcast
        case .topic: self = .topic
        case .presence: self = .presence
        case .receipt: self = .receipt
        case .recall: self = .recall
        case .update: self = .update
        case .brokerEvent: self = .brokerEvent
        case .groupEvent: self = .groupEvent
        case .kicked: self = .kickedOut
        }
    }
}

extension MRT.HistoryEntry {
    /// - Parameters:
    ///   - user: for whom it has its fields; nil for an entry without fields.
    ///   - isOfTopic: whether its payload tells its form.
    ///   - source: gets the bytes of the entry.
    fileprivate init(
        _ entry: HistoryEntry, readBy user: [UInt8]? = nil, isOfTopic: Bool = false,
        block: MessageBlock, to source: inout ByteArena
    ) {
        let form = block.marks.contains(.raw) ? MRT.KeptForm.raw : .text
        let fields = user.map { DeliveredFields(ofKept: block, to: $0).fields.pairs() }
        self.init(
            number: entry.number, from: source.append(block.sender), time: block.time,
            fields: fields?.withUnsafeBytes { source.append($0) },
            payload: isOfTopic
                ? ([form.rawValue] + Array(block.payload)).withUnsafeBytes { source.append($0) }
                : source.append(block.payload))
    }
}

extension MRT.GroupDescription {
    init(_ report: GroupReport) {
        self.init(
            hasAllowList: report.hasAllowList, isOwn: report.isOwn,
            hasMoreMembers: report.hasMoreMembers, owner: report.owner, title: report.title,
            memberCount: report.memberCount, meta: report.meta, members: report.members)
    }
}

/// A page of entries as the result of its request.
private struct RunAnswer<Entry: RequestPart>: RequestPart {
    let next: UInt64
    let entries: [Entry]

    var byteCount: Int {
        entries.reduce(VariableInteger.byteCount(next)) { $0 + $1.byteCount }
    }

    func write(to writer: inout PacketWriter, from source: RawSpan) {
        writer.write(varInt: next)
        for entry in entries { entry.write(to: &writer, from: source) }
    }
}
