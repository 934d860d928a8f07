// A hash table from byte strings to 32-bit indexes that can be asked with borrowed bytes: looking
// up the user of an incoming packet allocates nothing.

/// Maps byte strings to indexes. Open addressing with linear probing; keys lie in one block of
/// memory.
///
/// Hashing is keyed, so that a peer that chooses ids cannot make them collide. Nothing depends on
/// the order of the table.
public struct ByteKeyTable<Entity: ~Copyable>: ~Copyable {
    private struct Slot {
        /// Upper hash bits, to skip most comparisons.
        var fingerprint: UInt32
        /// The value; `empty` or `deleted` mark slots without one.
        var value: UInt32
        var keyOffset: UInt32
        var keyCount: UInt32
    }

    private static var empty: UInt32 { .max }
    private static var deleted: UInt32 { .max - 1 }

    private let hash = KeyedHash()
    private var slots: UnsafeMutablePointer<Slot>
    private var mask: Int
    private var occupied = 0
    private var keys = ByteArena(capacity: 256)
    private var deadKeyBytes = 0
    /// Keys in the table.
    public private(set) var count = 0

    public init() {
        mask = 7
        slots = .allocate(capacity: 8)
        slots.initialize(
            repeating: Slot(fingerprint: 0, value: Self.empty, keyOffset: 0, keyCount: 0), count: 8)
    }

    deinit { slots.deallocate() }

    /// The index stored for `key`, or nil.
    public func value(for key: UnsafeRawBufferPointer) -> Index<Entity>? {
        guard let slot = find(key, hash: hash(key)) else { return nil }
        return Index(place: slots[slot].value)
    }

    /// Stores an index under a key that is not in the table yet. The two highest values are
    /// reserved.
    public mutating func insert(_ value: Index<Entity>, for key: UnsafeRawBufferPointer) {
        precondition(value.place < Self.deleted, "place \(value.place) is reserved")
        if (occupied + 1) * 4 > (mask + 1) * 3 { rebuild() }
        let hash = self.hash(key)
        assert(find(key, hash: hash) == nil, "a key is inserted twice")
        let range = keys.append(key)
        place(
            Slot(
                fingerprint: UInt32(truncatingIfNeeded: hash >> 32), value: value.place,
                keyOffset: range.offset, keyCount: range.count), hash: hash)
        count += 1
    }

    /// Removes a key; returns the index it had.
    @discardableResult
    public mutating func remove(_ key: UnsafeRawBufferPointer) -> Index<Entity>? {
        guard let slot = find(key, hash: hash(key)) else { return nil }
        let value = slots[slot].value
        deadKeyBytes += Int(slots[slot].keyCount)
        slots[slot].value = Self.deleted
        count -= 1
        return Index(place: value)
    }

    private func find(_ key: UnsafeRawBufferPointer, hash: UInt64) -> Int? {
        let fingerprint = UInt32(truncatingIfNeeded: hash >> 32)
        var index = Int(truncatingIfNeeded: hash) & mask
        while slots[index].value != Self.empty {
            let slot = slots[index]
            if slot.value != Self.deleted && slot.fingerprint == fingerprint
                && UnsafeRawBufferPointer(
                    start: keys.bytes.baseAddress! + Int(slot.keyOffset), count: Int(slot.keyCount)
                ).isEqual(to: key)
            {
                return index
            }
            index = (index + 1) & mask
        }
        return nil
    }

    private mutating func place(_ slot: Slot, hash: UInt64) {
        var index = Int(truncatingIfNeeded: hash) & mask
        while slots[index].value != Self.empty { index = (index + 1) & mask }
        slots[index] = slot
        occupied += 1
    }

    /// Doubles the table when it is filled by live keys, otherwise only sheds deleted ones.
    private mutating func rebuild() {
        let old = slots
        let oldCount = mask + 1
        let newCount = count * 2 >= oldCount ? oldCount * 2 : oldCount
        slots = .allocate(capacity: newCount)
        slots.initialize(
            repeating: Slot(fingerprint: 0, value: Self.empty, keyOffset: 0, keyCount: 0),
            count: newCount)
        mask = newCount - 1
        occupied = 0
        var newKeys = ByteArena(capacity: max(keys.count - deadKeyBytes, 256))
        for index in 0..<oldCount where old[index].value < Self.deleted {
            var slot = old[index]
            let key = UnsafeRawBufferPointer(
                rebasing: keys.bytes[Int(slot.keyOffset)..<Int(slot.keyOffset + slot.keyCount)])
            slot.keyOffset = newKeys.append(key).offset
            place(slot, hash: hash(key))
        }
        keys = newKeys
        deadKeyBytes = 0
        old.deallocate()
    }
}

// The table owns its memory alone.
extension ByteKeyTable: @unchecked Sendable where Entity: ~Copyable {}
