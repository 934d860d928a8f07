// The shapes of filters: at which of their levels they have a `+`. A topic leads to at most one
// node of the tree for each shape that filters begin with, whatever their names are; so a bound on
// the shapes of an app bounds the nodes that a match visits.

import Primitives

/// How filters with `+` begin: one place for each beginning that some filter has.
struct FilterShapes: ~Copyable {
    // Not private, as in the tree.
    struct Place {
        /// Filters that begin so.
        var useCount: UInt32 = 0
        /// What a further level leads to: a name, and a `+`.
        var next = InlineArray<2, UInt32>(repeating: FilterShapes.none)
    }

    static let none = UInt32.max

    private var places = Slab<Place>(minimumCapacity: 1)
    private let root: UInt32

    init() { root = places.insert(Place()).index }

    /// Beginnings that some filter with `+` has.
    var count: Int { places.count - 1 }

    /// Counts in a filter that has a `+`.
    mutating func insert(_ filter: UnsafeRawBufferPointer) {
        var place = root
        var rest = TopicLevels(filter)
        while let level = rest.next(), !level.isHash {
            let side = level.isPlus ? 1 : 0
            if places[place].next[side] == Self.none {
                let new = places.insert(Place()).index
                places[place].next[side] = new
            }
            place = places[place].next[side]
            places[place].useCount += 1
        }
    }

    /// Counts out a filter that was counted in.
    mutating func remove(_ filter: UnsafeRawBufferPointer) {
        var place = root
        var rest = TopicLevels(filter)
        while let level = rest.next(), !level.isHash {
            let side = level.isPlus ? 1 : 0
            let next = places[place].next[side]
            places[next].useCount -= 1
            if places[next].useCount == 0 { places[place].next[side] = Self.none }
            // A place that is given up is still read for what follows.
            if place != root, places[place].useCount == 0 { places.remove(place) }
            place = next
        }
        if place != root, places[place].useCount == 0 { places.remove(place) }
    }

    /// Whether a filter may come in: one without `+`, one that begins like others for as long as
    /// the limit demands it, and one that is so plain that all which are come in together.
    func admits(_ filter: UnsafeRawBufferPointer, countMaximum: Int) -> Bool {
        var place = root
        var (levelCount, plusCount, newCount) = (0, 0, 0)
        var rest = TopicLevels(filter)
        while let level = rest.next(), !level.isHash {
            levelCount += 1
            if level.isPlus { plusCount += 1 }
            if place != Self.none { place = places[place].next[level.isPlus ? 1 : 0] }
            if place == Self.none { newCount += 1 }
        }
        return newCount == 0 || count + newCount <= countMaximum
            || plusCount == 0
            || plusCount <= CoreLimits.plainFilterPlusMaximum
                && levelCount <= CoreLimits.plainFilterLevelsMaximum
    }
}
