// Decodes MRT packets into events. Ids and payloads are checked by the rules of PROTOCOL.md. A send
// that breaks them is refused; a malformed packet ends the connection.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

enum MRTDecoder {
    // MARK: - CONNECT

    /// The event of a CONNECT, or the reason to refuse it.
    ///
    /// - Parameters:
    ///   - actingUser: the user of an app key, if CONNECT names none and the handshake does; its
    ///     place is behind the packet.
    ///   - dialect: MRT, or JSON, whose messages are read as packets.
    ///   - gateway: the connection that carries it, if it is a channel.
    static func event(
        of connect: MRT.Connect, _ packet: ReceivedPacket, actingUser: ByteRange? = nil,
        dialect: Conversation.Dialect, gateway: ConnectionID?, terms: ListenerTerms,
        in context: inout some DecodingContext & ~Copyable
    ) -> Result<Event, DialectRefusal> {
        var device = packet.place(connect.device)
        guard TextRules.isDevice(device.bytes(in: packet.bytes.bytes)) else {
            return .failure(DialectRefusal(reason: .clientIdentifierNotValid))
        }
        let claim: Claim
        if connect.credential != .none {
            switch self.claim(
                connect.credential, packet, actingUser: actingUser, gateway: gateway, in: &context)
            {
            case .success(let known): claim = known
            case .failure(let refusal): return .failure(refusal)
            }
        } else if let proved = context.claim(of: packet.connection) {
            claim = proved
        } else {
            guard terms.allowsAnonymous else {
                return .failure(DialectRefusal(reason: .notAuthorized))
            }
            guard !device.isEmpty else {
                return .failure(DialectRefusal(reason: .clientIdentifierNotValid))
            }
            // The client id is the user, and the device is empty.
            claim = .anonymous(user: device)
            device = .empty
        }
        var request = ConnectRequest(
            dialect: dialect == .mrt ? .mrt : .json, claim: claim, device: device,
            startsClean: connect.isCleanStart, isReconnect: connect.isReconnect,
            keepAliveSeconds: UInt32(connect.keepAliveSeconds),
            sessionExpirySeconds: connect.sessionExpirySeconds,
            inboxWindow: gateway == nil
                ? connect.inboxWindow
                : min(connect.inboxWindow, ChannelLimits.inboxWindowMaximum),
            resume: connect.resume.map {
                InboxPosition(epoch: $0.epoch, number: $0.lastNumber)
            },
            cookie: connect.cookie,
            outbox: connect.outbox.map {
                OutboxPosition(
                    epoch: $0.epoch, resultsSeen: $0.resultsSeen,
                    highestUsed: $0.highestUsed)
            },
            newEpoch: context.makeRandomNumber(),
            newCookie: context.makeRandomNumber())
        request.pulls = connect.accepts.contains(.pull)
        if dialect == .json(.leanMessage) {
            request.isOfLeanMessage = true
            request.assignsDevice = device.isEmpty
        }
        return .success(.connectReceived(packet.connection, request))
    }

    /// The claim of a credential, or the reason why the credential is invalid.
    private static func claim(
        _ credential: MRT.Credential, _ packet: ReceivedPacket, actingUser: ByteRange? = nil,
        gateway: ConnectionID?, in context: inout some DecodingContext & ~Copyable
    ) -> Result<Claim, DialectRefusal> {
        let known: Claim?
        switch credential {
        case .none:
            known = nil
        case .token(let token):
            known = context.claim(
                token: packet.place(token), in: packet.bytes, from: packet.connection)
        case .appKey(let app, let key, let user):
            // The handshake was refused if its user was no identifier.
            guard
                actingUser != nil || TextRules.isIdentifier(user.bytes(in: packet.body.bytes))
            else {
                return .failure(DialectRefusal(reason: .clientIdentifierNotValid))
            }
            known = context.claim(
                app: packet.place(app), key: packet.place(key),
                user: actingUser ?? packet.place(user), in: packet.bytes)
        case .attached(let user):
            guard let gateway else {
                return .failure(DialectRefusal(reason: .badAuthenticationMethod))
            }
            guard TextRules.isIdentifier(user.bytes(in: packet.body.bytes)) else {
                return .failure(DialectRefusal(reason: .clientIdentifierNotValid))
            }
            known = .attached(gateway: gateway, user: packet.place(user))
        }
        guard let known else {
            return .failure(DialectRefusal(reason: .badUserNameOrPassword))
        }
        return .success(known)
    }

    // MARK: - Established

    /// The event of an AUTH: a new credential on an open connection.
    static func event(
        of auth: MRT.ClientAuth, _ packet: ReceivedPacket, actingUser: ByteRange?,
        gateway: ConnectionID?,
        in context: inout some DecodingContext & ~Copyable
    ) -> Event {
        switch claim(
            auth.credential, packet, actingUser: actingUser, gateway: gateway, in: &context)
        {
        case .success(let claim): .credentialPresented(packet.connection, claim)
        case .failure(let refusal): .credentialRefused(packet.connection, refusal.reason)
        }
    }

    /// Appends the event of a packet to the events of the turn.
    ///
    /// - Parameter clientPacketMaximum: the largest packet that the client accepts; 0 for any.
    static func read(
        _ type: MRT.PacketType, _ packet: ReceivedPacket, clientPacketMaximum: UInt32,
        into events: inout ContiguousArray<Event>,
        in context: inout some DecodingContext & ~Copyable
    ) throws(WireError) {
        let connection = packet.connection
        switch type {
        case .send:
            let send = try MRT.Send(flags: packet.frame.flags, body: packet.body.bytes)
            if send.fields.isEmpty {
                events.append(.sendReceived(connection, request(of: send, packet)))
            } else {
                events.append(
                    .sendReceived(
                        connection, try requestWithFields(of: send, packet, in: &context)))
            }
        case .ack:
            let ack = try MRT.Ack(flags: packet.frame.flags, body: packet.body.bytes)
            if ack.inboxNumber > 0 {
                events.append(
                    .inboxAcknowledged(connection, throughNumber: ack.inboxNumber))
            }
            if ack.resultsSeen > 0 {
                events.append(.resultsSeen(connection, throughNumber: ack.resultsSeen))
            }
        case .request:
            let request = try MRT.Request(body: packet.body.bytes)
            let received = ReceivedRequest(
                connection: connection, identifier: request.identifier,
                operation: request.operation, parameters: packet.place(request.parameters),
                bytes: packet.bytes,
                resultByteCountMaximum: MRT.Response.contentByteCount(
                    ofPacket: clientPacketMaximum))
            events.append(try event(of: received, in: &context))
        case .disconnect:
            let disconnect = try MRT.ClientDisconnect(body: packet.body.bytes)
            events.append(
                .disconnectReceived(
                    connection,
                    DisconnectRequest(
                        sessionExpirySeconds: disconnect.sessionExpirySeconds,
                        sendsWill: disconnect.reason != .normalDisconnection)))
        case .connect, .connack, .result, .deliver, .response, .channel, .pingRequest,
            .pingResponse, .auth:
            throw .protocolError
        }
    }

    // MARK: - Messages

    @inline(__always)
    private static func request(of send: MRT.Send, _ packet: ReceivedPacket) -> SendRequest {
        let base = Int(packet.frame.body.offset)
        let payload = packet.place(send.payload)
        var validated = validate(
            send.target, from: base, payload: payload, isRaw: send.isRaw, in: packet.bytes)
        var cause = LimitName.none
        let identifier = packet.place(send.messageIdentifier)
        if !identifier.isEmpty,
            !TextRules.isMessageIdentifier(identifier.bytes(in: packet.bytes.bytes))
        {
            if validated.fault == nil { cause = .identifierRule }
            validated.fault = validated.fault ?? .payloadFormatInvalid
        }
        var request = SendRequest(
            number: send.number, grade: Grade(send.grade), target: target(send.target, from: base),
            messageIdentifier: identifier,
            expirySeconds: send.expirySeconds == 0 ? nil : UInt64(send.expirySeconds),
            senderUnixMilliseconds: send.time, isRaw: send.isRaw, payload: payload,
            messageByteCount: validated.messageByteCount, fault: validated.fault)
        request.faultCause = cause
        request.isKept = send.isKept
        request.isNeverKept = send.isNeverKept
        request.isUndelivered = send.isUndelivered
        request.isRetained = send.isRetained
        return request
    }

    /// The same for a send with fields.
    @inline(never)
    private static func requestWithFields(
        of send: MRT.Send, _ packet: ReceivedPacket,
        in context: inout some DecodingContext & ~Copyable
    ) throws(WireError) -> SendRequest {
        var request = request(of: send, packet)
        let fields = try MRT.SendFields(send.fields, in: packet.body.bytes)
        request.fault = request.fault ?? fields.fault
        request.asks = SendAsks(fields.asks)
        if let (fault, cause) = take(fields, packet, into: &request), request.fault == nil {
            (request.fault, request.faultCause) = (fault, cause)
        }
        if request.needsReference {
            request.reference = context.makeReference()
        }
        return request
    }

    /// Takes a collapse key, attributes, mentions, priority and the mark of a late reading, and
    /// returns the reason to refuse the send for them.
    private static func take(
        _ fields: MRT.SendFields, _ packet: ReceivedPacket, into request: inout SendRequest
    ) -> (fault: ReasonCode, cause: LimitName)? {
        request.isLate = fields.isLate
        if fields.isWithoutWake { request.isWithoutWake = true }
        if !fields.push.isEmpty {
            guard isPush(fields.push.bytes(in: packet.body).bytes) else {
                return (.payloadFormatInvalid, .pushText)
            }
            request.push = packet.place(fields.push)
        }
        if let priority = fields.priority {
            guard let known = SendPriority(rawValue: priority) else {
                return (.payloadFormatInvalid, .none)
            }
            request.priority = known
        }
        if !fields.collapseKey.isEmpty {
            let key = fields.collapseKey.bytes(in: packet.body)
            guard TextRules.isMessageIdentifier(key.bytes) else {
                return (.payloadFormatInvalid, .none)
            }
            request.collapseKey = packet.place(fields.collapseKey)
        }
        request.attributes = packet.place(fields.attributes)
        let run = fields.attributes.bytes(in: packet.body)
        if let fault = MessageAttributes.fault(run.bytes) { return (fault, .attributeRule) }
        guard let options = fields.mentions.bytes(in: packet.body).first else { return nil }
        let names = ByteRange(
            offset: Int(fields.mentions.offset) + 1, count: Int(fields.mentions.count) - 1)
        request.mentions = Mentions(
            options: Mentions.Options(rawValue: options), names: packet.place(names))
        let fault = TextRules.faultOfMentions(
            options: options, names.bytes(in: packet.body).bytes)
        return fault.map {
            ($0, $0 == .payloadFormatInvalid ? .mentionsOfNobody : .mentionedName)
        }
    }

    /// Whether a text may be what a sender gives for those who are woken.
    static func isPush(_ text: RawSpan) -> Bool {
        text.byteCount <= WireLimits.pushByteCountMaximum && TextRules.isUTF8(text)
            && JSONSyntax.isObject(text)
    }

    /// The fault of a message, of a send or a will, and its size in JSON form, which is 0 if it has
    /// none.
    ///
    /// - Parameter base: the position that the target's ranges are relative to.
    static func validate(
        _ target: MRT.Target, from base: Int, payload: ByteRange, isRaw: Bool,
        in bytes: UnsafeRawBufferPointer
    ) -> (fault: ReasonCode?, messageByteCount: UInt32) {
        let fault = target.fault(in: UnsafeRawBufferPointer(rebasing: bytes[base...]).bytes)
        if isRaw { return (fault, 0) }
        guard let count = TextBody.minimalJSONByteCount(payload.bytes(in: bytes.bytes)) else {
            return (fault ?? .payloadFormatInvalid, 0)
        }
        return (fault, UInt32(count))
    }

    static func target(_ target: MRT.Target, from base: Int) -> SendTarget {
        switch target {
        case .user(let id): .user(id.shifted(by: base))
        case .list(let count, let ids): .users(ids: ids.shifted(by: base), count: count)
        case .group(let id): .group(id.shifted(by: base))
        case .broadcast: .everybody
        case .topic(let name): .topic(name.shifted(by: base))
        }
    }

    // MARK: - Requests

    static func event(
        of request: ReceivedRequest, in context: inout some DecodingContext & ~Copyable
    ) throws(WireError) -> Event {
        switch request.operation {
        case .subscribe:
            let subscribe = try MRT.Subscribe(request.content.bytes)
            let filter = request.place(subscribe.filter)
            let wanted = FilterRequest(
                filter: filter, grade: Grade(subscribe.highestGrade),
                isValid: TextRules.isTopicFilter(filter.bytes(in: request.bytes.bytes)))
            return .subscribeReceived(
                request.connection,
                SubscribeRequest(requestIdentifier: request.identifier, filters: .one(wanted)))
        case .unsubscribe:
            return .unsubscribeReceived(
                request.connection,
                UnsubscribeRequest(
                    requestIdentifier: request.identifier, filters: .one(request.parameters)))
        case .presence:
            let query = try MRT.PresenceQuery(request.content.bytes)
            return .presenceQueried(
                request.connection, requestIdentifier: request.identifier,
                user: request.place(query.user))
        case .setWill:
            return try setWill(request)
        case .clearWill:
            guard request.content.isEmpty else { throw .malformed }
            return .willCleared(request.connection, requestIdentifier: request.identifier)
        case .groupCreate:
            return try createGroup(request, seed: context.makeRandomNumber())
        case .groupJoin, .groupLeave, .groupKick, .groupBan, .groupSetMeta, .groupSetAllowList,
            .groupSetHistory, .groupSetWake, .groupMute:
            return try changeGroup(request)
        case .groupList, .groupDescribe, .groupHistory:
            return try queryGroups(request)
        case .history:
            return try queryHistory(request)
        case .searchHistory:
            return try searchHistory(request)
        case .conversations:
            return try queryConversations(request)
        case .markRead, .hideHistory:
            return try markRead(request)
        case .applied:
            return try reportApplied(request)
        case .recall:
            return try recall(request)
        case .replace:
            return try replace(request)
        case .setWakeTarget:
            return try setWakeTarget(request)
        case .listWakeTargets:
            return try listWakeTargets(request)
        case .removeWakeTarget:
            return try removeWakeTarget(request)
        case .reportWakes:
            return try reportWakes(request)
        case nil:
            return request.fault(.implementationSpecificError)
        }
    }
}

extension SendAsks {
    init(_ asks: MRT.SendAsks) { self.init(rawValue: asks.rawValue) }
}

extension Grade {
    init(_ grade: MRT.Grade) {
        switch grade {
        case .transient: self = .transient
        case .durable: self = .durable
        case .once: self = .once
        }
    }
}

extension MRT.Credential {
    /// The user that the client names; empty if the token determines it.
    var user: ByteRange {
        switch self {
        case .none, .token: .empty
        case .appKey(_, _, let user), .attached(let user): user
        }
    }
}
