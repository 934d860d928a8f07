// How ids and secrets of tokens are written: the 32 lower-case symbols of RFC 4648's base32. Five
// bits a symbol cost a few bytes more than base64, and in return a token has no character that a
// shell, a URL, a spreadsheet or a double click treats specially.

enum SecretAlphabet {
    private static let symbols = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)

    /// Unpredictable symbols, 5 bits each.
    static func randomSymbols(count: Int) -> [UInt8] {
        // 32 divides 256, so every symbol is equally likely.
        SystemRandom.bytes(count: count).map { symbols[Int($0 & 31)] }
    }

    /// The value of one symbol, 0...31; nil for any other byte.
    static func value(of symbol: UInt8) -> UInt8? {
        switch symbol {
        case UInt8(ascii: "a")...UInt8(ascii: "z"): symbol - UInt8(ascii: "a")
        case UInt8(ascii: "2")...UInt8(ascii: "7"): symbol - UInt8(ascii: "2") + 26
        default: nil
        }
    }

    static func symbol(of value: UInt8) -> UInt8 { symbols[Int(value & 31)] }
}
