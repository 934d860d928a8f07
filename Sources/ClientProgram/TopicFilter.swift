// Topic filters of rules: whether a topic matches, and whether two filters can match the same
// topic. Topics are bytes, divided at slashes.

import WireFormat

/// The levels of a topic or filter, in order.
package struct TopicLevels: Hashable, Sendable {
    package private(set) var levels: [ArraySlice<UInt8>]

    package init(_ topic: [UInt8]) {
        levels = topic.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    }

    package var count: Int { levels.count }
    package subscript(index: Int) -> ArraySlice<UInt8> { levels[index] }

    /// All levels from `index` on, with the slashes between them.
    package func rest(from index: Int) -> [UInt8] {
        Array(levels.dropFirst(index).joined(separator: CollectionOfOne(UInt8(ascii: "/"))))
    }
}

/// A topic filter with `+` and `#`.
package struct TopicFilter: Hashable, Sendable {
    package let text: String
    package let levels: TopicLevels

    /// Nil if the text is no filter. Shared subscriptions are not allowed here: they keep no order.
    package init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard TextRules.isTopicFilter(bytes.span.bytes), !text.hasPrefix("$share/")
        else { return nil }
        self.text = text
        levels = TopicLevels(bytes)
    }

    private static let one = ArraySlice("+".utf8)
    private static let all = ArraySlice("#".utf8)

    /// The number of levels that every matching topic has at least.
    package var levelCountMinimum: Int { endsOpen ? levels.count - 1 : levels.count }

    /// Whether it ends in `#`.
    package var endsOpen: Bool { levels[levels.count - 1] == Self.all }

    /// Filters that begin with a wildcard do not match topics that begin with `$` [MQTT-4.7.2-1].
    private static func isHidden(_ level: ArraySlice<UInt8>, from other: ArraySlice<UInt8>) -> Bool
    {
        level.first == UInt8(ascii: "$") && (other == one || other == all)
    }

    package func matches(_ topic: TopicLevels) -> Bool {
        if Self.isHidden(topic[0], from: levels[0]) { return false }
        for (index, level) in levels.levels.enumerated() {
            if level == Self.all { return true }
            guard index < topic.count, level == Self.one || level == topic[index] else {
                return false
            }
        }
        return levels.count == topic.count
    }

    /// Whether some topic matches both.
    package func overlaps(_ other: TopicFilter) -> Bool {
        let (ours, theirs) = (levels, other.levels)
        if Self.isHidden(ours[0], from: theirs[0]) || Self.isHidden(theirs[0], from: ours[0]) {
            return false
        }
        for index in 0..<min(ours.count, theirs.count) {
            if ours[index] == Self.all || theirs[index] == Self.all { return true }
            let isOpen = ours[index] == Self.one || theirs[index] == Self.one
            guard isOpen || ours[index] == theirs[index] else { return false }
        }
        if ours.count == theirs.count { return true }
        // `a/#` matches `a` too.
        let longer = ours.count > theirs.count ? ours : theirs
        let shorter = min(ours.count, theirs.count)
        return longer.count == shorter + 1 && longer[shorter] == Self.all
    }
}
