// The fields of a message in its block: what a delivery tells besides the message itself. A message
// without fields has no section, so it is the same bytes as before there were fields.
//
//     | u16 length | id u8 | length, varint of 1 or 2 bytes | bytes | …    ids rise
//
// The pairs are those of a DELIVER of MRT, which contains them as they are. Numbers in them are
// big-endian.

import Primitives

/// What a sender asks for.
public struct SendAsks: OptionSet, Hashable, BitwiseCopyable, Sendable {
    public var rawValue: UInt8

    @inlinable
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The message's reference, in the result.
    @inlinable
    public static var reference: SendAsks { SendAsks(rawValue: 1) }
    /// A receipt when a device of a receiver has acknowledged.
    @inlinable
    public static var delivered: SendAsks { SendAsks(rawValue: 2) }
    /// A receipt when a receiver tells that it has applied the message.
    @inlinable
    public static var applied: SendAsks { SendAsks(rawValue: 4) }
    @inlinable
    public static var receipts: SendAsks { [.delivered, .applied] }
}

/// The fields of one message.
public struct MessageFields: Hashable, Sendable {
    /// Names the message within its app; 0 for none.
    public var reference: UInt64 = 0
    /// The receipts that its sender asked for.
    public var receipts: SendAsks = []
    /// Whom it mentions: names, each as one length byte and its bytes, or all members of its group.
    /// No receiver gets the list; ``mention`` takes its place.
    public var mentionedNames: [UInt8] = []
    public var mentionOptions: Mentions.Options = []
    /// How it mentions its receiver; nil for a receiver who is not mentioned.
    public var mention: Mention?
    /// Keys and values, each as one length byte and its bytes.
    public var attributes: [UInt8] = []
    /// Whether its time is that of a reading which its sender could not send earlier.
    public var isLate = false
    /// The number that it has in its conversation; 0 for a message that is not kept, or that has
    /// a number in each of several conversations.
    public var keptNumber: UInt64 = 0
    /// Whether it is kept and was delivered to nobody.
    public var isUndelivered = false

    enum Identifier {
        static let reference: UInt8 = 2
        static let receipts: UInt8 = 4
        /// In blocks only.
        static let mentions: UInt8 = 5
        static let mention: UInt8 = 6
        static let attributes: UInt8 = 8
        static let late: UInt8 = 10
        static let keptNumber: UInt8 = 14
        static let undelivered: UInt8 = 16
    }

    /// Whether it depends on the receiver who is mentioned.
    public var mentionsSomeone: Bool { !mentionOptions.isEmpty || !mentionedNames.isEmpty }

    public init() {}

    public var isEmpty: Bool { self == MessageFields() }

    /// Reads the fields of a block.
    @inline(never)
    public init(of block: MessageBlock) {
        let pairs = block.fields
        var walk = FieldWalk()
        while let (id, range) = walk.next(in: pairs.bytes) {
            let value = range.bytes(in: pairs)
            switch id {
            case Identifier.reference where value.count == 8:
                reference = UInt64(
                    bigEndian: value.loadUnaligned(fromByteOffset: 0, as: UInt64.self))
            case Identifier.receipts where value.count == 1:
                receipts = SendAsks(rawValue: value[0])
            case Identifier.mentions where !value.isEmpty:
                mentionOptions = Mentions.Options(rawValue: value[0])
                mentionedNames = Array(value.dropFirst())
            case Identifier.mention where value.count == 1:
                mention = Mention(rawValue: value[0])
            case Identifier.attributes: attributes = Array(value)
            case Identifier.late: isLate = true
            case Identifier.undelivered: isUndelivered = true
            case Identifier.keptNumber where value.count <= 8:
                keptNumber = value.reduce(0) { $0 << 8 | UInt64($1) }
            default: break
            }
        }
    }

    /// The section with its length, which precedes the properties of a block with the mark
    /// ``MessageMarks/fields``.
    public func section() -> [UInt8] {
        var bytes: [UInt8] = [0, 0]
        appendPairs(to: &bytes)
        let count = bytes.count - 2
        precondition(count <= Int(UInt16.max), "\(count) bytes of fields")
        (bytes[0], bytes[1]) = (UInt8(count & 0xFF), UInt8(count >> 8))
        return bytes
    }

    /// The section of a message that has nothing but a number in its conversation, and what follows
    /// it: the same as of ``section()``, in one allocation.
    static func section(
        ofKept number: UInt64, _ properties: some Collection<UInt8>
    ) -> [UInt8] {
        let byteCount = (UInt64.bitWidth - number.leadingZeroBitCount + 7) / 8
        var bytes: [UInt8] = []
        bytes.reserveCapacity(4 + byteCount + properties.count)
        guard number != 0 else {
            bytes.append(contentsOf: [0, 0])
            bytes.append(contentsOf: properties)
            return bytes
        }
        // A number has at most eight bytes.
        let count = UInt8(truncatingIfNeeded: byteCount)
        bytes.append(2 + count)
        bytes.append(0)
        bytes.append(Identifier.keptNumber)
        bytes.append(count)
        for position in (0..<byteCount).reversed() {
            bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(8 * position)))
        }
        bytes.append(contentsOf: properties)
        return bytes
    }

    /// The reference of a block with fields; 0 for none. It is the first of the fields.
    static func reference(of block: MessageBlock) -> UInt64 {
        let pairs = block.fields
        guard pairs.count >= 10, pairs[0] == Identifier.reference, pairs[1] == 8 else { return 0 }
        return UInt64(bigEndian: pairs.loadUnaligned(fromByteOffset: 2, as: UInt64.self))
    }

    /// The pairs alone.
    public func pairs() -> [UInt8] {
        var bytes: [UInt8] = []
        appendPairs(to: &bytes)
        return bytes
    }

    private func appendPairs(to bytes: inout [UInt8]) {
        // Those of most messages: a reference, receipts and a number.
        bytes.reserveCapacity(bytes.count + 32 + attributes.count + mentionedNames.count)
        func append(_ id: UInt8, _ value: some Collection<UInt8>) {
            precondition(value.count < 1 << 14, "a field of \(value.count) bytes")
            bytes.append(id)
            if value.count >= 0x80 { bytes.append(UInt8(value.count & 0x7F) | 0x80) }
            bytes.append(UInt8(value.count >= 0x80 ? value.count >> 7 : value.count))
            bytes.append(contentsOf: value)
        }
        if reference != 0 {
            bytes.append(Identifier.reference)
            bytes.append(8)
            withUnsafeBytes(of: reference.bigEndian) { bytes.append(contentsOf: $0) }
        }
        if !receipts.isEmpty { append(Identifier.receipts, CollectionOfOne(receipts.rawValue)) }
        if mentionsSomeone {
            append(Identifier.mentions, [mentionOptions.rawValue] + mentionedNames)
        }
        if let mention { append(Identifier.mention, [mention.rawValue]) }
        if !attributes.isEmpty { append(Identifier.attributes, attributes) }
        if isLate { append(Identifier.late, [1]) }
        if keptNumber != 0 {
            let number = withUnsafeBytes(of: keptNumber.bigEndian) { Array($0) }
            append(Identifier.keptNumber, number.drop { $0 == 0 })
        }
        if isUndelivered { append(Identifier.undelivered, [1]) }
    }

    /// Whether bytes that were read from disk are pairs.
    static func areValid(_ pairs: RawSpan) -> Bool {
        var walk = FieldWalk()
        while walk.next(in: pairs) != nil {}
        return walk.offset == pairs.byteCount
    }
}

/// Walks the pairs of fields, and stops at bytes that are none.
struct FieldWalk {
    private(set) var offset = 0

    /// The next pair of the same pairs.
    mutating func next(in pairs: RawSpan) -> (id: UInt8, value: ByteRange)? {
        guard offset + 2 <= pairs.byteCount else { return nil }
        let id = pairs[offset]
        var count = Int(pairs[offset + 1] & 0x7F)
        var start = offset + 2
        if pairs[offset + 1] >= 0x80 {
            guard start < pairs.byteCount, pairs[start] < 0x80 else { return nil }
            count |= Int(pairs[start]) << 7
            start += 1
        }
        guard start + count <= pairs.byteCount else { return nil }
        offset = start + count
        return (id, ByteRange(offset: start, count: count))
    }
}
