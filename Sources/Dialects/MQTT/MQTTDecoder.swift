// Decodes the packets of all three MQTT versions into events. Addresses of users, groups and
// everybody are topics here, and their messages JSON; both are converted to the form of MRT.

import BrokerCore
import Primitives
import WireFormat

enum MQTTDecoder {
    // MARK: - CONNECT

    /// The event of a CONNECT with its will, or the reason to refuse it.
    static func event(
        of connect: MQTT.Connect, _ packet: ReceivedPacket, terms: ListenerTerms,
        in context: inout some DecodingContext & ~Copyable
    ) -> Result<Event, DialectRefusal> {
        do throws(DialectRefusal) {
            // The broker supports one method [MQTT-4.12.0-1].
            if let method = connect.authenticationMethod,
                !isTokenMethod(method.bytes(in: packet.body))
            {
                throw DialectRefusal(reason: .badAuthenticationMethod)
            }
            guard connect.clientIdentifier.count <= clientIdentifierMaximum else {
                throw DialectRefusal(reason: .clientIdentifierNotValid)
            }
            var device = packet.place(connect.clientIdentifier)
            let claim = try claim(of: connect, packet, terms: terms, in: &context)
            if case .anonymous = claim, TextRules.isIdentifier(device.bytes(in: packet.bytes.bytes))
            {
                // The client id is the user, and the device is empty. If the id is not a valid user
                // name, the core derives one, and the id is the device.
                device = .empty
            }
            let will = connect.will.map { will in
                WillRequest(
                    delaySeconds: will.delaySeconds, message: self.request(of: will, packet))
            }
            var request = ConnectRequest(
                dialect: connect.version == .v5 ? .mqtt5 : .mqtt3, claim: claim, device: device,
                startsClean: connect.isCleanStart,
                keepAliveSeconds: UInt32(connect.keepAliveSeconds),
                sessionExpirySeconds: sessionExpiry(connect), inboxWindow: connect.receiveMaximum,
                will: will, newEpoch: context.makeRandomNumber(),
                newCookie: context.makeRandomNumber())
            request.assignsDevice = connect.clientIdentifier.isEmpty
            request.pulls = pulls(connect, packet)
            return .success(.connectReceived(packet.connection, request))
        } catch {
            return .failure(error)
        }
    }

    /// Whether the client reads what history keeps: the user property `sync` is `pull`.
    private static func pulls(_ connect: MQTT.Connect, _ packet: ReceivedPacket) -> Bool {
        guard connect.properties.carriedByteCount > 0 else { return false }
        var reader = MQTT.PropertyReader(connect.properties, of: .connect, in: packet.body.bytes)
        while let property = try? reader.next() {
            guard property.identifier == .userProperty,
                property.text.bytes(in: packet.body).elementsEqual(MessageProperty.sync.utf8Bytes)
            else { continue }
            return property.value.bytes(in: packet.body).elementsEqual("pull".utf8)
        }
        return false
    }

    /// The authentication method of section 4.12 that the broker supports: the data is a token, in
    /// CONNECT and in every AUTH with which the client presents a new one.
    static let tokenMethod: StaticString = "token"

    static func isTokenMethod(_ name: UnsafeRawBufferPointer) -> Bool {
        name.elementsEqual(tokenMethod.utf8Bytes)
    }

    /// The longest accepted client id: the wire gives the device's name a length byte. The
    /// specification requires 23 [MQTT-3.1.3-5].
    private static let clientIdentifierMaximum = 255

    /// The identity of the client. The password is the credential: an app key if the user name is
    /// `APP/USER`, a password if the listener accepts user names, otherwise a token. Without a
    /// password, the transport may have verified the client, or the listener accepts it without
    /// credentials.
    private static func claim(
        of connect: MQTT.Connect, _ packet: ReceivedPacket, terms: ListenerTerms,
        in context: inout some DecodingContext & ~Copyable
    ) throws(DialectRefusal) -> Claim {
        let (bytes, connection) = (packet.bytes, packet.connection)
        // The data of the authentication method, if there is any, is the token; otherwise the
        // password.
        if let token = connect.authenticationData {
            let place = packet.place(token)
            guard let claim = context.claim(token: place, in: bytes, from: connection) else {
                throw DialectRefusal(reason: .badUserNameOrPassword)
            }
            return claim
        }
        if let password = connect.password.map(packet.place) {
            if let name = connect.userName.map(packet.place),
                let (app, user) = parts(of: name, in: bytes),
                let claim = context.claim(app: app, key: password, user: user, in: bytes)
            {
                return claim
            }
            if let claim = try passwordClaim(of: connect, packet, terms: terms, in: &context) {
                return claim
            }
            if let claim = context.claim(token: password, in: bytes, from: connection) {
                return claim
            }
            if !terms.allowsAnonymous { throw DialectRefusal(reason: .badUserNameOrPassword) }
        } else if let claim = context.claim(of: connection) {
            return claim
        }
        guard terms.allowsAnonymous else { throw DialectRefusal(reason: .notAuthorized) }
        return .anonymous(user: packet.place(connect.clientIdentifier))
    }

    /// The claim of a user name with its password; nil if the listener accepts none, or if the
    /// password is a token.
    private static func passwordClaim(
        of connect: MQTT.Connect, _ packet: ReceivedPacket, terms: ListenerTerms,
        in context: inout some DecodingContext & ~Copyable
    ) throws(DialectRefusal) -> Claim? {
        guard let app = terms.passwordApp, let name = connect.userName,
            let password = connect.password, !name.isEmpty
        else { return nil }
        let login = PasswordLogin(
            app: app, userName: Array(name.bytes(in: packet.body)),
            password: Array(password.bytes(in: packet.body)))
        switch context.verify(login, from: packet.connection) {
        case .valid(let claim): return claim
        case .refused(let reason): throw DialectRefusal(reason: reason)
        case .pending: throw DialectRefusal(reason: .badUserNameOrPassword, isPending: true)
        case .isToken: return nil
        }
    }

    /// App and user of a user name of the form `app/user`.
    private static func parts(
        of name: ByteRange, in bytes: UnsafeRawBufferPointer
    ) -> (app: ByteRange, user: ByteRange)? {
        let text = name.bytes(in: bytes)
        guard let slash = text.firstIndex(of: UInt8(ascii: "/")) else { return nil }
        let app = ByteRange(offset: Int(name.offset), count: slash)
        let user = ByteRange(
            offset: Int(name.offset) + slash + 1, count: text.count - slash - 1)
        guard TextRules.isIdentifier(user.bytes(in: bytes.bytes)) else { return nil }
        return (app, user)
    }

    private static func sessionExpiry(_ connect: MQTT.Connect) -> UInt32? {
        if connect.version == .v5 { return connect.sessionExpirySeconds }
        // A clean session ends with its connection; others have the broker's default expiry.
        return connect.isCleanStart ? 0 : nil
    }

    // MARK: - Established

    /// The event of a step in the exchange of one publication.
    static func event(
        of wireStep: MQTT.Acknowledgement.Step, as step: PacketStep, version: MQTT.Version,
        in packet: ReceivedPacket
    ) throws(WireError) -> Event {
        let answer = try MQTT.Acknowledgement(version, wireStep, body: packet.body.bytes)
        return .packetAnswered(
            packet.connection, packetIdentifier: answer.packetIdentifier, step, answer.reason)
    }

    /// The event of a SUBSCRIBE. Its filters stay in place. The options after each filter are
    /// rewritten for the core, because MQTT 3.1 leaves some of their bits undefined.
    static func event(of subscribe: MQTT.Subscribe, _ packet: ReceivedPacket) -> Event {
        let body = packet.body
        var subscriptions = MQTT.SubscriptionList(subscribe, in: body.bytes)
        while let (filter, options) = subscriptions.next() {
            let place = packet.place(filter)
            let request = FilterRequest(
                filter: place, grade: Grade(options.maximumQoS),
                options: BrokerCore.SubscriptionOptions(options))
            packet.arena[place.endOffset] = request.settings
        }
        let count = min(subscribe.subscriptionCount, CoreLimits.filtersPerPacketMaximum)
        let list = FilterList(bytes: packet.place(subscribe.subscriptions), count: count)
        return .subscribeReceived(
            packet.connection,
            SubscribeRequest(
                requestIdentifier: UInt64(subscribe.packetIdentifier), filters: .list(list),
                subscriptionIdentifier: subscribe.subscriptionIdentifier,
                omittedCount: subscribe.subscriptionCount - count))
    }

    /// The event of an UNSUBSCRIBE.
    static func event(of unsubscribe: MQTT.Unsubscribe, _ packet: ReceivedPacket) -> Event {
        let count = min(unsubscribe.filterCount, CoreLimits.filtersPerPacketMaximum)
        let list = FilterList(bytes: packet.place(unsubscribe.filters), count: count)
        return .unsubscribeReceived(
            packet.connection,
            UnsubscribeRequest(
                requestIdentifier: UInt64(unsubscribe.packetIdentifier), filters: .list(list),
                omittedCount: unsubscribe.filterCount - count))
    }
}

extension Grade {
    init(_ qos: MQTT.QoS) {
        switch qos {
        case .atMostOnce: self = .transient
        case .atLeastOnce: self = .durable
        case .exactlyOnce: self = .once
        }
    }
}

extension BrokerCore.SubscriptionOptions {
    fileprivate init(_ options: MQTT.SubscriptionOptions) {
        self = []
        if options.isNoLocal { insert(.noLocal) }
        if options.retainsAsPublished { insert(.retainsAsPublished) }
        switch options.retainHandling {
        case .send: break
        case .sendIfNew: insert(.retainedIfNew)
        case .doNotSend: insert(.withoutRetained)
        }
    }
}
