// A cursor over the body of one packet. Every read checks once that its bytes are present. Fields
// of bytes are returned as ranges of the body, so a decoded packet is plain data and cannot dangle.

import Primitives

public struct PacketReader: ~Escapable {
    @usableFromInline let bytes: RawSpan
    @usableFromInline var offset = 0

    /// Reads `bytes` from the start.
    @inlinable
    @_lifetime(copy bytes)
    public init(_ bytes: RawSpan) {
        self.bytes = bytes
    }

    /// Reads `bytes` from `offset` on.
    @_lifetime(copy bytes)
    init(_ bytes: RawSpan, from offset: Int) {
        precondition(
            (0...bytes.byteCount).contains(offset), "offset \(offset) of \(bytes.byteCount) bytes")
        self.bytes = bytes
        self.offset = offset
    }

    @inlinable
    public var remainingByteCount: Int { bytes.byteCount - offset }
    @inlinable
    public var isAtEnd: Bool { offset == bytes.byteCount }

    @inlinable
    public mutating func readByte() throws(WireError) -> UInt8 {
        guard offset < bytes.byteCount else { throw .malformed }
        defer { offset += 1 }
        return bytes[offset]
    }

    /// Two bytes, big-endian.
    @inlinable
    public mutating func readUInt16() throws(WireError) -> UInt16 {
        guard remainingByteCount >= 2 else { throw .malformed }
        defer { offset += 2 }
        return UInt16(
            bigEndian: bytes.loadInteger(at: offset, as: UInt16.self))
    }

    /// Eight opaque bytes, a cookie, read as a big-endian number.
    @inlinable
    public mutating func readFixed8() throws(WireError) -> UInt64 {
        guard remainingByteCount >= 8 else { throw .malformed }
        defer { offset += 8 }
        return UInt64(
            bigEndian: bytes.loadInteger(at: offset, as: UInt64.self))
    }

    /// Eight bytes of an epoch, which is never 0.
    @inlinable
    public mutating func readEpoch() throws(WireError) -> UInt64 {
        let epoch = try readFixed8()
        guard epoch != 0 else { throw .malformed }
        return epoch
    }

    /// A variable byte integer of MRT: minimal, at most nine bytes.
    @inlinable
    public mutating func readVarInt() throws(WireError) -> UInt64 {
        let first = try readByte()
        return first < 0x80 ? UInt64(first) : try readLongVarInt(first)
    }

    @inlinable
    mutating func readLongVarInt(_ first: UInt8) throws(WireError) -> UInt64 {
        var value = UInt64(first & 0x7F)
        var shift: UInt64 = 7
        while true {
            let byte = try readByte()
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 {
                // A last byte of zero adds nothing: the same number has a shorter spelling.
                if byte == 0 { throw .malformed }
                return value
            }
            shift += 7
            if shift == 63 { throw .malformed }
        }
    }

    /// A variable byte integer within `range`, which has no negative numbers; outside is malformed.
    @inlinable
    public mutating func readVarInt<Value: FixedWidthInteger>(
        in range: ClosedRange<Value>
    ) throws(WireError) -> Value {
        let value = try readVarInt()
        // Compared in 64 bits and converted afterwards: a received number must not trap on a
        // 32-bit processor.
        guard value >= UInt64(truncatingIfNeeded: range.lowerBound),
            value <= UInt64(truncatingIfNeeded: range.upperBound)
        else { throw .malformed }
        return Value(truncatingIfNeeded: value)
    }

    @inlinable
    mutating func readBytes(_ count: Int) throws(WireError) -> ByteRange {
        guard remainingByteCount >= count else { throw .malformed }
        defer { offset += count }
        return ByteRange(offset: offset, count: count)
    }

    /// One byte of length, then that many bytes: 0...255.
    @inlinable
    public mutating func readString8() throws(WireError) -> ByteRange {
        try readBytes(Int(try readByte()))
    }

    /// The same, of a length within `range`; outside is malformed.
    @inlinable
    public mutating func readString8(_ range: ClosedRange<Int>) throws(WireError) -> ByteRange {
        let string = try readString8()
        guard range.contains(Int(string.count)) else { throw .malformed }
        return string
    }

    /// A variable byte integer of length, then that many bytes; a length outside `range` is
    /// malformed.
    @inlinable
    public mutating func readStringV(_ range: ClosedRange<Int>) throws(WireError) -> ByteRange {
        try readBytes(try readVarInt(in: range))
    }

    /// All that is left, which may be nothing.
    @inlinable
    public mutating func readRest() -> ByteRange {
        defer { offset = bytes.byteCount }
        return ByteRange(offset: offset, count: bytes.byteCount - offset)
    }

    /// The body must end here: trailing bytes are malformed.
    @inlinable
    public func expectEnd() throws(WireError) {
        guard isAtEnd else { throw .malformed }
    }
}
