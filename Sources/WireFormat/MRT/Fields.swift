// The fields of a message besides its payload: what a send asks for, and what a delivery tells. A
// block of them is a list of pairs, as the extensions of CONNECT are. A message without fields has
// no block.
//
//     | varint id | varint length | bytes |  …   ids rise; an unknown even id is ignored, an
//                                                unknown odd id refuses the send

import BrokerTerms
import Primitives

extension MRT {
    /// What a sender asks for.
    public struct SendAsks: OptionSet, Hashable, Sendable {
        public var rawValue: UInt8

        @inlinable
        public init(rawValue: UInt8) { self.rawValue = rawValue }

        /// The message's reference, in the result.
        @inlinable public static var reference: SendAsks { SendAsks(rawValue: 1) }
        /// A receipt when a device of a receiver has acknowledged.
        @inlinable public static var delivered: SendAsks { SendAsks(rawValue: 2) }
        /// A receipt when a receiver tells that it has applied the message.
        @inlinable public static var applied: SendAsks { SendAsks(rawValue: 4) }
        @inlinable public static var all: SendAsks { [.reference, .delivered, .applied] }
    }

    /// The fields of a SEND.
    public struct SendFields: Hashable, Sendable {
        public var asks: SendAsks = []
        /// 1 to 64 bytes of text; empty for none.
        public var collapseKey = ByteRange.empty
        /// As they are in the block; empty for none.
        public var mentions = ByteRange.empty
        public var attributes = ByteRange.empty
        /// As it is in the block; nil for none.
        public var priority: UInt8?
        /// The time is that of a reading which the sender could not send earlier.
        public var isLate = false
        /// A JSON object for those who are woken by the message, 1 to
        /// ``WireLimits/pushByteCountMaximum`` bytes; empty for none.
        public var push = ByteRange.empty
        /// The message wakes nobody.
        public var isWithoutWake = false
        /// Why the send is refused: a field that must be understood is not, or has no such value.
        public private(set) var fault: ReasonCode?

        enum Identifier {
            static let asks: UInt64 = 1
            static let collapseKey: UInt64 = 3
            static let mentions: UInt64 = 5
            static let attributes: UInt64 = 7
            static let priority: UInt64 = 9
            static let late: UInt64 = 11
            // Even: a broker that does not know them has no wake-ups.
            static let push: UInt64 = 18
            static let withoutWake: UInt64 = 20
        }

        public init() {}

        /// Decodes a block whose ranges are relative to `bytes`.
        public init(_ block: ByteRange, in bytes: RawSpan) throws(WireError) {
            var reader = FieldReader(block, in: bytes)
            while let field = try reader.next() {
                switch field.id {
                case Identifier.asks:
                    asks = SendAsks(rawValue: try field.byte(in: bytes))
                    if asks.isEmpty || !SendAsks.all.isSuperset(of: asks) { fault = .protocolError }
                case Identifier.collapseKey: collapseKey = field.value
                case Identifier.mentions: mentions = field.value
                case Identifier.attributes: attributes = field.value
                case Identifier.priority: priority = try field.byte(in: bytes)
                case Identifier.late:
                    isLate = try field.byte(in: bytes) == 1
                    if !isLate { fault = .protocolError }
                case Identifier.push: push = field.value
                case Identifier.withoutWake: isWithoutWake = try field.byte(in: bytes) == 1
                default: if field.id & 1 == 1 { fault = .protocolError }
                }
            }
        }

        /// The block, without its length. Ranges of the fields are within `source`.
        public func block(from source: RawSpan) -> [UInt8] {
            var block = FieldBlock()
            if !asks.isEmpty { block.append(Identifier.asks, byte: asks.rawValue) }
            block.append(Identifier.collapseKey, collapseKey, from: source)
            block.append(Identifier.mentions, mentions, from: source)
            block.append(Identifier.attributes, attributes, from: source)
            if let priority { block.append(Identifier.priority, byte: priority) }
            if isLate { block.append(Identifier.late, byte: 1) }
            block.append(Identifier.push, push, from: source)
            if isWithoutWake { block.append(Identifier.withoutWake, byte: 1) }
            return block.bytes
        }
    }

    /// The fields of a DELIVER.
    public struct DeliverFields: Hashable, Sendable {
        /// The message's reference; 0 for none.
        public var reference: UInt64 = 0
        /// The receipts that the sender asked for.
        public var asks: SendAsks = []
        /// 1 by name, 2 with all; 0 for neither.
        public var mentioned: UInt8 = 0
        /// A run of pairs of string8; empty for none.
        public var attributes = ByteRange.empty
        /// The time is that of a reading which the sender could not send earlier.
        public var isLate = false
        /// The message's number in its conversation; 0 for none.
        public var keptNumber: UInt64 = 0
        /// It is kept and was delivered to nobody.
        public var isUndelivered = false

        enum Identifier {
            static let reference: UInt64 = 2
            static let asks: UInt64 = 4
            static let mentioned: UInt64 = 6
            static let attributes: UInt64 = 8
            static let late: UInt64 = 10
            static let keptNumber: UInt64 = 14
            static let undelivered: UInt64 = 16
        }

        public init() {}

        /// Decodes a block whose ranges are relative to `bytes`.
        public init(_ block: ByteRange, in bytes: RawSpan) throws(WireError) {
            var reader = FieldReader(block, in: bytes)
            while let field = try reader.next() {
                switch field.id {
                case Identifier.reference:
                    guard field.value.count == 8 else { throw .malformed }
                    var value = PacketReader(field.value.bytes(in: bytes))
                    reference = try value.readEpoch()
                case Identifier.asks: asks = SendAsks(rawValue: try field.byte(in: bytes))
                case Identifier.mentioned: mentioned = try field.byte(in: bytes)
                case Identifier.attributes: attributes = field.value
                case Identifier.late: isLate = true
                case Identifier.undelivered: isUndelivered = true
                case Identifier.keptNumber: keptNumber = try field.number(in: bytes)
                default: break
                }
            }
        }

        /// The block, without its length. Ranges of the fields are within `source`.
        public func block(from source: RawSpan) -> [UInt8] {
            var block = FieldBlock()
            if reference != 0 {
                let bytes = withUnsafeBytes(of: reference.bigEndian) { Array($0) }
                block.append(
                    Identifier.reference, ByteRange(offset: 0, count: 8), from: bytes.span.bytes)
            }
            if !asks.isEmpty { block.append(Identifier.asks, byte: asks.rawValue) }
            if mentioned != 0 { block.append(Identifier.mentioned, byte: mentioned) }
            block.append(Identifier.attributes, attributes, from: source)
            if isLate { block.append(Identifier.late, byte: 1) }
            if keptNumber != 0 {
                let bytes = withUnsafeBytes(of: keptNumber.bigEndian) { Array($0) }
                let zeros = keptNumber.leadingZeroBitCount / 8
                block.append(
                    Identifier.keptNumber, ByteRange(offset: zeros, count: 8 - zeros),
                    from: bytes.span.bytes)
            }
            if isUndelivered { block.append(Identifier.undelivered, byte: 1) }
            return block.bytes
        }
    }

    /// Reads a block of fields from a packet, and checks its structure.
    @usableFromInline
    @inline(never)
    static func readFields(_ reader: inout PacketReader) throws(WireError) -> ByteRange {
        let block = try reader.readStringV(1...WireLimits.fieldsByteCountMaximum)
        var fields = FieldReader(block, in: reader.bytes)
        while try fields.next() != nil {}
        return block
    }
}

/// Walks a block of fields.
private struct FieldReader: ~Escapable {
    private var reader: PacketReader
    private let base: Int
    private var previous: Extension?

    @_lifetime(copy bytes)
    init(_ block: ByteRange, in bytes: RawSpan) {
        reader = PacketReader(block.bytes(in: bytes))
        base = Int(block.offset)
    }

    /// The next field, with its value as a range of the bytes that contain the block.
    mutating func next() throws(WireError) -> Extension? {
        guard !reader.isAtEnd else { return nil }
        let item = try Extension(&reader, after: previous)
        previous = item
        return Extension(id: item.id, value: item.value.shifted(by: base))
    }
}

extension Extension {
    /// The only byte of the value.
    fileprivate func byte(in bytes: RawSpan) throws(WireError) -> UInt8 {
        guard value.count == 1 else { throw .malformed }
        return bytes[Int(value.offset)]
    }
}

extension Extension {
    /// The value as a number of 1 to 8 bytes.
    fileprivate func number(in bytes: RawSpan) throws(WireError) -> UInt64 {
        guard (1...8).contains(value.count) else { throw .malformed }
        var number: UInt64 = 0
        for offset in value.offsets { number = number << 8 | UInt64(bytes[offset]) }
        return number
    }
}

/// A block that is being written.
private struct FieldBlock {
    private(set) var bytes: [UInt8] = []

    mutating func append(_ id: UInt64, byte: UInt8) {
        bytes += [UInt8(id), 1, byte]
    }

    mutating func append(_ id: UInt64, _ value: ByteRange, from source: RawSpan) {
        guard !value.isEmpty else { return }
        bytes.append(UInt8(id))
        let count = Int(value.count)
        precondition(
            count <= WireLimits.fieldsByteCountMaximum, "a field of \(count) bytes")
        if count >= 0x80 { bytes.append(UInt8(count & 0x7F) | 0x80) }
        bytes.append(UInt8(count >= 0x80 ? count >> 7 : count))
        value.bytes(in: source).withUnsafeBytes { bytes.append(contentsOf: $0) }
    }
}

extension MRT.Deliver {
    /// The decoded fields; nil for a message without any. `source` is what it was decoded from.
    public func decodedFields(in source: RawSpan) -> MRT.DeliverFields? {
        fields.isEmpty ? nil : try? MRT.DeliverFields(fields, in: source)
    }
}
