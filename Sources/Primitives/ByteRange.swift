// A part of a buffer that has another owner, as plain numbers: it can be stored, compared, printed
// and replayed, and it cannot dangle. Together with the buffer it gives the bytes.

/// `count` bytes that begin at `offset` of the buffer it was made for. 32 bits each: no buffer that
/// ranges point into is larger than 4 GiB.
public struct ByteRange: Hashable, BitwiseCopyable, Sendable {
    public var offset: UInt32
    public var count: UInt32

    @inlinable
    public init(offset: Int, count: Int) {
        self.offset = UInt32(offset)
        self.count = UInt32(count)
    }

    /// No bytes.
    @inlinable
    public static var empty: ByteRange { ByteRange(offset: 0, count: 0) }

    @inlinable
    public var isEmpty: Bool { count == 0 }

    /// One past the last byte.
    @inlinable
    public var endOffset: Int { Int(offset) + Int(count) }

    /// The same bytes in a buffer that holds this one's at `base`.
    @inlinable
    public func shifted(by base: Int) -> ByteRange {
        ByteRange(offset: Int(offset) + base, count: Int(count))
    }

    /// The bytes of this range in `buffer`. A range that does not fit traps: it was made for
    /// another buffer.
    @inlinable @inline(__always)
    public func bytes(in buffer: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        precondition(endOffset <= buffer.count, "a range to \(endOffset) of \(buffer.count) bytes")
        // Not by a slice, which would check the same bounds twice more.
        guard let base = buffer.baseAddress else {
            return UnsafeRawBufferPointer(start: nil, count: 0)
        }
        return UnsafeRawBufferPointer(start: base + Int(offset), count: Int(count))
    }

    /// The offsets of this range's bytes in its buffer.
    @inlinable
    public var offsets: Range<Int> { Int(offset)..<endOffset }

    /// The same of a span.
    @inlinable @inline(__always)
    @_lifetime(copy span)
    public func bytes(in span: RawSpan) -> RawSpan {
        precondition(
            endOffset <= span.byteCount, "a range to \(endOffset) of \(span.byteCount) bytes")
        // The line above has checked the range; its numbers have no sign.
        return span.extracting(unchecked: offsets)
    }
}
