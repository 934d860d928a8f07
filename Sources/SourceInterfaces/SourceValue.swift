// JSON of any form: the bodies of these systems have members that depend on the app.

import WireFormat

/// A JSON value.
public indirect enum SourceValue: Hashable, Sendable {
    case null
    case boolean(Bool)
    case number(Int64)
    /// A number that is no whole one.
    case fraction(Double)
    case text(String)
    case array([SourceValue])
    case object([String: SourceValue])

    static func optional(_ text: String?) -> SourceValue { text.map { .text($0) } ?? .null }

    static func count(_ number: some BinaryInteger) -> SourceValue {
        .number(Int64(clamping: number))
    }

    /// As JSON. Members are in the order of their names.
    public var bytes: [UInt8] {
        var bytes: [UInt8] = []
        append(to: &bytes)
        return bytes
    }

    private func append(to bytes: inout [UInt8]) {
        switch self {
        case .null: bytes += "null".utf8
        case .boolean(let boolean): bytes += (boolean ? "true" : "false").utf8
        case .number(let number):
            if number < 0 { bytes.append(UInt8(ascii: "-")) }
            bytes.append(decimal: number.magnitude)
        // Of what is read, all are finite.
        case .fraction(let number): bytes += (number.isFinite ? "\(number)" : "null").utf8
        case .text(let text): Self.append(text, to: &bytes)
        case .array(let elements):
            bytes.append(UInt8(ascii: "["))
            for (index, element) in elements.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                element.append(to: &bytes)
            }
            bytes.append(UInt8(ascii: "]"))
        case .object(let members):
            bytes.append(UInt8(ascii: "{"))
            for (index, member) in members.sorted(by: { $0.key < $1.key }).enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                Self.append(member.key, to: &bytes)
                bytes.append(UInt8(ascii: ":"))
                member.value.append(to: &bytes)
            }
            bytes.append(UInt8(ascii: "}"))
        }
    }

    private static func append(_ text: String, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        bytes.append(escaped: text.utf8.span.bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    /// The text of a text or a number; nil for other values.
    var plainText: String? {
        switch self {
        case .text(let text): text
        case .number(let number): "\(number)"
        case .boolean(let boolean): boolean ? "1" : "0"
        default: nil
        }
    }
}
