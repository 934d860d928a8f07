// A publication in the form for MQTT receivers. It is encoded once for each version; the parts that
// differ per receiver are added when a packet is written.

import BrokerCore
import Primitives
import WireFormat

/// One publication, encoded for the receivers of one version.
struct EncodedPublication: ~Copyable {
    /// The index of the publication among those of the loop; `.max` for none.
    var publication = UInt32.max
    private var body = ByteArena(capacity: 4096)
    /// Buffers of parts that the encoder combines.
    private var source = ByteArena(capacity: 4096)
    private var template: MQTT.PublishTemplate?
    /// The topic, which an alias may replace; empty for a message to a user, whose topic contains
    /// the receiver's name.
    private var topic = ByteRange.empty
    private var topicHash: UInt64 = 0
    private var transientPriority = PacketPriority.droppable
    /// Of a message that mentions some of its receivers: the publication, and how it mentions the
    /// receivers for whom it is encoded.
    private var mentioning: (publication: UInt32, mention: Mention?) = (.max, nil)

    /// Forgets the publications of the last turn.
    mutating func begin() {
        publication = .max
        mentioning.publication = .max
    }

    /// Encodes the publication of a delivery unless it was encoded last. Deliveries with several
    /// subscription identifiers have a publication of their own.
    @inline(__always)
    mutating func prepare(
        _ delivery: Delivery, version: MQTT.Version,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        if delivery.publication != publication || delivery.identifierList != nil {
            encode(delivery, version: version, in: context)
        }
    }

    private mutating func encode(
        _ delivery: Delivery, version: MQTT.Version,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let entry = context.loop.publications[Int(delivery.publication)]
        let block = MessageBlock(entry.block.bytes(in: context.bytes))
        let receiver = context.conversations.user(of: delivery.connection)
        var delivered: DeliveredFields?
        if block.hasFields || version != .v5 && isTextWithProperties(block) {
            let fields = DeliveredFields(of: block, to: receiver)
            let dependsOnReceiver = fields.mentionsSomeone && delivery.identifierList == nil
            if dependsOnReceiver, mentioning.publication == delivery.publication,
                mentioning.mention == fields.fields.mention
            {
                return
            }
            mentioning = (
                dependsOnReceiver ? delivery.publication : .max, fields.fields.mention
            )
            delivered = fields
        } else {
            mentioning.publication = .max
        }
        transientPriority = PacketPriority(ofTransient: block)
        source.removeAll()
        let topic = appendTopic(of: block, receiver: receiver)
        let payload = appendPayload(
            of: block, receiver: receiver, members: version == .v5 ? nil : delivered?.members)
        var packet = MQTT.Publish(version, topic: topic, payload: payload)
        if version == .v5 {
            packet.properties = appendProperties(
                of: block, delivered,
                identifiers: delivery.identifierList.map { context.loop.identifierLists[$0] })
            if block.marks.contains(.expires) {
                // The remaining time, rounded up: 0 would mean expired [MQTT-3.3.2-6].
                let left = entry.deadline.milliseconds(since: context.now)
                packet.messageExpirySeconds = UInt32(
                    truncatingIfNeeded: min((left + 999) / 1000, UInt64(UInt32.max)))
            }
        }
        body.removeAll()
        let range = body.reserve(packet.bodyByteCount)
        var writer = PacketWriter(body.mutableBytes(range).mutableBytes)
        packet.writeBody(to: &writer, from: source.bytes.bytes)
        template = MQTT.PublishTemplate(packet)
        // The topic of a message to a user contains the user's name, so it is encoded per receiver.
        let isToUser =
            block.kind == .unicast || block.kind == .kicked || block.kind == .receipt
            || block.kind == .brokerEvent || block.kind.isRevision || isNotice(block)
        let isOwn =
            isToUser || delivery.identifierList != nil || mentioning.publication != .max
        publication = isOwn ? .max : delivery.publication
        self.topic = .empty
        if version == .v5, !isToUser {
            self.topic = topic
            topicHash = OutgoingAliases.hash(topic.bytes(in: source.bytes))
        }
    }

    /// Whether it becomes JSON that may contain attributes.
    private func isTextWithProperties(_ block: MessageBlock) -> Bool {
        !block.marks.contains(.raw) && block.hasFieldsOrProperties
    }

    /// Whether it is an event of a group for one user.
    private func isNotice(_ block: MessageBlock) -> Bool {
        block.kind == .groupEvent
            && (block.payload.first == GroupNotice.added
                || block.payload.first == GroupNotice.removed)
    }

    private mutating func appendTopic(
        of block: MessageBlock, receiver: [UInt8]
    ) -> ByteRange {
        let start = source.count
        switch block.kind {
        case .topic:
            _ = source.append(block.address)
        case .groupEvent where isNotice(block):
            _ = source.append("$u/" as StaticString)
            _ = receiver.withUnsafeBytes { source.append($0) }
        case .group, .groupEvent:
            _ = source.append("$g/" as StaticString)
            _ = source.append(block.address)
        case .broadcast:
            _ = source.append("$b" as StaticString)
        case .unicast, .kicked, .presence, .receipt, .recall, .update, .brokerEvent:
            _ = source.append("$u/" as StaticString)
            _ = receiver.withUnsafeBytes { source.append($0) }
        }
        return ByteRange(offset: start, count: source.count - start)
    }

    /// Raw bytes are unchanged; a message becomes JSON.
    ///
    /// - Parameter members: what the JSON has because of its fields.
    private mutating func appendPayload(
        of block: MessageBlock, receiver: [UInt8], members: [UInt8]?
    ) -> ByteRange {
        if isNotice(block), block.payload.first == GroupNotice.added { return appendNotice(block) }
        if block.kind == .groupEvent || block.kind == .kicked {
            return appendEvent(of: block, receiver: receiver)
        }
        if block.kind == .receipt || block.kind.isRevision { return appendReceipt(block) }
        // The text for a relay is JSON for all clients.
        if block.kind == .brokerEvent || block.marks.contains(.raw) || block.payload.isEmpty {
            return source.append(block.payload)
        }
        let isGroup = block.kind == .group
        let (payload, sender, group) = (block.payload, block.sender, block.address)
        var envelope = TextEnvelope(
            payload: payload.bytes, from: sender.bytes, time: block.time)
        if isGroup { envelope.group = group.bytes }
        let members = members ?? []
        envelope.members = members.span.bytes
        let range = source.reserve(envelope.byteCount)
        var writer = PacketWriter(source.mutableBytes(range).mutableBytes)
        envelope.write(to: &writer)
        return range
    }

    /// The JSON of a receipt or of a recall, with its members and those of an envelope.
    private mutating func appendReceipt(_ block: MessageBlock) -> ByteRange {
        var writer = JSONWriter()
        let payload = block.payload
        if block.kind == .receipt {
            ReceiptText.write(payload.bytes, to: &writer)
        } else {
            RevisionText.write(payload.bytes, isUpdate: block.kind == .update, to: &writer)
            let group = block.address
            if !group.isEmpty { writer.write("group", group.bytes) }
        }
        writer.write("from", block.sender.bytes)
        withUnsafeTemporaryAllocation(byteCount: 20, alignment: 1) { digits in
            writer.write("time", decimal(block.time, in: digits).bytes)
        }
        let text = writer.end()
        return text.withUnsafeBytes { source.append($0) }
    }

    /// The JSON of the notice of a new member, with its members and those of an event.
    private mutating func appendNotice(_ block: MessageBlock) -> ByteRange {
        var writer = JSONWriter()
        writer.write("event", "added" as StaticString)
        GroupNoticeText.write(block.payload.bytes, to: &writer)
        writer.write("from", block.sender.bytes)
        withUnsafeTemporaryAllocation(byteCount: 20, alignment: 1) { digits in
            writer.write("time", decimal(block.time, in: digits).bytes)
        }
        writer.write("groupid", block.address.bytes)
        let text = writer.end()
        return text.withUnsafeBytes { source.append($0) }
    }

    /// The JSON of a group event. The first three name the user concerned; the other two report
    /// that a new list or text can be requested.
    private mutating func appendEvent(of block: MessageBlock, receiver: [UInt8]) -> ByteRange {
        let names = MessageKind.groupEventNames
        return receiver.withUnsafeBytes { receiver in
            let none = UnsafeRawBufferPointer(start: nil, count: 0)
            var (name, user) = ("kicked" as StaticString, receiver)
            if block.kind == .groupEvent {
                let number = Int(block.payload.first ?? 0)
                name = names.indices.contains(number - 1) ? names[number - 1] : "unknown"
                user =
                    number <= 3 ? UnsafeRawBufferPointer(rebasing: block.payload.dropFirst()) : none
            }
            let (sender, group) = (block.sender, block.address)
            let envelope = EventEnvelope(
                name, user: user.bytes, from: sender.bytes, time: block.time, group: group.bytes)
            let range = source.reserve(envelope.byteCount)
            var writer = PacketWriter(source.mutableBytes(range).mutableBytes)
            envelope.write(to: &writer)
            return range
        }
    }

    /// The sender's properties, and those of the broker for a message to an address; before them
    /// the subscription identifiers, if there are several.
    private mutating func appendProperties(
        of block: MessageBlock, _ delivered: DeliveredFields?, identifiers: [UInt32]?
    ) -> MQTT.PropertySection {
        let start = source.count
        for identifier in identifiers ?? [] { source.appendIdentifier(identifier) }
        _ = source.append(block.properties)
        if block.kind != .topic {
            source.appendProperty(MessageProperty.sender, block.sender)
            withUnsafeTemporaryAllocation(byteCount: 20, alignment: 1) { digits in
                let time = decimal(block.time, in: digits)
                source.appendProperty(MessageProperty.time, time)
            }
            if block.kind == .group || block.kind == .groupEvent || block.kind == .kicked {
                source.appendProperty(MessageProperty.group, block.address)
            }
        }
        if let delivered { append(delivered, of: block) }
        if block.marks.contains(.possibleDuplicate) {
            source.appendProperty(MessageProperty.doubt, ("1" as StaticString).utf8Bytes)
        }
        let range = ByteRange(offset: start, count: source.count - start)
        return MQTT.PropertySection(carried: range)
    }

    private mutating func append(_ delivered: DeliveredFields, of block: MessageBlock) {
        let fields = delivered.fields
        if !delivered.areAttributesProperties {
            MessageAttributes.forEach(inRun: fields.attributes.span.bytes) { key, value in
                key.withUnsafeBytes { key in
                    value.withUnsafeBytes { source.appendUserProperty(key, $0) }
                }
            }
        }
        if let mention = fields.mention {
            source.appendProperty(MessageProperty.mentioned, mention.word.utf8Bytes)
        }
        if fields.isLate, !hasOwnLate(block) {
            withUnsafeTemporaryAllocation(byteCount: 20, alignment: 1) { digits in
                source.appendProperty(MessageProperty.late, decimal(block.time, in: digits))
            }
        }
        if fields.keptNumber != 0 {
            withUnsafeTemporaryAllocation(byteCount: 20, alignment: 1) { digits in
                source.appendProperty(MessageProperty.kept, decimal(fields.keptNumber, in: digits))
            }
        }
        if fields.reference != 0 {
            var digits: [UInt8] = []
            digits.append(hexadecimal: fields.reference)
            digits.withUnsafeBytes { source.appendProperty(MessageProperty.reference, $0) }
        }
        if !fields.receipts.isDisjoint(with: .receipts) {
            let names = fields.receipts.receiptNames.map { "\($0)" }.joined(separator: ",")
            Array(names.utf8).withUnsafeBytes {
                source.appendProperty(MessageProperty.receipts, $0)
            }
        }
    }

    /// Whether the publisher's properties, which are those of a plain topic, have the late time.
    private func hasOwnLate(_ block: MessageBlock) -> Bool {
        let properties = block.properties
        let whole = ByteRange(offset: 0, count: properties.count)
        var reader = MQTT.PropertyReader(
            MQTT.PropertySection(carried: whole), of: .publish, in: properties.bytes)
        while let property = try? reader.next() {
            if property.identifier == .userProperty,
                property.text.bytes(in: properties).elementsEqual(MessageProperty.late.utf8Bytes)
            {
                return true
            }
        }
        return false
    }

    /// Writes the digits of a number at the end of a buffer of at least 20 bytes.
    private func decimal(
        _ number: UInt64, in buffer: UnsafeMutableRawBufferPointer
    ) -> UnsafeRawBufferPointer {
        var (rest, start) = (number, buffer.count)
        repeat {
            start -= 1
            buffer[start] = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
        } while rest > 0
        return UnsafeRawBufferPointer(rebasing: buffer[start...])
    }

    @inline(__always)
    func deliver(
        _ delivery: Delivery,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        var receipt = MQTT.Receipt()
        if delivery.number > 0 {
            receipt.qos = MQTT.QoS(delivery.grade)
            receipt.packetIdentifier = delivery.packetIdentifier
        }
        receipt.isRetained = delivery.options.contains(.retain)
        receipt.isDuplicate = delivery.options.contains(.repeated)
        if delivery.dialect == .mqtt5 {
            if delivery.identifierList == nil {
                receipt.subscriptionIdentifier = delivery.subscriptionIdentifier
            }
            if !topic.isEmpty && context.conversations.takesAliases(delivery.connection) {
                deliverAliased(delivery, receipt, in: context)
                return
            }
        }
        _ = write(receipt, for: delivery, in: context)
    }

    /// The packet with a topic alias, and with the topic the first time.
    private func deliverAliased(
        _ delivery: Delivery, _ receipt: MQTT.Receipt,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let connection = delivery.connection
        var receipt = receipt
        let name = topic.bytes(in: source.bytes)
        var isNew = false
        if let (alias, isKnown) = context.conversations.alias(
            of: name, hash: topicHash, for: connection)
        {
            receipt.topicAlias = alias
            receipt.omitsTopic = isKnown
            isNew = !isKnown
            // If only the alias property makes it too large, it is sent without.
            if isNew, context.conversations.isTooLarge(byteCount(of: receipt), for: connection) {
                receipt.topicAlias = 0
                isNew = false
            }
        }
        if write(receipt, for: delivery, in: context), isNew {
            context.conversations.appendAlias(name, hash: topicHash, for: connection)
        }
    }

    private func byteCount(of receipt: MQTT.Receipt) -> Int { preparedTemplate.byteCount(receipt) }

    /// The bytes that ``prepare(_:version:in:)`` has encoded, which precedes every delivery.
    @inline(__always)
    private var preparedTemplate: MQTT.PublishTemplate {
        guard let template else {
            preconditionFailure("publication \(publication) is delivered and not encoded")
        }
        return template
    }

    @inline(__always)
    private func write(
        _ receipt: MQTT.Receipt, for delivery: Delivery,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) -> Bool {
        let template = preparedTemplate
        let outcome = context.write(
            template.byteCount(receipt), to: delivery.connection,
            priority: delivery.number == 0 ? transientPriority : .required
        ) { writer in
            template.write(receipt, body: body.bytes.bytes, to: &writer)
        }
        if outcome == .tooLarge {
            context.append(.deliveryTooLarge(delivery.connection, number: delivery.number))
        }
        return outcome == .written
    }
}

extension MQTT.QoS {
    @inline(__always)
    fileprivate init(_ grade: Grade) {
        switch grade {
        case .transient: self = .atMostOnce
        case .durable: self = .atLeastOnce
        case .once: self = .exactlyOnce
        }
    }
}

extension ByteArena {
    fileprivate mutating func append(_ text: StaticString) -> ByteRange {
        append(text.utf8Bytes)
    }

    /// Appends a subscription identifier.
    fileprivate mutating func appendIdentifier(_ identifier: UInt32) {
        let range = reserve(1 + VariableInteger.byteCount(identifier))
        var writer = PacketWriter(mutableBytes(range).mutableBytes)
        writer.write(byte: MQTT.PropertyIdentifier.subscriptionIdentifier.rawValue)
        writer.write(varInt: identifier)
    }

    /// Appends a user property.
    fileprivate mutating func appendProperty(_ name: StaticString, _ value: UnsafeRawBufferPointer)
    {
        appendUserProperty(name.utf8Bytes, value)
    }

    fileprivate mutating func appendUserProperty(
        _ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
    ) {
        appendByte(MQTT.PropertyIdentifier.userProperty.rawValue)
        appendText(name)
        appendText(value)
    }

    private mutating func appendText(_ text: UnsafeRawBufferPointer) {
        appendByte(UInt8(text.count >> 8))
        appendByte(UInt8(text.count & 0xFF))
        _ = append(text)
    }

    private mutating func appendByte(_ byte: UInt8) {
        let range = reserve(1)
        mutableBytes(range)[0] = byte
    }
}
