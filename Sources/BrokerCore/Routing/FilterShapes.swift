// The shapes of filters: the levels at which they have a `+`. For each shape with which filters
// begin, a topic leads to at most one node of the tree, whatever the other levels are. So a limit
// on the shapes of an app limits the nodes that a match visits.

import Primitives

/// The beginnings of filters with `+`: one place for each.
struct FilterShapes: ~Copyable {
    // Not private, for the reason given in ``TopicTree``.
    struct Place {
        /// The number of filters with this beginning.
        var useCount: UInt32 = 0
        /// The places after one more level: after a name, and after a `+`.
        var next = InlineArray<2, Packed<Place>>(repeating: Packed(wrappedValue: nil))
    }

    private var places = Slab<Place>(minimumCapacity: 1)
    private let root: Index<Place>

    init() { root = places.insert(Place()).index }

    /// The number of beginnings that a filter with `+` has.
    var count: Int { places.count - 1 }

    /// Adds a filter that has a `+`.
    mutating func insert(_ filter: UnsafeRawBufferPointer) {
        var place = root
        var rest = TopicLevels(filter)
        while let level = rest.next(), !level.isHash {
            let side = level.isPlus ? 1 : 0
            let next = places[place].next[side].wrappedValue ?? places.insert(Place()).index
            places[place].next[side].wrappedValue = next
            places[next].useCount += 1
            place = next
        }
    }

    /// Removes a filter that was added.
    mutating func remove(_ filter: UnsafeRawBufferPointer) {
        var place = root
        var rest = TopicLevels(filter)
        while let level = rest.next(), !level.isHash {
            let side = level.isPlus ? 1 : 0
            guard let next = places[place].next[side].wrappedValue else {
                preconditionFailure("no shape of \(String(decoding: filter, as: UTF8.self))")
            }
            places[next].useCount -= 1
            if places[next].useCount == 0 { places[place].next[side].wrappedValue = nil }
            // A removed place is still read for the next level.
            if place != root, places[place].useCount == 0 { places.remove(place) }
            place = next
        }
        if place != root, places[place].useCount == 0 { places.remove(place) }
    }

    /// Whether a filter may be added. It may if it has no `+`, if the limit leaves room for its new
    /// beginnings, or if it has so few levels and `+` that all such filters together have 832
    /// beginnings.
    func admits(_ filter: UnsafeRawBufferPointer, countMaximum: Int) -> Bool {
        var known: Index<Place>? = root
        var (levelCount, plusCount, newCount) = (0, 0, 0)
        var rest = TopicLevels(filter)
        while let level = rest.next(), !level.isHash {
            levelCount += 1
            if level.isPlus { plusCount += 1 }
            known = known.flatMap { places[$0].next[level.isPlus ? 1 : 0].wrappedValue }
            if known == nil { newCount += 1 }
        }
        return newCount == 0 || count + newCount <= countMaximum
            || plusCount == 0
            || plusCount <= CoreLimits.plainFilterPlusMaximum
                && levelCount <= CoreLimits.plainFilterLevelsMaximum
    }
}
