// The bridge's session with the MQTT broker: the client's half of MQTT as a value. Bytes and the
// time go in, events and bytes come out. It keeps no messages: unanswered messages are in the
// tables of exchanges, whose owner sends them again.

import BrokerTerms
import ClientCore
import Primitives
import WireFormat

/// One event from the MQTT broker.
enum ForeignEvent {
    /// Open a transport connection.
    case connectionWanted
    case connected(ForeignTerms)
    case published(ForeignMessage)
    /// Only the head of a publication was read that is larger than the bridge accepts.
    case oversized(ForeignMessage)
    case acknowledged(MQTT.Acknowledgement.Step, UInt16, ReasonCode)
    /// The answer to ``ForeignLink/subscribe(_:identifier:now:)``, with a code for each filter.
    case subscribed([UInt8])
    /// The answer to ``ForeignLink/unsubscribe(_:now:)``, with a code for each filter.
    case unsubscribed([UInt8])
    /// Close the transport connection. `retryAt` is the time of the next attempt.
    case disconnected(String, retryAt: Instant)
}

/// The terms of an accepted login.
struct ForeignTerms: Equatable {
    var isSessionPresent: Bool
    /// The broker's receive maximum.
    var receiveMaximum: Int
    /// The largest packet that the broker accepts.
    var packetMaximum: Int
    var qosMaximum = MQTT.QoS.exactlyOnce
    var isRetainAvailable = true
    /// Whether subscriptions may have an identifier; only in 5.0.
    var takesSubscriptionIdentifiers = false
}

/// A publication of the MQTT broker.
struct ForeignMessage: Equatable {
    var topic: [UInt8]
    var payload: [UInt8]
    var qos: MQTT.QoS
    var packetIdentifier: UInt16
    /// The DUP flag.
    var isDuplicate = false
    /// 0 for none.
    var expirySeconds: UInt32 = 0
    /// The identifiers of the subscriptions that it came by; 0 for one without.
    var subscriptions: Set<UInt32> = [0]
}

package struct ForeignLink {
    enum Phase: Equatable {
        case stopped
        case waiting
        case opening
        case joining
        case joined
    }

    /// The packet identifier of SUBSCRIBE and UNSUBSCRIBE; publications have lower ones.
    static let requestIdentifier = UInt16.max
    private static let loginMilliseconds: UInt64 = 15_000
    /// A connection that lasted this long counts as good (PROTOCOL.md, "Reconnecting").
    private static let goodMilliseconds: UInt64 = 60_000

    private let settings: ForeignSettings
    private let packetMaximum: Int
    private(set) var phase = Phase.stopped
    private var phaseDeadline = Instant.never
    private var backoff: Backoff
    private var events: [ForeignEvent] = []
    private var input = MQTTStream()
    private(set) var outgoing: [UInt8] = []
    private var keepAliveMilliseconds: UInt64 = 0
    private var connectedAt = Instant(milliseconds: 0)
    private var lastSent = Instant(milliseconds: 0)
    private var lastReceived = Instant(milliseconds: 0)
    private var pingDeadline = Instant.never
    /// The filters of the SUBSCRIBE, or of the UNSUBSCRIBE, that is not answered.
    private var subscribingCount = 0
    private var unsubscribingCount = 0
    /// Reading is paused, so silence of the broker means nothing.
    var isReadingPaused = false

    init(_ settings: ForeignSettings, packetMaximum: Int, jitterSeed: UInt64) {
        self.settings = settings
        self.packetMaximum = packetMaximum
        backoff = Backoff(seed: jitterSeed)
    }

    var version: MQTT.Version { settings.version }

    // MARK: - Life

    mutating func start(now: Instant) {
        guard phase == .stopped else { return }
        want(now)
    }

    private mutating func want(_ now: Instant) {
        phase = .opening
        phaseDeadline = now.advanced(byMilliseconds: Self.loginMilliseconds)
        events.append(.connectionWanted)
    }

    package mutating func opened(now: Instant) {
        guard phase == .opening else { return }
        phase = .joining
        phaseDeadline = now.advanced(byMilliseconds: Self.loginMilliseconds)
        lastReceived = now
        input = MQTTStream()
        subscribingCount = 0
        unsubscribingCount = 0
        writeConnect(now)
    }

    package mutating func closed(_ detail: String, now: Instant) {
        switch phase {
        case .stopped, .waiting: break
        case .opening, .joining, .joined: lose(detail, now)
        }
    }

    /// Disconnects; the broker keeps the session.
    mutating func leave(now: Instant) {
        if phase == .joined { send(MQTT.Disconnect(version), now) }
        phase = .stopped
        phaseDeadline = .never
        pingDeadline = .never
    }

    private mutating func lose(_ detail: String, _ now: Instant) {
        if phase == .joined, now.milliseconds(since: connectedAt) >= Self.goodMilliseconds {
            backoff.reset()
        }
        phase = .waiting
        phaseDeadline = now.advanced(byMilliseconds: backoff.nextMilliseconds())
        pingDeadline = .never
        outgoing.removeAll(keepingCapacity: true)
        events.append(.disconnected(detail, retryAt: phaseDeadline))
    }

    mutating func nextEvent() -> ForeignEvent? {
        events.isEmpty ? nil : events.removeFirst()
    }

    // MARK: - Time

    var nextDeadline: Instant {
        min(phaseDeadline, phase == .joined ? keepAliveDeadline : .never)
    }

    private var keepAliveDeadline: Instant {
        if keepAliveMilliseconds == 0 { return .never }
        if pingDeadline != .never { return pingDeadline }
        // Silence of either side counts: a side that only sends would not detect a dead peer.
        return (isReadingPaused ? lastSent : min(lastSent, lastReceived))
            .advanced(byMilliseconds: keepAliveMilliseconds)
    }

    mutating func timePassed(now: Instant) {
        if now >= phaseDeadline {
            switch phase {
            case .waiting: want(now)
            case .opening, .joining: lose("timeout", now)
            case .stopped, .joined: break
            }
        }
        guard phase == .joined, now >= keepAliveDeadline else { return }
        if pingDeadline == .never {
            send(MQTT.Ping(isResponse: false), now)
            if !isReadingPaused {
                pingDeadline = now.advanced(byMilliseconds: keepAliveMilliseconds / 2)
            }
        } else {
            lose("keep-alive-timeout", now)
        }
    }

    // MARK: - What arrives

    mutating func received(_ bytes: UnsafeRawBufferPointer, now: Instant) {
        guard phase == .joining || phase == .joined else { return }
        lastReceived = now
        pingDeadline = .never
        input.append(bytes)
        while phase == .joining || phase == .joined {
            do throws(WireError) {
                switch try input.next(packetMaximum: packetMaximum) {
                case .incomplete: return
                case .packet(let frame, let body): try handle(frame, body: body, now: now)
                case .oversized(let frame, let head): try handleOversized(frame, head)
                }
            } catch {
                lose("\(error.reason.name)", now)
            }
        }
    }

    private mutating func handle(
        _ frame: PacketFrame, body: [UInt8], now: Instant
    ) throws(WireError) {
        let type = try MQTT.PacketType(frame, version, from: .broker)
        guard (type == .connack) == (phase == .joining) else { throw .protocolError }
        let version = version
        switch type {
        case .connack:
            connackReceived(
                try body.decoded { b throws(WireError) in try MQTT.Connack(version, body: b.bytes)
                }, now)
        case .publish:
            let publish = try body.decoded { b throws(WireError) in
                try MQTT.Publish(version, flags: frame.flags, body: b.bytes, from: .broker)
            }
            // The bridge allows no aliases.
            guard publish.topicAlias == 0 else { throw .topicAliasInvalid }
            events.append(.published(Self.message(publish, body)))
        case .puback, .pubrec, .pubrel, .pubcomp:
            let step = MQTT.Acknowledgement.Step(rawValue: type.rawValue)!
            let packet = try body.decoded { b throws(WireError) in
                try MQTT.Acknowledgement(version, step, body: b.bytes)
            }
            events.append(.acknowledged(step, packet.packetIdentifier, packet.reason))
        case .suback:
            let suback = try body.decoded { b throws(WireError) in
                try MQTT.Suback(version, body: b.bytes)
            }
            let codes = body.withUnsafeBytes { Array(suback.codes.bytes(in: $0)) }
            guard suback.packetIdentifier == Self.requestIdentifier, codes.count == subscribingCount
            else { throw .protocolError }
            subscribingCount = 0
            events.append(.subscribed(codes))
        case .unsuback:
            let unsuback = try body.decoded { b throws(WireError) in
                try MQTT.Unsuback(version, body: b.bytes)
            }
            var codes = body.withUnsafeBytes { Array(unsuback.codes.bytes(in: $0)) }
            // 3.1.1 has no codes: UNSUBACK confirms all of them.
            if version != .v5 { codes = Array(repeating: 0, count: unsubscribingCount) }
            guard unsuback.packetIdentifier == Self.requestIdentifier,
                codes.count == unsubscribingCount, unsubscribingCount > 0
            else { throw .protocolError }
            unsubscribingCount = 0
            events.append(.unsubscribed(codes))
        case .pingresp: break
        case .disconnect:
            let packet = try body.decoded { b throws(WireError) in
                try MQTT.Disconnect(version, body: b.bytes, from: .broker)
            }
            lose("\(packet.reason.name)", now)
        case .auth, .connect, .subscribe, .unsubscribe, .pingreq: throw .protocolError
        }
    }

    private mutating func connackReceived(_ connack: MQTT.Connack, _ now: Instant) {
        guard !connack.reason.isFailure else {
            lose("\(connack.reason.name)", now)
            return
        }
        phase = .joined
        phaseDeadline = .never
        connectedAt = now
        keepAliveMilliseconds =
            UInt64(connack.serverKeepAliveSeconds ?? settings.keepAliveSeconds) * 1000
        events.append(
            .connected(
                ForeignTerms(
                    isSessionPresent: connack.isSessionPresent,
                    receiveMaximum: Int(connack.receiveMaximum),
                    packetMaximum: connack.packetMaximum == 0
                        ? .max : Int(connack.packetMaximum),
                    qosMaximum: connack.maximumQoS,
                    isRetainAvailable: connack.isRetainAvailable,
                    takesSubscriptionIdentifiers: version == .v5
                        && connack.isSubscriptionIdentifierAvailable)))
    }

    /// A publication that is too large is skipped, so that it is not sent forever; a broker sends
    /// no other packet of that size.
    private mutating func handleOversized(
        _ frame: PacketFrame, _ head: [UInt8]
    ) throws(WireError) {
        guard phase == .joined,
            try MQTT.PacketType(frame, version, from: .broker) == .publish,
            let qos = MQTT.QoS(rawValue: frame.flags >> 1 & 0x03)
        else { throw .protocolError }
        let topicByteCount = Int(head[0]) << 8 | Int(head[1])
        let identifier = head[(2 + topicByteCount)...]
        let high = UInt16(identifier[identifier.startIndex])
        let low = UInt16(identifier[identifier.startIndex + 1])
        let packetIdentifier = qos == .atMostOnce ? 0 : high << 8 | low
        guard qos == .atMostOnce || packetIdentifier != 0 else { throw .malformed }
        events.append(
            .oversized(
                ForeignMessage(
                    topic: Array(head[2..<2 + topicByteCount]), payload: [], qos: qos,
                    packetIdentifier: packetIdentifier)))
    }

    private static func message(_ publish: MQTT.Publish, _ body: [UInt8]) -> ForeignMessage {
        body.withUnsafeBytes { body in
            ForeignMessage(
                topic: Array(publish.topic.bytes(in: body)),
                payload: Array(publish.payload.bytes(in: body)), qos: publish.qos,
                packetIdentifier: publish.packetIdentifier, isDuplicate: publish.isDuplicate,
                expirySeconds: publish.messageExpirySeconds ?? 0,
                subscriptions: subscriptions(publish.properties, body.bytes))
        }
    }

    private static func subscriptions(
        _ section: MQTT.PropertySection, _ body: RawSpan
    ) -> Set<UInt32> {
        var identifiers: Set<UInt32> = []
        var reader = MQTT.PropertyReader(section, of: .publish, in: body)
        // The section was checked when the packet was read, so no error is possible.
        while let property = try? reader.next() {
            if property.identifier == .subscriptionIdentifier {
                identifiers.insert(property.number)
            }
        }
        return identifiers.isEmpty ? [0] : identifiers
    }

    // MARK: - What leaves

    package mutating func takeOutgoing() -> [UInt8] {
        defer { outgoing = [] }
        return outgoing
    }

    private mutating func send(
        _ packet: some MQTT.Packet, from source: [UInt8] = [], _ now: Instant
    ) {
        // Bytes for a connection that has just ended must not precede the next CONNECT.
        guard phase == .joining || phase == .joined else { return }
        outgoing += bytes(of: packet.encodedByteCount) { writer in
            source.withUnsafeBytes { packet.write(to: &writer, from: $0.bytes) }
        }
        lastSent = now
    }

    private mutating func writeConnect(_ now: Instant) {
        var source: [UInt8] = []
        func range(_ text: String) -> ByteRange {
            let range = ByteRange(offset: source.count, count: text.utf8.count)
            source += text.utf8
            return range
        }
        var connect = MQTT.Connect(version)
        connect.keepAliveSeconds = settings.keepAliveSeconds
        connect.clientIdentifier = range(settings.clientIdentifier)
        connect.userName = settings.user.map(range)
        connect.password = settings.password.map(range)
        connect.sessionExpirySeconds = settings.sessionExpirySeconds
        connect.receiveMaximum = UInt16(settings.inFlightMaximum)
        send(connect, from: source, now)
    }

    /// The size of a publication's packet.
    func byteCount(of message: PreparedPublish) -> Int {
        publish(message, 1, isDuplicate: false).packet.encodedByteCount
    }

    /// - Parameter identifier: 0 if and only if QoS is 0.
    mutating func publish(
        _ message: PreparedPublish, as qos: MQTT.QoS, identifier: UInt16, isDuplicate: Bool,
        now: Instant
    ) {
        var message = message
        message.qos = qos
        let (packet, source) = publish(message, identifier, isDuplicate: isDuplicate)
        send(packet, from: source, now)
    }

    private func publish(
        _ message: PreparedPublish, _ identifier: UInt16, isDuplicate: Bool
    ) -> (packet: MQTT.Publish, source: [UInt8]) {
        let source = message.topic + message.payload + message.properties
        let payload = ByteRange(offset: message.topic.count, count: message.payload.count)
        var packet = MQTT.Publish(
            version, topic: ByteRange(offset: 0, count: message.topic.count), payload: payload,
            qos: message.qos, packetIdentifier: message.qos == .atMostOnce ? 0 : identifier)
        packet.isRetained = message.isRetained
        packet.isDuplicate = isDuplicate && message.qos > .atMostOnce
        if version == .v5 {
            packet.properties = MQTT.PropertySection(
                carried: ByteRange(offset: payload.endOffset, count: message.properties.count))
        }
        return (packet, source)
    }

    mutating func acknowledge(
        _ step: MQTT.Acknowledgement.Step, identifier: UInt16,
        reason: ReasonCode = .success, now: Instant
    ) {
        send(MQTT.Acknowledgement(version, step, identifier: identifier, reason: reason), now)
    }

    /// Subscribes to topics, without the publications of this session itself.
    ///
    /// - Parameter identifier: of these subscriptions; 0 for none.
    mutating func subscribe(
        _ filters: [(text: String, qos: MQTT.QoS)], identifier: UInt32, now: Instant
    ) {
        var source: [UInt8] = []
        for (text, qos) in filters {
            let filter = Array(text.utf8)
            var options = MQTT.SubscriptionOptions(maximumQoS: qos)
            if version == .v5 {
                options.isNoLocal = true
                options.retainHandling = .sendIfNew
            }
            source += [UInt8(filter.count >> 8), UInt8(filter.count & 0xFF)] + filter
            source.append(options.byte)
        }
        var packet = MQTT.Subscribe(
            version, Self.requestIdentifier,
            subscriptions: ByteRange(offset: 0, count: source.count), count: filters.count)
        packet.subscriptionIdentifier = identifier
        send(packet, from: source, now)
        subscribingCount = filters.count
    }

    mutating func unsubscribe(_ filters: [String], now: Instant) {
        var source: [UInt8] = []
        for text in filters {
            let filter = Array(text.utf8)
            source += [UInt8(filter.count >> 8), UInt8(filter.count & 0xFF)] + filter
        }
        send(
            MQTT.Unsubscribe(
                version, Self.requestIdentifier,
                filters: ByteRange(offset: 0, count: source.count), count: filters.count),
            from: source, now)
        unsubscribingCount = filters.count
    }
}

extension [UInt8] {
    /// The error of a decoder for these bytes.
    func decoded<Packet>(
        _ decode: (UnsafeRawBufferPointer) throws(WireError) -> Packet
    ) throws(WireError) -> Packet {
        try withUnsafeBytes { bytes in
            Result { () throws(WireError) in try decode(bytes) }
        }.get()
    }
}
