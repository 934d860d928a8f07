// CONNECT, the client's first packet, with its will.
//
//     | 00 04 'M' 'Q' 'T' 'T' | level | connect flags | keep-alive s, 2 | properties (5.0) |
//     | client id | will: properties (5.0), topic, payload | user name | password |
//     connect flags  7: user name  6: password  5: will retain  4-3: will QoS  2: will
//                    1: clean start (3.1.1: clean session)  0: reserved

import Primitives

extension MQTT {
    /// A message that the broker sends when the client is lost.
    public struct Will: Hashable, Sendable {
        public var qos: QoS
        public var isRetained: Bool
        /// Seconds between the loss and the message.
        public var delaySeconds: UInt32 = 0
        /// Seconds the message is worth delivering; nil for ever.
        public var messageExpirySeconds: UInt32?
        /// What the message carries along.
        public var properties = PropertySection.empty
        public var topic: ByteRange
        public var payload: ByteRange

        public init(
            topic: ByteRange, payload: ByteRange, qos: QoS = .atMostOnce, isRetained: Bool = false
        ) {
            self.topic = topic
            self.payload = payload
            self.qos = qos
            self.isRetained = isRetained
        }
    }

    public struct Connect: Hashable, Sendable, Packet {
        public var version: Version
        /// Forget the session there is. In 3.1 and 3.1.1 also: forget this one at its end.
        public var isCleanStart = false
        /// Seconds; 0 asks for none.
        public var keepAliveSeconds: UInt16 = 0
        public var clientIdentifier = ByteRange.empty
        public var will: Will?
        public var userName: ByteRange?
        public var password: ByteRange?

        // In 5.0 only.
        /// Seconds the session outlives its connection; 0xFFFFFFFF for ever.
        public var sessionExpirySeconds: UInt32 = 0
        /// Publications of QoS 1 and 2 that the client takes at a time; not 0.
        public var receiveMaximum = UInt16.max
        /// Bytes of the largest packet the client takes; 0 for any.
        public var packetMaximum: UInt32 = 0
        /// The highest topic alias the client takes; 0 for none.
        public var topicAliasMaximum: UInt16 = 0
        public var requestsResponseInformation = false
        /// Without it, reason strings and user properties may come only in PUBLISH, CONNACK and
        /// DISCONNECT [MQTT-3.1.2-29].
        public var requestsProblemInformation = true
        public var authenticationMethod: ByteRange?
        public var authenticationData: ByteRange?
        public var properties = PropertySection.empty

        public init(_ version: Version) {
            self.version = version
        }

        private enum Flag {
            static let reserved: UInt8 = 0x01
            static let cleanStart: UInt8 = 0x02
            static let will: UInt8 = 0x04
            static let willRetain: UInt8 = 0x20
            static let password: UInt8 = 0x40
            static let userName: UInt8 = 0x80
            static let willQoSShift: UInt8 = 3
        }

        /// Decodes the body of a CONNECT, name and level included.
        public init(body: RawSpan) throws(WireError) {
            // [MQTT-3.1.2-1], [MQTT-3.1.2-2]
            guard let version = Version(try ProtocolName.read(body)) else {
                throw .unsupportedVersion
            }
            self.version = version
            var reader = PacketReader(body)
            _ = try reader.readBinary()
            _ = try reader.readByte()
            let flags = try reader.readByte()
            // [MQTT-3.1.2-3]. 3.1 leaves the bit unused and does not say that it is 0.
            guard flags & Flag.reserved == 0 || version == .v31 else { throw .malformed }
            isCleanStart = flags & Flag.cleanStart != 0
            keepAliveSeconds = try reader.readUInt16()
            if version == .v5 { try readProperties(&reader) }
            clientIdentifier = try reader.readText()
            try readWill(&reader, flags)
            try readCredentials(&reader, flags)
            try reader.expectEnd()
            // [MQTT-3.1.3-8] of 3.1.1. In 5.0 the broker makes up an id, whatever is asked for.
            guard !clientIdentifier.isEmpty || isCleanStart || version == .v5 else {
                throw .clientIdentifierNotValid
            }
        }

        private mutating func readProperties(_ reader: inout PacketReader) throws(WireError) {
            var section = try PropertyReader(&reader, of: .connect)
            while let property = try section.next() {
                switch property.identifier {
                case .sessionExpiryInterval: sessionExpirySeconds = property.number
                case .receiveMaximum: receiveMaximum = UInt16(property.number)
                case .maximumPacketSize: packetMaximum = property.number
                case .topicAliasMaximum: topicAliasMaximum = UInt16(property.number)
                case .requestResponseInformation:
                    requestsResponseInformation = property.number == 1
                case .requestProblemInformation:
                    requestsProblemInformation = property.number == 1
                case .authenticationMethod: authenticationMethod = property.text
                case .authenticationData: authenticationData = property.text
                default: break
                }
            }
            properties = section.section
            // Data without a method is a protocol error (section 3.1.2.11.10).
            guard authenticationData == nil || authenticationMethod != nil else {
                throw .protocolError
            }
        }

        private mutating func readWill(
            _ reader: inout PacketReader, _ flags: UInt8
        ) throws(WireError) {
            let qosBits = flags >> Flag.willQoSShift & 0x03
            let isRetained = flags & Flag.willRetain != 0
            guard flags & Flag.will != 0 else {
                // [MQTT-3.1.2-11], [MQTT-3.1.2-13]; in 3.1.1 [MQTT-3.1.2-13], [MQTT-3.1.2-15].
                guard qosBits == 0, !isRetained else { throw .malformed }
                return
            }
            // [MQTT-3.1.2-12]; in 3.1.1 [MQTT-3.1.2-14].
            guard let qos = QoS(rawValue: qosBits) else { throw .malformed }
            var will = Will(topic: .empty, payload: .empty, qos: qos, isRetained: isRetained)
            if version == .v5 {
                var section = try PropertyReader(&reader, of: .will)
                while let property = try section.next() {
                    switch property.identifier {
                    case .willDelayInterval: will.delaySeconds = property.number
                    case .messageExpiryInterval: will.messageExpirySeconds = property.number
                    default: break
                    }
                }
                will.properties = section.section
            }
            // [MQTT-3.1.3-11]; in 3.1.1 [MQTT-3.1.3-10].
            will.topic = try reader.readTopicName()
            will.payload = try reader.readBinary()
            self.will = will
        }

        private mutating func readCredentials(
            _ reader: inout PacketReader, _ flags: UInt8
        ) throws(WireError) {
            let hasUserName = flags & Flag.userName != 0
            let hasPassword = flags & Flag.password != 0
            // [MQTT-3.1.2-22] of 3.1.1. 5.0 allows a password alone (section 3.1.2.9).
            guard hasUserName || !hasPassword || version == .v5 else { throw .malformed }
            // [MQTT-3.1.3-12]; in 3.1.1 [MQTT-3.1.3-11].
            if hasUserName { userName = try reader.readText() }
            if hasPassword { password = try reader.readBinary() }
        }

        public var typeAndFlags: UInt8 { PacketType.connect.firstByte }

        private var name: StaticString { version == .v31 ? "MQIsdp" : "MQTT" }

        public var bodyByteCount: Int {
            var count = 2 + name.utf8CodeUnitCount + 1 + 1 + 2
            if version == .v5 { count += propertySectionByteCount }
            count += clientIdentifier.string16ByteCount
            if let will {
                if version == .v5 { count += will.propertySectionByteCount }
                count += will.topic.string16ByteCount + will.payload.string16ByteCount
            }
            if let userName { count += userName.string16ByteCount }
            if let password { count += password.string16ByteCount }
            return count
        }

        private var connectFlags: UInt8 {
            var flags: UInt8 = isCleanStart ? Flag.cleanStart : 0
            if let will {
                flags |= Flag.will | will.qos.rawValue << Flag.willQoSShift
                if will.isRetained { flags |= Flag.willRetain }
            }
            if userName != nil { flags |= Flag.userName }
            if password != nil { flags |= Flag.password }
            return flags
        }

        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(string16: name.utf8Bytes)
            writer.write(byte: version.rawValue)
            writer.write(byte: connectFlags)
            writer.write(uint16: keepAliveSeconds)
            if version == .v5 { writePropertySection(to: &writer, from: source) }
            writer.write(string16: clientIdentifier.bytes(in: source))
            if let will {
                if version == .v5 { will.writePropertySection(to: &writer, from: source) }
                writer.write(string16: will.topic.bytes(in: source))
                writer.write(string16: will.payload.bytes(in: source))
            }
            if let userName { writer.write(string16: userName.bytes(in: source)) }
            if let password { writer.write(string16: password.bytes(in: source)) }
        }
    }
}

extension MQTT.Connect: MQTT.PacketWithProperties {
    func putProperties(into sink: inout some MQTT.PropertySink & ~Copyable & ~Escapable) {
        sink.put(.sessionExpiryInterval, sessionExpirySeconds, default: 0 as UInt32)
        sink.put(.receiveMaximum, receiveMaximum, default: UInt16.max)
        sink.put(.maximumPacketSize, packetMaximum, default: 0 as UInt32)
        sink.put(.topicAliasMaximum, topicAliasMaximum, default: 0 as UInt16)
        sink.put(.requestResponseInformation, requestsResponseInformation, default: false)
        sink.put(.requestProblemInformation, requestsProblemInformation, default: true)
        sink.put(.authenticationMethod, authenticationMethod)
        sink.put(.authenticationData, authenticationData)
        sink.put(properties, of: .connect)
    }
}

extension MQTT.Will: MQTT.PacketWithProperties {
    func putProperties(into sink: inout some MQTT.PropertySink & ~Copyable & ~Escapable) {
        sink.put(.willDelayInterval, delaySeconds, default: 0 as UInt32)
        if let messageExpirySeconds { sink.put(.messageExpiryInterval, messageExpirySeconds) }
        sink.put(properties, of: .will)
    }
}
