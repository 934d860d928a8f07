// MQTT packets as events, for all three versions. The addresses of users, groups and everybody are
// topics here, and their messages JSON; both are turned into what MRT sends.

import BrokerCore
import Primitives
import WireFormat

enum MQTTDecoder {
    typealias Grade = BrokerCore.Grade

    // MARK: - CONNECT

    /// Appends the events of a CONNECT: the login, and the will behind it. `base` is where the body
    /// begins in `bytes`.
    static func read(
        _ connect: MQTT.Connect, _ base: Int, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID, _ terms: ListenerTerms,
        _ authenticator: inout some Authenticator & ~Copyable,
        into events: inout ContiguousArray<Event>
    ) throws(DialectRefusal) {
        // There is one method [MQTT-4.12.0-1].
        if let method = connect.authenticationMethod,
            !isTokenMethod(method.shifted(by: base).bytes(in: bytes))
        {
            throw DialectRefusal(reason: .badAuthenticationMethod)
        }
        guard connect.clientIdentifier.count <= clientIdentifierMaximum else {
            throw DialectRefusal(reason: .clientIdentifierNotValid)
        }
        var device = connect.clientIdentifier.shifted(by: base)
        let claim = try claim(connect, base, bytes, connection, terms, &authenticator)
        if case .anonymous = claim, TextRules.isIdentifier(device.bytes(in: bytes)) {
            // The client id is the user; it is that user's one device. Where no user can have that
            // name, the core makes one of it, and the id is the device.
            device = .empty
        }
        var request = ConnectRequest(
            dialect: connect.version == .v5 ? .mqtt5 : .mqtt3, claim: claim, device: device,
            startsClean: connect.isCleanStart,
            keepAliveSeconds: UInt32(connect.keepAliveSeconds),
            sessionExpirySeconds: sessionExpiry(connect), inboxWindow: connect.receiveMaximum,
            newEpoch: authenticator.makeRandomNumber(), newCookie: authenticator.makeRandomNumber())
        request.assignsDevice = connect.clientIdentifier.isEmpty
        request.carriesWill = connect.will != nil
        events.append(.connectReceived(connection, request))
        guard let will = connect.will else { return }
        events.append(
            .willSet(
                connection, requestIdentifier: 0,
                WillRequest(
                    delaySeconds: will.delaySeconds, message: self.request(will, base, bytes))))
    }

    /// The method of section 4.12 that is known: the data is a token, in CONNECT and again in every
    /// AUTH with which the client shows a fresh one.
    static let tokenMethod: StaticString = "token"

    static func isTokenMethod(_ name: UnsafeRawBufferPointer) -> Bool {
        name.elementsEqual(tokenMethod.utf8Bytes)
    }

    /// Bytes of the longest client id that is taken: a device's name is told with one byte of
    /// length. The specification asks for 23 [MQTT-3.1.3-5].
    private static let clientIdentifierMaximum = 255

    /// Who the client says it is. The password is the credential: an app key where the user name is
    /// the app, a slash and the user; otherwise a token. Without one, the transport may have proved
    /// who it is, or the listener may vouch for it.
    private static func claim(
        _ connect: MQTT.Connect, _ base: Int, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID, _ terms: ListenerTerms,
        _ authenticator: inout some Authenticator & ~Copyable
    ) throws(DialectRefusal) -> Claim {
        // Where the method brings a token, that is it; otherwise the password is.
        if let token = connect.authenticationData?.shifted(by: base) {
            guard let claim = authenticator.claim(token: token, in: bytes, from: connection) else {
                throw DialectRefusal(reason: .badUserNameOrPassword)
            }
            return claim
        }
        if let password = connect.password?.shifted(by: base) {
            if let name = connect.userName?.shifted(by: base),
                let (app, user) = parts(name, bytes),
                let claim = authenticator.claim(app: app, key: password, user: user, in: bytes)
            {
                return claim
            }
            if let claim = authenticator.claim(token: password, in: bytes, from: connection) {
                return claim
            }
            if !terms.allowsAnonymous { throw DialectRefusal(reason: .badUserNameOrPassword) }
        } else if let claim = authenticator.claim(of: connection) {
            return claim
        }
        guard terms.allowsAnonymous else { throw DialectRefusal(reason: .notAuthorized) }
        return .anonymous(user: connect.clientIdentifier.shifted(by: base))
    }

    /// App and user of a user name like `app/user`.
    private static func parts(
        _ name: ByteRange, _ bytes: UnsafeRawBufferPointer
    ) -> (app: ByteRange, user: ByteRange)? {
        let text = name.bytes(in: bytes)
        guard let slash = text.firstIndex(of: UInt8(ascii: "/")) else { return nil }
        let app = ByteRange(offset: Int(name.offset), count: slash)
        let user = ByteRange(
            offset: Int(name.offset) + slash + 1, count: text.count - slash - 1)
        guard TextRules.isIdentifier(user.bytes(in: bytes)) else { return nil }
        return (app, user)
    }

    private static func sessionExpiry(_ connect: MQTT.Connect) -> UInt32? {
        if connect.version == .v5 { return connect.sessionExpirySeconds }
        // A clean session ends with its connection; another lives as long as the broker says.
        return connect.isCleanStart ? 0 : nil
    }

    // MARK: - Established

    /// Appends what a packet says to the events of the turn.
    static func read(
        _ type: MQTT.PacketType, _ version: MQTT.Version, _ frame: PacketFrame,
        _ bytes: UnsafeRawBufferPointer, _ connection: ConnectionID,
        into events: inout ContiguousArray<Event>
    ) throws(WireError) {
        let body = frame.body.bytes(in: bytes)
        let base = Int(frame.body.offset)
        switch type {
        case .puback: try events.append(answer(.puback, .accepted, version, body, connection))
        case .pubrec: try events.append(answer(.pubrec, .received, version, body, connection))
        case .pubrel: try events.append(answer(.pubrel, .release, version, body, connection))
        case .pubcomp: try events.append(answer(.pubcomp, .complete, version, body, connection))
        case .subscribe:
            subscribe(
                try MQTT.Subscribe(version, body: body), base, bytes, connection, into: &events)
        case .unsubscribe:
            unsubscribe(
                try MQTT.Unsubscribe(version, body: body), base, bytes, connection, into: &events)
        case .disconnect:
            let packet = try MQTT.Disconnect(version, body: body, from: .client)
            events.append(
                .disconnectReceived(
                    connection,
                    DisconnectRequest(
                        sessionExpirySeconds: packet.sessionExpirySeconds,
                        // Only a normal one removes the will [MQTT-3.14.4-3].
                        sendsWill: packet.reason != .normalDisconnection)))
        case .connect:
            // A second one [MQTT-3.1.0-2].
            throw .protocolError
        case .connack, .suback, .unsuback, .pingresp:
            // The broker's own.
            throw .protocolError
        case .publish, .pingreq, .auth:
            preconditionFailure("what the decoder reads itself")
        }
    }

    private static func answer(
        _ wireStep: MQTT.Acknowledgement.Step, _ step: PacketStep, _ version: MQTT.Version,
        _ body: UnsafeRawBufferPointer, _ connection: ConnectionID
    ) throws(WireError) -> Event {
        let packet = try MQTT.Acknowledgement(version, wireStep, body: body)
        return .packetAnswered(
            connection, packetIdentifier: packet.packetIdentifier, step, packet.reason)
    }

    private static func subscribe(
        _ packet: MQTT.Subscribe, _ base: Int, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID, into events: inout ContiguousArray<Event>
    ) {
        let takenCount = min(packet.subscriptionCount, CoreLimits.filtersPerPacketMaximum)
        var followingCount = takenCount
        let body = UnsafeRawBufferPointer(rebasing: bytes[base...])
        for (filter, options) in MQTT.SubscriptionList(packet, in: body) {
            followingCount -= 1
            var request = SubscribeRequest(
                requestIdentifier: UInt64(packet.packetIdentifier),
                filter: filter.shifted(by: base),
                grade: Grade(rawValue: options.maximumQoS.rawValue)!)
            request.subscriptionIdentifier = packet.subscriptionIdentifier
            request.followingCount = followingCount
            if options.isNoLocal { request.options.insert(.noLocal) }
            if options.retainsAsPublished { request.options.insert(.retainsAsPublished) }
            switch options.retainHandling {
            case .send: break
            case .sendIfNew: request.options.insert(.retainedIfNew)
            case .doNotSend: request.options.insert(.withoutRetained)
            }
            guard followingCount > 0 else {
                request.omittedCount = packet.subscriptionCount - takenCount
                events.append(.subscribeReceived(connection, request))
                return
            }
            events.append(.subscribeReceived(connection, request))
        }
    }

    /// Marks the request identifiers of UNSUBSCRIBE, so that its answer is told from a SUBACK.
    static let unsubscribeMark: UInt64 = 1 << 16

    /// At most ``CoreLimits/filtersPerPacketMaximum`` filters where the version is without codes
    /// that could refuse the others.
    static func unsubscribe(
        _ packet: MQTT.Unsubscribe, _ base: Int, _ bytes: UnsafeRawBufferPointer,
        _ connection: ConnectionID, into events: inout ContiguousArray<Event>
    ) {
        let takenCount = min(packet.filterCount, CoreLimits.filtersPerPacketMaximum)
        var followingCount = takenCount
        let body = UnsafeRawBufferPointer(rebasing: bytes[base...])
        for filter in MQTT.FilterList(packet, in: body) {
            followingCount -= 1
            var request = UnsubscribeRequest(
                requestIdentifier: UInt64(packet.packetIdentifier) | unsubscribeMark,
                filter: filter.shifted(by: base))
            request.followingCount = followingCount
            guard followingCount > 0 else {
                request.omittedCount = packet.filterCount - takenCount
                events.append(.unsubscribeReceived(connection, request))
                return
            }
            events.append(.unsubscribeReceived(connection, request))
        }
    }
}
