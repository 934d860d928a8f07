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
