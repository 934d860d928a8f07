// Swift source as the rules read it: bytes with comments and texts blanked out, and the lists in
// parentheses that follow a name. It parses no more of the language than the rules need.

/// One Swift source. Offsets are the same in `bytes` and `code`.
struct SwiftText {
    let bytes: [UInt8]
    /// The bytes with spaces in place of comments and of the contents of string literals.
    private(set) var code: [UInt8]

    init(_ text: String) {
        bytes = Array(text.utf8)
        code = bytes
        var index = 0
        blankCode(from: &index, untilParenthesis: false)
    }

    /// The number of the line that holds an offset, from 1.
    func line(at offset: Int) -> Int {
        bytes[..<offset].reduce(into: 1) { $0 += $1 == UInt8(ascii: "\n") ? 1 : 0 }
    }

    /// The text of a range, as it stands in the file.
    func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }

    // MARK: Names and lists

    /// Where a name stands in the code as a whole word: the offsets after it.
    func ends(of name: String) -> [Int] {
        let name = Array(name.utf8)
        var found: [Int] = []
        var index = 0
        while index + name.count <= code.count {
            defer { index += 1 }
            guard code[index] == name[0], code[index..<(index + name.count)].elementsEqual(name),
                index == 0 || !Self.isNamePart(code[index - 1]),
                index + name.count == code.count || !Self.isNamePart(code[index + name.count])
            else { continue }
            found.append(index + name.count)
        }
        return found
    }

    /// The items, separated by commas, of the parentheses that open at an offset.
    func items(ofParenthesesAt opening: Int) -> [Range<Int>] {
        var items: [Range<Int>] = []
        var depth = 0
        var start = opening + 1
        var index = opening
        func end(at index: Int) {
            let item = trimmed(start..<index)
            if !item.isEmpty { items.append(item) }
        }
        while index < code.count {
            switch code[index] {
            case UInt8(ascii: "("), UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: ")"), UInt8(ascii: "]"), UInt8(ascii: "}"):
                depth -= 1
                if depth == 0 {
                    end(at: index)
                    return items
                }
            case UInt8(ascii: "<") where Self.isNamePart(code[index - 1]): depth += 1
            case UInt8(ascii: ">")
            where code[index - 1] != UInt8(ascii: "-") && code[index - 1] != UInt8(ascii: " ")
                && depth > 1:
                depth -= 1
            case UInt8(ascii: ",") where depth == 1:
                end(at: index)
                start = index + 1
            default: break
            }
            index += 1
        }
        return items
    }

    /// One parameter of a function, an initialiser or a subscript.
    struct Parameter {
        /// What callers write; nil for `_`.
        let label: String?
        let name: String
        /// Without attributes, `inout`, ownership and a default value.
        let type: String
        /// The offset of the parameter in the source.
        let offset: Int

        var isClosure: Bool { type.contains("->") }
    }

    /// The parameters of each function, initialiser and subscript that the source declares.
    func parameterLists() -> [[Parameter]] {
        ["func", "init", "subscript"].flatMap { keyword in
            ends(of: keyword).compactMap { end in
                guard let opening = opening(after: end, isFunction: keyword == "func") else {
                    return nil
                }
                return items(ofParenthesesAt: opening).compactMap(parameter)
            }
        }
    }

    /// The parenthesis that opens the parameters of a declaration, past its name and its generic
    /// parameters; nil for a call.
    func opening(after end: Int, isFunction: Bool) -> Int? {
        var index = end
        if isFunction {
            // The name may be an operator: everything up to the first parenthesis or `<` of
            // generic parameters is passed over.
            while index < code.count, code[index] == UInt8(ascii: " ") { index += 1 }
            let isNamed = index < code.count && Self.isNamePart(code[index])
            while index < code.count,
                isNamed ? Self.isNamePart(code[index]) : code[index] != UInt8(ascii: "(")
            {
                index += 1
            }
        } else if index < code.count, code[index] == UInt8(ascii: "?") {
            index += 1
        }
        if index < code.count, code[index] == UInt8(ascii: "<") {
            var depth = 0
            repeat {
                if code[index] == UInt8(ascii: "<") { depth += 1 }
                if code[index] == UInt8(ascii: ">"), code[index - 1] != UInt8(ascii: "-") {
                    depth -= 1
                }
                index += 1
            } while depth > 0 && index < code.count
        }
        guard index < code.count, code[index] == UInt8(ascii: "(") else { return nil }
        return index
    }

    /// An item of a parameter list; nil for what has no type, as the arguments of a call.
    func parameter(_ item: Range<Int>) -> Parameter? {
        guard let colon = code[item].firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let names = String(decoding: code[item.lowerBound..<colon], as: UTF8.self)
            .split { $0 == " " || $0 == "\n" }.filter { !$0.hasPrefix("@") }
        guard let label = names.first, let name = names.last, names.count <= 2 else { return nil }
        // A default value may hold a text; the type ends before it.
        var end = item.upperBound
        if let equals = code[colon..<end].firstIndex(of: UInt8(ascii: "=")) { end = equals }
        let prefixes: Set<Substring> = [
            "inout", "borrowing", "consuming", "sending", "__owned", "isolated", "any", "some",
        ]
        let type = String(decoding: code[(colon + 1)..<end], as: UTF8.self)
            .split { $0 == " " || $0 == "\n" }
            .drop { prefixes.contains($0) || $0.hasPrefix("@") }.joined(separator: " ")
        return Parameter(
            label: label == "_" ? nil : String(label), name: String(name), type: type,
            offset: item.lowerBound)
    }

    private func trimmed(_ range: Range<Int>) -> Range<Int> {
        // A text is blank in `code`, and not an empty item.
        let isSpace = { (index: Int) in bytes[index] == 0x20 || bytes[index] == 0x0A }
        let lower = range.first { !isSpace($0) } ?? range.upperBound
        let upper = range.last { !isSpace($0) }.map { $0 + 1 } ?? lower
        return lower..<max(lower, upper)
    }

    static func isNamePart(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), 0x80...:
            true
        default: false
        }
    }

    // MARK: Comments and texts

    private func has(_ text: StaticString, at index: Int) -> Bool {
        guard index + text.utf8CodeUnitCount <= bytes.count else { return false }
        for offset in 0..<text.utf8CodeUnitCount
        where bytes[index + offset] != text.utf8Start[offset] {
            return false
        }
        return true
    }

    private mutating func blank(_ index: inout Int, _ count: Int = 1) {
        for _ in 0..<count where index < code.count {
            if code[index] != UInt8(ascii: "\n") { code[index] = UInt8(ascii: " ") }
            index += 1
        }
    }

    /// Walks code to its end, or past the parenthesis that closes an interpolation.
    private mutating func blankCode(from index: inout Int, untilParenthesis: Bool) {
        var depth = 0
        while index < bytes.count {
            if has("//", at: index) {
                while index < bytes.count, bytes[index] != UInt8(ascii: "\n") { blank(&index) }
            } else if has("/*", at: index) {
                while index < bytes.count, !has("*/", at: index) { blank(&index) }
                blank(&index, 2)
            } else if has("\"", at: index) || has("#\"", at: index) {
                blankText(from: &index)
            } else {
                if bytes[index] == UInt8(ascii: "(") { depth += 1 }
                if bytes[index] == UInt8(ascii: ")") {
                    depth -= 1
                    if untilParenthesis, depth < 0 { return }
                }
                if untilParenthesis { blank(&index) } else { index += 1 }
            }
        }
    }

    /// Blanks a string literal, its interpolations included.
    private mutating func blankText(from index: inout Int) {
        let isRaw = bytes[index] == UInt8(ascii: "#")
        if isRaw { blank(&index) }
        let isMultiline = has("\"\"\"", at: index)
        blank(&index, isMultiline ? 3 : 1)
        while index < bytes.count {
            if !isRaw, has("\\(", at: index) {
                blank(&index, 2)
                blankCode(from: &index, untilParenthesis: true)
                blank(&index)
            } else if !isRaw, bytes[index] == UInt8(ascii: "\\") {
                blank(&index, 2)
            } else if isMultiline ? has("\"\"\"", at: index) : bytes[index] == UInt8(ascii: "\"") {
                blank(&index, (isMultiline ? 3 : 1) + (isRaw ? 1 : 0))
                return
            } else if !isMultiline, bytes[index] == UInt8(ascii: "\n") {
                // A regular expression literal with a quote in it, and no text.
                return
            } else {
                blank(&index)
            }
        }
    }
}
