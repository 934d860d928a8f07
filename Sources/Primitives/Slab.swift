// Objects in one growing block of memory, addressed by 8-byte handles. A handle to something that
// was removed is recognised, even when its place has been taken by another object.

/// The place of one object in a ``Slab`` of its type, valid while the object is there.
///
/// Different tables have different types of index, so that a user's index is never taken for a
/// session's.
@frozen
public struct Index<Entity: ~Copyable>: Hashable, Sendable, BitwiseCopyable {
    /// The number of the place, below `UInt32.max`.
    public let place: UInt32

    @inlinable
    public init(place: UInt32) {
        self.place = place
    }
}

/// An index that may be absent, in the four bytes of one that may not.
@frozen
@propertyWrapper
public struct Packed<Entity: ~Copyable>: Hashable, Sendable, BitwiseCopyable {
    /// `UInt32.max` where there is no index.
    @usableFromInline var place: UInt32

    @inlinable
    public init(wrappedValue: Index<Entity>?) {
        place = wrappedValue?.place ?? .max
    }

    public var wrappedValue: Index<Entity>? {
        @inline(__always) @inlinable
        get { place == .max ? nil : Index(place: place) }
        @inline(__always) @inlinable
        set { place = newValue?.place ?? .max }
    }
}

/// Names one object of a ``Slab``: its place and how often that place has been used. A handle to an
/// object that was removed is recognised, even when another object has taken its place.
@frozen
public struct Handle<Entity: ~Copyable>: Hashable, Sendable, BitwiseCopyable {
    public let index: Index<Entity>
    public let generation: UInt32

    @inlinable
    public init(index: Index<Entity>, generation: UInt32) {
        self.index = index
        self.generation = generation
    }

    /// Names no object: a place in use has an odd generation.
    @inlinable
    public static var none: Handle { Handle(index: Index(place: 0), generation: 0) }
}

/// A table of objects that stay where they are until removed, without a heap object for each.
///
/// An object's index is stable; the block itself moves when it grows, so no pointer into it may be
/// kept across an insertion.
public struct Slab<Element: ~Copyable>: ~Copyable {
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
            "objects of \(MemoryLayout<Element>.size) bytes are smaller than an index")
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
    public mutating func insert(_ element: consuming Element) -> Handle<Element> {
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
        return Handle(index: Index(place: index), generation: generations[Int(index)])
    }

    /// Takes an object out and returns it.
    @discardableResult
    public mutating func remove(_ index: Index<Element>) -> Element {
        precondition(contains(index), "no object to remove at place \(index.place) of \(used)")
        let place = Int(index.place)
        let element = (elements + place).move()
        generations[place] &+= 1
        UnsafeMutableRawPointer(elements + place).storeBytes(of: firstFree, as: UInt32.self)
        firstFree = index.place
        count -= 1
        return element
    }

    /// Whether a place is in use.
    @inlinable
    public func contains(_ index: Index<Element>) -> Bool {
        Int(index.place) < used && generations[Int(index.place)] & 1 == 1
    }

    /// Whether the object of this handle is still there.
    @inlinable
    public func contains(_ handle: Handle<Element>) -> Bool {
        Int(handle.index.place) < used
            && generations[Int(handle.index.place)] == handle.generation
    }

    /// The handle of the object at a place in use.
    @inlinable
    public func handle(_ index: Index<Element>) -> Handle<Element> {
        precondition(contains(index), "no object to name at place \(index.place) of \(used)")
        return Handle(index: index, generation: generations[Int(index.place)])
    }

    /// The object at a place in use; traps where there is none.
    @inlinable
    public subscript(index: Index<Element>) -> Element {
        unsafeAddress { address(of: index) }
        unsafeMutableAddress { mutableAddress(of: index) }
    }

    /// The address of the object at a place in use, for the accessors of a type that owns a slab. A
    /// coroutine that yields the object would allocate memory where it is called.
    @inline(__always) @inlinable
    public func address(of index: Index<Element>) -> UnsafePointer<Element> {
        UnsafePointer(mutableAddress(of: index))
    }

    /// The same, to change the object.
    @inline(__always) @inlinable
    public func mutableAddress(of index: Index<Element>) -> UnsafeMutablePointer<Element> {
        precondition(contains(index), "no object at place \(index.place) of \(used)")
        return elements + Int(index.place)
    }

    /// All places that were ever in use, in rising order. Some of them may be free.
    @inlinable
    public var places: SlabPlaces<Element> { SlabPlaces(end: UInt32(used)) }

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

/// The places of a ``Slab``, whether they are in use or not.
@frozen
public struct SlabPlaces<Entity: ~Copyable>: Sequence, IteratorProtocol, BitwiseCopyable {
    @usableFromInline var place: UInt32 = 0
    @usableFromInline let end: UInt32

    @inlinable
    init(end: UInt32) {
        self.end = end
    }

    /// Those behind a place, which may be any number; all for nil.
    @inlinable
    public func after(_ last: UInt32?) -> SlabPlaces {
        guard let last else { return self }
        var rest = self
        rest.place = last < end ? Swift.max(last + 1, place) : end
        return rest
    }

    /// How many places remain.
    @inlinable
    public var count: Int { Int(end - place) }

    @inlinable
    public mutating func next() -> Index<Entity>? {
        guard place < end else { return nil }
        defer { place += 1 }
        return Index(place: place)
    }
}

// The slab owns its memory alone.
extension Slab: @unchecked Sendable where Element: ~Copyable & Sendable {}
