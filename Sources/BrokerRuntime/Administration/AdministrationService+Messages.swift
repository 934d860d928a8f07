// Messages that operators and the holders of keys and tokens send as users.

import Administration
import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

extension AdministrationService {
    /// A send that the core has accepted.
    struct PendingSend {
        let request: SendMessage
        /// The shard that has accepted it, which numbers its sends.
        let place: Int
        let number: UInt64
        /// The batch that makes it durable.
        let sequence: UInt64
    }

    /// What ``begin(_:)`` returns.
    enum SendProgress {
        case complete(SendMessage.Reply)
        case pending(PendingSend)
        /// A moderator decides on it.
        case held(number: UInt64)
    }

    func send(_ request: SendMessage) throws(AdministrationRefusal) -> SendMessage.Reply {
        switch try begin(request) {
        case .complete(let reply): return reply
        case .pending(let send):
            shared.waitForCommit(of: send.sequence)
            return try finish(send)
        case .held(let number):
            preconditionFailure("an operator's message \(number) is held")
        }
    }

    /// Hands a message to the core. Several may be begun before one waits for their commit.
    ///
    /// - Parameters:
    ///   - credential: whose rights decide; nil for an operator.
    ///   - key: makes the message safe to repeat.
    ///   - moderation: what becomes of it if a moderator decides on it; an operator's is sent.
    func begin(
        _ request: SendMessage, by credential: APICredential? = nil, key: SendKey? = nil,
        moderation: SendingUser.Moderation = .refuses
    ) throws(AdministrationRefusal) -> SendProgress {
        let moment = clock.moment()
        let message = try EncodedSend(request, at: moment)
        var sender = try sender(request.from, ofApp: request.app, by: credential)
        if case .presented(_, let holder)? = credential {
            sender.moderation = moderation
            if case .user = holder.kind { sender.isProved = true }
        }
        let (send, sequence) = shared.enter { state in
            (
                state.broker.send(
                    message.request, in: message.bytes, as: sender, key: key, at: moment,
                    effects: &state.effects), state.broker.pendingSequence
            )
        }
        guard let send else {
            guard shared.enter({ $0.broker.hasApp(sender.app) }) else {
                throw unknownApp(request.app)
            }
            throw Self.unknownUser(request.from, request.app)
        }
        return try progress(of: request, send, sequence)
    }

    func progress(
        of request: SendMessage, _ send: OperatorSend, _ sequence: UInt64
    ) throws(AdministrationRefusal) -> SendProgress {
        switch send {
        case .complete(let result): return .complete(try reply(to: request, with: result))
        case .otherContent:
            throw AdministrationRefusal(
                .packetIdentifierInUse,
                "this Idempotency-Key was used for another message: a new message needs a new key",
                cause: .otherContent)
        case .underWay:
            throw AdministrationRefusal(
                .packetIdentifierInUse,
                "the first message with this Idempotency-Key is under way; repeat the request",
                cause: .underWay)
        case .pending(let number):
            return .pending(
                PendingSend(request: request, place: place, number: number, sequence: sequence))
        case .held(let number): return .held(number: number)
        }
    }

    /// The user who sends, with the rights of the credential.
    func sender(
        _ user: String, ofApp app: String, by credential: APICredential?
    ) throws(AdministrationRefusal) -> SendingUser {
        var sender = SendingUser(app: Array(app.utf8), user: Array(user.utf8))
        guard case .presented(let presented, let holder)? = credential else { return sender }
        switch holder.kind {
        case .appKey:
            // A key that may mint any token needs no rights to send. One with the role `view` does
            // not come here.
            if let rights = holder.ownRights { sender.rights = rights }
        case .user(let user, let device):
            sender.rights = holder.rights
            sender.device = device ?? []
            // A user becomes known with the first use of a web token, as with the first login.
            if case .verified = presented {
                try makeKnown(user, app: holder.app)
            }
        }
        return sender
    }

    /// Adds a user, unless it is known. Waits for no commit: a message that is answered after one
    /// is in the same batch or a later one, and messages that are begun together share it.
    func makeKnown(_ user: [UInt8], app: [UInt8]) throws(AdministrationRefusal) {
        let outcome = shared.enter { state in
            Result { () throws(NoRoom) in try state.broker.addUser(user, app: app) }
        }
        if case .failure(let error) = outcome { throw refusal(of: error) }
    }

    /// Takes the result of a send whose batch is committed.
    func finish(_ send: PendingSend) throws(AdministrationRefusal) -> SendMessage.Reply {
        let core = shards.cores[send.place]
        let result = core.enter { $0.broker.takeResult(ofOperatorSend: send.number) }
        guard let result else {
            preconditionFailure("send \(send.number) has no result after its commit")
        }
        return try reply(to: send.request, with: result)
    }

    private func reply(
        to request: SendMessage, with result: OperatorSendResult
    ) throws(AdministrationRefusal) -> SendMessage.Reply {
        guard !result.reason.isFailure else { throw refusal(of: request, result) }
        let users = request.users ?? []
        var reply = SendMessage.Reply(
            receiverCount: Int(result.receiverCount), refusedCount: Int(result.refusedCount),
            refused: result.refusals.map {
                SendMessage.Refusal(user: users[Int($0.index)], reason: $0.reason.rawValue)
            }, mid: request.mid,
            reference: result.reference == 0 ? nil : Self.text(reference: result.reference))
        reply.verdict = result.verdict.map { UInt32(clamping: $0.code) }
        reply.keptNumber = result.keptNumber == 0 ? nil : result.keptNumber
        return reply
    }

    /// 16 hexadecimal digits.
    static func text(reference: UInt64) -> String {
        var digits: [UInt8] = []
        digits.append(hexadecimal: reference)
        return String(decoding: digits, as: UTF8.self)
    }

    private func refusal(
        of request: SendMessage, _ result: OperatorSendResult
    ) -> AdministrationRefusal {
        let message =
            switch (result.reason, result.limit) {
            case (_, .moderatorRefused):
                "\(result.limit.key)"
                    + (result.verdict.map { verdict in
                        " (\(verdict.code))"
                            + (verdict.text.isEmpty
                                ? "" : ": \(String(decoding: verdict.text, as: UTF8.self))")
                    } ?? "")
            case (_, .receiptsRight):
                "\(result.limit.key); see: martlet explain --user \(request.from) receipts "
                    + (request.group ?? request.users?.first ?? "")
            case (_, let rule) where rule.isRule: "\(rule.key)"
            case (.topicNameInvalid, _):
                if let group = request.group {
                    "there is no group \"\(group)\" in \(request.app); see: "
                        + "martlet group list --app \(request.app)"
                } else if let topic = request.topic {
                    "nobody may publish on \(topic): it begins with $ or has too many levels"
                } else {
                    "nobody knows \((request.users ?? []).joined(separator: ", ")) in "
                        + "\(request.app); make the user known with: martlet user add "
                        + "--app \(request.app) USER"
                }
            case (.notAuthorized, _):
                if let group = request.group {
                    "\(request.from) is not a member of the group \(group)"
                } else {
                    "no right of \(request.from), or of the app key that sends, allows this; see: "
                        + "martlet explain, martlet app key list"
                }
            case (.packetTooLarge, _):
                "the message is too long; see limits.messageMaximum and limits.payloadMaximum"
            case (.quotaExceeded, .none): "the queue of the receiver is full"
            case (.quotaExceeded, .sendKeysOfUser):
                "a limit is reached: \(LimitName.sendKeysOfUser.key), each for 24 hours after its "
                    + "message; send without Idempotency-Key, or later"
            case (.quotaExceeded, let limit): "a limit is reached: \(limit.key)"
            default: "refused: \(result.reason.name)"
            }
        let cause: AdministrationRefusal.Cause? =
            switch (result.reason, result.limit) {
            case (_, .moderatorRefused): .moderated
            case (_, .moderatorSilent): .full
            case (.notAuthorized, .receiptsRight): .forbidden
            case (_, let rule) where rule.isRule: .rule
            case (.quotaExceeded, .sendKeysOfUser): .tooMany
            case (.quotaExceeded, _): .full
            // Only groups refuse operators, whose answer depends on who is a member.
            case (.notAuthorized, _) where request.group == nil: .forbidden
            default: nil
            }
        return AdministrationRefusal(result.reason, message, cause: cause)
    }
}

/// A message as the core reads it: a request, and the bytes that its ranges refer to.
private struct EncodedSend {
    private(set) var bytes: [UInt8] = []
    let request: SendRequest

    init(_ message: SendMessage, at moment: Moment) throws(AdministrationRefusal) {
        let receivers = try message.receivers()
        let content = try message.content()
        var bytes: [UInt8] = []
        func append(_ part: some Collection<UInt8>) -> ByteRange {
            let offset = bytes.count
            bytes.append(contentsOf: part)
            return ByteRange(offset: offset, count: part.count)
        }
        let target: SendTarget
        switch receivers {
        case .users(let users):
            for user in users { try AdministrationService.checkIdentifier(user, "user") }
            guard (1...CoreLimits.listCountMaximum).contains(users.count) else {
                throw AdministrationRefusal(
                    users.isEmpty ? .malformedPacket : .quotaExceeded,
                    "\(users.count) users; 1 to \(CoreLimits.listCountMaximum) are allowed")
            }
            if users.count == 1 {
                target = .user(append(users[0].utf8))
            } else {
                // One byte of length, and the id.
                let list = users.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
                target = .users(ids: append(list), count: users.count)
            }
        case .group(let group):
            try AdministrationService.checkIdentifier(group, "group")
            target = .group(append(group.utf8))
        case .topic(let topic):
            let name = Array(topic.utf8)
            guard TextRules.isTopicName(name.span.bytes) else {
                throw AdministrationRefusal(
                    .malformedPacket, "\"\(topic)\" is not a topic: it has no + and #")
            }
            target = .topic(append(name))
        case .everybody: target = .everybody
        }
        if let identifier = message.mid {
            let text = Array(identifier.utf8)
            guard (1...SendMessage.identifierByteCountMaximum).contains(text.count),
                TextRules.isMessageIdentifier(text.span.bytes)
            else {
                throw AdministrationRefusal(
                    .payloadFormatInvalid,
                    "mid has 1 to \(SendMessage.identifierByteCountMaximum) bytes without control "
                        + "characters")
            }
        }
        let isNamed =
            message.asksReference == true || message.receipts?.isEmpty == false
            || message.collapse != nil
        // Receipts and recalls name the message by it. Other messages need not keep it.
        let identifier = isNamed ? append((message.mid ?? "").utf8) : .empty
        let isRetained = message.isRetained ?? false
        if isRetained, message.topic == nil {
            throw AdministrationRefusal(.malformedPacket, "only a topic has a retained message")
        }
        let (payload, isRaw, byteCount): (ByteRange, Bool, Int)
        switch content {
        case .message(let type, let text):
            let encoded = [type] + Array(text.utf8)
            byteCount = TextBody.minimalJSONByteCount(encoded.span.bytes) ?? 0
            (payload, isRaw) = (append(encoded), false)
        case .bytes(let content): (payload, isRaw, byteCount) = (append(content), true, 0)
        }
        let grade: BrokerCore.Grade =
            switch message.grade {
            case .transient: .transient
            case .durable, nil: .durable
            case .once: .once
            }
        var request = SendRequest(
            number: 0, grade: grade, target: target, messageIdentifier: identifier,
            expirySeconds: message.expirySeconds, isRaw: isRaw, payload: payload,
            messageByteCount: UInt32(byteCount))
        request.isRetained = isRetained
        request.isKept = message.isKept == true
        request.isNeverKept = message.isKept == false
        request.isUndelivered = message.isDelivered == false
        guard request.isKept || !request.isUndelivered else {
            throw AdministrationRefusal(
                .malformedPacket, "a message that is not delivered needs isKept")
        }
        request.senderUnixMilliseconds = message.unixMilliseconds ?? 0
        if message.isLate == true {
            guard message.unixMilliseconds != nil else {
                throw AdministrationRefusal(
                    .malformedPacket, "isLate needs the time of the reading")
            }
            request.isLate = true
        }
        let attributes = append(try Self.attributes(of: message))
        if !attributes.isEmpty { request.attributes = attributes }
        if message.wakes == false { request.isWithoutWake = true }
        if let push = message.push {
            let text = Array(push.utf8)
            guard text.count <= WireLimits.pushByteCountMaximum,
                JSONSyntax.isObject(text.span.bytes)
            else {
                throw AdministrationRefusal(
                    .payloadFormatInvalid,
                    "push is no JSON object of at most \(WireLimits.pushByteCountMaximum) bytes")
            }
            request.push = append(text)
        }
        let mentions = Mentions(
            options: message.mentionOptions, names: append(try Self.mentioned(by: message)))
        if !mentions.isEmpty { request.mentions = mentions }
        switch message.priority {
        case .low: request.priority = .low
        case .normal, nil: break
        case .high: request.priority = .high
        }
        if message.asksReference == true { request.asks.insert(.reference) }
        for word in message.receipts ?? [] {
            switch word {
            case "delivered": request.asks.insert(.delivered)
            case "applied": request.asks.insert(.applied)
            default:
                throw AdministrationRefusal(
                    .malformedPacket, "receipts are delivered and applied, not \"\(word)\"")
            }
        }
        if let key = message.collapse {
            let text = Array(key.utf8)
            guard TextRules.isMessageIdentifier(text.span.bytes) else {
                throw AdministrationRefusal(
                    .payloadFormatInvalid,
                    "collapse has 1 to \(SendMessage.identifierByteCountMaximum) bytes without "
                        + "control characters")
            }
            request.collapseKey = append(text)
        }
        if !request.asks.isEmpty || message.collapse != nil {
            request.reference = MessageReferences.make(
                random: .random(in: 0...(.max)), unixMilliseconds: moment.unixMilliseconds)
        }
        if let type = message.contentType {
            let type = Array(type.utf8)
            guard TextRules.isUTF8(type.span.bytes) else {
                throw AdministrationRefusal(.malformedPacket, "contentType has a zero character")
            }
            // The property of MQTT 5 (section 3.3.2.3.9): its identifier, a length of two bytes,
            // and the text.
            request.properties = append(
                [MQTT.PropertyIdentifier.contentType.rawValue, 0, UInt8(type.count)] + type)
        }
        self.request = request
        self.bytes = bytes
    }

    /// The attributes as a run: a byte of length and the key, a byte of length and the value.
    private static func attributes(
        of message: SendMessage
    ) throws(AdministrationRefusal) -> [UInt8] {
        var run: [UInt8] = []
        // Sorted, so that the same request is the same message.
        for (key, value) in (message.attributes ?? [:]).sorted(by: { $0.key < $1.key }) {
            for text in [key, value] {
                guard text.utf8.count <= Int(UInt8.max) else {
                    throw AdministrationRefusal(
                        .packetTooLarge, "the attribute \"\(key)\" has more than 255 bytes")
                }
                run.append(UInt8(text.utf8.count))
                run += Array(text.utf8)
            }
        }
        switch MessageAttributes.fault(run.span.bytes) {
        case nil: return run
        case .packetTooLarge?:
            throw AdministrationRefusal(
                .packetTooLarge,
                "a message has at most \(WireLimits.attributeCountMaximum) attributes, with "
                    + "\(WireLimits.attributesByteCountMaximum) bytes of keys and values")
        case let reason?:
            throw AdministrationRefusal(
                reason,
                "an attribute has a key of 1 to \(WireLimits.attributeKeyByteCountMaximum) bytes "
                    + "without control characters, which is no name of the broker's own")
        }
    }

    /// The users whom a message mentions, each after a byte with its length.
    private static func mentioned(
        by message: SendMessage
    ) throws(AdministrationRefusal) -> [UInt8] {
        let users = message.mentions ?? []
        for user in users { try AdministrationService.checkIdentifier(user, "user") }
        let names = users.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
        guard users.count <= WireLimits.mentionCountMaximum,
            names.count <= WireLimits.mentionsByteCountMaximum
        else {
            throw AdministrationRefusal(
                .packetTooLarge,
                "\(users.count) mentions; at most \(WireLimits.mentionCountMaximum) are allowed, "
                    + "with \(WireLimits.mentionsByteCountMaximum) bytes of names")
        }
        return names
    }
}

extension SendMessage {
    fileprivate var mentionOptions: Mentions.Options {
        var options: Mentions.Options = []
        if mentionsAll ?? false { options.insert(.all) }
        if onlyMentioned ?? false { options.insert(.only) }
        return options
    }
}
