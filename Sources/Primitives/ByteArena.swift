// Bytes appended one after another into one growing block, addressed by ranges, emptied all at
// once.

/// A reusable heap of bytes: appending is a copy, emptying is free, and nothing is allocated once
/// it has reached its working size.
public struct ByteArena: ~Copyable {
    @usableFromInline var storage: UnsafeMutableRawPointer
    @usableFromInline var capacity: Int
    @usableFromInline var used = 0

    public init(capacity: Int = 4096) {
        self.capacity = max(capacity, 16)
        storage = .allocate(byteCount: self.capacity, alignment: 16)
    }

    deinit { storage.deallocate() }

    /// Bytes appended since the arena was last emptied.
    @inlinable
    public var count: Int { used }

    /// Bytes of the block.
    public var heldByteCount: Int { capacity }

    /// Everything appended so far. Valid until the next change of the arena.
    @inlinable
    public var bytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: storage, count: used)
    }

    @inlinable @inline(__always)
    public mutating func append(_ source: UnsafeRawBufferPointer) -> ByteRange {
        let range = reserve(source.count)
        if let base = source.baseAddress {
            (storage + Int(range.offset)).copyMemory(from: base, byteCount: source.count)
        }
        return range
    }

    /// Makes room for `count` bytes with undefined contents.
    @inlinable @inline(__always)
    public mutating func reserve(_ count: Int) -> ByteRange {
        if used + count > capacity { grow(toHold: used + count) }
        let range = ByteRange(offset: used, count: count)
        used += count
        return range
    }

    /// The bytes of a range of this arena, to be filled in. Valid until the next change of its
    /// size.
    @inlinable
    public mutating func mutableBytes(_ range: ByteRange) -> UnsafeMutableRawBufferPointer {
        precondition(range.endOffset <= used, "a range to \(range.endOffset) of \(used) bytes")
        return UnsafeMutableRawBufferPointer(
            start: storage + Int(range.offset), count: Int(range.count))
    }

    /// Empties the arena. An arena that had to grow past `retainingAtMost` shrinks back to it, so
    /// that one huge message does not hold its memory for ever.
    public mutating func removeAll(retainingAtMost maximum: Int = 1 << 22) {
        used = 0
        if capacity > maximum {
            storage.deallocate()
            capacity = maximum
            storage = .allocate(byteCount: capacity, alignment: 16)
        }
    }

    @usableFromInline
    mutating func grow(toHold needed: Int) {
        let newCapacity = max(capacity * 2, needed)
        let grown = UnsafeMutableRawPointer.allocate(byteCount: newCapacity, alignment: 16)
        grown.copyMemory(from: storage, byteCount: used)
        storage.deallocate()
        storage = grown
        capacity = newCapacity
    }
}

// The arena owns its memory alone.
extension ByteArena: @unchecked Sendable {}
