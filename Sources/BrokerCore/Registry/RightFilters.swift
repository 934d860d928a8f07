// The filters of a principal's rights, matched together. Each right has one bit: a step down a
// topic keeps the bits of the filters that still match. Each level of the topic is compared with
// each text that filters have there, and each text that differs removes filters. So a match takes
// at most as many steps as the topic has levels and there are filters.

import Primitives

struct RightFilters: Sendable {
    /// A text that some filters have in one level.
    private struct Text: Sendable {
        let parts: [RightPattern.Part]
        /// The bytes if they are the same for every principal.
        let bytes: [UInt8]?
        var rights: UInt64
    }

    /// One level of all filters.
    private struct Level: Sendable {
        var texts: [Text] = []
        /// Filters with `+` in this level.
        var one: UInt64 = 0
        /// Filters with `#` in this level.
        var rest: UInt64 = 0
        /// Filters that end before this level.
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

    /// The filters of a set that cover a subject: a topic, or a filter of which every topic must be
    /// covered.
    ///
    /// - Parameter comparisons: increased by the number of levels and texts compared.
    func covering(
        _ subject: UnsafeRawBufferPointer, among rights: UInt64, for names: PrincipalNames,
        comparisons: inout Int
    ) -> UInt64 {
        var alive = rights
        var covering: UInt64 = 0
        var start = 0
        var index = 0
        while alive != 0 {
            comparisons += 1
            // "a/#" also allows "a", so this comes before the end of the subject.
            covering |= alive & levels[index].rest
            alive &= ~levels[index].rest
            if start > subject.count { return covering | alive & levels[index].end }
            alive &= ~levels[index].end
            if alive == 0 { return covering }
            var end = start
            while end < subject.count && subject[end] != UInt8(ascii: "/") { end += 1 }
            // The value of `%u` or `%d` never matches a level that is reserved for the broker: a
            // device called `$SYS` gets no right to it by `%d/#`.
            let isReserved = index == 0 && subject.first == UInt8(ascii: "$")
            let isHash = end == start + 1 && subject[start] == UInt8(ascii: "#")
            var next = isHash ? 0 : alive & levels[index].one
            for textIndex in levels[index].texts.indices {
                let candidates = alive & levels[index].texts[textIndex].rights
                if candidates == 0 { continue }
                comparisons += 1
                // A wildcard of the subject is never equal to a text.
                if fits(
                    levels[index].texts[textIndex], subject, at: start..<end, for: names,
                    isReserved: isReserved)
                {
                    next |= candidates
                }
            }
            alive = next
            start = end + 1
            index += 1
        }
        return covering
    }

    /// The filters of a set that match a topic that the action's subject matches too, which is a
    /// topic or a filter. Names that a right cannot compare match a wildcard of the subject.
    ///
    /// - Parameter comparisons: increased by the number of levels and texts compared.
    func overlapping(
        _ action: RightsAction, among rights: UInt64, for names: PrincipalNames,
        comparisons: inout Int
    ) -> UInt64 {
        let subject = action.subject
        var alive = rights
        var overlapping: UInt64 = 0
        var start = 0
        var index = 0
        while alive != 0 {
            comparisons += 1
            // "a/#" and "a" share the topic "a", so this comes before the end of the subject.
            overlapping |= alive & levels[index].rest
            alive &= ~levels[index].rest
            if start > subject.count { return overlapping | alive & levels[index].end }
            var end = start
            while end < subject.count && subject[end] != UInt8(ascii: "/") { end += 1 }
            let wildcard = end == start + 1 ? subject[start] : 0
            if wildcard == UInt8(ascii: "#") {
                return overlapping | alive & ~reserved(at: index, comparisons: &comparisons)
            }
            alive &= ~levels[index].end
            var next = alive & levels[index].one
            for textIndex in levels[index].texts.indices {
                let candidates = alive & levels[index].texts[textIndex].rights
                if candidates == 0 { continue }
                comparisons += 1
                if wildcard == UInt8(ascii: "+")
                    || fits(
                        levels[index].texts[textIndex], subject, at: start..<end, for: names,
                        isReserved: false)
                {
                    next |= candidates
                }
            }
            if wildcard == UInt8(ascii: "+") {
                next &= ~reserved(at: index, comparisons: &comparisons)
            }
            alive = next
            start = end + 1
            index += 1
        }
        return overlapping
    }

    /// The filters that begin with `$`, which a wildcard in the first level does not match
    /// [MQTT-4.7.2-1]; none at a later level.
    private func reserved(at index: Int, comparisons: inout Int) -> UInt64 {
        guard index == 0 else { return 0 }
        var reserved: UInt64 = 0
        for text in levels[0].texts where text.bytes?.first == UInt8(ascii: "$") {
            comparisons += 1
            reserved |= text.rights
        }
        return reserved
    }

    @inline(__always)
    private func fits(
        _ text: borrowing Text, _ subject: UnsafeRawBufferPointer, at range: Range<Int>,
        for names: PrincipalNames, isReserved: Bool
    ) -> Bool {
        let level = UnsafeRawBufferPointer(rebasing: subject[range])
        if let bytes = text.bytes {
            return bytes.count == level.count && level.elementsEqual(bytes)
        }
        // One level of a filter is short, and its stars are plain text.
        var ignored = 0
        return !isReserved
            && RightPattern.matches(text.parts, level, for: names, comparisons: &ignored)
    }
}
