// Strings inside JSON texts (RFC 8259), as bytes: how long one is with the escapes that JSON
// requires and no others, writing it so, and reading any legal spelling back. There is no JSON tree
// here.

import Primitives

/// Writing: the minimal form.
@usableFromInline
enum JSONText {
    /// Bytes of `text` between its quotes: `"`, `\` and \b \t \n \f \r take two, other control
    /// characters six, all else stands for itself. Says besides whether all of it is ASCII.
    @usableFromInline
    static func measure(
        _ text: RawSpan
    ) -> (escapedByteCount: Int, isASCII: Bool) {
        var count = text.byteCount
        var bits: UInt64 = 0
        @inline(__always)
        func add(_ range: Range<Int>) {
            for offset in range {
                count += extraByteCount(text[offset])
                bits |= UInt64(text[offset])
            }
        }
        let quote = UInt8(ascii: "\"")
        let backslash = UInt8(ascii: "\\")
        var offset = 0
        while offset <= text.byteCount &- 8 {
            let eight = text.loadInteger(at: offset, as: UInt64.self)
            if PlainASCII.suspects(eight, excluded: (quote, backslash, backslash)) != 0 {
                add(offset..<offset + 8)
            }
            offset &+= 8
        }
        let rest = text.extracting(offset...)
        if !PlainASCII.isAll(rest, excluding: (quote, backslash, backslash)) {
            add(offset..<text.byteCount)
        }
        return (count, bits & PlainASCII.topBits == 0)
    }

    @usableFromInline
    static func escapedByteCount(_ text: RawSpan) -> Int {
        measure(text).escapedByteCount
    }

    @inline(__always)
    private static func extraByteCount(_ byte: UInt8) -> Int {
        if byte >= 0x20 { return byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") ? 1 : 0 }
        return shortEscape(byte) == nil ? 5 : 1
    }

    /// The letter of a control character's two-byte escape.
    private static func shortEscape(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x08: UInt8(ascii: "b")
        case 0x09: UInt8(ascii: "t")
        case 0x0A: UInt8(ascii: "n")
        case 0x0C: UInt8(ascii: "f")
        case 0x0D: UInt8(ascii: "r")
        default: nil
        }
    }

    /// Writes ``escapedByteCount(_:)`` bytes.
    static func write(escaped text: RawSpan, to writer: inout PacketWriter) {
        var start = 0
        for offset in text.byteOffsets where extraByteCount(text[offset]) > 0 {
            writer.write(bytes: text.extracting(start..<offset))
            write(escape: text[offset], to: &writer)
            start = offset + 1
        }
        writer.write(bytes: text.extracting(start...))
    }

    private static func write(escape byte: UInt8, to writer: inout PacketWriter) {
        writer.write(byte: UInt8(ascii: "\\"))
        if byte >= 0x20 {
            writer.write(byte: byte)
        } else if let letter = shortEscape(byte) {
            writer.write(byte: letter)
        } else {
            writer.write(literal: "u00")
            writer.write(byte: UInt8(ascii: "0") + byte >> 4)
            let low = byte & 0x0F
            writer.write(byte: low < 10 ? UInt8(ascii: "0") + low : UInt8(ascii: "a") + low - 10)
        }
    }

    /// Decimal digits of `value`.
    static func digitCount(_ value: UInt64) -> Int {
        var count = 1
        var rest = value / 10
        while rest > 0 {
            count += 1
            rest /= 10
        }
        return count
    }

    static func write(decimal value: UInt64, to writer: inout PacketWriter) {
        var divisor: UInt64 = 1
        for _ in 1..<digitCount(value) { divisor *= 10 }
        while divisor > 0 {
            writer.write(byte: UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value / divisor % 10))
            divisor /= 10
        }
    }
}

extension PacketWriter {
    /// The characters of a literal.
    mutating func write(literal: StaticString) {
        write(bytes: literal.utf8Bytes)
    }
}

/// Reading: a cursor over a JSON text. Nil means that the text is not what was asked for.
package struct JSONReader: ~Escapable {
    package let text: RawSpan
    package var offset = 0

    @_lifetime(copy text)
    package init(_ text: RawSpan) {
        self.text = text
    }

    package var isAtEnd: Bool { offset == text.byteCount }

    package mutating func skipWhiteSpace() {
        while offset < text.byteCount {
            switch text[offset] {
            case 0x20, 0x09, 0x0A, 0x0D: offset += 1
            default: return
            }
        }
    }

    /// Takes `byte`, with white space before it.
    package mutating func take(_ byte: UInt8) -> Bool {
        skipWhiteSpace()
        guard offset < text.byteCount, text[offset] == byte else { return false }
        offset += 1
        return true
    }

    /// A decimal digit, directly here.
    mutating func takeDigit() -> UInt8? {
        guard offset < text.byteCount, case 0x30...0x39 = text[offset] else { return nil }
        defer { offset += 1 }
        return text[offset]
    }

    /// Reads a string, unescaped, to the start of `output`, which is never smaller than the text.
    /// Returns its bytes; nil for ill-formed UTF-8, bare control characters, lone surrogates.
    mutating func readString(into output: UnsafeMutableRawBufferPointer) -> Int? {
        guard take(UInt8(ascii: "\"")) else { return nil }
        var count = 0
        while offset < text.byteCount {
            let byte = text[offset]
            switch byte {
            case UInt8(ascii: "\""):
                offset += 1
                return count
            case UInt8(ascii: "\\"):
                guard let written = readEscape(into: output, at: count) else { return nil }
                count += written
            case 0..<0x20:
                return nil
            default:
                let length = TextRules.characterByteCount(text, at: offset)
                if length == 0 { return nil }
                for index in 0..<length { output[count + index] = text[offset + index] }
                offset += length
                count += length
            }
        }
        return nil
    }

    private mutating func readEscape(
        into output: UnsafeMutableRawBufferPointer, at place: Int
    ) -> Int? {
        guard text.byteCount - offset >= 2 else { return nil }
        let letter = text[offset + 1]
        offset += 2
        switch letter {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): output[place] = letter
        case UInt8(ascii: "b"): output[place] = 0x08
        case UInt8(ascii: "t"): output[place] = 0x09
        case UInt8(ascii: "n"): output[place] = 0x0A
        case UInt8(ascii: "f"): output[place] = 0x0C
        case UInt8(ascii: "r"): output[place] = 0x0D
        case UInt8(ascii: "u"):
            guard let scalar = readScalar() else { return nil }
            return write(scalar, to: output, at: place)
        default: return nil
        }
        return 1
    }

    /// The four digits after `\u`, and the second half of a pair.
    private mutating func readScalar() -> UInt32? {
        guard let unit = readFourDigits() else { return nil }
        switch unit {
        case 0xDC00...0xDFFF: return nil
        case 0xD800...0xDBFF:
            guard text.byteCount - offset >= 2, text[offset] == UInt8(ascii: "\\"),
                text[offset + 1] == UInt8(ascii: "u")
            else { return nil }
            offset += 2
            guard let low = readFourDigits(), case 0xDC00...0xDFFF = low else { return nil }
            return 0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)
        default: return unit
        }
    }

    private mutating func readFourDigits() -> UInt32? {
        guard text.byteCount - offset >= 4 else { return nil }
        var value: UInt32 = 0
        for _ in 0..<4 {
            let digit: UInt8
            switch text[offset] {
            case let byte where (0x30...0x39).contains(byte): digit = byte - 0x30
            case let byte where (0x41...0x46).contains(byte): digit = byte - 0x41 + 10
            case let byte where (0x61...0x66).contains(byte): digit = byte - 0x61 + 10
            default: return nil
            }
            value = value << 4 | UInt32(digit)
            offset += 1
        }
        return value
    }

    private func write(
        _ scalar: UInt32, to output: UnsafeMutableRawBufferPointer, at place: Int
    ) -> Int {
        func tail(_ shift: UInt32) -> UInt8 { 0x80 | UInt8(scalar >> shift & 0x3F) }
        switch scalar {
        case 0..<0x80:
            output[place] = UInt8(scalar)
            return 1
        case 0x80..<0x800:
            output[place] = 0xC0 | UInt8(scalar >> 6)
            output[place + 1] = tail(0)
            return 2
        case 0x800..<0x10000:
            output[place] = 0xE0 | UInt8(scalar >> 12)
            output[place + 1] = tail(6)
            output[place + 2] = tail(0)
            return 3
        default:
            output[place] = 0xF0 | UInt8(scalar >> 18)
            output[place + 1] = tail(12)
            output[place + 2] = tail(6)
            output[place + 3] = tail(0)
            return 4
        }
    }
}
