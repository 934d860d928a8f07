// A message as one contiguous block: the form in which it is kept in memory, stored, loaded and
// handed to the encoders. It is written once, when the send is accepted, and only copied
// afterwards. It knows nothing of either dialect's packets.
//
//   0        1      2       3       4            6             8      16            20          24
//   +--------+------+-------+-------+------------+-------------+------+-------------+-----------+
//   | layout | kind | marks | grade | sender len | address len | time | properties  | payload   |
//   | u8 = 1 | u8   | u8    | u8    | u16        | u16         | u64  | length u32  | length u32|
//   +--------+------+-------+-------+------------+-------------+------+-------------+-----------+
//   | sender | address | properties | payload                                                   |
//
// Integers are little-endian. The address is a group id or a topic, by kind; it is empty for
// unicast and broadcast. With the mark `fields`, the properties begin with a section of fields: u16
// length, then pairs as in a DELIVER of MRT (`MessageFields`). The rest are properties of MQTT.

import Primitives

/// How a message was addressed. The receiver gets this value. Raw values 2, 3, 4 and 6 are the
/// reason codes of the delivery; they are on the wire of MRT and on disk.
public enum MessageKind: UInt8, Hashable, Sendable {
    case topic = 0
    case unicast = 2
    case group = 3
    case broadcast = 4
    /// The receiver was kicked out of the group in the address.
    case kicked = 6
    /// A system message of a group: payload is an event byte and its data.
    case groupEvent = 7
    /// The presence of a user changed.
    case presence = 8
    /// What receivers did with a message, for its sender.
    case receipt = 9
    /// A message that the receiver has, or may have, was recalled.
    case recall = 10
    /// The same of a message with new content.
    case update = 11
    /// An event of the broker for the user of a relay: who should be woken, or what happened. The
    /// payload is JSON.
    case brokerEvent = 12

    /// Whether it is for the existing sessions that subscribe to it, and not for their users.
    @inline(__always)
    var isOwnOnly: Bool { self == .topic || self == .broadcast }
}

/// Marks of a message, the same for all its receivers.
public struct MessageMarks: OptionSet, Hashable, Sendable {
    public var rawValue: UInt8

    @inlinable
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The payload is arbitrary bytes; otherwise it is `t` as one byte and then `b`.
    @inlinable
    public static var raw: MessageMarks { MessageMarks(rawValue: 1 << 0) }
    /// The broker failed between an earlier send of this message and its acknowledgement; it may
    /// have been delivered.
    @inlinable
    public static var possibleDuplicate: MessageMarks { MessageMarks(rawValue: 1 << 1) }
    /// It was published with RETAIN set (MQTT).
    @inlinable
    public static var retain: MessageMarks { MessageMarks(rawValue: 1 << 2) }
    /// Its sender set an expiry, which the receivers get.
    @inlinable
    public static var expires: MessageMarks { MessageMarks(rawValue: 1 << 3) }
    /// Its properties begin with a section of fields.
    @inlinable
    public static var fields: MessageMarks { MessageMarks(rawValue: 1 << 4) }
    /// It wakes nobody.
    @inlinable
    public static var noWake: MessageMarks { MessageMarks(rawValue: 1 << 5) }
    /// A transient message that is dropped while there is room for the rest.
    @inlinable
    public static var low: MessageMarks { MessageMarks(rawValue: 1 << 6) }
    /// A transient message that is kept while there is no room for the rest.
    @inlinable
    public static var high: MessageMarks { MessageMarks(rawValue: 1 << 7) }
}

/// Reads a message block in place. Valid as long as the bytes are.
public struct MessageBlock {
    /// Bytes before the sender.
    public static let headerByteCount = 24
    /// The only layout there is.
    public static let layout: UInt8 = 1

    public let bytes: UnsafeRawBufferPointer

    /// Wraps a block that this program wrote, or that ``isValid(_:)`` accepted.
    @inlinable
    public init(_ bytes: UnsafeRawBufferPointer) {
        assert(MessageBlock.isValid(bytes), "not a message block")
        self.bytes = bytes
    }

    /// Whether the bytes have the form of a block: for bytes that were read from disk.
    @inlinable
    public static func isValid(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count >= headerByteCount, bytes[0] == layout,
            MessageKind(rawValue: bytes[1]) != nil, Grade(rawValue: bytes[3]) != nil
        else { return false }
        let total =
            headerByteCount + Int(number(in: bytes, at: 4, as: UInt16.self))
            + Int(number(in: bytes, at: 6, as: UInt16.self))
            + Int(number(in: bytes, at: 16, as: UInt32.self))
            + Int(number(in: bytes, at: 20, as: UInt32.self))
        return total == bytes.count
            && (bytes[2] & MessageMarks.fields.rawValue == 0 || hasValidFields(bytes.bytes))
    }

    /// Whether the section of fields is within the properties and can be walked.
    @usableFromInline
    static func hasValidFields(_ bytes: RawSpan) -> Bool {
        func number<Number: FixedWidthInteger & BitwiseCopyable>(
            at offset: Int, as type: Number.Type
        ) -> Int {
            Int(Number(littleEndian: bytes.loadInteger(at: offset, as: type)))
        }
        let start =
            headerByteCount + number(at: 4, as: UInt16.self) + number(at: 6, as: UInt16.self)
        let count = number(at: 16, as: UInt32.self)
        guard count >= 2 else { return false }
        let section = number(at: start, as: UInt16.self)
        guard 2 + section <= count else { return false }
        return MessageFields.areValid(
            ByteRange(offset: start + 2, count: section).bytes(in: bytes))
    }

    @inlinable
    static func number<Number: FixedWidthInteger>(
        in bytes: UnsafeRawBufferPointer, at offset: Int, as type: Number.Type
    ) -> Number {
        Number(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: type))
    }

    @inlinable
    public var kind: MessageKind { MessageKind(rawValue: bytes[1])! }
    @inlinable
    public var marks: MessageMarks { MessageMarks(rawValue: bytes[2]) }
    @inlinable
    public var grade: Grade { Grade(rawValue: bytes[3])! }
    /// Unix milliseconds.
    @inlinable
    public var time: UInt64 { MessageBlock.number(in: bytes, at: 8, as: UInt64.self) }

    @inlinable
    var senderCount: Int { Int(MessageBlock.number(in: bytes, at: 4, as: UInt16.self)) }
    @inlinable
    var addressCount: Int { Int(MessageBlock.number(in: bytes, at: 6, as: UInt16.self)) }
    @inlinable
    var propertiesCount: Int { Int(MessageBlock.number(in: bytes, at: 16, as: UInt32.self)) }

    @inlinable @inline(__always)
    func part(_ offset: Int, _ count: Int) -> UnsafeRawBufferPointer {
        precondition(
            offset + count <= bytes.count,
            "bytes \(offset) to \(offset + count) of a block of \(bytes.count)")
        return UnsafeRawBufferPointer(start: bytes.baseAddress! + offset, count: count)
    }

    /// The user who sent it, as authenticated.
    @inlinable
    public var sender: UnsafeRawBufferPointer { part(MessageBlock.headerByteCount, senderCount) }
    /// Group id or topic, by kind.
    @inlinable
    public var address: UnsafeRawBufferPointer {
        part(MessageBlock.headerByteCount + senderCount, addressCount)
    }
    /// The fields, if there are any, and the properties.
    @inlinable
    public var fieldsAndProperties: UnsafeRawBufferPointer {
        part(MessageBlock.headerByteCount + senderCount + addressCount, propertiesCount)
    }
    /// Whether there are fields or properties.
    @inlinable
    public var hasFieldsOrProperties: Bool { propertiesCount != 0 }
    @inlinable
    public var hasFields: Bool { bytes[2] & MessageMarks.fields.rawValue != 0 }
    /// MQTT 5 properties that travel with the message, as the MQTT codec wrote them.
    @inlinable
    public var properties: UnsafeRawBufferPointer {
        guard hasFields else { return fieldsAndProperties }
        return ByteRange(offset: fieldsEnd, count: propertiesCount - fieldsEnd)
            .bytes(in: fieldsAndProperties)
    }
    @usableFromInline
    var fieldsEnd: Int {
        2 + Int(MessageBlock.number(in: fieldsAndProperties, at: 0, as: UInt16.self))
    }
    /// The pairs of the fields, as in a DELIVER of MRT; empty for a message without any.
    public var fields: UnsafeRawBufferPointer {
        let range = hasFields ? ByteRange(offset: 2, count: fieldsEnd - 2) : .empty
        return range.bytes(in: fieldsAndProperties)
    }
    @inlinable
    public var payload: UnsafeRawBufferPointer {
        let start = MessageBlock.headerByteCount + senderCount + addressCount + propertiesCount
        return part(start, bytes.count - start)
    }
}

/// The fields of a block that is to be written.
public struct MessageParts {
    public var kind: MessageKind
    public var marks: MessageMarks
    public var grade: Grade
    /// Unix milliseconds.
    public var time: UInt64
    /// At most 65,535 bytes.
    public var sender: UnsafeRawBufferPointer
    /// At most 65,535 bytes.
    public var address: UnsafeRawBufferPointer
    /// With the mark ``MessageMarks/fields``, they begin with ``MessageFields/section()``.
    public var properties: UnsafeRawBufferPointer
    public var payload: UnsafeRawBufferPointer

    @inlinable
    public init(
        kind: MessageKind, marks: MessageMarks, grade: Grade, time: UInt64,
        sender: UnsafeRawBufferPointer, address: UnsafeRawBufferPointer,
        properties: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer
    ) {
        self.kind = kind
        self.marks = marks
        self.grade = grade
        self.time = time
        self.sender = sender
        self.address = address
        self.properties = properties
        self.payload = payload
    }

    /// The parts of a block, in place.
    @inlinable
    public init(_ block: MessageBlock) {
        self.init(
            kind: block.kind, marks: block.marks, grade: block.grade, time: block.time,
            sender: block.sender, address: block.address, properties: block.fieldsAndProperties,
            payload: block.payload)
    }

    /// The size of the block that ``write(to:)`` writes.
    @inlinable @inline(__always)
    public var blockByteCount: Int {
        MessageBlock.headerByteCount + sender.count + address.count + properties.count
            + payload.count
    }

    /// A new block.
    public func block() -> [UInt8] {
        var block = [UInt8](repeating: 0, count: blockByteCount)
        block.withUnsafeMutableBytes { write(to: $0) }
        return block
    }

    /// Writes the block into exactly ``blockByteCount`` bytes.
    @inlinable
    public func write(to block: UnsafeMutableRawBufferPointer) {
        precondition(
            block.count == blockByteCount,
            "\(block.count) bytes written of a block of \(blockByteCount)")
        block[0] = MessageBlock.layout
        block[1] = kind.rawValue
        block[2] = marks.rawValue
        block[3] = grade.rawValue
        block.storeBytes(of: UInt16(sender.count).littleEndian, toByteOffset: 4, as: UInt16.self)
        block.storeBytes(of: UInt16(address.count).littleEndian, toByteOffset: 6, as: UInt16.self)
        block.storeBytes(of: time.littleEndian, toByteOffset: 8, as: UInt64.self)
        block.storeBytes(
            of: UInt32(properties.count).littleEndian, toByteOffset: 16, as: UInt32.self)
        block.storeBytes(of: UInt32(payload.count).littleEndian, toByteOffset: 20, as: UInt32.self)
        // The parts fill the block, as its size says.
        var destination = block.baseAddress! + MessageBlock.headerByteCount
        @inline(__always)
        func append(_ part: UnsafeRawBufferPointer) {
            guard let base = part.baseAddress, part.count > 0 else { return }
            destination.copyMemory(from: base, byteCount: part.count)
            destination += part.count
        }
        append(sender)
        append(address)
        append(properties)
        append(payload)
    }
}
