// base64url without padding, read strictly [RFC 7515, 2; RFC 4648, 5]. One text for one sequence of
// bytes: a reader that tolerates more lets a token be altered without its signature noticing.

enum Base64URL {
    /// The bytes that `text` stands for; nil for padding, white space, symbols of the other
    /// alphabet, impossible lengths, and left-over bits that are not zero.
    static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count % 4 != 1 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count * 3 / 4)
        var accumulator: UInt32 = 0
        var bitCount = 0
        for symbol in text {
            guard let value = value(of: symbol) else { return nil }
            accumulator = accumulator << 6 | value
            bitCount += 6
            if bitCount >= 8 {
                bitCount -= 8
                bytes.append(UInt8(truncatingIfNeeded: accumulator >> UInt32(bitCount)))
                accumulator &= 1 << UInt32(bitCount) - 1
            }
        }
        return accumulator == 0 ? bytes : nil
    }

    private static func value(of symbol: UInt8) -> UInt32? {
        switch symbol {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(symbol - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(symbol - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(symbol - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
