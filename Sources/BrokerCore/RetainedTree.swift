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
    }

    static let none = UInt32.max

    private var nodes = Slab<Node>()
    /// Children by their parent and level: four bytes, then the name.
    private var children = ByteKeyTable()
    private let root: UInt32
    /// Topics that lead somewhere.
    private(set) var count = 0

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

    /// Appends what the topics lead to that a filter matches. A filter that begins with a wildcard
    /// matches no topic that begins with `$` [MQTT-4.7.2-1].
    func match(_ filter: UnsafeRawBufferPointer, into values: inout ContiguousArray<UInt32>) {
        match(TopicLevels(filter), from: root, into: &values)
    }

    private func match(
        _ levels: TopicLevels, from node: UInt32, into values: inout ContiguousArray<UInt32>
    ) {
        var rest = levels
        guard let level = rest.next() else {
            if nodes[node].value != Self.none { values.append(nodes[node].value) }
            return
        }
        if level.isHash {
            collect(node, into: &values)
        } else if level.isPlus {
            forEachChild(of: node) { match(rest, from: $0, into: &values) }
        } else if let child = child(of: node, level.bytes) {
            match(rest, from: child, into: &values)
        }
    }

    /// Everything at and below a node: "sport/#" matches "sport" too.
    private func collect(_ node: UInt32, into values: inout ContiguousArray<UInt32>) {
        if nodes[node].value != Self.none { values.append(nodes[node].value) }
        forEachChild(of: node) { collect($0, into: &values) }
    }

    /// The children that a wildcard matches.
    private func forEachChild(of node: UInt32, _ body: (UInt32) -> Void) {
        var child = nodes[node].firstChild
        while child != Self.none {
            if node != root || nodes[child].level.first != UInt8(ascii: "$") { body(child) }
            child = nodes[child].nextSibling
        }
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
        while index != root, nodes[index].value == Self.none, nodes[index].firstChild == Self.none {
            let node = nodes.remove(index)
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
