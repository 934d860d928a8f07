// MRT packets as events. Ids and payloads are checked by the rules of PROTOCOL.md; a send that
// breaks them is refused by itself, a packet that cannot be read ends the connection.

import BrokerCore
import Primitives
import WireFormat

enum MRTReader {
    typealias Grade = BrokerCore.Grade

    // MARK: - CONNECT

    /// The event of a CONNECT, or why it cannot become one. `bodyOffset` is where its body begins
    /// in `bytes`.
    static func event(
        _ connect: MRT.Connect, bodyOffset: Int, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID, _ terms: ListenerTerms,
        _ doorkeeper: inout some Doorkeeper & ~Copyable
    ) -> Result<Event, DialectRefusal> {
        var device = connect.device.shifted(by: bodyOffset)
        guard TextRules.isDevice(device.bytes(in: bytes)) else {
            return .failure(DialectRefusal(reason: .clientIdentifierNotValid))
        }
        let claim: Claim
        if connect.credential != .none {
            switch self.claim(connect.credential, bodyOffset, bytes, connection, &doorkeeper) {
            case .success(let known): claim = known
            case .failure(let refusal): return .failure(refusal)
            }
        } else if let proved = doorkeeper.claim(of: connection) {
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
                    inboxWindow: connect.inboxWindow,
                    resume: connect.resume.map {
                        InboxPosition(epoch: $0.epoch, number: $0.lastNumber)
                    },
                    cookie: connect.cookie,
                    outbox: connect.outbox.map {
                        OutboxPosition(
                            epoch: $0.epoch, resultsSeen: $0.resultsSeen,
                            highestUsed: $0.highestUsed)
                    },
                    newEpoch: doorkeeper.makeRandomNumber(),
                    newCookie: doorkeeper.makeRandomNumber())))
    }

    /// The claim of a credential that is there, or why it is worth nothing.
    private static func claim(
        _ credential: MRT.Credential, _ base: Int, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID, _ doorkeeper: inout some Doorkeeper & ~Copyable
    ) -> Result<Claim, DialectRefusal> {
        let known: Claim?
        switch credential {
        case .none:
            known = nil
        case .token(let token):
            known = doorkeeper.claim(
                token: token.shifted(by: base), in: bytes, from: connection)
        case .appKey(let app, let key, let user):
            guard TextRules.isIdentifier(user.shifted(by: base).bytes(in: bytes)) else {
                return .failure(DialectRefusal(reason: .clientIdentifierNotValid))
            }
            known = doorkeeper.claim(
                app: app.shifted(by: base), key: key.shifted(by: base),
                user: user.shifted(by: base), in: bytes)
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
        _ connection: ConnectionID, _ doorkeeper: inout some Doorkeeper & ~Copyable
    ) -> Event {
        switch claim(auth.credential, bodyOffset, bytes, connection, &doorkeeper) {
        case .success(let claim): .credentialPresented(connection, claim)
        case .failure(let refusal): .credentialRefused(connection, refusal.reason)
        }
    }

    /// Appends what a packet says to the events of the turn.
    static func read(
        _ type: MRT.PacketType, _ frame: PacketFrame, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID, into events: inout ContiguousArray<Event>
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
            events.append(try request(MRT.Request(body: body), base, bytes, connection))
        case .disconnect:
            let packet = try MRT.ClientDisconnect(body: body)
            events.append(
                .disconnectReceived(
                    connection,
                    DisconnectRequest(
                        sessionExpirySeconds: packet.sessionExpirySeconds,
                        sendsWill: packet.reason == .disconnectWithWill)))
        case .connect, .connack, .result, .deliver, .response, .channel, .pingRequest,
            .pingResponse, .auth:
            throw .protocolError
        }
    }

    private static func request(
        _ send: MRT.Send, _ base: Int, _ bytes: UnsafeRawBufferPointer
    ) -> SendRequest {
        let payload = send.payload.shifted(by: base)
        var fault = send.target.fault(
            in: UnsafeRawBufferPointer(rebasing: bytes[base...]))
        var messageByteCount = 0
        if !send.isRaw {
            if let count = TextBody.minimalJSONByteCount(payload.bytes(in: bytes)) {
                messageByteCount = count
            } else {
                fault = fault ?? .payloadFormatInvalid
            }
        }
        let identifier = send.messageIdentifier.shifted(by: base)
        if !identifier.isEmpty, !TextRules.isMessageIdentifier(identifier.bytes(in: bytes)) {
            fault = fault ?? .payloadFormatInvalid
        }
        return SendRequest(
            number: send.number, grade: Grade(rawValue: send.grade.rawValue)!,
            target: target(send.target, base), messageIdentifier: identifier,
            expirySeconds: send.expirySeconds == 0 ? nil : UInt64(send.expirySeconds),
            senderUnixMilliseconds: send.time, isRaw: send.isRaw, payload: payload,
            messageByteCount: UInt32(messageByteCount), fault: fault)
    }

    private static func target(_ target: MRT.Target, _ base: Int) -> SendTarget {
        switch target {
        case .user(let id): .user(id.shifted(by: base))
        case .list(let count, let ids): .users(ids: ids.shifted(by: base), count: count)
        case .group(let id): .group(id.shifted(by: base))
        case .broadcast: .everybody
        case .topic(let name): .topic(name.shifted(by: base))
        }
    }

    private static func request(
        _ request: MRT.Request, _ base: Int, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID
    ) throws(WireError) -> Event {
        let range = request.parameters.shifted(by: base)
        let parameters = range.bytes(in: bytes)
        let start = Int(range.offset)
        switch request.operation {
        case .subscribe:
            let subscribe = try MRT.Subscribe(parameters)
            let filter = subscribe.filter.shifted(by: start)
            return .subscribeReceived(
                connection,
                SubscribeRequest(
                    requestIdentifier: request.identifier, filter: filter,
                    grade: Grade(rawValue: subscribe.highestGrade.rawValue)!,
                    isFilterValid: TextRules.isTopicFilter(filter.bytes(in: bytes))))
        case .unsubscribe:
            return .unsubscribeReceived(
                connection,
                UnsubscribeRequest(requestIdentifier: request.identifier, filter: range))
        case .presence:
            let query = try MRT.PresenceQuery(parameters)
            return .presenceQueried(
                connection, requestIdentifier: request.identifier,
                user: query.user.shifted(by: start))
        default:
            return .unknownRequestReceived(
                connection, requestIdentifier: request.identifier)
        }
    }
}
