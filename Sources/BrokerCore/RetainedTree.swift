// The last messages of topics, found by filter: a tree of levels whose branches can be walked, as
// the tree of filters is not. What a message is, it does not know.

import Primitives

/// Topic names of one app, each leading to a number.
struct RetainedTree: ~Copyable {
    /// A place in the tree: the topics that begin alike.
    struct Node {
        let parent: UInt32
        /// The level that leads here.
        let level: [UInt8]
        /// What the topic that ends here leads to; `Slab.none` where none does.
        var value = RetainedTree.none
        /// Children are chained.
        var firstChild = RetainedTree.none
        var nextSibling = RetainedTree.none
        var previousSibling = RetainedTree.none
        /// Walks that stand here: it stays while there are any.
        var walkCount: UInt32 = 0
    }

    static let none = UInt32.max

    private var nodes = Slab<Node>()
    /// Children by their parent and level: four bytes, then the name.
    private var children = ByteKeyTable()
    private let root: UInt32
    /// Topics that lead somewhere.
    private(set) var count = 0
    /// Memory of the nodes, the root apart.
    private(set) var byteCount = 0

    /// Memory of a node: itself, its level's array, its row among the children and what tables keep
    /// free. 100,000 topics of 64 levels took 137 bytes for each node.
    private static func byteCount(ofNodeFor level: Int) -> Int { 128 + 2 * level }

    /// Memory that ``set(_:to:)`` would add for the nodes of a topic.
    func growth(for topic: UnsafeRawBufferPointer) -> Int {
        var node: UInt32? = root
        var rest = TopicLevels(topic)
        var count = 0
        while let level = rest.next() {
            node = node.flatMap { child(of: $0, level.bytes) }
            if node == nil { count += Self.byteCount(ofNodeFor: level.bytes.count) }
        }
        return count
    }

    init() {
        root = nodes.insert(Node(parent: Self.none, level: [])).index
    }

    /// What a topic leads to.
    func value(of topic: UnsafeRawBufferPointer) -> UInt32? {
        var node = root
        var rest = TopicLevels(topic)
        while let level = rest.next() {
            guard let child = child(of: node, level.bytes) else { return nil }
            node = child
        }
        return nodes[node].value == Self.none ? nil : nodes[node].value
    }

    /// Lets a topic lead to a value; gives the one it led to before.
    mutating func set(_ topic: UnsafeRawBufferPointer, to value: UInt32) -> UInt32? {
        var node = root
        var rest = TopicLevels(topic)
        while let level = rest.next() {
            node = child(of: node, level.bytes) ?? insert(level.bytes, under: node)
        }
        let old = nodes[node].value
        nodes[node].value = value
        if old == Self.none { count += 1 }
        return old == Self.none ? nil : old
    }

    /// Forgets a topic, and the nodes that only it needed; gives what it led to.
    mutating func remove(_ topic: UnsafeRawBufferPointer) -> UInt32? {
        var node = root
        var rest = TopicLevels(topic)
        while let level = rest.next() {
            guard let child = child(of: node, level.bytes) else { return nil }
            node = child
        }
        let old = nodes[node].value
        guard old != Self.none else { return nil }
        nodes[node].value = Self.none
        count -= 1
        prune(node)
        return old
    }

    // MARK: - Walking

    /// Begins a walk over the topics that a filter matches. It holds its place in the tree until
    /// ``end(_:)``.
    mutating func begin(_ filter: [UInt8]) -> RetainedWalk {
        nodes[root].walkCount += 1
        return RetainedWalk(filter, root: root)
    }

    /// Gives up a walk's place.
    mutating func end(_ walk: RetainedWalk) { leave(walk.node) }

    /// Goes one step on: one node is looked at. Topics that come while a walk is under way may or
    /// may not be met; those that stay are met once. A filter that begins with a wildcard matches
    /// no topic that begins with `$` [MQTT-4.7.2-1].
    mutating func advance(_ walk: inout RetainedWalk) -> RetainedWalk.Step {
        guard walk.isEntering else { return leaveNode(&walk) }
        walk.isEntering = false
        let value = walk.isMatch ? nodes[walk.node].value : Self.none
        if let child = firstChild(of: walk) {
            move(&walk, to: child, depth: walk.depth + 1, isEntering: true)
        }
        return value == Self.none ? .nothing : .value(value)
    }

    private func firstChild(of walk: RetainedWalk) -> UInt32? {
        switch walk.next {
        case .nothing: return nil
        case .all:
            let first = firstListed(nodes[walk.node].firstChild, under: walk.node)
            return first == Self.none ? nil : first
        case .level(let range):
            return walk.filter.withUnsafeBytes {
                child(of: walk.node, UnsafeRawBufferPointer(rebasing: $0[range]))
            }
        }
    }

    /// To the next sibling where a wildcard led here, otherwise back to the parent.
    private mutating func leaveNode(_ walk: inout RetainedWalk) -> RetainedWalk.Step {
        guard walk.depth > 0 else { return .end }
        let parent = nodes[walk.node].parent
        if walk.cameByWildcard {
            let next = firstListed(nodes[walk.node].nextSibling, under: parent)
            if next != Self.none {
                move(&walk, to: next, depth: walk.depth, isEntering: true)
                return .nothing
            }
        }
        move(&walk, to: parent, depth: walk.depth - 1, isEntering: false)
        return .nothing
    }

    /// The first node of a chain that a wildcard matches.
    private func firstListed(_ start: UInt32, under parent: UInt32) -> UInt32 {
        var node = start
        while node != Self.none, parent == root, nodes[node].level.first == UInt8(ascii: "$") {
            node = nodes[node].nextSibling
        }
        return node
    }

    private mutating func move(
        _ walk: inout RetainedWalk, to node: UInt32, depth: Int, isEntering: Bool
    ) {
        nodes[node].walkCount += 1
        let old = walk.node
        walk.node = node
        walk.depth = depth
        walk.isEntering = isEntering
        leave(old)
    }

    private mutating func leave(_ node: UInt32) {
        nodes[node].walkCount -= 1
        if nodes[node].walkCount == 0 { prune(node) }
    }

    private func child(of node: UInt32, _ level: UnsafeRawBufferPointer) -> UInt32? {
        withKey(node, level) { children.value(for: $0) }
    }

    private func withKey<Result>(
        _ node: UInt32, _ level: UnsafeRawBufferPointer,
        _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result {
        withUnsafeTemporaryAllocation(byteCount: 4 + level.count, alignment: 4) { key in
            key.storeBytes(of: node, as: UInt32.self)
            UnsafeMutableRawBufferPointer(rebasing: key[4...]).copyMemory(from: level)
            return body(UnsafeRawBufferPointer(key))
        }
    }

    private mutating func insert(_ level: UnsafeRawBufferPointer, under parent: UInt32) -> UInt32 {
        var new = Node(parent: parent, level: Array(level))
        new.nextSibling = nodes[parent].firstChild
        let index = nodes.insert(new).index
        byteCount += Self.byteCount(ofNodeFor: level.count)
        if new.nextSibling != Self.none { nodes[new.nextSibling].previousSibling = index }
        nodes[parent].firstChild = index
        withUnsafeTemporaryAllocation(byteCount: 4 + level.count, alignment: 4) { key in
            key.storeBytes(of: parent, as: UInt32.self)
            UnsafeMutableRawBufferPointer(rebasing: key[4...]).copyMemory(from: level)
            children.insert(index, for: UnsafeRawBufferPointer(key))
        }
        return index
    }

    /// Removes a node that leads nowhere any more, and its parents likewise.
    private mutating func prune(_ start: UInt32) {
        var index = start
        while index != root, nodes[index].value == Self.none,
            nodes[index].firstChild == Self.none, nodes[index].walkCount == 0
        {
            let node = nodes.remove(index)
            byteCount -= Self.byteCount(ofNodeFor: node.level.count)
            if node.nextSibling != Self.none {
                nodes[node.nextSibling].previousSibling = node.previousSibling
            }
            if node.previousSibling == Self.none {
                nodes[node.parent].firstChild = node.nextSibling
            } else {
                nodes[node.previousSibling].nextSibling = node.nextSibling
            }
            let key =
                withUnsafeBytes(of: node.parent) { Array($0) } + node.level
            key.withUnsafeBytes { _ = children.remove($0) }
            index = node.parent
        }
    }
}

/// A place on the way through the topics that a filter matches: from a node to its first child,
/// its next sibling, its parent.
struct RetainedWalk {
    /// What one step met.
    enum Step {
        case nothing
        case value(UInt32)
        /// Everything has been met.
        case end
    }

    /// Where it goes on from a node.
    enum Next {
        case nothing
        case all
        case level(Range<Int>)
    }

    let filter: [UInt8]
    /// The filter's levels, without the `#` at the end.
    private var levels: [Range<Int>] = []
    private var endsWithHash = false
    fileprivate(set) var node: UInt32
    fileprivate var depth = 0
    fileprivate var isEntering = true

    fileprivate init(_ filter: [UInt8], root: UInt32) {
        self.filter = filter
        node = root
        var start = 0
        while start <= filter.count {
            var end = start
            while end < filter.count && filter[end] != UInt8(ascii: "/") { end += 1 }
            levels.append(start..<end)
            start = end + 1
        }
        if filter.last == UInt8(ascii: "#") {
            endsWithHash = true
            levels.removeLast()
        }
    }

    /// Whether the filter matches what ends at this node: "sport/#" matches "sport" too.
    fileprivate var isMatch: Bool {
        depth == levels.count || (endsWithHash && depth > levels.count)
    }

    fileprivate var next: Next {
        if depth >= levels.count { return endsWithHash ? .all : .nothing }
        return isPlus(levels[depth]) ? .all : .level(levels[depth])
    }

    fileprivate var cameByWildcard: Bool { depth > levels.count || isPlus(levels[depth - 1]) }

    private func isPlus(_ level: Range<Int>) -> Bool {
        level.count == 1 && filter[level.lowerBound] == UInt8(ascii: "+")
    }
}
