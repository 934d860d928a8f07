// Members of queries and forms.

/// A member `NAME=VALUE` of `application/x-www-form-urlencoded`, the form of queries too.
struct SourceField: Hashable, Sendable {
    let name: String
    let value: String

    /// Reads members that are joined by `&`.
    ///
    /// - Throws: the status 400 for malformed ones, or for too many.
    static func read(_ text: [UInt8]) throws(SourceRefusal) -> [SourceField] {
        var fields: [SourceField] = []
        for pair in text.split(separator: UInt8(ascii: "&")) {
            let parts = pair.split(
                separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let name = unescaped(parts[0]),
                let value = unescaped(parts[1])
            else { throw SourceRefusal(400, "a member of the query or the form is malformed") }
            guard fields.count < SourceLimits.fieldsMaximum else {
                throw SourceRefusal(400, "more than \(SourceLimits.fieldsMaximum) members")
            }
            fields.append(SourceField(name: name, value: value))
        }
        return fields
    }

    /// Text without its escapes; a plus sign stands for a space. Nil where it is malformed.
    private static func unescaped(_ bytes: ArraySlice<UInt8>) -> String? {
        var text: [UInt8] = []
        var rest = bytes
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): text.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard let high = digit(rest.popFirst()), let low = digit(rest.popFirst()) else {
                    return nil
                }
                text.append(high << 4 | low)
            default: text.append(byte)
            }
        }
        return String(validating: text, as: UTF8.self)
    }

    private static func digit(_ byte: UInt8?) -> UInt8? {
        guard let byte, byte < 0x80 else { return nil }
        return Character(Unicode.Scalar(byte)).hexDigitValue.map { UInt8($0) }
    }
}
