// The content of a request to the HTTP API: a JSON object (RFC 8259) whose members the operation
// declares. Reading stops at the first thing that no request has, so that content costs no more
// than the texts and numbers in it; nothing is read to any depth.

/// Reads the members of a JSON object.
struct APIBody {
    private let content: [UInt8]
    private var offset = 0

    /// - Throws: a refusal of what is not UTF-8, in which JSON is exchanged (RFC 8259, 8.1).
    init(_ content: [UInt8]) throws(AdministrationRefusal) {
        guard !content.contains(0), String(validating: content, as: UTF8.self) != nil else {
            throw .malformed("not JSON in UTF-8")
        }
        self.content = content
    }

    /// Reads the whole object.
    ///
    /// - Throws: a refusal that names the first member that is not declared, is repeated, or has
    ///   another form.
    mutating func read(
        _ members: [APIMember]
    ) throws(AdministrationRefusal) -> [String: JSONValue] {
        guard take("{") else { throw .malformed("the content is not a JSON object") }
        var values: [String: JSONValue] = [:]
        if !take("}") {
            repeat {
                let name = try readText()
                guard let member = members.first(where: { $0.place == .body && $0.name == name })
                else { throw APIValues.unknown("/\(name)", in: members, at: .body) }
                guard take(":") else { throw Self.notJSON }
                guard values.updateValue(try readValue(of: member), forKey: name) == nil else {
                    throw .malformed("/\(name) is repeated")
                }
            } while take(",")
            guard take("}") else { throw Self.notJSON }
        }
        skipWhiteSpace()
        guard offset == content.count else { throw Self.notJSON }
        // What is left out on purpose.
        return values.filter { $0.value != .null }
    }

    private static let notJSON = AdministrationRefusal.malformed("not JSON")

    /// A value in the form of its member. Of another one only the beginning is read.
    private mutating func readValue(
        of member: APIMember
    ) throws(AdministrationRefusal) -> JSONValue {
        let value: JSONValue
        switch next {
        case UInt8(ascii: "\""): value = .text(try readText())
        case UInt8(ascii: "{"):
            value = .object(member.form == .textsByName ? try readTextsByName(member) : [:])
        case UInt8(ascii: "["): value = .array(member.form == .texts ? try readTexts(member) : [])
        case UInt8(ascii: "t"): value = try readWord("true", .boolean(true))
        case UInt8(ascii: "f"): value = try readWord("false", .boolean(false))
        case UInt8(ascii: "n"): value = try readWord("null", .null)
        default: value = try readNumber()
        }
        if value != .null || member.isRequired { try APIValues.check(value, member) }
        return value
    }

    private mutating func readTexts(
        _ member: APIMember
    ) throws(AdministrationRefusal) -> [JSONValue] {
        var texts: [JSONValue] = []
        guard take("["), !take("]") else { return texts }
        repeat {
            guard let first = next else { throw Self.notJSON }
            guard first == UInt8(ascii: "\"") else {
                throw .malformed("/\(member.name)/\(texts.count) must be text")
            }
            texts.append(.text(try readText()))
        } while take(",")
        guard take("]") else { throw Self.notJSON }
        return texts
    }

    private mutating func readTextsByName(
        _ member: APIMember
    ) throws(AdministrationRefusal) -> [String: JSONValue] {
        var texts: [String: JSONValue] = [:]
        guard take("{"), !take("}") else { return texts }
        repeat {
            let name = try readText()
            guard take(":"), let first = next else { throw Self.notJSON }
            guard first == UInt8(ascii: "\"") else {
                throw .malformed("/\(member.name)/\(name) must be text")
            }
            guard texts.updateValue(.text(try readText()), forKey: name) == nil else {
                throw .malformed("/\(member.name)/\(name) is repeated")
            }
        } while take(",")
        guard take("}") else { throw Self.notJSON }
        return texts
    }

    private mutating func readWord(
        _ word: StaticString, _ value: JSONValue
    ) throws(AdministrationRefusal) -> JSONValue {
        let count = word.utf8CodeUnitCount
        let isWord = word.withUTF8Buffer { content[offset...].prefix(count).elementsEqual($0) }
        guard isWord else { throw Self.notJSON }
        offset += count
        return value
    }

    // MARK: - Numbers

    private mutating func readNumber() throws(AdministrationRefusal) -> JSONValue {
        let start = offset
        takeByte("-")
        let digitsStart = offset
        var digitCount = takeDigits()
        guard digitCount == 1 || digitCount > 1 && content[digitsStart] != UInt8(ascii: "0") else {
            throw Self.notJSON
        }
        var isWhole = start == digitsStart
        if takeByte(".") {
            isWhole = false
            digitCount = takeDigits()
            guard digitCount > 0 else { throw Self.notJSON }
        }
        if takeByte("e") || takeByte("E") {
            isWhole = false
            if !takeByte("+") { takeByte("-") }
            digitCount = takeDigits()
            guard digitCount > 0 else { throw Self.notJSON }
        }
        let text = String(decoding: content[start..<offset], as: UTF8.self)
        if isWhole { return UInt64(text).map(JSONValue.number) ?? .other }
        // Some languages write whole numbers as 1.0 or 1e3.
        guard let number = Double(text), number <= Self.wholeNumberMaximum,
            let whole = UInt64(exactly: number)
        else { return .other }
        return .number(whole)
    }

    /// All whole numbers up to this one are exact in a Double.
    private static let wholeNumberMaximum = Double(1 << 53)

    private mutating func takeDigits() -> Int {
        let start = offset
        while offset < content.count, (0x30...0x39).contains(content[offset]) { offset += 1 }
        return offset - start
    }

    // MARK: - Texts

    private mutating func readText() throws(AdministrationRefusal) -> String {
        guard take("\"") else { throw Self.notJSON }
        var text: [UInt8] = []
        var start = offset
        while offset < content.count {
            switch content[offset] {
            case UInt8(ascii: "\""):
                text += content[start..<offset]
                offset += 1
                return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"):
                text += content[start..<offset]
                offset += 1
                try readEscape(into: &text)
                start = offset
            case ..<0x20: throw Self.notJSON
            default: offset += 1
            }
        }
        throw Self.notJSON
    }

    /// Reads what follows a backslash (RFC 8259, 7).
    private mutating func readEscape(into text: inout [UInt8]) throws(AdministrationRefusal) {
        guard offset < content.count else { throw Self.notJSON }
        let byte = content[offset]
        offset += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(byte)
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "u"): text += "\(try readEscapedScalar())".utf8
        default: throw Self.notJSON
        }
    }

    private mutating func readEscapedScalar() throws(AdministrationRefusal) -> Unicode.Scalar {
        var value = try readCodeUnit()
        if (0xD800..<0xDC00).contains(value) {
            guard takeByte("\\"), takeByte("u") else { throw Self.notJSON }
            let low = try readCodeUnit()
            guard (0xDC00..<0xE000).contains(low) else { throw Self.notJSON }
            value = 0x10000 + (value - 0xD800) << 10 + (low - 0xDC00)
        }
        // Half of a pair alone is no character.
        guard let scalar = Unicode.Scalar(value) else { throw Self.notJSON }
        return scalar
    }

    private mutating func readCodeUnit() throws(AdministrationRefusal) -> UInt32 {
        guard offset + 4 <= content.count else { throw Self.notJSON }
        var value: UInt32 = 0
        for byte in content[offset..<offset + 4] {
            guard let digit = Character(Unicode.Scalar(byte)).hexDigitValue, byte < 0x80 else {
                throw Self.notJSON
            }
            value = value << 4 | UInt32(digit)
        }
        offset += 4
        return value
    }

    // MARK: - Bytes

    /// The first byte of what follows; nil at the end.
    private var next: UInt8? {
        mutating get {
            skipWhiteSpace()
            return offset < content.count ? content[offset] : nil
        }
    }

    private mutating func skipWhiteSpace() {
        while offset < content.count {
            switch content[offset] {
            case 0x20, 0x09, 0x0A, 0x0D: offset += 1
            default: return
            }
        }
    }

    /// Takes a character after white space, if it is there.
    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        skipWhiteSpace()
        return takeByte(character)
    }

    @discardableResult
    private mutating func takeByte(_ character: Unicode.Scalar) -> Bool {
        guard offset < content.count, content[offset] == UInt8(ascii: character) else {
            return false
        }
        offset += 1
        return true
    }
}
