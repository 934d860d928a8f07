// Looks for a text in the content of messages, in a time that depends on the content alone.

/// A text to look for, by the algorithm of Knuth, Morris and Pratt: no content and no text, however
/// they repeat themselves, cost more than two comparisons a byte of the content.
struct ByteSearch: Hashable {
    /// At most ``CoreLimits/searchByteCountMaximum`` bytes.
    let text: [UInt8]
    /// For each position of the text, how many of its first bytes are also the last ones before
    /// that position: where a comparison continues that fails there.
    private let borders: [UInt8]

    init(_ text: [UInt8]) {
        precondition(
            text.count <= CoreLimits.searchByteCountMaximum, "a search for \(text.count) bytes")
        var borders: [UInt8] = []
        var length = 0
        for position in text.indices {
            borders.append(UInt8(length))
            guard position > 0 else { continue }
            while length > 0, text[position] != text[length] { length = Int(borders[length]) }
            if text[position] == text[length] { length += 1 }
        }
        self.text = text
        self.borders = borders
    }

    /// Nothing to look for: every content has it.
    var isEmpty: Bool { text.isEmpty }

    /// Whether bytes contain the text.
    func isIn(_ bytes: RawSpan) -> Bool {
        guard !text.isEmpty else { return true }
        var length = 0
        for position in bytes.byteOffsets {
            let byte = bytes.unsafeLoad(fromByteOffset: position, as: UInt8.self)
            while length > 0, byte != text[length] { length = Int(borders[length]) }
            if byte == text[length] { length += 1 }
            if length == text.count { return true }
        }
        return false
    }
}
