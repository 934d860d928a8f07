// A hash table of bare indexes: the keys stay with the objects that the indexes name, so that each
// is kept once. Eight bytes a place, where a table with its own copy of a name takes forty.

/// Finds objects by a key that they hold themselves. Open addressing with linear probing; a removal
/// closes its gap, so that no marks of former entries collect.
///
/// Hashing is keyed, so that a peer that chooses keys cannot make them collide. Nothing depends on
/// the order of the table.
public struct IndexTable<Entity: ~Copyable>: ~Copyable {
    @usableFromInline
    struct Slot {
        /// Of the key: tells where the entry belongs, and spares most looks at the object.
        @usableFromInline var hash: UInt32
        /// `empty` where the slot is free.
        @usableFromInline var index: UInt32
    }

    @usableFromInline static var empty: UInt32 { .max }

    /// Makes the hashes that the other functions take.
    public let hash = KeyedHash()
    @usableFromInline var slots: UnsafeMutablePointer<Slot>
    @usableFromInline var mask: UInt32
    /// Entries in the table.
    public private(set) var count = 0

    public init() {
        mask = 7
        slots = .allocate(capacity: 8)
        slots.initialize(repeating: Slot(hash: 0, index: Self.empty), count: 8)
    }

    deinit { slots.deallocate() }

    /// The entry with this hash whose object `isWanted` says yes to, or nil.
    @inlinable
    public func find(
        _ hash: UInt64, where isWanted: (Index<Entity>) -> Bool
    ) -> Index<Entity>? {
        let hash = UInt32(truncatingIfNeeded: hash)
        var place = hash & mask
        while slots[Int(place)].index != Self.empty {
            let slot = slots[Int(place)]
            if slot.hash == hash, isWanted(Index(place: slot.index)) {
                return Index(place: slot.index)
            }
            place = (place &+ 1) & mask
        }
        return nil
    }

    /// Adds an entry whose key is not in the table yet. The highest index is reserved.
    public mutating func insert(_ index: Index<Entity>, hash: UInt64) {
        precondition(index.place != Self.empty, "place \(index.place) is reserved")
        // Seven eighths full, a search that finds looks at 4.5 entries on average, side by side.
        if (count + 1) * 8 > (Int(mask) + 1) * 7 { grow() }
        place(Slot(hash: UInt32(truncatingIfNeeded: hash), index: index.place))
        count += 1
    }

    /// Removes the entry of an index; false where it is not in the table under this hash.
    @discardableResult
    public mutating func remove(_ index: Index<Entity>, hash: UInt64) -> Bool {
        var gap = UInt32(truncatingIfNeeded: hash) & mask
        while slots[Int(gap)].index != index.place {
            if slots[Int(gap)].index == Self.empty { return false }
            gap = (gap &+ 1) & mask
        }
        // What follows without a break moves up if its own place is not behind the gap.
        var next = (gap &+ 1) & mask
        while slots[Int(next)].index != Self.empty {
            if (next &- slots[Int(next)].hash) & mask >= (next &- gap) & mask {
                slots[Int(gap)] = slots[Int(next)]
                gap = next
            }
            next = (next &+ 1) & mask
        }
        slots[Int(gap)].index = Self.empty
        count -= 1
        return true
    }

    private mutating func place(_ slot: Slot) {
        var place = slot.hash & mask
        while slots[Int(place)].index != Self.empty { place = (place &+ 1) & mask }
        slots[Int(place)] = slot
    }

    private mutating func grow() {
        let old = slots
        let oldCount = Int(mask) + 1
        precondition(oldCount < 1 << 31, "\(oldCount) entries")
        mask = UInt32(oldCount * 2 - 1)
        slots = .allocate(capacity: oldCount * 2)
        slots.initialize(repeating: Slot(hash: 0, index: Self.empty), count: oldCount * 2)
        for slot in 0..<oldCount where old[slot].index != Self.empty { place(old[slot]) }
        old.deallocate()
    }
}

// The table owns its memory alone.
extension IndexTable: @unchecked Sendable where Entity: ~Copyable {}
