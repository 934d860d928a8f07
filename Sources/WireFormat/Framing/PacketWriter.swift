// Appends the fields of packets to memory that the caller has sized before: every packet knows its
// `encodedByteCount`. A write past the end is a bug of this program and traps.

import Primitives

public struct PacketWriter: ~Copyable, ~Escapable {
    @usableFromInline var buffer: MutableRawSpan
    /// Bytes written so far.
    @inlinable
    public var byteCount: Int { written }
    @usableFromInline var written = 0

    /// Bytes that still fit.
    @inlinable
    public var remainingByteCount: Int { buffer.byteCount - written }

    /// Writes to `buffer` from the start.
    @inlinable
    @_lifetime(copy buffer)
    public init(_ buffer: consuming MutableRawSpan) {
        self.buffer = buffer
    }

    /// Claims the next `count` bytes and checks that they fit; the stores do not check it again.
    @inlinable @inline(__always)
    mutating func claim(_ count: Int) -> Int {
        precondition(
            buffer.byteCount - written >= count,
            "\(count) more bytes in a buffer with \(buffer.byteCount - written) free")
        defer { written += count }
        return written
    }

    @inlinable @inline(__always)
    public mutating func write(byte: UInt8) {
        let offset = claim(1)
        buffer.storeBytes(of: byte, toUncheckedByteOffset: offset, as: UInt8.self)
    }

    /// Two bytes, big-endian.
    @inlinable
    public mutating func write(uint16 value: UInt16) {
        let offset = claim(2)
        buffer.storeBytes(of: value.bigEndian, toUncheckedByteOffset: offset, as: UInt16.self)
    }

    /// Eight bytes, big-endian: an epoch or a cookie.
    @inlinable
    public mutating func write(fixed8 value: UInt64) {
        let offset = claim(8)
        buffer.storeBytes(of: value.bigEndian, toUncheckedByteOffset: offset, as: UInt64.self)
    }

    /// A variable byte integer of 1...9 bytes.
    @inlinable @inline(__always)
    public mutating func write(varInt value: some FixedWidthInteger) {
        let value = UInt64(truncatingIfNeeded: value)
        if value < 0x80 {
            write(byte: UInt8(truncatingIfNeeded: value))
        } else {
            write(longVarInt: value)
        }
    }

    @inlinable
    mutating func write(longVarInt value: UInt64) {
        var rest = value
        precondition(rest <= WireLimits.varIntMaximum, "\(rest) has more than 63 bits")
        var offset = claim(VariableInteger.byteCount(rest))
        while rest >= 0x80 {
            let byte = UInt8(truncatingIfNeeded: rest) | 0x80
            buffer.storeBytes(of: byte, toUncheckedByteOffset: offset, as: UInt8.self)
            rest >>= 7
            offset += 1
        }
        buffer.storeBytes(
            of: UInt8(truncatingIfNeeded: rest), toUncheckedByteOffset: offset, as: UInt8.self)
    }

    @inlinable
    public mutating func write(bytes: RawSpan) {
        guard bytes.byteCount > 0 else { return }
        let offset = claim(bytes.byteCount)
        buffer.withUnsafeMutableBytes { buffer in
            bytes.withUnsafeBytes { source in
                (buffer.baseAddress! + offset).copyMemory(
                    from: source.baseAddress!, byteCount: source.count)
            }
        }
    }

    /// One byte of length, then the bytes: at most 255.
    @inlinable
    public mutating func write(string8 bytes: RawSpan) {
        precondition(bytes.byteCount <= 255, "\(bytes.byteCount) bytes with a length of one byte")
        write(byte: UInt8(bytes.byteCount))
        write(bytes: bytes)
    }

    /// A variable byte integer of length, then the bytes.
    @inlinable
    public mutating func write(stringV bytes: RawSpan) {
        write(varInt: bytes.byteCount)
        write(bytes: bytes)
    }

    /// Type, flags and remaining length.
    @inlinable
    public mutating func write(typeAndFlags: UInt8, bodyByteCount: Int) {
        precondition(
            bodyByteCount <= WireLimits.remainingLengthMaximum,
            "a body of \(bodyByteCount) bytes, more than the remaining length can hold")
        write(byte: typeAndFlags)
        write(varInt: bodyByteCount)
    }
}

extension StaticString {
    /// The bytes of a literal, without the closure of `withUTF8Buffer`, which may allocate.
    var utf8Bytes: RawSpan {
        @_lifetime(immortal) get {
            // A literal lies in the program's constants.
            let bytes = UnsafeRawBufferPointer(start: utf8Start, count: utf8CodeUnitCount)
            return _overrideLifetime(bytes.bytes, copying: ())
        }
    }
}
