// Reads JSON5 [spec.json5.org, 1.0.0] into a tree with positions.
//
// Foundation's decoder for JSON5 reports neither line nor column, silently accepts the last of two
// equal keys, and does not keep the positions of values. A person who edits a configuration needs
// all three, so this module has its own parser; a test compares it with Foundation's on the same
// samples. It knows no keys: configurations, rules and scenarios are read with it.

package struct JSON5Parser {
    private let text: [UInt8]
    private var offset = 0
    private var depth = 0
    private let isOfOthers: Bool

    /// Deeper than any configuration; it bounds the recursion.
    static let depthMaximum = 32

    /// Reads a complete document: one value, followed only by space and comments.
    ///
    /// - Parameter isOfOthers: whether a program wrote it, whose author reads no errors. All of
    ///   JSON is read then (RFC 8259, sections 4 and 8.2): the last of equal keys counts, and half
    ///   of a surrogate pair becomes U+FFFD.
    package static func parse(
        _ text: [UInt8], isOfOthers: Bool = false
    ) throws(JSON5SyntaxError) -> JSON5Node {
        var parser = JSON5Parser(text: text, isOfOthers: isOfOthers)
        if let broken = parser.firstInvalidOffset() {
            throw JSON5SyntaxError(offset: broken, message: "this is not UTF-8 text")
        }
        let node = try parser.value()
        try parser.skipSpace()
        if parser.offset < text.count {
            throw parser.failure("there is something after the end of the document")
        }
        return node
    }

    /// Whether a document contains only space and comments.
    package static func isBlank(_ text: [UInt8]) throws(JSON5SyntaxError) -> Bool {
        var parser = JSON5Parser(text: text)
        if parser.firstInvalidOffset() != nil { return false }
        try parser.skipSpace()
        return parser.offset == text.count
    }

    private init(text: [UInt8], isOfOthers: Bool = false) {
        self.text = text
        self.isOfOthers = isOfOthers
        // A byte order mark is white space to JSON5, and common in files from Windows.
        if text.starts(with: [0xEF, 0xBB, 0xBF]) { offset = 3 }
    }

    // MARK: Values

    private mutating func value() throws(JSON5SyntaxError) -> JSON5Node {
        try skipSpace()
        let start = offset
        guard let byte = peek() else { throw failure("the text ends where a value should be") }
        switch byte {
        case UInt8(ascii: "{"):
            return JSON5Node(
                value: .object(try nested { p throws(JSON5SyntaxError) in try p.members() }),
                offset: start)
        case UInt8(ascii: "["):
            return JSON5Node(
                value: .array(try nested { p throws(JSON5SyntaxError) in try p.elements() }),
                offset: start)
        case UInt8(ascii: "\""), UInt8(ascii: "'"):
            return JSON5Node(value: .string(try string(quote: byte)), offset: start)
        default:
            return JSON5Node(value: try word(), offset: start)
        }
    }

    private mutating func nested<Result>(
        _ body: (inout JSON5Parser) throws(JSON5SyntaxError) -> Result
    ) throws(JSON5SyntaxError) -> Result {
        depth += 1
        if depth > Self.depthMaximum { throw failure("nested too deeply") }
        defer { depth -= 1 }
        offset += 1
        return try body(&self)
    }

    private mutating func members() throws(JSON5SyntaxError) -> [JSON5Node.Member] {
        var members: [JSON5Node.Member] = []
        // Of texts of others: where each key is, by its bytes. They may have thousands of keys.
        var indices: [[UInt8]: Int] = [:]
        while true {
            try skipSpace()
            if take(UInt8(ascii: "}")) { return members }
            let keyOffset = offset
            let key = try self.key()
            if !isOfOthers, members.contains(where: { $0.key == key }) {
                throw JSON5SyntaxError(
                    offset: keyOffset, message: "\(key) stands here a second time")
            }
            try skipSpace()
            guard take(UInt8(ascii: ":")) else { throw failure("a colon is missing after \(key)") }
            let member = JSON5Node.Member(key: key, keyOffset: keyOffset, node: try value())
            let former = isOfOthers ? indices[Array(key.utf8)] : nil
            if let former {
                members[former] = member
            } else {
                if isOfOthers { indices[Array(key.utf8)] = members.count }
                members.append(member)
            }
            try skipSpace()
            if take(UInt8(ascii: ",")) { continue }
            guard take(UInt8(ascii: "}")) else {
                throw failure("a comma or } is missing before this")
            }
            return members
        }
    }

    private mutating func elements() throws(JSON5SyntaxError) -> [JSON5Node] {
        var elements: [JSON5Node] = []
        while true {
            try skipSpace()
            if take(UInt8(ascii: "]")) { return elements }
            elements.append(try value())
            try skipSpace()
            if take(UInt8(ascii: ",")) { continue }
            guard take(UInt8(ascii: "]")) else {
                throw failure("a comma or ] is missing before this")
            }
            return elements
        }
    }

    private mutating func key() throws(JSON5SyntaxError) -> String {
        guard let byte = peek() else { throw failure("the text ends within an object") }
        if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
            return try string(quote: byte)
        }
        let start = offset
        while let byte = peek(), Self.isIdentifier(byte, first: offset == start) { offset += 1 }
        if offset == start { throw failure("a key is expected here") }
        return String(decoding: text[start..<offset], as: UTF8.self)
    }

    /// `true`, `false`, `null` or a number: a word that ends at a delimiter.
    private mutating func word() throws(JSON5SyntaxError) -> JSON5Node.Value {
        let start = offset
        while let byte = peek(), Self.isIdentifier(byte, first: false) || "+-.".utf8.contains(byte)
        {
            offset += 1
        }
        let word = String(decoding: text[start..<offset], as: UTF8.self)
        switch word {
        case "true": return .boolean(true)
        case "false": return .boolean(false)
        case "null": return .null
        case _ where Self.isNumber(word): return .number(word)
        default:
            offset = start
            throw failure(
                word.isEmpty
                    ? "a value is expected here" : "\(word) is no value; a text needs quotes")
        }
    }

    // MARK: Texts

    private mutating func string(quote: UInt8) throws(JSON5SyntaxError) -> String {
        let start = offset
        offset += 1
        var bytes: [UInt8] = []
        while let byte = peek() {
            switch byte {
            case quote:
                offset += 1
                return String(decoding: bytes, as: UTF8.self)
            case UInt8(ascii: "\\"):
                offset += 1
                bytes += try escaped()
            case UInt8(ascii: "\n"), UInt8(ascii: "\r"):
                throw failure("the text ends at the end of the line without its closing quote")
            default:
                offset += 1
                bytes.append(byte)
            }
        }
        offset = start
        throw failure("this text has no closing quote")
    }

    /// The meaning of an escape; `offset` is after the backslash.
    private mutating func escaped() throws(JSON5SyntaxError) -> [UInt8] {
        guard let byte = peek() else { throw failure("the text ends within an escape") }
        offset += 1
        switch byte {
        case UInt8(ascii: "b"): return [0x08]
        case UInt8(ascii: "t"): return [0x09]
        case UInt8(ascii: "n"): return [0x0A]
        case UInt8(ascii: "v"): return [0x0B]
        case UInt8(ascii: "f"): return [0x0C]
        case UInt8(ascii: "r"): return [0x0D]
        case UInt8(ascii: "x"): return try utf8(of: hexadecimal(digitCount: 2))
        case UInt8(ascii: "u"): return try unicodeEscape()
        case UInt8(ascii: "0"):
            guard let next = peek(), Self.isDigit(next) else { return [0] }
            throw failure("octal escapes are not JSON5")
        case UInt8(ascii: "1")...UInt8(ascii: "9"):
            throw failure("octal escapes are not JSON5")
        // A backslash at the end of a line continues the text on the next one.
        case UInt8(ascii: "\n"): return []
        case UInt8(ascii: "\r"):
            _ = take(UInt8(ascii: "\n"))
            return []
        default: return [byte]
        }
    }

    private mutating func unicodeEscape() throws(JSON5SyntaxError) -> [UInt8] {
        let first = try hexadecimal(digitCount: 4)
        guard (0xD800...0xDBFF).contains(first) else { return try utf8(of: first) }
        let end = offset
        var second: UInt32 = 0
        if take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) {
            second = try hexadecimal(digitCount: 4)
        }
        guard (0xDC00...0xDFFF).contains(second) else {
            // Of texts of others, what follows the half stands for itself.
            if isOfOthers { offset = end }
            return try utf8(of: first)
        }
        return try utf8(of: 0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
    }

    private mutating func hexadecimal(digitCount: Int) throws(JSON5SyntaxError) -> UInt32 {
        let digits = text[offset..<min(offset + digitCount, text.count)]
        guard digits.count == digitCount, digits.allSatisfy(Self.isHexadecimalDigit),
            let number = UInt32(String(decoding: digits, as: UTF8.self), radix: 16)
        else { throw failure("\(digitCount) hexadecimal digits are expected here") }
        offset += digitCount
        return number
    }

    private func utf8(of scalar: UInt32) throws(JSON5SyntaxError) -> [UInt8] {
        guard let scalar = Unicode.Scalar(scalar) ?? (isOfOthers ? "\u{FFFD}" : nil) else {
            throw failure("half of a surrogate pair")
        }
        return Array(String(scalar).utf8)
    }

    // MARK: Space and comments

    private mutating func skipSpace() throws(JSON5SyntaxError) {
        while let byte = peek() {
            switch byte {
            case 0x09...0x0D, UInt8(ascii: " "): offset += 1
            case UInt8(ascii: "/"): try skipComment()
            case 0xC2 where text[offset...].starts(with: [0xC2, 0xA0]): offset += 2
            // U+FEFF, and U+2028 and U+2029, which end lines in JavaScript.
            case 0xEF where text[offset...].starts(with: [0xEF, 0xBB, 0xBF]): offset += 3
            case 0xE2 where text[offset...].starts(with: [0xE2, 0x80, 0xA8]): offset += 3
            case 0xE2 where text[offset...].starts(with: [0xE2, 0x80, 0xA9]): offset += 3
            default: return
            }
        }
    }

    private mutating func skipComment() throws(JSON5SyntaxError) {
        let start = offset
        offset += 1
        if take(UInt8(ascii: "/")) {
            while let byte = peek(), byte != UInt8(ascii: "\n"), byte != UInt8(ascii: "\r") {
                offset += 1
            }
        } else if take(UInt8(ascii: "*")) {
            while offset < text.count {
                if text[offset...].starts(with: "*/".utf8) {
                    offset += 2
                    return
                }
                offset += 1
            }
            throw JSON5SyntaxError(offset: start, message: "this comment has no end")
        } else {
            throw JSON5SyntaxError(offset: start, message: "a comment begins with // or /*")
        }
    }

    // MARK: Bytes

    private func peek() -> UInt8? { offset < text.count ? text[offset] : nil }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek() == byte else { return false }
        offset += 1
        return true
    }

    private func failure(_ message: String) -> JSON5SyntaxError {
        JSON5SyntaxError(offset: offset, message: message)
    }

    private func firstInvalidOffset() -> Int? {
        do {
            _ = try UTF8Span(validating: text.span)
            return nil
        } catch {
            return error.byteOffsets.lowerBound
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }

    private static func isHexadecimalDigit(_ byte: UInt8) -> Bool {
        isDigit(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte | 0x20)
    }

    /// Letters, `$`, `_` and, after the first, digits. Bytes of other scripts count as letters: a
    /// key that no table knows is reported as unknown, which is clearer than a syntax error.
    private static func isIdentifier(_ byte: UInt8, first: Bool) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "$"), UInt8(ascii: "_"), 0x80...0xFF:
            true
        default: !first && isDigit(byte)
        }
    }

    /// Whether a word is a JSON5 number [spec.json5.org, 6].
    private static func isNumber(_ word: String) -> Bool {
        let unsigned = word.hasPrefix("+") || word.hasPrefix("-") ? word.dropFirst() : word[...]
        if unsigned == "Infinity" || unsigned == "NaN" { return true }
        if unsigned.hasPrefix("0x") || unsigned.hasPrefix("0X") {
            let digits = unsigned.utf8.dropFirst(2)
            return !digits.isEmpty && digits.allSatisfy(isHexadecimalDigit)
        }
        let decimal =
            /(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+\-]?[0-9]+)?/
        return unsigned.wholeMatch(of: decimal) != nil
    }
}
