// Two containers without I/O: first in, first out; and the earliest first.

/// First in, first out. Removal from the front takes constant time on average.
package struct Queue<Element> {
    private var elements: [Element?] = []
    private var head = 0

    package init() {}

    package var count: Int { elements.count - head }
    package var isEmpty: Bool { count == 0 }
    package var first: Element? { isEmpty ? nil : elements[head] }

    package subscript(position: Int) -> Element { elements[head + position]! }

    package mutating func append(_ element: Element) { elements.append(element) }

    package mutating func popFirst() -> Element? {
        guard !isEmpty else { return nil }
        let element = elements[head]
        elements[head] = nil
        head += 1
        // Memory of removed elements is freed when it is half of the total.
        if head * 2 > elements.count {
            elements.removeFirst(head)
            head = 0
        }
        return element
    }

    /// All elements, in order.
    package var all: [Element] { elements[head...].map { $0! } }
}

/// The element with the lowest rank first: a binary heap.
package struct PriorityQueue<Rank: Comparable, Element> {
    private var entries: [(rank: Rank, element: Element)] = []

    package init() {}

    package var isEmpty: Bool { entries.isEmpty }
    package var firstRank: Rank? { entries.first?.rank }

    package mutating func insert(_ element: Element, rank: Rank) {
        entries.append((rank, element))
        var index = entries.count - 1
        while index > 0, entries[index].rank < entries[(index - 1) / 2].rank {
            entries.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    package mutating func popFirst() -> Element? {
        guard let first = entries.first else { return nil }
        let last = entries.removeLast()
        guard !entries.isEmpty else { return first.element }
        entries[0] = last
        var index = 0
        while true {
            var least = index
            for child in [2 * index + 1, 2 * index + 2]
            where child < entries.count && entries[child].rank < entries[least].rank {
                least = child
            }
            if least == index { return first.element }
            entries.swapAt(index, least)
            index = least
        }
    }
}
