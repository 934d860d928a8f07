// A cache of recent topics and their targets: a device publishes on the same few topics again and
// again, and a walk through the tree costs ten times as much as a look-up here. The cache knows no
// filters; a change of a filter empties it.

import Primitives

/// What a topic matched: one target, or none.
struct RecentMatch<Target: ~Copyable> {
    let target: Index<Target>?
}

/// A small table of topics that lead to one target or to none. A topic has one place, and the last
/// topic of a place replaces the one before. The hash need not be safe from clients that choose
/// topics: a collision only causes a walk through the tree.
struct RecentTopics<Target: ~Copyable>: ~Copyable {
    /// One cache line:
    ///
    ///     0         4          8       9
    ///     +---------+----------+-------+--------------------+
    ///     | version | target   | count | topic              |
    ///     +---------+----------+-------+--------------------+
    private static var entryByteCount: Int { 64 }
    private static var topicOffset: Int { 9 }
    static var topicByteCountMaximum: Int { entryByteCount - topicOffset }
    /// 16 KiB for an app whose clients publish on topics, and nothing for others.
    private static var entryCount: Int { 256 }

    private var entries: UnsafeMutableRawPointer?
    /// Entries of another version are void.
    private var version: UInt32 = 1

    deinit { entries?.deallocate() }

    /// What the last match of a topic found; nil where the table does not hold it.
    func match(of topic: UnsafeRawBufferPointer) -> RecentMatch<Target>? {
        guard let entries, topic.count <= Self.topicByteCountMaximum else { return nil }
        let entry = entries + Self.offset(of: topic)
        guard entry.load(as: UInt32.self) == version,
            entry.load(fromByteOffset: 8, as: UInt8.self) == UInt8(topic.count),
            UnsafeRawBufferPointer(start: entry + Self.topicOffset, count: topic.count)
                .isEqual(to: topic)
        else { return nil }
        return RecentMatch(
            target: entry.load(fromByteOffset: 4, as: Packed<Target>.self).wrappedValue)
    }

    /// Notes where a topic led.
    mutating func note(_ topic: UnsafeRawBufferPointer, target: Index<Target>?) {
        guard topic.count <= Self.topicByteCountMaximum else { return }
        if entries == nil { makeEntries() }
        let entry = entries! + Self.offset(of: topic)
        entry.storeBytes(of: version, as: UInt32.self)
        entry.storeBytes(
            of: Packed(wrappedValue: target), toByteOffset: 4, as: Packed<Target>.self)
        entry.storeBytes(of: UInt8(topic.count), toByteOffset: 8, as: UInt8.self)
        UnsafeMutableRawBufferPointer(start: entry + Self.topicOffset, count: topic.count)
            .copyMemory(from: topic)
    }

    /// A filter has come or gone.
    mutating func removeAll() {
        version &+= 1
        guard version == 0 else { return }
        // All versions were used: what is left of the first would be believed again.
        entries?.deallocate()
        entries = nil
        version = 1
    }

    private mutating func makeEntries() {
        let byteCount = Self.entryCount * Self.entryByteCount
        let memory = UnsafeMutableRawPointer.allocate(
            byteCount: byteCount, alignment: Self.entryByteCount)
        // No entry has version 0.
        memory.initializeMemory(as: UInt8.self, repeating: 0, count: byteCount)
        entries = memory
    }

    /// Of the place of a topic: all of its bytes count, since topics differ anywhere.
    private static func offset(of topic: UnsafeRawBufferPointer) -> Int {
        let factor: UInt64 = 0x9E37_79B9_7F4A_7C15
        var hash = UInt64(topic.count)
        var offset = 0
        while offset &+ 8 <= topic.count {
            hash =
                (hash ^ topic.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) &* factor
            hash ^= hash >> 32
            offset &+= 8
        }
        var last: UInt64 = 0
        while offset < topic.count {
            last = last << 8 | UInt64(topic[offset])
            offset &+= 1
        }
        hash = (hash ^ last) &* factor
        return Int(truncatingIfNeeded: hash >> 56) * entryByteCount
    }
}

// The table owns its memory and shares it with no other object.
extension RecentTopics: @unchecked Sendable where Target: ~Copyable {}
