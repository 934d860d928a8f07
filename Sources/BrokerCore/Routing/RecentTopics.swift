// A cache of recent topics and their targets. A device publishes on the same few topics again and
// again, and a walk through the tree costs ten times as much as a look-up here. The cache contains
// no filters; every change of a filter empties it.

import Primitives

/// The result of a match: one target, or none.
struct RecentMatch<Target: ~Copyable> {
    let target: Index<Target>?
}

/// A small table of topics that match one target or none. A topic has one entry, and the last topic
/// of an entry replaces the previous one. The hash need not resist clients that choose topics: a
/// collision only causes a walk through the tree.
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
    /// Entries with another version are invalid.
    private var version: UInt32 = 1

    deinit { entries?.deallocate() }

    /// The target that the last match of a topic found; nil if the topic is not in the table.
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

    /// Stores the target of a topic.
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

    /// Invalidates all entries, because a filter was added or removed.
    mutating func removeAll() {
        version &+= 1
        guard version == 0 else { return }
        // All versions have been used: entries of the first one would become valid again.
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

    /// The offset of a topic's entry. The hash includes all bytes, because topics can differ in any
    /// of them.
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
