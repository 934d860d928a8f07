// Objects in one growing block of memory, addressed by 8-byte handles. A handle to something that
// was removed is recognised, even when its place has been taken by another object.

/// Names one object of a ``Slab``: its place and how often that place has been used.
public struct Handle: Hashable, Sendable {
    public var index: UInt32
    public var generation: UInt32

    @inlinable
    public init(index: UInt32, generation: UInt32) {
        self.index = index
        self.generation = generation
    }
}

/// A table of objects that stay where they are until removed, without a heap object for each.
///
/// An object's index is stable; the block itself moves when it grows, so no pointer into it may be
/// kept across an insertion.
public struct Slab<Element: ~Copyable>: ~Copyable {
    @usableFromInline
    struct Slot {
        /// Odd while the slot is in use; rises at every insertion and removal.
        @usableFromInline var generation: UInt32
        /// The next free slot, while this one is free.
        @usableFromInline var nextFree: UInt32
        @usableFromInline init(generation: UInt32, nextFree: UInt32) {
            self.generation = generation
            self.nextFree = nextFree
        }
    }

    /// Marks the end of the free list, and "no object" in tables that keep bare indexes.
    @inlinable
    public static var none: UInt32 { .max }

    @usableFromInline var slots: UnsafeMutablePointer<Slot>
    @usableFromInline var elements: UnsafeMutablePointer<Element>
    @usableFromInline var capacity: Int
    @usableFromInline var used = 0
    @usableFromInline var firstFree: UInt32 = .max
    /// Objects in the slab.
    public private(set) var count = 0

    public init(minimumCapacity: Int = 16) {
        capacity = max(minimumCapacity, 1)
        slots = .allocate(capacity: capacity)
        elements = .allocate(capacity: capacity)
    }

    deinit {
        for index in 0..<used where slots[index].generation & 1 == 1 {
            (elements + index).deinitialize(count: 1)
        }
        slots.deallocate()
        elements.deallocate()
    }

    /// Puts an object into the slab.
    public mutating func insert(_ element: consuming Element) -> Handle {
        let index: UInt32
        if firstFree != .max {
            index = firstFree
            firstFree = slots[Int(index)].nextFree
            slots[Int(index)].generation &+= 1
        } else {
            if used == capacity { grow() }
            index = UInt32(used)
            (slots + used).initialize(to: Slot(generation: 1, nextFree: .max))
            used += 1
        }
        (elements + Int(index)).initialize(to: element)
        count += 1
        return Handle(index: index, generation: slots[Int(index)].generation)
    }

    /// Takes an object out and returns it.
    @discardableResult
    public mutating func remove(_ index: UInt32) -> Element {
        precondition(contains(index), "removal of an object that is not there")
        slots[Int(index)].generation &+= 1
        slots[Int(index)].nextFree = firstFree
        firstFree = index
        count -= 1
        return (elements + Int(index)).move()
    }

    /// Whether a place is in use.
    @inlinable
    public func contains(_ index: UInt32) -> Bool {
        Int(index) < used && slots[Int(index)].generation & 1 == 1
    }

    /// Whether the object of this handle is still there.
    @inlinable
    public func contains(_ handle: Handle) -> Bool {
        Int(handle.index) < used && slots[Int(handle.index)].generation == handle.generation
    }

    /// The handle of the object at a place in use.
    @inlinable
    public func handle(_ index: UInt32) -> Handle {
        precondition(contains(index), "a handle for an object that is not there")
        return Handle(index: index, generation: slots[Int(index)].generation)
    }

    /// The object at a place in use; traps where there is none.
    @inlinable
    public subscript(index: UInt32) -> Element {
        unsafeAddress {
            precondition(contains(index), "access to an object that is not there")
            return UnsafePointer(elements + Int(index))
        }
        unsafeMutableAddress {
            precondition(contains(index), "access to an object that is not there")
            return elements + Int(index)
        }
    }

    /// One past the highest place ever used; places in between may be free.
    @inlinable
    public var endIndex: UInt32 { UInt32(used) }

    private mutating func grow() {
        let newCapacity = capacity * 2
        let newSlots = UnsafeMutablePointer<Slot>.allocate(capacity: newCapacity)
        let newElements = UnsafeMutablePointer<Element>.allocate(capacity: newCapacity)
        newSlots.moveInitialize(from: slots, count: used)
        for index in 0..<used where newSlots[index].generation & 1 == 1 {
            (newElements + index).moveInitialize(from: elements + index, count: 1)
        }
        slots.deallocate()
        elements.deallocate()
        slots = newSlots
        elements = newElements
        capacity = newCapacity
    }
}

// Its memory is its own: whoever has the slab has all of it.
extension Slab: @unchecked Sendable where Element: ~Copyable & Sendable {}
