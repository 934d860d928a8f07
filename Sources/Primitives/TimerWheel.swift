// A hierarchical timing wheel as a plain value, for hundreds of thousands of deadlines. It reads no
// clock and calls nothing: its owner passes the time and removes the entries that are due.

/// A hierarchical timing wheel with a resolution of one millisecond and no horizon.
///
/// Eleven levels of 64 places cover all 64 bits of an ``Instant``: level 0 holds the current 64 ms,
/// one place each; level 1 the rest of the current 4,096 ms, 64 ms a place; and so on. An entry
/// stands on the level of the highest six-bit digit in which its deadline differs from the wheel's
/// time, and moves down when that time enters its place, at most ten times in its life. Inserting
/// and cancelling cost the same however many entries there are, and entries come out in the order
/// of their deadlines, equal deadlines in the order of insertion: a simulation replays exactly.
public struct TimerWheel: Sendable {
    /// The name of an entry, for cancelling it. A token whose entry has come out or was cancelled
    /// names nothing, also after its place was used again.
    public struct Token: Hashable, Sendable {
        @usableFromInline let index: UInt32
        @usableFromInline let generation: UInt32

        @inlinable
        init(index: UInt32, generation: UInt32) {
            self.index = index
            self.generation = generation
        }

        /// A token that names no entry of any wheel.
        @inlinable
        public static var none: Token { Token(index: .max, generation: 0) }
    }

    private struct Entry: Sendable {
        var deadline: UInt64
        var payload: UInt64
        var next: UInt32
        var previous: UInt32
        /// Odd while the entry is in the wheel, even while its place is free.
        var generation: UInt32
        var place: UInt32
    }

    private struct Place: Sendable {
        var first: UInt32 = TimerWheel.nowhere
        var last: UInt32 = TimerWheel.nowhere
    }

    private static let nowhere = UInt32.max
    private static let digitBits: UInt64 = 6
    private static let placesPerLevel = 64
    /// Eleven digits of six bits hold 64 bits; the topmost uses four of its six.
    private static let levels = 11

    private var entries: [Entry] = []
    private var freeEntry = TimerWheel.nowhere
    private var places: [Place]
    /// One bit per place that holds entries, one word per level.
    private var occupied: [UInt64]
    /// The time up to which everything has been taken out. Never goes back.
    private var elapsed: UInt64

    /// The number of entries in the wheel.
    public private(set) var count = 0

    /// An empty wheel whose time begins at `start`.
    public init(start: Instant = Instant(milliseconds: 0)) {
        places = Array(repeating: Place(), count: TimerWheel.levels * TimerWheel.placesPerLevel)
        occupied = Array(repeating: 0, count: TimerWheel.levels)
        elapsed = start.milliseconds
    }

    /// Adds an entry that comes out, with its payload, when the wheel's time reaches `deadline`.
    /// One that lies in the past is due at once.
    public mutating func insert(deadline: Instant, payload: UInt64) -> Token {
        let index = takeEntry()
        entries[Int(index)].deadline = max(deadline.milliseconds, elapsed)
        entries[Int(index)].payload = payload
        link(index)
        count += 1
        return Token(index: index, generation: entries[Int(index)].generation)
    }

    /// Removes an entry. False where it has already come out or was cancelled before.
    @discardableResult
    public mutating func cancel(_ token: Token) -> Bool {
        let index = Int(token.index)
        guard index < entries.count, entries[index].generation == token.generation else {
            return false
        }
        unlink(token.index)
        releaseEntry(token.index)
        return true
    }

    /// Takes out the entry that has been due longest, and nil when nothing else is due at `now`.
    /// Call it until it is nil; what is inserted in between is served too. A time that lies before
    /// an earlier one is read as that earlier one.
    public mutating func popDue(at now: Instant) -> UInt64? {
        let limit = max(now.milliseconds, elapsed)
        while let (level, place) = nextPlace() {
            let start = startOfPlace(place, level: level)
            guard start <= limit else { break }
            elapsed = start
            let head = places[level * TimerWheel.placesPerLevel + place].first
            if level == 0 {
                let payload = entries[Int(head)].payload
                unlink(head)
                releaseEntry(head)
                return payload
            }
            moveDown(level: level, place: place)
        }
        elapsed = limit
        return nil
    }

    /// When ``popDue(at:)`` has something to do next: a lower bound of every deadline, exact when
    /// the nearest is less than 64 ms away, else at most one move down too early. Nil when the
    /// wheel is empty.
    public var nextDeadline: Instant? {
        guard let (level, place) = nextPlace() else { return nil }
        return Instant(milliseconds: startOfPlace(place, level: level))
    }

    // MARK: - Places

    /// The place with the earliest entries: lower levels always hold earlier ones.
    private func nextPlace() -> (level: Int, place: Int)? {
        for level in 0..<TimerWheel.levels where occupied[level] != 0 {
            return (level, occupied[level].trailingZeroBitCount)
        }
        return nil
    }

    private func startOfPlace(_ place: Int, level: Int) -> UInt64 {
        let shift = TimerWheel.digitBits * UInt64(level)
        // Shifting by 64 and more gives 0 in Swift, which is what the top level needs.
        let above = elapsed & (UInt64.max << (shift + TimerWheel.digitBits))
        return above | UInt64(place) << shift
    }

    /// Deals the entries of a place, which the wheel's time has just entered, to the levels below,
    /// in their order.
    private mutating func moveDown(level: Int, place: Int) {
        let slot = level * TimerWheel.placesPerLevel + place
        var index = places[slot].first
        places[slot] = Place()
        occupied[level] &= ~(1 << UInt64(place))
        while index != TimerWheel.nowhere {
            let next = entries[Int(index)].next
            link(index)
            index = next
        }
    }

    private mutating func link(_ index: UInt32) {
        let deadline = entries[Int(index)].deadline
        let difference = deadline ^ elapsed
        let highestBit = difference == 0 ? 0 : 63 - difference.leadingZeroBitCount
        let level = highestBit / Int(TimerWheel.digitBits)
        let place = Int((deadline >> (TimerWheel.digitBits * UInt64(level))) & 63)
        let slot = level * TimerWheel.placesPerLevel + place

        let last = places[slot].last
        entries[Int(index)].place = UInt32(slot)
        entries[Int(index)].previous = last
        entries[Int(index)].next = TimerWheel.nowhere
        if last == TimerWheel.nowhere {
            places[slot].first = index
            occupied[level] |= 1 << UInt64(place)
        } else {
            entries[Int(last)].next = index
        }
        places[slot].last = index
    }

    private mutating func unlink(_ index: UInt32) {
        let entry = entries[Int(index)]
        let slot = Int(entry.place)
        if entry.previous == TimerWheel.nowhere {
            places[slot].first = entry.next
        } else {
            entries[Int(entry.previous)].next = entry.next
        }
        if entry.next == TimerWheel.nowhere {
            places[slot].last = entry.previous
        } else {
            entries[Int(entry.next)].previous = entry.previous
        }
        if places[slot].first == TimerWheel.nowhere {
            let (level, place) = slot.quotientAndRemainder(dividingBy: TimerWheel.placesPerLevel)
            occupied[level] &= ~(1 << UInt64(place))
        }
    }

    // MARK: - Entries

    private mutating func takeEntry() -> UInt32 {
        guard freeEntry != TimerWheel.nowhere else {
            precondition(entries.count < Int(TimerWheel.nowhere), "\(entries.count) timers")
            entries.append(
                Entry(
                    deadline: 0, payload: 0, next: TimerWheel.nowhere,
                    previous: TimerWheel.nowhere, generation: 1, place: 0))
            return UInt32(entries.count - 1)
        }
        let index = freeEntry
        freeEntry = entries[Int(index)].next
        entries[Int(index)].generation &+= 1
        return index
    }

    private mutating func releaseEntry(_ index: UInt32) {
        entries[Int(index)].generation &+= 1
        entries[Int(index)].next = freeEntry
        freeEntry = index
        count -= 1
    }
}
