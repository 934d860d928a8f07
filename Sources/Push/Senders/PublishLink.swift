// The client's half of MQTT for a program that only publishes with QoS 1: bytes go in and come out.
// It opens no socket. The broker keeps no session: what is not acknowledged is published again.

import BrokerTerms
import MartletClient
import Primitives
import WireFormat

struct PublishLink {
    enum Event: Equatable {
        case connected
        /// The broker has answered a publication.
        case acknowledged(tag: UInt64, ReasonCode)
        /// The connection is of no use any more.
        case refused(String)
    }

    private let settings: MQTTSettings
    private let version: MQTT.Version
    private var input: [UInt8] = []
    private(set) var isConnected = false
    private var nextIdentifier: UInt16 = 1
    private(set) var tags: [UInt16: UInt64] = [:]

    /// The broker sends only short packets.
    private static let packetMaximum = 64 << 10

    init(_ settings: MQTTSettings) {
        self.settings = settings
        version = settings.isVersion5 ? .v5 : .v311
    }

    /// The first packet of a connection.
    func connectPacket() -> [UInt8] {
        var source: [UInt8] = []
        func range(_ text: String) -> ByteRange {
            let range = ByteRange(offset: source.count, count: text.utf8.count)
            source += text.utf8
            return range
        }
        var connect = MQTT.Connect(version)
        connect.isCleanStart = true
        connect.keepAliveSeconds = settings.keepAliveSeconds
        connect.clientIdentifier = range(settings.clientIdentifier)
        connect.userName = settings.user.map(range)
        connect.password = settings.password.map(range)
        return Self.encoded(connect, from: source)
    }

    /// A publication; nil while there is no room for one.
    ///
    /// - Parameter tag: the answer has it.
    mutating func publish(
        topic: String, _ payload: [UInt8], expirySeconds: UInt32, tag: UInt64
    ) -> [UInt8]? {
        guard isConnected, tags.count < PushLimits.publicationsMaximum else { return nil }
        while tags[nextIdentifier] != nil || nextIdentifier == 0 { nextIdentifier &+= 1 }
        tags[nextIdentifier] = tag
        let topic = Array(topic.utf8)
        var packet = MQTT.Publish(
            version, topic: ByteRange(offset: 0, count: topic.count),
            payload: ByteRange(offset: topic.count, count: payload.count), qos: .atLeastOnce,
            packetIdentifier: nextIdentifier)
        if version == .v5 { packet.messageExpirySeconds = expirySeconds }
        nextIdentifier &+= 1
        return Self.encoded(packet, from: topic + payload)
    }

    /// The last packet of a connection.
    func disconnectPacket() -> [UInt8] { Self.encoded(MQTT.Disconnect(version), from: []) }

    private static func encoded(_ packet: some MQTT.Packet, from source: [UInt8]) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: packet.encodedByteCount)
        bytes.withUnsafeMutableBytes { room in
            var writer = PacketWriter(room.mutableBytes)
            source.withUnsafeBytes { packet.write(to: &writer, from: $0.bytes) }
        }
        return bytes
    }

    /// Bytes of the broker.
    mutating func received(_ bytes: some Sequence<UInt8>) -> [Event] {
        input += bytes
        var events: [Event] = []
        while true {
            let step = input.withUnsafeBytes {
                PacketFrame.next(in: $0.bytes, at: 0, packetMaximum: Self.packetMaximum)
            }
            switch step {
            case .incomplete: return events
            case .malformed, .tooLarge: return events + [.refused("malformed")]
            case .packet(let frame):
                let body = Array(input[Int(frame.body.offset)..<frame.endOffset])
                input.removeFirst(frame.endOffset)
                do throws(WireError) {
                    if let event = try read(frame, body) { events.append(event) }
                } catch {
                    return events + [.refused("\(error.reason.name)")]
                }
            }
        }
    }

    private mutating func read(
        _ frame: PacketFrame, _ body: [UInt8]
    ) throws(WireError) -> Event? {
        let type = try MQTT.PacketType(frame, version, from: .broker)
        switch type {
        case .connack:
            let connack = try MQTT.Connack(version, body: body.span.bytes)
            guard !isConnected else { throw .protocolError }
            guard !connack.reason.isFailure else { return .refused("\(connack.reason.name)") }
            isConnected = true
            return .connected
        case .puback:
            let packet = try MQTT.Acknowledgement(version, .puback, body: body.span.bytes)
            guard let tag = tags.removeValue(forKey: packet.packetIdentifier) else { return nil }
            return .acknowledged(tag: tag, packet.reason)
        case .disconnect:
            let packet = try MQTT.Disconnect(version, body: body.span.bytes, from: .broker)
            return .refused("\(packet.reason.name)")
        case .pingresp: return nil
        default: throw .protocolError
        }
    }
}
