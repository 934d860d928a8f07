// PUBLISH, a message in either direction.
//
//     flags  3: duplicate   2-1: QoS   0: retain
//     | topic | packet identifier (QoS > 0) | properties (5.0) | payload |

import Primitives

extension MQTT {
    public struct Publish: Hashable, Sendable, Packet {
        public var version: Version
        /// An earlier attempt may have arrived; never with QoS 0.
        public var isDuplicate = false
        public var qos: QoS
        public var isRetained = false
        /// Empty only where a topic alias stands for it.
        public var topic: ByteRange
        /// 0 exactly with QoS 0.
        public var packetIdentifier: UInt16
        public var payload: ByteRange

        // In 5.0 only.
        /// Seconds the message is worth delivering; nil for ever.
        public var messageExpirySeconds: UInt32?
        /// A number for the topic on this connection; 0 for none.
        public var topicAlias: UInt16 = 0
        /// What the message carries along, and the subscription identifiers that a broker adds.
        public var properties = PropertySection.empty

        @inlinable
        public init(
            _ version: Version, topic: ByteRange, payload: ByteRange, qos: QoS = .atMostOnce,
            packetIdentifier: UInt16 = 0
        ) {
            self.version = version
            self.topic = topic
            self.payload = payload
            self.qos = qos
            self.packetIdentifier = packetIdentifier
        }

        @usableFromInline
        enum Flag {
            @usableFromInline static var retain: UInt8 { 0x01 }
            @usableFromInline static var duplicate: UInt8 { 0x08 }
            @usableFromInline static var qosShift: UInt8 { 1 }
        }

        /// Decodes what `peer` sent.
        @inlinable
        public init(
            _ version: Version, flags: UInt8, body: RawSpan, from peer: Peer
        ) throws(WireError) {
            // [MQTT-3.3.1-4]
            guard let qos = QoS(rawValue: flags >> Flag.qosShift & 0x03) else { throw .malformed }
            var reader = PacketReader(body)
            self.version = version
            self.qos = qos
            isRetained = flags & Flag.retain != 0
            isDuplicate = flags & Flag.duplicate != 0
            // [MQTT-3.3.1-2]. 3.1 gives DUP no meaning there and does not forbid it.
            guard qos != .atMostOnce || !isDuplicate || version == .v31 else { throw .malformed }
            payload = .empty
            packetIdentifier = 0
            // [MQTT-3.3.2-1]
            topic = try reader.readText()
            // [MQTT-2.2.1-2]
            if qos != .atMostOnce { packetIdentifier = try reader.readPacketIdentifier() }
            if version == .v5 { try readProperties(&reader, from: peer) }
            // [MQTT-3.3.2-2]
            guard !MQTT.hasWildcard(topic.bytes(in: body)) else { throw .topicNameInvalid }
            if topic.isEmpty {
                // [MQTT-4.7.3-1]; without an alias 5.0 calls it a protocol error (section
                // 3.3.2.1).
                guard version == .v5 else { throw .topicNameInvalid }
                guard topicAlias != 0 else { throw .protocolError }
            }
            payload = reader.readRest()
        }

        @usableFromInline
        mutating func readProperties(
            _ reader: inout PacketReader, from peer: Peer
        ) throws(WireError) {
            var section = try PropertyReader(&reader, of: .publish)
            while let property = try section.next() {
                switch property.identifier {
                case .messageExpiryInterval: messageExpirySeconds = property.number
                case .topicAlias: topicAlias = UInt16(property.number)
                case .subscriptionIdentifier:
                    // [MQTT-3.3.4-6]
                    guard peer == .broker else { throw .protocolError }
                default: break
                }
            }
            properties = section.section
        }

        @inlinable
        public var typeAndFlags: UInt8 {
            PacketType.publish.rawValue << 4 | qos.rawValue << Flag.qosShift
                | (isRetained ? Flag.retain : 0) | (isDuplicate ? Flag.duplicate : 0)
        }

        public var bodyByteCount: Int {
            topic.string16ByteCount + (qos == .atMostOnce ? 0 : 2)
                + (version == .v5 ? propertySectionByteCount : 0) + Int(payload.count)
        }

        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            precondition(
                (qos == .atMostOnce) == (packetIdentifier == 0),
                "packet identifier \(packetIdentifier) with QoS \(qos.rawValue)")
            writer.write(string16: topic.bytes(in: source))
            if packetIdentifier != 0 { writer.write(uint16: packetIdentifier) }
            if version == .v5 { writePropertySection(to: &writer, from: source) }
            writer.write(bytes: payload.bytes(in: source))
        }
    }
}

extension MQTT.Publish: MQTT.PacketWithProperties {
    func putProperties(into sink: inout some MQTT.PropertySink & ~Copyable & ~Escapable) {
        if let messageExpirySeconds { sink.put(.messageExpiryInterval, messageExpirySeconds) }
        sink.put(.topicAlias, topicAlias, default: 0 as UInt16)
        sink.put(properties, of: .publish)
    }
}
