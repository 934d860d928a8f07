// An MQTT client for tests that state exactly what is on the wire: every step of an exchange is a
// call, and nothing is answered automatically.

import WireFormat

/// One connection that speaks MQTT in one version.
final class MQTTPeer {
    let wire: WireClient
    let version: MQTT.Version
    private var lastIdentifier: UInt16 = 0

    /// Opens a connection and says nothing yet.
    init(_ version: MQTT.Version, port: UInt16) throws {
        wire = try WireClient(port: port)
        self.version = version
    }

    /// Opens a connection to the suite's broker.
    convenience init(_ version: MQTT.Version) throws {
        try self.init(version, port: SharedBroker.current!.port)
    }

    /// Opens a connection to the suite's broker and logs in.
    convenience init(
        _ version: MQTT.Version, _ clientIdentifier: String, _ options: ConnectOptions = .init()
    ) throws {
        try self.init(version)
        let connack = try connect(clientIdentifier, options)
        guard connack.code == 0 else { throw TestFailure("CONNACK with \(connack.code)") }
    }

    // MARK: - CONNECT

    /// What a CONNECT says beside the client id.
    struct ConnectOptions {
        var isClean = true
        var keepAlive: UInt16 = 0
        var will: Will?
        var userName: String?
        var password: String?
        var properties: [MQTTProperty] = []
        /// Instead of those that follow from the fields.
        var flags: UInt8?
    }

    struct Will {
        var topic: String
        var payload = "gone"
        var qos: UInt8 = 0
        var isRetained = false
        var properties: [MQTTProperty] = []
    }

    struct Connack: Equatable {
        var flags: UInt8
        var code: UInt8
        var properties: [MQTTProperty]

        var isSessionPresent: Bool { flags == 1 }
    }

    static func connectBytes(
        _ version: MQTT.Version, _ clientIdentifier: String, _ options: ConnectOptions
    ) -> [UInt8] {
        var flags: UInt8 = options.isClean ? 0x02 : 0
        var payload = MQTTBytes.text(clientIdentifier)
        if let will = options.will {
            flags |= 0x04 | will.qos << 3 | (will.isRetained ? 0x20 : 0)
            payload += MQTTBytes.section(will.properties, version)
            payload += MQTTBytes.text(will.topic) + MQTTBytes.text(will.payload)
        }
        if let name = options.userName {
            flags |= 0x80
            payload += MQTTBytes.text(name)
        }
        if let password = options.password {
            flags |= 0x40
            payload += MQTTBytes.text(password)
        }
        let name = version == .v31 ? "MQIsdp" : "MQTT"
        return MQTTBytes.packet(
            0x10,
            MQTTBytes.text(name) + [version.rawValue, options.flags ?? flags]
                + MQTTBytes.number(options.keepAlive)
                + MQTTBytes.section(options.properties, version) + payload)
    }

    /// Sends CONNECT and takes the CONNACK.
    func connect(
        _ clientIdentifier: String, _ options: ConnectOptions = ConnectOptions()
    ) throws -> Connack {
        try wire.send(Self.connectBytes(version, clientIdentifier, options))
        return try nextConnack()
    }

    func nextConnack() throws -> Connack {
        var body = MQTTByteReader(try next(0x20))
        return Connack(
            flags: try body.byte(), code: try body.byte(),
            properties: try body.properties(version))
    }

    // MARK: - Packets

    struct Packet: Equatable, CustomStringConvertible {
        var firstByte: UInt8
        var body: [UInt8]

        var description: String {
            ([firstByte] + body).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
    }

    func send(_ firstByte: UInt8, _ body: [UInt8]) throws {
        try wire.send(MQTTBytes.packet(firstByte, body))
    }

    func next() throws -> Packet {
        let packet = try wire.nextPacket()
        return Packet(firstByte: packet.type << 4 | packet.flags, body: packet.body)
    }

    /// The body of the next packet, which must begin with this byte.
    func next(_ firstByte: UInt8) throws -> [UInt8] {
        let packet = try next()
        guard packet.firstByte == firstByte else {
            throw TestFailure("\(packet) in place of 0x\(String(firstByte, radix: 16))")
        }
        return packet.body
    }

    /// A packet that is nothing but a packet identifier and, in 5.0, a reason.
    func next(_ firstByte: UInt8, identifier: UInt16) throws -> UInt8 {
        var body = MQTTByteReader(try next(firstByte))
        let answered = try body.number()
        guard answered == identifier else {
            throw TestFailure("an answer to \(answered) in place of \(identifier)")
        }
        if body.rest.isEmpty { return 0 }
        return try body.byte()
    }

    func makeIdentifier() -> UInt16 {
        lastIdentifier += 1
        return lastIdentifier
    }

    /// Everything that the broker had to say is here, in order: nothing but a PINGRESP comes.
    func expectSilence() throws {
        try send(0xC0, [])
        let packet = try next()
        if packet != Packet(firstByte: 0xD0, body: []) {
            throw TestFailure("\(packet) where nothing should come")
        }
    }

    /// The broker ends the connection; in 5.0 its DISCONNECT may come first.
    ///
    /// - Returns: the reason of that DISCONNECT, if any.
    @discardableResult
    func expectClose() throws -> UInt8? {
        try wire.waitForClose()
        var rest = MQTTByteReader(wire.untaken)
        guard !rest.rest.isEmpty else { return nil }
        guard version == .v5, try rest.byte() == 0xE0 else {
            throw TestFailure("\(wire.untaken) before the end")
        }
        guard try rest.length() > 0 else { return 0 }
        return try rest.byte()
    }

    /// Leaves as a client should.
    func disconnect(reason: UInt8 = 0, _ properties: [MQTTProperty] = []) throws {
        let isPlain = version < .v5 || (reason == 0 && properties.isEmpty)
        try send(0xE0, isPlain ? [] : [reason] + MQTTBytes.section(properties, version))
        try wire.waitForClose()
    }

    /// Goes away without a word.
    func drop() { wire.close() }
}

// MARK: - Messages

extension MQTTPeer {
    struct Message: Equatable {
        var topic: String
        var payload: String
        var qos: UInt8 = 0
        var isRetained = false
        var isDuplicate = false
        var identifier: UInt16 = 0
        var properties: [MQTTProperty] = []
    }

    func sendPublish(
        _ topic: String, _ payload: String, qos: UInt8 = 0, isRetained: Bool = false,
        isDuplicate: Bool = false, identifier: UInt16 = 0, _ properties: [MQTTProperty] = []
    ) throws {
        try wire.send(
            publishBytes(
                topic, payload, qos: qos, isRetained: isRetained, isDuplicate: isDuplicate,
                identifier: identifier, properties))
    }

    func publishBytes(
        _ topic: String, _ payload: String, qos: UInt8 = 0, isRetained: Bool = false,
        isDuplicate: Bool = false, identifier: UInt16 = 0, _ properties: [MQTTProperty] = []
    ) -> [UInt8] {
        MQTTBytes.packet(
            0x30 | (isDuplicate ? 8 : 0) | qos << 1 | (isRetained ? 1 : 0),
            MQTTBytes.text(topic) + (qos > 0 ? MQTTBytes.number(identifier) : [])
                + MQTTBytes.section(properties, version) + Array(payload.utf8))
    }

    /// Publishes and goes through the whole exchange.
    ///
    /// - Returns: the reason in PUBACK or PUBREC.
    @discardableResult
    func publish(
        _ topic: String, _ payload: String, qos: UInt8, isRetained: Bool = false,
        _ properties: [MQTTProperty] = []
    ) throws -> UInt8 {
        let identifier = qos > 0 ? makeIdentifier() : 0
        try sendPublish(
            topic, payload, qos: qos, isRetained: isRetained, identifier: identifier, properties)
        switch qos {
        case 0:
            // What comes after it on this connection is behind it in the broker.
            try expectSilence()
            return 0
        case 1:
            return try next(0x40, identifier: identifier)
        default:
            let reason = try next(0x50, identifier: identifier)
            if reason < 0x80 {
                try answer(0x62, identifier)
                guard try next(0x70, identifier: identifier) == 0 else {
                    throw TestFailure("PUBCOMP with a failure")
                }
            }
            return reason
        }
    }

    /// Sends an acknowledgement of any kind.
    func answer(_ firstByte: UInt8, _ identifier: UInt16, reason: UInt8? = nil) throws {
        try send(firstByte, MQTTBytes.number(identifier) + (reason.map { [$0] } ?? []))
    }

    /// The next packet, which must be a PUBLISH. Nothing is answered.
    func nextMessage() throws -> Message { try message(try next()) }

    /// A packet as a message.
    func message(_ packet: Packet) throws -> Message {
        guard packet.firstByte >> 4 == 3 else {
            throw TestFailure("\(packet) in place of a PUBLISH")
        }
        var body = MQTTByteReader(packet.body)
        let qos = packet.firstByte >> 1 & 3
        return Message(
            topic: try body.text(),
            qos: qos, isRetained: packet.firstByte & 1 != 0,
            isDuplicate: packet.firstByte & 8 != 0,
            identifier: qos > 0 ? try body.number() : 0,
            properties: try body.properties(version),
            rest: body.rest)
    }

    /// The next message, acknowledged as its QoS demands.
    @discardableResult
    func takeMessage() throws -> Message {
        let message = try nextMessage()
        try acknowledge(message)
        return message
    }

    func acknowledge(_ message: Message) throws {
        switch message.qos {
        case 0: break
        case 1: try answer(0x40, message.identifier)
        default:
            try answer(0x50, message.identifier)
            // It is known to the broker until this exchange is over.
            guard try next(0x62, identifier: message.identifier) == 0 else {
                throw TestFailure("PUBREL with a failure")
            }
            try answer(0x70, message.identifier)
        }
    }

    // MARK: - Subscriptions

    /// Subscribes to filters with options as they are on the wire.
    ///
    /// - Returns: the codes of the SUBACK.
    @discardableResult
    func subscribe(
        _ filters: (String, UInt8)..., properties: [MQTTProperty] = []
    ) throws -> [UInt8] {
        let identifier = makeIdentifier()
        try sendSubscribe(filters, identifier: identifier, properties)
        return try nextCodes(0x90, identifier)
    }

    func sendSubscribe(
        _ filters: [(String, UInt8)], identifier: UInt16, _ properties: [MQTTProperty] = []
    ) throws {
        try send(
            0x82,
            MQTTBytes.number(identifier) + MQTTBytes.section(properties, version)
                + filters.flatMap { MQTTBytes.text($0.0) + [$0.1] })
    }

    /// - Returns: the codes of the UNSUBACK; none before 5.0.
    @discardableResult
    func unsubscribe(_ filters: String...) throws -> [UInt8] {
        let identifier = makeIdentifier()
        try send(
            0xA2,
            MQTTBytes.number(identifier) + MQTTBytes.section([], version)
                + filters.flatMap(MQTTBytes.text))
        return try nextCodes(0xB0, identifier)
    }

    func nextCodes(_ firstByte: UInt8, _ identifier: UInt16) throws -> [UInt8] {
        var body = MQTTByteReader(try next(firstByte))
        guard try body.number() == identifier else {
            throw TestFailure("an answer to another request")
        }
        _ = try body.properties(version)
        return Array(body.rest)
    }
}

extension MQTTPeer.Message {
    fileprivate init(
        topic: String, qos: UInt8, isRetained: Bool, isDuplicate: Bool, identifier: UInt16,
        properties: [MQTTProperty], rest: ArraySlice<UInt8>
    ) {
        self.init(
            topic: topic, payload: String(decoding: rest, as: UTF8.self), qos: qos,
            isRetained: isRetained, isDuplicate: isDuplicate, identifier: identifier,
            properties: properties)
    }
}
