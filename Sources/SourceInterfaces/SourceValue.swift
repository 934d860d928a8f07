// JSON of any form: the bodies of these systems have members that depend on the app.

import FoundationEssentials

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
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return try Array(encoder.encode(self))
        } catch {
            // Only a number that is no number cannot be written, and none is read.
            preconditionFailure("\(self) is not encoded: \(error)")
        }
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

extension SourceValue: Encodable {
    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    public func encode(to encoder: any Encoder) throws {
        switch self {
        case .object(let object):
            var members = encoder.container(keyedBy: Key.self)
            for (name, value) in object {
                try members.encode(value, forKey: Key(stringValue: name))
            }
        case .array(let array):
            var elements = encoder.unkeyedContainer()
            for value in array { try elements.encode(value) }
        case .null:
            var value = encoder.singleValueContainer()
            try value.encodeNil()
        case .boolean(let boolean):
            var value = encoder.singleValueContainer()
            try value.encode(boolean)
        case .number(let number):
            var value = encoder.singleValueContainer()
            try value.encode(number)
        case .fraction(let number):
            var value = encoder.singleValueContainer()
            try value.encode(number)
        case .text(let text):
            var value = encoder.singleValueContainer()
            try value.encode(text)
        }
    }
}
