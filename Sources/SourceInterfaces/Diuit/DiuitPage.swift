// The items of a list that fit into one answer.

/// A part of a list: as many items as a client asks for, and fewer if these have too many bytes.
struct DiuitPage {
    private(set) var items: [SourceValue] = []
    private var byteCount = 0
    /// Items that belong to the page and have no room in the answer. A client that asks for fewer
    /// of them at a time gets all.
    private(set) var omittedCount = 0

    /// Whether the next item is omitted, so that it need not be made.
    var isFull: Bool { omittedCount > 0 || byteCount >= SourceLimits.answerByteCountMaximum }

    /// Adds an item if there is room. The first one has it always.
    mutating func add(_ item: SourceValue) {
        let count = item.byteCountMaximum
        guard !isFull, items.isEmpty || byteCount + count <= SourceLimits.answerByteCountMaximum
        else { return omit() }
        byteCount += count
        items.append(item)
    }

    mutating func omit() { omittedCount += 1 }

    /// The answer, whose items have a name.
    func answer(_ name: String) -> SourceValue {
        var members = [name: SourceValue.array(items)]
        if omittedCount > 0 { members["omitted"] = .count(omittedCount) }
        return .object(members)
    }
}
