// PUBACK, PUBREC, PUBREL and PUBCOMP: one layout for all four.
//
//     | packet identifier | reason (5.0, absent for success) | properties (5.0, may be absent) |

import BrokerTerms
import Primitives

extension MQTT {
    public struct Acknowledgement: Hashable, Sendable, Packet {
        /// Which of the four.
        public enum Step: UInt8, Hashable, Sendable {
            case puback = 4
            case pubrec = 5
            case pubrel = 6
            case pubcomp = 7

            @inlinable
            public var type: PacketType {
                switch self {
                case .puback: .puback
                case .pubrec: .pubrec
                case .pubrel: .pubrel
                case .pubcomp: .pubcomp
                }
            }
        }

        public var version: Version
        public var step: Step
        public var packetIdentifier: UInt16
        /// On the wire in 5.0 only.
        public var reason: ReasonCode
        public var reasonString: ByteRange?
        public var properties = PropertySection.empty

        @inlinable
        public init(
            _ version: Version, _ step: Step, identifier packetIdentifier: UInt16,
            reason: ReasonCode = .success
        ) {
            self.version = version
            self.step = step
            self.packetIdentifier = packetIdentifier
            self.reason = reason
        }

        @inlinable
        public init(
            _ version: Version, _ step: Step, body: RawSpan
        ) throws(WireError) {
            var reader = PacketReader(body)
            self.init(version, step, identifier: try reader.readPacketIdentifier())
            // Two bytes are the whole packet before 5.0, and success in 5.0.
            if version == .v5, !reader.isAtEnd { try readReason(&reader) }
            try reader.expectEnd()
        }

        @usableFromInline
        mutating func readReason(_ reader: inout PacketReader) throws(WireError) {
            guard let reason = ReasonCode(rawValue: try reader.readByte()) else {
                throw .protocolError
            }
            switch step {
            case .puback, .pubrec: guard reason.isInPublishAnswer else { throw .protocolError }
            case .pubrel, .pubcomp: guard reason.isInRelease else { throw .protocolError }
            }
            self.reason = reason
            guard !reader.isAtEnd else { return }
            var section = try PropertyReader(&reader, of: PropertyOwner(step.type))
            while let property = try section.next() {
                if property.identifier == .reasonString { reasonString = property.text }
            }
            properties = section.section
        }

        @inlinable
        public var typeAndFlags: UInt8 { step.type.firstByte }

        @inlinable
        public var bodyByteCount: Int { isShort ? 2 : longBodyByteCount }

        /// Whether the identifier says it all.
        @inlinable
        var isShort: Bool {
            version < .v5
                || (reason == .success && reasonString == nil && properties.carriedByteCount == 0)
        }

        @usableFromInline
        var longBodyByteCount: Int {
            let count = propertyByteCount
            return count == 0 ? 3 : 3 + propertySectionByteCount
        }

        @inlinable
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(uint16: packetIdentifier)
            if !isShort { writeReason(to: &writer, from: source) }
        }

        @usableFromInline
        func writeReason(to writer: inout PacketWriter, from source: RawSpan) {
            writer.write(byte: reason.rawValue)
            if propertyByteCount > 0 { writePropertySection(to: &writer, from: source) }
        }
    }
}

extension MQTT.Acknowledgement: MQTT.PacketWithProperties {
    func putProperties(into sink: inout some MQTT.PropertySink & ~Copyable & ~Escapable) {
        sink.put(.reasonString, reasonString)
        sink.put(properties, of: MQTT.PropertyOwner(step.type))
    }
}
