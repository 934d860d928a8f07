// Encodes effects as events of LeanMessage, by their names there. Each has the meaning of a JSON
// message of the same effect.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

enum LeanMessageEncoder {
    /// Writes an effect that is no delivery.
    static func tell(
        _ effect: Effect, in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        switch effect {
        case .deliver, .note, .awaitDrain, .pauseReading, .resumeReading: break
        case .accept(let connection, let acceptance): accept(connection, acceptance, in: context)
        case .refuse(let connection, let reason, let seconds):
            refuse(connection, reason, retryAfterSeconds: seconds, in: context)
        case .close(let connection, let reason): end(connection, reason, in: context)
        case .confirmDisconnect(let connection): end(connection, .normalDisconnection, in: context)
        case .reportResult(let result): report(result, in: context)
        case .answerCredential(let connection, let reason):
            // Its clients have no command for it.
            assertionFailure("\(connection) presented a credential: \(reason)")
        case .mrt(let answer): self.answer(answer, in: context)
        case .mqtt: assertionFailure("\(effect) for a client of LeanMessage")
        }
    }

    // MARK: - Deliveries

    static func deliver(
        _ delivery: Delivery,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let connection = delivery.connection
        let entry = context.loop.publications[Int(delivery.publication)]
        let block = MessageBlock(entry.block.bytes(in: context.bytes))
        var writer = LeanMessageText.begin(eventName(of: block))
        if delivery.number > 0 { writer.write("n", delivery.number) }
        if block.marks.contains(.possibleDuplicate) { writer.write("isDuplicate", true) }
        if let event = unreadEvent(of: block) {
            write(unread: event, to: &writer)
        } else {
            write(block, to: context.conversations.user(of: connection), &writer)
        }
        guard writer.bytes.count <= JSONLimits.deliveryByteCountMaximum else {
            context.append(.deliveryTooLarge(connection, number: delivery.number))
            return
        }
        let outcome = JSONMessage.send(
            writer, number: delivery.number, to: connection,
            priority: delivery.grade == .transient
                ? PacketPriority(ofTransient: block) : .required,
            in: context.conversations, through: &context.connections)
        if outcome == .tooLarge {
            context.append(.deliveryTooLarge(connection, number: delivery.number))
        }
    }

    private static func eventName(of block: MessageBlock) -> StaticString {
        switch block.kind {
        case .unicast, .group, .broadcast: "MESSAGE"
        case .update: "MESSAGE_UPDATE"
        case .recall: "MESSAGE_RECALL"
        case .receipt:
            switch receipt(of: block)?.event {
            case .delivered?: "LAST_DELIVERED_AT_UPDATE"
            case .applied?: "LAST_READ_AT_UPDATE"
            case .counts?, nil: "RECEIPT_COUNTS"
            }
        case .groupEvent, .kicked: "CONVERSATION"
        case .topic: unreadEvent(of: block) == nil ? "TOPIC" : "UNREAD_MESSAGES_COUNT_UPDATE"
        case .presence: "TOPIC"
        case .brokerEvent: "BROKER_EVENT"
        }
    }

    /// Writes what follows the event and its number.
    private static func write(
        _ block: MessageBlock, to user: [UInt8], _ writer: inout JSONWriter
    ) {
        switch block.kind {
        case .unicast, .group, .broadcast:
            writeConversation(of: block, to: &writer)
            writer.write("from", block.sender.bytes)
            writer.write("timestamp", block.time)
            write(DeliveredFields(of: block, to: user), to: &writer)
            writer.write(leanContent: block.payload.bytes)
        case .update, .recall: write(revisionOf: block, to: &writer)
        case .receipt: write(receiptOf: block, to: &writer)
        case .groupEvent, .kicked: write(changeOf: block, to: &writer)
        case .brokerEvent: writer.write("details", raw: block.payload.bytes)
        case .topic, .presence:
            writer.write("topic", block.address.bytes)
            writer.write("from", block.sender.bytes)
            JSONEffectEncoder.writePayload(of: block, to: &writer)
        }
    }

    private static func writeConversation(of block: MessageBlock, to writer: inout JSONWriter) {
        if block.kind == .broadcast {
            writer.write("convId", "everybody" as StaticString)
        } else if block.address.isEmpty || block.kind == .unicast {
            writer.write(conversationWith: block.sender.bytes)
        } else {
            writer.write("convId", block.address.bytes)
        }
    }

    private static func write(_ delivered: DeliveredFields, to writer: inout JSONWriter) {
        let fields = delivered.fields
        if fields.reference != 0 { writer.write(hexadecimal: "messageId", fields.reference) }
        if fields.keptNumber != 0 { writer.write("index", fields.keptNumber) }
        if !fields.receipts.isDisjoint(with: .receipts) { writer.write("receipt", true) }
        if delivered.mentionsSomeone {
            writer.write("mentioned", fields.mention != nil)
            writer.write("mentionedAll", fields.mention == .all)
        }
        if !fields.attributes.isEmpty {
            writer.write("attributes") { (object: inout JSONWriter) in
                MessageAttributes.forEach(inRun: fields.attributes.span.bytes) { key, value in
                    object.write(key: key, value)
                }
            }
        }
    }

    private static func write(revisionOf block: MessageBlock, to writer: inout JSONWriter) {
        let payload = block.payload.bytes
        let whole = ByteRange(offset: 0, count: payload.byteCount)
        guard
            let revision = MRT.Revision(
                block.kind == .update ? .update : .recall, whole, in: payload)
        else { return }
        if block.address.isEmpty {
            writer.write(conversationWith: block.sender.bytes)
        } else {
            writer.write("convId", block.address.bytes)
        }
        writer.write("from", block.sender.bytes)
        writer.write("timestamp", block.time)
        writer.write(hexadecimal: "messageId", revision.reference)
        if let content = revision.content {
            writer.write(leanContent: content.bytes(in: payload))
        }
        // Without a reason its sender did it.
        guard revision.code != 0 || !revision.detail.isEmpty else { return }
        writer.write("reason") { (reason: inout JSONWriter) in
            reason.write("code", UInt64(revision.code))
            reason.write("detail", revision.detail.bytes(in: payload))
        }
    }

    private static func receipt(of block: MessageBlock) -> MRT.Receipt? {
        let payload = block.payload.bytes
        return MRT.Receipt(ByteRange(offset: 0, count: payload.byteCount), in: payload)
    }

    private static func write(receiptOf block: MessageBlock, to writer: inout JSONWriter) {
        guard let receipt = receipt(of: block) else { return }
        let payload = block.payload.bytes
        switch receipt.event {
        case .delivered:
            writer.write(conversationWith: block.sender.bytes)
            writer.write("clientId", block.sender.bytes)
            writer.write("lastDeliveredAt", block.time)
        case .applied(_, let code, let words):
            writer.write(conversationWith: block.sender.bytes)
            writer.write("clientId", block.sender.bytes)
            writer.write("lastReadAt", block.time)
            if code != 0 { writer.write("code", UInt64(code)) }
            if !words.isEmpty { writer.write("detail", words.bytes(in: payload)) }
        case .counts(let group, let delivered, let applied, _, let members):
            writer.write("convId", group.bytes(in: payload))
            writer.write("delivered", UInt64(delivered))
            writer.write("read", UInt64(applied))
            writer.write("members", UInt64(members))
        }
        writer.write(hexadecimal: "messageId", receipt.reference)
    }

    private static func write(changeOf block: MessageBlock, to writer: inout JSONWriter) {
        writer.write("convId", block.address.bytes)
        guard block.kind == .groupEvent, let number = block.payload.first else {
            writer.write("change", "kickedOut" as StaticString)
            return
        }
        let names = MessageKind.groupEventNames
        writer.write(
            "change",
            names.indices.contains(Int(number) - 1) ? names[Int(number) - 1] : "unknown")
        // The first three name the user concerned.
        if (1...3).contains(number) {
            writer.write("clientId", block.payload.bytes.extracting(1...))
        }
    }

    // MARK: - Unread messages

    /// The text of the broker's event about unread messages; nil for another message.
    private static func unreadEvent(of block: MessageBlock) -> JSONObject? {
        guard block.kind == .topic,
            LeanMessageText.begins(block.address.bytes, with: LeanMessageText.unreadPrefix)
        else { return nil }
        return try? JSONObject(block.payload.bytes)
    }

    private static func write(unread event: JSONObject, to writer: inout JSONWriter) {
        for member in event.members {
            let name = member.name.bytes(in: event.text.span.bytes)
            switch member.value {
            case .string(let text) where name.isEqual("user"):
                writer.write(conversationWith: text.bytes(in: event.text.span.bytes))
            case .string(let text) where name.isEqual("group"):
                writer.write("convId", text.bytes(in: event.text.span.bytes))
            case .number(let number) where name.isEqual("unread"):
                writer.write("unreadMessagesCount", number)
            case .number(let number) where name.isEqual("last"): writer.write("index", number)
            case .number(let number) where name.isEqual("read"): writer.write("readIndex", number)
            default: break
            }
        }
    }

    // MARK: - Answers

    static func report(
        _ result: SendResult,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        var writer = LeanMessageText.begin("ACK")
        if result.number > 0 { writer.write("i", result.number) }
        if let verdict = context.loop.verdict(of: result), verdict.isRefusal {
            writer.write(signed: "code", Int64(verdict.code))
            writer.write("reason", verdict.detail(result.cause).span.bytes)
        } else {
            write(result.reason, detail: result.reason.text(result.cause), to: &writer)
        }
        if result.reference != 0 { writer.write(hexadecimal: "messageId", result.reference) }
        send(writer, to: result.connection, in: context)
    }

    private static func write(
        _ reason: ReasonCode, detail: [UInt8], to writer: inout JSONWriter
    ) {
        writer.write("code", reason.isFailure ? UInt64(reason.rawValue) : 0)
        if reason.isFailure { writer.write("reason", detail.span.bytes) }
    }

    static func answer(
        _ answer: MRTEffect,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let bytes = context.bytes
        var writer = LeanMessageText.begin("RESPONSE")
        writer.write("i", answer.requestIdentifier)
        switch answer {
        case .respond(_, _, let reason, let body):
            let body = Array(body.bytes(in: bytes))
            write(reason, detail: body.isEmpty ? reason.text(.none) : body, to: &writer)
            // One byte is the grade of a subscription: the broker makes longer ids of groups.
            if !reason.isFailure, body.count > 1 { writer.write("convId", body.span.bytes) }
        case .reportHistory(let connection, _, let next, let entries, _, _):
            writer.write("code", 0)
            if next > 0 { writer.write("next", next) }
            writer.write("messages") { (list: inout JSONList) in
                for entry in HistoryEntry.read(entries, in: bytes.bytes) {
                    list.append { (writer: inout JSONWriter) in
                        write(entry, to: connection, in: context, &writer)
                    }
                }
            }
        case .reportConversations(let connection, _, let next, let entries):
            writer.write("code", 0)
            if next > 0 { writer.write("next", next) }
            writer.write("conversations") { (list: inout JSONList) in
                for entry in ConversationEntry.read(entries, in: bytes.bytes) {
                    list.append { (writer: inout JSONWriter) in
                        write(entry, to: connection, in: context, &writer)
                    }
                }
            }
        case .reportRecall, .reportPresence, .reportGroups, .reportGroup, .reportGroupHistory,
            .reportWakeTarget, .reportWakeTargets:
            writer.write("code", 0)
            JSONEffectEncoder.write(answer, to: &writer, in: context)
        }
        send(writer, to: answer.connection, in: context)
    }

    private static func write(
        _ entry: ConversationEntry, to connection: ConnectionID,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>,
        _ writer: inout JSONWriter
    ) {
        let name = entry.name.bytes(in: context.bytes).bytes
        if entry.isGroup {
            writer.write("convId", name)
        } else {
            writer.write(conversationWith: name)
        }
        writer.write("unreadMessagesCount", entry.unreadCount)
        writer.write("index", entry.lastNumber)
        writer.write("readIndex", entry.readThrough)
        guard let message = entry.newest?.message else { return }
        writer.write("lastMessage") { write(message, to: connection, in: context, &$0) }
    }

    /// A kept message.
    private static func write(
        _ entry: HistoryEntry, to connection: ConnectionID,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>,
        _ writer: inout JSONWriter
    ) {
        let block = MessageBlock(entry.block.bytes(in: context.bytes))
        writer.write("index", entry.number)
        writer.write("from", block.sender.bytes)
        writer.write("timestamp", block.time)
        let user = context.conversations.user(of: connection)
        write(DeliveredFields(ofKept: block, to: user), to: &writer)
        writer.write(leanContent: block.payload.bytes)
    }

    // MARK: - Beginning and end

    static func accept(
        _ connection: ConnectionID, _ acceptance: Acceptance,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let user = Array(acceptance.user.bytes(in: context.bytes))
        context.conversations.setUser(user, of: connection)
        var writer = LeanMessageText.begin("OPENED")
        writer.write("clientId", user.span.bytes)
        writer.write("timestamp", acceptance.unixMilliseconds)
        writer.write("isSessionPresent", acceptance.isSessionPresent)
        writer.write("keepAliveSeconds", UInt64(acceptance.keepAliveSeconds))
        writer.write("sendWindow", UInt64(acceptance.sendWindow))
        writer.write("messageMaximum", UInt64(acceptance.messageMaximum))
        if let count = acceptance.unreadCount {
            writer.write("unreadConversations", UInt64(count))
        }
        send(writer, to: connection, in: context)
        context.establish(connection, keepAliveSeconds: acceptance.keepAliveSeconds)
    }

    /// Refuses a login, then closes.
    static func refuse(
        _ connection: ConnectionID, _ reason: ReasonCode, retryAfterSeconds: UInt32 = 0,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        var writer = LeanMessageText.ending("REFUSED", reason)
        if retryAfterSeconds > 0 {
            writer.write("retryAfterSeconds", UInt64(retryAfterSeconds))
        }
        end(connection, reason, with: writer, in: context)
    }

    /// Ends a connection with a reason.
    static func end(
        _ connection: ConnectionID, _ reason: ReasonCode,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        if context.conversations[connection]?.phase == .awaitingAnswer {
            return refuse(connection, reason, in: context)
        }
        end(connection, reason, with: LeanMessageText.ending("CLOSED", reason), in: context)
    }

    private static func end(
        _ connection: ConnectionID, _ reason: ReasonCode, with writer: consuming JSONWriter,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        send(writer, to: connection, in: context)
        if reason == .sessionTakenOver {
            // The transport's own close frame comes behind this one, which counts.
            _ = context.write(
                WebSocketFrame.closeByteCount(), to: connection, priority: .required
            ) { WebSocketFrame.writeClose(.conflict, to: &$0) }
        }
        context.close(connection)
    }

    private static func send(
        _ writer: consuming JSONWriter, to connection: ConnectionID,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        JSONMessage.send(
            writer, to: connection, in: context.conversations, through: &context.connections)
    }
}
