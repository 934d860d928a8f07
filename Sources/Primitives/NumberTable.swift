// A hash table from 64-bit numbers to 32-bit indexes, for look-ups that every message makes: the
// standard library's dictionary costs a call into its library and one more for each hash.

/// Maps numbers to indexes. Open addressing with linear probing; a removal closes its gap, so that
/// no marks of former keys collect.
///
/// Hashing is keyed, so that a peer that chooses numbers cannot make them collide. Nothing depends
/// on the order of the table.
public struct NumberTable: ~Copyable {
    @usableFromInline
    struct Slot {
        @usableFromInline var key: UInt64
        /// `empty` where the slot is free.
        @usableFromInline var value: UInt32
    }

    @usableFromInline static var empty: UInt32 { .max }

    @usableFromInline let hash = KeyedHash()
    @usableFromInline var slots: UnsafeMutablePointer<Slot>
    @usableFromInline var mask: Int
    /// Numbers in the table.
    public private(set) var count = 0

    public init() {
        mask = 7
        slots = .allocate(capacity: 8)
        slots.initialize(repeating: Slot(key: 0, value: Self.empty), count: 8)
    }

    deinit { slots.deallocate() }

    /// The index stored for `key`, or nil.
    @inlinable
    public func value(for key: UInt64) -> UInt32? {
        let slot = slots[find(key)]
        return slot.value == Self.empty ? nil : slot.value
    }

    /// Stores an index under a number, in place of the one it may have. The highest value is
    /// reserved.
    public mutating func set(_ value: UInt32, for key: UInt64) {
        precondition(value != Self.empty, "value \(value) is reserved")
        var index = find(key)
        if slots[index].value == Self.empty {
            if (count + 1) * 4 > (mask + 1) * 3 {
                grow()
                index = find(key)
            }
            count += 1
        }
        slots[index] = Slot(key: key, value: value)
    }

    /// Removes a number; returns the index it had.
    @discardableResult
    public mutating func remove(_ key: UInt64) -> UInt32? {
        var gap = find(key)
        let value = slots[gap].value
        guard value != Self.empty else { return nil }
        // What follows without a break moves up if its own place is not behind the gap.
        var next = (gap + 1) & mask
        while slots[next].value != Self.empty {
            if (next - home(of: slots[next].key)) & mask >= (next - gap) & mask {
                slots[gap] = slots[next]
                gap = next
            }
            next = (next + 1) & mask
        }
        slots[gap].value = Self.empty
        count -= 1
        return value
    }

    @inlinable
    func home(of key: UInt64) -> Int { Int(truncatingIfNeeded: hash(key)) & mask }

    /// Where a number is, or where it belongs.
    @inlinable
    func find(_ key: UInt64) -> Int {
        var index = home(of: key)
        while slots[index].value != Self.empty, slots[index].key != key {
            index = (index &+ 1) & mask
        }
        return index
    }

    private mutating func grow() {
        let old = slots
        let oldCount = mask + 1
        mask = oldCount * 2 - 1
        slots = .allocate(capacity: mask + 1)
        slots.initialize(repeating: Slot(key: 0, value: Self.empty), count: mask + 1)
        for index in 0..<oldCount where old[index].value != Self.empty {
            slots[find(old[index].key)] = old[index]
        }
        old.deallocate()
    }
}

// The table owns its memory alone.
extension NumberTable: @unchecked Sendable {}
