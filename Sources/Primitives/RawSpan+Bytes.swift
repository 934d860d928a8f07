// Single bytes and words of a span. The standard library calls every load of a `RawSpan` unsafe,
// since the type that is loaded could be one that not all bytes make a value of; the integers here
// can be read from any bytes.
//
// Each access checks its bounds once, as unsigned numbers, so that the optimizer leaves the check
// out in a loop over the offsets. It does not do so with the checks of the standard library's own
// loads, which compare signed offsets and subtract the size of the type.

extension RawSpan {
    /// The byte at `offset`.
    @inlinable
    public subscript(offset: Int) -> UInt8 {
        @inline(__always) get {
            precondition(
                UInt(bitPattern: offset) < UInt(bitPattern: byteCount),
                "offset \(offset) of \(byteCount) bytes")
            return unsafeLoad(fromUncheckedByteOffset: offset, as: UInt8.self)
        }
    }

    /// The integer whose bytes begin at `offset`, in the order of this machine.
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

// Whether bytes are the same. The standard library's elementsEqual goes byte by byte, through
// iterators; a look-up compares a name every time.

extension UnsafeRawBufferPointer {
    /// Whether there are as many bytes in another buffer, and the same.
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
