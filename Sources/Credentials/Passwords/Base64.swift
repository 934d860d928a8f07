// base64 of salts and digests, with or without padding [RFC 4648, 4].

enum Base64 {
    private static let symbols = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let padding = UInt8(ascii: "=")

    static func encode(_ bytes: [UInt8], isPadded: Bool) -> [UInt8] {
        var text: [UInt8] = []
        var (bits, count) = (UInt32(0), 0)
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            count += 8
            while count >= 6 {
                count -= 6
                text.append(symbols[Int(bits >> UInt32(count)) & 0x3F])
            }
        }
        if count > 0 { text.append(symbols[Int(bits << UInt32(6 - count)) & 0x3F]) }
        while isPadded, text.count % 4 != 0 { text.append(padding) }
        return text
    }

    /// The bytes of a text; nil if it has other symbols, or padding elsewhere than at its end.
    static func decode(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        var rest = text
        while rest.last == padding, text.count - rest.count < 2 { rest = rest.dropLast() }
        if text.count != rest.count, text.count % 4 != 0 { return nil }
        var bytes: [UInt8] = []
        var (bits, count) = (UInt32(0), 0)
        for symbol in rest {
            guard let value = symbols.firstIndex(of: symbol) else { return nil }
            bits = (bits << 6 | UInt32(value)) & 0xFFFF
            count += 6
            guard count >= 8 else { continue }
            count -= 8
            bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
        }
        // Six bits alone are no byte.
        return rest.count % 4 == 1 ? nil : bytes
    }
}
