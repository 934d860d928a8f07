// Encodes effects as JSON messages. Each has the meaning of an MRT packet, and the names of its
// fields.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

/// Encodes the effects of one loop's JSON connections.
struct JSONEffectEncoder {
    private let packetMaximum: UInt32

    /// - Parameter packetMaximum: the largest message of a client, which `connected` announces.
    init(packetMaximum: UInt32) {
        self.packetMaximum = packetMaximum
    }

    // MARK: - Deliveries

    func deliver(
        _ delivery: Delivery,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let connection = delivery.connection
        let entry = context.loop.publications[Int(delivery.publication)]
        let block = MessageBlock(entry.block.bytes(in: context.bytes))
        var writer = JSONMessage.begin("message")
        if delivery.number > 0 { writer.write("number", delivery.number) }
        writer.write("grade", delivery.grade.name)
        writer.write("kind", block.kind.name)
        writer.write("from", block.sender.bytes)
        writer.write("time", block.time)
        if block.marks.contains(.possibleDuplicate) { writer.write("isDuplicate", true) }
        if delivery.options.contains(.retain) { writer.write("isRetained", true) }
        if block.kind == .topic {
            writer.write("topic", block.address.bytes)
        } else if !block.address.isEmpty {
            writer.write("group", block.address.bytes)
        }
        if block.hasFieldsOrProperties {
            let user = context.conversations.user(of: connection)
            let delivered = DeliveredFields(of: block, to: user)
            delivered.writeAsks(to: &writer)
            delivered.write(to: &writer)
        }
        Self.writePayload(of: block, to: &writer)
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
        if outcome == .written, delivery.number > 0 { countEvent(of: connection, in: context) }
    }

    static func writePayload(of block: MessageBlock, to writer: inout JSONWriter) {
        let payload = block.payload
        switch block.kind {
        case .groupEvent:
            let number = Int(payload.first ?? 0)
            let names = MessageKind.groupEventNames
            writer.write(
                "event", names.indices.contains(number - 1) ? names[number - 1] : "unknown")
            // The first three name the user concerned.
            if (1...3).contains(number) { writer.write("user", payload.bytes.extracting(1...)) }
            if number == Int(GroupNotice.added) {
                GroupNoticeText.write(payload.bytes, to: &writer)
            }
        case .kicked:
            break
        case .receipt:
            ReceiptText.write(payload.bytes, to: &writer)
        case .recall, .update:
            RevisionText.write(payload.bytes, isUpdate: block.kind == .update, to: &writer)
        case .brokerEvent: writer.write("details", raw: payload.bytes)
        case .topic, .unicast, .group, .broadcast, .presence:
            if !block.marks.contains(.raw), !payload.isEmpty {
                writer.write("t", UInt64(payload[0]))
                writer.write("b", payload.bytes.extracting(1...))
            } else {
                writer.write(text: "payload", orBase64: "base64", payload.bytes)
            }
        }
    }

    /// Ends an event stream whose window is used up: the next request acknowledges the events and
    /// continues.
    private func countEvent(
        of connection: ConnectionID,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        guard let stream = context.conversations.streams[connection] else { return }
        context.conversations.streams[connection]?.remainingCount = stream.remainingCount - 1
        guard stream.remainingCount == 1 else { return }
        // The core learns of the end at once: the next request may come before this connection has
        // closed, and is no takeover.
        context.append(.connectionClosed(connection, .closedByBroker))
        context.close(connection)
    }

    // MARK: - Answers

    func report(
        _ result: SendResult, in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        var writer = JSONMessage.begin("result")
        if result.number > 0 { writer.write("number", result.number) }
        if let verdict = context.loop.verdict(of: result) {
            writer.write(result.reason, detail: verdict.detail(result.cause))
            writer.write(signed: "verdict", Int64(verdict.code))
        } else {
            writer.write(result.reason, detail: result.reason.text(result.cause))
        }
        if !result.messageIdentifier.isEmpty {
            writer.write("mid", result.messageIdentifier.bytes(in: context.bytes).bytes)
        }
        if result.reference != 0 { writer.write(hexadecimal: "reference", result.reference) }
        if result.refusedCount > 0 {
            writer.write("refusedCount", UInt64(result.refusedCount))
            writer.write("refused") { (list: inout JSONList) in
                for index in 0..<Int(result.namedRefusalCount) {
                    let refusal = context.loop.refusals[Int(result.firstRefusal) + index]
                    list.append { (writer: inout JSONWriter) in
                        writer.write("index", UInt64(refusal.index))
                        writer.write("reason", UInt64(refusal.reason.rawValue))
                    }
                }
            }
        }
        send(writer, to: result.connection, in: context)
    }

    func answerCredential(
        _ connection: ConnectionID, _ reason: ReasonCode,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        var writer = JSONMessage.begin("authenticated")
        writer.write(reason)
        send(writer, to: connection, in: context)
    }

    /// Answers a request.
    func answer(
        _ answer: MRTEffect, in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        var writer = JSONMessage.beginResponse(to: answer.requestIdentifier)
        Self.write(answer, to: &writer, in: context)
        send(writer, to: answer.connection, in: context)
    }

    /// Writes what the answer to a request says.
    static func write(
        _ answer: MRTEffect, to writer: inout JSONWriter,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let bytes = context.bytes
        switch answer {
        case .respond(_, _, let reason, let body):
            let body = body.bytes(in: bytes)
            guard !reason.isFailure else {
                writer.write(reason, detail: body.isEmpty ? reason.text(.none) : Array(body))
                break
            }
            writer.write(reason)
            guard !body.isEmpty else { break }
            // One byte is the grade of a subscription: the broker makes longer ids of groups.
            if body.count == 1, let grade = Grade(rawValue: body[0]) {
                writer.write("grade", grade.name)
            } else {
                writer.write("group", body.bytes)
            }
        case .reportRecall(_, _, let answer):
            writer.write(.success)
            RevisionText.write(
                RecallAnswer(decoding: answer.bytes(in: bytes).bytes), to: &writer)
        case .reportWakeTarget(_, _, let target):
            writer.write(.success)
            writer.write("id", target)
        case .reportWakeTargets(_, _, let entries):
            writer.write(.success)
            WakeTargetText.write(entries.bytes(in: bytes).bytes, to: &writer)
        case .reportPresence(_, _, let isOnline, let since, let devices, _):
            writer.write(.success)
            writer.write("isOnline", isOnline)
            if since > 0 { writer.write("since", since) }
            writer.write("devices") { (list: inout JSONList) in
                var walk = MRT.IdentifierList(devices, in: bytes.bytes)
                while let device = walk.next() { list.append(device.bytes(in: bytes).bytes) }
            }
        case .reportGroups(_, _, let hasMore, let entries):
            writer.write(.success)
            writer.write("hasMore", hasMore)
            writer.write("groups") { (list: inout JSONList) in
                Self.write(groups: entries.bytes(in: bytes), to: &list)
            }
        case .reportGroup(_, _, let report):
            writer.write(.success)
            Self.write(report, bytes: bytes, to: &writer)
        case .reportGroupHistory(let connection, _, let report):
            writer.write(.success)
            Self.write(report.history, lastNumber: report.lastNumber, to: &writer)
            if let newest = HistoryEntry.read(report.newest, in: bytes.bytes).first {
                writer.write("lastMessage") {
                    Self.write(newest, to: connection, in: context, &$0)
                }
            }
        case .reportHistory(let connection, _, let next, let entries, _, _):
            writer.write(.success)
            if next > 0 { writer.write("next", next) }
            writer.write("messages") { (list: inout JSONList) in
                for entry in HistoryEntry.read(entries, in: bytes.bytes) {
                    list.append { (writer: inout JSONWriter) in
                        Self.write(entry, to: connection, in: context, &writer)
                    }
                }
            }
        case .reportConversations(let connection, _, let next, let entries):
            writer.write(.success)
            if next > 0 { writer.write("next", next) }
            writer.write("conversations") { (list: inout JSONList) in
                for entry in ConversationEntry.read(entries, in: bytes.bytes) {
                    list.append { (writer: inout JSONWriter) in
                        writer.write(
                            entry.isGroup ? "group" : "user", entry.name.bytes(in: bytes).bytes)
                        writer.write("last", entry.lastNumber)
                        writer.write("read", entry.readThrough)
                        writer.write("unread", entry.unreadCount)
                        if let message = entry.newest?.message {
                            writer.write("lastMessage") {
                                Self.write(message, to: connection, in: context, &$0)
                            }
                        }
                    }
                }
            }
        }
    }

    /// Writes the groups of a page: for each its id and its title, each after one length byte, and
    /// one byte that is 1 if the user owns it.
    private static func write(groups: UnsafeRawBufferPointer, to list: inout JSONList) {
        var offset = 0
        func takeText() -> UnsafeRawBufferPointer {
            let end = offset + 1 + Int(groups[offset])
            defer { offset = end }
            return UnsafeRawBufferPointer(rebasing: groups[(offset + 1)..<end])
        }
        while offset < groups.count {
            let (group, title) = (takeText(), takeText())
            let isOwn = groups[offset] == 1
            offset += 1
            list.append { (writer: inout JSONWriter) in
                writer.write("group", group.bytes)
                writer.write("title", title.bytes)
                writer.write("isOwn", isOwn)
            }
        }
    }

    private static func write(
        _ report: GroupReport, bytes: UnsafeRawBufferPointer, to writer: inout JSONWriter
    ) {
        writer.write("owner", report.owner.bytes(in: bytes).bytes)
        writer.write("title", report.title.bytes(in: bytes).bytes)
        writer.write("meta", report.meta.bytes(in: bytes).bytes)
        writer.write("isOwn", report.isOwn)
        writer.write("hasAllowList", report.hasAllowList)
        writer.write("memberCount", UInt64(report.memberCount))
        writer.write("hasMore", report.hasMoreMembers)
        writer.write("members") { (list: inout JSONList) in
            var walk = MRT.IdentifierList(report.members, in: bytes.bytes)
            while let member = walk.next() { list.append(member.bytes(in: bytes).bytes) }
        }
    }

    /// A kept message.
    private static func write(
        _ entry: HistoryEntry, to connection: ConnectionID,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>,
        _ writer: inout JSONWriter
    ) {
        let block = MessageBlock(entry.block.bytes(in: context.bytes))
        writer.write("number", entry.number)
        writer.write("from", block.sender.bytes)
        writer.write("time", block.time)
        if block.hasFieldsOrProperties {
            let user = context.conversations.user(of: connection)
            let delivered = DeliveredFields(ofKept: block, to: user)
            delivered.writeAsks(to: &writer)
            delivered.write(to: &writer)
        }
        writePayload(of: block, to: &writer)
    }

    /// What a group keeps.
    private static func write(
        _ history: GroupHistory, lastNumber: UInt64, to writer: inout JSONWriter
    ) {
        writer.write("history", history.isKept)
        writer.write("shown", UInt64(history.shownCount))
        writer.write("last", lastNumber)
    }

    // MARK: - Beginning and end

    func accept(
        _ connection: ConnectionID, _ acceptance: Acceptance,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let isStream = context.conversations.streams[connection] != nil
        if isStream {
            let cors = context.conversations.streams[connection]?.cors
            context.conversations.streams[connection] = EventStream(
                epoch: acceptance.epoch, remainingCount: Int(acceptance.inboxWindow),
                cors: cors)
            JSONMessage.send(
                HTTPEventStream.head(
                    unixSeconds: acceptance.unixMilliseconds / 1_000,
                    retryMilliseconds: JSONLimits.retryMilliseconds, cors: cors),
                to: connection, in: context.conversations, through: &context.connections)
        }
        context.conversations.setUser(
            Array(acceptance.user.bytes(in: context.bytes)), of: connection)
        var writer = JSONMessage.begin("connected")
        writer.write("user", acceptance.user.bytes(in: context.bytes).bytes)
        writer.write("isSessionPresent", acceptance.isSessionPresent)
        writer.write("hasWill", acceptance.hasWill)
        writer.write(hexadecimal: "epoch", acceptance.epoch)
        writer.write(hexadecimal: "cookie", acceptance.cookie)
        writer.write("time", acceptance.unixMilliseconds)
        writer.write("keepAliveSeconds", UInt64(acceptance.keepAliveSeconds))
        writer.write("sessionExpirySeconds", UInt64(acceptance.sessionExpirySeconds))
        writer.write("sendWindow", UInt64(acceptance.sendWindow))
        writer.write("window", UInt64(acceptance.inboxWindow))
        writer.write(
            "packetMaximum", UInt64(packetMaximum) - UInt64(JSONLimits.framingByteCountMaximum))
        writer.write("messageMaximum", UInt64(acceptance.messageMaximum))
        writer.write("payloadMaximum", UInt64(acceptance.payloadMaximum))
        if let count = acceptance.unreadCount { writer.write("unread", UInt64(count)) }
        send(writer, to: connection, in: context)
        if isStream {
            context.conversations[known: connection].phase = .established
            // The client sends nothing: the broker writes a comment after this time.
            context.connections.acceptConnection(
                connection, silenceMilliseconds: JSONLimits.heartbeatMilliseconds)
        } else {
            context.establish(connection, keepAliveSeconds: acceptance.keepAliveSeconds)
        }
    }

    /// Refuses a login, then closes.
    func refuse(
        _ connection: ConnectionID, _ reason: ReasonCode, retryAfterSeconds: UInt32,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        JSONMessage.refuse(
            connection, reason, retryAfterSeconds: retryAfterSeconds, in: context.conversations,
            through: &context.connections)
        context.close(connection)
    }

    /// Ends a connection with a reason. One that is taken over before its login is accepted is
    /// refused.
    func end(
        _ connection: ConnectionID, _ reason: ReasonCode,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        if context.conversations[connection]?.phase == .awaitingAnswer {
            refuse(connection, reason, retryAfterSeconds: 0, in: context)
            return
        }
        JSONMessage.sendClosed(
            to: connection, reason, in: context.conversations, through: &context.connections)
        context.close(connection)
    }

    private func send(
        _ writer: consuming JSONWriter, to connection: ConnectionID,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        JSONMessage.send(
            writer, to: connection, in: context.conversations, through: &context.connections)
    }
}

extension JSONMessage {
    /// Begins the answer to a request.
    ///
    /// - Parameter request: its number; nil for none.
    static func beginResponse(to request: UInt64?) -> JSONWriter {
        var writer = begin("response")
        if let request { writer.write("request", request) }
        return writer
    }

    /// Tells a client that its connection ends.
    static func sendClosed(
        to connection: ConnectionID, _ reason: ReasonCode,
        in conversations: borrowing ConversationTable,
        through host: inout some ConnectionHost & ~Copyable
    ) {
        if conversations[connection]?.jsonForm == .leanMessage {
            send(
                LeanMessageText.ending("CLOSED", reason), to: connection, in: conversations,
                through: &host)
            return
        }
        var writer = begin("closed")
        writer.write(reason)
        send(writer, to: connection, in: conversations, through: &host)
    }

    /// Refuses a login: of an event stream with an answer of HTTP.
    static func refuse(
        _ connection: ConnectionID, _ reason: ReasonCode, retryAfterSeconds: UInt32 = 0,
        in conversations: borrowing ConversationTable,
        through host: inout some ConnectionHost & ~Copyable
    ) {
        guard let stream = conversations.streams[connection] else {
            if conversations[connection]?.jsonForm == .leanMessage {
                send(
                    LeanMessageText.ending("REFUSED", reason), to: connection, in: conversations,
                    through: &host)
                return
            }
            var writer = begin("refused")
            writer.write(reason)
            if retryAfterSeconds > 0 {
                writer.write("retryAfterSeconds", UInt64(retryAfterSeconds))
            }
            send(writer, to: connection, in: conversations, through: &host)
            return
        }
        send(
            HTTPEventStream.refusal(
                HTTPStatus(refusing: reason), reason, detail: reason.text,
                retryAfterSeconds: UInt64(retryAfterSeconds), cors: stream.cors),
            to: connection, in: conversations, through: &host)
    }
}

extension JSONWriter {
    /// The reason of an answer, as its number and for people.
    mutating func write(_ reason: ReasonCode) { write(reason, detail: reason.text(.none)) }

    /// The same with a text for a failure.
    mutating func write(_ reason: ReasonCode, detail: [UInt8]) {
        write("reason", UInt64(reason.rawValue))
        write("name", reason.name)
        if reason.isFailure { write("detail", detail.span.bytes) }
    }
}

extension HTTPStatus {
    /// The status of a refused login.
    fileprivate init(refusing reason: ReasonCode) {
        switch reason {
        case .badUserNameOrPassword, .badAuthenticationMethod: self = .unauthorized
        // The credential is valid, and no right of it allows the login as this user.
        case .notAuthorized: self = .forbidden
        case .serverBusy, .serverUnavailable, .serverShuttingDown: self = .unavailable
        case .quotaExceeded, .connectionRateExceeded, .messageRateTooHigh: self = .tooManyRequests
        case .sessionTakenOver: self = .conflict
        case .banned: self = .forbidden
        default: self = .badRequest
        }
    }
}

extension SendAsks {
    /// The words for the receipts in JSON and in MQTT.
    var receiptNames: [StaticString] {
        (contains(.delivered) ? ["delivered"] : []) + (contains(.applied) ? ["applied"] : [])
    }
}

extension Grade {
    /// The word for it in JSON.
    fileprivate var name: StaticString {
        switch self {
        case .transient: "transient"
        case .durable: "durable"
        case .once: "once"
        }
    }
}

extension MessageKind {
    /// The word for it in JSON.
    fileprivate var name: StaticString {
        switch self {
        case .topic: "topic"
        case .unicast: "user"
        case .group: "group"
        case .broadcast: "everybody"
        case .presence: "presence"
        case .groupEvent: "groupEvent"
        case .kicked: "kickedOut"
        case .receipt: "receipt"
        case .recall: "recall"
        case .update: "update"
        case .brokerEvent: "brokerEvent"
        }
    }

    /// The events of a group, by their number from 1 on.
    static let groupEventNames: [StaticString] = [
        "joined", "left", "kicked", "allow-list-updated", "meta-updated", "history-updated",
        "added", "removed",
    ]
}
