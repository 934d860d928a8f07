// Finds the name that was most likely meant, for every place where people write one of a known set
// of names: options, subcommands, configuration keys.

/// Advice on misspelled names.
public enum Spelling {
    /// The name of `known` with the fewest typing errors between it and `name`; nil if none is
    /// near. Near means at most one error per three letters, so that dissimilar names and
    /// incomplete names are not suggested.
    public static func nearest(to name: String, among known: some Sequence<String>) -> String? {
        // A long text is no misspelled name; a comparison costs the product of the lengths.
        guard name.utf8.count <= 100 else { return nil }
        let allowed = max(1, name.utf8.count / 3)
        var best: (name: String, distance: Int)?
        for candidate in known {
            let isBeginning = name.utf8.count >= 3 && candidate.hasPrefix(name)
            let distance = isBeginning ? 1 : distance(Array(name.utf8), Array(candidate.utf8))
            if distance <= allowed, distance < best?.distance ?? .max {
                best = (candidate, distance)
            }
        }
        return best?.name
    }

    /// The number of insertions, deletions, replacements and swaps of neighbours between two words
    /// (optimal string alignment), ignoring case.
    static func distance(_ from: [UInt8], _ to: [UInt8]) -> Int {
        var beforeLast = [Int](repeating: 0, count: to.count + 1)
        var last = Array(0...to.count)
        for row in from.indices {
            var current = [row + 1]
            for column in to.indices {
                let same = lowercased(from[row]) == lowercased(to[column])
                var cost = min(
                    last[column] + (same ? 0 : 1), last[column + 1] + 1, current[column] + 1)
                if row > 0, column > 0,
                    lowercased(from[row]) == lowercased(to[column - 1]),
                    lowercased(from[row - 1]) == lowercased(to[column])
                {
                    cost = min(cost, beforeLast[column - 1] + 1)
                }
                current.append(cost)
            }
            (beforeLast, last) = (last, current)
        }
        return last[to.count]
    }

    private static func lowercased(_ letter: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(letter) ? letter | 0x20 : letter
    }
}
