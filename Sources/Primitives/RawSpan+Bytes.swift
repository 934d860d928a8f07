// Reads single bytes and integers of a span. The standard library marks every load of a `RawSpan`
// as unsafe, because some types do not allow all byte patterns; every integer allows all of them.
//
// Each access checks its bounds once. The subscript compares unsigned numbers, and the optimizer
// removes that check from a loop over the offsets. It does not remove the checks of the standard
// library's own loads, which compare signed offsets and subtract the size of the type.

extension RawSpan {
    /// The byte at `offset`. Traps if it is outside the span.
    @inlinable
    public subscript(offset: Int) -> UInt8 {
        @inline(__always) get {
            precondition(
                UInt(bitPattern: offset) < UInt(bitPattern: byteCount),
                "offset \(offset) of \(byteCount) bytes")
            return unsafeLoad(fromUncheckedByteOffset: offset, as: UInt8.self)
        }
    }

    /// The integer whose bytes begin at `offset`, in the byte order of this machine. Traps if it is
    /// not within the span.
    @inlinable @inline(__always)
    public func loadInteger<Value: FixedWidthInteger & BitwiseCopyable>(
        at offset: Int, as type: Value.Type
    ) -> Value {
        precondition(
            offset >= 0 && byteCount &- offset >= MemoryLayout<Value>.size,
            "an integer of \(MemoryLayout<Value>.size) bytes at \(offset) of \(byteCount)")
        return unsafeLoadUnaligned(fromUncheckedByteOffset: offset, as: type)
    }
}

// Whether two spans have the same bytes. The elementsEqual of the standard library compares byte by
// byte through iterators, and every look-up compares a name.

extension UnsafeRawBufferPointer {
    /// Whether another buffer has the same number of bytes, and the same bytes.
    @inlinable
    public func isEqual(to other: UnsafeRawBufferPointer) -> Bool {
        guard count == other.count else { return false }
        var offset = 0
        while offset &+ 8 <= count {
            if loadUnaligned(fromByteOffset: offset, as: UInt64.self)
                != other.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            {
                return false
            }
            offset &+= 8
        }
        while offset < count {
            if self[offset] != other[offset] { return false }
            offset &+= 1
        }
        return true
    }
}
