// The groups of an app that everybody may join, in the order in which they were opened. A group is
// removed in constant time, because an app with many of them may be deleted, or close them.

import Primitives

struct OpenGroups {
    /// With holes, of which there are no more than groups and a few.
    private var places: [Index<Group>?] = []
    private(set) var count = 0

    /// Holes that a short list may have.
    private static let holesMaximum = 16

    /// - Returns: its position, for ``remove(at:)``.
    mutating func append(_ group: Index<Group>) -> Int {
        places.append(group)
        count += 1
        return places.count - 1
    }

    mutating func remove(at position: Int) {
        precondition(
            places[position] != nil, "no open group is at \(position) of \(places.count)")
        places[position] = nil
        count -= 1
    }

    func group(at position: Int) -> Index<Group>? {
        places.indices.contains(position) ? places[position] : nil
    }

    /// Whether ``compact()`` is due: then it costs no more than what was removed since.
    var isSparse: Bool { places.count - count > count + Self.holesMaximum }

    /// Removes the holes. Returns the groups in the order of their new positions.
    mutating func compact() -> [Index<Group>] {
        let groups = places.compactMap { $0 }
        places = groups
        return groups
    }

    /// The groups that were opened first.
    func prefix(_ countMaximum: Int) -> [Index<Group>] {
        Array(places.lazy.compactMap { $0 }.prefix(countMaximum))
    }
}
