// MRT packets as events. Ids and payloads are checked by the rules of PROTOCOL.md; a send that
// breaks them is refused by itself, a packet that cannot be read ends the connection.

import BrokerCore
import Primitives
import WireFormat

enum MRTDecoder {
    typealias Grade = BrokerCore.Grade

    // MARK: - CONNECT

    /// The event of a CONNECT, or why it cannot become one. `bodyOffset` is where its body begins
    /// in `bytes`.
    ///
    /// - Parameter gateway: who carries the connection, if it is a channel.
    static func event(
        _ connect: MRT.Connect, bodyOffset: Int, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID, gateway: ConnectionID?, _ terms: ListenerTerms,
        _ authenticator: inout some Authenticator & ~Copyable
    ) -> Result<Event, DialectRefusal> {
        var device = connect.device.shifted(by: bodyOffset)
        guard TextRules.isDevice(device.bytes(in: bytes)) else {
            return .failure(DialectRefusal(reason: .clientIdentifierNotValid))
        }
        let claim: Claim
        if connect.credential != .none {
            switch self.claim(
                connect.credential, bodyOffset, bytes, connection, gateway: gateway, &authenticator)
            {
            case .success(let known): claim = known
            case .failure(let refusal): return .failure(refusal)
            }
        } else if let proved = authenticator.claim(of: connection) {
            claim = proved
        } else {
            guard terms.allowsAnonymous else {
                return .failure(DialectRefusal(reason: .notAuthorized))
            }
            guard !device.isEmpty else {
                return .failure(DialectRefusal(reason: .clientIdentifierNotValid))
            }
            // The client id is the user; it is that user's one device.
            claim = .anonymous(user: device)
            device = .empty
        }
        return .success(
            .connectReceived(
                connection,
                ConnectRequest(
                    dialect: .mrt, claim: claim, device: device,
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
                    newEpoch: authenticator.makeRandomNumber(),
                    newCookie: authenticator.makeRandomNumber())))
    }

    /// The claim of a credential that is there, or why it is worth nothing.
    private static func claim(
        _ credential: MRT.Credential, _ base: Int, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID, gateway: ConnectionID?,
        _ authenticator: inout some Authenticator & ~Copyable
    ) -> Result<Claim, DialectRefusal> {
        let known: Claim?
        switch credential {
        case .none:
            known = nil
        case .token(let token):
            known = authenticator.claim(
                token: token.shifted(by: base), in: bytes, from: connection)
        case .appKey(let app, let key, let user):
            guard TextRules.isIdentifier(user.shifted(by: base).bytes(in: bytes)) else {
                return .failure(DialectRefusal(reason: .clientIdentifierNotValid))
            }
            known = authenticator.claim(
                app: app.shifted(by: base), key: key.shifted(by: base),
                user: user.shifted(by: base), in: bytes)
        case .attached(let user):
            guard let gateway else {
                return .failure(DialectRefusal(reason: .badAuthenticationMethod))
            }
            let user = user.shifted(by: base)
            guard TextRules.isIdentifier(user.bytes(in: bytes)) else {
                return .failure(DialectRefusal(reason: .clientIdentifierNotValid))
            }
            known = .attached(gateway: gateway, user: user)
        }
        guard let known else {
            return .failure(DialectRefusal(reason: .badUserNameOrPassword))
        }
        return .success(known)
    }

    // MARK: - Established

    /// The event of an AUTH: a new credential on a connection that goes on.
    static func event(
        _ auth: MRT.ClientAuth, bodyOffset: Int, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID, gateway: ConnectionID?,
        _ authenticator: inout some Authenticator & ~Copyable
    ) -> Event {
        switch claim(
            auth.credential, bodyOffset, bytes, connection, gateway: gateway, &authenticator)
        {
        case .success(let claim): .credentialPresented(connection, claim)
        case .failure(let refusal): .credentialRefused(connection, refusal.reason)
        }
    }

    /// Appends what a packet says to the events of the turn.
    ///
    /// - Parameter clientPacketMaximum: bytes of the largest packet that the client takes; 0 for
    ///   any.
    static func read(
        _ type: MRT.PacketType, _ frame: PacketFrame, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID, clientPacketMaximum: UInt32,
        _ authenticator: inout some Authenticator & ~Copyable,
        into events: inout ContiguousArray<Event>
    ) throws(WireError) {
        let body = frame.body.bytes(in: bytes)
        let base = Int(frame.body.offset)
        switch type {
        case .send:
            let send = try MRT.Send(flags: frame.flags, body: body)
            events.append(.sendReceived(connection, request(send, base, bytes)))
        case .ack:
            let ack = try MRT.Ack(flags: frame.flags, body: body)
            if ack.inboxNumber > 0 {
                events.append(
                    .inboxAcknowledged(connection, throughNumber: ack.inboxNumber))
            }
            if ack.resultsSeen > 0 {
                events.append(.resultsSeen(connection, throughNumber: ack.resultsSeen))
            }
        case .request:
            let packet = try MRT.Request(body: body)
            let request = ReceivedRequest(
                connection: connection, identifier: packet.identifier,
                operation: packet.operation, parameters: packet.parameters.shifted(by: base),
                bytes: bytes,
                resultByteCountMaximum: MRT.Response.contentByteCount(
                    ofPacket: clientPacketMaximum))
            events.append(try event(of: request, &authenticator))
        case .disconnect:
            let packet = try MRT.ClientDisconnect(body: body)
            events.append(
                .disconnectReceived(
                    connection,
                    DisconnectRequest(
                        sessionExpirySeconds: packet.sessionExpirySeconds,
                        sendsWill: packet.reason != .normalDisconnection)))
        case .connect, .connack, .result, .deliver, .response, .channel, .pingRequest,
            .pingResponse, .auth:
            throw .protocolError
        }
    }

    // MARK: - Messages

    private static func request(
        _ send: MRT.Send, _ base: Int, _ bytes: UnsafeRawBufferPointer
    ) -> SendRequest {
        let payload = send.payload.shifted(by: base)
        var judged = judge(send.target, payload, isRaw: send.isRaw, base, bytes)
        let identifier = send.messageIdentifier.shifted(by: base)
        if !identifier.isEmpty, !TextRules.isMessageIdentifier(identifier.bytes(in: bytes)) {
            judged.fault = judged.fault ?? .payloadFormatInvalid
        }
        return SendRequest(
            number: send.number, grade: Grade(rawValue: send.grade.rawValue)!,
            target: target(send.target, base), messageIdentifier: identifier,
            expirySeconds: send.expirySeconds == 0 ? nil : UInt64(send.expirySeconds),
            senderUnixMilliseconds: send.time, isRaw: send.isRaw, payload: payload,
            messageByteCount: judged.messageByteCount, fault: judged.fault)
    }

    /// What is wrong with a message, of a send or a will, and how large it is in its JSON form; the
    /// size is 0 where it has none.
    ///
    /// - Parameter base: where the bytes begin that the target's ranges are relative to.
    static func judge(
        _ target: MRT.Target, _ payload: ByteRange, isRaw: Bool, _ base: Int,
        _ bytes: UnsafeRawBufferPointer
    ) -> (fault: ReasonCode?, messageByteCount: UInt32) {
        let fault = target.fault(in: UnsafeRawBufferPointer(rebasing: bytes[base...]))
        if isRaw { return (fault, 0) }
        guard let count = TextBody.minimalJSONByteCount(payload.bytes(in: bytes)) else {
            return (fault ?? .payloadFormatInvalid, 0)
        }
        return (fault, UInt32(count))
    }

    static func target(_ target: MRT.Target, _ base: Int) -> SendTarget {
        switch target {
        case .user(let id): .user(id.shifted(by: base))
        case .list(let count, let ids): .users(ids: ids.shifted(by: base), count: count)
        case .group(let id): .group(id.shifted(by: base))
        case .broadcast: .everybody
        case .topic(let name): .topic(name.shifted(by: base))
        }
    }

    // MARK: - Requests

    private static func event(
        of request: ReceivedRequest, _ authenticator: inout some Authenticator & ~Copyable
    ) throws(WireError) -> Event {
        switch request.operation {
        case .subscribe:
            let subscribe = try MRT.Subscribe(request.content)
            let filter = request.place(subscribe.filter)
            return .subscribeReceived(
                request.connection,
                SubscribeRequest(
                    requestIdentifier: request.identifier, filter: filter,
                    grade: Grade(rawValue: subscribe.highestGrade.rawValue)!,
                    isFilterValid: TextRules.isTopicFilter(filter.bytes(in: request.bytes))))
        case .unsubscribe:
            return .unsubscribeReceived(
                request.connection,
                UnsubscribeRequest(
                    requestIdentifier: request.identifier, filter: request.parameters))
        case .presence:
            let query = try MRT.PresenceQuery(request.content)
            return .presenceQueried(
                request.connection, requestIdentifier: request.identifier,
                user: request.place(query.user))
        case .setWill:
            return try setWill(request)
        case .clearWill:
            guard request.content.isEmpty else { throw .malformed }
            return .willCleared(request.connection, requestIdentifier: request.identifier)
        case .groupCreate:
            return try createGroup(request, seed: authenticator.makeRandomNumber())
        case .groupJoin, .groupLeave, .groupKick, .groupBan, .groupSetMeta, .groupSetAllowList:
            return try changeGroup(request)
        case .groupList, .groupDescribe:
            return try queryGroups(request)
        case nil:
            return request.fault(.implementationSpecificError)
        }
    }
}

extension MRT.Credential {
    /// What the client calls its user; empty where a token says it.
    var user: ByteRange {
        switch self {
        case .none, .token: .empty
        case .appKey(_, _, let user), .attached(let user): user
        }
    }
}
