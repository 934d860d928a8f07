// Retained topics, found by filter: a tree of levels in which a walk can stop and continue, which
// the tree of filters does not need.

import Primitives

/// The topics of one app. Each leads to the index of a value.
struct RetainedTree<Value: ~Copyable>: ~Copyable {
    /// A position in the tree: all topics with the same first levels.
    struct Node {
        /// Nil for the root.
        @Packed var parent: Index<Node>?
        /// The level that leads to this node.
        let level: [UInt8]
        /// The value of the topic that ends here; nil if there is none.
        @Packed var value: Index<Value>? = nil
        /// The first of the chained children.
        @Packed var firstChild: Index<Node>? = nil
        @Packed var nextSibling: Index<Node>? = nil
        @Packed var previousSibling: Index<Node>? = nil
        /// The number of walks that are at this node. It is not removed while there are any.
        var walkCount: UInt32 = 0
    }

    private var nodes = Slab<Node>()
    /// Children by parent and level. The key is four bytes of the parent, then the name.
    private var children = ByteKeyTable<Node>()
    private let root: Index<Node>
    /// Number of topics with a value.
    private(set) var count = 0
    /// Bytes of the nodes without the root.
    private(set) var byteCount = 0

    /// Bytes of a node: the node, the array of its level, its row among the children, and the free
    /// space of the tables. 100,000 topics of 64 levels took 137 bytes for each node.
    private static func byteCount(ofNodeFor level: Int) -> Int { 128 + 2 * level }

    /// Bytes that ``set(_:to:)`` would add for the nodes of a topic.
    func growth(for topic: UnsafeRawBufferPointer) -> Int {
        var node: Index<Node>? = root
        var rest = TopicLevels(topic)
        var count = 0
        while let level = rest.next() {
            node = node.flatMap { child(of: $0, level.bytes) }
            if node == nil { count += Self.byteCount(ofNodeFor: level.bytes.count) }
        }
        return count
    }

    init() {
        root = nodes.insert(Node(parent: nil, level: [])).index
    }

    /// The value of a topic.
    func value(of topic: UnsafeRawBufferPointer) -> Index<Value>? {
        var node = root
        var rest = TopicLevels(topic)
        while let level = rest.next() {
            guard let child = child(of: node, level.bytes) else { return nil }
            node = child
        }
        return nodes[node].value
    }

    /// Sets the value of a topic. Returns the previous one.
    mutating func set(_ topic: UnsafeRawBufferPointer, to value: Index<Value>) -> Index<Value>? {
        var node = root
        var rest = TopicLevels(topic)
        while let level = rest.next() {
            node = child(of: node, level.bytes) ?? insert(level.bytes, under: node)
        }
        let old = nodes[node].value
        nodes[node].value = value
        if old == nil { count += 1 }
        return old
    }

    /// Removes a topic and the nodes that only it needed. Returns its value.
    mutating func remove(_ topic: UnsafeRawBufferPointer) -> Index<Value>? {
        var node = root
        var rest = TopicLevels(topic)
        while let level = rest.next() {
            guard let child = child(of: node, level.bytes) else { return nil }
            node = child
        }
        guard let old = nodes[node].value else { return nil }
        nodes[node].value = nil
        count -= 1
        prune(node)
        return old
    }

    // MARK: - Walking

    /// Begins a walk over the topics that match a filter. Its node remains in the tree until
    /// ``end(_:)``.
    mutating func begin(_ filter: [UInt8]) -> RetainedWalk<Value> {
        nodes[root].walkCount += 1
        return RetainedWalk<Value>(filter, root: root)
    }

    /// Releases the node of a walk.
    mutating func end(_ walk: RetainedWalk<Value>) { leave(walk.node) }

    /// Advances a walk by one node. A topic that is added during the walk may be found or not; one
    /// that remains is found once. A filter that begins with a wildcard does not match a topic that
    /// begins with `$` [MQTT-4.7.2-1].
    mutating func advance(_ walk: inout RetainedWalk<Value>) -> RetainedWalk<Value>.Step {
        guard walk.isEntering else { return leaveNode(&walk) }
        walk.isEntering = false
        let value = walk.isMatch ? nodes[walk.node].value : nil
        if let child = firstChild(of: walk) {
            move(&walk, to: child, depth: walk.depth + 1, isEntering: true)
        }
        return value.map { .value($0) } ?? .nothing
    }

    private func firstChild(of walk: RetainedWalk<Value>) -> Index<Node>? {
        switch walk.next {
        case .nothing: return nil
        case .all:
            return firstListed(nodes[walk.node].firstChild, under: walk.node)
        case .level(let range):
            return walk.filter.withUnsafeBytes {
                child(of: walk.node, UnsafeRawBufferPointer(rebasing: $0[range]))
            }
        }
    }

    /// Continues with the next sibling if a wildcard led here, otherwise with the parent.
    private mutating func leaveNode(_ walk: inout RetainedWalk<Value>) -> RetainedWalk<Value>.Step {
        guard let parent = nodes[walk.node].parent else { return .end }
        if walk.cameByWildcard {
            if let next = firstListed(nodes[walk.node].nextSibling, under: parent) {
                move(&walk, to: next, depth: walk.depth, isEntering: true)
                return .nothing
            }
        }
        move(&walk, to: parent, depth: walk.depth - 1, isEntering: false)
        return .nothing
    }

    /// The first node of a chain that matches a wildcard.
    private func firstListed(
        _ start: Index<Node>?, under parent: Index<Node>
    ) -> Index<Node>? {
        var next = start
        while let node = next, parent == root, nodes[node].level.first == UInt8(ascii: "$") {
            next = nodes[node].nextSibling
        }
        return next
    }

    private mutating func move(
        _ walk: inout RetainedWalk<Value>, to node: Index<Node>, depth: Int, isEntering: Bool
    ) {
        nodes[node].walkCount += 1
        let old = walk.node
        walk.node = node
        walk.depth = depth
        walk.isEntering = isEntering
        leave(old)
    }

    private mutating func leave(_ node: Index<Node>) {
        nodes[node].walkCount -= 1
        if nodes[node].walkCount == 0 { prune(node) }
    }

    private func child(of node: Index<Node>, _ level: UnsafeRawBufferPointer) -> Index<Node>? {
        withKey(of: node, level: level) { children.value(for: $0) }
    }

    private func withKey<Result>(
        of node: Index<Node>, level: UnsafeRawBufferPointer,
        _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result {
        withUnsafeTemporaryAllocation(byteCount: 4 + level.count, alignment: 4) { key in
            key.storeBytes(of: node.place, as: UInt32.self)
            UnsafeMutableRawBufferPointer(rebasing: key[4...]).copyMemory(from: level)
            return body(UnsafeRawBufferPointer(key))
        }
    }

    private mutating func insert(
        _ level: UnsafeRawBufferPointer, under parent: Index<Node>
    ) -> Index<Node> {
        var new = Node(parent: parent, level: Array(level))
        new.nextSibling = nodes[parent].firstChild
        let index = nodes.insert(new).index
        byteCount += Self.byteCount(ofNodeFor: level.count)
        if let next = new.nextSibling { nodes[next].previousSibling = index }
        nodes[parent].firstChild = index
        withUnsafeTemporaryAllocation(byteCount: 4 + level.count, alignment: 4) { key in
            key.storeBytes(of: parent.place, as: UInt32.self)
            UnsafeMutableRawBufferPointer(rebasing: key[4...]).copyMemory(from: level)
            children.insert(index, for: UnsafeRawBufferPointer(key))
        }
        return index
    }

    /// Removes a node without a topic and children, and then its parents likewise.
    private mutating func prune(_ start: Index<Node>) {
        var index = start
        while let parent = nodes[index].parent, nodes[index].value == nil,
            nodes[index].firstChild == nil, nodes[index].walkCount == 0
        {
            let node = nodes.remove(index)
            byteCount -= Self.byteCount(ofNodeFor: node.level.count)
            if let next = node.nextSibling { nodes[next].previousSibling = node.previousSibling }
            if let previous = node.previousSibling {
                nodes[previous].nextSibling = node.nextSibling
            } else {
                nodes[parent].firstChild = node.nextSibling
            }
            let key = withUnsafeBytes(of: parent.place) { Array($0) } + node.level
            key.withUnsafeBytes { _ = children.remove($0) }
            index = parent
        }
    }
}

/// A walk over the topics that match a filter: from a node to its first child, its next sibling, or
/// its parent.
struct RetainedWalk<Value: ~Copyable> {
    /// The result of one step.
    enum Step {
        case nothing
        case value(Index<Value>)
        /// The walk has ended.
        case end
    }

    /// The direction in which the walk leaves a node.
    enum Next {
        case nothing
        case all
        case level(Range<Int>)
    }

    let filter: [UInt8]
    /// The levels of the filter, without a `#` at the end.
    private var levels: [Range<Int>] = []
    private var endsWithHash = false
    fileprivate(set) var node: Index<RetainedTree<Value>.Node>
    fileprivate var depth = 0
    fileprivate var isEntering = true

    fileprivate init(_ filter: [UInt8], root: Index<RetainedTree<Value>.Node>) {
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

    /// Whether the filter matches the topic that ends at this node: "sport/#" also matches "sport".
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
