// A first-in first-out queue in one block of memory. It grows by doubling, gives back what a burst
// needed, and does not allocate in steady state. A ring that was never used owns no memory, so that
// an idle session's costs nothing.

/// A double-ended queue with random access by position from the front. `Element` must be plain
/// data.
public struct Ring<Element: BitwiseCopyable>: ~Copyable {
    @usableFromInline var storage: UnsafeMutablePointer<Element>?
    /// -1 without memory.
    @usableFromInline var narrowMask: Int32 = -1
    @usableFromInline @NarrowCount var head = 0
    @NarrowCount public private(set) var count = 0

    @inlinable var mask: Int { Int(narrowMask) }

    public init() {}

    deinit { storage?.deallocate() }

    @inlinable
    public var isEmpty: Bool { count == 0 }

    /// Element at `position`, counted from the front.
    @inlinable
    public subscript(position: Int) -> Element {
        unsafeAddress {
            precondition(
                position >= 0 && position < count,
                "position \(position) of a ring of \(count) elements")
            return UnsafePointer(storage! + ((head + position) & mask))
        }
        unsafeMutableAddress {
            precondition(
                position >= 0 && position < count,
                "position \(position) of a ring of \(count) elements")
            return storage! + ((head + position) & mask)
        }
    }

    public mutating func append(_ element: Element) {
        if count > mask { grow() }
        storage![(head + count) & mask] = element
        count += 1
    }

    /// Puts elements in front of the others, in their order.
    public mutating func prepend(contentsOf elements: [Element]) {
        for element in elements.reversed() {
            if count > mask { grow() }
            head = (head - 1) & mask
            storage![head] = element
            count += 1
        }
    }

    @discardableResult
    public mutating func removeFirst() -> Element {
        precondition(count > 0, "removal from a ring of \(count) elements")
        let element = storage![head]
        head = (head + 1) & mask
        count -= 1
        if mask >= Self.sparseCapacity { shrinkIfSparse() }
        return element
    }

    /// Takes out the element at `position`; those on its shorter side move up.
    public mutating func remove(at position: Int) -> Element {
        let element = self[position]
        if position < count / 2 {
            for place in stride(from: position, to: 0, by: -1) { self[place] = self[place - 1] }
            removeFirst()
            return element
        }
        for follower in position..<count - 1 {
            self[follower] = self[follower + 1]
        }
        count -= 1
        if mask >= Self.sparseCapacity { shrinkIfSparse() }
        return element
    }

    /// Empties the ring and gives its memory back.
    public mutating func removeAll() {
        storage?.deallocate()
        storage = nil
        narrowMask = -1
        head = 0
        count = 0
    }

    /// Elements up to which a ring keeps its memory: a window of ordinary size stays as it is.
    private static var sparseCapacity: Int { 128 }

    /// Gives back three quarters of the memory where an eighth is in use. At least an eighth of the
    /// capacity comes or goes between two changes, so that an element costs the same on average.
    @inline(never)
    private mutating func shrinkIfSparse() {
        if count <= mask / 8 { move(toCapacity: (mask + 1) / 4) }
    }

    private mutating func grow() { move(toCapacity: max((mask + 1) * 2, 8)) }

    private mutating func move(toCapacity capacity: Int) {
        let moved = UnsafeMutablePointer<Element>.allocate(capacity: capacity)
        for position in 0..<count {
            moved[position] = storage![(head + position) & mask]
        }
        storage?.deallocate()
        storage = moved
        narrowMask = Int32(capacity - 1)
        head = 0
    }
}

// The ring owns its memory alone.
extension Ring: @unchecked Sendable where Element: Sendable {}
