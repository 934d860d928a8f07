// Objects in one growing block of memory, addressed by 8-byte handles. A handle to something that
// was removed is recognised, even when its place has been taken by another object.

/// Names one object of a ``Slab``: its place and how often that place has been used.
public struct Handle: Hashable, Sendable, BitwiseCopyable {
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
    /// Marks the end of the free list, and "no object" in tables that keep bare indexes.
    @inlinable
    public static var none: UInt32 { .max }

    /// Odd while the place is in use; rises at every insertion and removal.
    @usableFromInline var generations: UnsafeMutablePointer<UInt32>
    /// A free place holds the index of the next one.
    @usableFromInline var elements: UnsafeMutablePointer<Element>
    @usableFromInline var capacity: Int
    @usableFromInline var used = 0
    @usableFromInline var firstFree: UInt32 = .max
    /// Objects in the slab.
    public private(set) var count = 0

    public init(minimumCapacity: Int = 16) {
        precondition(
            MemoryLayout<Element>.size >= MemoryLayout<UInt32>.size,
            "objects that are smaller than an index")
        capacity = max(minimumCapacity, 1)
        generations = .allocate(capacity: capacity)
        elements = .allocate(capacity: capacity)
    }

    deinit {
        for index in 0..<used where generations[index] & 1 == 1 {
            (elements + index).deinitialize(count: 1)
        }
        generations.deallocate()
        elements.deallocate()
    }

    /// Puts an object into the slab.
    public mutating func insert(_ element: consuming Element) -> Handle {
        let index: UInt32
        if firstFree != .max {
            index = firstFree
            firstFree = nextFree(index)
            generations[Int(index)] &+= 1
        } else {
            if used == capacity { grow() }
            index = UInt32(used)
            (generations + used).initialize(to: 1)
            used += 1
        }
        (elements + Int(index)).initialize(to: element)
        count += 1
        return Handle(index: index, generation: generations[Int(index)])
    }

    /// Takes an object out and returns it.
    @discardableResult
    public mutating func remove(_ index: UInt32) -> Element {
        precondition(contains(index), "removal of an object that is not there")
        let element = (elements + Int(index)).move()
        generations[Int(index)] &+= 1
        UnsafeMutableRawPointer(elements + Int(index))
            .storeBytes(of: firstFree, as: UInt32.self)
        firstFree = index
        count -= 1
        return element
    }

    /// Whether a place is in use.
    @inlinable
    public func contains(_ index: UInt32) -> Bool {
        Int(index) < used && generations[Int(index)] & 1 == 1
    }

    /// Whether the object of this handle is still there.
    @inlinable
    public func contains(_ handle: Handle) -> Bool {
        Int(handle.index) < used && generations[Int(handle.index)] == handle.generation
    }

    /// The handle of the object at a place in use.
    @inlinable
    public func handle(_ index: UInt32) -> Handle {
        precondition(contains(index), "a handle for an object that is not there")
        return Handle(index: index, generation: generations[Int(index)])
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

    /// What lies in a free place.
    private func nextFree(_ index: UInt32) -> UInt32 {
        UnsafeRawPointer(elements + Int(index)).load(as: UInt32.self)
    }

    private mutating func grow() {
        let newCapacity = capacity * 2
        let newGenerations = UnsafeMutablePointer<UInt32>.allocate(capacity: newCapacity)
        let newElements = UnsafeMutablePointer<Element>.allocate(capacity: newCapacity)
        newGenerations.moveInitialize(from: generations, count: used)
        for index in 0..<used {
            if newGenerations[index] & 1 == 1 {
                (newElements + index).moveInitialize(from: elements + index, count: 1)
            } else {
                UnsafeMutableRawPointer(newElements + index)
                    .storeBytes(of: nextFree(UInt32(index)), as: UInt32.self)
            }
        }
        generations.deallocate()
        elements.deallocate()
        generations = newGenerations
        elements = newElements
        capacity = newCapacity
    }
}

// Its memory is its own: whoever has the slab has all of it.
extension Slab: @unchecked Sendable where Element: ~Copyable & Sendable {}
