// The syntax of JSON (RFC 8259) alone: for objects that the broker passes on without reading them.

import Primitives

/// Checks objects of any values.
public struct JSONSyntax: ~Escapable {
    /// Objects and lists within each other: more than the payload of any push service has.
    public static var depthMaximum: Int { 16 }

    private let text: RawSpan
    private var offset: Int

    @_lifetime(copy text)
    private init(_ text: RawSpan, at offset: Int) {
        self.text = text
        self.offset = offset
    }

    /// Whether a text is one object, with nothing but white space around it. That it is UTF-8 is
    /// checked elsewhere.
    public static func isObject(_ text: RawSpan) -> Bool {
        var syntax = JSONSyntax(text, at: 0)
        syntax.skipWhiteSpace()
        guard syntax.skipObject(depth: 1) else { return false }
        syntax.skipWhiteSpace()
        return syntax.offset == text.byteCount
    }

    /// The end of the object that begins at an offset; nil if there is none.
    static func endOfObject(in text: RawSpan, at offset: Int) -> Int? {
        var syntax = JSONSyntax(text, at: offset)
        return syntax.skipObject(depth: 1) ? syntax.offset : nil
    }

    private var next: UInt8? { offset < text.byteCount ? text[offset] : nil }

    private mutating func skipWhiteSpace() {
        while let next, next == 0x20 || next == 0x09 || next == 0x0A || next == 0x0D { offset += 1 }
    }

    /// Skips white space and this byte.
    private mutating func take(_ byte: UInt8) -> Bool {
        skipWhiteSpace()
        guard next == byte else { return false }
        offset += 1
        return true
    }

    private mutating func skipObject(depth: Int) -> Bool {
        guard depth <= Self.depthMaximum, take(UInt8(ascii: "{")) else { return false }
        if take(UInt8(ascii: "}")) { return true }
        repeat {
            guard skipString(), take(UInt8(ascii: ":")), skipValue(depth: depth) else {
                return false
            }
        } while take(UInt8(ascii: ","))
        return take(UInt8(ascii: "}"))
    }

    private mutating func skipList(depth: Int) -> Bool {
        guard depth <= Self.depthMaximum, take(UInt8(ascii: "[")) else { return false }
        if take(UInt8(ascii: "]")) { return true }
        repeat {
            guard skipValue(depth: depth) else { return false }
        } while take(UInt8(ascii: ","))
        return take(UInt8(ascii: "]"))
    }

    private mutating func skipValue(depth: Int) -> Bool {
        skipWhiteSpace()
        switch next {
        case UInt8(ascii: "{"): return skipObject(depth: depth + 1)
        case UInt8(ascii: "["): return skipList(depth: depth + 1)
        case UInt8(ascii: "\""): return skipString()
        case UInt8(ascii: "t"): return skipWord("true")
        case UInt8(ascii: "f"): return skipWord("false")
        case UInt8(ascii: "n"): return skipWord("null")
        default: return skipNumber()
        }
    }

    private mutating func skipWord(_ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard offset + count <= text.byteCount,
            text.extracting(offset..<offset + count).isEqual(word)
        else { return false }
        offset += count
        return true
    }

    private mutating func skipString() -> Bool {
        guard take(UInt8(ascii: "\"")) else { return false }
        while let byte = next {
            offset += 1
            switch byte {
            case UInt8(ascii: "\""): return true
            case 0..<0x20: return false
            case UInt8(ascii: "\\"):
                guard let escaped = next else { return false }
                offset += 1
                switch escaped {
                case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"),
                    UInt8(ascii: "f"), UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
                    break
                case UInt8(ascii: "u"):
                    for _ in 0..<4 {
                        guard let digit = next, Self.isHexadecimal(digit) else { return false }
                        offset += 1
                    }
                default: return false
                }
            default: break
            }
        }
        return false
    }

    private mutating func skipNumber() -> Bool {
        if next == UInt8(ascii: "-") { offset += 1 }
        // No number begins with a zero and another digit.
        if next == UInt8(ascii: "0") {
            offset += 1
        } else if !skipDigits() {
            return false
        }
        if next == UInt8(ascii: ".") {
            offset += 1
            guard skipDigits() else { return false }
        }
        if let byte = next, byte | 0x20 == UInt8(ascii: "e") {
            offset += 1
            if next == UInt8(ascii: "+") || next == UInt8(ascii: "-") { offset += 1 }
            guard skipDigits() else { return false }
        }
        return true
    }

    private mutating func skipDigits() -> Bool {
        let start = offset
        while let byte = next, (0x30...0x39).contains(byte) { offset += 1 }
        return offset > start
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte | 0x20)
    }
}
