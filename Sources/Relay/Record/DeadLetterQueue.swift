// The dead letters of a relay: what it does not try any more, until somebody asks for it. The
// oldest ones make room. To add one, and to remove one, takes constant time on average, however
// many there are: a restart with another configuration makes thousands of them at once.

/// What a relay keeps as a dead letter.
package protocol KeptLetter {
    /// Whose room it takes.
    var owner: ExactText { get }
    /// Its bytes in memory and in the record, about.
    var byteCount: Int { get }
}

package struct DeadLetterQueue<Letter: KeptLetter> {
    /// The places of letters, the oldest first. Some are of letters that have been removed.
    private struct Places {
        var queue = Queue<UInt64>()
        /// Letters that are there.
        var count = 0

        mutating func append(_ place: UInt64) {
            queue.append(place)
            count += 1
        }

        /// A letter has been removed. Its place is too, when such places are more than the others
        /// and some.
        mutating func remove(from letters: [UInt64: Letter]) {
            count -= 1
            guard queue.count > 2 * count + RelayLimits.deadLetterSlackCount else { return }
            let kept = queue.all.filter { letters[$0] != nil }
            queue = Queue()
            for place in kept { queue.append(place) }
        }
    }

    private var letters: [UInt64: Letter] = [:]
    private var order = Places()
    private var owners: [ExactText: Places] = [:]
    private var nextPlace: UInt64 = 0
    package private(set) var byteCount = 0
    private let countMaximum: Int
    private let countOfOwnerMaximum: Int
    private let byteCountMaximum: Int

    package init(
        countMaximum: Int, countOfOwnerMaximum: Int = .max, byteCountMaximum: Int = .max
    ) {
        self.countMaximum = countMaximum
        self.countOfOwnerMaximum = countOfOwnerMaximum
        self.byteCountMaximum = byteCountMaximum
    }

    package var count: Int { letters.count }
    package var isEmpty: Bool { letters.isEmpty }
    /// Places in the order, of letters that are there and of removed ones.
    var placeCount: Int { order.queue.count }

    /// All of them, the oldest first.
    package var all: [Letter] { order.queue.all.compactMap { letters[$0] } }

    /// Adds one.
    ///
    /// - Returns: those that were removed for it: the oldest ones of its owner, then the oldest
    ///   ones of all. The new one is among them if there is no room for any.
    package mutating func add(_ letter: Letter) -> [Letter] {
        let place = nextPlace
        nextPlace += 1
        letters[place] = letter
        byteCount += letter.byteCount
        order.append(place)
        owners[letter.owner, default: Places()].append(place)
        var removed: [Letter] = []
        while owners[letter.owner]?.count ?? 0 > countOfOwnerMaximum,
            let place = owners[letter.owner]?.queue.popFirst()
        {
            if let oldest = remove(at: place) { removed.append(oldest) }
        }
        while count > countMaximum || byteCount > byteCountMaximum,
            let place = order.queue.popFirst()
        {
            if let oldest = remove(at: place) { removed.append(oldest) }
        }
        return removed
    }

    /// Removes those that are wanted, in one pass.
    ///
    /// - Returns: them, the oldest first.
    package mutating func remove(where isWanted: (Letter) -> Bool) -> [Letter] {
        remove(order.queue.all, where: isWanted)
    }

    /// Removes those of one owner that are wanted. Letters of others are not looked at.
    ///
    /// - Returns: them, the oldest first.
    package mutating func remove(
        of owner: ExactText, where isWanted: (Letter) -> Bool
    ) -> [Letter] {
        remove(owners[owner]?.queue.all ?? [], where: isWanted)
    }

    private mutating func remove(
        _ places: [UInt64], where isWanted: (Letter) -> Bool
    ) -> [Letter] {
        let wanted = places.filter { letters[$0].map(isWanted) ?? false }
        return wanted.compactMap { remove(at: $0) }
    }

    /// - Returns: nil if the letter of the place has been removed before.
    private mutating func remove(at place: UInt64) -> Letter? {
        guard let letter = letters.removeValue(forKey: place) else { return nil }
        byteCount -= letter.byteCount
        order.remove(from: letters)
        owners[letter.owner]?.remove(from: letters)
        if owners[letter.owner]?.count == 0 { owners[letter.owner] = nil }
        return letter
    }
}
