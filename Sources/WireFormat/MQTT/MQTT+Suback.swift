// SUBACK and UNSUBACK: one code for each filter, in the order of the filters [MQTT-3.9.3-1],
// [MQTT-3.11.3-1].
//
//     SUBACK    | packet identifier | properties (5.0) | code | code | ...
//     UNSUBACK  | packet identifier | in 5.0: properties | code | code | ...

import BrokerTerms
import Primitives

extension MQTT {
    public struct Suback: Hashable, Sendable, Packet {
        public var version: Version
        public var packetIdentifier: UInt16
        public var reasonString: ByteRange?
        public var properties = PropertySection.empty
        /// One byte for each filter: the granted QoS, or a failure, which before 5.0 is 0x80.
        public var codes: ByteRange

        public init(_ version: Version, _ packetIdentifier: UInt16, codes: ByteRange) {
            self.version = version
            self.packetIdentifier = packetIdentifier
            self.codes = codes
        }

        public init(_ version: Version, body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            self.init(version, try reader.readPacketIdentifier(), codes: .empty)
            if version == .v5 {
                (reasonString, properties) = try readAnswerProperties(&reader, .suback)
            }
            // As many as there were filters [MQTT-3.8.4-6], and so not none.
            guard !reader.isAtEnd else { throw .protocolError }
            codes = reader.readRest()
            for offset in codes.offsets {
                let code = body[offset]
                // [MQTT-3.9.3-2]
                guard QoS(rawValue: code) != nil || Suback.isFailure(code, version) else {
                    throw .protocolError
                }
            }
        }

        /// The only failure before 5.0.
        public static let failureCode: UInt8 = 0x80

        private static func isFailure(_ code: UInt8, _ version: Version) -> Bool {
            version == .v5 ? ReasonCode(rawValue: code)?.isInSuback == true : code == failureCode
        }

        public var typeAndFlags: UInt8 { PacketType.suback.firstByte }
        public var bodyByteCount: Int {
            2 + (version == .v5 ? propertySectionByteCount : 0) + Int(codes.count)
        }
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(uint16: packetIdentifier)
            if version == .v5 { writePropertySection(to: &writer, from: source) }
            writer.write(bytes: codes.bytes(in: source))
        }
    }

    public struct Unsuback: Hashable, Sendable, Packet {
        public var version: Version
        public var packetIdentifier: UInt16
        public var reasonString: ByteRange?
        public var properties = PropertySection.empty
        /// In 5.0 one byte for each filter; before, nothing.
        public var codes: ByteRange

        public init(_ version: Version, _ packetIdentifier: UInt16, codes: ByteRange = .empty) {
            self.version = version
            self.packetIdentifier = packetIdentifier
            self.codes = codes
        }

        public init(_ version: Version, body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            self.init(version, try reader.readPacketIdentifier())
            if version == .v5 {
                (reasonString, properties) = try readAnswerProperties(&reader, .unsuback)
                guard !reader.isAtEnd else { throw .protocolError }
                codes = reader.readRest()
                for offset in codes.offsets {
                    let code = body[offset]
                    // [MQTT-3.11.3-2]
                    guard ReasonCode(rawValue: code)?.isInUnsuback == true else {
                        throw .protocolError
                    }
                }
            }
            try reader.expectEnd()
        }

        public var typeAndFlags: UInt8 { PacketType.unsuback.firstByte }
        public var bodyByteCount: Int {
            2 + (version == .v5 ? propertySectionByteCount + Int(codes.count) : 0)
        }
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(uint16: packetIdentifier)
            guard version == .v5 else { return }
            writePropertySection(to: &writer, from: source)
            writer.write(bytes: codes.bytes(in: source))
        }
    }

    /// The properties of an answer that has a reason string and user properties.
    fileprivate static func readAnswerProperties(
        _ reader: inout PacketReader, _ type: PacketType
    ) throws(WireError) -> (reasonString: ByteRange?, PropertySection) {
        var reasonString: ByteRange?
        var section = try PropertyReader(&reader, of: PropertyOwner(type))
        while let property = try section.next() {
            if property.identifier == .reasonString { reasonString = property.text }
        }
        return (reasonString, section.section)
    }
}

extension MQTT.Suback: MQTT.PacketWithProperties {
    func putProperties(into sink: inout some MQTT.PropertySink & ~Copyable & ~Escapable) {
        sink.put(.reasonString, reasonString)
        sink.put(properties, of: MQTT.PropertyOwner(.suback))
    }
}

extension MQTT.Unsuback: MQTT.PacketWithProperties {
    func putProperties(into sink: inout some MQTT.PropertySink & ~Copyable & ~Escapable) {
        sink.put(.reasonString, reasonString)
        sink.put(properties, of: MQTT.PropertyOwner(.unsuback))
    }
}
