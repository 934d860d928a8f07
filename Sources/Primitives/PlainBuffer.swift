// Values without references, one behind the other in one growing block, emptied all at once.

/// The hot path uses it in place of an array: append needs no uniqueness check, since the buffer
/// has one owner, and elements need no destruction, so emptying costs nothing. Nothing is allocated
/// once it has reached its working size.
public struct PlainBuffer<Element: BitwiseCopyable>: ~Copyable {
    @usableFromInline var storage: UnsafeMutablePointer<Element>
    @usableFromInline var capacity: Int
    @usableFromInline var used = 0

    public init(capacity: Int = 64) {
        self.capacity = max(capacity, 1)
        storage = .allocate(capacity: self.capacity)
    }

    /// The same elements in no more memory than they need.
    public init(copying other: borrowing PlainBuffer) {
        self.init(capacity: other.count)
        storage.initialize(from: other.storage, count: other.count)
        used = other.count
    }

    deinit { storage.deallocate() }

    /// Bytes of the block.
    public var heldByteCount: Int { capacity * MemoryLayout<Element>.stride }

    @inlinable
    public var count: Int { used }

    @inlinable
    public var isEmpty: Bool { used == 0 }

    @inlinable
    public var indices: Range<Int> { 0..<used }

    /// Valid until the next change of the buffer.
    @inlinable
    public var elements: UnsafeBufferPointer<Element> {
        UnsafeBufferPointer(start: storage, count: used)
    }

    @inlinable
    public subscript(index: Int) -> Element {
        unsafeAddress { UnsafePointer(address(index)) }
        unsafeMutableAddress { address(index) }
    }

    @usableFromInline
    func address(_ index: Int) -> UnsafeMutablePointer<Element> {
        precondition(index >= 0 && index < used, "index \(index) of \(used)")
        return storage + index
    }

    @inlinable @inline(__always)
    public mutating func append(_ element: Element) {
        if used == capacity { grow() }
        (storage + used).initialize(to: element)
        used += 1
    }

    @inlinable
    public mutating func append(contentsOf elements: borrowing [Element]) {
        for index in elements.indices { append(elements[index]) }
    }

    @inlinable
    public mutating func removeAll() { used = 0 }

    /// Empties the buffer. One that had to grow past `maximum` elements shrinks back to so many.
    public mutating func removeAll(retainingAtMost maximum: Int) {
        used = 0
        guard capacity > maximum else { return }
        storage.deallocate()
        capacity = max(maximum, 1)
        storage = .allocate(capacity: capacity)
    }

    @usableFromInline
    mutating func grow() {
        let grown = UnsafeMutablePointer<Element>.allocate(capacity: capacity * 2)
        grown.update(from: storage, count: used)
        storage.deallocate()
        storage = grown
        capacity *= 2
    }
}

// The buffer owns its memory alone.
extension PlainBuffer: @unchecked Sendable where Element: Sendable {}
