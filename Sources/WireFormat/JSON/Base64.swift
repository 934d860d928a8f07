// Base64 with padding (RFC 4648, 4).

import Primitives

public enum Base64 {
    private static let alphabet: StaticString =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

    public static func append(_ content: RawSpan, to bytes: inout [UInt8]) {
        let alphabet = Self.alphabet.utf8Bytes
        var index = 0
        while index < content.byteCount {
            let count = min(3, content.byteCount - index)
            var group = UInt32(content[index]) << 16
            if count > 1 { group |= UInt32(content[index + 1]) << 8 }
            if count > 2 { group |= UInt32(content[index + 2]) }
            for place in 0..<4 {
                let value = Int(group >> UInt32(18 - 6 * place) & 0x3F)
                bytes.append(place <= count ? alphabet[value] : UInt8(ascii: "="))
            }
            index += 3
        }
    }

    /// Appends the bytes that a text stands for. Returns false for a text with another character,
    /// an incomplete group, or bits behind the last byte; then `bytes` has some of them.
    public static func append(decoding text: RawSpan, to bytes: inout [UInt8]) -> Bool {
        guard text.byteCount % 4 == 0 else { return false }
        var index = 0
        while index < text.byteCount {
            let isLast = index + 4 == text.byteCount
            var group: UInt32 = 0
            var count = 3
            for place in 0..<4 {
                let byte = text[index + place]
                if byte == UInt8(ascii: "="), isLast, place >= 2 {
                    // After the first padding character only another one may follow.
                    if place == 2, text[index + 3] != UInt8(ascii: "=") { return false }
                    count = min(count, place - 1)
                    group <<= 6
                    continue
                }
                guard let value = value(of: byte) else { return false }
                group = group << 6 | UInt32(value)
            }
            if count == 1, group & 0xFFFF != 0 { return false }
            if count == 2, group & 0xFF != 0 { return false }
            for place in 0..<count {
                bytes.append(UInt8(truncatingIfNeeded: group >> UInt32(16 - 8 * place)))
            }
            index += 4
        }
        return true
    }

    /// The six bits of a character; nil for one that is not of the alphabet.
    static func value(of byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): byte - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0") + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
