// Topics and filters as a tree of levels (MQTT 4.7). Levels are interned, so that a step down the
// tree is one lookup of two numbers. A match visits one node at most for each way in which filters
// spread `+` over their first levels (FilterShapes.swift), however many filters there are.

import Primitives

/// Filters of one app, each leading to an audience.
struct TopicTree: ~Copyable {
    // Not private: Swift 6.3.1 emits a broken module where another file of the target holds this
    // tree and its slabs hold private types.

    /// A place in the tree: the filters that begin alike.
    struct Node {
        let parent: UInt32
        /// The interned level that leads here.
        let level: UInt32
        /// The audience of the filter that ends here; `Slab.none` where none does.
        var audience = TopicTree.none
        /// Where the filter "…/#" of this place leads.
        var multiAudience = TopicTree.none
        /// The child for "+".
        var plus = TopicTree.none
        var childCount: UInt32 = 0
    }

    /// A level name and how many edges bear it.
    struct LevelUse {
        let name: [UInt8]
        var count = 0
    }

    static let none = UInt32.max
    private static let slash = UInt8(ascii: "/")

    private var levels = ByteKeyTable()
    private var levelUses = Slab<LevelUse>()
    private var nodes = Slab<Node>()
    /// The children of all nodes, by ``edge(_:_:)``.
    private var edges = NumberTable()
    private var recent = RecentTopics()
    private(set) var shapes = FilterShapes()
    private let root: UInt32

    init() {
        root = nodes.insert(Node(parent: Self.none, level: Self.none)).index
    }

    /// Whether nothing is left of any filter: no node but the root, and no level.
    var isEmpty: Bool {
        nodes.count == 1 && edges.count == 0 && levelUses.count == 0 && shapes.count == 0
    }

    /// The audience of a filter, if any session has it.
    func audience(of filter: UnsafeRawBufferPointer) -> UInt32? {
        var node = root
        var rest = TopicLevels(filter)
        while let level = rest.next() {
            if level.isHash { return known(nodes[node].multiAudience) }
            if level.isPlus {
                node = nodes[node].plus
            } else {
                guard let interned = levels.value(for: level.bytes) else { return nil }
                node = edges.value(for: Self.edge(node, interned)) ?? Self.none
            }
            if node == Self.none { return nil }
        }
        return known(nodes[node].audience)
    }

    /// Notes that a filter leads to an audience. The filter has been checked and has none yet.
    mutating func insert(_ filter: UnsafeRawBufferPointer, audience: UInt32) {
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
                node = plusChild(of: node)
            } else {
                node = child(of: node, level: level.bytes)
            }
        }
        if endsInHash {
            nodes[node].multiAudience = audience
        } else {
            nodes[node].audience = audience
        }
        if hasPlus { shapes.insert(filter) }
    }

    /// Forgets a filter whose audience is empty, and the nodes that only it needed.
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
            if level.isPlus {
                hasPlus = true
                node = nodes[node].plus
            } else {
                node = edges.value(for: Self.edge(node, levels.value(for: level.bytes)!))!
            }
        }
        if endsInHash {
            nodes[node].multiAudience = Self.none
        } else {
            nodes[node].audience = Self.none
        }
        if hasPlus { shapes.remove(filter) }
        prune(node)
    }

    /// The audience of a topic that came lately, `none` where nobody has a filter for it; nil where
    /// it has to be matched.
    func recentAudience(of topic: UnsafeRawBufferPointer) -> UInt32? {
        recent.audience(of: topic)
    }

    /// Notes what a topic matched, where that was one filter at most.
    mutating func noteMatch(_ topic: UnsafeRawBufferPointer, audience: UInt32?) {
        recent.note(topic, audience: audience ?? Self.none)
    }

    /// Appends the audiences of all filters that match a topic name. Says how many nodes it
    /// visited.
    ///
    /// A topic that begins with `$` is not matched by a filter that begins with a wildcard
    /// [MQTT-4.7.2-1].
    func match(
        _ topic: UnsafeRawBufferPointer, into audiences: inout ContiguousArray<UInt32>
    ) -> Int {
        let isReserved = topic.first == UInt8(ascii: "$")
        return match(TopicLevels(topic), from: root, allowsWildcard: !isReserved, into: &audiences)
    }

    private func match(
        _ levels: TopicLevels, from start: UInt32, allowsWildcard isAllowed: Bool,
        into audiences: inout ContiguousArray<UInt32>
    ) -> Int {
        var (node, rest, allowsWildcard) = (start, levels, isAllowed)
        var visitedCount = 1
        while true {
            // "sport/#" also matches "sport": the parent level counts [MQTT 4.7.1.2].
            if allowsWildcard, nodes[node].multiAudience != Self.none {
                audiences.append(nodes[node].multiAudience)
            }
            guard let level = rest.next() else {
                if nodes[node].audience != Self.none { audiences.append(nodes[node].audience) }
                return visitedCount
            }
            if allowsWildcard, nodes[node].plus != Self.none {
                visitedCount &+= match(
                    rest, from: nodes[node].plus, allowsWildcard: true, into: &audiences)
            }
            guard nodes[node].childCount > 0, let interned = self.levels.value(for: level.bytes),
                let child = edges.value(for: Self.edge(node, interned))
            else { return visitedCount }
            node = child
            allowsWildcard = true
            visitedCount &+= 1
        }
    }

    /// An edge of the tree as one number: the node it leaves and the level it bears.
    private static func edge(_ node: UInt32, _ level: UInt32) -> UInt64 {
        UInt64(node) << 32 | UInt64(level)
    }

    private func known(_ audience: UInt32) -> UInt32? { audience == Self.none ? nil : audience }

    private mutating func child(of node: UInt32, level: UnsafeRawBufferPointer) -> UInt32 {
        let interned: UInt32
        if let known = levels.value(for: level) {
            interned = known
        } else {
            interned = levelUses.insert(LevelUse(name: Array(level))).index
            levels.insert(interned, for: level)
        }
        if let child = edges.value(for: Self.edge(node, interned)) { return child }
        let child = nodes.insert(Node(parent: node, level: interned)).index
        edges.set(child, for: Self.edge(node, interned))
        levelUses[interned].count += 1
        nodes[node].childCount += 1
        return child
    }

    private mutating func plusChild(of node: UInt32) -> UInt32 {
        if nodes[node].plus == Self.none {
            nodes[node].plus = nodes.insert(Node(parent: node, level: Self.none)).index
        }
        return nodes[node].plus
    }

    /// Removes a node that leads nowhere any more, and its parents likewise.
    private mutating func prune(_ start: UInt32) {
        var node = start
        while node != root {
            let place = nodes[node]
            guard
                place.audience == Self.none, place.multiAudience == Self.none,
                place.plus == Self.none, place.childCount == 0
            else { return }
            if place.level == Self.none {
                nodes[place.parent].plus = Self.none
            } else {
                edges.remove(Self.edge(place.parent, place.level))
                nodes[place.parent].childCount -= 1
                release(level: place.level)
            }
            nodes.remove(node)
            node = place.parent
        }
    }

    private mutating func release(level: UInt32) {
        levelUses[level].count -= 1
        guard levelUses[level].count == 0 else { return }
        levelUses.remove(level).name.withUnsafeBytes { _ = levels.remove($0) }
    }
}

/// Walks over the levels of a topic or filter. Levels may be empty: "/a" has two.
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
