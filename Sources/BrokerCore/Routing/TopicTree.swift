// Filters as a tree of levels (MQTT 4.7). Levels are interned, so that a step down the tree is one
// look-up of two numbers. A match visits at most one node for each way in which filters place `+`
// in their first levels (FilterShapes.swift), however many filters there are.

import Primitives

/// The filters of one app. Each leads to a target: an audience, or the shares of a pattern.
struct TopicTree<Target: ~Copyable>: ~Copyable {
    // Not private: Swift 6.3.1 emits a broken module if another file of the target holds this tree
    // and its slabs hold private types.

    /// A position in the tree: all filters with the same first levels.
    struct Node {
        /// Nil for the root.
        @Packed var parent: Index<Node>?
        /// The interned level that leads here; nil for the root and for "+".
        @Packed var level: Index<LevelUse>?
        /// The target of the filter that ends here; nil if there is none.
        @Packed var target: Index<Target>? = nil
        /// The target of the filter that ends with "/#" here; nil if there is none.
        @Packed var multiTarget: Index<Target>? = nil
        /// The child for "+".
        @Packed var plus: Index<Node>? = nil
        var childCount: UInt32 = 0
    }

    /// A level name, and the number of edges with that name.
    struct LevelUse {
        let name: [UInt8]
        var count = 0
    }

    private var levels = ByteKeyTable<LevelUse>()
    private var levelUses = Slab<LevelUse>()
    private var nodes = Slab<Node>()
    /// The children of all nodes, by ``edge(_:_:)``.
    private var edges = NumberTable()
    private var recent = RecentTopics<Target>()
    private(set) var shapes = FilterShapes()
    private let root: Index<Node>

    init() {
        root = nodes.insert(Node(parent: nil, level: nil)).index
    }

    /// Whether the tree has no filters: no node but the root, and no level.
    var isEmpty: Bool {
        nodes.count == 1 && edges.count == 0 && levelUses.count == 0 && shapes.count == 0
    }

    /// The target of a filter; nil if the tree does not have it.
    func target(of filter: UnsafeRawBufferPointer) -> Index<Target>? {
        var ignored = 0
        return target(of: filter, visitedCount: &ignored)
    }

    /// - Parameter visitedCount: increased by the number of nodes visited.
    func target(
        of filter: UnsafeRawBufferPointer, visitedCount: inout Int
    ) -> Index<Target>? {
        var node = root
        var rest = TopicLevels(filter)
        while let level = rest.next() {
            visitedCount += 1
            if level.isHash { return nodes[node].multiTarget }
            guard let next = level.isPlus ? nodes[node].plus : child(of: node, level.bytes) else {
                return nil
            }
            node = next
        }
        return nodes[node].target
    }

    /// Adds a filter and its target. The filter has been checked, and is not in the tree.
    mutating func insert(_ filter: UnsafeRawBufferPointer, target: Index<Target>) {
        recent.removeAll()
        var node = root
        var rest = TopicLevels(filter)
        var (hasPlus, endsInHash) = (false, false)
        while let level = rest.next() {
            if level.isHash {
                endsInHash = true
                break
            }
            if level.isPlus {
                hasPlus = true
                node = makePlusChild(of: node)
            } else {
                node = makeChild(of: node, level: level.bytes)
            }
        }
        if endsInHash {
            nodes[node].multiTarget = target
        } else {
            nodes[node].target = target
        }
        if hasPlus { shapes.insert(filter) }
    }

    /// Removes a filter, and the nodes that only it needed.
    mutating func remove(_ filter: UnsafeRawBufferPointer) {
        recent.removeAll()
        var node = root
        var rest = TopicLevels(filter)
        var (hasPlus, endsInHash) = (false, false)
        while let level = rest.next() {
            if level.isHash {
                endsInHash = true
                break
            }
            if level.isPlus { hasPlus = true }
            guard let next = level.isPlus ? nodes[node].plus : child(of: node, level.bytes) else {
                preconditionFailure("no node for \(String(decoding: filter, as: UTF8.self))")
            }
            node = next
        }
        if endsInHash {
            nodes[node].multiTarget = nil
        } else {
            nodes[node].target = nil
        }
        if hasPlus { shapes.remove(filter) }
        prune(node)
    }

    /// The target that a recent match of a topic found; nil if the topic must be matched.
    func recentMatch(of topic: UnsafeRawBufferPointer) -> RecentMatch<Target>? {
        recent.match(of: topic)
    }

    /// Caches the match of a topic, if it is one filter or none.
    mutating func noteMatch(_ topic: UnsafeRawBufferPointer, target: Index<Target>?) {
        recent.note(topic, target: target)
    }

    /// Appends the targets of all filters that match a topic. Returns the number of nodes visited.
    ///
    /// A topic that begins with `$` does not match a filter that begins with a wildcard
    /// [MQTT-4.7.2-1].
    func match(
        _ topic: UnsafeRawBufferPointer, into targets: inout ContiguousArray<Index<Target>>
    ) -> Int {
        let isReserved = topic.first == UInt8(ascii: "$")
        return match(TopicLevels(topic), from: root, allowsWildcard: !isReserved, into: &targets)
    }

    private func match(
        _ levels: TopicLevels, from start: Index<Node>, allowsWildcard isAllowed: Bool,
        into targets: inout ContiguousArray<Index<Target>>
    ) -> Int {
        var (node, rest, allowsWildcard) = (start, levels, isAllowed)
        var visitedCount = 1
        while true {
            // "sport/#" also matches "sport": the parent level counts [MQTT 4.7.1.2].
            if allowsWildcard, let target = nodes[node].multiTarget {
                targets.append(target)
            }
            guard let level = rest.next() else {
                if let target = nodes[node].target { targets.append(target) }
                return visitedCount
            }
            if allowsWildcard, let plus = nodes[node].plus {
                visitedCount &+= match(
                    rest, from: plus, allowsWildcard: true, into: &targets)
            }
            guard nodes[node].childCount > 0, let child = child(of: node, level.bytes) else {
                return visitedCount
            }
            node = child
            allowsWildcard = true
            visitedCount &+= 1
        }
    }

    /// An edge of the tree as one number: the node that it leaves and its level.
    private static func edge(_ node: Index<Node>, _ level: Index<LevelUse>) -> UInt64 {
        UInt64(node.place) << 32 | UInt64(level.place)
    }

    private func child(of node: Index<Node>, _ level: UnsafeRawBufferPointer) -> Index<Node>? {
        guard let interned = levels.value(for: level) else { return nil }
        return edges.value(for: Self.edge(node, interned)).map { Index(place: $0) }
    }

    private mutating func makeChild(
        of node: Index<Node>, level: UnsafeRawBufferPointer
    ) -> Index<Node> {
        let interned: Index<LevelUse>
        if let known = levels.value(for: level) {
            interned = known
        } else {
            interned = levelUses.insert(LevelUse(name: Array(level))).index
            levels.insert(interned, for: level)
        }
        if let child = edges.value(for: Self.edge(node, interned)) { return Index(place: child) }
        let child = nodes.insert(Node(parent: node, level: interned)).index
        edges.set(child.place, for: Self.edge(node, interned))
        levelUses[interned].count += 1
        nodes[node].childCount += 1
        return child
    }

    private mutating func makePlusChild(of node: Index<Node>) -> Index<Node> {
        if let plus = nodes[node].plus { return plus }
        let plus = nodes.insert(Node(parent: node, level: nil)).index
        nodes[node].plus = plus
        return plus
    }

    /// Removes a node that leads nowhere any more, and then its parents likewise.
    private mutating func prune(_ start: Index<Node>) {
        var node = start
        while let parent = nodes[node].parent {
            let removed = nodes[node]
            guard
                removed.target == nil, removed.multiTarget == nil, removed.plus == nil,
                removed.childCount == 0
            else { return }
            if let level = removed.level {
                edges.remove(Self.edge(parent, level))
                nodes[parent].childCount -= 1
                release(level: level)
            } else {
                nodes[parent].plus = nil
            }
            nodes.remove(node)
            node = parent
        }
    }

    private mutating func release(level: Index<LevelUse>) {
        levelUses[level].count -= 1
        guard levelUses[level].count == 0 else { return }
        levelUses.remove(level).name.withUnsafeBytes { _ = levels.remove($0) }
    }
}

/// Iterates over the levels of a topic or filter. Levels may be empty: "/a" has two.
struct TopicLevels {
    private let bytes: UnsafeRawBufferPointer
    private var start = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    struct Level {
        let bytes: UnsafeRawBufferPointer
        var isPlus: Bool { bytes.count == 1 && bytes[0] == UInt8(ascii: "+") }
        var isHash: Bool { bytes.count == 1 && bytes[0] == UInt8(ascii: "#") }
    }

    mutating func next() -> Level? {
        guard start <= bytes.count else { return nil }
        var end = start
        while end < bytes.count && bytes[end] != UInt8(ascii: "/") { end += 1 }
        let level = Level(bytes: UnsafeRawBufferPointer(rebasing: bytes[start..<end]))
        start = end + 1
        return level
    }
}
