// The filters of one bearer's rights, matched all at once. One bit stands for each right: a step
// down a topic keeps the bits of those filters that still fit. A level of the topic is compared
// with each text that filters have there, and each text that differs takes filters out: a match
// takes as many steps as the topic has levels and there are filters, however they are written.

import Primitives

struct RightFilters: Sendable {
    /// What some filters have in one level.
    private struct Text: Sendable {
        let parts: [RightPattern.Part]
        /// The bytes where they are the same for every bearer.
        let bytes: [UInt8]?
        var rights: UInt64
    }

    /// One level of all filters.
    private struct Level: Sendable {
        var texts: [Text] = []
        /// Filters with `+` here.
        var one: UInt64 = 0
        /// Filters with `#` here.
        var rest: UInt64 = 0
        /// Filters that have no such level.
        var end: UInt64 = 0
    }

    private var levels: [Level] = []
    /// Filters whose first level is a text.
    private(set) var beginningWithText: UInt64 = 0

    mutating func insert(_ filter: [RightPattern.Level], right: Int) {
        let bit: UInt64 = 1 << UInt64(right)
        while levels.count <= filter.count { levels.append(Level()) }
        for (index, level) in filter.enumerated() {
            switch level {
            case .one: levels[index].one |= bit
            case .rest: levels[index].rest |= bit
            case .text(let parts):
                if index == 0 { beginningWithText |= bit }
                if let known = levels[index].texts.firstIndex(where: { $0.parts == parts }) {
                    levels[index].texts[known].rights |= bit
                } else {
                    levels[index].texts.append(
                        Text(parts: parts, bytes: RightPattern.bytes(of: parts), rights: bit))
                }
            }
        }
        levels[filter.count].end |= bit
    }

    /// Which of some filters cover a subject: a topic, or a filter of which every topic has to be
    /// covered. A topic stands for itself.
    ///
    /// - Parameter comparisons: grows by the levels and texts that were looked at.
    func covering(
        _ subject: UnsafeRawBufferPointer, among rights: UInt64, for bearer: RightsBearer,
        comparisons: inout Int
    ) -> UInt64 {
        var alive = rights
        var covering: UInt64 = 0
        var start = 0
        var index = 0
        while alive != 0 {
            comparisons += 1
            // "a/#" allows "a" too, so this stands before the end of the subject.
            covering |= alive & levels[index].rest
            alive &= ~levels[index].rest
            if start > subject.count { return covering | alive & levels[index].end }
            alive &= ~levels[index].end
            if alive == 0 { return covering }
            var end = start
            while end < subject.count && subject[end] != UInt8(ascii: "/") { end += 1 }
            let level = UnsafeRawBufferPointer(rebasing: subject[start..<end])
            // What is put in for a name never makes a level that is the broker's own: whoever is
            // called `$SYS` gets nothing of it by `%d/#`.
            let isReserved = index == 0 && subject.first == UInt8(ascii: "$")
            let isHash = level.count == 1 && level[0] == UInt8(ascii: "#")
            var next = isHash ? 0 : alive & levels[index].one
            for place in levels[index].texts.indices {
                let candidates = alive & levels[index].texts[place].rights
                if candidates == 0 { continue }
                comparisons += 1
                // A wildcard of the subject's is never equal to a text.
                if fits(levels[index].texts[place], level, for: bearer, isReserved: isReserved) {
                    next |= candidates
                }
            }
            alive = next
            start = end + 1
            index += 1
        }
        return covering
    }

    @inline(__always)
    private func fits(
        _ text: borrowing Text, _ level: UnsafeRawBufferPointer, for bearer: RightsBearer,
        isReserved: Bool
    ) -> Bool {
        if let bytes = text.bytes {
            return bytes.count == level.count && level.elementsEqual(bytes)
        }
        // One level of a filter is short, and its stars are plain text.
        var ignored = 0
        return !isReserved
            && RightPattern.matches(text.parts, level, for: bearer, comparisons: &ignored)
    }
}
