// How many bytes a value has as JSON, without writing it: what lists are bounded by.

extension SourceValue {
    /// Bytes of ``bytes``, or a few more.
    var byteCountMaximum: Int {
        switch self {
        case .null: 4
        case .boolean: 5
        // The longest whole number has 20 characters, a fraction 24.
        case .number, .fraction: 24
        case .text(let text): Self.byteCount(of: text)
        case .array(let elements): elements.reduce(2) { $0 + 1 + $1.byteCountMaximum }
        case .object(let members):
            members.reduce(2) { $0 + 2 + Self.byteCount(of: $1.key) + $1.value.byteCountMaximum }
        }
    }

    /// Bytes of a text with its quotation marks.
    private static func byteCount(of text: String) -> Int {
        text.utf8.reduce(2) { count, byte in
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): count + 2
            // `\u0000`; a few have a short form.
            case ..<0x20: count + 6
            default: count + 1
            }
        }
    }
}
