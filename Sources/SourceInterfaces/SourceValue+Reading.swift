// Reads JSON (RFC 8259) in one pass: each byte is looked at once or twice, and no reading is tried
// and given up.

import WireFormat

extension SourceValue {
    /// Reads content.
    ///
    /// - Throws: the status 400 for what is no JSON in UTF-8, has too many levels or values, or has
    ///   a member twice.
    init(_ content: [UInt8]) throws(SourceRefusal) {
        var reader = JSONReader(content.span.bytes)
        var valueCount = 0
        self = try Self.read(&reader, level: 1, &valueCount)
        reader.skipWhiteSpace()
        guard reader.isAtEnd else { throw Self.malformed }
    }

    private static var malformed: SourceRefusal {
        SourceRefusal(400, "the content is not JSON in UTF-8")
    }

    private static func read(
        _ reader: inout JSONReader, level: Int, _ valueCount: inout Int
    ) throws(SourceRefusal) -> SourceValue {
        valueCount += 1
        guard valueCount <= SourceLimits.valuesMaximum else {
            throw SourceRefusal(400, "more than \(SourceLimits.valuesMaximum) values of JSON")
        }
        reader.skipWhiteSpace()
        guard !reader.isAtEnd else { throw malformed }
        switch reader.text[reader.offset] {
        case UInt8(ascii: "{"):
            try checkLevel(level)
            return .object(try readObject(&reader, level: level, &valueCount))
        case UInt8(ascii: "["):
            try checkLevel(level)
            return .array(try readArray(&reader, level: level, &valueCount))
        case UInt8(ascii: "\""): return .text(try readText(&reader))
        case UInt8(ascii: "t"): return try readWord(&reader, "true", as: .boolean(true))
        case UInt8(ascii: "f"): return try readWord(&reader, "false", as: .boolean(false))
        case UInt8(ascii: "n"): return try readWord(&reader, "null", as: .null)
        default: return try readNumber(&reader)
        }
    }

    /// A reader that calls itself must not go deeper.
    private static func checkLevel(_ level: Int) throws(SourceRefusal) {
        guard level <= SourceLimits.depthMaximum else {
            throw SourceRefusal(400, "more than \(SourceLimits.depthMaximum) levels of JSON")
        }
    }

    private static func readObject(
        _ reader: inout JSONReader, level: Int, _ valueCount: inout Int
    ) throws(SourceRefusal) -> [String: SourceValue] {
        var members: [String: SourceValue] = [:]
        var names: Set<[UInt8]> = []
        reader.offset += 1
        if reader.take(UInt8(ascii: "}")) { return members }
        repeat {
            let name = try readText(&reader)
            guard reader.take(UInt8(ascii: ":")) else { throw malformed }
            let value = try read(&reader, level: level + 1, &valueCount)
            guard names.insert(Array(name.utf8)).inserted else {
                throw SourceRefusal(400, field: name, "is repeated")
            }
            // Of names that are canonically equivalent, the last one counts.
            members[name] = value
        } while reader.take(UInt8(ascii: ","))
        guard reader.take(UInt8(ascii: "}")) else { throw malformed }
        return members
    }

    private static func readArray(
        _ reader: inout JSONReader, level: Int, _ valueCount: inout Int
    ) throws(SourceRefusal) -> [SourceValue] {
        var elements: [SourceValue] = []
        reader.offset += 1
        if reader.take(UInt8(ascii: "]")) { return elements }
        repeat {
            elements.append(try read(&reader, level: level + 1, &valueCount))
        } while reader.take(UInt8(ascii: ","))
        guard reader.take(UInt8(ascii: "]")) else { throw malformed }
        return elements
    }

    private static func readText(_ reader: inout JSONReader) throws(SourceRefusal) -> String {
        var text: [UInt8] = []
        guard reader.appendString(to: &text) else { throw malformed }
        return String(decoding: text, as: UTF8.self)
    }

    private static func readWord(
        _ reader: inout JSONReader, _ word: StaticString, as value: SourceValue
    ) throws(SourceRefusal) -> SourceValue {
        for index in 0..<word.utf8CodeUnitCount {
            guard reader.offset < reader.text.byteCount,
                reader.text[reader.offset] == word.utf8Start[index]
            else { throw malformed }
            reader.offset += 1
        }
        return value
    }

    /// A number (RFC 8259, 6): a whole one if it is, however it is written.
    private static func readNumber(
        _ reader: inout JSONReader
    ) throws(SourceRefusal) -> SourceValue {
        var digits: [UInt8] = []
        while reader.offset < reader.text.byteCount,
            isOfNumber(reader.text[reader.offset]),
            digits.count <= SourceLimits.numberByteCountMaximum
        {
            digits.append(reader.text[reader.offset])
            reader.offset += 1
        }
        guard digits.count <= SourceLimits.numberByteCountMaximum, isNumber(digits) else {
            throw malformed
        }
        let text = String(decoding: digits, as: UTF8.self)
        if let number = Int64(text) { return .number(number) }
        guard let fraction = Double(text) else { throw malformed }
        if let number = Int64(exactly: fraction) { return .number(number) }
        // Only what is finite can be written again.
        return fraction.isFinite ? .fraction(fraction) : .null
    }

    private static func isOfNumber(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "-"),
            UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E"):
            true
        default: false
        }
    }

    /// Whether the bytes are a number as JSON writes them.
    private static func isNumber(_ bytes: [UInt8]) -> Bool {
        var rest = bytes[...]
        func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
        func takeDigits() -> Int {
            let digits = rest.prefix(while: isDigit)
            rest = rest.dropFirst(digits.count)
            return digits.count
        }
        if rest.first == UInt8(ascii: "-") { rest = rest.dropFirst() }
        let startsWithZero = rest.first == UInt8(ascii: "0")
        let wholeCount = takeDigits()
        guard wholeCount > 0, wholeCount == 1 || !startsWithZero else { return false }
        if rest.first == UInt8(ascii: ".") {
            rest = rest.dropFirst()
            guard takeDigits() > 0 else { return false }
        }
        if let byte = rest.first, byte == UInt8(ascii: "e") || byte == UInt8(ascii: "E") {
            rest = rest.dropFirst()
            if let sign = rest.first, sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") {
                rest = rest.dropFirst()
            }
            guard takeDigits() > 0 else { return false }
        }
        return rest.isEmpty
    }
}
