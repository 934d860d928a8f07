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
        var next = InlineArray<2, Packed<Place>>(repeating: Packed(wrappedValue: nil))
    }

    private var places = Slab<Place>(minimumCapacity: 1)
    private let root: Index<Place>

    init() { root = places.insert(Place()).index }

    /// Beginnings that some filter with `+` has.
    var count: Int { places.count - 1 }

    /// Counts in a filter that has a `+`.
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

    /// Counts out a filter that was counted in.
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
            // A place that is given up is still read for what follows.
            if place != root, places[place].useCount == 0 { places.remove(place) }
            place = next
        }
        if place != root, places[place].useCount == 0 { places.remove(place) }
    }

    /// Whether a filter may come in: one without `+`, one that begins like others for as long as
    /// the limit demands it, and one that is so plain that all which are come in together.
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
