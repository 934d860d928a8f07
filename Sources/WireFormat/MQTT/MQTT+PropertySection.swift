// Sections of properties: read and checked one by one, and encoded again. Properties for which a
// packet's struct has no field are kept as a range of the packet.
//
//     | varint length | identifier, value | identifier, value | ...

import Primitives

extension MQTT {
    /// The properties of one packet as they lie in its bytes, for those of them that have no field
    /// in the packet's struct: user properties, and what a message carries from its publisher to
    /// its receivers.
    public struct PropertySection: Hashable, Sendable {
        /// The whole section without its length.
        public var range: ByteRange
        /// Bytes of the properties within `range` that are carried along; the others have fields.
        public var carriedByteCount: UInt32

        @inlinable
        public static var empty: PropertySection { PropertySection(carried: .empty) }

        /// Properties that are all carried along, as they are.
        @inlinable
        public init(carried range: ByteRange) {
            self.range = range
            carriedByteCount = range.count
        }

        init(range: ByteRange, carriedByteCount: UInt32) {
            self.range = range
            self.carriedByteCount = carriedByteCount
        }

        /// Copies the carried properties, exactly `carriedByteCount` bytes. `source` is what the
        /// ranges are within.
        public func write(
            to writer: inout PacketWriter, of owner: PropertyOwner,
            from source: RawSpan
        ) {
            if carriedByteCount == range.count {
                writer.write(bytes: range.bytes(in: source))
                return
            }
            write(to: &writer, of: owner, from: source) { _ in true }
        }

        /// Copies those of the carried properties that `isWanted`.
        public func write(
            to writer: inout PacketWriter, of owner: PropertyOwner,
            from source: RawSpan, where isWanted: (Property) -> Bool
        ) {
            var properties = PropertyReader(self, of: owner, in: source)
            var start = properties.offset
            // The section was checked when it was read, so no error is possible.
            while let property = try? properties.next() {
                if property.identifier.isCarried(in: owner), isWanted(property) {
                    writer.write(
                        bytes: source.extracting(start..<properties.offset))
                }
                start = properties.offset
            }
        }
    }

    /// Walks over the properties of one section and checks each: its identifier, its owner, its
    /// form and range, and that it stands there once.
    public struct PropertyReader: ~Escapable {
        private var reader: PacketReader
        private let owner: PropertyOwner
        private let range: ByteRange
        private var carriedByteCount: UInt32 = 0
        /// Bit n: identifier n has come.
        private var seen: UInt64 = 0

        /// Takes a section, its length first, from where `reader` stands. An absent length is not
        /// an empty section [MQTT-2.2.2-1].
        @_lifetime(copy reader)
        init(_ reader: inout PacketReader, of owner: PropertyOwner) throws(WireError) {
            let count = try reader.readVarInt(in: 0...WireLimits.remainingLengthMaximum)
            range = try reader.readBytes(count)
            self.owner = owner
            self.reader = PacketReader(
                reader.bytes.extracting(..<range.endOffset), from: Int(range.offset))
        }

        /// Walks over a section that a packet carried. Ranges of its properties are within `bytes`.
        @_lifetime(copy bytes)
        public init(
            _ section: PropertySection, of owner: PropertyOwner, in bytes: RawSpan
        ) {
            range = section.range
            self.owner = owner
            reader = PacketReader(
                bytes.extracting(..<range.endOffset), from: Int(range.offset))
        }

        /// The section, once all of it has been read.
        public var section: PropertySection {
            PropertySection(range: range, carriedByteCount: carriedByteCount)
        }

        var offset: Int { reader.offset }

        /// The next property; nil at the end.
        public mutating func next() throws(WireError) -> Property? {
            guard !reader.isAtEnd else { return nil }
            let start = reader.offset
            // All identifiers are below 128: one byte, minimally encoded.
            guard let identifier = PropertyIdentifier(rawValue: try reader.readByte()),
                // One that does not belong here is malformed (section 2.2.2.2).
                identifier.owners.contains(owner)
            else { throw .malformed }
            let bit: UInt64 = 1 << UInt64(identifier.rawValue)
            guard seen & bit == 0 || identifier.mayRepeat(in: owner) else { throw .protocolError }
            seen |= bit
            let property = try readValue(of: identifier)
            try check(property)
            if identifier.isCarried(in: owner) { carriedByteCount += UInt32(reader.offset - start) }
            return property
        }

        private mutating func readValue(
            of identifier: PropertyIdentifier
        ) throws(WireError) -> Property {
            var property = Property(identifier: identifier)
            switch identifier.form {
            case .flag: property.number = UInt32(try reader.readByte())
            case .uint16: property.number = UInt32(try reader.readUInt16())
            case .uint32: property.number = try reader.readUInt32()
            case .variableInteger:
                property.number = try reader.readVarInt(
                    in: 0...UInt32(WireLimits.remainingLengthMaximum))
            case .text: property.text = try reader.readText()
            case .binary: property.text = try reader.readBinary()
            case .textPair:
                // [MQTT-1.5.7-1]
                property.text = try reader.readText()
                property.value = try reader.readText()
            }
            return property
        }

        /// Values that can be read and must not be sent.
        private func check(_ property: Property) throws(WireError) {
            switch property.identifier {
            case .topicAlias:
                // [MQTT-3.3.2-8]
                guard property.number != 0 else { throw .topicAliasInvalid }
            case .receiveMaximum, .maximumPacketSize, .subscriptionIdentifier:
                guard property.number != 0 else { throw .protocolError }
            case .responseTopic:
                // [MQTT-3.3.2-14]; it is a topic name, and so not empty [MQTT-4.7.3-1].
                guard !property.text.isEmpty, !hasWildcard(property.text.bytes(in: reader.bytes))
                else { throw .protocolError }
            default:
                guard property.identifier.form != .flag || property.number <= 1 else {
                    throw .protocolError
                }
            }
        }
    }

    /// Takes the properties that a packet has fields for: to count their bytes, or to write them.
    protocol PropertySink: ~Copyable, ~Escapable {
        mutating func put(_ identifier: PropertyIdentifier, _ number: UInt32)
        mutating func put(_ identifier: PropertyIdentifier, _ text: ByteRange)
        mutating func put(_ section: PropertySection, of owner: PropertyOwner)
    }

    /// A packet with one section of properties in 5.0.
    protocol PacketWithProperties {
        /// Puts every property that is not its default value; ranges are as in the packet.
        func putProperties(into sink: inout some PropertySink & ~Copyable & ~Escapable)
    }

    private struct PropertyCounter: PropertySink {
        var byteCount = 0

        mutating func put(_ identifier: PropertyIdentifier, _ number: UInt32) {
            switch identifier.form {
            case .flag: byteCount += 2
            case .uint16: byteCount += 3
            case .uint32: byteCount += 5
            case .variableInteger: byteCount += 1 + VariableInteger.byteCount(number)
            case .text, .binary, .textPair:
                preconditionFailure("number \(number) for property \(identifier.rawValue), a text")
            }
        }

        mutating func put(_ identifier: PropertyIdentifier, _ text: ByteRange) {
            byteCount += 1 + text.string16ByteCount
        }

        mutating func put(_ section: PropertySection, of owner: PropertyOwner) {
            byteCount += Int(section.carriedByteCount)
        }
    }

    private struct PropertyEncoder: PropertySink, ~Copyable, ~Escapable {
        var writer: PacketWriter
        let source: RawSpan

        @_lifetime(copy writer, copy source)
        init(writer: consuming PacketWriter, source: RawSpan) {
            self.writer = writer
            self.source = source
        }

        mutating func put(_ identifier: PropertyIdentifier, _ number: UInt32) {
            writer.write(byte: identifier.rawValue)
            switch identifier.form {
            case .flag: writer.write(byte: UInt8(number))
            case .uint16: writer.write(uint16: UInt16(number))
            case .uint32: writer.write(uint32: number)
            case .variableInteger: writer.write(varInt: number)
            case .text, .binary, .textPair:
                preconditionFailure("number \(number) for property \(identifier.rawValue), a text")
            }
        }

        mutating func put(_ identifier: PropertyIdentifier, _ text: ByteRange) {
            writer.write(byte: identifier.rawValue)
            writer.write(string16: text.bytes(in: source))
        }

        mutating func put(_ section: PropertySection, of owner: PropertyOwner) {
            section.write(to: &writer, of: owner, from: source)
        }
    }
}

extension MQTT.PacketWithProperties {
    /// Bytes of the properties without their length.
    var propertyByteCount: Int {
        var counter = MQTT.PropertyCounter()
        putProperties(into: &counter)
        return counter.byteCount
    }

    /// Bytes of the properties with their length.
    var propertySectionByteCount: Int {
        let count = propertyByteCount
        return VariableInteger.byteCount(count) + count
    }

    /// Writes exactly ``propertySectionByteCount`` bytes.
    func writePropertySection(to writer: inout PacketWriter, from source: RawSpan) {
        writer.write(varInt: propertyByteCount)
        // A type has one lifetime for all its parts, and the writer must outlive the source again
        // below; the encoder itself ends with this function.
        let source = _overrideLifetime(source, copying: ())
        var encoder = MQTT.PropertyEncoder(writer: writer, source: source)
        putProperties(into: &encoder)
        writer = encoder.writer
    }
}

extension MQTT.PropertySink where Self: ~Copyable & ~Escapable {
    /// Puts a number unless it is the one that is meant where the property is absent.
    mutating func put(
        _ identifier: MQTT.PropertyIdentifier, _ number: some UnsignedInteger & FixedWidthInteger,
        default absent: some UnsignedInteger & FixedWidthInteger
    ) {
        if UInt32(number) != UInt32(absent) { put(identifier, UInt32(number)) }
    }

    mutating func put(
        _ identifier: MQTT.PropertyIdentifier, _ flag: Bool, default absent: Bool
    ) {
        if flag != absent { put(identifier, flag ? 1 : 0 as UInt32) }
    }

    /// Puts a text or bytes, if there are any to be put.
    mutating func put(_ identifier: MQTT.PropertyIdentifier, _ text: ByteRange?) {
        if let text { put(identifier, text) }
    }
}
